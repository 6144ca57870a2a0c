"""Predictions of a run that accumulated their averages while sampling."""

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tati_re.core.errors import InputError
from tati_re.engine.prediction_averages import PREFIX
from tati_re.prediction.metrics import class_labels
from tati_re.prediction.results import ClassPrediction, LabelPrediction, RegressionPrediction, class_values
from tati_re.prediction.scores import normal_crps
from tati_re.runs import checkpoint
from tati_re.runs.run import RunFiles


def streamed_prediction(
    run: RunFiles, interval: float = 0.9
) -> ClassPrediction | LabelPrediction | RegressionPrediction:
    """Predictions of a run with `stream_predictions` on the test part of its data, up to its last checkpoint. Of the
    draws only averages are left: classes have no intervals, values the normal ones, and no draw has a loss."""
    arrays, _, _ = checkpoint.load(run.folder)
    kept = {name.removeprefix(PREFIX): value for name, value in arrays.items() if name.startswith(PREFIX)}
    if not kept or not kept["count"] > 0:
        raise InputError(f"The run {run.folder} kept no averages of predictions.", expected="stream_predictions")
    weight, mean, targets = float(kept["weight"]), kept["mean"], kept["targets"]
    std = np.sqrt(np.maximum(kept["m2"] / weight, 0.0))
    shared: dict[str, Any] = {
        "num_draws": int(kept["count"]),
        "effective_draws": float(weight**2 / kept["weight_squares"]),
        "level": interval,
        **dict.fromkeys(("draw_losses", "walker", "weight")),
    }
    density = kept["log_density"] - np.log(weight) if "log_density" in kept else None
    if "expected_entropy" in kept:
        shared |= dict.fromkeys(("lower", "upper", "draw_accuracy"))
        shared |= {"probabilities": mean, "std": std, "expected_entropy": kept["expected_entropy"]}
        if density is not None:
            return LabelPrediction(**shared, labels=targets.astype(np.int64), log_density=density)
        labels = class_labels(targets, mean.shape[1])
        data = run.manifest["dataset"]
        classes = class_values(data["task"], mean.shape[1], data.get("class_names", ()))
        return ClassPrediction(**shared, labels=labels, class_values=classes)
    y, reach = np.asarray(targets, np.float64).reshape(mean.shape), -ndtri((1 - interval) / 2)
    noise = np.broadcast_to(np.sqrt(kept["noise_variance"]), mean.shape) if "noise_variance" in kept else None
    total = std if noise is None else np.hypot(std, noise)
    scores: tuple[Any, ...] = (None,) * 3
    if noise is not None:
        scores = density, normal_crps(y, mean, total), ndtr((y - mean) / total)
    ends = mean - reach * std, mean + reach * std, mean - reach * total, mean + reach * total
    names = ("mean_lower", "mean_upper", "lower", "upper", "log_density", "crps", "pit")
    shared |= dict(zip(names, (*ends, *scores), strict=True))
    return RegressionPrediction(**shared, mean=mean, parameter_std=std, noise_std=noise, targets=y)


def streamed_lines(run: RunFiles) -> list[tuple[str, str]]:
    """Lines of a summary with the scores of the accumulated averages, if the run has any."""
    try:
        found = streamed_prediction(run)
    except InputError:
        return []
    scores = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in found.scores().items())
    return [("test predictions", f"{scores}; average of {found.num_draws:,} draws")]
