"""Candidates of a run for prediction: likelihood, hidden layers and prior width."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.data.dataset import Dataset
from tati_re.options.make import Options

FORM = "LOSS:UNITS:WIDTH such as student_t:16-16:1"
_CANDIDATE = re.compile(r"([A-Za-z_]\w*):(\d+(?:-\d+)*):(\d*\.?\d+(?:[eE][-+]?\d+)?)$")
_OF_PRIOR = (
    "prior",
    "prior_std",
    "prior_scale",
    "prior_degrees",
    "prior_bound",
    "prior_scaling",
    "tether",
)
"""Options each of which names the prior."""
REGRESSION = (
    ("student_t", (16, 16)),
    ("heteroscedastic_gaussian", (16, 16)),
    ("gaussian", (16, 16)),
    ("student_t", (50,)),
)
"""Likelihoods and hidden layers that are compared in a regression, the default one first."""
CLASSES = ((16, 16), (50,), (100,))
"""Hidden layers that are compared in a classification, the default ones first."""
MANY_ROWS = (
    ("heteroscedastic_gaussian", (64, 64)),
    ("student_t", (64, 64)),
    ("heteroscedastic_gaussian", (128, 128, 128)),
    ("heteroscedastic_gaussian", (16, 16)),
)
CLASSES_OF_MANY_ROWS = ((64, 64), (256, 128), (16, 16))
"""The same where steps see mini-batches."""
WIDTHS = (1.0, 0.5)
"""Prior widths that are compared, the default one first."""


@dataclass(frozen=True)
class Candidate:
    """What is compared; None is as the run has it.

    Attributes:
        loss: Name of the likelihood.
        hidden: Units of each hidden layer.
        width: Standard deviation of the Gaussian prior.
    """

    loss: str | None = None
    hidden: tuple[int, ...] | None = None
    width: float | None = None

    def options(self) -> dict[str, Any]:
        """The options that make a run of this candidate."""
        values: dict[str, Any] = {}
        if self.loss is not None:
            values["loss"] = self.loss
        if self.hidden is not None:
            values["hidden"] = list(self.hidden)
        if self.width is not None:
            values["prior_std"] = self.width
        return values

    def __str__(self) -> str:
        parts = [] if self.loss is None else [self.loss]
        if self.hidden is not None:
            parts.append("-".join(map(str, self.hidden)))
        if self.width is not None:
            parts.append(f"{self.width:g}")
        return ":".join(parts) or "the model as given"


def candidate_of(text: str) -> Candidate:
    """The candidate that a text of the option `candidates` means.

    Raises:
        InputError: A text of another form, or units or a width of 0.
    """
    match = _CANDIDATE.match(text)
    refuse_if(match is None, "candidates: one of them has another form.", text, FORM)
    assert match is not None
    loss, units, width = match.groups()
    hidden = tuple(int(number) for number in units.split("-"))
    wrong = min(hidden) < 1 or not 0 < float(width) < 1e6
    refuse_if(wrong, "candidates: units and width are above 0.", text, FORM)
    return Candidate(loss, hidden, float(width))


def candidates_of(
    options: Options, objects: Mapping[str, Any], data: Dataset, on_batches: bool = False
) -> list[Candidate]:
    """The candidates of a run, without the widths that follow from `widths_of`.

    What the options or objects name is kept: one candidate is left where all is named.

    Args:
        options: The options of the run; `candidates` is a list of its own.
        objects: `model`, `loss` and `prior` given in Python.
        data: The data set, of which the kind of the targets is asked.
        on_batches: Whether steps see mini-batches of many rows. Default: all rows.

    Raises:
        InputError: A list beside something that it would choose.
    """
    named = _named(options, objects)
    if options.candidates:
        beside = sorted(named)
        refuse_if(
            beside,
            f"candidates and {', '.join(beside)} both choose the model.",
            options.candidates,
            "one of the two",
        )
        listed = options.candidates
        return [candidate_of(text) for text in ([listed] if isinstance(listed, str) else listed)]
    pairs: Sequence[tuple[str | None, tuple[int, ...]]] = MANY_ROWS if on_batches else REGRESSION
    if data.task != "regression":
        sizes = CLASSES_OF_MANY_ROWS if on_batches else CLASSES
        pairs = [(None, hidden) for hidden in sizes]
    candidates = []
    for loss, hidden in pairs:
        kept_loss = None if named & {"loss", "model"} else loss
        kept_hidden = None if named & {"hidden", "model"} else hidden
        candidates.append(Candidate(kept_loss, kept_hidden))
    return list(dict.fromkeys(candidates))


def widths_of(
    options: Options, objects: Mapping[str, Any], chosen: Candidate
) -> tuple[float | None, ...]:
    """The prior widths to compare for a candidate: None alone where the prior is named.

    Args:
        options: The options of the run.
        objects: `prior` given in Python.
        chosen: The candidate, whose own width stays.
    """
    if chosen.width is not None:
        return (chosen.width,)
    if "prior" in _named(options, objects):
        return (None,)
    return WIDTHS


def _named(options: Options, objects: Mapping[str, Any]) -> set[str]:
    """Which of model, hidden, loss and prior the user named."""
    named = {"model", "loss", "prior"} & {*objects}
    for name in ("model", "hidden", "loss"):
        value = getattr(options, name)
        if name in options.explicit and value not in (None, []):
            named.add(name)
    if options.explicit & {*_OF_PRIOR}:
        named.add("prior")
    if options.explicit & {"noise_std", "noise_prior", "noise_prior_scale", "noise_prior_shape"}:
        named.add("loss")
    return named


def names_model(options: Options, objects: Mapping[str, Any]) -> bool:
    """Whether the user named the network.

    Args:
        options: The options as they were set.
        objects: Options that are Python objects, by name.
    """
    return bool(_named(options, objects) & {"model", "hidden"})


def refuse_unfit_goal(options: Options, has_data: bool) -> None:
    """Refuses a goal that the run cannot have.

    Args:
        options: The options of the run.
        has_data: Whether the system has a model and data, rather than a potential given as a
            function.

    Raises:
        InputError: The goal is predict, but there are no data, the temperature is not 1, several
            temperatures are set, or the potential is a mean loss. Also for candidates without this
            goal.
    """
    if options.goal != "predict":
        refuse_if(
            options.candidates,
            "candidates are compared by goal predict.",
            options.candidates,
            'goal = "predict"',
        )
        return
    problem = "goal: a run for prediction needs a model and data."
    refuse_if(not has_data, problem, "a potential given as a function", 'goal = "posterior"')
    problem = "goal: a run for prediction samples the posterior at temperature 1."
    refuse_if(options.kT != 1.0, problem, f"temperature = {options.kT:g}", 'goal = "posterior"')
    ladder = options.num_rungs > 1
    refuse_if(ladder, problem, f"{options.num_rungs} temperatures", 'goal = "posterior"')
    of_mean = options.potential == "mean_loss"
    refuse_if(of_mean, problem, "potential = mean_loss", 'goal = "posterior"')


def exceeds(density: np.ndarray, other: np.ndarray) -> bool:
    """Whether a mean density is above another one by more than the standard error of the
    difference.

    Args:
        density: Log density of each row, shape (rows,).
        other: The same rows under the other candidate.
    """
    if not (np.isfinite(density).all() and np.isfinite(other).all()):
        return bool(np.isfinite(density).all() and not np.isfinite(other).all())
    difference = density - other
    if len(difference) < 2:
        return bool(difference.mean() > 0)
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return bool(difference.mean() > error)
