"""A Gaussian prior whose width in each tensor is unknown, and integrated out."""

import math
from collections.abc import Sequence

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.potential import Prior
from tati_re.core.user_input import seeded
from tati_re.posterior.priors.base import Width
from tati_re.posterior.priors.quantiles import NormalMap


class Hierarchical(Prior):
    """Gaussians of unknown width, one width for each tensor (Neal 1996, section 3.2).

    The parameters of a tensor are N(0, s² τ²), and 1/τ² has a Gamma distribution of shape ν/2 and
    rate ν/2, whose mean is 1. Given the parameters, τ² has a distribution in closed form, so that it
    is integrated out: the k parameters of a tensor have a multivariate Student-t distribution,
    V = (ν + k)/2 log(1 + sum of θ_i²/(ν s_i²)) + a constant. `draw_widths` draws s τ from its
    posterior. At temperature T the prior alone, exp(-V/T), can be normalized if T is below
    1 + ν/k for every tensor.

    Args:
        scale: s, above 0: one number, or one per parameter, `(parameters,)`. Default: 1.
        degrees: ν, above 0; the larger, the closer τ is to 1. Default: 3.
        sizes: Numbers of parameters of the tensors, in their order. Default: none, one tensor of
            all parameters, whose number `num_parameters` gives.
        num_parameters: Number of parameters. Default: None, the sum of `sizes`.
        fan_in: Fan-in k of each parameter, `(parameters,)`; its width is divided by sqrt(k).
            Default: None, not divided.
        words: Description of the widths for messages. Default: None, their numbers.

    Raises:
        InputError: A scale or `degrees` is out of range, or neither `sizes` nor `num_parameters`
            is given.

    Examples:
        >>> str(Hierarchical(0.5, 4.0, sizes=[6, 2]))
        'Gaussians of unknown width, one for each tensor (4 degrees of freedom, scale 0.5)'
    """

    name = "hierarchical"
    option = "prior_scale"
    proper = True

    @front_door
    def __init__(
        self,
        scale=1.0,
        degrees: float = 3.0,
        sizes: Sequence[int] = (),
        num_parameters: int | None = None,
        fan_in=None,
        words: str | None = None,
    ) -> None:
        if not (degrees > 0 and math.isfinite(degrees)):
            raise InputError("prior_degrees: out of range.", degrees, "a finite number above 0")
        self.sizes = _checked_sizes(sizes, num_parameters)
        self.num_parameters = sum(self.sizes)
        self.degrees = float(degrees)
        self.width = Width(self.option, "a scale", scale, fan_in, words)
        refuse_if(
            self.width.num_parameters not in (None, self.num_parameters),
            "prior_scale: made for another number of parameters.",
            self.width.num_parameters,
            self.num_parameters,
        )
        self.scale = self.width.values
        self.hottest = 1.0 + self.degrees / max(self.sizes)
        self._log_normalizer = self._sum_of_constants()
        self._radii: NormalMap | None = None

    def log_prob(self, position) -> tf.Tensor:
        squares = self._squares(tf.cast(position, tf.float64) / self.scale)
        powers = tf.constant([(self.degrees + size) / 2 for size in self.sizes], tf.float64)
        logarithms = tf.math.log1p(squares / self.degrees)
        return -tf.reduce_sum(powers * logarithms, axis=-1) - self._log_normalizer

    def gradient(self, position) -> tf.Tensor:
        inverse = tf.constant(1 / self.scale, position.dtype)
        standard = position * inverse
        squares = self._squares(standard)
        numerators = tf.constant([self.degrees + size for size in self.sizes], position.dtype)
        factors = numerators / (tf.constant(self.degrees, position.dtype) + squares)
        return inverse * standard * self._spread(factors)

    def from_normal(self, normal) -> tf.Tensor:
        wide = tf.cast(normal, tf.float64)
        squares = self._squares(wide)
        if self._radii is None:
            self._radii = NormalMap(*_logarithms_of_stretch(self.sizes, self.degrees))
        sizes = tf.constant(self.sizes, tf.float64)
        stretch = tf.exp(self._radii(_scores(squares, sizes)))
        return tf.cast(self.scale * wide * self._spread(stretch), normal.dtype)

    @front_door
    def draw_widths(self, parameters, seed: int) -> np.ndarray:
        """Draws the widths of the tensors from their posterior, given the parameters.

        Args:
            parameters: Draws of the parameters, shape (draws, parameters).
            seed: Seed of the random numbers.

        Returns:
            s τ of each draw and tensor, shape (draws, tensors), in units of the parameters where
            `scale` is one number; else τ in units of the scales.

        Raises:
            InputError: The parameters have another shape.
        """
        values = np.asarray(parameters, np.float64)
        expected = f"(draws, {self.num_parameters})"
        shape_fits = values.ndim == 2 and values.shape[1] == self.num_parameters
        refuse_if(not shape_fits, "parameters: wrong shape.", values.shape, expected)
        pieces = np.split(values / self.scale, np.cumsum(self.sizes)[:-1], axis=1)
        squares = np.stack([(piece**2).sum(axis=1) for piece in pieces], axis=1)
        shapes = (self.degrees + np.array(self.sizes)) / 2
        random = seeded(seed, 0x5757)
        precisions = random.gamma(shapes, 2 / (self.degrees + squares))
        unit = self.scale if np.ndim(self.scale) == 0 else 1.0
        return unit / np.sqrt(precisions)

    def get_config(self) -> dict:
        return {"prior": self.name, **self.width.config(), "prior_degrees": self.degrees}

    def __str__(self) -> str:
        return (
            "Gaussians of unknown width, one for each tensor "
            f"({self.degrees:g} degrees of freedom, scale {self.width})"
        )

    def _squares(self, standard) -> tf.Tensor:
        """Sum of the squares of each tensor, shape (walkers, tensors)."""
        pieces = tf.split(tf.square(standard), self.sizes, axis=1)
        return tf.stack([tf.reduce_sum(piece, axis=1) for piece in pieces], axis=1)

    def _spread(self, of_tensors) -> tf.Tensor:
        """One number of each tensor for each of its parameters, shape (walkers, parameters)."""
        which = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return tf.gather(of_tensors, tf.constant(which, tf.int32), axis=1)

    def _sum_of_constants(self) -> float:
        """Sum over the tensors of -log of the density at 0."""
        nu = self.degrees
        of_tensors = [
            math.lgamma(nu / 2) - math.lgamma((nu + size) / 2) + size / 2 * math.log(nu * math.pi)
            for size in self.sizes
        ]
        if self.width.num_parameters is None:
            return sum(of_tensors) + sum(self.sizes) * math.log(self.scale)
        return sum(of_tensors) + float(np.sum(np.log(self.scale)))


