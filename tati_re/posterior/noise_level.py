"""The noise of a Gaussian likelihood as one more parameter, s = log σ, with a prior of its own."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.potential import Prior
from tati_re.data.preparation import mean_and_deviation
from tati_re.posterior.priors.product import Product
from tati_re.posterior.priors.quantiles import NormalMap

NAME = "log_noise_std"
"""The name of the parameter, the last of the vector."""
SAMPLED = "sampled"


class NoisyModel:
    """A model (`FlatModel`) with s = log σ of the likelihood's noise behind its parameters:
    `tensor_names` and `shapes` end with `log_noise_std`, a scalar. `log_noise` is where s starts,
    later what `set` was given last.
    """

    samples_noise = True

    def __init__(self, inside: Any, log_noise: float = 0.0) -> None:
        self.inside = inside
        self.log_noise = float(log_noise)
        self.num_parameters = inside.num_parameters + 1
        self.tensor_names = [*inside.tensor_names, NAME]
        self.shapes = [*inside.shapes, ()]

    def __getattr__(self, name: str) -> Any:
        if name == "inside":
            raise AttributeError(name)
        return getattr(self.inside, name)

    def described(self) -> dict[str, Any]:
        shapes = [list(shape) for shape in self.shapes]
        return self.inside.described() | {
            "num": self.num_parameters,
            "names": self.tensor_names,
            "shapes": shapes,
        }

    def parameter_names(self) -> list[str]:
        return [*self.inside.parameter_names(), NAME]

    def get(self) -> np.ndarray:
        return np.append(self.inside.get(), np.asarray(self.log_noise, self.inside.dtype))

    def set(self, vector: Any) -> None:
        vector = np.asarray(vector)
        if vector.shape != (self.num_parameters,):
            raise InputError(
                "The parameters do not fit the model.", vector.shape, f"({self.num_parameters},)"
            )
        self.inside.set(vector[:-1])
        self.log_noise = float(vector[-1])

    def split(self, position: Any) -> list[Any]:
        return [*self.inside.split(position[:, :-1]), position[:, -1]]

    def split_one(self, vector: Any) -> list[Any]:
        return [*self.inside.split_one(vector[:-1]), vector[-1]]

    def join(self, weights: Any) -> Any:
        return tf.concat([self.inside.join(weights[:-1]), tf.reshape(weights[-1], (-1, 1))], 1)

    def free(self, vectors: Any) -> Any:
        return tf.concat([self.inside.free(vectors[:, :-1]), vectors[:, -1:]], 1)

    def call(
        self, weights: Any, auxiliary: Any, x: Any, training: bool = False
    ) -> tuple[Any, tuple]:
        return self.inside.call(weights[:-1], auxiliary, x, training)


class NoisePrior(Prior):
    """A prior of the noise σ, as the density of the parameter s = log σ that samplers move.

    With u = s - log(scale), in the units of the targets as the network sees them, the Jacobian
    included:

        half_normal     σ ~ abs(N(0, scale²)):                      V = exp(2u)/2 - u + a constant
        inverse_gamma   1/σ² ~ Gamma(shape a, rate a scale²):       V = a (2u + exp(-2u)) + a constant
        log_normal      s ~ N(log scale, shape²):                   V = u²/(2 shape²) + a constant
    """

    proper = True
    num_parameters = 1

    def __init__(self, name: str, scale: float, shape: float = 1.0) -> None:
        self.name = name
        self.scale = float(scale)
        self.shape = float(shape)
        self._map: NormalMap | None = None

    def log_prob(self, position) -> tf.Tensor:
        u = tf.cast(position, tf.float64)[:, 0] - math.log(self.scale)
        a = self.shape
        if self.name == "half_normal":
            return 0.5 * math.log(2 / math.pi) + u - tf.exp(2 * u) / 2
        if self.name == "inverse_gamma":
            return math.log(2) + a * math.log(a) - math.lgamma(a) - a * (2 * u + tf.exp(-2 * u))
        return -0.5 * tf.square(u / a) - math.log(a * math.sqrt(2 * math.pi))

    def gradient(self, position) -> tf.Tensor:
        u = position - tf.constant(math.log(self.scale), position.dtype)
        a = self.shape
        if self.name == "half_normal":
            return tf.exp(2 * u) - 1
        return 2 * a * (1 - tf.exp(-2 * u)) if self.name == "inverse_gamma" else u / a**2

    def from_normal(self, normal) -> tf.Tensor:
        if self.name == "log_normal":
            u = self.shape * tf.cast(normal, tf.float64)
        else:
            if self._map is None:
                self._map = NormalMap(self._quantiles(NormalMap.nodes)[None])
            u = self._map(normal)
        return tf.cast(u + math.log(self.scale), normal.dtype)

    def _quantiles(self, z: np.ndarray) -> np.ndarray:
        from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri

        if self.name == "half_normal":
            # |N| has the quantile p where N has (1 + p)/2; near 0 it is p sqrt(π/2), which the
            # difference would lose.
            return np.log(
                np.where(
                    z < -4, ndtr(z) * math.sqrt(math.pi / 2), -ndtri(ndtr(-np.maximum(z, -5)) / 2)
                )
            )
        precision = np.where(
            z > 0, gammaincinv(self.shape, ndtr(-z)), gammainccinv(self.shape, ndtr(z))
        )
        return -0.5 * np.log(precision / self.shape)

    def get_config(self) -> dict:
        shape = {} if self.name == "half_normal" else {"noise_prior_shape": self.shape}
        return {"prior": self.name, "noise_prior_scale": self.scale, **shape}

    def __str__(self) -> str:
        law = {
            "half_normal": f"a half normal law of scale {self.scale:g}",
            "inverse_gamma": f"a law by which 1/σ² is Gamma({self.shape:g}, {self.shape * self.scale**2:g})",
            "log_normal": f"a log-normal law of median {self.scale:g} and deviation {self.shape:g} of log σ",
        }[self.name]
        return f"of the noise σ {law}"


def _spread(examples) -> float:
    """The standard deviation of the training targets, the largest of several, each example by its
    weight.
    """
    targets = np.asarray(examples.targets, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(
            mean_and_deviation(targets.reshape(len(targets), -1), examples.weights)[1].max()
        )


def noise_start(options, examples) -> float:
    """Where a sampled noise starts: at the scale of its prior where it is a number, else at the
    targets' deviation.
    """
    if not isinstance(options.noise_prior_scale, str):
        return options.noise_prior_scale
    if not (0 < (scale := _spread(examples)) < math.inf):
        raise InputError(
            "noise_std: the targets do not vary.", "sampled", "noise_prior_scale as well"
        )
    return float(
        np.float32(scale)
    )  # 1 of all targets that are standardized: they share compiled programs


def settled_noise(options, loss: object, dataset) -> float | str:
    """`noise_std` as given; by default sampled under the Gaussian likelihood of targets that vary,
    else 1. A mean loss and options of TATi have no such parameter; `loss` is an object in place of
    the option.
    """
    if "noise_std" in options.explicit:
        return options.noise_std
    likelihood = (
        loss is None and options.loss in (None, "gaussian") and dataset.task == "regression"
    )
    if not likelihood or options.potential != "posterior" or options.tati:
        return 1.0
    return (
        SAMPLED
        if not isinstance(options.noise_prior_scale, str) or 0 < _spread(dataset) < math.inf
        else 1.0
    )


def with_noise(flat, noise_std: float | str, scale: Callable[[], float] | None = None):
    """The model with the noise, from `scale` on (default: 1), behind its parameters where
    `noise_std` is sampled.
    """
    return (
        flat
        if noise_std != SAMPLED
        else NoisyModel(flat, 0.0 if scale is None else math.log(scale()))
    )


def with_noise_of(flat, position: np.ndarray) -> np.ndarray:
    """Positions `(walkers, parameters)` with the noise, where it is sampled, at its start."""
    if flat.samples_noise:
        position = np.array(position)
        position[:, -1] = flat.log_noise
    return position


def with_noise_prior(prior: Prior, options, flat, examples) -> Prior:
    """The prior of a model's weights together with that of its noise. An inverse Gamma one counts
    as two more targets that are off by its scale: with all of their deviation, a noise of 0.06 (120
    examples) came out at 0.15.
    """
    part = (
        0.3
        if (options.noise_prior_scale, options.noise_prior) == ("auto", "inverse_gamma")
        else 1.0
    )
    noise = NoisePrior(
        options.noise_prior, part * noise_start(options, examples), options.noise_prior_shape
    )
    parts = [prior]
    sizes = [flat.num_parameters - 1]
    names = [flat.tensor_names[:-1]]
    if isinstance(prior, Product):
        parts = prior.parts
        sizes = prior.sizes
        names = prior.names
    return Product([*parts, noise], [*sizes, 1], [*names, [NAME]])


def check_noise(noise_std: float | str, loss, dataset, flat, given: bool) -> None:
    """Refuses noise that is to be sampled where nothing has it, or that was not when the parameters
    were counted.
    """
    sampled = noise_std == SAMPLED
    has = flat.samples_noise
    if given and loss.predicts_noise:
        raise InputError(
            f"noise_std: the network of {loss.name} predicts the noise.", noise_std, "no noise_std"
        )
    what = "noise_std: sampled adds a parameter, and cannot change after the Simulation is created."
    refuse_if(sampled != has, what, noise_std, "noise_std in Simulation(...)")
    if sampled and loss.name != "gaussian":
        expected = "loss gaussian, or no noise_std; and the loss in Simulation(...)"
        raise InputError(
            "noise_std: sampled is a parameter of the Gaussian likelihood.",
            f"loss {loss.name}",
            expected,
        )
    what = "noise_std: sampled is the noise of values, and the labels are classes."
    refuse_if(
        sampled and dataset.num_classes is not None,
        what,
        noise_std,
        "a number, or no loss for one of classes",
    )
