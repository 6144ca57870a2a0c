"""Predictions over a grid of inputs, and their spread over sampled parameters."""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.figure import Figure

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.views import drawn, shown
from tati_re.data.columns import numbered
from tati_re.landscape.grid import MOST_POINTS, Axis, axes_of
from tati_re.landscape.request import centre_of
from tati_re.prediction.draws import Draws, Members
from tati_re.prediction.inputs import read_inputs as to_predict
from tati_re.prediction.network import Network, dataset_of, has_its_data
from tati_re.prediction.predict import average
from tati_re.prediction.results import ClassPrediction, LabelPrediction, Prediction
from tati_re.simulation.run import load
from tati_re.simulation.saved_model import is_header, read_rows

MARGIN = 0.15
MANY_POINTS = 100_000
POINTS = {1: 201, 2: 81, 3: 21}
WHICH = "all, mean, last, or numbers of stored steps"


@shown
class InputSpace(NamedTuple):
    """Predictions over a space of inputs.

    Attributes:
        inputs: `(n, columns)`.
        prediction: Of `tati_re.prediction.average`: probabilities of the classes or mean values,
            their spread over the parameters, intervals.
        names: Of the columns.
        axes: Of a grid, the first column slowest; none where the inputs were given.
        examples: Inputs and labels of the training data, for the figure, or none.
    """

    inputs: np.ndarray
    prediction: Prediction
    names: tuple[str, ...]
    axes: tuple[Axis, ...] | None
    examples: tuple[np.ndarray, np.ndarray] | None

    def plot(self, path: AnyPath | None = None) -> Figure:
        """Draws the predictions over the grid; see `tati_re.plotting.plot_input_space`."""
        return drawn("input_space", self, path=path)

    def frame(self) -> pandas.DataFrame:
        """One row per input: its columns, then those of the prediction; `std` of a class over the
        parameters.
        """
        inputs = pandas.DataFrame(self.inputs, columns=list(self.names))
        found = self.prediction.frame().drop(columns="input")
        one = self.prediction
        if isinstance(one, ClassPrediction | LabelPrediction):
            for k, spread in enumerate(one.std.T):
                found[f"std[{one.class_values[k] if isinstance(one, ClassPrediction) else k}]"] = (
                    spread
                )
        return pandas.concat([inputs, found], axis=1)


def input_space(
    run: Any,
    ranges: Sequence[Axis | str] | Axis | str | None = None,
    *,
    inputs: np.ndarray | None = None,
    which: str | Sequence[int] = "all",
    parameters: np.ndarray | None = None,
    walker: int | None = None,
    thin: int = 1,
    model: Any = None,
) -> InputSpace:
    """Predicts on a grid of inputs, or on given inputs. Targets p(y|x) averaged over the
    parameters, probabilities, not logits; `std` is the spread of a prediction over them,
    `mutual_information` what they disagree about.

    Args:
        run: A run or its folder.
        ranges: `-6:6:81` or an `Axis` for all inputs, or one for each, in the units of the data.
            Default: the range of the training data and 15 % more on each side; 201 points of one
            input, 81 x 81 of two, 21 of each of three.
        inputs: `(n, columns)` in place of a grid. Default: none.
        which: Parameters: "all" that were sampled, their "mean", the "last" ones, or stored steps
            by number. Of the run of an optimizer all of these are where it arrived, but for the
            steps. Default: "all".
        parameters: Vectors `(draws, parameters)` or `(parameters,)` in place of the run's. Default:
            none.
        walker, thin: Of the run's, and each so many of the sampled ones. Default: all, and 1.
        model: The Keras model, if the folder could not hold it. Default: the folder's.

    Raises:
        InputError: Inputs of more than three columns and no `inputs`, parameters that are not
            stored, or bad ranges.
    """
    run = load(run) if isinstance(run, str | os.PathLike) else run
    examples, names = _examples(run)
    axes: tuple[Axis, ...] | None = None
    if inputs is None:
        axes = _axes(ranges, examples, run)
        grid = np.meshgrid(*(axis.values for axis in axes), indexing="ij")
        inputs = np.stack([part.ravel() for part in grid], axis=1)
        names = names or numbered(len(axes))
        if len(inputs) > MANY_POINTS:
            warnings.warn(
                f"The grid has {len(inputs):,} inputs, each predicted with every draw.",
                stacklevel=2,
            )
    elif ranges is not None:
        raise InputError("range: inputs are given already.", expected="one of the two")
    inputs = np.asarray(inputs)
    flat = inputs.reshape(len(inputs), -1)
    if len(names) != flat.shape[1]:
        names = numbered(flat.shape[1])
    if parameters is not None:
        source: Any = (Network(run, model), Members(np.asarray(parameters)))
    elif isinstance(which, str) and which == "all" and run.manifest.get("kind") != "fit":
        source = (Network(run, model), Draws(run, thin=thin, walker=walker))
    else:
        vectors = _chosen(run, which, walker)
        source = (Network(run, model), Members(vectors, np.full(len(vectors), walker or 0)))
    what = "Classes at several places have no picture over the inputs."
    rows = source[0].predictive.rows
    refuse_if(rows > 1, what, f"{rows} places", "one class an input, or run.predict")
    return InputSpace(flat, average([source], inputs), names, axes, examples)


