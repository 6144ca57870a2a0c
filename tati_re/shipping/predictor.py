"""A posterior that predicts without its run: members, their weights, and the way in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.user_input import error_text, seeded
from tati_re.likelihoods.contract import Likelihood
from tati_re.likelihoods.mixture import mixture_quantile
from tati_re.posterior.predictive import CLASSES, VALUES
from tati_re.prediction import results
from tati_re.prediction.averaging import average
from tati_re.prediction.calibrating import with_scale, with_temperature
from tati_re.prediction.draws import BOTH, FITS, Members
from tati_re.prediction.network import Network
from tati_re.prediction.outputs import outputs_of_draws
from tati_re.prediction.rows import labels_by_name, named_rows, packed_rows
from tati_re.runs.manifest import Manifest
from tati_re.shipping.carried_run import CarriedRun
from tati_re.shipping.predictor_file import Parts, parts_of_file, write_parts

_MOST_MEMBERS_SHOWN = 6


_NOT_ONLY_DRAWS = {
    FITS: "members: fits of the run, not posterior draws",
    BOTH: "members: posterior draws and fits of the run",
}
"""What a predictor says about members that are not, or not all, draws."""


@front_doors
class Predictor:
    """The posterior of a run as a few weighted networks in one file.

    It predicts as `run.predict` does, in the units of the data, and needs neither the run folder
    nor the data. Create one with `run.compress(members=16)`; store it with `save` and read it with
    `load`.

    Args:
        parts: Members, weights and metadata, as `Predictor.load` reads them.
        model: The Keras model, if the file cannot hold it. Default: None, the model in the file.
        loss: The loss of the run, if it was an object. Default: None.

    Attributes:
        weights: Weights of the members, which sum to 1, shape (members,).
        losses: Information lost by the compression, in nats per row, by kind of input. Empty if
            nothing was lost.

    Examples:
        >>> predictor = tati_re.load("runs/a").compress(members=None)
        >>> predictor.save("a.tati")
        >>> tati_re.Predictor.load("a.tati").num_members == predictor.num_members
        True
    """

    def __init__(self, parts: Parts, model: Any = None, loss: Any = None) -> None:
        objects = {"model": model if model is not None else parts.model()}
        if loss is not None:
            objects["loss"] = loss
        self.parts = parts
        self._run = CarriedRun(parts.manifest, parts.path, objects)
        self.network = Network(self._run, objects["model"], parts.auxiliary)
        parts.check(self.network.flat)
        numbers = np.arange(len(parts.members))
        kind = parts.manifest.averaged
        self.members = Members(parts.members, numbers, parts.weights * len(numbers), kind)
        self.weights = parts.weights
        self.losses: Mapping[str, float] = dict(parts.losses)

    @classmethod
    def load(cls, path: AnyPath, *, model: Any = None, loss: Any = None) -> Self:
        """Opens a file written by `save`, without running any code in it.

        Args:
            path: The file, ending in `.tati`.
            model: The Keras model, if the file holds none that Keras can load. Default: None, the
                model in the file.
            loss: The loss of the run, if it was your own object. Default: None.

        Returns:
            The predictor.

        Raises:
            InputError: The file does not exist, is damaged, or was not written by `save`.
        """
        parts = parts_of_file(path)
        try:
            return cls(parts, model, loss)
        except InputError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            problem = f"{path} cannot be read: its description does not fit its network."
            raise InputError(
                problem, error_text(error), "a file that Predictor.save wrote"
            ) from None

    def save(self, path: AnyPath) -> None:
        """Writes the predictor to one file.

        Args:
            path: The file, ending in `.tati`, in an existing folder.

        Raises:
            InputError: The path has a different ending.
            StorageError: The file cannot be written.
        """
        write_parts(path, self.parts)

    @property
    def manifest(self) -> Manifest:
        """The part of the run's manifest that predictions need."""
        return self._run.manifest

    @property
    def carried_run(self) -> CarriedRun:
        """The stored part of the run, in the form that readers of inputs expect."""
        return self._run

    @property
    def calibration(self) -> float | None:
        """Calibrating temperature of class probabilities or scale of values; None without
        calibration.
        """
        return self.parts.calibration

    @property
    def num_members(self) -> int:
        """Number of networks."""
        return len(self.members)

    @property
    def kind(self) -> str:
        """The kind of prediction: `"regression"`, `"classification"` or `"multi_label"`."""
        return self.network.predictive.kind

    @property
    def digest(self) -> str:
        """SHA-256 of everything that determines predictions, the same before and after `save`."""
        return self.parts.digest

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Python and of the packages that sampled the posterior."""
        manifest = self._run.manifest
        return {"tati_re": manifest.tati_re, **manifest.versions}

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the input columns; empty if they have none."""
        return tuple(self._run.manifest.dataset.feature_names)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the predicted values; empty if they have none."""
        return self.network.target_names

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The categories of each input column of text, in the order of their numbers."""
        return {
            column_categories.column: column_categories.texts
            for column_categories in self.network.categories
        }

    @property
    def classes(self) -> np.ndarray:
        """The classes in the order of their probabilities."""
        predictive = self.network.predictive
        self._refuse_other(CLASSES, "classes")
        names = self.network.class_names
        return results.class_values(predictive.task, predictive.num_columns, names)

    @property
    def training_ranges(self) -> pd.DataFrame:
        """Minimum and maximum of each input column in training: columns `low` and `high`.

        If the run has columns of text, the column `categories` has their texts, and `low` and
        `high` are NaN there; `categories` of a column of numbers is empty.
        """
        data = self._run.manifest.dataset
        ranges = data.input_ranges
        problem = "training_ranges: the run has no table of inputs."
        if ranges is None:
            raise InputError(problem, expected="a run on a table of numbers")
        names = data.feature_names or [str(number) for number in range(len(ranges.low))]
        table = pd.DataFrame(
            {"low": ranges.low, "high": ranges.high}, index=pd.Index(names, name="column")
        )
        if not self.categories:
            return table
        of_text = table.index.isin(list(self.categories))
        table[of_text] = np.nan
        table["categories"] = [self.categories.get(name, ()) for name in names]
        return table

    def predict(self, inputs: Any, labels: Any = None, *, interval: float = 0.9) -> Any:
        """Predicts with uncertainties, as `run.predict` does.

        Args:
            inputs: `(n, ...)`, as in the data set, before any scaling; or a data frame, a dict or a
                list of dicts with the names of the columns.
            labels: True labels or values, for scores. Default: None, label columns among the
                inputs.
            interval: Probability inside the central intervals, between 0 and 1. Default: 0.9.

        Returns:
            A `ClassPrediction`, a `LabelPrediction` or a `RegressionPrediction`.

        Raises:
            InputError: Inputs or labels do not fit.
        """
        problem = "interval is out of range."
        refuse_if(not 0 < interval < 1, problem, interval, "a number between 0 and 1")
        table = named_rows(self._run, inputs)
        rows = packed_rows([self._run], table)
        return self.averaged(rows, labels_by_name([self._run], table, labels), interval)

    def averaged(self, inputs: Any, labels: Any = None, interval: float = 0.9) -> Any:
        """Predicts for inputs in column order, without comparing them with the training ranges.

        Args:
            inputs: `(n, ...)`, as in the data set.
            labels: True labels or values. Default: None.
            interval: Probability inside the central intervals, between 0 and 1. Default: 0.9.

        Returns:
            A `ClassPrediction`, a `LabelPrediction` or a `RegressionPrediction`.
        """
        source = (self.network, self.members)
        prediction = average([source], inputs, labels, interval)
        factor = self.calibration
        if factor is None:
            return prediction
        if isinstance(prediction, results.ClassPrediction):
            return with_temperature(prediction, factor)
        assert isinstance(prediction, results.RegressionPrediction)

        def again(targets: np.ndarray | None) -> Any:
            return average([source], inputs, targets, interval)

        return with_scale(prediction, factor, again)

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """Returns averaged probabilities of the classes, or of several labels at once.

        Args:
            inputs: Inputs, as for `predict`.

        Returns:
            Probabilities, shape (n, classes).
        """
        if self.kind == VALUES:
            raise InputError("predict_proba belongs to classes.", self.kind, "predict, quantiles")
        return self.predict(inputs).probabilities

    def predict_interval(self, inputs: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Returns central intervals of a new observation, or posterior intervals of class
        probabilities.

        Args:
            inputs: Inputs, as for `predict`.
            level: Probability inside the interval, between 0 and 1. Default: 0.9.

        Returns:
            Lower and upper ends, shape (n, targets) or (n, classes) each.
        """
        prediction = self.predict(inputs, interval=level)
        if prediction.lower is None:
            raise self._without_noise("predict_interval")
        return prediction.lower, prediction.upper

    def quantiles(self, inputs: Any, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Returns quantiles of a new observation.

        Args:
            inputs: Inputs, as for `predict`.
            levels: Cumulative probabilities, between 0 and 1. Default: 0.05, 0.5, 0.95.

        Returns:
            Quantiles in the units of the data, shape (levels, n, targets).

        Raises:
            InputError: The predictor is a classifier, or its loss does not describe the noise.
        """
        self._refuse_other(VALUES, "quantiles")
        for level in levels:
            problem = "levels: a quantile is out of range."
            refuse_if(not 0 < level < 1, problem, level, "numbers between 0 and 1")
        law, weights = self._law(inputs, "quantiles")
        predictive = self.network.predictive
        objective = predictive.objective
        discrete = isinstance(objective, Likelihood) and objective.discrete
        columns = predictive.num_columns
        quantiles = [mixture_quantile(law, level, weights, columns, discrete) for level in levels]
        return self._stretched(np.stack(quantiles), law.mean)

    def sample(self, inputs: Any, num: int = 1, seed: int = 0) -> np.ndarray:
        """Draws new observations from the predictive distribution.

        Each sample of values comes from one member for all inputs, so samples are joint over
        inputs. Classes are drawn independently for each input.

        Args:
            inputs: Inputs, as for `predict`.
            num: Number of samples, at least 1. Default: 1.
            seed: Seed of the random numbers. Default: 0.

        Returns:
            Values in the units of the data, shape (num, n, targets), or class labels, shape (num,
            n).
        """
        refuse_if(num < 1, "num is too small.", num, "at least 1")
        random = seeded(seed)
        if self.kind == CLASSES:
            return self._sampled_classes(inputs, num, random)
        outputs, extra = self._outputs(inputs)
        predictive = self.network.predictive
        if self.kind == VALUES and not predictive.has_noise:
            raise self._without_noise("sample")
        member = random.choice(len(self.weights), size=num, p=self.weights)
        member_extra = None if extra is None else extra[member]
        drawn = predictive.drawn(outputs[member], member_extra, random)
        if self.kind == VALUES:
            return self._stretched(drawn, predictive.restored(outputs, extra))
        return drawn

    def log_prob(self, inputs: Any, labels: Any) -> np.ndarray:
        """Returns the log predictive density or probability of labels, jointly over the targets of
        a row.

        Args:
            inputs: Inputs, as for `predict`.
            labels: Labels or values, `(n,)` or `(n, targets)`, in the units of the data.

        Returns:
            Logarithms in nats, shape (n,).
        """
        prediction = self.predict(inputs, labels)
        if isinstance(prediction, results.ClassPrediction):
            rows = np.arange(len(prediction.probabilities))
            with np.errstate(divide="ignore"):
                return np.log(
                    prediction.probabilities[rows, results.known_labels(prediction.labels)]
                )
        if prediction.log_density is None:
            raise self._without_noise("log_prob")
        return prediction.log_density

    def to_keras(self, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> Any:
        """Returns one plain Keras model with the same predictions; see `tati_re.shipping.to_keras`.

        Args:
            quantiles: Levels of the predicted quantiles, between 0 and 1. Default: 0.05, 0.5, 0.95.

        Returns:
            The Keras model.
        """
        from tati_re.shipping.keras_export import to_keras

        return to_keras(self, quantiles)

    def export(
        self,
        path: AnyPath,
        to: str = "keras",
        *,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        overwrite: bool = False,
    ) -> None:
        """Writes the predictor in a format for other programs.

        Args:
            path: The file, or the folder of a SavedModel.
            to: `"keras"`, one `.keras` file without code; `"savedmodel"`, a folder; `"npz"`,
                arrays; or `"tati"`, as written by `save`. Default: keras.
            quantiles: Levels of the quantiles that Keras predicts, between 0 and 1. Default: 0.05,
                0.5, 0.95.
            overwrite: Whether to replace an existing file. Default: False.

        Raises:
            InputError: The format or ending is unknown, or Keras alone cannot compute the network
                or loss.
            StorageError: The file cannot be written.
        """
        from tati_re.shipping.formats import export

        export(self, path, to, tuple(quantiles), overwrite)

    def __repr__(self) -> str:
        names = ", ".join(self.feature_names[:_MOST_MEMBERS_SHOWN])
        more = ", ..." if len(self.feature_names) > _MOST_MEMBERS_SHOWN else ""
        members = "1 member" if self.num_members == 1 else f"{self.num_members} members"
        lines = [
            f"Predictor: {self.kind.replace('_', ' ')}, {members} of "
            f"{self.network.num_parameters:,} parameters",
            *([_NOT_ONLY_DRAWS[kind]] if (kind := self.members.kind) in _NOT_ONLY_DRAWS else []),
            *([f"inputs: {names}{more}"] if names else []),
            *(f"loss {name}: {value:.4f} nats a row" for name, value in self.losses.items()),
            f"digest: {self.digest[:16]}",
        ]
        return "\n".join(lines)

    def _outputs(self, inputs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Outputs of the members, `(members, n, outputs)`, and their extra parameters."""
        rows = packed_rows([self._run], named_rows(self._run, inputs))
        return outputs_of_draws(self.network, self.members, self.network.prepared(rows))

    def _law(self, inputs: Any, method: str) -> tuple[Any, np.ndarray]:
        """The laws of the members, and their weights."""
        outputs, extra = self._outputs(inputs)
        law = self.network.predictive.law(outputs, extra)
        if law is None:
            raise self._without_noise(method)
        return law, self.weights

    def _stretched(self, values: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Values, calibrated if the run is: stretched about the mean of the mixture."""
        factor = self.calibration
        if factor is None:
            return values
        middle = np.tensordot(self.weights, means, 1)
        return middle + factor * (values - middle)

    def _sampled_classes(self, inputs: Any, num: int, random: np.random.Generator) -> np.ndarray:
        prediction = self.predict(inputs)
        below = np.cumsum(prediction.probabilities, axis=1)[:, :-1]
        numbers = (random.random((num, len(below), 1)) > below).sum(axis=-1)
        return prediction.class_values[numbers]

    def _refuse_other(self, kind: str, method: str) -> None:
        expected = "predict" if kind == VALUES else "predict, quantiles"
        refuse_if(self.kind != kind, f"{method} belongs to {kind}.", self.kind, expected)

    def _without_noise(self, method: str) -> InputError:
        name = self.network.predictive.name
        problem = f"{method}: the loss says nothing of the noise of an observation."
        return InputError(problem, name, "a run with gaussian or another loss with noise")
