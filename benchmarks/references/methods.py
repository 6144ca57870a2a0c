"""Methods that are scored against the references: weights of a case, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.references.cases import Case, predictions_of
from benchmarks.references.make import simulation_of, stored_weights
from benchmarks.references.score import Score, scored

MEMBERS = 8
FIT_STEPS = 3_000


def defaults(case: Case, seed: int) -> np.ndarray:
    """A run by defaults."""
    return stored_weights(simulation_of(case, seed=seed).sample())


def mclmc(case: Case, seed: int) -> np.ndarray:
    """MCLMC, with all else by default."""
    return stored_weights(simulation_of(case, seed=seed).sample(sampler="MCLMC"))


def deep_ensemble(case: Case, seed: int) -> np.ndarray:
    """Fits from random weights, each of equal weight."""
    sim = simulation_of(case, seed=seed, num_walkers=MEMBERS, walker_start="fresh")
    sim.fit(optimizer="adam", learning_rate=0.01, num_steps=FIT_STEPS)
    return np.asarray(sim.parameters, float).reshape(MEMBERS, 1, -1)


METHODS: dict[str, Callable[[Case, int], np.ndarray]] = {
    "tati_re, defaults": defaults,
    "tati_re, MCLMC": mclmc,
    "deep ensemble": deep_ensemble,
}


def scores_of(case: Case, method: str, seed: int, reference: Any) -> tuple[dict[str, Score], float]:
    """The scores of a method, and its processor seconds with compiling."""
    begin = time.process_time()
    weights = METHODS[method](case, seed)
    seconds = time.process_time() - begin
    return scored(predictions_of(case, weights, case.grid), reference), seconds
