"""The potential at any points: losses, accuracies and gradients of many points, Hessian products at
one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tati_re.core.backend import Compiled, tf, value_and_gradient
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.potential import ModelPotential

_BLOCK = 64
_NUMBERS = (
    1 << 21
)  # Numbers that the widest layer holds at a time: what stays in a cache beside the weights.
_MOST_EXAMPLES = 8192


@front_doors
class Surface:
    """U, mean loss and accuracy of a simulation as functions of the parameters.

    They are evaluated on all training examples, or on one fixed mini-batch. Layers act as in
    prediction. Points are evaluated in blocks. If the model consists of dense layers, all points of
    a block share one product per layer.

    Args:
        system: A `tati_re.Simulation`, or a `tati_re.FunctionPotential`.
        batch_size: Number of examples in the fixed mini-batch, the first one of this size for the
            seed. Default: None, all examples.
        test: Whether `values` also returns loss and accuracy on the test set. Default: False.
        points: Number of points per block. Default: 64.

    Attributes:
        columns: The columns that `values` returns, in order.
        num_parameters: P.
        parameter_names: The P names of the parameters.
        tensor_names: Names of the tensors in the parameter vector.
        shapes: Shapes of these tensors.
        dtype: "float32" or "float64", the precision of the model.
        identity: The evaluated potential in one line.

    Raises:
        InputError: There is no test set, or the batch is larger than the data.

    Examples:
        >>> sim = tati_re.Simulation(data="two_clusters", seed=1)
        >>> Surface(sim).values(np.zeros((1, 3)))["loss"].round(2)
        array([1.])
    """

    @front_door
    def __init__(
        self,
        system: Any,
        *,
        batch_size: int | None = None,
        test: bool = False,
        points: int = _BLOCK,
    ) -> None:
        refuse_if(points < 1, "points is too small.", points, "at least 1")
        self.points = int(points)
        self._part: Any
        if not isinstance(system, FunctionPotential) and not system.system.has_data:
            system = system.system.potential(system.options, system.objects, copies=1)
        if isinstance(system, FunctionPotential):
            if batch_size is not None or test:
                raise InputError("A function has no examples: batch_size and test do not apply.")
            self._part = _OfFunction(system)
            self.tensor_names = list(system.parameter_names)
            self.shapes = [()] * system.num_parameters
            self.parameter_names = list(system.parameter_names)
        else:
            self._part = _OfModel(system, batch_size, test, self.points)
            flat = system.system.flat
            self.tensor_names = list(flat.tensor_names)
            self.shapes = list(flat.shapes)
            self.parameter_names = flat.parameter_names()
        self.num_parameters = len(self.parameter_names)
        self.columns: tuple[str, ...] = self._part.columns
        self.dtype: str = tf.as_dtype(self._part.potential.dtype).name

    @property
    def identity(self) -> str:
        """One line that identifies the data, loss, prior and batch of the surface."""
        return f"{self._part.identity} {self.tensor_names} {self.shapes} {self.dtype}"

    def values(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Returns loss, potential and the other `columns` at some points.

        Args:
            positions: The points, `(n, parameters)`.

        Returns:
            One float64 array `(n,)` per column: `loss`, `potential`, for a classifier `accuracy`,
            and with `test` also `test_loss` and `test_accuracy`.
        """
        positions = self._checked(positions)
        columns = {name: np.empty(len(positions)) for name in self.columns}
        for start in range(0, len(positions), self.points):
            rows = positions[start : start + self.points]
            for name, values in self._part.values(self._padded(rows)).items():
                columns[name][start : start + len(rows)] = values[: len(rows)]
        return columns

    def potential(self, position: np.ndarray) -> float:
        """Computes U at one point.

        Args:
            position: The point, shape (parameters,).

        Returns:
            U.
        """
        return float(self.values(np.asarray(position)[None])["potential"][0])

    def gradient(self, position: np.ndarray) -> tuple[float, np.ndarray]:
        """Computes U and ∇U at one point.

        Args:
            position: The point, shape (parameters,).

        Returns:
            U, and the gradient, shape (parameters,).
        """
        values, gradients = self.gradients(np.asarray(position)[None])
        return float(values[0]), gradients[0]

    def gradients(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes U and ∇U at several points, in float64.

        Args:
            positions: The points, shape (n, parameters).

        Returns:
            U, shape (n,), and the gradients, shape (n, parameters).
        """
        positions = self._checked(positions)
        parts = []
        for start in range(0, len(positions), self.points):
            rows = positions[start : start + self.points]
            parts.append(
                [gradient[: len(rows)] for gradient in self._part.gradient(self._padded(rows))]
            )
        values, gradients = (
            np.concatenate(part).astype(np.float64) for part in zip(*parts, strict=True)
        )
        return values, gradients

    def hessian_product(self, position: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Returns ∇²U at one point times one or several vectors, float64.

        Args:
            position: The point, `(parameters,)`.
            vectors: The vectors, `(parameters,)` or `(k, parameters)`.

        Returns:
            The products, in the shape of `vectors`.
        """
        position = self._checked(np.asarray(position)[None])[0]
        several = self._checked(np.atleast_2d(vectors))
        parts = []
        for rows in np.split(several, range(self.points, len(several), self.points)):
            padded = self._padded(rows)
            parts.append(
                self._part.product(np.repeat(position[None], len(padded), axis=0), padded)[
                    : len(rows)
                ]
            )
        return np.concatenate(parts).astype(np.float64).reshape(np.shape(vectors))

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        """Pads rows to one of a few sizes, since each size is compiled."""
        size = min(self.points, 1 << (len(rows) - 1).bit_length())
        return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])

    def _checked(self, positions: np.ndarray) -> np.ndarray:
        positions = np.asarray(positions)
        if positions.ndim != 2 or positions.shape[1] != self.num_parameters or not len(positions):
            received = f"shape {positions.shape}"
            raise InputError(
                "Points do not match the model.",
                received,
                f"(n, {self.num_parameters}), n at least 1",
            )
        return positions.astype(self.dtype)


