"""Predictions by a posterior average, and their scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from tati_re.analysis.format import table
from tati_re.core.errors import AnyPath, InputError
from tati_re.core.front_door import front_doors
from tati_re.core.printable import printable
from tati_re.core.views import drawn, html_table
from tati_re.prediction import metrics
from tati_re.prediction.deferred import deferrable
from tati_re.prediction.draws import BOTH, DRAWS, ENDS, FITS, VECTORS
from tati_re.prediction.scores import brier_score
from tati_re.runs.csv_table import frame_text
from tati_re.runs.storage import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROUNDING = 1e-12
_ROWS, _COLUMNS = 8, 12
"""Of the table that is shown."""


_TITLES = {
    (DRAWS,): "posterior average",
    (FITS,): "ensemble of the fits",
    (BOTH,): "average of chains and fits",
    (ENDS,): "ensemble of the end points",
    (VECTORS,): "average of the passed parameters",
}
"""Predictors by what they average, as figures and tables name them."""

_COUNTED = {
    FITS: "fits",
    BOTH: "draws and fits",
    ENDS: "end points of an optimizer",
    VECTORS: "vectors of parameters",
}


def title_of(kinds: Sequence[str], num_members: int | None = None) -> str:
    """The name of a predictor in figures and tables.

    Args:
        kinds: What it averages: `draws`, `fits`, `both`, `ends` or `vectors`, of one or several runs.
        num_members: Number of parameter vectors. Default: None, several.

    Returns:
        A few words, such as "posterior average".
    """
    kinds = tuple(dict.fromkeys(kinds))
    if kinds == (ENDS,) and num_members == 1:
        return "optimum"
    return _TITLES.get(kinds, f"average of {' and '.join(kinds)}")


def worth(independent_draws: float) -> str:
    """How many independent draws predictions are worth, in words; nan: not known."""
    if np.isnan(independent_draws):
        return "worth an unknown number of independent ones"
    return f"worth about {independent_draws:,.0f} independent ones"


@front_doors
@deferrable("independent_draws")
@dataclass(frozen=True, eq=False)
class Prediction:
    """Base class of predictions of classes and of values.

    Attributes:
        num_draws: Number of parameter vectors in the average.
        effective_draws: (sum of weights)² / (sum of squared weights), equal to `num_draws` for
            equal weights.
        level: Probability inside the intervals.
        draw_losses: Mean loss of each draw over the examples, `(draws,)`, as in the column `loss`
            of a run. None without labels, and for averages accumulated while sampling.
        walker: The walker of each draw, `(draws,)`, or None.
        weight: The weight of each draw, `(draws,)`, or None.
        independent_draws: Number of independent draws with the same Monte Carlo error, from weights
            and autocorrelation. NaN for averages accumulated while sampling, and for fewer than 8
            draws per walker.
        inputs: The inputs, `(n, ...)`. None for averages accumulated while sampling.
        places: Number of outputs with classes per input, one after the other.
        notes: Sentences on the meaning of these predictions, which are shown with them.
        averaged: What was averaged: `draws` of the posterior; `fits` of a run for prediction that
            predict better than its draws; `ends`, the end points of an optimizer; or `vectors`,
            parameters that were passed. Several for runs of different kinds.
        training: At most 1,000 training inputs `(n,)` with targets `(n, outputs)` or classes
            `(n,)`, for the figure of a network with one input; otherwise None.
    """

    num_draws: int
    effective_draws: float
    level: float
    draw_losses: np.ndarray | None
    walker: np.ndarray | None
    weight: np.ndarray | None
    independent_draws: float = field(default=float("nan"), kw_only=True)
    inputs: np.ndarray | None = field(default=None, kw_only=True)
    places: int = field(default=1, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    averaged: tuple[str, ...] = field(default=(DRAWS,), kw_only=True)
    training: tuple[np.ndarray, np.ndarray] | None = field(default=None, kw_only=True)

    kind: ClassVar[str] = ""

    def __repr__(self) -> str:
        entries = self._entries()
        first_rows = self.frame().head(_ROWS)
        rows = first_rows.to_string(
            index=False, float_format=lambda value: f"{value:.4g}", max_cols=_COLUMNS
        )
        return printable(f"{table(entries)}\n\n{rows}")

    def _repr_html_(self) -> str:
        return html_table("Prediction", self._entries(), frame=self.frame().head(_ROWS))

    def _entries(self) -> list[tuple[str, str]]:
        lines = [
            ("prediction", self.kind.replace("_", " ")),
            ("inputs", f"{self.frame()['input'].nunique():,}"),
        ]
        if self.averages_draws:
            lines += [("draws", f"{self.num_draws:,}, {worth(self.independent_draws)}")]
        else:
            lines += [("average of", self.count_text())]
        lines += self.score_lines()
        return [*lines, *(("note", note) for note in self.notes)]

    @property
    def averages_draws(self) -> bool:
        """Whether posterior draws alone were averaged."""
        return self.averaged == (DRAWS,)

    @property
    def title(self) -> str:
        """The name of this predictor in figures and tables, such as "posterior average"."""
        return title_of(self.averaged, self.num_draws)

    def count_text(self) -> str:
        """Returns how many draws, fits or other vectors of parameters were averaged, in words."""
        if self.averages_draws:
            return f"{self.num_draws:,} draws, {worth(self.independent_draws)}"
        kinds = " and ".join(_COUNTED.get(kind, kind) for kind in self.averaged)
        return f"{self.num_draws:,} {kinds}"

    def score_lines(self) -> list[tuple[str, str]]:
        """Returns the label and value of each score, as printed in tables."""
        return [(self.score_label(name), f"{value:.4g}") for name, value in self.scores().items()]

    def score_label(self, name: str) -> str:
        """Returns the name of a score in words; scores of intervals include their probability.

        Args:
            name: Name of the score, a key of `scores()`.

        Returns:
            A few words.
        """
        level = f"{100 * self.level:g} % intervals"
        words = {"coverage": f"coverage of {level}", "interval_width": f"width of {level}"}
        return words.get(name, name.replace("_", " "))

    def plot(self, along: int | None = None, path: AnyPath | None = None) -> "Figure":
        """Plots the prediction with its intervals, its calibration and its entropy.

        Args:
            along: Input column for the horizontal axis, from 0. Default: None, the only column.
            path: A PNG file to write. Default: None, no file.

        Returns:
            The figure; see `tati_re.plotting.plot_prediction`.
        """
        return drawn("prediction", self, along=along, path=path)

    def frame(self) -> pd.DataFrame:
        """Returns the predictions as a table with one row per input."""
        raise NotImplementedError

    def scores(self) -> dict[str, float]:
        """Returns the scores of these predictions by name; empty without labels."""
        raise NotImplementedError

    def uncertainty(self) -> dict[str, np.ndarray]:
        """Returns uncertainty scores of each input, `(n,)` each; larger for inputs unlike the
        training data.
        """
        raise NotImplementedError

    def write_csv(self, path: AnyPath) -> None:
        """Writes `frame()` as a CSV file.

        Args:
            path: The file.

        Raises:
            StorageError: The file cannot be written.
        """
        write_whole(path, frame_text(self.frame()))


@dataclass(frozen=True, eq=False, repr=False)
class _Probabilities(Prediction):
    """What predictions of classes and of labels have in common."""

    probabilities: np.ndarray
    std: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    expected_entropy: np.ndarray

    @property
    def entropy(self) -> np.ndarray:
        raise NotImplementedError

    @property
    def mutual_information(self) -> np.ndarray:
        """Entropy less expected entropy, in nats, `(n,)`; 0 where the difference is rounding."""
        difference = self.entropy - self.expected_entropy
        return np.where(difference < _ROUNDING, 0.0, difference)

    def uncertainty(self) -> dict[str, np.ndarray]:
        return {"entropy": self.entropy, "mutual_information": self.mutual_information}


@front_doors
@deferrable("lower", "upper")
@dataclass(frozen=True, eq=False, repr=False)
class ClassPrediction(_Probabilities):
    """Class probabilities averaged over the posterior.

    The entropy H(E p) of the averaged probabilities has two parts. E H(p) is the uncertainty that
    remains if the parameters are known (aleatoric). The mutual information between label and
    parameters is the disagreement between draws (epistemic).

    Attributes:
        probabilities: Posterior average, `(n, classes)`. If an input has classes at several
            positions, each position counts as a separate input, one after the other, here and
            below.
        std: Standard deviation of the probabilities over the draws, `(n, classes)`.
        lower: Lower end of the central interval of the probabilities over the draws, `(n,
            classes)`. None for averages accumulated while sampling.
        upper: Upper end of this interval, `(n, classes)`, or None.
        expected_entropy: E H(p), in nats, `(n,)`.
        labels: True classes, `(n,)`, counted from 0, or None.
        class_values: Names of the classes: 0, 1, ..., or -1 and 1, or texts.
        draw_accuracy: Fraction of correct classes of each draw, `(draws,)`, or None.
        class_weights: Weight of the examples of each class in the likelihood, `(classes,)`. Empty
            if all weights are equal.
    """

    labels: np.ndarray | None
    class_values: np.ndarray
    draw_accuracy: np.ndarray | None
    class_weights: tuple[float, ...] = field(default=(), kw_only=True)

    kind: ClassVar[str] = "classification"

    def without_class_weights(self) -> np.ndarray:
        """Returns class probabilities corrected for the class weights of the likelihood, `(n,
        classes)`.

        A likelihood in which examples of class c count w[c] times predicts w[c] p(c|x), normalized.
        The averaged probabilities are divided by the weights, then each row by its sum. The result
        refers to the class frequencies in the data.
        """
        if not self.class_weights:
            return self.probabilities
        shares = self.probabilities / np.asarray(self.class_weights)
        return shares / shares.sum(axis=1, keepdims=True)

    def pairs(self) -> "ClassPrediction":
        """Returns the prediction itself, which has one label per input."""
        return self

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of the averaged probabilities, in nats, `(n,)`."""
        return metrics.predictive_entropy(self.probabilities)

    @property
    def predicted(self) -> np.ndarray:
        """The most probable class of each input, as labels of the data, `(n,)`."""
        return self.class_values[self.probabilities.argmax(axis=1)]

    def calibration(self, num_bins: int = 15) -> metrics.Calibration:
        """Returns reliability bins and the expected calibration error.

        Args:
            num_bins: Number of bins, at least 1. Default: 15.

        Returns:
            The bins and the error.

        Raises:
            InputError: There are no labels.
        """
        return metrics.calibration(self.probabilities, known_labels(self.labels), num_bins)

    def scores(self) -> dict[str, float]:
        if self.labels is None:
            return {}
        p = self.probabilities
        labels = self.labels
        return {
            "accuracy": metrics.accuracy(p, labels),
            "negative_log_likelihood": metrics.negative_log_likelihood(p, labels),
            "brier_score": brier_score(p, labels),
            "calibration_error": self.calibration().error,
        }

    def frame(self) -> pd.DataFrame:
        best = self.probabilities.argmax(axis=1)
        rows = np.arange(len(best))
        num_places = self.places
        columns: dict[str, Any] = {"input": rows // num_places} | (
            {"place": rows % num_places} if num_places > 1 else {}
        )
        if self.labels is not None:
            columns["label"] = self.class_values[self.labels]
        columns |= {"predicted": self.predicted, "probability": self.probabilities[rows, best]}
        if self.lower is not None and self.upper is not None:
            columns |= {"lower": self.lower[rows, best], "upper": self.upper[rows, best]}
        columns |= {"entropy": self.entropy, "expected_entropy": self.expected_entropy}
        columns["mutual_information"] = self.mutual_information
        probabilities = {
            f"p[{name}]": self.probabilities[:, k] for k, name in enumerate(self.class_values)
        }
        return pd.DataFrame(columns | probabilities)


