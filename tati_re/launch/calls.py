"""Which call of its kind a run of a Simulation is: each has noise and mini-batches of its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from tati_re.core.errors import refuse_if
from tati_re.options.make import Options, make_options


@contextmanager
def alone(sim: Any) -> Iterator[None]:
    """Refuses a Simulation in whose run another thread is: both would move its walkers, with the
    same noise.
    """
    caller = get_ident(), object()
    holder = vars(sim).setdefault("_in_run", caller)  # in one step for all threads
    problem = "Another thread is already running this Simulation."
    refuse_if(
        holder[0] != caller[0],
        problem,
        expected="one call after the other, or a Simulation for each thread",
    )
    try:
        yield
    finally:
        if holder is caller:
            del sim._in_run


class Calls:
    """Counts calls of each kind ("sample", ...) and seed, of which `Options.run_seed` makes draws,
    on from `others`.
    """

    def __init__(self, *others: "Calls") -> None:
        self._last: dict[tuple[str, int], int] = {}
        for other in others:
            for key, call in other._last.items():
                self.count(*key, call)

    def numbered(
        self, kind: str, options: Options, overrides: Mapping[str, Any] | None = None
    ) -> Options:
        """The options of the next call, with its number.

        Args:
            kind: Kind of the call, such as "sample" or "fit".
            options: The options of the call.
            overrides: Options that the call itself was given. With their own seed or call number
                the options stay unchanged, so the call repeats earlier random numbers. Default:
                None.
        """
        if any((overrides or {}).get(name) is not None for name in ("seed", "call")):
            return options
        first = options.call or 1
        call = max(first, self._last.get((kind, options.seed), 0) + 1)
        return options if call == first else make_options(options, call=call)

    def count(self, kind: str, seed: int, call: int) -> None:
        """Notes a call that has begun.

        Args:
            kind: Kind of the call, such as "sample" or "fit".
            seed: Its seed.
            call: Its number, from 1.
        """
        self._last[kind, seed] = max(self._last.get((kind, seed), 0), call)

    def next(
        self, kind: str, options: Options, overrides: Mapping[str, Any] | None = None
    ) -> Options:
        """The options of the next call, with its number, which is noted.

        Args:
            kind: Kind of the call, such as "sample" or "fit".
            options: The options of the call.
            overrides: Options that the call itself was given, see `numbered`. Default: None.
        """
        options = self.numbered(kind, options, overrides)
        self.count(kind, options.seed, options.call or 1)
        return options
