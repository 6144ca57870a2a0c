"""Our side: `Simulation(...).sample()` with the settings of METHODS, which are names and "auto",
and a length.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from benchmarks.efficiency.measures import Draws
from benchmarks.efficiency.targets import Target, num_rows

TUNED = {"step_size": "auto", "mass": "fisher"}
_MCLMC = {**TUNED, "sampler": "MCLMC", "friction": "auto"}
_ALL_DIRECTIONS = {**_MCLMC, "target_bias": 0.05, "mass": "fisher:100"}
METHODS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, MCLMC": _MCLMC,
    "ours, MCLMC, bias .05": {**_MCLMC, "target_bias": 0.05},
    "ours, MCLMC, all directions": _ALL_DIRECTIONS,
    "ours, MCLMC, isotropic": {**_ALL_DIRECTIONS, "integrator": "isotropic"},
    "ours, MAMS": {**TUNED, "sampler": "MAMS", "num_leapfrog_steps": "auto"},
    "ours, HMC": {**TUNED, "sampler": "HMC", "num_leapfrog_steps": "auto"},
    "ours, BAOAB": {**TUNED, "sampler": "BAOAB", "friction": "auto"},
}
"""By name: what is chosen. "ours" is what `sample()` does where nothing is said; a bias of
.05 stands for an EEVPD of 4.5e-4, about the 5e-4 that BlackJAX asks for, .02 for 3.1e-5."""
FIT = ((1e-2, 3_000), (1e-3, 2_000))
"""Learning rate and steps of Adam before the settings that name a sampler, as for the peers."""


def draws_of(target: Target, method: str, chains: int, seed: int, gradients: int) -> Draws:
    """Samples with ours, in this process."""
    import tati_re

    options = {"num_walkers": chains, "seed": seed + 1, "verbose": 0}
    start, fit_gradients, began = target.starts(chains, seed), 0, time.perf_counter()
    if target.network:
        sim = tati_re.Simulation(**target.network, **options)
        if METHODS[method]:
            sim.parameters = start.astype(np.float32)
    else:
        sim = tati_re.Simulation(
            potential=in_tensorflow(target), dimension=target.dimension, **options
        )
        sim.parameters = start
    if target.network and METHODS[method]:
        for rate, steps in FIT:
            sim.fit(
                optimizer="adam",
                learning_rate=rate,
                num_steps=steps,
                record_every=steps,
                trajectory_every=0,
            )
        fit_gradients = sum(steps for _, steps in FIT)
    fit_seconds, began = time.perf_counter() - began, time.perf_counter()
    every = -(-gradients // num_rows(target, chains))
    run = sim.sample(
        **METHODS[method],
        num_steps=gradients,
        record_every=every,
        trajectory_every=every,
        trajectory_format="h5",
        checkpoint_seconds=1.0,
    )
    seconds = time.perf_counter() - began
    if target.network and not METHODS[method]:
        fit_gradients = int(
            run.manifest["options"]["fit_steps"]
        )  # on mini-batches, so that this is too many
    return _read(run, seconds, fit_gradients, fit_seconds)


def in_tensorflow(target: Target):
    import tensorflow as tf
    import tensorflow.experimental.numpy as tnp

    @tf.autograph.experimental.do_not_convert
    def potential(x):
        return target.potential(tnp, x)

    return potential


def _read(run, seconds: float, fit_gradients: int, fit_seconds: float) -> Draws:
    """The draws of a run after its burn-in, and its clock: compiling is what its steps do not
    account for.
    """
    from tati_re.samplers import MCLMC

    table, manifest = run.trajectory.sort_values(["walker", "step"], kind="stable"), run.manifest
    chains, burnin = table["walker"].nunique(), int(manifest["options"]["num_burnin_steps"] or 0)
    names = [
        name
        for name in table.columns
        if name not in ("step", "walker", "potential", "loss", "replica", "rung")
    ]
    positions = table[names].to_numpy().reshape(chains, -1, len(names))
    steps = table["step"].to_numpy(float).reshape(chains, -1)
    rows, sampler = run.run_info, manifest["method"]
    num_steps, kept = int(rows["step"].max()), rows[rows["step"] > burnin]
    first = rows[rows["walker"] == 0].set_index("step")
    # Gradients of a step: those of its integrator, as often as a trajectory has steps where its
    # length is tuned.
    each = (
        (first["trajectory_length"] / first["step_size"]).round()
        if "trajectory_length" in first
        else 1 + 0 * first["virial"]
    )
    each = (
        each.clip(lower=1.0)
        * MCLMC(integrator=sampler.get("integrator", "leapfrog")).gradients_per_step
    )
    spent = (each * np.diff(each.index, prepend=0)).cumsum()
    spent = np.interp(np.r_[burnin, steps[0]], np.r_[0, spent.index], np.r_[0, spent])
    clock = run.timing[["step", "seconds"]].to_numpy()
    lines, lasted = (clock[-1] - clock[0]) if len(clock) > 1 else (num_steps, seconds)
    steady = lasted / lines
    return Draws(
        positions,
        np.tile(spent[1:] - spent[0], (chains, 1)),
        spent[0] + fit_gradients,
        steady * (num_steps - burnin),
        steady * burnin + fit_seconds,
        max(0.0, seconds - steady * num_steps),
        float(kept["eevpd"].iloc[-chains:].mean()) if "eevpd" in kept else math.nan,
        f"{sampler['sampler']}, step size {first['step_size'].iloc[-1]:.3g}",
    )
