"""Optimizers: methods with `init` and `step` like a sampler, run by the same engine.

Every walker descends on U divided by the scale of L (N, or 1 under `mean_loss`): the mean loss that
Keras users know, plus V/N, so that learning rates keep their usual size. The minimum is that of U:
the mode of the posterior. Adding an optimizer touches one new file and one line of `OPTIMIZERS`. An
argument out of the range that its line names is an `InputError`.
"""

from tati_re.core.backend import keras
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.method import Optimizer
from tati_re.optimizers.annealing import Annealing
from tati_re.optimizers.barzilai_borwein import BarzilaiBorwein
from tati_re.optimizers.fire import Fire
from tati_re.optimizers.gradient_descent import GradientDescent
from tati_re.optimizers.keras_optimizer import KerasOptimizer, keras_optimizers, with_momentum

__all__ = [
    "Annealing",
    "BarzilaiBorwein",
    "Fire",
    "GradientDescent",
    "KerasOptimizer",
    "Optimizer",
    "make_optimizer",
]

OPTIMIZERS = {
    "gradient_descent": lambda options: GradientDescent(),
    "barzilai_borwein": lambda options: BarzilaiBorwein(options.barzilai_borwein_step),
    "fire": lambda options: Fire(),
    "annealing": lambda options: Annealing(
        start_temperature=options.annealing_start_temperature,
        cooling=options.annealing_cooling,
        stage_steps=options.annealing_stage_steps,
        validations=options.annealing_validations,
        momentum=options.momentum,
    ),
}


@front_door
def make_optimizer(name, options, shapes: list[tuple[int, ...]]):
    """Creates the optimizer named in the options.

    Args:
        name: A name from `OPTIMIZERS` (GradientDescent is gradient_descent), the name of a Keras
            optimizer, an `Optimizer`, or a Keras optimizer object, which keeps its learning rate
            and momentum.
        options: Source of `learning_rate`, `num_walkers`, `momentum` and the tuning parameters.
        shapes: Shapes of the model's weights, in the order of the flat vector.

    Returns:
        The optimizer, ready for a compiled step.

    Raises:
        InputError: There is no such optimizer (the message suggests the closest name), or it does
            not support momentum.
    """
    names_without_underscore = {known.replace("_", ""): known for known in OPTIMIZERS}
    short = (
        names_without_underscore.get(name.lower().replace("_", ""))
        if isinstance(name, str)
        else None
    )
    if isinstance(name, str) and short is None and name.lower() not in keras_optimizers():
        names = [*OPTIMIZERS, *keras_optimizers()]
        raise InputError(
            f"optimizer: unknown name.{nearest(name, names)}", repr(name), ", ".join(names)
        )
    kinds = (str, Optimizer, keras.optimizers.Optimizer)
    expected = "a name such as adam, or an optimizer object of Keras or tati_re"
    refuse_if(
        not isinstance(name, kinds),
        "optimizer: this is not an optimizer.",
        type(name).__name__,
        expected,
    )
    if options.momentum:
        problem = "momentum: an optimizer object has its own."
        known = short or str(name).lower()
        refuse_if(
            not isinstance(name, str),
            problem,
            options.momentum,
            "no momentum together with the object",
        )
        takers = [*with_momentum(), "annealing"]
        expected = f"optimizer {', '.join(takers)}"
        refuse_if(
            known not in takers, f"momentum: {known} does not use it.", options.momentum, expected
        )
    if short is not None:
        return OPTIMIZERS[short](options)
    if isinstance(name, Optimizer):
        return name
    return KerasOptimizer(
        optimizer=name,
        learning_rate=options.learning_rate,
        shapes=shapes,
        num_walkers=options.num_walkers,
        momentum=options.momentum,
    )