class _OfModel:
    def __init__(self, sim: Any, batch_size: int | None, test: bool, points: int) -> None:
        options = sim.options
        self.potential: ModelPotential = sim.system.potential(options, sim.objects, copies=1)
        self._auxiliary = tuple(np.asarray(value[0]) for value in sim.walkers.auxiliary)
        self._indices = None
        if batch_size is not None and batch_size != self.potential.num_examples:
            indices, sizes = sim.system.batches(options, batch_size, copies=1).indices(0, 1)
            self._indices = indices[0, 0, : int(sizes[0])]
        accuracy = ("accuracy",) if self.potential.metric_name else ()
        self.columns = ("loss", "potential", *accuracy)
        if test:
            self.columns += ("test_loss", *(f"test_{name}" for name in accuracy))
            self._test = self.potential.test.x, self.potential.test.y
        potential = self.potential
        train = potential.train
        self._data = (train.x, train.y) if self._indices is None else train.gathered(self._indices)
        self._piece = int(
            np.clip(_NUMBERS // (points * _width(potential.flat.model)), 64, _MOST_EXAMPLES)
        )
        self._compiled: dict[str, Compiled] = {}

    @property
    def identity(self) -> str:
        potential = self.potential
        batch = "all" if self._indices is None else self._indices.tolist()
        settings = (
            potential.loss.get_config(),
            potential.prior.get_config(),
            potential.convention,
            batch,
        )
        acts = [
            (layer, getattr(layer, "activation", None)) for layer in potential.flat.model.layers
        ]
        layers = [
            (type(layer).__name__, getattr(activation, "__name__", ""))
            for layer, activation in acts
        ]
        frozen = [float(np.sum(np.asarray(value, np.float64))) for value in self._auxiliary]
        return f"{potential.dataset.fingerprint()} {settings} {layers} {frozen}"

    def _how(self, points: int) -> str:
        if points == 1:
            return "unrolled"
        return "vectorized" if self.potential.flat.vectorizable else "looped"

    def values(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        loss, right = self._mean(positions, self._data)
        prior = self.potential.log_prior(tf.constant(positions)).numpy()
        values = {"loss": loss, "potential": self.potential.scale * loss - prior, "accuracy": right}
        if "test_loss" in self.columns:
            values["test_loss"], values["test_accuracy"] = self._mean(positions, self._test)
        return {name: values[name] for name in self.columns}

    def _mean(self, positions: np.ndarray, data: tuple) -> tuple[np.ndarray, np.ndarray]:
        sums = sum(part.numpy() for part in self._over_pieces(self._sums_of_piece, data, positions))
        return sums[:, 0] / data[0].shape[0], sums[:, 1] / data[0].shape[0]

    def _over_pieces(self, function: Callable, data: tuple, *positions: np.ndarray) -> list:
        """`function(x, y, *positions, *extra)` of each piece of the examples."""
        points = len(positions[0])
        compiled = self._compiled.setdefault(function.__name__, Compiled(function))
        size = self._piece if points > 1 else _MOST_EXAMPLES
        extra = (tf.repeat(tf.constant(value)[None], points, axis=0) for value in self._auxiliary)
        return compiled.over_pieces(size, data, *positions, *extra)

    def _sums_of_piece(self, x, y, position, *extra):
        return self.potential.sums(position, x, y, extra, self._how(position.shape[0]))

    def _loss_and_gradient(self, position, extra, x, y):
        """Sum of the losses of some examples, and its gradient, for each point."""
        how = self._how(position.shape[0])
        x = self.potential.prepared(x)
        return self.potential.summed_loss_and_gradient(position, x, y, 1.0, extra, True, how)[:2]

    def _gradient_of_piece(self, x, y, position, *extra):
        loss, gradient = self._loss_and_gradient(position, extra, x, y)
        return loss, tf.cast(gradient, tf.float64)

    def _products_of_piece(self, x, y, position, vectors, *extra):
        def along(position):
            return tf.reduce_sum(self._loss_and_gradient(position, extra, x, y)[1] * vectors)

        return tf.cast(value_and_gradient(along, position)[1], tf.float64)

    def _of_prior(self, position):
        prior = self.potential.prior
        regularizer = self.potential.flat.regularizer
        gradient = prior.gradient(position)
        gradient = tf.zeros_like(position) if gradient is None else gradient
        value = -prior.log_prob(position)
        if regularizer is not None:
            more, force = self.potential.regularizer(position)
            value = value + more
            gradient = gradient + force
        return value, gradient

    def gradient(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = self._over_pieces(self._gradient_of_piece, self._data, positions)
        value, gradient = self._of_prior(tf.constant(positions))
        scale = self.potential.scale / self._data[0].shape[0]
        loss = scale * sum(part[0].numpy() for part in parts)
        return loss + value.numpy(), scale * sum(
            part[1].numpy() for part in parts
        ) + gradient.numpy()

    def product(self, positions: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        position = tf.constant(positions)
        along = tf.constant(vectors)
        scale = self.potential.scale / self._data[0].shape[0]
        parts = self._over_pieces(self._products_of_piece, self._data, positions, vectors)
        total = scale * sum(part.numpy() for part in parts)
        product = value_and_gradient(
            lambda x: tf.reduce_sum(self._of_prior(x)[1] * along), position
        )[1]
        return total + product.numpy()


class _OfFunction:
    columns = ("loss", "potential")

    def __init__(self, potential: FunctionPotential) -> None:
        self.potential = potential
        self._gradients = Compiled(self._loss_and_gradient)
        self._products = Compiled(self._product)

    @property
    def identity(self) -> str:
        """The prior, and the function by its values at four places, which are always the same."""
        probes = np.random.default_rng(0).standard_normal((4, self.potential.num_parameters))
        losses = self.values(probes.astype(tf.as_dtype(self.potential.dtype).name))["loss"]
        return f"a function, {self.potential.prior.get_config()}, {' '.join(f'{loss:.5g}' for loss in losses)}"

    def _loss_and_gradient(self, position):
        loss, gradient = value_and_gradient(self.potential.function, position)
        more = self.potential.prior.gradient(position)
        potential = tf.cast(loss, tf.float64) - self.potential.prior.log_prob(position)
        return tf.cast(loss, tf.float64), potential, gradient if more is None else gradient + more

    def _product(self, position, vectors):
        return value_and_gradient(
            lambda x: tf.reduce_sum(self._loss_and_gradient(x)[2] * vectors), position
        )[1]

    def values(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        loss, potential, _ = self._gradients(positions)
        return {"loss": loss.numpy(), "potential": potential.numpy()}

    def gradient(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, potential, gradient = self._gradients(positions)
        return potential.numpy(), gradient.numpy()

    def product(self, positions: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return self._products(positions, vectors).numpy()


def _width(model: Any) -> int:
    widths = [int(np.prod(model.output_shape[1:], dtype=np.int64))]
    for layer in model.layers:
        try:
            shape = layer.output.shape
        except (AttributeError, ValueError):
            continue
        widths.append(int(np.prod([size or 1 for size in shape[1:]], dtype=np.int64)))
    # A layer without parameters before the first one, such as Flatten, holds the inputs once for
    # all points.
    sizes = [
        int(variable.shape[-1]) for variable in model.trainable_variables if len(variable.shape) > 1
    ]
    dense_only = all(len(variable.shape) <= 2 for variable in model.trainable_variables)
    return max(sizes) if dense_only and sizes else max(widths)
