"""Stages of a fit: parts of the run with a learning rate and a batch size of their own."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tati_re.core.errors import InputError, nearest, refuse_if

ALL = "all"
METAVAR = "STEPS:RATE:BATCH"
FORM = "num_steps[:learning_rate[:batch_size]]"
EXPECTED = {
    "num_steps": "an integer at least 1",
    "learning_rate": "a number greater than 0",
    "batch_size": f"an integer at least 1, or {ALL}",
}


class Stage(BaseModel):
    """One stage as an option: a table of TOML, a dictionary, or the text `3000:0.5:550`,
    `3000:0.05:all`, `3000:0.1`. Learning rate and batch size are by default those of the run;
    "all", in Python also `None`, takes all examples.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    num_steps: int = Field(ge=1)
    learning_rate: float | None = Field(None, gt=0)
    batch_size: Literal["all"] | Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, stage: Any) -> Any:
        if isinstance(stage, str):
            parts = stage.split(":")
            if len(parts) > len(EXPECTED):
                return stage
            return {name: _number(text) for name, text in zip(EXPECTED, parts, strict=False)}
        if isinstance(stage, Mapping):
            stage = {
                name: value.tolist() if hasattr(value, "tolist") else value
                for name, value in stage.items()
            }
            # As an option of the run: no batch_size means all examples. Left out, it is that of the
            # run.
            return stage | (
                {"batch_size": ALL} if "batch_size" in stage and stage["batch_size"] is None else {}
            )
        return stage


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class PlannedStage(NamedTuple):
    """A stage, the steps before it and its last one; a rate of None is the run's, a batch size of
    None takes all.
    """

    first_step: int
    last_step: int
    learning_rate: float | None
    batch_size: int | None


def planned(options) -> list[PlannedStage]:
    if not options.stages:
        return [PlannedStage(0, options.num_steps, None, options.batch_size)]
    plan = []
    step = 0
    for stage in options.stages:
        size = options.batch_size if stage.batch_size is None else stage.batch_size
        plan.append(
            PlannedStage(
                step, step + stage.num_steps, stage.learning_rate, None if size == ALL else size
            )
        )
        step += stage.num_steps
    return plan


def check_num_steps(options) -> int:
    """Steps of a fit: the sum of its stages."""
    total = sum(stage.num_steps for stage in options.stages) or options.num_steps
    problem = "num_steps contradicts stages."
    received = f"num_steps = {options.num_steps} with stages of {total} steps"
    expected = "no num_steps with stages, or their sum"
    refuse_if(
        "num_steps" in options.explicit and options.num_steps != total, problem, received, expected
    )
    return total


def extended(stages: Sequence[Mapping[str, Any]], num_steps: int) -> list[dict[str, Any]]:
    """Stages whose last one is longer if a run goes on past their sum.

    Args:
        stages: The stages as a manifest stores them.
        num_steps: All steps of the run.
    """
    copies = [dict(stage) for stage in stages]
    missing = num_steps - sum(stage["num_steps"] for stage in copies)
    if copies and missing > 0:
        copies[-1]["num_steps"] += missing
    return copies


def sentence(
    error: Mapping[str, Any], spell: Callable[[str], str], known: Collection[str]
) -> InputError:
    """One complaint of pydantic about a stage, in the user's words.

    Args:
        error: The complaint, an entry of `ValidationError.errors()`.
        spell: Writes the name of an option as the user types it.
        known: Names of all options.
    """
    place = error["loc"][1:]
    value = error["input"]
    number = place[0] + 1
    option = spell("stages")
    if len(place) == 1:
        expected = f"{FORM} such as 3000:0.5:550, or the same as a table"
        return InputError(f"{option}: stage {number} is not valid.", value, expected)
    name = str(place[1])
    if error["type"] == "missing":
        return InputError(f"{option}: stage {number} has no {name}.", expected=EXPECTED[name])
    if error["type"] == "extra_forbidden":
        advice = "; other options stand above [[stages]]" if name in known else ""
        problem = f"{option}: {name} of stage {number} is not known.{nearest(name, EXPECTED)}"
        return InputError(problem, expected=", ".join(EXPECTED) + advice)
    return InputError(
        f"{option}: {name} of stage {number} is not valid.", repr(value), EXPECTED[name]
    )


def toml(stages: Sequence[Stage]) -> str:
    """The value of `stages` as inline TOML, so that other options may follow it."""
    tables = [tomli_w.dumps(stage.model_dump(exclude_none=True)).splitlines() for stage in stages]
    lines = [f"    {{ {', '.join(values)} }},\n" for values in tables]
    return f"[\n{''.join(lines)}]" if lines else "[]"
