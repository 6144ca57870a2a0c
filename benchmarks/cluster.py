"""What workers gain: `python -m benchmarks.cluster [--workers 1 2 4] [--walkers N] [--seconds 8]
[--ray] [--rounds]`.

Independent walkers and ladders with swaps; for each the time of a step with one loop, and with 1, 2
and more workers over pipes, in turn, medians, the processor time of driver and workers, the seconds
before the first step, the megabytes of a checkpoint written in a second, the states of all walkers
fetched from the workers included, and the memory of a worker. `--ray` adds workers on a Ray cluster
of machines with one core each, simulated on this one. `--rounds` measures what a round of swaps
takes of the driver's processor instead, with workers that compute and with workers that only
answer, and over pipes the time between the last answer of a round and the last message of the next.
Figures are reported, never asserted.
"""

import argparse
import itertools
import os
import secrets
import statistics
import tempfile
import time
from pathlib import Path
from pkgutil import resolve_name
from unittest.mock import patch

import numpy as np

from tati_re import Simulation

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(2000, 784)).astype("float32")
LABELS = RNG.integers(0, 10, 2000)
SYSTEMS: dict[str, tuple[dict, int]] = {
    "784-10 x 8": ({"hidden": []}, 8),
    "784-100-10 x 8": ({"hidden": [100]}, 8),
    "conv x 4": ({"conv": 8}, 4),
}
SAVE = "tati_re.engine.driver.Driver._save"
BLOCKS, PROCESS = "tati_re.distributed.blocks:Blocks", "tati_re.distributed.processes:Process"
MADE = resolve_name("tati_re.launch.workers:_made")
KINDS = {
    "independent": {"batch_size": 550, "step_size": 1e-4},
    "swaps": {"max_temperature": 4.0, "exchange_every": 20, "step_size": 1e-4},
}


def simulation(system: dict, walkers: int) -> Simulation:
    given = {"num_walkers": walkers, "seed": 1, "verbose": 0}
    if "conv" not in system:
        return Simulation(data=(IMAGES, LABELS), **system, **given)
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(system["conv"], 3),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    return Simulation(model, data=(IMAGES.reshape(-1, 28, 28, 1), LABELS), **given)


