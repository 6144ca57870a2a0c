"""A mass for each parameter, for every method with momenta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.method import Wrapper
from tati_re.core.ops import cond, constant, mean, replaced_if, rows, sqrt
from tati_re.samplers.splitting import Splitting
from tati_re.samplers.wrappers.coordinates import extend, inner_of, step_in_coordinates

DECAY = 0.99
"""How much of the running mean of the squared gradient a step of the burn-in keeps."""


class Diagonal:
    """Coordinates x = θ / s, entry by entry."""

    def __init__(self, scale) -> None:
        self.scale = scale

    def forward(self, vectors):
        return self.scale * vectors

    transposed = forward

    def untransposed(self, vectors):
        return vectors / self.scale

    backward = untransposed

    def spread(self, variances):
        return self.scale * (self.scale * variances)

    def part(self, first, count: int) -> Diagonal:
        return Diagonal(rows(self.scale, first, count) if len(self.scale.shape) == 2 else self.scale)


class Massive(Wrapper):
    """A sampler with a diagonal mass: parameters of large mass move slowly.

    Targets exp(-β U), as the sampler inside does: with the mass m the momenta are N(0, m T), and the positions keep
    their distribution. A mass in proportion to the curvature makes all directions equally fast and stable.

    Rule: the step of the sampler inside in the coordinates x = sqrt(m) θ, that is
        drift    θ <- θ + t p / sqrt(m)
        kick     p <- p - t ∇U / sqrt(m),     p ~ N(0, T)
    The momenta p that are shown belong to x (the usual ones are sqrt(m) p), so that kinetic energies stay P T/2.

    "gradient_rms" estimates m = rms(∇U) / mean rms from a running mean of the squared gradients of each walker (decay
    0.99) during the burn-in and is frozen afterwards; the number of burn-in steps has to be above 0.
    Around an ensemble the walkers learn from each other in x: B B' = I + η cov(x of the others).
    Cost: that of the sampler inside. Source: masses by fan-in: Baldock and Marzari (2019); frozen root mean square
    preconditioner: Wenzel et al., ICML 2020, appendix D.

    Args:
        inner: A sampler with momenta. Default: BAOAB.
        mass: Numbers above 0, `(parameters,)`, or "gradient_rms". Default: "gradient_rms".

    Raises:
        InputError: The sampler has no momenta, or a mass is not above 0.

    Examples:
        >>> Massive(Splitting("BAOAB"), [1.0, 4.0]).name
        'BAOAB'
    """

    def __init__(self, inner=None, mass: Sequence[float] | np.ndarray | str = "gradient_rms") -> None:
        super().__init__(inner or Splitting())
        if not self.inner.has_momentum:
            raise InputError("mass: the sampler has no momenta.", received=self.inner.name, expected="such as BAOAB")
        self.measured = isinstance(mass, str)
        if self.measured and mass != "gradient_rms":
            raise InputError("mass: not known.", received=repr(mass), expected="numbers above 0, or 'gradient_rms'")
        values = np.ones(1) if self.measured else np.asarray(mass, np.float64)
        if not (np.isfinite(values) & (values > 0)).all():
            raise InputError("mass: it must be above 0.", received=values.min(), expected="numbers above 0")
        self.mass: Any = mass if self.measured else values
        if self.measured and self.inner.mixes_parameters:
            raise InputError(
                "mass: gradient_rms is measured for each walker by itself, and an ensemble needs one for all.",
                received=self.inner.name,
                expected="fan_in, or numbers",
            )
        if self.measured:
            self.against_noise = self.inner.against_noise or "its masses are measured during the burn-in."
            self.adapts, self.of_rung = True, ("square", "mass", *self.inner.of_rung)

    def init(self, position, evaluate, noise):
        """As the sampler inside; an adaptive mass starts at 1."""
        state = self.inner.init(position, evaluate, noise)
        if not self.measured:
            return state
        return extend(state, square=0.0 * state.gradient, mass=0.0 * state.gradient + 1.0)

    def step(self, state, evaluate, noise):
        if not self.measured:
            scale = constant(1.0 / np.sqrt(self.mass), state.position)
            return step_in_coordinates(self.inner, state, evaluate, noise, Diagonal(scale))[:2]
        square, mass = replaced_if(
            evaluate.clock.adapting,
            lambda square, mass: self._adapted(square, mass, state.gradient, evaluate),
            (state.square, state.mass),
        )
        new, info, _ = step_in_coordinates(self.inner, inner_of(state), evaluate, noise, Diagonal(1.0 / sqrt(mass)))
        return type(state)(**new._asdict(), square=square, mass=mass), info

    @staticmethod
    def _adapted(square, mass, gradient, evaluate):
        square = DECAY * square + (1 - DECAY) * gradient**2
        rms = sqrt(square)
        # Unit mass until the running mean, which starts at zero, has seen a hundred gradients.
        seen = evaluate.clock.step >= 100
        return square, cond(seen, lambda: rms / (mean(rms) + 1e-30) + 1e-3, lambda: mass)

    def get_config(self) -> dict:
        mass = self.mass if self.measured else f"{len(self.mass)} numbers" if self.mass.ndim else float(self.mass)
        return {**self.inner.get_config(), "mass": mass}