def _checked_sizes(sizes: Sequence[int], num_parameters: int | None) -> list[int]:
    """The numbers of parameters of the tensors."""
    if not len(sizes):
        if num_parameters is None:
            raise InputError(
                "Hierarchical: the number of parameters is not known.",
                expected="sizes, or num_parameters",
            )
        sizes = [num_parameters]
    numbers = [int(size) for size in sizes]
    refuse_if(min(numbers) < 1, "sizes: a tensor is empty.", numbers, "numbers above 0")
    differs = num_parameters not in (None, sum(numbers))
    refuse_if(differs, "num_parameters is not the sum of sizes.", num_parameters, sum(numbers))
    return numbers


def _scores(squares, sizes):
    """Nearly normal numbers that grow with chi-squared ones (Wilson and Hilferty 1931).

    Args:
        squares: Squared lengths of standard normal vectors.
        sizes: Their dimensions.
    """
    deviation = (2 / (9 * sizes)) ** 0.5
    return ((squares / sizes) ** (1 / 3) - 1) / deviation + deviation


def _logarithms_of_stretch(sizes: Sequence[int], degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """By which factor a normal vector is stretched to one of the multivariate Student-t law.

    The direction stays. The length goes to that of equal probability below, as a function of the
    score of the squared length.

    Args:
        sizes: Dimensions of the vectors.
        degrees: ν.

    Returns:
        Logarithms of the factors at `NormalMap.nodes`, shape (different sizes, nodes), and the row
        of each vector, shape (vectors,).
    """
    different, rows = np.unique(sizes, return_inverse=True)
    tables = [_logarithm_of_stretch(int(size), degrees) for size in different]
    return np.stack(tables), rows


def _logarithm_of_stretch(size: int, degrees: float) -> np.ndarray:
    from scipy.stats import chi2, f

    deviation = math.sqrt(2 / (9 * size))
    roots = 1 + deviation * (NormalMap.nodes - deviation)
    squares = size * np.maximum(roots, 0.0) ** 3
    below = chi2.cdf(squares, size)
    with np.errstate(all="ignore"):
        upper = f.isf(chi2.sf(squares, size), size, degrees)
        stretched = size * np.where(below < 0.5, f.ppf(below, size, degrees), upper)
        logarithms = np.log(stretched / squares) / 2
    known = np.flatnonzero(np.isfinite(logarithms) & (stretched > 0))
    # Lengths so short or long that double precision has no probability for them never occur.
    return np.interp(np.arange(len(squares)), known, logarithms[known])