def of_workers() -> tuple[float, float]:
    """Seconds of a processor that the workers of this machine have taken, and the megabytes of
    one.
    """
    taken, memory = 0.0, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # Copies of the fork server have its command line; the server itself computes nothing.
            if b"tati_re.distributed." in (folder / "cmdline").read_bytes():
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                taken += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                memory.append(int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        except OSError:
            pass
    return taken, max(memory, default=0.0)


def block_size(walkers: int) -> int:
    """Independent walkers of a block: as many as by default, but at least two blocks."""
    return min(4, walkers // 2)


def measured(
    name: str, kind: str, workers: int | None, seconds: float, cluster: str | None
) -> dict[str, float]:
    """Milliseconds of a step of all walkers after the first checkpoint, by the clock and of
    processors of the driver and the workers, and the seconds before the first step.
    """
    system, walkers = SYSTEMS[name]
    options = dict(KINDS[kind])
    if kind == "swaps":
        options["num_replicas"], walkers = walkers, 1
        options["batch_size"] = None
    elif workers is not None:
        options["block_size"] = block_size(walkers)
    options = {key: value for key, value in options.items() if value is not None}
    times: list[tuple[float, ...]] = []
    rates: list[float] = []
    save = resolve_name(SAVE)

    def saved(driver, carry) -> None:
        began = time.monotonic()
        save(driver, carry)
        written = (driver.folder / "checkpoint" / "current.npz").stat().st_size / 1e6
        rates.append(written / (time.monotonic() - began))

    def seen(folder: Path, step: int) -> None:
        times.append((time.monotonic(), step, time.process_time(), *of_workers()))

    with tempfile.TemporaryDirectory() as folder, patch(SAVE, saved):
        began = time.monotonic()
        simulation(system, walkers).sample(
            num_steps=10**8,
            max_time=seconds,
            checkpoint_seconds=seconds / 4,
            record_every=100,
            trajectory_every=0,
            output=Path(folder) / "run",
            callbacks=[seen],
            **options,
            **({} if workers is None else {"workers": workers, "cluster": cluster}),
        )
    if len(times) < 2 or len(rates) < 2:
        raise SystemExit(
            f"{name}, {kind}: fewer than two checkpoints in {seconds:g} s; give more (--seconds)"
        )
    first, last = times[0], times[-1]
    steps = max(last[1] - first[1], 1)
    ms, driver, theirs = (1e3 * (last[i] - first[i]) / steps for i in (0, 2, 3))
    start = first[0] - began - seconds / 4
    return {
        "ms": ms,
        "driver": driver,
        "workers": theirs,
        "start": start,
        "MB": last[4],
        "rate": statistics.median(rates[1:]),
    }


def echoing(*arguments):
    """As `_made`, but after its first rounds a worker gives the answer that it gave to such a
    message before.
    """
    answer, told = MADE(*arguments)
    kept: dict[tuple, list] = {}

    def again(verb: str, common: tuple, own: dict | None):
        if verb != "advance":
            return answer(verb, common, own)
        seen = kept.setdefault((common[1], len(common), bool(own and next(iter(own.values())))), [])
        if len(seen) < 3:
            seen.append(answer(verb, common, own))
        return seen[-1]

    return again, told


def rounds(workers: int, seconds: float, cluster: str | None, echo: bool) -> np.ndarray:
    """Milliseconds of a processor that a round takes of the driver's main thread, and of its
    process, by the clock, and between the last answer heard and the last message sent: each stretch
    of 784-10 on 500 examples, 8 rungs in 8 blocks that swap after each step, divided by its rounds;
    `(4, stretches)`.
    """
    blocks, process = resolve_name(BLOCKS), resolve_name(PROCESS)
    found, made, gaps = [], [], []
    run, swapped, tell, hear = blocks.run, blocks._swapped, process.tell, process.hear
    now = [0.0, 0.0]

    def counted(loop, move: int):
        made.append(move)
        return swapped(loop, move)

    def told(worker, message: bytes) -> None:
        tell(worker, message)
        now[1] = time.perf_counter()

    def heard(worker) -> bytes:
        if now[1] > now[0] > 0:
            gaps.append(now[1] - now[0])
        answer = hear(worker)
        now[0] = time.perf_counter()
        return answer

    def timed(loop, *arguments):
        made.clear()
        gaps.clear()
        began = time.thread_time(), time.process_time(), time.perf_counter()
        chunk = run(loop, *arguments)
        taken = np.array([time.thread_time(), time.process_time(), time.perf_counter()]) - began
        if made:
            found.append(1e3 * np.array([*taken / len(made), np.median(gaps or [np.nan])]))
        return chunk

    with (
        tempfile.TemporaryDirectory() as folder,
        patch.multiple(blocks, run=timed, _swapped=counted),
        patch.multiple(process, tell=told, hear=heard),
        patch("tati_re.launch.workers._made", echoing if echo else MADE),
    ):
        sim = Simulation(
            data=(IMAGES[:500], LABELS[:500]), hidden=[], num_walkers=1, seed=1, verbose=0
        )
        every = {
            "num_steps": 10**8,
            "record_every": 1000,
            "trajectory_every": 0,
            "exchange_every": 1,
        }
        ladder = {
            "num_replicas": 8,
            "max_temperature": 4.0,
            "step_size": 1e-4,
            "output": Path(folder) / "run",
        }
        sim.sample(**ladder, **every, max_time=seconds, workers=workers, cluster=cluster)
    return np.array(found[1:]).T


def simulated(machines: int):
    """A Ray cluster of machines with a core each, and its token."""
    file = Path(tempfile.mkdtemp()) / "token"
    file.touch(0o600)
    file.write_text(secrets.token_hex(16))
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(file)}
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    for _ in range(machines - 1):
        cluster.add_node(num_cpus=1)
    return cluster


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster", description="What workers gain."
    )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument(
        "--walkers", type=int, help="of each system, 2 or more; default: as its name says"
    )
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--rounds", action="store_true")
    parser.add_argument(
        "--only",
        nargs="*",
        default=list(SYSTEMS),
        choices=[*SYSTEMS, "784-10", "784-100-10", "conv"],
    )
    given = parser.parse_args()
    if given.walkers:
        SYSTEMS.update({name: (system, given.walkers) for name, (system, _) in SYSTEMS.items()})
    cluster = simulated(max(given.workers)) if given.ray else None
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if given.rounds:
        for address in (None, *([] if cluster is None else [cluster.address])):
            for workers, echo in itertools.product(given.workers, (True, False)):
                names = ("main thread", "process", "clock", "answer to message")
                taken = rounds(workers, given.seconds, address, echo)
                if not taken.size:
                    print(
                        f"{workers} worker(s): no stretch of steps ended in {given.seconds:g} s (--seconds)",
                        flush=True,
                    )
                    continue
                told = zip(names, np.median(taken, 1), taken.min(1), taken.max(1), strict=True)
                words = [
                    f"{name} {each[0]:.2f} ms ({each[1]:.2f} to {each[2]:.2f})"
                    for name, *each in told
                ]
                where = "over pipes" if address is None else "over Ray"
                who = f"{workers} worker(s) that {'answer' if echo else 'compute'}"
                print(
                    f"a round {where}, {who}: {', '.join(words)}; {len(taken.T)} stretches",
                    flush=True,
                )
        return
    for name in (name for name in SYSTEMS if {name, name.split()[0]} & {*given.only}):
        for kind in given.kinds:
            found: dict[tuple[int | None, str | None], list[dict[str, float]]] = {}
            rows = [(None, None), *((number, None) for number in given.workers)]
            if cluster is not None:
                rows += [(number, cluster.address) for number in given.workers]
            for _ in range(given.repeats):
                for workers, address in rows:
                    walkers = SYSTEMS[name][1]
                    blocks = walkers // (1 if kind == "swaps" else block_size(walkers))
                    if workers is None or workers <= blocks:
                        each = measured(name, kind, workers, given.seconds, address)
                        found.setdefault((workers, address), []).append(each)
            today = statistics.median(each["ms"] for each in found[None, None])
            for (workers, address), each in found.items():
                ms, driver, theirs, start, memory, rate = (
                    statistics.median(one[key] for one in each)
                    for key in ("ms", "driver", "workers", "start", "MB", "rate")
                )
                spread = (
                    f"{min(one['ms'] for one in each):.2f} to {max(one['ms'] for one in each):.2f}"
                )
                who = (
                    "one loop"
                    if workers is None
                    else f"{workers} worker(s)" + " on Ray" * (address is not None)
                )
                words = f"{ms:.2f} ms a step ({spread}), {today / ms:.2f} x, start {start:.0f} s"
                words += f"; processors {driver:.2f} ms driver, {theirs:.2f} workers; snapshot {rate:.0f} MB/s"
                if workers is not None:
                    words += f"; {memory:.0f} MB a worker"
                system = (
                    name if given.walkers is None else f"{name.split(' x ')[0]} x {given.walkers}"
                )
                print(f"{system}, {kind}, {who}: {words}", flush=True)


if __name__ == "__main__":
    main()
