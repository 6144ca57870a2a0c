"""Langevin dynamics by splitting: every word over the letters A, B, O, U, C, D is a sampler.

Underdamped Langevin dynamics with unit mass,

    dθ = p dt,    dp = -∇U(θ) dt - γ p dt + sqrt(2 γ T) dW,    p ~ N(0, T),

is split into exactly solved parts; a word says in which order a step applies them (Leimkuhler and
Matthews, 2013):

    A(t)  drift    θ <- θ + t p
    B(t)  kick     p <- p - t ∇U(θ)
    O(t)  bath     p <- c p + sqrt((1 - c²) T) R,   c = exp(-γ t),  R ~ N(0, 1)
    U(t)  both     drift and bath solved together, in place of A and O

Two more are for the noise of mini-batches; `tati_re.samplers.thermostat` has their equations:

    D(t)  thermostat   a friction ξ in place of γ that adapts to the kinetic energy
    C(t)  damping      friction of the strength at which the gradient's noise heats

A letter that appears k times in the word gets t = h/k.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from tati_re.core.errors import InputError
from tati_re.core.facets import Dynamics
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import column, exp, expm1, sqrt
from tati_re.core.protocol import Info, Rung, with_energy
from tati_re.samplers import thermostat
from tati_re.samplers.wrappers.coordinates import extend

ALIASES = {"GLA1": "BAO", "GLA2": "BABO", "mCCAdL": "BACDODCAB"}
LETTERS = {"A": "drift", "B": "kick", "O": "Ornstein-Uhlenbeck", "U": "drift and bath together"}
LETTERS |= {"C": "damping by the covariance", "D": "thermostat"}
FIRST_RATE = 0.125
"""The friction that is found in the burn-in, in units of 1/h, at first."""
_DRIFT = re.compile("[AU]")
_ALIAS_OF = {name.upper(): name for name in ALIASES}


class LangevinState(NamedTuple):
    """Walkers with momenta.

    Attributes:
        position: θ, `(walkers, parameters)`.
        momentum: p, `(walkers, parameters)`.
        gradient: ∇U at its latest evaluation, `(walkers, parameters)`.
        potential: The potential U = λ L + V, `(walkers,)`, float64.
        loss: The mean loss over the examples, `(walkers,)`, float64.
        log_prior: -V, the log density of the prior, `(walkers,)`, float64.
        rung: The temperature and step size of each walker.
    """

    position: Any
    momentum: Any
    gradient: Any
    potential: Any
    loss: Any
    log_prior: Any
    rung: Rung


def with_momenta(position, energy_at: Callable, rung: Rung, noise) -> LangevinState:
    """The state at a position, with momenta from N(0, T).

    Args:
        position: Positions, shape (walkers, parameters).
        energy_at: Computes the `Energy` at positions: an evaluation, or its `full`.
        rung: Temperature and step size of each walker.
        noise: Random numbers of this step; one normal number per parameter is drawn.
    """
    momentum = sqrt(column(rung.temperature, position)) * noise.normal(position.shape)
    energy = energy_at(position)
    return LangevinState(
        position, momentum, energy.gradient, energy.potential, energy.loss, energy.log_prior, rung
    )


def expand(word: str) -> str:
    """The word in capitals; for an alias, what it stands for."""
    return ALIASES[_ALIAS_OF[word.upper()]] if word.upper() in _ALIAS_OF else word.upper()


@front_door
def parse_word(word: str) -> str:
    """Returns a splitting word in capitals, with aliases expanded.

    Args:
        word: Letters A, B, O, C, D, or U in place of A and O, in any order and case; or GLA1, GLA2,
            mCCAdL.

    Returns:
        The word in capitals.

    Raises:
        InputError: The word does not define a sampler; the message says why.
    """
    letters = expand(word)
    unknown = sorted(set(letters) - set(LETTERS))
    if unknown or not letters:
        which = (
            f"contains unknown letters {', '.join(map(repr, unknown))}"
            if unknown
            else "needs letters"
        )
        raise InputError(
            f"sampler: a splitting word {which}.",
            received=repr(word),
            expected="letters A (drift), B (kick), O (Ornstein-Uhlenbeck), U (A and O), D "
            "(thermostat) and C (damping by covariance), such as BAOAB, UBU or BADODAB",
        )
    bath = "no heat bath sets the temperature (HMC is the method without a bath)"
    if "D" in letters:
        bath = "nothing uses the friction that the thermostat D adapts"
    elif "C" in letters:
        bath = "nothing heats what C damps"
    lost = {"A": "the parameters do not move", "B": "the potential has no effect", "O": bath}
    for letter, why in lost.items():
        if letter not in letters and not ("U" in letters and letter in "AO"):
            expected = "each of A, B, O at least once, or B and U"
            raise InputError(f"sampler: without {letter} {why}.", repr(word), expected)
    if "U" in letters and (second := set(letters) & set("AO")):
        problem = (
            f"sampler: U combines drift and bath, so {' and '.join(sorted(second))} would "
            "repeat it."
        )
        raise InputError(problem, repr(word), "U, or A and O, such as UBU or BAOAB")
    if twice := re.search(r"(.)\1", letters):
        problem = (
            f"sampler: {twice[0]} applies {twice[1]} twice in a row; a single {twice[1]} does "
            "the same."
        )
        raise InputError(problem, repr(word), re.sub(r"(.)\1+", r"\1", letters))
    return letters


class Splitting(Method):
    """Langevin dynamics integrated by a splitting word.

    Targets exp(-β U) p(momentum), up to a bias that falls with the step size: order h² for
    palindromes (BAOAB, ABOBA, OBABO, UBU) and their cyclic shifts (BABO = GLA2), order h for others
    (BAO = GLA1). On a harmonic well of frequency ω BAOAB has the exact variance of the positions at
    every stable step, while its kinetic temperature is too low by the factor 1 - h²ω²/4. Stable
    while hω < 2 (BAO: h²ω² < 2 (1 + exp(-γh))). Mini-batch noise of gradient variance s² heats by
    about h s²/(2γT) if it is independent in every step, and less in shuffled epochs.

    A word with D (BADODAB) keeps the temperature under gradient noise of one constant, unknown
    variance Σ: ξ is N(γ + hΣ/(2T), T/μ). A word with C damps the noise of each parameter by its
    local variance; with D as well (mCCAdL = BACDODCAB), ξ controls the rest. The variance estimate
    of a mini-batch is correlated with its noise, so it must not damp the same noise. C uses the
    variance of the last mini-batch for the momentum before its kick, and the variance of the step
    before for the kick itself. The state of such words has the further fields `thermostat`, ξ,
    `(walkers,)`, float64, and `gradient_variance` and `variance_before`, Σ of these two
    mini-batches, `(walkers, parameters)`, alike at the start.

    Rule: the letters of the word from left to right, see the module. One gradient per step for the
    words above; it is reused in the next step if the word begins and ends at the same position. C
    also costs half a gradient where all parameters belong to dense layers in a row, for other
    networks the gradients of the single examples of a mini-batch. Source: Leimkuhler and Matthews,
    Appl. Math. Res. Express 2013(1), 34-56; J. Chem. Phys. 138, 174102 (2013). BADODAB: Leimkuhler
    and Shang, SIAM J. Sci. Comput. 38, A712-A736 (2016). mCCAdL: after Wei and Shang (2025), who
    approximate C by a Taylor series; here Σ is diagonal and C exact, and the order of the letters
    is ours.

    Args:
        word: The splitting word, or GLA1, GLA2, mCCAdL. Default: BAOAB.
        friction: γ, the rate of the O step, 1/time, above 0, or "auto": the burn-in tunes it, and
            stores it in the state (not with D). With D it is the initial ξ, and γT is the strength
            of the bath noise. Default: 1.
        thermal_mass: μ of D, above 0; ξ adapts faster for a smaller mass. Default: None, the number
            of parameters.
        bath_noise: With D: C of the bath noise sqrt(2 C) dW, the same at all temperatures of a
            ladder, as published for replica-exchange Nosé-Hoover dynamics. ξ then starts at C/T.
            Default: None, γT with the same friction.

    Raises:
        InputError: The word is not a method, the friction or thermal mass is not above 0, or a
            thermal mass is given without D.

    Examples:
        >>> Splitting("obabo", friction=2.0).word
        'OBABO'
    """

    has_momentum = True

    @front_door
    def __init__(
        self,
        word: str = "BAOAB",
        friction: float | str = 1.0,
        thermal_mass: float | None = None,
        bath_noise: float | None = None,
    ) -> None:
        self.word = parse_word(word)
        self.finds_friction = friction == "auto" and "D" not in self.word
        if not self.finds_friction and (isinstance(friction, str) or not friction > 0):
            raise InputError(
                "friction: a Langevin sampler needs a heat bath.", friction, "a number above 0"
            )
        self.adapts = self.finds_friction or self.adapts
        self.friction: Any = friction if isinstance(friction, str) else float(friction)
        self.thermostatted = "D" in self.word
        self.damped = "C" in self.word
        self.subtracts_noise = self.damped
        self.thermal_mass = thermostat.checked_mass(thermal_mass)
        self.bath_noise = None if bath_noise is None else float(bath_noise)
        if bath_noise is not None and not (self.thermostatted and bath_noise > 0):
            problem = "bath_noise: the noise of a bath with a thermostat."
            raise InputError(
                problem,
                f"{bath_noise} in {word}",
                "a number above 0 in a word with D, such as BADODAB",
            )
        bath_names = ("friction",) if self.finds_friction else ()
        self.shown = self.of_rung = ("thermostat",) if self.thermostatted else bath_names
        if self.damped:
            self.against_noise = thermostat.DAMPS
        elif self.thermostatted:
            self.against_noise = thermostat.THERMOSTATS
        if thermal_mass is not None and not self.thermostatted:
            raise InputError(
                "thermal_mass: this word has no thermostat.", word, "a word with D, such as BADODAB"
            )
        self.dynamics = Dynamics(
            # Cyclic shifts of palindromes are of second order.
            first_order=self.word[::-1] not in 2 * self.word,
            needs_heat=self.damped or bath_noise is not None,
            finds_length=self.finds_friction,
        )
        self.name = _ALIAS_OF.get(word.upper(), word.upper())
        self.fraction = {letter: 1.0 / times for letter, times in Counter(self.word).items()}
        # The gradient at the end of a step serves the next one where that one kicks before it
        # drifts.
        self._carries = not _DRIFT.search(self.word[: self.word.index("B")])
        self.current = self._carries or not _DRIFT.search(self.word[self.word.rindex("B") :])
        count, self._kicked = self._counted()
        self.gradients_per_step = float(count)

    def _counted(self) -> tuple[int, float]:
        """Gradients of a step, and the share of its kicks from the first gradient of its own
        mini-batch on.
        """
        fresh = self._carries
        count = 0
        kicked = 0.0
        for letter in self.word:
            if letter in "AU":
                fresh = False
            elif letter == "B":
                fresh, count = True, count + (not fresh)
                kicked += self.fraction["B"] if count else 0.0
        return count + (self._carries and not fresh), kicked

    def init(self, position, evaluate, noise) -> LangevinState:
        """Starts with momenta from N(0, T) and the gradient at the positions; ξ = γ.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        state = with_momenta(position, evaluate, evaluate.rung, noise)
        if self.thermostatted:
            state = extend(
                state,
                thermostat=thermostat.first_thermostat(self._bath(evaluate.rung), state.potential),
            )
        if self.finds_friction:
            state = extend(state, friction=FIRST_RATE / evaluate.rung.step_size)
        if self.damped:
            variance = evaluate.gradient_variance(position)
            state = extend(state, gradient_variance=variance, variance_before=variance)
        return state

    def step(self, state: LangevinState, evaluate, noise) -> tuple[LangevinState, Info]:
        fresh = self._carries
        first = True
        step_size = column(state.rung.step_size, state.position)
        # What the kicks of the last mini-batch have left in the momentum.
        batch_kick = -self._kicked * step_size * state.gradient if self.damped else 0.0
        for letter in self.word:
            t = self.fraction[letter] * step_size
            if letter == "A":
                state = drift(state, evaluate, t)
                fresh = False
            elif letter == "B":
                if not fresh:
                    state = evaluated(state, evaluate, first)
                    batch_kick = 0.0 if first else batch_kick
                    fresh = True
                    first = False
                state = kick(state, t)
                batch_kick = batch_kick - t * state.gradient if self.damped else 0.0
            elif letter == "C":
                state, batch_kick = thermostat.damp(
                    state, self.fraction["C"] * state.rung.step_size, batch_kick
                )
            elif letter == "D":
                state = thermostat.heat_up(
                    state, self.fraction["D"] * state.rung.step_size, self.thermal_mass
                )
            else:
                state, batch_kick = self._in_bath(letter, state, evaluate, noise, batch_kick)
                fresh = fresh and letter == "O"
        if self._carries and not fresh:
            state = evaluated(state, evaluate, first)
        return state, Info()

    def _in_bath(self, letter: str, state, evaluate, noise, batch_kick):
        """O or U, at the friction or with the thermostat."""
        time = self.fraction[letter] * state.rung.step_size
        if self.thermostatted:
            rate = state.thermostat
        else:
            rate = state.friction if self.finds_friction else self.friction
        batch_kick = (
            column(exp(-rate * time), state.momentum) * batch_kick if self.damped else batch_kick
        )
        if letter == "U":
            bath = rate if self.finds_friction else self._bath(state.rung)
            return thermostat.drift_in_bath(state, evaluate, noise, bath, rate, time), batch_kick
        if self.thermostatted:
            return thermostat.thermostatted_bath(
                state, noise, self._bath(state.rung), time
            ), batch_kick
        turned = (
            column(rate * time, state.momentum)
            if self.finds_friction
            else self.friction * column(time, state.momentum)
        )
        return ornstein_uhlenbeck(state, noise, turned), batch_kick

    def _bath(self, rung: Rung):
        """The friction at which the bath alone keeps the temperature: γ, or C/T of each walker."""
        return (
            self.friction if self.bath_noise is None else self.bath_noise * rung.inverse_temperature
        )

    def at_friction(self, friction: float) -> "Splitting":
        return Splitting(self.word, friction)

    def get_config(self) -> dict:
        config = {"sampler": self.name, "friction": self.friction}
        if self.bath_noise is not None:
            config["bath_noise"] = self.bath_noise
        return {**config, "thermal_mass": self.thermal_mass} if self.thermostatted else config


