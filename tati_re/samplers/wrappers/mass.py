"""A mass for each parameter, for every method with momenta."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import BurninAround, BurninTuning, tuning_of
from tati_re.core.front_door import front_door
from tati_re.core.method import Method, Wrapper
from tati_re.core.ops import cond, constant, mean, replaced_if, sqrt
from tati_re.core.protocol import fields_of
from tati_re.samplers.splitting import Splitting
from tati_re.samplers.wrappers.coordinates import (
    Diagonal,
    InCoordinates,
    extend,
    inner_of,
    step_in_coordinates,
)
from tati_re.samplers.wrappers.fisher import DiagonalWindows, LowRankWindows

DECAY = 0.99
"""How much of the running mean of the squared gradient a step of the burn-in keeps."""
MEASURED = "'fisher', 'fisher:N' with N directions, 'variance' or 'gradient_rms'"


class Massive(Wrapper):
    """A sampler with a diagonal mass: parameters of large mass move slowly.

    Targets exp(-β U), like the sampler inside. With mass m the momenta are N(0, m T), and the
    distribution of the positions is unchanged. A mass proportional to the curvature makes all
    directions equally fast and stable.

    Rule: the step of the sampler inside in the coordinates x = sqrt(m) θ, that is

        drift    θ <- θ + t p / sqrt(m)
        kick     p <- p - t ∇U / sqrt(m),     p ~ N(0, T)

    The reported momenta p belong to x (the usual momenta are sqrt(m) p), so kinetic energies remain
    P T/2.

    Measured masses adapt during the burn-in, which must have steps, and are frozen afterwards:

        "fisher"        m = sqrt(Var g / Var θ) of positions and gradients g = ∇U, exact on a Gaussian of independent
                        parameters after any two draws
        "fisher:32"     with 32 directions in addition to the diagonal (any number above 0): exact on Gaussians of at
                        most 32 parameters, and on those that differ from independent ones by a matrix of
                        rank 32; needs one temperature and no walls that reflect
        "variance"      m = T / Var θ, which needs draws from the target itself
        "gradient_rms"  m = rms(g) / mean rms, separately for each walker

    The first three use all walkers of a rung, each about its own mean, in windows of the burn-in
    that end after 40, 80, 160, ... steps; the last window counts. Masses are scaled so that the
    stiffest direction is as stiff as with equal masses (power iteration, 17 gradients after each
    window). Step size and friction then keep their meaning, and all other directions become as
    fast, single parameters at most 10,000 times faster. Draws that are not finite are left out.
    run.csv records their number (`mass_skipped`), and how much faster the softest direction is than
    with equal masses (`mass_spread`). Var g contains the variance of mini-batch noise, which makes noisy parameters
    heavier; parameters that become faster feel the noise of mini-batches more, as any faster
    sampler does. Around an ensemble the walkers learn from each other in x: B B' = I + η cov(x of
    the others). Cost: that of the sampler inside, and two products with the directions for a
    position or gradient. Source: masses by fan-in: Baldock and Marzari (2019); frozen root mean
    square preconditioner: Wenzel et al., ICML 2020, appendix D; Fisher divergence: Seyboldt et al.,
    arXiv 2603.18845.

    Args:
        inner: A sampler with momenta. Default: BAOAB.
        mass: Numbers above 0, `(parameters,)`, "fisher", "fisher:32", "variance" or "gradient_rms"
            (default).

    Raises:
        InputError: The sampler has no momenta, or a mass is not above 0 or not known.

    Examples:
        >>> Massive(Splitting("BAOAB"), [1.0, 4.0]).name
        'BAOAB'
    """

    @front_door
    def __init__(
        self, inner=None, mass: Sequence[float] | np.ndarray | str = "gradient_rms"
    ) -> None:
        super().__init__(inner or Splitting())
        refuse_if(
            not self.inner.has_momentum,
            "mass: the sampler has no momenta.",
            self.inner.name,
            "such as BAOAB",
        )
        problem = (
            "gradient_noise: a number refers to the gradient in θ, but a mass changes the "
            "coordinates."
        )
        refuse_if(
            self.inner.dynamics.removed_noise > 0,
            problem,
            f"mass and {self.inner.name}",
            "'estimate', or no mass",
        )
        self.measured = isinstance(mass, str)
        self.rule = rule_of(mass) if isinstance(mass, str) else None
        values = np.ones(1) if isinstance(mass, str) else np.asarray(mass, np.float64)
        if not (np.isfinite(values) & (values > 0)).all():
            raise InputError(
                "mass: it must be above 0.", received=values.min(), expected="numbers above 0"
            )
        self.mass: Any = mass if self.measured else values
        self.dynamics = replace(
            self.inner.dynamics,
            own_speeds=self.inner.dynamics.own_speeds or not keeps_speed(mass),
        )
        if self.rule is None:
            return
        problem = (
            f"mass: {mass} depends on the position of each walker, but an ensemble moves in "
            "its own coordinates."
        )
        refuse_if(
            self.inner.dynamics.mixes_parameters, problem, self.inner.name, "fan_in, or numbers"
        )
        self.against_noise = (
            self.inner.against_noise or "its masses are measured during the burn-in."
        )
        self.adapts = True
        self.of_rung = (*self.rule.of_rung, *self.inner.of_rung)
        self.shown = (*self.inner.shown, *self.rule.shown)
        self.burnin = BurninOfMass(tuning_of(self.inner), self.rule)
        self.dynamics = replace(self.dynamics, mixes_parameters=self.rule.mixes_parameters)

    def init(self, position, evaluate, noise):
        """Starts as the sampler inside does, in x; a measured mass starts at 1.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        if self.rule is not None:
            state = self.inner.init(position, evaluate, noise)
            return extend(state, **self.rule.start(state))
        coordinates = self._given(position)
        state = self.inner.init(
            0.0 * position, InCoordinates(evaluate, position, coordinates), noise
        )
        return state._replace(position=position, gradient=coordinates.untransposed(state.gradient))

    def _given(self, position) -> Diagonal:
        return Diagonal(constant(1.0 / np.sqrt(self.mass), position))

    def step(self, state, evaluate, noise):
        if self.rule is None:
            return step_in_coordinates(
                self.inner, state, evaluate, noise, self._given(state.position)
            )[:2]
        memory = tuple(fields_of(state, self.rule.fields).values())
        memory = self.rule.adapted(
            memory, state, evaluate.clock, evaluate.full if self.full_batch else evaluate
        )
        coordinates = self.rule.coordinates(memory)
        new, info, _ = step_in_coordinates(
            self.inner, inner_of(state), evaluate, noise, coordinates
        )
        return type(state)(
            **new._asdict(), **dict(zip(self.rule.fields, memory, strict=True))
        ), info

    def masses(self) -> Any:
        return self.inner.masses() if self.measured else self.mass * self.inner.masses()

    def coordinates(self, state: Any) -> Any:
        if self.rule is None:
            return self.inner.coordinates(state)
        memory = fields_of(state, self.rule.fields).values()
        return self.rule.coordinates(tuple(map(np.asarray, memory)))

    def linear_part(self, coordinates: Any) -> tuple[Method, Any]:
        if coordinates is None and self.measured:
            return self, None
        method, _ = self.inner.linear_part(None)
        return method, Diagonal(1 / np.sqrt(self.mass)) if coordinates is None else coordinates

    def get_config(self) -> dict:
        if self.measured:
            mass = self.mass
        else:
            mass = f"{len(self.mass)} numbers" if self.mass.ndim else float(self.mass)
        return {**self.inner.get_config(), "mass": mass}


