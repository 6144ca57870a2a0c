"""The references of a campaign, and how a case is brought to its end and judged."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.faults import children
from benchmarks.faults.children import Ended
from benchmarks.faults.contents import contents, differences
from benchmarks.faults.families import COMMON, FAMILIES, RUN, Family

SEED = 20
WHOLE, ANEW, REFUSED, HARMLESS, LOST = "whole", "anew", "refused", "harmless", "LOST"
"""Ends of a case: the files are those of an undisturbed run; there was nothing yet to go on from,
and the same command with `--overwrite` gave them; refused in a sentence; the damage changed
nothing; anything else.
"""


class Result(NamedTuple):
    """A case, `kind:number`, with its family, what was done to it, how it ended, and what was
    said.
    """

    case: str
    family: str
    done: str
    end: str
    said: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Reference:
    """An undisturbed run of a family: what its folder holds, the changes it makes, and the seconds
    it takes.
    """

    contents: dict[str, Any]
    changes: int
    seconds: float
    place: Path


class Campaign:
    """All that the cases share, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._references: dict[str, Reference] = {}
        generator = np.random.default_rng(6)
        table = np.column_stack([generator.normal(size=(10, 2)), generator.normal(size=10)])
        np.savetxt(folder / "data.csv", table, delimiter=",", header="x,y,target", comments="")
        np.save(folder / "directions.npy", np.eye(3)[:2])

    def generator(self, case: str) -> np.random.Generator:
        """The random numbers of a case, by its kind and number alone."""
        kind, number = case.split(":")
        return np.random.default_rng([SEED, *kind.encode(), int(number)])

    def place(self, case: str) -> Path:
        """A new folder for the commands of a case."""
        place = self.folder / case.replace(":", "-")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def reference(self, name: str) -> Reference:
        """The undisturbed run of a family, made once."""
        if name not in self._references:
            family = FAMILIES[name]
            if family.command in ("landscape", "explore") and not (self.folder / "base").exists():
                (self.folder / "base").mkdir()
                self._must(children.run(self.folder / "base", "sample", COMMON), "base")
            place = self.folder / f"reference-{list(FAMILIES).index(name)}"
            place.mkdir(exist_ok=True)
            ended = self._must(children.run(place, family.command, family.start), name)
            self._references[name] = Reference(contents(place), ended.changes, ended.seconds, place)
        return self._references[name]

    def killed(self, name: str) -> Path:
        """The folder of a run of a family that was killed when four fifths of its changes were
        made, once for all.
        """
        place = self.folder / f"killed-{list(FAMILIES).index(name)}"
        if not place.exists():
            place.mkdir()
            family = FAMILIES[name]
            children.run(
                place, family.command, family.start, at=int(0.8 * self.reference(name).changes)
            )
        return place / RUN

    def _must(self, ended: Ended, name: str) -> Ended:
        if ended.status:
            raise SystemExit(
                f"error: {name}, undisturbed: {ended.last_line()}\n{ended.err[-3000:]}"
            )
        return ended

    def finish(self, name: str, place: Path, **choices) -> tuple[str, str]:
        """Goes on with what is left in `place`, and compares with the reference; returns the end
        and what was said.
        """
        family = FAMILIES[name]
        end, ended = WHOLE, go_on(family, place, **choices)
        if ended.refused and nothing_to_go_on_from(family, place):
            end, ended = ANEW, begin_anew(family, place)
        if ended.status or ended.broke:
            return LOST, ended.last_line()
        unlike = differences(contents(place), self.reference(name).contents)
        return (LOST, "; ".join(unlike)) if unlike else (end, "")


def go_on(family: Family, place: Path, **choices) -> Ended:
    return children.run(place, *family.onward, **choices)


def begin_anew(family: Family, place: Path) -> Ended:
    """The same command again, over what a stop before the first checkpoint left."""
    words = [*family.start, *(["--overwrite"] if family.overwrites else [])]
    return children.run(place, family.command, words)


def nothing_to_go_on_from(family: Family, place: Path) -> bool:
    """Whether a command was stopped before it had written anything that it could continue."""
    folder = place / RUN
    if family.samples:
        names = ("current.npz", "current.npz.partial", "previous.npz")
        whole = any((folder / "checkpoint" / name).exists() for name in names)
        return not (whole and (folder / "manifest.toml").exists())
    kept = {
        "evidence": "kept/models.json",
        "landscape": "landscape.toml",
        "explore": "exploration.toml",
    }
    return not (folder / kept[family.command]).exists()
