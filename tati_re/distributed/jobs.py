"""Jobs that need nothing of each other, in processes side by side."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing.connection import wait
from typing import Any

from tati_re.core.errors import WorkersLost, refuse_if
from tati_re.core.front_door import front_door
from tati_re.distributed.processes import Failed, Lost, Process

_DEATHS = 3


class SideBySide:
    """Processes that make a function of a job, once each, and do jobs until none is left.

    A process that dies is made again, and its job is done again.

    Args:
        made: Makes the function in a process. It is pickled, as the jobs are.
        number: The most processes.
        threads: Threads of each process.
        gpus: Share of a GPU for each process, such as 0.5. Default: None, they compute on CPUs.
    """

    def __init__(
        self, made: Callable[[], Callable], number: int, threads: int, gpus: float | None = None
    ) -> None:
        import cloudpickle

        self._pickled = cloudpickle.dumps(lambda: (made(), None))
        self._number = number
        self._threads = threads
        self._gpus = gpus
        self._processes: list[Process] = []
        # Those whose answer is outstanding, and the place of its job; None: what they say when they
        # are there.
        self._doing: dict[int, int | None] = {}

    def _started(self, slot: int) -> Process:
        return Process(self._pickled, self._threads, self._gpus, slot)

    def run(self, jobs: Sequence[Any], on_result: Callable[[int, Any], None]) -> None:
        """Does the jobs.

        An exception ends the processes: their outstanding answers would be taken for answers to
        later jobs.

        Args:
            jobs: The jobs.
            on_result: Called with the place of a job and its result, as each is ready.

        Raises:
            WorkersLost: A job raised an exception, or its process died three times.
            InputError: A job raised one.
        """
        try:
            self._run(jobs, on_result)
        except BaseException:
            self.close()
            raise

    def _run(self, jobs: Sequence[Any], on_result: Callable[[int, Any], None]) -> None:
        left = [*enumerate(jobs)][::-1]
        doing = self._doing
        deaths = Counter[int | None]()
        for slot in range(len(self._processes), min(self._number, len(left))):
            self._processes.append(self._started(slot))
            doing[slot] = None
        free = [slot for slot in range(len(self._processes)) if slot not in doing]
        done = 0
        while done < len(jobs):
            while free and left:
                place, job = left.pop()
                doing[free[-1]] = place
                self._processes[free.pop()].send((job,))
            pipes: dict[Any, int] = {self._processes[slot].pipe: slot for slot in doing}
            for pipe in wait(list(pipes)):
                slot = pipes[pipe]
                its = doing.pop(slot)
                try:
                    result = self._processes[slot].receive()
                except Lost as lost:
                    deaths[its] += 1
                    if deaths[its] == _DEATHS:
                        raise WorkersLost(
                            f"A worker died {_DEATHS} times in one job ({lost}).", 0, slot
                        ) from None
                    if its is not None:
                        left.append((its, jobs[its]))
                    self._processes[slot].close()
                    self._processes[slot], doing[slot] = self._started(slot), None
                    continue
                except Failed as failed:
                    raise WorkersLost(
                        f"A worker could not do a job: {failed.kind}: {failed.words}", 0, slot
                    ) from None
                free.append(slot)
                if its is not None:
                    done += 1
                    on_result(its, result)

    def close(self) -> None:
        """Ends the processes."""
        self._doing.clear()
        while self._processes:
            self._processes.pop().close()


@front_door
def side_by_side(
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    workers: int = 2,
    threads: int = 1,
    done: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """Calls a function of each job in processes side by side, such as a fit or a run for each of
    several seeds.

    What a call returns depends on its job and on `threads`, not on how many processes there are or
    which of them died: one that dies is made again, and with it the job that it had. They see no
    GPU.

    Args:
        function: Takes a job. It travels with what it refers to, so one of a notebook will do, and
            what it returns travels back: scores or a run folder rather than a `Simulation`.
        jobs: What it is called with, one after the other.
        workers: Processes, 1 or more; not more than jobs are started. Default: 2.
        threads: Of each, 1 or more. Default: 1.
        done: Called in this process with the place of a job and its result, as each is ready.

    Returns:
        The results in the order of the jobs.

    Raises:
        InputError: No process or no thread; or as a call raised it.
        SamplingError: A call raised another exception, or its process died three times.
    """
    for name, number in (("workers", workers), ("threads", threads)):
        refuse_if(number < 1, f"{name}: too few.", number, "1 or more")
    import cloudpickle

    results = [None] * len(jobs)

    def ready(place: int, result: bytes) -> None:
        results[place] = cloudpickle.loads(result)
        if done is not None:
            done(place, results[place])

    # Jobs and results may be of classes of a script, which only cloudpickle carries.
    with closing(
        SideBySide(
            lambda: lambda job: cloudpickle.dumps(function(cloudpickle.loads(job))),
            workers,
            threads,
        )
    ) as team:
        team.run([cloudpickle.dumps(job) for job in jobs], ready)
    return results