def _chosen(run: Any, which: str | Sequence[int], walker: int | None) -> np.ndarray:
    if not isinstance(which, str):
        return np.stack([run.parameters(int(step), walker) for step in which])
    refuse_if(which not in ("all", "mean", "last"), "which is not known.", which, WHICH)
    which = "last" if run.manifest.get("kind") == "fit" else which
    return centre_of(run.folder, which, walker)[0][None]


def _examples(run: Any) -> tuple[tuple[np.ndarray, np.ndarray] | None, tuple[str, ...]]:
    if not has_its_data(run):
        return None, ()
    dataset = dataset_of(run)
    if dataset.inputs.ndim != 2:
        return None, ()
    names = dataset.feature_names or numbered(dataset.inputs.shape[1])
    return (dataset.inputs, np.asarray(dataset.targets)), tuple(names)


def _axes(ranges: Any, examples: Any, run: Any) -> tuple[Axis, ...]:
    if ranges is None:
        if examples is None:
            raise InputError(
                "range: the data of the run were given in Python.",
                expected="-6:6:81 for each input",
            )
        values = examples[0]
        if values.shape[1] not in POINTS:
            what = "A grid spans one, two or three inputs."
            raise InputError(
                what, f"{values.shape[1]} of {run.folder}", "inputs: a file or array of them"
            )
        low = values.min(axis=0)
        high = values.max(axis=0)
        room = MARGIN * np.where(high > low, high - low, 1.0)
        ends = zip((low - room).tolist(), (high + room).tolist(), strict=True)
        return tuple(Axis(*pair, POINTS[values.shape[1]]) for pair in ends)
    axes = axes_of(ranges, "input", None if examples is None else examples[0].shape[1])
    total = np.prod([float(axis.num_points) for axis in axes])
    expected = f"at most {MOST_POINTS:,}, or inputs"
    refuse_if(
        total > MOST_POINTS,
        f"range: the grid of {len(axes)} inputs is too large.",
        f"{total:.3g}",
        expected,
    )
    return tuple(axes)


def read_inputs(path: AnyPath, run: Any) -> np.ndarray:
    """Reads inputs from `.npy`, `.npz` (its first array), or `.csv`, whose columns are taken by the
    names in its header as the run has them, in order where the header has none of them or there is
    none.
    """
    if (file := Path(path)).suffix.lower() == ".csv" and file.is_file():
        lines = (
            line
            for line in file.read_text("utf-8-sig").splitlines()
            if line.strip() and line[0] != "#"
        )
        header = [name.strip('" ') for name in re.split("[,;\t]", next(lines, ""))]
        if is_header(header) and {*header} & {*run.manifest["dataset"].get("feature_names", ())}:
            return to_predict(str(path), run)[0]
    rows = read_rows("inputs", path, "inputs")
    return rows if rows.ndim > 1 else rows[:, None]