@front_doors
@deferrable("lower", "upper")
@dataclass(frozen=True, eq=False, repr=False)
class LabelPrediction(_Probabilities):
    """Probabilities of several labels at once, averaged over the posterior.

    Given the parameters, the labels are independent; on average over the posterior they are not.

    The score `accuracy` is the fraction of examples with all labels correct, as in run.csv.
    `label_accuracy` is the fraction of correct single labels. The negative log likelihood covers
    all labels of an example jointly, -log E p(y|x, θ). Brier score and calibration treat each label
    as a choice between two classes.

    Attributes:
        labels: True labels, `(n, labels)` of 0 and 1, or None.
        log_density: log E p(y|x, θ) of each example, `(n,)`, or None.
        draw_accuracy: Fraction of examples with all labels correct for each draw, `(draws,)`, or
            None.
        probabilities: Posterior average of the probability that a label is 1, `(n, labels)`.
        expected_entropy: E H(p), in nats, summed over the labels, `(n,)`.
        std: Standard deviation of the probabilities over the draws, `(n, labels)`.
        lower: Lower end of the central interval of the probabilities over the draws, `(n, labels)`.
            None for averages accumulated while sampling.
        upper: Upper end of this interval, `(n, labels)`, or None.
    """

    labels: np.ndarray | None
    log_density: np.ndarray | None
    draw_accuracy: np.ndarray | None

    kind: ClassVar[str] = "multi_label"

    def pairs(self) -> ClassPrediction:
        """Returns all labels as n times labels examples of two classes."""
        p = self.probabilities.reshape(-1)
        std = self.std.reshape(-1, 1).repeat(2, 1)
        labels = None if self.labels is None else self.labels.reshape(-1)

        return ClassPrediction(
            num_draws=self.num_draws,
            effective_draws=self.effective_draws,
            level=self.level,
            draw_losses=None,
            walker=None,
            weight=None,
            averaged=self.averaged,
            probabilities=np.stack([1 - p, p], 1),
            std=std,
            lower=None,
            upper=None,
            expected_entropy=np.full(len(p), np.nan),
            labels=labels,
            class_values=np.arange(2),
            draw_accuracy=None,
        )

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of the averaged probabilities, in nats, summed over the labels, `(n,)`."""
        return self.pairs().entropy.reshape(self.probabilities.shape).sum(axis=1)

    @property
    def predicted(self) -> np.ndarray:
        """The more probable value of each label, `(n, labels)`."""
        return (self.probabilities > 0.5).astype(np.int64)

    def calibration(self, num_bins: int = 15) -> metrics.Calibration:
        """Returns reliability bins and the calibration error of all labels.

        Args:
            num_bins: Number of bins, at least 1. Default: 15.

        Returns:
            The bins and the error.

        Raises:
            InputError: There are no labels.
        """
        return self.pairs().calibration(num_bins)

    def scores(self) -> dict[str, float]:
        if self.labels is None or self.log_density is None:
            return {}
        single = self.pairs().scores()
        return {
            "accuracy": float((self.predicted == self.labels).all(axis=1).mean()),
            "label_accuracy": single["accuracy"],
            "negative_log_likelihood": float(-self.log_density.mean()),
            **{name: single[name] for name in ("brier_score", "calibration_error")},
        }

    def frame(self) -> pd.DataFrame:
        columns: dict[str, Any] = {"input": np.arange(len(self.probabilities))}
        parts = {
            "label": self.labels,
            "p": self.probabilities,
            "lower": self.lower,
            "upper": self.upper,
        }
        for k in range(self.probabilities.shape[1]):
            columns |= {
                f"{name}[{k}]": values[:, k] for name, values in parts.items() if values is not None
            }
        columns |= {"entropy": self.entropy, "expected_entropy": self.expected_entropy}
        return pd.DataFrame(columns | {"mutual_information": self.mutual_information})


@front_doors
@deferrable("mean_lower", "mean_upper", "lower", "upper", "crps", "pit")
@dataclass(frozen=True, eq=False, repr=False)
class RegressionPrediction(Prediction):
    """Predicted values in the units of the data, a mixture of one normal per posterior draw.

    Attributes:
        mean: Posterior mean, `(n, outputs)`.
        parameter_std: Standard deviation of the network outputs over the draws, `(n, outputs)`.
        noise_std: Standard deviation of the noise, `(n, outputs)`. None if the loss does not
            describe the noise.
        mean_lower: Lower end of the central interval of the network outputs over the draws, `(n,
            outputs)`.
        mean_upper: Upper end of this interval, `(n, outputs)`.
        lower: Lower end of the central interval of a new observation, `(n, outputs)`. None if the
            loss does not describe the noise.
        upper: Upper end of this interval, `(n, outputs)`, or None.
        targets: Observed values, `(n, outputs)`, or None.
        log_density: Log density of the targets of an example, jointly over outputs, `(n,)`. None
            without targets or noise.
        crps: Continuous ranked probability score, `(n, outputs)`, or None.
        pit: Predictive probability below each target, `(n, outputs)`, or None. Uniform for
            calibrated predictions.
        scale: Unit of each output in uncertainty scores: the standard deviation of its targets if
            they were standardized.
        target_names: Names of the outputs; empty if they have none.
    """

    mean: np.ndarray
    parameter_std: np.ndarray
    noise_std: np.ndarray | None
    mean_lower: np.ndarray
    mean_upper: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    targets: np.ndarray | None
    log_density: np.ndarray | None
    crps: np.ndarray | None
    pit: np.ndarray | None
    scale: np.ndarray | float = field(default=1.0, kw_only=True)
    target_names: tuple[str, ...] = field(default=(), kw_only=True)

    kind: ClassVar[str] = "regression"

    @property
    def std(self) -> np.ndarray | None:
        """Standard deviation of a new observation, from noise and parameters, `(n, outputs)`.

        None if the loss does not describe the noise.
        """
        return None if self.noise_std is None else np.hypot(self.parameter_std, self.noise_std)

    @property
    def coverage(self) -> float:
        """Fraction of the targets inside their intervals.

        Raises:
            InputError: There are no targets, or no intervals for observations.
        """
        if self.lower is None or self.upper is None:
            problem = "coverage: the loss does not model the noise of an observation."
            raise InputError(problem, expected="gaussian or another loss with noise")
        y = known_labels(self.targets)
        return float(((self.lower <= y) & (y <= self.upper)).mean())

    def scores(self) -> dict[str, float]:
        scores = {} if self.targets is None else self._errors(self.targets)
        if self.noise_std is None and self.draw_losses is not None:
            scores["mean_loss"] = float(np.average(self.draw_losses, weights=self.weight))
        if self.log_density is not None:
            scores["negative_log_likelihood"] = float(-self.log_density.mean())
        if self.crps is not None:
            scores["crps"] = float(self.crps.mean())
        if self.targets is not None and self.lower is not None and self.upper is not None:
            scores["coverage"] = self.coverage
            scores["interval_width"] = float((self.upper - self.lower).mean())
        return scores

    def by_target(self) -> pd.DataFrame:
        """Returns the scores of each output separately, one row each.

        Returns:
            A frame with the column `rmse`, in the units of the data. If the loss describes the
            noise, also `crps`, `coverage`, `interval_width` and `noise_std`, averaged over the
            examples. Rows have the names of the targets, or numbers.

        Raises:
            InputError: There are no targets.
        """
        targets = known_labels(self.targets)
        columns = {"rmse": np.sqrt(((targets - self.mean) ** 2).mean(axis=0))}
        if self.crps is not None:
            columns["crps"] = self.crps.mean(axis=0)
        if self.lower is not None and self.upper is not None:
            inside = (self.lower <= targets) & (targets <= self.upper)
            columns["coverage"] = inside.mean(axis=0)
            columns["interval_width"] = (self.upper - self.lower).mean(axis=0)
        if self.noise_std is not None:
            columns["noise_std"] = self.noise_std.mean(axis=0)
        named = len(self.target_names) == targets.shape[1]
        index = list(self.target_names) if named else list(range(targets.shape[1]))
        return pd.DataFrame(columns, index=pd.Index(index, name="target"))

    def _errors(self, targets: np.ndarray) -> dict[str, float]:
        """The root mean squared error, and that of each output where their units differ."""
        squares = ((targets - self.mean) ** 2).mean(axis=0)
        errors = {"rmse": float(np.sqrt(squares.mean()))}
        if np.ptp(self.scale) > 0 and len(squares) <= _COLUMNS:
            errors |= {f"rmse[{k}]": float(np.sqrt(square)) for k, square in enumerate(squares)}
        return errors

    def uncertainty(self) -> dict[str, np.ndarray]:
        names = {} if self.std is None else {"std": self.std}
        names["parameter_std"] = self.parameter_std
        return {
            name: np.sqrt(((values / self.scale) ** 2).sum(axis=1))
            for name, values in names.items()
        }

    def frame(self) -> pd.DataFrame:
        columns: dict[str, np.ndarray] = {"input": np.arange(len(self.mean))}
        names = (
            "targets",
            "mean",
            "std",
            "noise_std",
            "parameter_std",
            "lower",
            "upper",
            "mean_lower",
            "mean_upper",
        )
        for k in range(self.mean.shape[1]):
            end = f"[{k}]" if self.mean.shape[1] > 1 else ""
            for name in names:
                if (values := getattr(self, name)) is not None:
                    columns[("target" if name == "targets" else name) + end] = values[:, k]
        if self.log_density is not None:
            columns["log_density"] = self.log_density
        return pd.DataFrame(columns)


def class_values(task: str, count: int, names: Sequence[str]) -> np.ndarray:
    """Names of the classes: -1 and 1, texts or integers.

    Args:
        task: The kind of targets; "signs" for -1 and 1.
        count: The number of classes.
        names: Names of the classes; without one for each class, the numbers from 0 are used.

    Returns:
        Shape (classes,).
    """
    if task == "signs":
        return np.array([-1, 1])
    return np.array(names if len(names) == count else range(count))


def labels_of_rows(labels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Several labels of each example, int64, shape (n, labels).

    Args:
        labels: Numbers 0 and 1, shape (n, labels) or (n, ...) with as many numbers in a row.
        shape: The shape (n, labels) that the network predicts.

    Raises:
        InputError: The labels have another shape or other values.
    """
    values = np.asarray(labels)
    values = values.reshape(len(values), -1) if values.ndim > 2 else values
    if values.shape != shape or not np.isin(values, (0, 1)).all():
        raise InputError(
            "The labels do not match the network.", values.shape, f"{shape} of 0 and 1"
        )
    return values.astype(np.int64)


def known_labels(labels: np.ndarray | None) -> np.ndarray:
    if labels is None:
        raise InputError("There are no labels to compare with.", expected="predict(inputs, labels)")
    return labels
