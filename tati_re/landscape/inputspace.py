"""Predictions over a grid of inputs, and their spread over sampled parameters."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.figure import Figure

from tati_re.core.errors import AnyPath, InputError, nearest, refuse_if
from tati_re.core.files.regular import check_regular, regular_bytes
from tati_re.core.files.text_lines import is_header
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.user_warnings import warn_user
from tati_re.core.views import drawn, viewable
from tati_re.data.categories import stored_categories
from tati_re.data.columns import numbered
from tati_re.landscape.grid import MOST_POINTS, Axis, axes_of
from tati_re.landscape.request import centre_of
from tati_re.launch.run import load
from tati_re.models.inspect import input_shape_of
from tati_re.prediction.averaging import average
from tati_re.prediction.draws import Draws, Members
from tati_re.prediction.inputs import read_inputs as to_predict
from tati_re.prediction.network import Network, dataset_of, has_its_data, model_of
from tati_re.prediction.results import ClassPrediction, LabelPrediction, Prediction
from tati_re.runs.manifest_entries import PreparationEntry
from tati_re.system.saved_model import read_rows

MARGIN = 0.15
MANY_POINTS = 100_000
POINTS = {1: 201, 2: 81, 3: 21}
MOST_INPUTS = 3
DEFAULT_INPUTS = 2
"""Inputs that may vary together, and how many do where there are more."""
WHICH = "all, mean, last, or numbers of stored steps"


@front_doors
@viewable
class InputSpace(NamedTuple):
    """Predictions over a space of inputs.

    Attributes:
        inputs: The inputs, `(n, columns)`.
        prediction: The result of `tati_re.prediction.average`: class probabilities or mean values,
            their spread over the draws, and intervals.
        names: Names of the columns.
        axes: Axes of the grid, the first column slowest; empty if you passed the inputs.
        examples: Inputs and labels of the training data, for the figure, or None.
        along: Indices from 0 of the columns that vary over the grid; empty if you passed the
            inputs.
        others: The fixed values of the other columns, in words, or an empty text.
    """

    inputs: np.ndarray
    prediction: Prediction
    names: tuple[str, ...]
    axes: tuple[Axis, ...] | None
    examples: tuple[np.ndarray, np.ndarray] | None
    along: tuple[int, ...] = ()
    others: str = ""

    def plot(self, path: AnyPath | None = None) -> Figure:
        """Plots the predictions over the grid; see `tati_re.plotting.plot_input_space`.

        Args:
            path: File for the figure. Default: None, no file.

        Returns:
            The figure.
        """
        return drawn("input_space", self, path=path)

    def frame(self) -> pandas.DataFrame:
        """Returns one row per input: its columns, then the columns of the prediction.

        For classes, `std` is the standard deviation over the draws.
        """
        inputs = pandas.DataFrame(self.inputs, columns=list(self.names))
        predictions = self.prediction.frame().drop(columns="input")
        prediction = self.prediction
        if isinstance(prediction, ClassPrediction | LabelPrediction):
            for k, spread in enumerate(prediction.std.T):
                predictions[
                    f"std[{prediction.class_values[k] if isinstance(prediction, ClassPrediction) else k}]"
                ] = spread
        return pandas.concat([inputs, predictions], axis=1)


@front_door
def input_space(
    run: Any,
    ranges: Sequence[Axis | str] | Axis | str | None = None,
    *,
    along: Sequence[str | int] | str | int | None = None,
    inputs: np.ndarray | None = None,
    which: str | Sequence[int] = "all",
    parameters: np.ndarray | None = None,
    walker: int | None = None,
    thin: int = 1,
    model: Any = None,
) -> InputSpace:
    """Predicts on a grid of inputs, or on given inputs.

    The predictions are p(y|x) averaged over the draws: probabilities, not logits. `std` is their
    spread over the draws, `mutual_information` the disagreement between draws.

    Args:
        run: A run or its folder.
        ranges: `-6:6:81` or an `Axis` for all varying inputs, or one for each, in the units of the
            data. Default: None, the range of the training data plus 15 % on each side, with 201
            points for one input, 81 x 81 for two and 21 each for three.
        along: One to three varying inputs, by name, or by number from 1. The other inputs are fixed
            at the mean of the training data, or at 0 if it is unknown. Default: None, all of up to
            three inputs, otherwise the first two; all inputs if `ranges` has one entry for each.
        inputs: Inputs `(n, columns)` in place of a grid. Default: None.
        which: Parameters: "all" stored draws, their "mean", the "last" ones, or stored steps by
            number. For a fit, the first three are its end point. Default: "all".
        parameters: Vectors `(draws, parameters)` or `(parameters,)` in place of the draws of the
            run. Default: None.
        walker: One walker of the run, counted from 0. Default: None, all walkers.
        thin: Keep one in this many stored draws. Default: 1.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.

    Returns:
        The inputs with their predictions.

    Raises:
        InputError: There is no such input, the parameters are not stored, or ranges are invalid.
    """
    run = load(run) if isinstance(run, str | os.PathLike) else run
    examples, names = _examples(run)
    axes: tuple[Axis, ...] | None = None
    varied: tuple[int, ...] = ()
    others = ""
    if inputs is None:
        count = _num_inputs(run, examples, model)
        names = names if len(names) == count else numbered(count)
        varied = _varied(along, names, ranges)
        known = stored_categories(run.manifest.dataset.input_categories)
        counts = {names.index(categories.column): len(categories.texts) for categories in known}
        axes = _axes(ranges, examples, varied, counts)
        held, others = _held(run, examples, names, varied, counts)
        inputs = _grid(axes, varied, held)
        if len(inputs) > MANY_POINTS:
            warn_user(f"The grid has {len(inputs):,} inputs, each predicted with every draw.")
    elif ranges is not None or along is not None:
        option = "range" if ranges is not None else "along"
        raise InputError(f"{option}: inputs were already given.", expected="one of the two")
    inputs = np.asarray(inputs)
    flat = inputs.reshape(len(inputs), -1)
    if len(names) != flat.shape[1]:
        names = numbered(flat.shape[1])
    if parameters is not None:
        source: Any = (Network(run, model), Members(np.asarray(parameters)))
    elif isinstance(which, str) and which == "all" and not run.manifest.is_fit:
        source = (Network(run, model), Draws(run, thin=thin, walker=walker))
    else:
        vectors = _chosen(run, which, walker)
        source = (Network(run, model), Members(vectors, np.full(len(vectors), walker or 0)))
    problem = "Sequences of classes cannot be drawn over the inputs."
    rows = source[0].predictive.rows
    refuse_if(rows > 1, problem, f"{rows} places", "one class per input, or run.predict")
    prediction = average([source], inputs)
    return InputSpace(flat, prediction, names, axes, examples, varied, others)


def _chosen(run: Any, which: str | Sequence[int], walker: int | None) -> np.ndarray:
    if not isinstance(which, str):
        return np.stack([run.parameters(int(step), walker) for step in which])
    refuse_if(which not in ("all", "mean", "last"), "which has an unknown value.", which, WHICH)
    which = "last" if run.manifest.is_fit else which
    return centre_of(run.folder, which, walker)[0][None]


def _examples(run: Any) -> tuple[tuple[np.ndarray, np.ndarray] | None, tuple[str, ...]]:
    if not has_its_data(run):
        return None, ()
    dataset = dataset_of(run)
    if dataset.inputs.ndim != 2:
        return None, ()
    names = dataset.feature_names or numbered(dataset.inputs.shape[1])
    return (dataset.inputs, np.asarray(dataset.targets)), tuple(names)


def _num_inputs(run: Any, examples: Any, model: Any) -> int:
    """Columns of the inputs: those of the data, of the run's standardization, or of its model."""
    if examples is not None:
        return examples[0].shape[1]
    if (means := _standard_means(run)) is not None:
        return len(means)
    if derived_from := _preparation(run).names:
        return len(derived_from)
    shape = input_shape_of(model_of(run) if model is None else model)[1:]
    if len(shape) != 1 or shape[0] is None:
        raise InputError(
            "range: the inputs of the run are not columns of numbers.",
            f"shape {tuple(shape)}",
            "inputs: a file or array of them",
        )
    return int(shape[0])


