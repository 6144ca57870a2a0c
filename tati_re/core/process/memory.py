"""Memory that is free, and the refusal of what would take more."""

import os
from collections.abc import Iterator
from pathlib import Path

from tati_re.core.errors import InputError


def check_free(option: str, received: object, needed: float, contents: str) -> None:
    """Refuses an option's value that would take more memory than is free.

    Args:
        option: Name of the option, for the message.
        received: Its value, for the message.
        needed: Bytes that the value takes.
        contents: What takes them, in the plural, such as "100 walkers".

    Raises:
        InputError: Less memory is free. Nothing is refused if the free memory is not known.
    """
    free = free_bytes()
    if free is not None and needed > free:
        expected = f"a size that fits into the {_in_words(free)} of free memory"
        raise InputError(
            f"{option}: {contents} need about {_in_words(needed)} of memory.", received, expected
        )


def free_bytes() -> float | None:
    """Memory that can be had without swapping, within the limits of a container or a job; None if
    not known.
    """
    limits = [*_of_system(), *_of_groups()]
    return min(limits) if limits else None


def _of_system() -> Iterator[float]:
    for line in _text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            yield 1024.0 * int(line.split()[1])
            return
    try:
        yield float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return


def _of_groups(
    root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")
) -> Iterator[float]:
    """What the control groups of this process leave it, of version 2 or 1."""
    for line in _text(groups).splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        limit, used = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
            if kinds
            else ("memory.max", "memory.current")
        )
        inner = root / kinds / path.lstrip("/")
        for folder in (inner, *inner.parents):
            numbers = [_text(folder / name).strip() for name in (limit, used)]
            if all(number.isdigit() for number in numbers):
                # Pages of files that were read count as used, and go when memory is asked for.
                lines = _text(folder / "memory.stat").splitlines()
                cached = [line.split()[1] for line in lines if "inactive_file" in line]
                yield float(numbers[0]) - float(numbers[1]) + max(map(float, cached), default=0.0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _in_words(size: float) -> str:
    return f"{size / 1e9:,.3g} GB" if size < 1e15 else f"{size / 1e9:.1e} GB"
