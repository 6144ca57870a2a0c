"""Optimizers: they have the form of a sampler, `init` and `step`, and run in the same engine.

Every walker descends on U divided by the scale of L (N, or 1 under `mean_loss`): the mean loss that Keras users know,
plus V/N, so that
learning rates keep their usual size. The minimum is that of U: the mode of the posterior.
"""

from __future__ import annotations

from tati_re.errors import InputError, nearest
from tati_re.optimizers.gradient_descent import GradientDescent
from tati_re.optimizers.keras_optimizer import KerasOptimizer, keras_optimizers

__all__ = ["GradientDescent", "KerasOptimizer", "make_optimizer"]


def make_optimizer(name, learning_rate: float, shapes: list[tuple[int, ...]], num_walkers: int):
    """The optimizer that an option names.

    Args:
        name: "gradient_descent", the name of a Keras optimizer, or a Keras optimizer (then its own learning rate
            counts).
        learning_rate: Above 0.
        shapes: Of the model's weights, in the order of the flat vector.
        num_walkers: How many descend at once.

    Raises:
        InputError: There is no such optimizer (with the nearest name).
    """
    if isinstance(name, str) and name.lower() in ("gradient_descent", "gradientdescent"):
        return GradientDescent()
    if isinstance(name, str) and name.lower() not in keras_optimizers():
        names = ["gradient_descent", *keras_optimizers()]
        raise InputError(
            f"optimizer: there is none of this name.{nearest(name, names)}",
            received=repr(name),
            expected=", ".join(names),
        )
    return KerasOptimizer(name, learning_rate, shapes, num_walkers)
