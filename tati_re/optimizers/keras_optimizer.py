"""Any Keras optimizer as a method of the engine. Under TensorFlow, Keras' optimizers only change
variables. Here those variables are scratch space: a step writes the state into them, lets Keras
update them, and reads the new state out again, so that it is as pure as every other step.
"""

import inspect
import math

from tati_re.core.backend import keras, tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.method import Optimizer
from tati_re.core.protocol import Info, with_energy
from tati_re.samplers.sgld import SGLD
from tati_re.samplers.wrappers.coordinates import extend

_BY_NUMBER = ("sgd", "rmsprop", "adam", "adamw", "adadelta", "adagrad", "adamax", "nadam", "lion")
"""Update each number by its own gradients: all weights of all walkers may be one tensor, some 30
operations.
"""


class KerasOptimizer(Optimizer):
    """A Keras optimizer, applied to the weights of each walker separately.

    It is applied tensor by tensor if its update rule requires that.

    Args:
        optimizer: A name such as "adam" or "sgd", or a Keras optimizer object.
        learning_rate: Learning rate reported by `get_config` for a name; each step uses the
            walkers' `step_size`.
        shapes: Shapes of the model's weights, in the order of the flat vector.
        num_walkers: W.
        momentum: Momentum for a name of an optimizer that supports it, such as "sgd". Default: 0.

    Attributes:
        learning_rate: The learning rate of an object, nan for a schedule; None for a name.
        scheduled: Whether an object has a schedule, which then sets the learning rate. Otherwise a
            step uses the first walker's `step_size`.

    Raises:
        InputError: The optimizer does not support momentum, or uses a global norm over several
            walkers.
    """

    def __init__(
        self,
        optimizer,
        learning_rate: float,
        shapes: list[tuple[int, ...]],
        num_walkers: int,
        momentum: float = 0.0,
    ) -> None:
        if isinstance(optimizer, str):
            extra = {"momentum": momentum} if momentum else {}
            optimizer = keras_optimizers()[optimizer.lower()](learning_rate=learning_rate, **extra)
            constant_rate = None
            self.scheduled = False
        else:
            excludes = "_exclude_from_weight_decay" in vars(optimizer)
            problem = "optimizer: weight decay must be the same for all weights."
            refuse_if(
                excludes,
                problem,
                "exclude_from_weight_decay",
                "weight_decay for all, or a prior for each layer",
            )
            optimizer = type(optimizer).from_config(optimizer.get_config())
            self.scheduled = not isinstance(optimizer.get_config()["learning_rate"], float)
            constant_rate = math.nan if self.scheduled else float(optimizer.learning_rate)
        if getattr(optimizer, "global_clipnorm", None) and num_walkers > 1:
            problem = "optimizer: global_clipnorm would use one norm for all walkers."
            raise InputError(problem, f"{num_walkers} walkers", "clipnorm, or one walker")
        refuse_if(
            optimizer.use_ema,
            "optimizer: averages of weights are not supported.",
            "use_ema",
            "use_ema=False",
        )
        problem = "optimizer: loss scaling is not supported; it would divide the steps."
        refuse_if(
            optimizer.loss_scale_factor,
            problem,
            f"loss_scale_factor={optimizer.loss_scale_factor}",
            "none",
        )
        self.optimizer = optimizer
        self.learning_rate = constant_rate
        self.name = type(optimizer).__name__.lower()
        known = type(optimizer) is keras_optimizers().get(self.name) and self.name in _BY_NUMBER
        updates_jointly = known and optimizer.clipnorm is None and optimizer.global_clipnorm is None
        walker_shapes = [tuple(shape) for shape in shapes]
        self._shapes = (
            [(num_walkers * sum(map(math.prod, walker_shapes)),)]
            if updates_jointly
            else walker_shapes * num_walkers
        )
        self._built = False

    def _build(self, dtype: tf.DType) -> None:
        if not self._built:
            self._variables = [
                keras.Variable(tf.zeros(shape, dtype), dtype=dtype.name) for shape in self._shapes
            ]
            self.optimizer.build(self._variables)
            self._built = True

    def _split(self, flat) -> list:
        pieces = tf.split(tf.reshape(flat, [-1]), [math.prod(shape) for shape in self._shapes])
        return [tf.reshape(piece, shape) for piece, shape in zip(pieces, self._shapes, strict=True)]

    def init(self, position, evaluate, noise):
        """The state before the first step, with the optimizer's variables, `slots`.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        with tf.init_scope():
            self._build(position.dtype)
        slots = [tf.convert_to_tensor(variable.value) for variable in self.optimizer.variables]
        return extend(SGLD.init(self, position, evaluate, noise), slots=slots)

    def step(self, state, evaluate, noise):
        with tf.init_scope():
            self._build(state.position.dtype)
        slot_variables = self.optimizer.variables
        for variable, value in zip(
            [*slot_variables, *self._variables],
            [*state.slots, *self._split(state.position)],
            strict=True,
        ):
            variable.assign(value)
        if not self.scheduled:
            rate = self.optimizer.learning_rate
            rate.assign(tf.cast(state.rung.step_size[0], rate.dtype))
        self.optimizer.apply(self._split(state.gradient / evaluate.scale), self._variables)
        pieces = [
            tf.reshape(tf.convert_to_tensor(variable.value), [-1]) for variable in self._variables
        ]
        position = tf.reshape(tf.concat(pieces, 0), state.position.shape)
        slots = [tf.convert_to_tensor(variable.value) for variable in slot_variables]
        position, _ = evaluate.confine(position, None)
        return with_energy(
            state._replace(position=position, slots=slots), evaluate(position)
        ), Info()

    def get_config(self) -> dict:
        config = {
            k: v
            for k, v in self.optimizer.get_config().items()
            if isinstance(v, (str, int, float, bool))
        }
        return {
            "optimizer": self.name,
            **{key: value for key, value in config.items() if key != "name"},
        }


def keras_optimizers() -> dict[str, type]:
    optimizers = {}
    for name, value in vars(keras.optimizers).items():
        made = inspect.isclass(value) and issubclass(value, keras.optimizers.Optimizer)
        if made and name not in ("Optimizer", "LossScaleOptimizer", "MultiOptimizer"):
            optimizers[name.lower()] = value
    return dict(sorted(optimizers.items()))


def with_momentum() -> list[str]:
    return [
        name
        for name, made in keras_optimizers().items()
        if "momentum" in inspect.signature(made).parameters
    ]
