"""Batch normalization while sampling: by fixed statistics, or by those of each mini-batch."""

from tati_re.core.backend import tf
from tati_re.core.errors import refuse_if
from tati_re.core.protocol import Rung
from tati_re.engine.noise import RecordingNoise
from tati_re.engine.zero_evaluate import ZeroEvaluate

LAYER = "BatchNormalization"


class _VarianceRequested(Exception):
    """A method wants the variance of a mini-batch's gradient."""


class _VarianceProbe(ZeroEvaluate):
    def gradient_variance(self, position):
        raise _VarianceRequested


def check_model(flat) -> None:
    """Refuses `batch_norm="batch"` for models that it would change in other ways, or not at all."""
    problem = "batch_norm: the model has no trainable batch normalization."
    refuse_if(
        LAYER not in flat.training_layers, problem, "batch", "batch_norm = frozen, the default"
    )
    others = [name for name in flat.training_layers if name != LAYER]
    problem = (
        "batch_norm: mini-batch statistics require the training behavior of all layers, and "
        "some of these "
    )
    problem += "draw random numbers."
    refuse_if(
        others, problem, ", ".join(others), "a model without such layers, or batch_norm = frozen"
    )


def sentence(options, flat) -> str | None:
    """A sentence about layers that act differently in training; None if there are none.

    Args:
        options: Options of the run, with `batch_norm`.
        flat: The model, a `FlatModel`.
    """
    if not flat.has_training_state:
        return None
    if options.batch_norm == "batch":
        return (
            "Batch normalization uses the statistics of each mini-batch, so U depends on "
            "the whole batch. Energies of all data, swaps and predictions use the moving "
            "averages of each walker."
        )
    frozen = "batch normalization at its moving statistics" if LAYER in flat.training_layers else ""
    random = [name for name in flat.training_layers if name != LAYER]
    augmenting = [name for name in random if name.startswith("Random")]
    off = "dropout off" if len(random) > len(augmenting) else ""
    unchanged = (
        f"unchanged examples without {', '.join(augmenting)}, which acts only in a fit"
        if augmenting
        else ""
    )
    return f"Sampling keeps {' and '.join(filter(None, (frozen, off, unchanged)))}."


def asks_for_variance(method, copies: int, flat) -> bool:
    """Whether a method needs gradients of single examples; its `init` is tried without data.

    Args:
        method: The sampler or optimizer.
        copies: Number of walkers at all temperatures.
        flat: The model, a `FlatModel`.
    """
    ones = tf.ones((copies,), tf.float64)
    position = tf.zeros((copies, flat.num_parameters), flat.dtype)
    try:
        method.init(
            position,
            _VarianceProbe(Rung(ones, ones, ones)),
            RecordingNoise(tf.as_dtype(flat.dtype)),
        )
    except _VarianceRequested:
        return True
    return False
