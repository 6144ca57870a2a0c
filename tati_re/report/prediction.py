"""The output of `tati-predict`: predictions, scores, reliability, other inputs, losses against
temperature, figures.
"""

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tati_re.analysis.convergence import MINIMUM_DRAWS, r_hat, rows_by_walker
from tati_re.analysis.format import SHORT, SHORT_NOTE, table, with_error
from tati_re.core.errors import InputError, pasted, refuse_if
from tati_re.launch.run import Run, load
from tati_re.plotting.calibration import plot_classes
from tati_re.plotting.prediction import plot_values
from tati_re.plotting.temperatures import plot_temperatures
from tati_re.prediction.averaging import average
from tati_re.prediction.draws import ENDS, Members
from tati_re.prediction.inputs import NOISE, noise_like, read_inputs
from tati_re.prediction.predict import FEW_DRAWS, as_calibrated, predict, with_predictor
from tati_re.prediction.ranges import outside_ranges
from tati_re.prediction.results import ClassPrediction, LabelPrediction, Prediction, title_of
from tati_re.prediction.rows import test_part, with_names
from tati_re.prediction.scores import auroc
from tati_re.prediction.sources import source_of
from tati_re.prediction.temperature_study import stopping, temperature_curve
from tati_re.prediction.training_rows import with_training
from tati_re.runs.csv_table import frame_text
from tati_re.runs.storage import made, write_whole

OPTIMUM = "optimum"
ENSEMBLE = "ensemble"


def report_predictions(runs: Sequence[Run], folder: Path, typed: Mapping[str, Any]) -> str:
    """Predicts, compares with an optimum and an ensemble, and writes tables and figures.

    Args:
        runs: Runs that sampled, averaged together.
        folder: Folder for tables and figures.
        typed: The options that were given, by name. They are `data`, `encoding`, `optimum`,
            `ensemble`, `ood`, `interval`, `rung`, `burnin`, `thin`, `weights`, `calibrate` and
            `seed`.

    Returns:
        A table in plain text.

    Raises:
        InputError: A run did not sample, or a run to compare with is not a fit.
    """
    for run in runs:
        if run.manifest.is_fit:
            alone = f"tati_re.load({str(run.folder)!r}).predict()"
            expected = f"RUN of tati-sample with --optimum {pasted(run.folder)}; alone, {alone}"
            raise InputError(f"{run.folder} did not sample.", "a run of tati-optimize", expected)
    level = typed.get("interval", 0.9)
    chosen = {"thin": None} | {
        name: typed[name]
        for name in ("rung", "burnin", "thin", "weights", "calibrate")
        if name in typed
    }
    groups = {OPTIMUM: [load(typed["optimum"])]} if "optimum" in typed else {}
    if "ensemble" in typed:
        groups[ENSEMBLE] = [load(name) for name in typed["ensemble"]]
    for run in [run for group in groups.values() for run in group]:
        if not run.manifest.is_fit:
            raise InputError(
                f"{run.folder} is not a run of an optimizer.", expected="a folder of tati-optimize"
            )
    if not groups and not {"data", "ood"} & set(typed):
        # Also of a run that kept averages of its test set in place of draws.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the table says how many draws there are
            average_alone = predict(runs, interval=level, **chosen)
            inputs_shown = None
        with contextlib.suppress(InputError):
            inputs_shown = test_part(runs[0])[0]
        return _written(folder, {average_alone.title: average_alone}, {}, inputs_shown)
    inputs, labels = (
        read_inputs(typed["data"], runs[0], typed.get("encoding"))
        if "data" in typed
        else test_part(runs[0])
    )
    inputs = with_names(runs[0], inputs)
    calibrate = chosen.pop("calibrate", None)
    own_sources = [source_of(run, inputs=inputs, **chosen) for run in runs]
    title = title_of([members.kind for _, members in own_sources])
    sources = {title: own_sources}
    sources |= {name: [source_of(run) for run in group] for name, group in groups.items()}
    if OPTIMUM in sources:
        network, members = sources[OPTIMUM][0]
        assert isinstance(members, Members)
        first_member = Members(members.vectors[:1], members.walker[:1], kind=ENDS)
        sources[OPTIMUM] = [(network, first_member)]
    predictions = {name: average(source, inputs, labels, level) for name, source in sources.items()}
    if len(runs) == 1:
        predictions[title] = as_calibrated(
            runs[0], predictions[title], sources[title], inputs, calibrate
        )
    predictions[title] = with_predictor(predictions[title], runs, own_sources)
    predictions[title] = with_training(predictions[title], runs[0])
    outside: dict[str, Prediction] = {}
    if "ood" in typed:
        source = typed["ood"]
        other = (
            noise_like(inputs, typed.get("seed", 0))
            if source == NOISE
            else read_inputs(source, runs[0])[0]
        )
        other = with_names(runs[0], other)
        outside = {name: average(source, other, None, level) for name, source in sources.items()}
    text = _written(folder, predictions, outside, np.asarray(inputs))
    warning = ""
    if "data" in typed:
        warning = outside_ranges(runs[0].manifest.dataset, np.asarray(inputs))
    return f"{text}\n{warning}" if warning else text


