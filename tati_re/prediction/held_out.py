"""What sampling bought: the posterior average beside the fits it began from, on held-out rows."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tati_re.core.errors import InputError
from tati_re.core.front_door import front_door
from tati_re.core.user_warnings import warn_user
from tati_re.likelihoods.laws import Law
from tati_re.likelihoods.mixture import empirical_crps, quantile_points
from tati_re.posterior.predictive import CLASSES, LABELS
from tati_re.prediction import metrics
from tati_re.prediction.averaging import average
from tati_re.prediction.draws import FITS, Draws, DrawsAndFits, Members
from tati_re.prediction.held_out_table import (
    LEFT_OUT,
    LEVELS,
    ROUGH,
    SCORES,
    TEST_PART,
    USED,
    VALIDATION,
    HeldOutComparison,
    table_lines,
)
from tati_re.prediction.leave_one_out import chosen_rows
from tati_re.prediction.left_out import LeftOut, half_each, left_out, left_out_of_unseen_rows
from tati_re.prediction.network import Network, dataset_of
from tati_re.prediction.predict import as_calibrated, predictor_note
from tati_re.prediction.results import Prediction, RegressionPrediction
from tati_re.prediction.scores import brier_score
from tati_re.prediction.sources import draws_of_predictions
from tati_re.prediction.stacking import EQUAL, chosen_weights, weigh
from tati_re.runs import files
from tati_re.runs.csv_table import frame_text
from tati_re.runs.derived_tables import derived_table
from tati_re.runs.fits import Fits, held_out_of, read_fits
from tati_re.runs.run import AnyRun, RunFiles, last_step, stored_every
from tati_re.runs.selection import as_run, burnin_of
from tati_re.runs.storage import write_whole

POSTERIOR = "posterior"
ENSEMBLE = "ensemble of the fits"
ONE_FIT = "one fit"
MIXTURE = "mixture"
"""The posterior and the ensemble of the fits with half of the weight each, where the run predicts with
it.
"""
EQUAL_CHAINS = "equal weights"
"""The posterior with equal weights of its chains, where the run has other ones."""
PREDICTORS = (POSTERIOR, ENSEMBLE, ONE_FIT)

_SHORT = ("negative_log_likelihood", "mean_loss", "rmse", "accuracy", "coverage_90")
"""Scores on the screen."""

_MOST_DRAWS = 400
_FEWEST_DRAWS = 64
_MOST_ROWS = 10_000
_FEWEST_ROWS = 100
_FITTED_AT_ONCE = 100
"""Examples of a step of a fit, at least where there are as many."""
_MOST_PAIRS = 65_000_000
"""Draws squared times rows, which the CRPS of a mixture takes: about a second."""
_SHARE = 0.1
"""Of the cost of sampling, which the predictions of a comparison take at most."""
_PASSES = 3
"""Predictions of an example that cost as much as its gradient."""
_LARGEST_K = 0.7
"""Rows whose Pareto k is above have rough scores by leave-one-out (Vehtari et al., 2024)."""


@front_door
def held_out_comparison(run: AnyRun) -> HeldOutComparison:
    """Compares the posterior average with the fits that its walkers started from.

    The fits are a deep ensemble at no extra cost, because the walkers of a run on data start from
    them (`walker_start="fit"`, or an earlier call of `fit`). All predictors are scored on the
    same rows: the test set, or 10,000 random rows of a larger one, fewer after a short run. Without a test set the
    posterior is scored by leave-one-out (Pareto-smoothed importance sampling). Fits cannot leave a
    row out. They are scored only if they were stopped on validation rows, which are then used for
    all predictors.

    The posterior is averaged over at most 400 draws, evenly spaced along the run. Short runs use
    fewer, so that predictions take at most a tenth of the sampling time.

    Args:
        run: The run, or its folder.

    Returns:
        A frame that prints as on the screen, one line per score. A selection from it is a plain
        frame. It has one row per predictor: `posterior`, `ensemble of the fits` (the average of their predictive
        distributions), and `one fit` (the mean score of the single fits). With
        `weights="stacking"`, the row `equal weights` is the posterior without these weights. A run
        for prediction that uses posterior and fits, half each, has a row `mixture`. A run
        that ended before its first draw has no row `posterior`.
        The columns are `members` (draws or fits), `rows`, `scored_on`, `used` and the scores, in
        the units of the data. `used` is 1 for what a run for prediction predicts with, else 0. All
        have `negative_log_likelihood`. Values have `rmse`, `crps` and the coverage of central
        intervals (`coverage_50`, `coverage_90`, `coverage_95`). Classes have `accuracy`,
        `brier_score` and `calibration_error`. For leave-one-out, `rough_rows` counts the rows with
        a Pareto k above 0.7.

    Raises:
        InputError: The run did not start from fits, has no draws, or has no rows to score.
    """
    run = as_run(run)
    frame = stored_comparison(run)
    if frame is None:
        frame = _Scored.of(run).frame()
        write_whole(run.folder / files.COMPARISON, frame_text(frame.reset_index()))
    return HeldOutComparison.of(frame, comparison_notes(run))


def compare_at_end(run: RunFiles) -> None:
    """Keeps the comparison of a run that began from fits, where it can be made."""
    if not run.has(files.MEMBERS):
        return
    reason = ""
    with warnings.catch_warnings():
        # The certificate says what is wrong with the draws.
        warnings.simplefilter("ignore", UserWarning)
        try:
            held_out_comparison(run)
        except InputError:  # no draws, no likelihood, or no row to score
            return
        except Exception as error:  # a model of users may fail on other rows: the run is whole
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
    if reason:
        warn_user(f"Posterior and fits cannot be compared: {reason}")


def stored_comparison(run: RunFiles) -> pd.DataFrame | None:
    """The comparison that an earlier call kept; None if there is none since the last draw.

    Args:
        run: The run.

    Raises:
        InputError: The file is no such table.
    """
    expected = "the file of the run"
    reading = {"index_col": "predictor", "dtype": {"scored_on": str}}
    frame = derived_table(run, files.COMPARISON, expected, **reading)
    if frame is None:
        return None
    path = run.folder / files.COMPARISON
    numbers = frame.drop(columns="scored_on", errors="ignore")
    known = {"members", "rows", "scored_on"} <= {*frame.columns}
    if not known or any(kind.kind not in "if" for kind in numbers.dtypes):
        raise InputError(f"{path} does not contain the comparison of a run.", expected=expected)
    frame["scored_on"] = frame["scored_on"].fillna("")
    return frame


def shortest_lines(run: RunFiles) -> list[str]:
    """The comparison for the end of the screen: density, error and coverage alone.

    Args:
        run: A run.

    Returns:
        Lines as of `comparison_lines`.
    """
    return comparison_lines(run, _SHORT)


def comparison_lines(run: RunFiles, names_of_scores: Sequence[str] = tuple(SCORES)) -> list[str]:
    """The comparison as lines of text: a head, a line for each score, and a note.

    Args:
        run: A run.
        names_of_scores: Columns of scores that are shown, if there are any. Default: all.

    Returns:
        Lines of at most 100 characters; none where the run kept no comparison.
    """
    frame = stored_comparison(run)
    if frame is None:
        return []
    return table_lines(frame, names_of_scores, comparison_notes(run))


def comparison_notes(run: RunFiles) -> list[str]:
    """The sentences below the comparison: rough scores, and predictors without scores.

    Args:
        run: A run.

    Returns:
        Sentences; none where the run kept no comparison, or nothing is to be noted.
    """
    frame = stored_comparison(run)
    if frame is None:
        return []
    notes = [note for note in (predictor_note(run.manifest), _draws_note(run, frame)) if note]
    rough = int(frame[ROUGH].iloc[0]) if ROUGH in frame.columns else 0
    if rough:
        notes.append(f"Pareto k is above {_LARGEST_K:g} in {rough:,} rows: their scores are rough.")
    scores = frame[[name for name in SCORES if name in frame.columns]]
    if scores.isna().all(axis=1).any():
        notes.append(
            "The fits were trained on these rows: no scores. test_fraction=0.2 compares all predictors."
        )
    return notes


def _draws_note(run: RunFiles, frame: pd.DataFrame) -> str:
    """That predictions average more draws than the comparison, so that their scores differ a little.

    Scores of as many draws would take too long at the end of a run: the CRPS of 1,000 draws with
    noise of their own takes some seconds for 200 rows.
    """
    is_shown = POSTERIOR in frame.index and frame["scored_on"].iloc[0] == TEST_PART
    if not is_shown or run.manifest.prefers_fits or run.manifest.has_fits_alone:
        return ""
    averaged = int(frame["members"].loc[POSTERIOR])
    of_predictions = draws_of_predictions(run, int(frame["rows"].iloc[0]))
    if of_predictions <= averaged:
        return ""
    return (
        f"The posterior averages {averaged:,} draws here and about {of_predictions:,} in "
        "predictions, whose scores differ slightly."
    )


@dataclass
class _Scored:
    """The rows of a comparison while it is made."""

    run: RunFiles
    network: Network
    fits: Fits

    @classmethod
    def of(cls, run: RunFiles) -> _Scored:
        network = Network(run)
        fits = read_fits(run.folder)
        if fits is None:
            raise InputError(
                f"The walkers of {run.folder} did not begin from fits.",
                expected="walker_start fit, which runs on data choose",
            )
        if fits.positions.shape[1] != network.num_parameters:
            raise InputError(
                f"{run.folder / files.MEMBERS}: the fits are of another model.",
                f"{fits.positions.shape[1]:,} parameters",
                f"{network.num_parameters:,} parameters",
            )
        return cls(run, network, fits)

    def frame(self) -> pd.DataFrame:
        data = dataset_of(self.run)
        if data.test_inputs is not None and data.test_targets is not None:
            return self._on_test_part(data)
        rows = held_out_of(self.fits, self.run.folder, data.num_examples)
        scored_on = VALIDATION if len(rows) else LEFT_OUT
        rows = rows if len(rows) else np.arange(data.num_examples)
        rows = rows[chosen_rows(len(rows), self._most_rows())]
        if self.run.manifest.has_fits_alone:
            return self._of_fits_alone(data, rows, scored_on)
        most = self._most_draws(len(rows))
        predictions = {
            name: left_out(self.run, data, rows, most, weights)
            for name, weights in self._averages().items()
        }
        if self.run.manifest.mixes_fits and scored_on == VALIDATION:
            fits = left_out_of_unseen_rows(self.run, data, rows)
            predictions[MIXTURE] = half_each(predictions[POSTERIOR], fits)
        scores = {
            name: left_out_scores(held_out, data, rows) for name, held_out in predictions.items()
        }
        if scored_on == VALIDATION:
            labels = np.asarray(data.as_labels(data.targets))[rows]
            scores |= self._fits(data.inputs[rows], labels)
        return self._table(scores, len(rows), scored_on)

    def _of_fits_alone(self, data: Any, rows: np.ndarray, scored_on: str) -> pd.DataFrame:
        """The scores of the fits on validation rows, of a run that has no draws."""
        if scored_on != VALIDATION:
            raise InputError(
                "The run has no draws, and there is no row that the fits have not seen.",
                expected="test_fraction=0.2",
            )
        labels = np.asarray(data.as_labels(data.targets))[rows]
        return self._table(self._fits(data.inputs[rows], labels), len(rows), scored_on)

    def _on_test_part(self, data: Any) -> pd.DataFrame:
        rows = chosen_rows(len(data.test_inputs), self._most_rows())
        inputs = data.test_inputs[rows]
        labels = np.asarray(data.as_labels(data.test_targets))[rows]
        if self.run.manifest.has_fits_alone:
            return self._table(self._fits(inputs, labels), len(rows), TEST_PART)
        draws: dict[str, Draws | DrawsAndFits] = {}
        for name, weights in self._averages().items():
            draws[name] = chains = self._draws(len(inputs), weights)
            if name == POSTERIOR and self.run.manifest.mixes_fits:
                draws[MIXTURE] = DrawsAndFits(chains, self._members())
        scores = {name: self._scores(of_name, inputs, labels) for name, of_name in draws.items()}
        return self._table(scores | self._fits(inputs, labels), len(rows), TEST_PART)

    def _averages(self) -> dict[str, str]:
        """Averages over the posterior draws, by the weights of their chains; the run's own first."""
        weights = chosen_weights(self.run.manifest, None)
        averages = {POSTERIOR: weights}
        if weights != EQUAL:
            averages[EQUAL_CHAINS] = EQUAL
        return averages

    def _table(
        self, scores: dict[str, dict[str, float]], rows: int, scored_on: str
    ) -> pd.DataFrame:
        """The table, a row for each predictor; columns are the scores that the posterior has."""
        averages = [name for name in self._averages() if POSTERIOR in scores]
        known = scores[POSTERIOR if averages else ENSEMBLE]
        lines = []
        mixture = [MIXTURE] if MIXTURE in scores else []
        for name in [*averages, *mixture, ENSEMBLE, ONE_FIT]:
            predictor_scores = scores.get(name, {})
            line: dict[str, Any] = {"predictor": name}
            line["members"] = int(predictor_scores.get("members", len(self.fits.positions)))
            line["rows"] = rows
            line["scored_on"] = scored_on if predictor_scores else ""
            if self.run.manifest.predictor is not None:
                line[USED] = int(name == self._used())
            if ROUGH in known:
                line[ROUGH] = int(predictor_scores.get(ROUGH, 0))
            line |= {
                column: predictor_scores.get(column, np.nan) for column in SCORES if column in known
            }
            lines.append(line)
        return pd.DataFrame(lines).set_index("predictor")

    def _used(self) -> str:
        """What the run predicts with."""
        if self.run.manifest.mixes_fits:
            return MIXTURE
        return ENSEMBLE if self.run.manifest.prefers_fits else POSTERIOR

    def _draws(self, rows: int, weights: str | None) -> Draws:
        """Draws for predictions of so many rows, with the weights of their chains."""
        run = self.run
        burnin = burnin_of(run, None)
        walkers = run.manifest.options.num_walkers
        stored = (last_step(run, burnin) - burnin) // (stored_every(run) or 1) * walkers
        thin = max(1, math.ceil(stored / self._most_draws(rows)))
        draws = Draws(run, 0, None, thin)
        weigh(run, draws, weights)
        return draws

    def _scores(
        self, draws: Draws | DrawsAndFits, inputs: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        """Scores of an average, and how many draws and fits it has."""
        sources = [(self.network, draws)]
        prediction = average(sources, inputs, labels)
        prediction = as_calibrated(self.run, prediction, sources, inputs)
        return {"members": len(draws), **scores_of(prediction)}

    def _members(self) -> Members:
        """The fits."""
        numbers = np.arange(len(self.fits.positions))
        return Members(self.fits.positions, numbers, kind=FITS)

    def _fits(self, inputs: np.ndarray, labels: np.ndarray) -> dict[str, dict[str, float]]:
        """Scores of the ensemble of the fits, and the means of those of single fits."""
        network = copy.copy(self.network)
        network.auxiliary = [np.asarray(values) for values in self.fits.auxiliary]
        ensemble = scores_of(average([(network, self._members())], inputs, labels))
        single = []
        numbers = np.arange(len(self.fits.positions))
        for number in numbers:
            vector = self.fits.positions[number]
            member = Members(vector, numbers[number : number + 1], kind=FITS)
            single.append(scores_of(average([(network, member)], inputs, labels)))
        means = {name: float(np.mean([scores[name] for scores in single])) for name in single[0]}
        return {ENSEMBLE: ensemble, ONE_FIT: means}

    def _passes(self) -> float:
        """Predictions of examples that cost a tenth of what the gradients of the run did."""
        options = self.run.manifest.options
        size = options.batch_size or self.run.manifest.dataset.num_examples or 1
        sampled = last_step(self.run, options.num_steps or 1) * options.num_walkers * size
        fitted = float(self.fits.steps.sum()) * min(size, _FITTED_AT_ONCE)
        return _SHARE * _PASSES * (sampled + fitted)

    def _most_rows(self) -> int:
        predictors = _FEWEST_DRAWS
        if self.run.manifest.has_fits_alone:
            predictors = 2 * len(self.fits.positions)  # their ensemble, and each of them
        return int(np.clip(self._passes() / predictors, _FEWEST_ROWS, _MOST_ROWS))

    def _most_draws(self, rows: int) -> int:
        columns = self.network.predictive.num_columns
        pairs = math.isqrt(_MOST_PAIRS // max(1, rows * columns))
        return int(np.clip(self._passes() / rows, _FEWEST_DRAWS, min(_MOST_DRAWS, pairs)))


def scores_of(prediction: Prediction) -> dict[str, float]:
    """The scores of a prediction that a comparison has.

    Args:
        prediction: A prediction with labels.

    Returns:
        Numbers by the names of `SCORES`. The coverage counts targets whose PIT is inside.
    """
    scores = {name: value for name, value in prediction.scores().items() if name in SCORES}
    if isinstance(prediction, RegressionPrediction) and prediction.pit is not None:
        scores |= _coverage(prediction.pit)
    return scores


def _coverage(pit: np.ndarray) -> dict[str, float]:
    distance_from_median = np.abs(pit - 0.5)
    return {
        f"coverage_{level}": float((distance_from_median <= level / 200).mean()) for level in LEVELS
    }


def left_out_scores(held_out: LeftOut, data: Any, rows: np.ndarray) -> dict[str, float]:
    """Scores of predictions of training rows, each one left out in turn.

    Args:
        held_out: The predictions, such as `left_out` gives.
        data: The data set.
        rows: Numbers of the rows, shape (n,).

    Returns:
        Scores as of `scores_of`, and the number of draws, `members`.
    """
    scores: dict[str, float] = {"members": len(held_out.outputs)}
    scores[ROUGH] = int((held_out.pareto_k > _LARGEST_K).sum())
    scores["negative_log_likelihood"] = float(-held_out.log_density.mean())
    shares = np.exp(held_out.log_weights)
    if held_out.network.predictive.kind in (CLASSES, LABELS):
        return scores | _class_scores(
            held_out.network, held_out.outputs, shares, data.targets[rows]
        )
    labels = np.asarray(data.as_labels(data.targets))[rows]
    return scores | _value_scores(
        held_out.network, held_out.outputs, held_out.extra, shares, labels
    )


def _class_scores(
    network: Network, outputs: np.ndarray, weights: np.ndarray, targets: np.ndarray
) -> dict[str, float]:
    predictive = network.predictive
    p = np.exp(predictive.log_probabilities(outputs))
    if predictive.kind == LABELS:
        yes = np.einsum("si,sik->ik", weights, p[..., 1])
        right = ((yes > 0.5) == targets.reshape(yes.shape)).all(axis=1)
        flat = yes.reshape(-1)
        pairs = np.stack([1 - flat, flat], axis=1)
        truth = targets.reshape(-1).astype(np.int64)
        return {
            "accuracy": float(right.mean()),
            "brier_score": brier_score(pairs, truth),
            "calibration_error": metrics.calibration(pairs, truth).error,
        }
    by_member = p.reshape(len(p), weights.shape[1], -1, p.shape[-1])
    mean = np.einsum("si,sipc->ipc", weights, by_member).reshape(-1, p.shape[-1])
    truth = metrics.class_labels(targets.reshape(len(mean), -1), mean.shape[1])
    return {
        "accuracy": metrics.accuracy(mean, truth),
        "brier_score": brier_score(mean, truth),
        "calibration_error": metrics.calibration(mean, truth).error,
    }


def _value_scores(
    network: Network,
    outputs: np.ndarray,
    extra: np.ndarray | None,
    weights: np.ndarray,
    labels: np.ndarray,
) -> dict[str, float]:
    y = np.asarray(labels, np.float64).reshape(len(labels), -1)
    values = network.predictive.restored(outputs, extra)
    if y.shape != values.shape[1:]:
        return {}
    share = weights[..., None]
    mean = (share * values).sum(axis=0)
    law = network.predictive.law(outputs, extra)
    pit = (share * law.cdf(y)).sum(axis=0)
    below = (share * law.below(y)).sum(axis=0)
    pit = below + np.random.default_rng(len(y)).random(pit.shape) * (pit - below)
    return {
        "rmse": float(np.sqrt(((y - mean) ** 2).mean())),
        "crps": float(_crps(law, y, weights).mean()),
        **_coverage(pit),
    }


def _crps(law: Law, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The score of mixtures whose draws have weights of their own in each row, shape (n, targets)."""
    points, count = quantile_points(law, len(weights))
    share = np.tile(weights[..., None] / count, (count, 1, 1))
    return empirical_crps(points, y, np.broadcast_to(share, points.shape))