def _varied(along: Any, names: Sequence[str], ranges: Any) -> tuple[int, ...]:
    """The numbers, from 0, of the inputs that vary over the grid."""
    if along is None:
        num_ranges = 0 if ranges is None or isinstance(ranges, str | Axis) else len(ranges)
        if len(names) <= MOST_INPUTS or num_ranges == len(names):
            return tuple(range(len(names)))
        return tuple(range(num_ranges if 1 < num_ranges <= MOST_INPUTS else DEFAULT_INPUTS))
    inputs = [along] if isinstance(along, str | int) else [*along]
    columns = tuple(_column(axis_input, names) for axis_input in inputs)
    if not 1 <= len(columns) <= MOST_INPUTS or len({*columns}) < len(columns):
        raise InputError(
            "along: a grid spans one, two or three different inputs.",
            ", ".join(map(str, inputs)) or "none",
            "such as two of " + ", ".join(names[:20]),
        )
    return columns


def _column(column: str | int, names: Sequence[str]) -> int:
    """The place of an input that is called by its name, or by its number from 1."""
    text = str(column)
    if text in names:
        return list(names).index(text)
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(names):
        return int(text) - 1
    raise InputError(
        f"along: unknown input.{nearest(text, names)}",
        text,
        f"a name among {', '.join(names[:20])}, or a number from 1 to {len(names)}",
    )


