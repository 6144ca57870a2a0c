"""Batch normalization while sampling: by fixed statistics, or by those of each mini-batch."""

from __future__ import annotations

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.protocol import Rung
from tati_re.engine.noise import RecordingNoise
from tati_re.engine.silent import SilentEvaluate

LAYER = "BatchNormalization"


class _VarianceRequested(Exception):
    """A method wants the variance of a mini-batch's gradient."""


class _VarianceProbe(SilentEvaluate):
    def gradient_variance(self, position):
        raise _VarianceRequested


def check_model(flat) -> None:
    """Refuses `batch_norm="batch"` for models that it would change in other ways, or not at all.

    Args:
        flat: The model as a function of a flat vector.

    Raises:
        InputError: No layer of batch normalization, or other layers that act differently while training.
    """
    if LAYER not in flat.training_layers:
        raise InputError(
            "batch_norm: the model has no batch normalization that trains.", "batch", "batch_norm = frozen, the default"
        )
    others = [name for name in flat.training_layers if name != LAYER]
    if others:
        raise InputError(
            "batch_norm: statistics of mini-batches come with the training behavior of all layers, and some of these "
            "draw random numbers.",
            received=", ".join(others),
            expected="a model without such layers, or batch_norm = frozen",
        )


def check_method(options, flat, method, copies: int) -> None:
    """Refuses `batch_norm="batch"` for methods that it would make wrong.

    Args:
        options: `batch_norm` and what else the run has.
        flat: The model as a function of a flat vector.
        method: The sampler, with all that is wrapped around it.
        copies: Walkers at all temperatures.

    Raises:
        InputError: The model is not of the kind, or a method that weighs energies of all data, corrects gradients by
            them, or needs gradients of single examples.
    """
    if options.batch_norm != "batch":
        return
    check_model(flat)
    if method.full_batch:
        raise InputError(
            f"batch_norm: {method.name} weighs energies of all data, for which the statistics must be fixed.",
            received="batch",
            expected="batch_norm = frozen, or a method for mini-batches such as BAOAB",
        )
    if options.control_variate:
        raise InputError(
            "batch_norm: control_variate takes the gradient of all data for the mean of those of mini-batches, which "
            "it is not where each batch has its own statistics.",
            received="batch",
            expected="batch_norm = frozen, or no control_variate",
        )
    if _asks_for_variance(method, copies, flat):
        raise InputError(
            f"batch_norm: {method.name} needs gradients of single examples, which do not exist where a batch is "
            "normalized by its own statistics.",
            received="batch",
            expected="batch_norm = frozen, or another sampler",
        )


def sentence(options, flat) -> str | None:
    """What the start of a run says about layers that act differently while training; None where there are none."""
    if not flat.has_training_state:
        return None
    if options.batch_norm == "batch":
        return (
            "Batch normalization takes the statistics of each mini-batch, so that U depends on the whole batch; "
            "energies of all data, swaps and predictions take the moving averages of each walker."
        )
    frozen = "batch normalization at its moving statistics" if LAYER in flat.training_layers else ""
    random = [name for name in flat.training_layers if name != LAYER]
    augmenting = [name for name in random if name.startswith("Random")]
    off = "dropout off" if len(random) > len(augmenting) else ""
    unchanged = f"examples as they are, without {', '.join(augmenting)}, which only a fit sees" if augmenting else ""
    return f"Sampling keeps {' and '.join(filter(None, (frozen, off, unchanged)))}."


def _asks_for_variance(method, copies: int, flat) -> bool:
    ones = tf.ones((copies,), tf.float64)
    position = tf.zeros((copies, flat.num_parameters), flat.dtype)
    try:
        method.init(position, _VarianceProbe(Rung(ones, ones, ones)), RecordingNoise(tf.as_dtype(flat.dtype)))
    except _VarianceRequested:
        return True
    return False
