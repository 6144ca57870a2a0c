"""Jobs that need nothing of each other, in processes side by side."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from tati_re.cluster.processes import Failed, Lost, Process, gpu_of
from tati_re.core.errors import InputError, WorkersLost

_DEATHS = 3


def side_by_side(jobs: Sequence[Callable], number: int, threads: int, gpus: float | None = None) -> list[Any]:
    """What the jobs give, in order, each called in a process of its own, at most `number` at a time, with so many
    threads and GPUs each; a job whose process dies is called again."""
    import cloudpickle

    left, running, found = [*enumerate(jobs)][::-1], dict[Any, tuple[int, Process, int]](), dict[int, Any]()
    deaths = Counter[int]()
    try:
        while left or running:
            while left and len(running) < number:
                place, job = left.pop()
                slot = next(free for free in range(number) if all(free != used for _, _, used in running.values()))
                worker = Process(cloudpickle.dumps(partial(_called, job)), threads, gpu_of(slot, gpus))
                running[worker.pipe] = place, worker, slot
            for pipe in wait(list(running)):
                place, worker, _ = running[pipe]
                try:
                    found[place] = worker.receive()
                except Lost as lost:
                    deaths[place] += 1
                    if deaths[place] == _DEATHS:
                        raise WorkersLost(f"Worker {place} died {_DEATHS} times ({lost}).", 0, place) from None
                    left.append((place, jobs[place]))
                except Failed as failed:
                    if failed.kind == "InputError":
                        raise InputError(str(failed)) from None
                    raise WorkersLost(f"Worker {place}: {failed.kind}: {failed}", 0, place) from None
                running.pop(pipe)[1].close()
    finally:
        for _, worker, _ in running.values():
            worker.close()
    return [found[place] for place in range(len(jobs))]


def _called(job: Callable[[], Any]) -> tuple[None, Any]:
    """For a worker, whose first answer is what it has made."""
    return None, job()
