"""Whether two runs sampled the same posterior, as far as their errors can tell."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from tati_re.analysis.averages import average
from tati_re.analysis.temperature import FEWEST_EFFECTIVE
from tati_re.analysis.until import Quantity
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.prediction.network import Network, dataset_of, has_its_data
from tati_re.prediction.quantities import Predict, quantities
from tati_re.runs import files
from tati_re.runs.positions import Positions
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.selection import as_run, burnin_of, is_optimization

LEVEL = 1e-3
"""How often two correct runs are called different: once in 1,000 comparisons."""

RESOLUTION = 0.5
"""Difference of two means, in posterior standard deviations, that has to be visible."""

AGREE, DIFFER, UNKNOWN = "agree", "differ", "unknown"

_INPUTS = 64
_DRAWS_A_DEGREE = 8.0
"""Effective draws for each degree of freedom of the estimated error, as for temperatures."""

_GROUPS = ("U", "predictions", "parameters", "tensors")
_COLUMNS = [
    "group",
    "name",
    "first",
    "first_error",
    "second",
    "second_error",
    "difference",
    "band",
    "verdict",
]


class RunComparison:
    """Two runs, compared quantity by quantity.

    Attributes:
        table: One row for each quantity: `group` (U, predictions, parameters, or tensors), `name`,
            `first` and `second` (means), their `first_error` and `second_error` (standard errors),
            `difference` and `band` (both in posterior standard deviations; chance alone exceeds the
            band of any quantity once in 1,000 comparisons), and `verdict` (agree, differ or
            unknown).
        resolution: Difference in standard deviations that has to be visible for `agree`.
        notes: What could not be compared, one sentence each.
    """

    def __init__(self, table: pd.DataFrame, resolution: float, notes: list[str]) -> None:
        self.table, self.resolution, self.notes = table, resolution, notes

    @property
    def verdict(self) -> str:
        """`differ` if any quantity differs, else `unknown` if any cannot be told, else `agree`."""
        verdicts = set(self.table["verdict"]) or {UNKNOWN}
        return next(
            (verdict_name for verdict_name in (DIFFER, UNKNOWN) if verdict_name in verdicts), AGREE
        )

    def lines(self) -> list[str]:
        """The comparison in sentences, one for each group of quantities, and the verdict."""
        return [*map(self._sentence, self._groups()), *self.notes, self._conclusion()]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _groups(self) -> Iterator[pd.DataFrame]:
        for group in _GROUPS:
            rows = self.table[self.table["group"] == group]
            if len(rows):
                yield rows

    def _sentence(self, rows: pd.DataFrame) -> str:
        group, count = rows["group"].iloc[0], len(rows)
        known = rows.dropna(subset=["difference"])
        if known.empty:
            return f"{group}: unknown, too few independent draws."
        # Equal constants have a band of 0.
        excess = (known["difference"].abs() / known["band"]).fillna(0.0).to_numpy()
        worst = known.iloc[int(np.argmax(excess))]
        counts = rows["verdict"].value_counts()
        counted = ", ".join(
            f"{counts[verdict_name]} {verdict_name}"
            for verdict_name in (DIFFER, UNKNOWN, AGREE)
            if verdict_name in counts
        )
        head = (
            f"{group}: "
            if count == 1
            else f"{group} ({count}): {counted}; largest difference: {worst['name']}, "
        )
        return (
            f"{head}{worst['first']:.6g} ± {worst['first_error']:.2g} and "
            f"{worst['second']:.6g} ± {worst['second_error']:.2g}, "
            f"{abs(worst['difference']):.2g} posterior standard deviations apart (up to "
            f"{worst['band']:.2g} by chance)."
        )

    def _conclusion(self) -> str:
        if self.verdict == DIFFER:
            return "They differ by more than chance explains."
        if self.verdict == UNKNOWN:
            return (
                f"Unknown: differences below {self.resolution:g} posterior standard deviations cannot be "
                "excluded everywhere. Run more steps."
            )
        if not self.table["difference"].any():
            return "They agree."
        return (
            "They agree: no difference exceeds chance, and a difference of "
            f"{self.resolution:g} posterior standard deviations would be detected."
        )


@front_door
def compare_runs(
    first: AnyRun,
    second: AnyRun,
    resolution: float = RESOLUTION,
    burnin: int | None = None,
) -> RunComparison:
    """Compares the averages of two runs of the same system within their Monte Carlo errors.

    It compares the means of U, of predictions at up to 64 inputs (from the test set, otherwise from
    the training set), and of the parameters. With more than 64 parameters, 64 random projections
    replace the single coordinates. The hidden units of a network may be permuted between runs, so
    for networks the mean squared length of each tensor is compared instead.

    A quantity differs if its means are further apart than chance allows, given the number of
    quantities. It agrees if its means are closer and this tolerance is below `resolution`.
    Otherwise the result is unknown. Runs with identical draws agree.

    Args:
        first: A run, or its folder.
        second: Another run of the same system, or its folder.
        resolution: Smallest difference of two means that the comparison must detect, in posterior
            standard deviations, above 0. Default: 0.5.
        burnin: Steps to leave out of both runs. Default: None, the burn-in of each run.

    Returns:
        The comparison; `verdict` is `agree`, `differ` or `unknown`.

    Raises:
        InputError: A folder holds no run, a run is a fit or has no rows, or the runs have different
            data, potentials or parameters.

    Examples:
        >>> tati_re.compare_runs("runs/a", "runs/a").verdict
        'agree'
    """
    refuse_if(
        not resolution > 0 or not math.isfinite(resolution),
        "resolution is out of range.",
        resolution,
        "a number above 0, in posterior standard deviations",
    )
    runs = as_run(first), as_run(second)
    _check_comparable(*runs)
    notes: list[str] = []
    both = [_quantities(run, burnin, notes) for run in runs]
    common = [name for name in both[0] if name in both[1]]
    compared = [(group, name, both[0][group, name], both[1][group, name]) for group, name in common]
    moving = [pair for pair in compared if any(np.ptp(quantity.draws) > 0 for quantity in pair[2:])]
    level = LEVEL / max(1, len(moving))
    if not any(group == "U" for group, _ in common):
        notes.append(
            "U was not compared: one run recorded it on mini-batches, the other on all data."
        )
    rows = [_compared(*pair, level, resolution) for pair in compared]
    table = pd.DataFrame(rows, columns=_COLUMNS)
    if compared and all(np.array_equal(a.draws, b.draws, equal_nan=True) for *_, a, b in compared):
        table["verdict"] = AGREE
        notes.append("Both runs contain the same draws, so neither confirms the other.")
    return RunComparison(table, resolution, [*dict.fromkeys(notes)])


def _check_comparable(first: RunFiles, second: RunFiles) -> None:
    for run in (first, second):
        if is_optimization(run.manifest, run.run_info):
            raise InputError(
                "A fit has no averages to compare.", run.folder, "two runs that sampled"
            )
    systems = [
        (manifest.dataset.fingerprint, manifest.parameters.num)
        for manifest in (first.manifest, second.manifest)
    ]
    if systems[0] == systems[1]:
        return
    seeds = [run.manifest.options.seed for run in (first, second)]
    if seeds[0] != seeds[1] and systems[0][1] == systems[1][1]:
        raise InputError(
            "The runs sampled different data, perhaps because another seed holds out other rows.",
            f"{first.folder} with seed {seeds[0]} and {second.folder} with seed {seeds[1]}",
            "two runs with one seed, the second with call = 2 for other random numbers",
        )
    raise InputError(
        "The runs sampled different systems: their data, potentials or parameters differ.",
        f"{first.folder} and {second.folder}",
        "two runs of the same system; --verify compares their files",
    )


def _quantities(
    run: RunFiles, burnin: int | None, notes: list[str]
) -> dict[tuple[str, str], Quantity]:
    """The quantities of a run by group and name."""
    of_network = not run.manifest.dataset.potential
    predict = _predictions(run, notes) if of_network else None
    compared = {}
    for quantity in quantities(run, predict, burnin):
        if quantity.name.startswith("U"):
            compared["U", quantity.name] = quantity
        elif quantity.name.startswith("prediction "):
            compared["predictions", quantity.name] = quantity
        elif quantity.compared and quantity.name != "stored positions":
            compared["parameters", quantity.name] = quantity
    if files.trajectory_in(run.folder) is None:
        notes.append("Predictions and parameters were not compared: one run stored no positions.")
    elif of_network:
        compared |= _tensors(run, burnin)
    return compared


def _predictions(run: RunFiles, notes: list[str]) -> Predict | None:
    """Outputs at some inputs, each by one output in turn; None where model or data are missing."""
    missing = "Predictions were not compared"
    if not has_its_data(run):
        notes.append(f"{missing}: the data were given in Python and are not in the run folder.")
        return None
    try:
        network = Network(run)
        data = dataset_of(run)
    except InputError as error:
        notes.append(f"{missing}: {error}")
        return None
    inputs = data.inputs if data.test_inputs is None else data.test_inputs
    chosen = np.unique(np.linspace(0, len(inputs) - 1, _INPUTS).astype(int))
    prepared = network.prepared(np.asarray(inputs)[chosen])

    def predict(values: np.ndarray, walkers: np.ndarray) -> np.ndarray:
        outputs = np.asarray(network.outputs(values, walkers, prepared), np.float64)
        outputs = outputs.reshape(len(values), len(chosen), -1)
        if data.num_classes and outputs.shape[2] > 1:
            # A softmax does not see what is common to all of its inputs.
            outputs -= outputs.mean(axis=2, keepdims=True)
        indices = np.arange(len(chosen))
        return outputs[:, indices, indices % outputs.shape[2]]

    return predict


def _tensors(run: RunFiles, burnin: int | None) -> dict[tuple[str, str], Quantity]:
    """The squared length of each tensor, which no permutation of hidden units changes."""
    described = run.manifest.parameters
    names = [f"|{name}|²" for name in described.names]
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in described.shapes]
    ends = np.cumsum([0, *sizes])[:-1]

    def lengths(values: np.ndarray, _: np.ndarray) -> np.ndarray:
        squares = np.asarray(values, np.float64) ** 2
        return np.add.reduceat(squares, ends, axis=1)

    positions = Positions(run, burnin_of(run, burnin))
    if positions.projected or not positions.left():
        return {}
    tensors = [
        tensor
        for tensor in quantities(run, lengths, burnin)
        if tensor.name.startswith("prediction ")
    ]
    return {("tensors", name): tensor for name, tensor in zip(names, tensors, strict=True)}


def _compared(
    group: str,
    name: str,
    first: Quantity,
    second: Quantity,
    level: float,
    resolution: float,
) -> dict:
    """One row of the table of a comparison."""
    averages = [average(quantity.draws, quantity.weights) for quantity in (first, second)]
    means = [mean_and_error["mean"] for mean_and_error in averages]
    errors = [_error(mean_and_error) for mean_and_error in averages]
    row = {
        "group": group,
        "name": name,
        "first": means[0],
        "first_error": errors[0],
        "second": means[1],
        "second_error": errors[1],
    }
    spread = math.sqrt(0.5 * sum(mean_and_error["std"] ** 2 for mean_and_error in averages))
    still = [
        np.isfinite(quantity.draws).all() and np.ptp(quantity.draws) == 0
        for quantity in (first, second)
    ]
    if all(still):
        same = means[0] == means[1]
        row |= {"difference": 0.0 if same else math.inf, "band": 0.0}
        return row | {"verdict": AGREE if same else DIFFER}
    sizes = [
        _effective(mean_and_error["std"], error)
        for mean_and_error, error in zip(averages, errors, strict=True)
    ]
    if not all(size >= FEWEST_EFFECTIVE for size in sizes) or not spread > 0:
        return row | {"difference": math.nan, "band": math.nan, "verdict": UNKNOWN}
    error = math.hypot(*errors)
    band = _quantile(errors, sizes, level) * error / spread
    difference = (means[1] - means[0]) / spread
    verdict = AGREE if band <= resolution else UNKNOWN
    if abs(difference) > band:
        verdict = DIFFER
    return row | {"difference": difference, "band": band, "verdict": verdict}


def _error(averaged: dict) -> float:
    """The standard error of a mean, at least that of as many independent draws: an estimate from
    few draws may be smaller by chance.
    """
    return float(np.maximum(averaged["error"], averaged["std"] / math.sqrt(averaged["rows"])))


def _effective(deviation: float, error: float) -> float:
    """Independent draws that have the error of a mean; nan where it is not known."""
    if not error > 0:
        return math.nan
    return float((deviation / error) ** 2)


def _quantile(errors: list[float], sizes: list[float], level: float) -> float:
    """The two-sided quantile of a difference over its estimated error, by Welch's degrees of
    freedom.
    """
    squares = np.square(errors)
    degrees = np.asarray(sizes) / _DRAWS_A_DEGREE
    freedom = squares.sum() ** 2 / (squares**2 / degrees).sum()
    return -float(stdtrit(freedom, 0.5 * level))
