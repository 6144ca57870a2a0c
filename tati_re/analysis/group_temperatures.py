"""Kinetic and configurational temperatures of groups of parameters."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tati_re.analysis.convergence import MINIMUM_DRAWS, chains_of
from tati_re.analysis.temperature import COLUMNS, Kind, measured_temperature, target_temperature
from tati_re.core.errors import InputError
from tati_re.runs.selection import as_run, select_rows

if TYPE_CHECKING:
    import pandas as pd

    from tati_re.runs.run import RunFiles

_COLUMN = re.compile(r"^(kinetic_energy|virial)\((.+)\)$")

By = Literal["tensor", "layer", "kind"]


def group_temperatures(
    run: RunFiles | str | os.PathLike[str], by: By = "tensor", burnin: int | None = None, thin: int = 1
) -> pd.DataFrame:
    """Kinetic and configurational temperature of each group of parameters, with their expected bands.

    Targets T for each group g alone: p_g'p_g/T follows a chi-square distribution with P_g degrees of freedom, whatever
    the potential, and by the virial theorem the mean of θ_g·∇_gU is P_g T where U confines the group and has no walls.
    A correct mean lies outside its band once in 10,000 times; it is not symmetric for a group of a few parameters, and
    there is none for fewer than 8 effective rows (`measured_temperature`). The scheme's own bias is no part of it:
    BAOAB's kinetic temperature is T (1 - h²ω²/4) in a mode of frequency ω, so a low one shows the layer for which the
    step is large; nor is the heat of gradient noise, and a high one shows the layer that it heats.

    Reference: F. Wenzel and others, How good is the Bayes posterior in deep neural networks really?, ICML 2020,
    section 4 and appendix I, with means of correlated rows in place of single rows.

    Args:
        run: The run, or its folder, recorded with `group_temperatures=True`.
        by: Each `"tensor"` (`dense/kernel`), all tensors of a `"layer"` (`dense`), or all of a `"kind"` (`kernel`).
            Default: `"tensor"`.
        burnin: Steps to leave out. Default: None, the run's own burn-in.
        thin: Every how many rows are kept. Default: 1.

    Returns:
        Columns `group, parameters, temperature` (kinetic or configurational), `mean, target, lower, upper, rows`
        (effective), `verdict` (inside, above, below, or too short), first the groups in the model's order, then `all`.

    Raises:
        InputError: The run did not record groups, has rows of several temperatures, or too few.
    """
    import pandas as pd

    if by not in ("tensor", "layer", "kind"):
        raise InputError("by is not known.", by, "tensor, layer or kind")
    run = as_run(run)
    rows = select_rows(run, burnin, thin)
    sizes = _sizes(run)
    found = [match for match in map(_COLUMN.match, rows.columns) if match and match[2] in sizes]
    if not found:
        raise InputError(
            "The run recorded no temperatures of groups.",
            expected="a run with group_temperatures (--group-temperatures)",
        )
    if rows.groupby("walker").size().min() < MINIMUM_DRAWS:
        raise InputError(f"Fewer than {MINIMUM_DRAWS} rows of each walker are left.", len(rows))
    target = target_temperature(rows, -1)
    lines = []
    for kind, column in COLUMNS.items():
        tensors = [match[2] for match in found if match[1] == column]
        groups: dict[str, list[str]] = {}
        for tensor in tensors:
            layer, _, last = tensor.rpartition("/")
            groups.setdefault({"tensor": tensor, "layer": layer or tensor, "kind": last}[by], []).append(tensor)
        if len(groups) > 1:
            groups["all"] = tensors
        for group, members in groups.items():
            energies: Any = sum(rows[f"{column}({tensor})"] for tensor in members)
            if energies.isna().all():
                continue
            number = sum(sizes[tensor] for tensor in members)
            line = _line(rows.assign(energies=energies), kind, number, target)
            lines.append({"group": group, "parameters": number} | line)
    return pd.DataFrame(lines)


def _line(rows: pd.DataFrame, kind: Kind, number: int, target: float) -> dict:
    found = measured_temperature(chains_of(rows, "energies", -1), kind, number, target)
    return {
        "temperature": kind,
        "mean": found.mean,
        "target": target,
        "lower": found.lower,
        "upper": found.upper,
        "rows": found.effective_sample_size,
        "verdict": found.verdict,
    }


def group_sentences(table: pd.DataFrame, mini_batches: bool) -> list[str]:
    """Sentences with advice on the group temperatures outside their bands; empty if there are none."""
    sentences = []
    slow = "not in equilibrium yet, or the step is large for them: more burn-in, smaller steps"
    off = table[(table["group"] != "all") & table["verdict"].isin(("above", "below"))]
    for (kind, verdict), part in off.groupby(["temperature", "verdict"], sort=False):
        names = ", ".join(f"{row['group']} ({row['mean']:.3g})" for row in part.head(5).to_dict("records"))
        more = f" and {len(part) - 5} more" if len(part) > 5 else ""
        advice = {
            ("kinetic", "above"): "gradient noise heats them: larger batches, smaller steps or more friction"
            if mini_batches
            else slow,
            ("kinetic", "below"): "the step is large for their stiffest direction: smaller steps",
            ("configurational", "above"): "not in equilibrium yet, or heated by gradient noise: more burn-in, "
            "larger batches"
            if mini_batches
            else slow,
            ("configurational", "below"): "not in equilibrium yet: more burn-in",
        }[str(kind), str(verdict)]
        sentences.append(f"The {kind} temperature is {verdict} its band in {names}{more}; {advice}.")
    return sentences


def _sizes(run: RunFiles) -> dict[str, int]:
    described = run.manifest.get("parameters", {})
    shapes = described.get("shapes", [])
    return {
        name: int(np.prod(shape, dtype=np.int64))
        for name, shape in zip(described.get("names", []), shapes, strict=True)
    }
