"""Extra parameters of a likelihood, such as s = log σ of its noise, with priors of their own."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.potential import Prior
from tati_re.data.preparation import mean_and_deviation
from tati_re.likelihoods.contract import Objective
from tati_re.likelihoods.extra_parameters import BY_TARGET, NAME, SAMPLED, ExtraParameter
from tati_re.posterior.priors.product import Product
from tati_re.posterior.priors.quantiles import NormalMap


class ExtendedModel:
    """A model (`FlatModel`) with the extra parameters of a likelihood behind its own.

    Args:
        inside: The model.
        names: Names of the extra parameters, each a scalar, with which `tensor_names` ends.
        start: Where they start, shape (names,); later what `set` was given last. Default: 0.
        parameters: What is known of them, for their priors. Default: not known.
    """

    def __init__(
        self,
        inside: Any,
        names: Sequence[str],
        start: Sequence[float] | None = None,
        parameters: Sequence[ExtraParameter] = (),
    ) -> None:
        self.inside = inside
        self.extra_names = list(names)
        self.num_extra = len(self.extra_names)
        self.extra_parameters = tuple(parameters)
        self.samples_noise = NAME in {name.partition("[")[0] for name in names}
        self.extra = np.zeros(self.num_extra) if start is None else np.array(start, np.float64)
        self.num_parameters = inside.num_parameters + self.num_extra
        self.tensor_names = [*inside.tensor_names, *self.extra_names]
        self.shapes = [*inside.shapes, *([()] * self.num_extra)]

    def __getattr__(self, name: str) -> Any:
        if name == "inside":
            raise AttributeError(name)
        return getattr(self.inside, name)

    @property
    def head(self) -> Any:
        """The sampled part of the model with the same extra parameters; None if nothing is frozen."""
        return None if self.inside.head is None else extended_as(self.inside.head, self)

    def described(self) -> dict[str, Any]:
        shapes = [list(shape) for shape in self.shapes]
        return self.inside.described() | {
            "num": self.num_parameters,
            "names": self.tensor_names,
            "shapes": shapes,
        }

    def parameter_names(self) -> list[str]:
        return [*self.inside.parameter_names(), *self.extra_names]

    def get(self) -> np.ndarray:
        return np.append(self.inside.get(), np.asarray(self.extra, self.inside.dtype))

    def set(self, vector: Any) -> None:
        vector = np.asarray(vector)
        if vector.shape != (self.num_parameters,):
            raise InputError(
                "The parameters do not match the model.", vector.shape, f"({self.num_parameters},)"
            )
        num_inside = self.inside.num_parameters
        self.inside.set(vector[:num_inside])
        self.extra = np.array(vector[num_inside:], np.float64)

    def split(self, position: Any) -> list[Any]:
        num_inside = self.inside.num_parameters
        extra = [position[:, num_inside + number] for number in range(self.num_extra)]
        return [*self.inside.split(position[:, :num_inside]), *extra]

    def split_one(self, vector: Any) -> list[Any]:
        num_inside = self.inside.num_parameters
        extra = [vector[num_inside + number] for number in range(self.num_extra)]
        return [*self.inside.split_one(vector[:num_inside]), *extra]

    def join(self, weights: Any) -> Any:
        columns = [tf.reshape(value, (-1, 1)) for value in weights[-self.num_extra :]]
        return tf.concat([self.inside.join(weights[: -self.num_extra]), *columns], 1)

    def free(self, vectors: Any) -> Any:
        last = self.num_extra
        return tf.concat([self.inside.free(vectors[:, :-last]), vectors[:, -last:]], 1)

    def call(
        self, weights: Any, auxiliary: Any, x: Any, training: bool = False
    ) -> tuple[Any, tuple]:
        """The outputs (n, ...) of one walker, and the non-trainable variables after the call.

        Args:
            weights: Tensors of `shapes`; the extra parameters are the last and have no effect here.
            auxiliary: Values of the non-trainable variables, (*shape) each.
            x: Inputs, (n, ...).
            training: Whether layers act as in training. Default: False.
        """
        return self.inside.call(weights[: -self.num_extra], auxiliary, x, training)


class NoisePrior(Prior):
    """A prior of the noise σ, as the density of the parameter s = log σ that samplers move.

    With u = s - log(scale), in the units of the targets as the network sees them, the Jacobian
    included:

        half_normal     σ ~ abs(N(0, scale²)):                      V = exp(2u)/2 - u + a constant
        inverse_gamma   1/σ² ~ Gamma(shape a, rate a scale²):       V = a (2u + exp(-2u)) + a constant
        log_normal      s ~ N(log scale, shape²):                   V = u²/(2 shape²) + a constant
        gamma           σ ~ Gamma(shape a, scale):                  V = exp(u) - a u + a constant

    Args:
        name: Of the law.
        scale: Of σ, above 0.
        shape: Of the law, above 0. Default: 1.
        of: What σ is, in words. Default: the noise.
    """

    proper = True
    num_parameters = 1

    def __init__(
        self, name: str, scale: float, shape: float = 1.0, of: str = "the noise σ"
    ) -> None:
        self.name = name
        self.of = of
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
        if self.name == "gamma":
            return a * u - tf.exp(u) - math.lgamma(a)
        return -0.5 * tf.square(u / a) - math.log(a * math.sqrt(2 * math.pi))

    def gradient(self, position) -> tf.Tensor:
        u = position - tf.constant(math.log(self.scale), position.dtype)
        a = self.shape
        if self.name == "half_normal":
            return tf.exp(2 * u) - 1
        if self.name == "gamma":
            return tf.exp(u) - a
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
        if self.name == "gamma":
            lower = gammaincinv(self.shape, ndtr(z))
            upper = gammainccinv(self.shape, ndtr(-z))
            return np.log(np.where(z < 0, lower, upper))
        precision = np.where(
            z > 0, gammaincinv(self.shape, ndtr(-z)), gammainccinv(self.shape, ndtr(z))
        )
        return -0.5 * np.log(precision / self.shape)

    def get_config(self) -> dict:
        shape = {} if self.name == "half_normal" else {"noise_prior_shape": self.shape}
        return {"prior": self.name, "noise_prior_scale": self.scale, **shape}

    def __str__(self) -> str:
        law = {
            "half_normal": f"a half-normal prior of scale {self.scale:g}",
            "inverse_gamma": f"a prior with 1/σ² ~ Gamma({self.shape:g}, {self.shape * self.scale**2:g})",
            "gamma": f"a Gamma prior of shape {self.shape:g} and scale {self.scale:g}",
            "log_normal": f"a log-normal prior with median {self.scale:g} and standard deviation "
            f"{self.shape:g} of log σ",
        }[self.name]
        return f"for {self.of} {law}"


_SAMPLED = (SAMPLED, BY_TARGET)


def is_sampled(noise_std: Any) -> bool:
    """Whether `noise_std` asks for a noise that is a parameter."""
    return isinstance(noise_std, str) and noise_std in _SAMPLED


def _deviations(examples) -> np.ndarray:
    """Standard deviations of the training targets, each example by its weight, (columns,)."""
    targets = np.asarray(examples.targets, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return mean_and_deviation(targets.reshape(len(targets), -1), examples.weights)[1]


def _noise_scale(options, examples, extra: ExtraParameter) -> float:
    """The scale of a sampled noise, in the units of its parameter.

    It is that of the prior where it is a number, else the deviation of the target, or the largest
    of several.

    Raises:
        InputError: The targets do not vary.
    """
    if not isinstance(options.noise_prior_scale, str):
        return options.noise_prior_scale / extra.unit
    if extra.relative:
        return 1.0
    deviations = _deviations(examples)
    scale = float(deviations.max() if extra.target is None else deviations[extra.target])
    if not 0 < scale < math.inf:
        raise InputError(
            "noise_std: all targets are equal.", "sampled", "noise_prior_scale as well"
        )
    # 1 of all targets that are standardized: they share compiled programs.
    return float(np.float32(scale))


def resolved_noise(options, loss: object, dataset) -> float | str:
    """`noise_std` as given; by default "sampled" under the Gaussian likelihood, else 1.

    The default is sampled only where the targets vary. A mean loss and options of TATi have no such
    parameter.

    Args:
        options: Options of the run.
        loss: The loss that was given as an object in place of the option; None without one.
        dataset: The data as they were read.

    Returns:
        A number, "sampled", or "by_target" for several targets that all vary.
    """
    if "noise_std" in options.explicit:
        return options.noise_std
    likelihood = (
        loss is None and options.loss in (None, "gaussian") and dataset.task == "regression"
    )
    if not likelihood or options.potential != "posterior" or options.tati:
        return 1.0
    deviations = _deviations(dataset)
    varies = (deviations > 0) & (deviations < math.inf)
    if isinstance(options.noise_prior_scale, str) and not varies.any():
        return 1.0
    several = dataset.targets.ndim == 2 and len(deviations) > 1
    return BY_TARGET if several and varies.all() else SAMPLED


def target_names(dataset) -> tuple[str, ...]:
    """Names of the targets of one place: of the columns of the labels, else their numbers."""
    columns = int(dataset.targets.shape[-1]) if dataset.targets.ndim > 1 else 1
    names = tuple(dataset.label_names)
    plain = all(re.fullmatch(r"[\w.+-]+", name) for name in names)
    if len(names) != columns or not plain:
        return tuple(map(str, range(columns)))
    return names


def extended(flat, options, objective: Objective | None, examples):
    """The model with the extra parameters of an objective, at their starts, behind its own.

    Args:
        flat: The model.
        options: Those of the run, with the prior of the noise.
        objective: What is sampled; of a likelihood with constants, fitted. None: nothing is added.
        examples: The training data.
    """
    extras = () if objective is None else objective.extra_parameters
    if not extras:
        return flat
    starts = [
        _noise_scale(options, examples, extra) if extra.law == "noise" else extra.start
        for extra in extras
    ]
    return ExtendedModel(
        flat,
        [extra.name for extra in extras],
        [math.log(start) for start in starts],
        extras,
    )


def extended_as(flat: Any, like: Any) -> Any:
    """The model with the same extra parameters as another one.

    Args:
        flat: The model.
        like: A model with or without extra parameters.
    """
    if not like.num_extra:
        return flat
    return ExtendedModel(flat, like.extra_names, like.extra, like.extra_parameters)


def with_extra_starts(flat, position: np.ndarray) -> np.ndarray:
    """Positions with the extra parameters at their starts.

    Args:
        flat: The model, with or without extra parameters.
        position: Positions, (walkers, parameters); they are not changed.
    """
    if flat.num_extra:
        position = np.array(position)
        position[:, -flat.num_extra :] = flat.extra
    return position


def with_extra_priors(prior: Prior, options, flat: ExtendedModel, examples) -> Prior:
    """The prior of a model's weights together with the priors of its extra parameters.

    An inverse Gamma one of the noise counts as two more targets that are off by its scale: with all
    of their deviation, a noise of 0.06 (120 examples) came out at 0.15.

    Args:
        prior: The prior of the weights.
        options: Options of the run, with the prior of the noise.
        flat: The model with extra parameters.
        examples: Training data, whose deviations give the scale of the noise.
    """
    parts = [prior]
    sizes = [flat.inside.num_parameters]
    names = [flat.inside.tensor_names]
    if isinstance(prior, Product):
        parts = list(prior.parts)
        sizes = list(prior.sizes)
        names = list(prior.names)
    for extra in flat.extra_parameters:
        parts.append(_prior_of(extra, options, examples))
        sizes.append(1)
        names.append([extra.name])
    return Product(parts, sizes, names)


def _prior_of(extra: ExtraParameter, options, examples) -> NoisePrior:
    """The prior of an extra parameter."""
    if extra.law != "noise":
        return NoisePrior(extra.law, extra.scale, extra.shape, extra.text())
    part = 1.0
    if (options.noise_prior_scale, options.noise_prior) == ("auto", "inverse_gamma"):
        part = 0.3
    scale = part * _noise_scale(options, examples, extra)
    return NoisePrior(options.noise_prior, scale, options.noise_prior_shape)


def check_noise(noise_std: float | str, loss, dataset, flat, is_explicit: bool) -> None:
    """Refuses a sampled noise that no parameter stands for.

    Args:
        noise_std: The noise: a number, "sampled" or "by_target".
        loss: The loss of the run.
        dataset: The data set.
        flat: The model, with the extra parameters with which the parameters were counted.
        is_explicit: Whether the user gave `noise_std`.

    Raises:
        InputError: The loss has no such noise, the labels are classes, or the extra parameters
            differ from the model's.
    """
    sampled = is_sampled(noise_std)
    if is_explicit and loss.predicts_noise:
        raise InputError(
            f"noise_std: the network of {loss.name} predicts the noise.", noise_std, "no noise_std"
        )
    if sampled and not loss.samples_noise:
        expected = "loss gaussian, or no noise_std; and the loss in Simulation(...)"
        raise InputError(
            "noise_std: only the Gaussian likelihood has a sampled noise.",
            f"loss {loss.name}",
            expected,
        )
    problem = "noise_std: sampled noise needs numeric targets, but the labels are classes."
    refuse_if(
        sampled and dataset.num_classes is not None,
        problem,
        noise_std,
        "a number, or no classification loss",
    )
    names = [extra.name for extra in loss.objective.extra_parameters]
    if names == list(flat.extra_names):
        return
    other = sorted({*names} ^ {*flat.extra_names})[0].removeprefix("log_")
    option = "noise_std" if other.startswith("noise_std") else other
    received = noise_std if option == "noise_std" else "another value"
    problem = (
        f"{option}: sampled adds a parameter, and cannot change after the Simulation is created."
    )
    raise InputError(problem, received, f"{option} in Simulation(...)")
