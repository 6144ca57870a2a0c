"""The workers of a run: how its walkers are cut into blocks, and who holds them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.core.backend import deterministic, keras, on_gpu, tf, threads
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import temperatures_of, turns_of
from tati_re.distributed.block import BlockServer
from tati_re.distributed.processes import LocalWorker, Process
from tati_re.distributed.ray_cluster import Cluster, check_cluster
from tati_re.distributed.replica_subset import ReplicaSubset
from tati_re.distributed.team import Team
from tati_re.engine.environment import versions
from tati_re.launch.request import Request
from tati_re.models.custom_objects import accepting, custom_objects
from tati_re.models.precision import default_precision
from tati_re.options.make import Options

if TYPE_CHECKING:
    from tati_re.engine.loop import Loop

_AUTO = 4  # Walkers of a block at most, where they are independent.
_STRETCH = 256
"""Steps for which a block draws its random numbers at once: a shorter message pays for all of
them.
"""
_OPEN = ExitStack()  # What a worker stays in to its end.
_STAYS = ("data", "test_data", "sample_weights", "model", "callbacks", "starts", "directions")
"""Objects that the system has taken up, or that stay with the driver."""


def block_size(request: Request) -> int:
    """Walkers of a block: as given, else a ladder's replicas of one number, an ensemble, or a
    divisor up to four.
    """
    options = request.options
    method = request.method
    copies = request.copies
    requested = options.block_size
    by_rung = temperatures_of(method).by_rung
    unit = options.num_walkers if by_rung else 1
    in_turn = turns_of(method).groups > 1
    if in_turn:
        unit = copies
    if requested == "auto":
        if unit > 1 or by_rung:
            return unit
        few = [size for size in range(1, _AUTO + 1) if copies % size == 0]
        # A single block would leave nothing to a second worker.
        return few[-1] if copies > few[-1] else 1
    if requested % unit or copies % requested:
        unit_name = "an ensemble" if in_turn else f"{unit} replica(s) with the same number"
        holds = f", each a multiple of {unit_name}" if unit > 1 else ""
        problem = f"block_size: all blocks of a run have the same size{holds}."
        expected = ", ".join(
            str(size) for size in range(unit, copies + 1, unit) if copies % size == 0
        )
        raise InputError(problem, f"{requested} of {copies} walkers at all temperatures", expected)
    return int(requested)


def check_workers(request: Request) -> None:
    """Workers that a run has no use for, or that cannot hold it."""
    options = request.options
    method = request.method
    if not request.samples:
        return
    if options.workers is None:
        worker_options = options.model_dump(
            include={"block_size", "cluster", "worker_gpus"}, exclude_defaults=True
        )
        for name, value in worker_options.items():
            raise InputError(f"{name} needs workers.", value, "workers, 1 or more")
        return
    if options.cluster is not None:
        check_cluster(options.cluster)
    else:
        check_gpus(options)
    why = None
    ladder = temperatures_of(method)
    if method.label_names and not ladder.by_rung:
        why = f"{method.name} learns the weights of its rungs from all walkers"
    elif ladder.by_rung and not ladder.divides:
        why = f"{method.name} keeps its walkers together"
    elif request.system.streamed:
        why = "data larger than memory_limit are read by a single process"
    refuse_if(why is not None, f"workers: {why}.", options.workers, "no workers")
    blocks = request.copies // block_size(request)
    problem = f"workers: there are more workers than blocks of {block_size(request)} walker(s)."
    refuse_if(
        options.workers > blocks,
        problem,
        options.workers,
        f"1 to {blocks}; block_size and num_walkers change the number of blocks",
    )


def check_gpus(options: Options) -> None:
    """GPUs for the workers of this machine that are not there."""
    if options.worker_gpus is not None:
        workers = options.workers
        if workers is None:
            raise InputError(
                "worker_gpus: needs workers.", options.worker_gpus, "workers, 1 or more"
            )
        there = len(tf.config.list_physical_devices("GPU"))
        needed = workers * options.worker_gpus
        problem = f"worker_gpus: {workers} worker(s) need {needed:g} GPU(s)."
        refuse_if(
            needed > there + 1e-9,
            problem,
            f"{there} that TensorFlow sees",
            "fewer workers, or a smaller fraction",
        )


@dataclass(frozen=True)
class WorkerPlan:
    """How the walkers of a run are cut into blocks, and which processes hold these.

    Attributes:
        number: Workers, 1 or more.
        copies: Walkers at all temperatures.
        block_size: Walkers of a block.
        threads: Threads of each worker.
        gpus: Fraction of a GPU for each worker; None: no share is set.
        cluster: Address of a cluster of Ray; None: this machine.
        is_here: Whether this process holds the blocks, as a single worker would compute them.
    """

    number: int
    copies: int
    block_size: int
    threads: int
    gpus: float | None
    cluster: str | None
    is_here: bool

    @classmethod
    def of(cls, request: Request) -> WorkerPlan:
        """The plan that the options of a request make."""
        options = request.options
        number = int(options.workers or 1)
        worker_threads = options.threads or 1
        computes_alike = worker_threads == threads() and not on_gpu()
        asks_examples = temperatures_of(request.method).asks_examples(request.full_batch)
        is_alone = number == 1 and options.cluster is None
        return cls(
            number=number,
            copies=request.copies,
            block_size=block_size(request),
            threads=worker_threads,
            gpus=options.worker_gpus,
            cluster=options.cluster,
            is_here=is_alone and computes_alike and not asks_examples,
        )

    @property
    def blocks(self) -> range:
        """The first walker of each block."""
        return range(0, self.copies, self.block_size)


def workers_of(
    request: Request,
    execution: str,
    say: Callable[[str], None],
    made_of: Callable[[Request, str], Any],
) -> Workers:
    """The workers that a request asks for; none of them is started yet.

    Args:
        request: The request of the run.
        execution: "xla", "graph" or "eager".
        say: Where workers that are lost are reported.
        made_of: Makes the loops of a block from its request, in the process of a worker.
    """
    plan = WorkerPlan.of(request)
    exchange: Any = request.method
    divides = temperatures_of(request.method).divides
    replica_subset = ReplicaSubset(exchange) if divides else None
    of_block = _of_block(request, plan.block_size, replica_subset, execution)
    cluster: Cluster | None = None
    start: Callable[[int], Any]
    if plan.is_here:
        start = partial(LocalWorker, partial(_made, False, made_of, of_block, execution))
    elif plan.cluster is None:
        pickled = _pickled(of_block, made_of, execution)
        start = partial(Process, pickled, plan.threads, plan.gpus)
    else:
        pickled = _pickled(of_block, made_of, execution)
        cluster = Cluster(plan.cluster, plan.number, plan.threads, plan.gpus)
        start = partial(cluster.start, cluster.shared(pickled))
    return Workers(plan, Team(start, plan.blocks, plan.number, say), replica_subset, cluster)


class Workers:
    """The workers of a run, and the team in which they work.

    Args:
        plan: Who holds which walkers.
        team: The team; it starts when it is first asked.
        replica_subset: The ladder as a block sees it, if blocks divide one; None else.
        cluster: The cluster that has the workers; None: this machine.
    """

    def __init__(
        self,
        plan: WorkerPlan,
        team: Team,
        replica_subset: ReplicaSubset | None,
        cluster: Cluster | None,
    ) -> None:
        self.plan = plan
        self.team = team
        self.replica_subset = replica_subset
        self._cluster = cluster

    def __str__(self) -> str:
        plan = self.plan
        who = "This process holds" if plan.is_here else f"{plan.number} worker(s) hold"
        blocks = f"{len(plan.blocks)} block(s) of {plan.block_size} walker(s)"
        where = f" on {self._cluster.size} machine(s)" if self._cluster else ""
        return f"{who} {blocks}{where}, with {plan.threads} thread(s) each"

    def described(self) -> dict[str, Any]:
        """The entry of the manifest."""
        descriptions = self.team.described
        differ = sorted(
            {
                name
                for description in descriptions
                for name in description
                if description[name] != descriptions[0][name]
            }
        )
        return {
            "number": self.plan.number,
            "block_size": self.plan.block_size,
            "blocks": len(self.plan.blocks),
            "threads": self.plan.threads,
            **({"machines": dict(Counter(self.team.machines))} if self._cluster else {}),
            **({"differ": differ} if differ else {}),
            "worker": descriptions[0] if descriptions else {},
        }


def _of_block(
    request: Request, size: int, replica_subset: ReplicaSubset | None, execution: str
) -> Request:
    """What a worker has to know: the run of one block, with what was read and settled here."""
    every = {"record_every": request.record_every, "trajectory_every": request.trajectory_every}
    settled = request.options.resolved(num_walkers=size, workers=None, execution=execution, **every)
    objects = {name: value for name, value in request.objects.items() if name not in _STAYS}
    if request.directions is not None:
        objects["directions"] = request.directions
    limits = replace(request.limits, most_steps=min(request.limits.most_steps, _STRETCH))
    method = replica_subset or request.method
    return Request(
        options=settled,
        objects=objects,
        system=request.system,
        kind=request.kind,
        method=method,
        limits=limits,
        fewest_positions=request.fewest_positions,
    )


class _OwnCode:
    """What a model has of users, by its names: where it is read Keras learns them, which the model
    after it needs.
    """

    def __init__(self, *known: Any) -> None:
        self._known = known

    def __reduce__(self) -> Any:
        return _learned, self._known


def _learned(collected: dict[str, Any], dtype: str) -> bool:
    keras.saving.get_custom_objects().update(
        {name: accepting(thing) for name, thing in collected.items()}
    )
    _OPEN.enter_context(default_precision(dtype))  # of layers within those of users
    return True


def _pickled(request: Request, made_of: Callable, execution: str) -> bytes:
    import cloudpickle

    learned: Any = (
        custom_objects(request.system.model) if request.system.has_data else nullcontext({})
    )
    try:
        with learned as collected:
            return cloudpickle.dumps(
                partial(
                    _made, _OwnCode(collected, request.options.dtype), made_of, request, execution
                )
            )
    except Exception as error:
        problem = (
            "workers: the model, the sampler or a function of this run cannot be sent to "
            "another process."
        )
        received = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            problem, received, "objects that cloudpickle can serialize, or no workers"
        ) from None


def _made(
    alone: Any, made_of: Callable[[Request, str], Any], request: Request, execution: str
) -> tuple[Callable, dict[str, Any]]:
    """What answers messages in a process, which may be its alone, and what its numbers depend
    on.
    """
    if alone:
        _OPEN.enter_context(deterministic())
    loop = made_of(request, execution).loops[0]
    return BlockServer(loop).answer, _fingerprint(loop) if alone else {}


def _fingerprint(loop: Loop) -> dict[str, Any]:
    """Versions, threads, processor and device, and a digest of a gradient, by which workers are
    compared.
    """
    flags = ""
    with suppress(OSError), open("/proc/cpuinfo") as file:
        flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    evaluate = loop.potential.bind(
        loop.rung, None, tuple(map(tf.constant, loop.potential.auxiliary))
    )
    place = np.linspace(
        -0.1, 0.1, loop.potential.num_parameters, dtype=loop.potential.dtype.as_numpy_dtype
    )
    gradient = evaluate(tf.constant(np.tile(place, (loop.walkers, 1)))).gradient
    return {
        **versions(),
        "threads": threads(),
        "processor": hashlib.sha256(flags.encode()).hexdigest()[:12],
        "device": "GPU" if on_gpu() else "CPU",
        "gradient": hashlib.sha256(np.asarray(gradient).tobytes()).hexdigest()[:12],
    }
