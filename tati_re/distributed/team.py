"""A team of workers that hold the blocks of a run: who holds what, and what is done again when one
of them dies.
"""

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, WorkersLost
from tati_re.distributed.processes import Failed, Lost, packed

_DEATHS = 3
_LOG_BYTES = 256 * 2**20
"""Of messages that are kept since the last snapshot, roughly; beyond it another one is taken."""

Message = tuple[str, tuple, dict[int, tuple] | None]


class Team:
    """Workers that hold the blocks of a run, in order.

    The last known states of all blocks are kept, and the messages since then. If a worker dies,
    another one takes its blocks from there and repeats those messages. It must come to the same
    energies, bit by bit.

    Args:
        start: Starts a worker, from its number.
        blocks: First walker of each block.
        number: Number of workers.
        say: Called with a sentence when a worker dies, or differs from the first.
    """

    def __init__(
        self,
        start: Callable[[int], Any],
        blocks: Sequence[int],
        number: int,
        say: Callable[[str], None],
    ) -> None:
        self._start = start
        self._say = say
        self.number = number
        self._held = [[int(block) for block in part] for part in np.array_split(blocks, number)]
        self.workers: list[Any] = []
        self.described: list[dict[str, Any]] = []
        self._states: dict[int, Any] = {}
        self._log: list[tuple[Message, dict[int, bytes]]] = []
        self._bytes = 0
        self._deaths: Counter[tuple[int, int]] = Counter()
        self._asked = 0
        self.close = weakref.finalize(self, _close, self.workers)

    def begin(self) -> None:
        """Starts the workers, all at once."""
        if not self.workers:
            for number in range(
                len(self._held)
            ):  # known one by one, for a stop ends those that are there
                self.workers.append(self._start(number))
            for number in range(len(self._held)):
                self.described.append(self._greeted(number))

    @property
    def machines(self) -> list[str]:
        """The machine of each worker."""
        return [worker.place for worker in self.workers]

    def _greeted(self, number: int) -> dict[str, Any]:
        """What a worker says of itself, once it is there, held against the first; another starts
        where it dies.
        """
        while True:
            try:
                greeting = self.workers[number].receive()
                self._compare(number, greeting, (self.described or [greeting])[0])
                return greeting
            except Failed as failed:
                raise InputError(
                    "workers: the model, sampler or a function of this run cannot be recreated in another process.",
                    received=failed.words,
                    expected="a model and functions that can be saved and loaded, or no workers",
                ) from None
            except Lost as lost:
                self._replace(number, str(lost))

    def _compare(self, number: int, greeting: dict[str, Any], first: dict[str, Any]) -> None:
        differ = [name for name in first if greeting.get(name) != first[name]]
        if "device" in differ:
            problem = "workers: all workers of a run must compute on CPUs, or all on GPUs."
            raise InputError(
                problem, f"{greeting.get('device')} and {first['device']}", "machines of one kind"
            )
        if differ:
            self._say(
                f"Worker {number} differs from the first in {', '.join(differ)}: the "
                "distribution is the same, but bytes repeat only on equal machines."
            )

    def load(self, states: dict[int, Any]) -> dict[int, Any]:
        """Puts the blocks where these states say."""
        self.mark(states)
        return self.ask("load", (), {block: (state,) for block, state in states.items()})

    def mark(self, states: dict[int, Any]) -> None:
        """Notes where the blocks are: nothing before is done again."""
        self._states = states
        self._log = []
        self._bytes = 0

    def ask(
        self, verb: str, common: tuple, arguments_by_block: dict[int, tuple] | None
    ) -> dict[int, Any]:
        """Asks the blocks, and replaces workers that die.

        Args:
            verb: A verb of `BlockServer.answer`.
            common: Arguments that all blocks share.
            arguments_by_block: Further arguments of each block, by its first walker. None: none.

        Returns:
            The answers by the first walker of a block, as from `BlockServer.answer`.

        Raises:
            WorkersLost: A worker died three times in one request, or its replacement computed other
                energies.
        """
        self.begin()
        self._asked += 1
        message = verb, common, arguments_by_block
        parts = [_part(message, held) for held in self._held]
        if arguments_by_block or len(parts) == 1:
            for worker, part in zip(self.workers, parts, strict=True):
                worker.send(part)
        else:
            same = packed(message)  # once for all
            for worker in self.workers:
                worker.tell(same)
        answers: dict[int, Any] = {}
        for number, part in enumerate(parts):
            try:
                answers |= self.workers[number].receive()
            except Lost as lost:
                answers |= self._again(number, part, str(lost))
        if verb == "advance":
            self._log.append(
                (message, {block: answer.potential.tobytes() for block, answer in answers.items()})
            )
            self._bytes += _size((common, arguments_by_block or ()))
            if self._bytes > _LOG_BYTES:
                self.mark(
                    self.ask("leaves", (), {block: () for held in self._held for block in held})
                )
        return answers

    def _replace(self, number: int, words: str) -> None:
        """Starts another worker in the place of one that is gone."""
        self._deaths[number, self._asked] += 1
        if self._deaths[number, self._asked] >= _DEATHS:
            raise WorkersLost(
                f"A worker died {_DEATHS} times at the same step ({words}).",
                0,
                self._held[number][0],
            )
        self._say(f"Worker {number} of {len(self._held)} died ({words}); a new worker replaces it.")
        self.workers[number].close()
        self.workers[number] = self._start(number)

    def _again(self, number: int, message: Message, words: str) -> dict[int, Any]:
        """The answers to a message whose worker is gone."""
        while True:
            self._replace(number, words)
            self.described[number] = self._greeted(number)
            try:
                return self._replayed(self.workers[number], number, message)
            except Lost as lost:
                words = str(lost)

    def _replayed(self, worker: Any, number: int, message: Message) -> dict[int, Any]:
        held = self._held[number]
        if self._states:
            _told(worker, ("load", (), {block: (self._states[block],) for block in held}))
        for past, energies in self._log:
            for block, answer in _told(worker, _part(past, held)).items():
                if answer.potential.tobytes() != energies[block]:
                    problem = (
                        "A worker that replaced a dead one computed different energies: the "
                        "machines differ."
                    )
                    raise WorkersLost(problem, 0, block)
        return _told(worker, message)


def _part(message: Message, held: list[int]) -> Message:
    verb, common, arguments_by_block = message
    return verb, common, arguments_by_block and {block: arguments_by_block[block] for block in held}


def _told(worker: Any, message: Message) -> dict[int, Any]:
    worker.send(message)
    return worker.receive()


def _size(value: Any) -> int:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return sum(map(_size, value)) + sys.getsizeof(value)
    return value.nbytes if isinstance(value, np.ndarray) else 8


def _close(workers: list[Any]) -> None:
    while workers:
        workers.pop().close()
