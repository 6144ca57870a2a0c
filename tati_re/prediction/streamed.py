"""Predictions that a run accumulated while it sampled."""

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.dataset import class_weights_note
from tati_re.engine.prediction_averages import PREFIX
from tati_re.posterior.predictive import without_noise
from tati_re.prediction import results
from tati_re.prediction.metrics import class_labels
from tati_re.prediction.scores import normal_crps
from tati_re.runs import checkpoint
from tati_re.runs.run import RunFiles


def _streamed_averages(run: RunFiles) -> dict[str, np.ndarray]:
    """The running averages of predictions in the last checkpoint of a run, by name."""
    arrays, _, _ = checkpoint.load(run.folder)
    sums = ("count", "weight", "weight_squares")
    is_there = f"{PREFIX}count" in arrays
    counted = is_there and all(arrays.of_shape(f"{PREFIX}{name}", ()) > 0 for name in sums)
    refuse_if(
        not counted or not arrays[f"{PREFIX}mean"].size,
        f"The run {run.folder} has no averages of predictions.",
        expected="stream_predictions",
    )

    mean = arrays.of_shape(f"{PREFIX}mean", (None, None))
    shapes: dict[str, tuple[int, ...]] = {"m2": mean.shape}
    for name in sums:
        shapes[name] = ()
    for name in ("expected_entropy", "log_density"):
        if f"{PREFIX}{name}" in arrays:
            shapes[name] = mean.shape[:1]
    if (noise := f"{PREFIX}noise_variance") in arrays:
        shapes["noise_variance"] = mean.shape[1:] if arrays[noise].ndim == 1 else mean.shape

    averages = {name: arrays.of_shape(f"{PREFIX}{name}", shape) for name, shape in shapes.items()}
    targets = arrays[f"{PREFIX}targets"]
    scored = {"expected_entropy", "noise_variance"} & {*averages}
    fits = targets.ndim > 0 and targets.size in (len(mean), mean.size)
    if scored and not fits:
        arrays.of_shape(f"{PREFIX}targets", mean.shape)
    return {**averages, "mean": mean, "targets": targets}


def streamed_prediction(
    run: RunFiles, interval: float = 0.9
) -> results.ClassPrediction | results.LabelPrediction | results.RegressionPrediction:
    """Predictions on the test set that a run accumulated up to its last checkpoint.

    Only averages of the draws are stored. Therefore classes have no intervals, values have normal
    ones, and draws have no loss.

    Args:
        run: A run with `stream_predictions`.
        interval: Probability of the intervals, in (0, 1). Default: 0.9.
    """
    averages = _streamed_averages(run)
    weight = float(averages["weight"])
    mean = averages["mean"]
    targets = averages["targets"]
    std = np.sqrt(np.maximum(averages["m2"] / weight, 0.0))
    shared: dict[str, Any] = {
        "num_draws": int(averages["count"]),
        "effective_draws": float(weight**2 / averages["weight_squares"]),
        "level": interval,
        **dict.fromkeys(("draw_losses", "walker", "weight")),
    }
    density = averages["log_density"] - np.log(weight) if "log_density" in averages else None
    if "expected_entropy" in averages:
        shared |= dict.fromkeys(("lower", "upper", "draw_accuracy"))
        shared |= {
            "probabilities": mean,
            "std": std,
            "expected_entropy": averages["expected_entropy"],
        }
        if density is not None:
            return results.LabelPrediction(
                **shared, labels=targets.astype(np.int64), log_density=density
            )
        labels = class_labels(targets.reshape(len(mean), -1), mean.shape[1])
        data = run.manifest.dataset
        names = data.class_names or ()
        classes = results.class_values(data.task or "", mean.shape[1], names)
        if weights := data.class_weights:
            shared |= {"class_weights": weights, "notes": (class_weights_note(weights),)}
        return results.ClassPrediction(
            **shared, labels=labels, class_values=classes, places=len(mean) // len(targets)
        )
    observed = np.asarray(targets, np.float64)
    y = observed.reshape(mean.shape) if observed.size == mean.size else None
    reach = -ndtri((1 - interval) / 2)
    shared |= {"mean_lower": mean - reach * std, "mean_upper": mean + reach * std}
    shared |= dict.fromkeys(("lower", "upper", "log_density", "crps", "pit"))
    noise = None
    if "noise_variance" in averages:
        assert y is not None
        noise = np.broadcast_to(np.sqrt(averages["noise_variance"]), mean.shape)
        total = np.hypot(std, noise)
        shared |= {"lower": mean - reach * total, "upper": mean + reach * total}
        shared |= {"log_density": density, "crps": normal_crps(y, mean, total)}
        shared["pit"] = ndtr((y - mean) / total)
    else:
        shared["notes"] = (without_noise(run.manifest.loss.loss or "loss"),)
    preparation = run.manifest.dataset.preparation
    standard = None if preparation is None else preparation.target
    scale = 1.0 if standard is None else standard.deviation
    shared |= {"noise_std": noise, "targets": y, "scale": np.asarray(scale)}
    shared["target_names"] = tuple(run.manifest.dataset.label_names)
    return results.RegressionPrediction(**shared, mean=mean, parameter_std=std)


def streamed_lines(run: RunFiles) -> list[tuple[str, str]]:
    """Lines of a summary with the scores of the accumulated averages, if the run has any."""
    try:
        prediction = streamed_prediction(run)
    except InputError:
        return []
    scores = ", ".join(f"{label} {value}" for label, value in prediction.score_lines())
    scores = scores or " ".join(prediction.notes)
    return [("test predictions", f"{scores}; average of {prediction.num_draws:,} draws")]