def reliability_table(predictions: Mapping[str, ClassPrediction | LabelPrediction]) -> pd.DataFrame:
    frames = []
    for name, prediction in predictions.items():
        bins = prediction.calibration()
        columns = {
            "predictor": name,
            "lower": bins.edges[:-1],
            "upper": bins.edges[1:],
            "count": bins.count,
        }
        frames.append(
            pd.DataFrame(columns | {"confidence": bins.confidence, "accuracy": bins.accuracy})
        )
    return pd.concat(frames, ignore_index=True)


def _written(folder: Path, predictions: dict, outside: dict, inputs: np.ndarray | None) -> str:
    posterior = next(iter(predictions.values()))
    made(folder)
    posterior.write_csv(folder / "predictions.csv")
    rows = [
        {"predictor": name, "draws": prediction.num_draws, **_scores_with_level(prediction)}
        for name, prediction in predictions.items()
    ]
    files = ["predictions.csv"]
    scores = pd.DataFrame(rows)
    labeled = len(scores.columns) > 2
    differences = {
        name: (predictions[name].uncertainty(), prediction.uncertainty())
        for name, prediction in outside.items()
    }
    areas = [
        (name, key, auroc(inside[key], other[key]))
        for name, (inside, other) in differences.items()
        for key in inside
    ]
    aurocs = pd.DataFrame(areas, columns=["predictor", "score", "auroc"]) if outside else None
    tables = {"scores.csv": scores if labeled else None, "outside.csv": aurocs}
    if labeled and posterior.kind != "regression":
        tables["reliability.csv"] = reliability_table(predictions)
    for name, frame in tables.items():
        if frame is not None:
            write_whole(folder / name, frame_text(frame))
            files.append(name)
    if labeled and posterior.kind != "regression":
        plot_classes(predictions, outside or None, folder / "predictions.png")
        files.append("predictions.png")
    elif posterior.kind == "regression":
        abscissa = np.arange(len(posterior.mean)) if inputs is None else inputs
        plot_values(predictions, abscissa, folder / "predictions.png")
        files.append("predictions.png")
    return _text(folder, files, predictions, scores if labeled else None, aurocs)


def _scores_with_level(prediction: Prediction) -> dict[str, float]:
    """The scores, and ahead of them the probability of the intervals if there is a coverage."""
    scores = prediction.scores()
    return {"interval": prediction.level, **scores} if "coverage" in scores else scores


def _agreement(prediction: Prediction) -> float | None:
    """R-hat of the loss of each draw over the walkers; None without labels, weights all the same,
    or enough draws.
    """
    if (
        prediction.draw_losses is None
        or prediction.weight is None
        or prediction.walker is None
        or np.ptp(prediction.weight) > 0
    ):
        return None
    chains = prediction.draw_losses[
        rows_by_walker(np.arange(len(prediction.walker)), prediction.walker)
    ]
    return None if chains.shape[1] < 2 * MINIMUM_DRAWS else r_hat(chains)