def evaluated(state, evaluate, first: bool = True):
    """The state with potential and gradient at its position.

    Where the state has the field, the variance of the gradient is computed too.

    Args:
        state: A state; the fields `gradient_variance` and `variance_before` are optional.
        evaluate: Computes U and its gradient on the mini-batch of the step.
        first: Whether this gradient is the first of its mini-batch. `variance_before` then becomes
            the variance of the step before. Default: True.
    """
    if "gradient_variance" not in state._fields:
        return with_energy(state, evaluate(state.position))
    energy, variance = evaluate.with_variance(state.position)
    before = state.gradient_variance if first else state.variance_before
    return with_energy(state._replace(gradient_variance=variance, variance_before=before), energy)


def drift(state, evaluate, t):
    """A(t): θ <- θ + t p.

    Args:
        state: The state before.
        evaluate: Reflects at the walls of the prior; None for a drift without walls.
        t: Time of the drift, shape (walkers, 1).
    """
    position = state.position + t * state.momentum
    momentum = state.momentum
    if evaluate is not None:
        position, momentum = evaluate.confine(position, momentum)
    return state._replace(position=position, momentum=momentum)


def kick(state, t):
    """B(t): p <- p - t ∇U(θ).

    Args:
        state: The state before, with the gradient at its position.
        t: Time of the kick, shape (walkers, 1).
    """
    return state._replace(momentum=state.momentum - t * state.gradient)


def ornstein_uhlenbeck(state, noise, friction_time):
    """O(t): p <- c p + sqrt((1 - c²) T) R with c = exp(-γ t).

    Args:
        state: The state before.
        noise: Random numbers of this step; one normal number per parameter is drawn.
        friction_time: γ t, shape (walkers, 1).
    """
    spread = sqrt(-expm1(-2.0 * friction_time) * column(state.rung.temperature, state.position))
    return state._replace(
        momentum=exp(-friction_time) * state.momentum + spread * noise.normal(state.position.shape)
    )
