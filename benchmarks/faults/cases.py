"""The kinds of cases: what is done to a run, and what has to be left of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults import children
from benchmarks.faults.campaign import HARMLESS, LOST, REFUSED, WHOLE, Campaign, Result, go_on
from benchmarks.faults.children import STOP, Child
from benchmarks.faults.contents import contents, differences
from benchmarks.faults.families import FAMILIES, RUN, SLOW

DAMAGES = ("a byte changed", "cut", "64 NULs", "removed", "swapped", "a link to another file")
KILLED = [name for name in FAMILIES for _ in range(1 if name in SLOW else 2)]
"""The families whose runs are killed in turn, quick ones twice."""
PAGE = 4096


def kill(campaign: Campaign, case: str) -> Result:
    """A run is killed at a random instant, or inside of a change of its files; every fourth one
    once more when it goes on.
    """
    number, generator = int(case.split(":")[1]), campaign.generator(case)
    name = KILLED[number // 2 % len(KILLED)]
    family, reference, place = FAMILIES[name], campaign.reference(name), campaign.place(case)
    twice, command, done = generator.random() < 0.25, (family.command, family.start), []
    for _ in range(2 if twice else 1):
        if number % 2:
            at = int(generator.integers(1, reference.changes + 1))
            ended = children.run(place, *command, at=at)
            done.append(f"at change {at} of {reference.changes}")
        else:
            instant = float(generator.uniform(0, reference.seconds))
            child = Child(place, *command)
            status = child.wait(instant)
            if status is None:
                child.signal(signal.SIGKILL)
            ended = child.ended(status)
            done.append(f"after {instant:.2f} s")
        if ended.broke or ended.status not in (0, -signal.SIGKILL, 2):
            return Result(case, name, ", ".join(done), LOST, ended.last_line())
        command = family.onward
    return Result(case, name, "killed " + ", again ".join(done), *campaign.finish(name, place))


def damage(campaign: Campaign, case: str) -> Result:
    """A file of a run that was killed on its way is damaged; then it is compared with itself
    before, and goes on.
    """
    number, generator = int(case.split(":")[1]), campaign.generator(case)
    what = DAMAGES[number % len(DAMAGES)]
    name = list(FAMILIES)[int(generator.integers(len(FAMILIES)))]
    family, place = FAMILIES[name], campaign.place(case)
    reference = campaign.reference(name)
    shutil.copytree(campaign.killed(name), place / RUN)
    shutil.copytree(place / RUN, place / "before")
    files = sorted(
        path for path in (place / RUN).rglob("*") if path.is_file() and path.stat().st_size > 1
    )
    path, other = (files[k] for k in generator.choice(len(files), 2, replace=False))
    victim = place / "victim"
    victim.write_bytes(path.read_bytes())
    content, size = bytearray(path.read_bytes()), path.stat().st_size
    start = int(generator.integers(size))
    if what == "a byte changed":
        content[start] ^= int(generator.integers(1, 256))
    elif what == "cut":
        del content[start:]
    elif what == "64 NULs":
        content[start : start + 64] = bytes(len(content[start : start + 64]))
    if what == "swapped":
        aside = path.with_name("aside")
        path.rename(aside)
        other.rename(path)
        aside.rename(other)
    elif what in ("removed", "a link to another file"):
        path.unlink()
        if what != "removed":
            path.symlink_to(victim)
    else:
        path.write_bytes(bytes(content))
    untouched, kept = victim.read_bytes(), path.relative_to(place / RUN).as_posix()
    done = f"{kept}: {what}" + (
        f" with {other.relative_to(place / RUN).as_posix()}" if what == "swapped" else ""
    )
    if family.samples:
        ended = children.run(place, "compare", [RUN, "before", "--quiet"])
        if ended.broke or (ended.status == 2 and not ended.refused):
            return Result(case, name, done, LOST, f"tati-compare: {ended.last_line()}")
        done += {0: "; read: the same", 1: "; read: other numbers", 2: "; read: refused"}.get(
            ended.status, ""
        )
        ended = children.run(place, "compare", ["--verify", RUN])
        if ended.broke or (ended.status not in (0, 1) and not ended.refused):
            return Result(case, name, done, LOST, f"tati-compare --verify: {ended.last_line()}")
        done += "; verify: whole" if ended.status == 0 else "; verify: not whole"
    ended = go_on(family, place)
    if victim.read_bytes() != untouched:
        return Result(case, name, done, LOST, "wrote outside of the folder")
    if ended.refused:
        return Result(case, name, done, REFUSED, ended.err.strip().splitlines()[-1])
    if ended.status or ended.broke:
        return Result(case, name, done, LOST, ended.last_line())
    unlike = differences(contents(place), reference.contents)
    if what == "removed" and unlike == [f"{kept} is missing"]:
        return Result(case, name, done, HARMLESS, "it was not needed, and is still missing")
    return Result(case, name, done, LOST if unlike else HARMLESS, "; ".join(unlike))


@contextlib.contextmanager
def disk(place: Path, size: int) -> Iterator[None]:
    """A file system in memory of so many bytes at `place`; unmounted at the end."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def full(campaign: Campaign, case: str) -> Result:
    """The disk is full when a random part of the undisturbed run's files is written; then it
    becomes larger.
    """
    number, generator = int(case.split(":")[1]), campaign.generator(case)
    name = list(FAMILIES)[number % len(FAMILIES)]
    family, reference, place = FAMILIES[name], campaign.reference(name), campaign.place(case)
    needed = sum(
        -(-path.stat().st_size // PAGE)
        for path in (reference.place / RUN).rglob("*")
        if path.is_file()
    )
    pages = int(generator.integers(1, needed + 4))
    done = f"{pages} of {needed} pages"
    with disk(place, pages * PAGE):
        ended = children.run(place, family.command, family.start, logs=campaign.folder)
        if ended.status and not ended.refused:
            return Result(case, name, done, LOST, ended.last_line())
        said = "enough" if not ended.status else ended.err.strip().splitlines()[-1]
        subprocess.run(["mount", "-o", f"remount,size={1 << 26}", str(place)], check=True)
        end, why = campaign.finish(name, place)
    return Result(case, name, done, end, why or said)


def removed(campaign: Campaign, case: str) -> Result:
    """The folder is removed in mid-run; the command says so, and the same command makes it
    again.
    """
    return _taken_away(
        campaign, case, lambda place: shutil.rmtree(place / RUN, ignore_errors=True), "removed"
    )


def read_only(campaign: Campaign, case: str) -> Result:
    """The folder and its files become read-only in mid-run; the command says so, and goes on when
    they are not.
    """
    return _taken_away(campaign, case, lambda place: _modes(place / RUN, 0o555, 0o444), "read-only")


def _modes(folder: Path, of_folders: int, of_files: int) -> None:
    for path in (folder, *folder.rglob("*")):
        if path.exists() and not path.is_symlink():
            path.chmod(of_folders if path.is_dir() else of_files)


def _taken_away(campaign: Campaign, case: str, action, word: str) -> Result:
    number, generator = int(case.split(":")[1]), campaign.generator(case)
    name = list(FAMILIES)[(number * 7 + 3) % len(FAMILIES)]
    family, reference, place = FAMILIES[name], campaign.reference(name), campaign.place(case)
    at = int(generator.integers(1, reference.changes + 1))
    child = Child(place, family.command, family.start, at=at, action=STOP, unprivileged=True)
    status = child.wait(until_stopped=True)
    if not child.stopped:
        return Result(
            case, name, word, LOST, f"did not reach change {at}: {child.ended(status).last_line()}"
        )
    action(place)
    child.signal(signal.SIGCONT)
    ended = child.ended()
    done = f"{word} at change {at} of {reference.changes}"
    if ended.broke or (ended.status and not ended.refused):
        return Result(case, name, done, LOST, ended.last_line())
    said = (
        ended.err.strip().splitlines()[-1] if ended.status else "ended as if nothing had happened"
    )
    if word == "removed":
        if not ended.status and differences(contents(place), reference.contents):
            return Result(case, name, done, LOST, "exit status 0 without the files of the run")
        shutil.rmtree(place / RUN, ignore_errors=True)
        again = children.run(place, family.command, family.start)
        unlike = differences(contents(place), reference.contents)
        return Result(
            case, name, done, LOST if again.status or unlike else REFUSED, "; ".join(unlike) or said
        )
    _modes(place / RUN, 0o755, 0o644)
    end, why = campaign.finish(name, place)
    return Result(case, name, done, end, why or said)


def writers(campaign: Campaign, case: str) -> Result:
    """A second command on the folder of a run that goes on, beside it or while it is held up inside
    of a change.
    """
    number, generator = int(case.split(":")[1]), campaign.generator(case)
    name = list(FAMILIES)[(number * 4 + number // 15) % len(FAMILIES)]
    family, reference, place = FAMILIES[name], campaign.reference(name), campaign.place(case)
    command, words = family.onward
    if family.overwrites and generator.random() < 0.3:
        command, words = family.command, (*family.start, "--overwrite")
    if number % 2:
        at = int(generator.integers(1, reference.changes + 1))
        first = Child(place, family.command, family.start, at=at, action=STOP)
        status = first.wait(until_stopped=True)
        done = f"the first held up at change {at} of {reference.changes}"
    else:
        offset = float(generator.uniform(0, reference.seconds))
        first = Child(place, family.command, family.start)
        status = first.wait(offset)
        done = f"{offset:.2f} s after the first"
    second = children.run(place, command, words)
    first.signal(signal.SIGCONT)
    began = first.ended(None if number % 2 and first.stopped else status)
    done += "; --overwrite" if words[-1] == "--overwrite" else ""
    said = (
        f"first {began.status}, second {second.status}: {(second.err or began.err).strip()[-300:]}"
    )
    for ended in (began, second):
        if ended.broke or (ended.status and not ended.refused):
            return Result(case, name, done, LOST, f"{said} {ended.last_line()}")
    if began.status and second.status:
        return Result(case, name, done, LOST, said)
    unlike = differences(contents(place), reference.contents)
    return Result(case, name, done, LOST if unlike else WHOLE, "; ".join([*unlike, said]))


KINDS = {
    "kill": (kill, 200),
    "damage": (damage, 60),
    "full": (full, 20),
    "removed": (removed, 10),
    "readonly": (read_only, 10),
    "writers": (writers, 20),
}
"""What is done in a case of each kind, and how many there are in a whole campaign."""

ROOT_ONLY = ("full",)
"""Kinds that mount a file system, for which the campaign has to be root's."""


def run_case(campaign: Campaign, case: str) -> Result:
    """One case; its folder is removed unless something was lost in it."""
    began, kind = time.monotonic(), case.split(":")[0]
    if kind in ROOT_ONLY and os.geteuid():
        raise SystemExit(f"error: {kind} mounts a small file system, which takes root.")
    result = KINDS[kind][0](campaign, case)._replace(seconds=round(time.monotonic() - began, 2))
    if result.end != LOST:
        shutil.rmtree(campaign.folder / case.replace(":", "-"), ignore_errors=True)
    return result
