"""Legs, short sampled trajectories, and the points on them from which to descend."""

import math
import time
import warnings
from typing import Any

import numpy as np

from tati_re.core.errors import CertificateWarning, InputError, SamplingError, refuse_if
from tati_re.core.user_input import seeded
from tati_re.landscape.surface import Surface
from tati_re.launch.request import Request, make_request
from tati_re.options.make import Options, make_options
from tati_re.runs.positions import stored_positions

MOST_POSITIONS = 200
"""Positions of a leg that are kept, at most."""

_FEWEST = 20
_NUMBERS = 4_000_000


def num_positions(num_parameters: int) -> int:
    return min(MOST_POSITIONS, max(_FEWEST, _NUMBERS // num_parameters))


class FunctionTrajectories:
    """BAOAB Langevin dynamics on a surface, for potentials given as functions.

    Args:
        surface: The potential.
        step_size: h, above 0.
        friction: γ, 1/time. Default: 1.
    """

    def __init__(self, surface: Surface, step_size: float, friction: float = 1.0) -> None:
        self.surface = surface
        self.step_size = step_size
        self.friction = friction
        self.identity = f"BAOAB {step_size} {friction}"
        self.start = None

    def __call__(
        self,
        start: np.ndarray,
        temperature: float,
        num_steps: int,
        seed: int,
        until: float = math.inf,
    ) -> np.ndarray:
        """Positions `(n, parameters)`, at most 200, equally spaced, the start first; fewer where
        the time is over before.

        Args:
            start: `(parameters,)`.
            temperature: Of the leg.
            num_steps: Steps, 1 or more.
            seed: Of its random numbers.
            until: When it ends at the latest, by `time.monotonic`. Default: never.
        """
        generator = seeded(seed)
        h = self.step_size
        position = np.array(start, np.float64)
        momentum = np.sqrt(temperature) * generator.standard_normal(position.shape)
        keep = np.exp(-self.friction * h)
        kick = np.sqrt(-np.expm1(-2 * self.friction * h) * temperature)
        every = max(1, -(-num_steps // (MOST_POSITIONS - 1)))
        gradient = self.surface.gradient(position)[1]
        rows = [position]
        for step in range(1, num_steps + 1):
            momentum = momentum - 0.5 * h * gradient
            position = position + 0.5 * h * momentum
            momentum = keep * momentum + kick * generator.standard_normal(position.shape)
            position = position + 0.5 * h * momentum
            gradient = self.surface.gradient(position)[1]
            momentum = momentum - 0.5 * h * gradient
            if not np.isfinite(gradient).all():
                raise InputError("step_size is too large: a leg diverged.", h, "a smaller one")
            if step % every == 0:
                rows.append(position)
            if time.monotonic() > until:
                break
        return np.stack(rows)


class ModelTrajectories:
    """Legs sampled by the sampler and the mini-batches of a `tati_re.Simulation` with one
    walker.
    """

    def __init__(self, sim: Any) -> None:
        refuse_if(
            sim.num_walkers() != 1,
            "A leg has one walker.",
            f"num_walkers {sim.num_walkers()}",
            "num_walkers 1",
        )
        self.sim = sim

    def next_seed(self) -> int:
        """The seed of an exploration for which none was given: 0 in the first of a simulation."""
        return self.sim.calls.next("exploration", make_options(self.sim.options, seed=0)).run_seed

    @property
    def start(self) -> np.ndarray:
        return self.sim.parameters.copy()

    @property
    def request(self) -> Request:
        """Of a leg."""
        return make_request("sample", self._options, self.sim.objects, self.sim.system)

    @property
    def _options(self) -> Options:
        """Those of a leg, as they were given: a request settles what they leave open."""
        return make_options(
            self.sim.options, num_burnin_steps=0, step_size=self.sim.options.first_step_size
        )

    @property
    def identity(self) -> str:
        """The sampler with all that it was given, step size and mini-batches."""
        names = (
            "step_size",
            "batch_size",
            "batch_sampling",
            "step_schedule",
            "temperature_schedule",
        )
        return f"{self.request.method.get_config()} {self._options.values_of(names)}"

    def __call__(
        self,
        start: np.ndarray,
        temperature: float,
        num_steps: int,
        seed: int,
        until: float = math.inf,
    ) -> np.ndarray:
        """As `FunctionTrajectories`; compiling the steps is not cut short."""
        sim = self.sim
        left = max(1e-3, until - time.monotonic())
        sim.parameters = np.asarray(start)
        sim.init_momenta(temperature=temperature, seed=seed)
        every = max(1, -(-num_steps // (num_positions(sim.num_parameters()) - 1)))
        try:
            with warnings.catch_warnings():
                # A leg looks for minima: nobody averages over its draws.
                warnings.simplefilter("ignore", CertificateWarning)
                run = sim.sample(
                    num_steps=num_steps,
                    trajectory_every=every,
                    record_every=max(every, 10),
                    seed=seed,
                    verbose=0,
                    temperature=temperature,
                    num_burnin_steps=0,
                    step_size=sim.options.first_step_size,
                    max_time=None if math.isinf(left) else left,
                ).passing_on()
        except SamplingError:
            # Too hot for the step size: the leg says nothing, and its start is a candidate all the
            # same.
            return np.asarray(start, np.float64)[None]
        rows = [np.asarray(stored.parameters, np.float64) for stored in stored_positions(run)]
        return np.stack([np.asarray(start, np.float64), *rows])


def candidates(surface: Surface, positions: np.ndarray, count: int) -> np.ndarray:
    """The rows with the smallest gradient in each of several equal parts of a trajectory.

    One basin thus hides no other.

    Args:
        surface: The potential.
        positions: Positions in the order of the trajectory, shape (n, parameters).
        count: Number of parts, at most n.

    Returns:
        One index per part, rising.
    """
    norms = np.linalg.norm(surface.gradients(positions)[1], axis=1)
    norms = np.where(np.isfinite(norms), norms, np.inf)
    parts = np.array_split(np.arange(len(positions)), min(count, len(positions)))
    return np.array([part[np.argmin(norms[part])] for part in parts])
