"""The fits that the walkers of a run began from, kept beside its draws."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.regular import open_regular
from tati_re.core.files.unpacking import DAMAGED, load_arrays
from tati_re.runs.files import MEMBERS
from tati_re.runs.storage import write_whole

_AUXILIARY = "auxiliary/{}"
_DENSITY = "density"


def _no_rows() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Fits:
    """The members of a deep ensemble: where the fit of each walker ended.

    Attributes:
        positions: Parameters of each fit, shape (fits, parameters); fit k is that of walker k.
        auxiliary: Non-trainable variables of each fit, shape (fits, ...) each.
        held_out: Rows of the training set that no fit was trained on, from 0, shape (rows,).
            Default: none.
        steps: Steps after which each fit was kept, shape (fits,). Default: not known.
        density: Log density of each held-out row under the ensemble of such fits that other rows
            stopped, in the units of the data, shape (rows,). Default: not known.
    """

    positions: np.ndarray
    auxiliary: tuple[np.ndarray, ...] = ()
    held_out: np.ndarray = field(default_factory=_no_rows)
    steps: np.ndarray = field(default_factory=_no_rows)
    density: np.ndarray = field(default_factory=lambda: np.empty(0))


def write_fits(folder: AnyPath, fits: Fits) -> None:
    """Writes the fits into a run folder, whole or not at all.

    Args:
        folder: The run folder.
        fits: The fits from which the walkers start.
    """
    arrays: dict[str, Any] = {
        "positions": fits.positions,
        "held_out": np.asarray(fits.held_out, np.int64),
        "steps": np.asarray(fits.steps, np.int64),
    }
    if len(fits.density):
        arrays[_DENSITY] = np.asarray(fits.density, np.float64)
    for number, values in enumerate(fits.auxiliary):
        arrays[_AUXILIARY.format(number)] = values
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_whole(Path(folder) / MEMBERS, content.getvalue())


def read_fits(folder: AnyPath) -> Fits | None:
    """The fits of a run folder; None if its walkers did not begin from fits.

    Raises:
        InputError: The file is damaged, or holds something else.
    """
    path = Path(folder) / MEMBERS
    if not path.exists():
        return None
    try:
        with open_regular(path) as file, load_arrays(file) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except (OSError, ValueError, KeyError, EOFError, TypeError, *DAMAGED):
        raise InputError(
            f"{path} is damaged.", expected="the fits from which the run started"
        ) from None
    return _checked(path, arrays)


def held_out_of(fits: Fits | None, folder: AnyPath, num_examples: int) -> np.ndarray:
    """Rows of the training set that no fit of a run was trained on.

    Args:
        fits: The fits of the run, None if it has none.
        folder: Folder of the run, for the error.
        num_examples: Training rows of its data.

    Returns:
        Numbers of rows, shape (rows,); none if there are none.

    Raises:
        InputError: The fits are of other data.
    """
    if fits is None or not len(fits.held_out):
        return _no_rows()
    last = fits.held_out.max()
    refuse_if(
        last >= num_examples,
        f"{Path(folder) / MEMBERS}: the fits are of other data.",
        f"row {last:,}",
        f"rows below {num_examples:,}",
    )
    return fits.held_out


def _checked(path: Path, arrays: dict[str, np.ndarray]) -> Fits:
    """The fits of arrays of a file, whose shapes and types fit each other."""
    expected = "positions (fits, parameters), held_out (rows,), steps (fits,)"
    for name, dimensions, kinds in (
        ("positions", 2, "f"),
        ("held_out", 1, "iu"),
        ("steps", 1, "iu"),
    ):
        array = arrays.get(name)
        wrong = array is None or array.ndim != dimensions or array.dtype.kind not in kinds
        refuse_if(wrong, f"{path} contains no fits: {name} is wrong.", sorted(arrays), expected)
    positions = arrays["positions"]
    held_out = arrays["held_out"]
    steps = arrays["steps"]
    others = [arrays[name] for name in sorted(arrays) if name.startswith("auxiliary/")]
    density = arrays.get(_DENSITY, np.empty(0))
    known = density.ndim == 1 and density.dtype.kind == "f"
    known = known and len(density) in (0, len(held_out))
    refuse_if(not known, f"{path} contains no fits: density is wrong.", sorted(arrays), expected)
    fit = len(steps) in (0, len(positions)) and all(
        value.ndim and len(value) == len(positions) and value.dtype.kind in "fiub"
        for value in others
    )
    refuse_if(
        not fit, f"{path} contains no fits: the numbers of fits differ.", len(positions), expected
    )
    bad = not np.isfinite(positions).all() or (held_out.size and held_out.min() < 0)
    refuse_if(bad, f"{path} contains no fits: numbers are out of range.", None, expected)
    auxiliary = tuple(arrays[_AUXILIARY.format(number)] for number in range(len(others)))
    return Fits(positions, auxiliary, held_out, steps, density)
