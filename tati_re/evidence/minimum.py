"""Springs at a minimum of a simulation, as wide as the posterior there."""

import numpy as np

from tati_re.core.errors import InputError
from tati_re.evidence.chains import Chains
from tati_re.evidence.energies import tuned
from tati_re.evidence.parts import PartFiles
from tati_re.evidence.quadratic import Springs
from tati_re.posterior.priors import Box
from tati_re.simulation.starts import descended

_EVERY = 4


def springs_at_minimum(estimation, parts: PartFiles) -> tuple[Springs, float]:
    options, walkers = estimation.options, estimation.walkers
    prior = estimation.potential(1).prior
    if prior.walled and not isinstance(prior, Box):
        raise InputError("method: frenkel_ladd knows the walls of a box only.", f"{prior}", "prior box, or no walls")
    bound = np.broadcast_to(prior.bound, (estimation.sim.num_parameters(),)) if isinstance(prior, Box) else None
    position = np.asarray(estimation.sim.walkers.position[:1])
    auxiliary = tuple(value[:1] for value in estimation.sim.walkers.auxiliary)
    steps = options.descent_steps

    def minimum() -> dict:
        found = descended(estimation.potential(1), position, auxiliary, steps, estimation.execution)
        return {"centre": found[0].astype(np.float64)}

    centre = parts.part("minimum", minimum)["centre"]
    if bound is not None:
        centre = np.clip(centre, -bound, bound)
    plan = estimation.plan(estimation.prior_widths())
    chains = Chains(estimation.potential(walkers), estimation.sampler, options.run_seed + 3, estimation.execution)

    def widths() -> dict:
        place = np.repeat(centre[None], walkers, axis=0)
        place, step_size = tuned(chains, place, 1.0, plan.step_size, plan)
        place = chains.run(place, 1.0, step_size, max(plan.num_burnin_steps, 1)).position
        squares, count = np.zeros_like(centre), max(8, plan.num_draws // _EVERY)
        for _ in range(count):
            place = chains.run(place, 1.0, step_size, _EVERY).position
            squares += np.mean((place.astype(np.float64) - centre) ** 2, axis=0) / count
        return {"squares": squares}

    squares = parts.part("widths", widths, chains)["squares"]
    return Springs(centre, np.sqrt(np.maximum(squares, 1e-24)), bound), steps + chains.gradients