def _independent(prediction: Prediction) -> str:
    """How many independent draws the average is worth, and whether these are too few."""
    number = prediction.independent_draws
    if np.isnan(number):
        return "an unknown number of them independent"
    return f"{number:,.0f} independent{': rough' if number < FEW_DRAWS else ''}"


def _text(folder: Path, files: list[str], predictions: dict, scores, aurocs) -> str:
    names = list(predictions)
    posterior = predictions[names[0]]
    draws = [f"{predictions[name].num_draws:,}" for name in names]
    if posterior.averages_draws:
        draws[0] += f" ({_independent(posterior)})"
    width = max(14, *(len(cell) + 2 for cell in [*names, *draws]))
    heads = "".join(name.ljust(width) for name in names).rstrip()
    count = posterior.frame()["input"].nunique()
    lines = [(f"{count:,} inputs", heads)]
    label = "draws" if posterior.averages_draws else "members"
    lines.append((label, "".join(cell.ljust(width) for cell in draws).rstrip()))
    if round(posterior.effective_draws) != posterior.num_draws:
        lines.append(("draws by weight", f"{posterior.effective_draws:,.0f}"))
    if scores is not None:
        for column in scores.columns.drop(["predictor", "draws", "interval"], errors="ignore"):
            values = "".join(f"{value:.4f}".ljust(width) for value in scores[column]).rstrip()
            lines.append((posterior.score_label(column), values))
    if aurocs is not None:
        for score in aurocs["score"].unique():
            auroc = aurocs[aurocs["score"] == score].set_index("predictor")["auroc"]
            values = "".join(f"{auroc[name]:.4f}".ljust(width) for name in names).rstrip()
            lines.append((f"AUROC by {score.replace('_', ' ')}", values))
    if np.isfinite(agreement := _agreement(posterior) or np.nan):
        lines.append(("R-hat", f"{agreement:.3f} of the draws' loss on these inputs"))
    lines += [("note", note) for note in posterior.notes]
    return table([*lines, ("files", f"{', '.join(files)} in {folder}")])


def report_temperatures(runs: Sequence[Run], folder: Path, typed: Mapping[str, Any]) -> str:
    """Writes loss and accuracy against temperature as a table and a figure.

    Args:
        runs: Runs at several temperatures, or one run on a ladder.
        folder: Folder for table and figure, created if missing.
        typed: The options that were given, by name: `data`, `encoding`, `burnin` and `thin`.

    Returns:
        A table in plain text.

    Raises:
        InputError: An option does not apply, or there is only one temperature.
    """
    for name in ("optimum", "ensemble", "ood", "rung", "interval", "weights", "calibrate"):
        refuse_if(name in typed, f"--{name} does not belong to --by-temperature.")
    chosen = {name: typed[name] for name in ("burnin", "thin") if name in typed}
    inputs = None
    labels = None
    if "data" in typed:
        inputs, labels = read_inputs(typed["data"], runs[0], typed.get("encoding"))
    frame = temperature_curve(runs, inputs, labels, **chosen)
    made(folder)
    write_whole(folder / "temperatures.csv", frame_text(frame))
    plot_temperatures(frame, folder / "temperatures.png")
    best, rose = stopping(frame)
    names = ("train_loss", "validation_loss", "test_loss", "test_accuracy")
    known = [name for name in names if name in frame and frame[name].notna().any()]
    lines = []
    for row in frame.to_dict("records"):
        values = {name: with_error(row[name], row[f"{name}_error"], row["short"]) for name in known}
        scores = [f"{name.replace('_', ' ')} {value}" for name, value in values.items()]
        lines.append((f"T = {row['temperature']:g}", "  ".join(scores)))
    if frame["short"].any():
        lines.append((SHORT, SHORT_NOTE))
    risen = "never rises" if rose is None else f"has risen at T = {rose:.3g}"
    lines.append(("cooling down", f"the validation loss is lowest at T = {best:.3g}, and {risen}"))
    return table([*lines, ("files", f"temperatures.csv, temperatures.png in {folder}")])