class BurninOfMass(BurninAround):
    """The burn-in of a method whose mass is measured.

    Args:
        inner: That of the method inside.
        rule: How the mass is measured.
    """

    def __init__(self, inner: BurninTuning, rule: Any) -> None:
        super().__init__(inner)
        self.rule = rule
        self.renewals = rule.renewals

    def renewed(self, state: Any) -> Any:
        return self.rule.renewed(state)


def keeps_speed(mass: Sequence[float] | np.ndarray | str) -> bool:
    """Whether the stiffest direction is as stiff as that of U under a mass of an option."""
    return isinstance(mass, str) and mass.startswith(("unit", "fisher", "variance"))


class RunningRms:
    """m = rms(∇U) / mean rms of each walker, from a running mean of the squared gradients."""

    fields = of_rung = ("square", "mass")
    shown: tuple[str, ...] = ()
    mixes_parameters = False
    renewals: tuple[int, ...] = ()

    def start(self, state) -> dict[str, Any]:
        return {"square": 0.0 * state.gradient, "mass": 0.0 * state.gradient + 1.0}

    def adapted(self, memory: tuple, state, clock, ask) -> tuple:
        """The running mean of the squared gradients and the mass, which change in the burn-in only.

        Args:
            memory: The fields of the state that belong to the mass, in the order of `fields`.
            state: The state before the step.
            clock: Number of the step, and whether it belongs to the burn-in.
            ask: Computes U and its gradient; not used.
        """

        def new(square, mass):
            square = DECAY * square + (1 - DECAY) * state.gradient**2
            rms = sqrt(square)
            # Unit mass until the running mean, which starts at zero, has seen a hundred gradients.
            return square, cond(
                clock.step >= 100, lambda: rms / (mean(rms) + 1e-30) + 1e-3, lambda: mass
            )

        return replaced_if(clock.adapting, new, memory)

    def renewed(self, state):
        return state

    def coordinates(self, memory: tuple) -> Diagonal:
        return Diagonal(1.0 / sqrt(memory[1]))


def rule_of(mass: str) -> Any:
    """The rule of a measured mass, by its name; `InputError` where there is none."""
    name, colon, rank = mass.partition(":")
    if name == "fisher" and colon and rank.isascii() and rank.isdigit() and int(rank):
        return LowRankWindows(int(rank))
    if mass not in ("gradient_rms", "fisher", "variance"):
        raise InputError(
            "mass: unknown value.", received=repr(mass), expected=f"numbers above 0, {MEASURED}"
        )
    return RunningRms() if mass == "gradient_rms" else DiagonalWindows(mass == "fisher")
