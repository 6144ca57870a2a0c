"""What keeping draws costs: `python -m benchmarks.recording [--quick]`. Figures are reported, never
asserted.

`Simulation.sample` as users run it, with its files and checkpoints, once compiled: processor time
of a move of all walkers, as the difference of a longer and a shorter run, both past what their
certificates read, with a row and a position every 100th move and every move, medians of turns.
Beside it, where BlackJAX is installed, the moves of its HMC on the same posterior, compiled as one
`lax.scan`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.engine import show
from benchmarks.timing import ONE_THREAD

_LEAPFROGS, _STEP, _WALKERS = 10, 0.05, 4
_EVERY = 100, 1
CASES: dict[str, dict[str, Any]] = {
    "784-10, 4 walkers, BAOAB, batch 550": {"format": "h5"},
    "logistic, 31 parameters, 4 walkers, HMC of 10": {"format": "csv"},
}


def _logistic() -> tuple[np.ndarray, np.ndarray]:
    """569 examples of 30 inputs in two classes, as many as scikit-learn's breast cancer has."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((569, 30)).astype(np.float32)
    return x, (x @ generator.standard_normal(30) + generator.logistic(size=569) > 0).astype(
        np.int32
    )


def _simulation(name: str):
    import tati_re

    common = {
        "num_walkers": _WALKERS,
        "prior": "gaussian",
        "seed": 0,
        "verbose": 0,
        "standardize": "none",
    }
    if name.startswith("784"):
        from benchmarks.systems import images

        data = images()[0][:5_500].reshape(-1, 784), images()[1][:5_500]
        sim = tati_re.Simulation(data=data, batch_size=550, **common)
        return sim, {"sampler": "BAOAB", "step_size": 1e-4, "friction": 10.0}
    import keras

    model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(1)])
    sim = tati_re.Simulation(model, _logistic(), loss="binary_crossentropy", **common)
    return sim, {"sampler": "HMC", "step_size": _STEP, "num_leapfrog_steps": _LEAPFROGS}


def microseconds(name: str, seconds: float, turns: int) -> tuple[float, float]:
    """Of processor time, a move of all walkers, with each 100th kept and with every one: medians of
    runs in turn.
    """
    sim, how = _simulation(name)

    def taken(num_steps: int, every: int) -> float:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            kept = {
                "record_every": every,
                "trajectory_every": every,
                "trajectory_format": CASES[name]["format"],
            }
            fixed = {"num_burnin_steps": 0, "execution": "xla"}
            sim.sample(**how, **kept, **fixed, num_steps=num_steps, output=f"{folder}/run")
        return time.process_time() - began

    few = many = (
        1_600  # draws enough for all that the certificate reads, which costs no more for a longer run
    )
    for every in _EVERY:
        taken(few, every)
    short = taken(few, 1)
    while taken(many := 2 * many, 1) < short + seconds:
        pass
    found = [[taken(many, every) - taken(few, every) for every in _EVERY] for _ in range(turns)]
    rare, each = 1e6 * np.median(found, axis=0) / (many - few)
    return float(rare), float(each)


def of_blackjax(seconds: float) -> float:
    """Microseconds of processor time of a move of BlackJAX' HMC, 4 chains, each move's positions
    returned.
    """
    import blackjax
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, _logistic())

    def log_density(theta):
        outputs = x @ theta[:30] + theta[30]
        return (y * outputs - jax.nn.softplus(outputs)).sum() - 0.5 * (theta**2).sum()

    hmc = blackjax.hmc(log_density, _STEP, jnp.ones(31), _LEAPFROGS)

    def move(states, key):
        states, _ = jax.vmap(hmc.step)(jax.random.split(key, _WALKERS), states)
        return states, states.position

    count = 2_000
    scan = jax.jit(lambda states, key: jax.lax.scan(move, states, jax.random.split(key, count)))
    states = jax.vmap(hmc.init)(jnp.zeros((_WALKERS, 31)))
    jax.block_until_ready(scan(states, jax.random.key(0)))
    began, moves = time.process_time(), 0
    while time.process_time() - began < seconds:
        states, _ = jax.block_until_ready(scan(states, jax.random.key(moves)))
        moves += count
    return 1e6 * (time.process_time() - began) / moves


def _in_a_process(call: str) -> list[float]:
    """Values of a call in a process of its own, one thread: neither library's threads meet the
    other's.
    """
    code = f"import numpy; from benchmarks import recording; print(*numpy.ravel(recording.{call}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | ONE_THREAD
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints one line a case."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recording", description="What keeping draws costs."
    )
    parser.add_argument("--quick", action="store_true", help="runs longer by 2 s in place of 10 s")
    seconds, turns = (2.0, 3) if parser.parse_args(argv).quick else (10.0, 5)
    lines = []
    for name in CASES:
        rare, each = _in_a_process(f"microseconds({name!r}, {seconds}, {turns})")
        peer = ""
        if "HMC" in name and importlib.util.find_spec("blackjax"):
            peer = f"{_in_a_process(f'of_blackjax({seconds})')[0]:,.0f}"
        lines.append(
            [
                name,
                CASES[name]["format"],
                f"{rare:,.0f}",
                f"{each:,.0f}",
                f"{each / rare:.2f}",
                peer,
            ]
        )
    head = (
        "run",
        "positions",
        "µs a move, every 100th kept",
        "µs, every one kept",
        "ratio",
        "BlackJAX, every one",
    )
    show("Processor time of a move of all walkers, through Simulation.sample", head, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
