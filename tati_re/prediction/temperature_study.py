"""Loss and accuracy against temperature, and the temperature where cooling should stop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tati_re.analysis.convergence import MINIMUM_DRAWS, is_short, monte_carlo_error, rows_that_count
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.views import drawn, viewable
from tati_re.posterior.predictive import VALUES
from tati_re.prediction.averaging import average
from tati_re.prediction.draws import Draws
from tati_re.prediction.network import Network
from tati_re.prediction.results import RegressionPrediction
from tati_re.prediction.rows import labels_by_name, test_part, with_names
from tati_re.runs import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tati_re.runs.run import RunFiles

RISE = 2.0
"""Standard errors by which the validation loss must have risen for cooling to stop."""


@front_doors
@viewable
@dataclass(frozen=True, eq=False)
class TemperatureStudy:
    """Loss and accuracy of a posterior at several temperatures.

    Attributes:
        frame: One row per temperature, in rising order, with the columns of `temperature_curve`.
        best_temperature: The temperature with the lowest validation loss, where cooling should have
            stopped.
        stopped_at: The temperature where cooling stopped because the validation loss had risen;
            None if it did not.
        runs: The runs by temperature.
    """

    frame: pd.DataFrame
    best_temperature: float
    stopped_at: float | None
    runs: "dict[float, RunFiles]"

    def plot(self, path: AnyPath | None = None) -> "Figure":
        """Plots losses and accuracies against temperature.

        Args:
            path: A PNG file to write. Default: None, no file.

        Returns:
            The figure; see `tati_re.plotting.plot_temperatures`.
        """
        return drawn("temperatures", self.frame, path=path)


@front_door
def temperature_study(
    sim: Any,
    temperatures: Sequence[float],
    *,
    early_stopping: bool = True,
    validation_fraction: float = 0.5,
    output: AnyPath | None = None,
    **options: Any,
) -> TemperatureStudy:
    """Samples at several temperatures from the hottest down, each run starting where the last
    ended.

    With early stopping, cooling ends once the validation loss has risen. The walkers of `sim` then
    return to their positions at the temperature with the lowest validation loss.

    Every run samples exp(-U/T) at its T; a cold posterior has T below 1. The runs are successive
    calls of `sim.sample` (`call` in their manifests), from the hottest on, each with its own noise
    and mini-batches. A new simulation with the same seed therefore repeats the study, and each run
    can be resumed separately. Test data used to choose the temperature are excluded from the test
    loss. Reference: R. Baldock, N. Marzari, Bayesian Neural Networks at Finite Temperature (2019),
    section 2.

    Args:
        sim: A `Simulation` with a test set.
        temperatures: Different temperatures above 0, in any order.
        early_stopping: Whether to stop once the validation loss is more than two standard errors
            above its minimum. Default: True.
        validation_fraction: Fraction of the test data used for validation, between 0 and 1.
            Default: 0.5.
        output: Folder that receives one folder per run. Default: None, temporary folders.
        **options: Options of `Simulation.sample`, such as `step_size`, `num_steps` or
            `num_burnin_steps`. With `seed` or `call`, the hottest run is that call (default 1), and
            the next runs are the following calls.

    Returns:
        The study.

    Raises:
        InputError: Temperatures are out of range, there is no test set, or options do not fit.

    Examples:
        >>> study = tati_re.temperature_study(sim, [0.1, 1.0], step_size=0.01, num_steps=200, num_burnin_steps=50)
        >>> study.frame["temperature"].tolist()
        [0.1, 1.0]
    """
    numbers = [
        value for value in np.ravel(temperatures).tolist() if isinstance(value, (int, float))
    ]
    values = sorted(set(map(float, numbers)), reverse=True)
    if (
        len(values) != np.size(temperatures)
        or np.ndim(temperatures) != 1
        or not values
        or not values[-1] > 0
    ):
        raise InputError(
            "temperatures are invalid.", temperatures, "different numbers above 0, in a list"
        )
    conflicting = sorted({"temperature", "temperatures", "inverse_temperature"} & set(options))
    refuse_if(
        conflicting,
        "temperature_study sets the temperature itself.",
        ", ".join(conflicting),
        "temperatures alone",
    )
    problem = "temperature_study: no positions are stored."
    refuse_if(options.get("trajectory_every") == 0, problem, 0, "trajectory_every above 0")
    folders = (
        []
        if output is None or options.get("overwrite")
        else [Path(output) / f"T-{value:g}" for value in values]
    )
    full = [str(folder) for folder in folders if folder.is_dir() and any(folder.iterdir())]
    refuse_if(
        full,
        "temperature_study: the folder of a run is not empty.",
        ", ".join(full),
        "another folder, or overwrite",
    )
    data = sim.dataset
    expected = "test_fraction above 0, or test data" if sim.system.has_data else "a model with data"
    if data.test_inputs is None or data.test_targets is None:
        raise InputError("The data have no test set.", data.name, expected)
    labels = data.as_labels(data.test_targets)
    parts = _parts(data.test_inputs, labels, validation_fraction)
    runs = {}
    rows = []
    ends = {}
    stopped = None
    first = options.pop("call", None) or (1 if "seed" in options else None)
    for number, value in enumerate(values):
        where = None if output is None else str(Path(output) / f"T-{value:g}")
        call = {} if first is None else {"call": first + number}
        run = sim.sample(**{**options, **call, "temperature": value, "output": where}).passing_on()
        runs[value], ends[value] = run, np.array(sim.parameters)
        rows.append(_row(value, Draws(run), Network(run), run.at_rung(0), parts))
        if early_stopping and (stopped := stopping(_frame(rows))[1]) is not None:
            break
    frame = _frame(rows)
    best, stopped = stopping(frame)
    if early_stopping:
        sim.parameters = ends[best]
    return TemperatureStudy(frame, best, stopped, runs)


def temperature_curve(
    runs: "RunFiles | Sequence[RunFiles]",
    inputs: Any = None,
    labels: Any = None,
    *,
    validation_fraction: float = 0.5,
    burnin: int | None = None,
    thin: int = 1,
) -> pd.DataFrame:
    """Loss and accuracy against temperature, from several runs or from the rungs of a ladder.

    Args:
        runs: Runs at several temperatures, or one run on a ladder with `trajectory_rungs="all"`.
        inputs: Inputs, shape (n, ...). Default: None, the test set of the first run's data.
        labels: Labels of the inputs. Default: None, the test set's.
        validation_fraction: Fraction of the inputs for validation, in [0, 1). Default: 0.5.
        burnin: Steps to leave out. Default: None, the burn-in of each run.
        thin: Keep one in this many stored positions. Default: 1.

    Returns:
        One row per temperature, rising. `temperature, draws` come first. Means over the draws
        follow with Monte Carlo errors: `train_loss` (of mini-batches, if the run had them),
        `validation_loss`, `test_loss` and, for classifiers, `test_accuracy`. `average_loss` and
        `average_accuracy` belong to the averaged probabilities or densities on the test set. Losses
        are the network's. `short` marks chains below 50 autocorrelation times, whose errors are
        rough.

    Raises:
        InputError: There are no labels, or there is only one temperature.
    """
    runs = list(runs) if isinstance(runs, Sequence) else [runs]
    if inputs is None:
        inputs, labels = test_part(runs[0])
    labels = labels_by_name(runs, inputs, labels)
    refuse_if(labels is None, "The losses need labels.", expected="inputs and their labels")
    networks = [Network(run) for run in runs]
    inputs = with_names(runs[0], networks[0].packed(inputs))
    parts = _parts(inputs, np.asarray(labels), validation_fraction)
    rows = []
    for run, network in zip(runs, networks, strict=True):
        ladder = run.ladder if len(runs) == 1 and run.has(files.LADDER) else None
        if ladder is None:
            draws = Draws(run, 0, burnin, thin)
            rows.append(
                _row(float(run.manifest.temperature or 1.0), draws, network, run.at_rung(0), parts)
            )
        elif ladder["temperature"].nunique() == 1:
            raise InputError(
                "The ladder tempers only the likelihood: all rungs have the same temperature."
            )
        else:
            for rung, temperature in zip(ladder["rung"], ladder["temperature"], strict=True):
                draws = Draws(run, int(rung), burnin, thin)
                rows.append(_row(float(temperature), draws, network, run.at_rung(int(rung)), parts))
    if len({row["temperature"] for row in rows}) < 2:
        expected = "several runs, or one on a ladder with trajectory_rungs = all"
        raise InputError("There is only one temperature.", f"{rows[0]['temperature']:g}", expected)
    return _frame(rows)


def stopping(frame: pd.DataFrame) -> tuple[float, float | None]:
    """The temperature of the lowest validation loss when cooling until it rises, and that at which
    it had risen, or None. It has risen where it is more than `RISE` standard errors (of the
    difference) above the lowest one so far.
    """
    column = "validation_loss" if frame["validation_loss"].notna().all() else "test_loss"
    rows = frame.sort_values("temperature", ascending=False)
    best = rows.iloc[0]
    for _, row in rows.iterrows():
        error = np.hypot(*np.nan_to_num([row[f"{column}_error"], best[f"{column}_error"]]))
        if row[column] > best[column] + RISE * error:
            return float(best["temperature"]), float(row["temperature"])
        if row[column] < best[column]:
            best = row
    return float(best["temperature"]), None


def _parts(
    inputs: np.ndarray, labels: np.ndarray, fraction: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    refuse_if(
        not 0 <= fraction < 1,
        "validation_fraction is out of range.",
        fraction,
        "a number in [0, 1)",
    )
    numbers = np.arange(len(inputs))
    first = np.floor((numbers + 1) * fraction) > np.floor(numbers * fraction)
    parts = {"test": (inputs[~first], labels[~first])}
    return parts if not first.any() else {"validation": (inputs[first], labels[first]), **parts}


def _row(
    temperature: float, draws: Draws, network: Network, rows: pd.DataFrame, parts: Mapping
) -> dict[str, float]:
    rows = rows[rows["step"] > draws.burnin]
    weight = rows["weight"].to_numpy(np.float64) if "weight" in rows else np.ones(len(rows))
    has_weight = weight > 0
    loss, step, walker = (rows[name].to_numpy()[has_weight] for name in ("loss", "step", "walker"))
    values = (loss.astype(np.float64), weight[has_weight], step, walker)
    row: dict[str, float] = {"temperature": temperature, "draws": len(draws)}
    row["train_loss"], row["train_loss_error"] = mean_and_error(*values)
    series = [values]
    for name in ("validation", "test"):
        row[f"{name}_loss"] = row[f"{name}_loss_error"] = float("nan")
    for name, part in parts.items():
        prediction = average([(network, draws)], *part)
        losses = np.asarray(prediction.draw_losses)
        series.append((losses, draws.weight, draws.step, draws.walker))
        row[f"{name}_loss"], row[f"{name}_loss_error"] = mean_and_error(*series[-1])
    if not isinstance(prediction, RegressionPrediction):
        accuracy = np.asarray(prediction.draw_accuracy)
        row["test_accuracy"], row["test_accuracy_error"] = mean_and_error(accuracy, *series[-1][1:])
    scores = prediction.scores()
    predictive = network.predictive
    columns = network.predictive.num_columns
    known = predictive.likelihood and "negative_log_likelihood" in scores
    row["average_loss"] = (
        predictive.rows * scores["negative_log_likelihood"] if known else float("nan")
    )
    if predictive.kind == VALUES:
        # From the units of the data to those of the network, and to its loss, as the other losses.
        constant = predictive.objective.left_out(columns)
        row["average_loss"] -= float(
            np.log(np.broadcast_to(predictive.deviation, columns)).sum() + constant
        )
    elif "accuracy" in scores:
        row["average_accuracy"] = scores["accuracy"]
    row["short"] = any(is_short(_influence(*walker_series)) for walker_series in series)
    return row


def mean_and_error(
    values: np.ndarray, weight: np.ndarray, step: np.ndarray, walker: np.ndarray
) -> tuple[float, float]:
    """Weighted mean over draws, and its Monte Carlo error from autocorrelations along each walker.

    Args:
        values: Numbers, shape (draws,).
        weight: Weight of each draw, shape (draws,).
        step: Step of each draw, shape (draws,).
        walker: Walker of each draw, shape (draws,). A walker need not have draws at all steps.

    Returns:
        Mean and error; the error is nan for fewer than four steps.
    """
    mean = float(np.average(values, weights=weight))
    chains = _influence(values, weight, step, walker)
    return mean, float("nan") if chains.shape[1] < MINIMUM_DRAWS else monte_carlo_error(chains)


def _influence(
    values: np.ndarray, weight: np.ndarray, step: np.ndarray, walker: np.ndarray
) -> np.ndarray:
    """What each draw adds to the error of the weighted mean, a ratio of two means, to first order,
    `(walkers, n)`.
    """
    deviations = weight * (values - np.average(values, weights=weight)) / weight.mean()
    rows, influence = rows_that_count(step, walker, deviations)
    return np.asarray(influence) * (rows.size / len(step))


def _frame(rows: Sequence[Mapping[str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows).sort_values("temperature", ignore_index=True)