def _axes(
    ranges: Any, examples: Any, varied: tuple[int, ...], counts: Mapping[int, int]
) -> tuple[Axis, ...]:
    """An axis for each input that varies; that of a column of text has the numbers of its
    categories, so many as `counts` says for the place of the column.
    """
    if ranges is None:
        if examples is None:
            raise InputError(
                "range: the data of the run were given in Python.",
                expected="-6:6:81 for each input",
            )
        values = examples[0][:, list(varied)]
        low = values.min(axis=0)
        high = values.max(axis=0)
        room = MARGIN * np.where(high > low, high - low, 1.0)
        ends = zip((low - room).tolist(), (high + room).tolist(), strict=True)
        by_place = {
            place: Axis(*pair, POINTS[len(varied)])
            for place, pair in zip(varied, ends, strict=True)
        }
        by_place |= {k: Axis(0.0, counts[k] - 1.0, counts[k]) for k in varied if k in counts}
        return tuple(by_place.values())
    axes = axes_of(ranges, "input", len(varied))
    total = np.prod([float(axis.num_points) for axis in axes])
    expected = f"at most {MOST_POINTS:,}, or inputs"
    refuse_if(
        total > MOST_POINTS,
        f"range: the grid of {len(axes)} inputs is too large.",
        f"{total:.3g}",
        expected,
    )
    return tuple(axes)


def _held(
    run: Any,
    examples: Any,
    names: Sequence[str],
    varied: tuple[int, ...],
    counts: Mapping[int, int],
) -> tuple[np.ndarray, str]:
    """Where each input stays that does not vary, `(columns,)`, and where that is, in words; columns
    of text, whose places are in `counts`, stay at a category.
    """
    means = _standard_means(run) if examples is None else examples[0].mean(axis=0)
    held = np.zeros(len(names)) if means is None else np.asarray(means, np.float64)
    number = len(names) - len(varied)
    if not number:
        return held, ""
    which = "the other input stays" if number == 1 else f"the other {number} inputs stay"
    mean = "its training mean" if number == 1 else "their training means"
    where = mean if means is not None else "0 (the training data are not known)"
    of_text = [k for k in counts if k not in varied]
    for k in of_text:
        held[k] = 0.0 if examples is None else _most_frequent(examples[0][:, k])
    if of_text and len(of_text) == number:
        where = "the most frequent category"
    elif of_text:
        where += ", text inputs at the most frequent category"
    return held, f"{which} at {where}"


def _most_frequent(values: np.ndarray) -> float:
    """The value that occurs most often, the least of several."""
    different, counts = np.unique(values, return_counts=True)
    return float(different[np.argmax(counts)])


def _standard_means(run: Any) -> list[float] | None:
    """The training means by which the run standardizes its inputs, where it does."""
    preparation = _preparation(run)
    standard = preparation.input
    # Those of derived columns are not the means of the columns that they are made from.
    if standard is None or preparation.columns is not None:
        return None
    return list(standard.mean) if isinstance(standard.mean, tuple) else None


def _preparation(run: Any) -> PreparationEntry:
    return run.manifest.dataset.preparation or PreparationEntry()


def _grid(axes: tuple[Axis, ...], varied: tuple[int, ...], held: np.ndarray) -> np.ndarray:
    """The points of a grid, `(n, columns)`, its first axis slowest."""
    parts = np.meshgrid(*(axis.values for axis in axes), indexing="ij")
    points = np.tile(held, (parts[0].size, 1))
    for column, part in zip(varied, parts, strict=True):
        points[:, column] = part.ravel()
    return points


def read_inputs(path: AnyPath, run: Any) -> np.ndarray:
    """Reads inputs from a file, shape (n, inputs).

    Columns of a `.csv` file are taken by the names of the run's inputs if its header contains one
    of them. Otherwise they are taken in order.

    Args:
        path: A `.npy` file, an `.npz` file, of which the first array is read, or a `.csv` file.
        run: The run.
    """
    check_regular(path, "inputs")
    if (file := Path(path)).suffix.lower() == ".csv" and file.is_file():
        # In the encoding of the run's data: whoever reads the rows says what is wrong with it.
        text = regular_bytes(file).decode("utf-8-sig", "replace")
        lines = (line for line in text.splitlines() if line.strip() and line[0] != "#")
        header = [name.strip('" ') for name in re.split("[,;\t]", next(lines, ""))]
        if is_header(header) and {*header} & {*run.manifest.dataset.feature_names}:
            return to_predict(str(path), run)[0]
    rows = read_rows("inputs", path, "inputs")
    return rows if rows.ndim > 1 else rows[:, None]
