"""The stochastic gradient Nosé-Hoover thermostat, as it was published: one explicit Euler step."""

from tati_re.core.errors import refuse_if
from tati_re.core.facets import Dynamics
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import column, sqrt
from tati_re.core.protocol import Info
from tati_re.samplers.splitting import drift, evaluated, with_momenta
from tati_re.samplers.thermostat import THERMOSTATS, checked_mass, first_thermostat, heat_up
from tati_re.samplers.wrappers.coordinates import extend


class SGNHT(Method):
    """Langevin dynamics with a thermostat, by the published Euler scheme.

    BADODAB is the same dynamics without its bias.

    Targets exp(-β U) under gradient noise of one constant variance Σ, up to a bias of order h: the
    kinetic temperature is T, but positions under a stiff thermostat (many parameters) have T (1 -
    <s>/2), s = hξ the friction per step, about hγ + h²Σ/(2T). It is 5 % low at hγ = 0.1, which the
    kinetic energy does not show. For Σ that depends on θ: mCCAdL.

    Rule:

        p <- p - h ∇U(θ) - h ξ p + sqrt(2 γ T h) R
        θ <- θ + h p
        ξ <- ξ + h (p'p - P T) / μ

    One gradient per step. Stable while hω < 2 and hξ < 2. With v = h p, the published ε is h² and
    the published A is hγ; ξ fluctuates with the variance T/μ. Source: Ding et al., NeurIPS 2014,
    algorithm 2.

    Args:
        friction: γ above 0, the initial ξ; γT is the strength of the added noise. Default: 1.
        thermal_mass: μ above 0. Default: the number of parameters, as published.

    Examples:
        >>> SGNHT(friction=0.5).get_config()
        {'sampler': 'SGNHT', 'friction': 0.5, 'thermal_mass': None}
    """

    name = "SGNHT"
    has_momentum = True
    dynamics = Dynamics(first_order=True)
    shown = of_rung = ("thermostat",)
    against_noise = THERMOSTATS
    settings = ("friction", "thermal_mass")

    @front_door
    def __init__(self, friction: float = 1.0, thermal_mass: float | None = None) -> None:
        problem = "friction must be positive: SGNHT injects noise of strength friction × T."
        refuse_if(
            isinstance(friction, str) or not friction > 0, problem, friction, "a number above 0"
        )
        self.friction = float(friction)
        self.thermal_mass = checked_mass(thermal_mass)

    def init(self, position, evaluate, noise):
        """Starts with momenta from N(0, T), the gradient at the positions, and ξ = γ.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        return start(self.friction, position, evaluate, noise)

    def step(self, state, evaluate, noise):
        time = column(state.rung.step_size, state.momentum)
        state = push(state, noise, self.friction, column(state.thermostat, state.momentum))
        state = evaluated(drift(state, evaluate, time), evaluate)
        return heat_up(state, state.rung.step_size, self.thermal_mass), Info()


def start(friction: float, position, evaluate, noise):
    """The state at a position with momenta from N(0, T) and the field `thermostat`, ξ = γ.

    Args:
        friction: γ, above 0.
        position: Positions, shape (walkers, parameters).
        evaluate: Computes U and its gradient on the first mini-batch.
        noise: Random numbers of this step.
    """
    state = with_momenta(position, evaluate, evaluate.rung, noise)
    return extend(state, thermostat=first_thermostat(friction, state.potential))


def push(state, noise, friction: float, rate):
    """The state after p <- p - h ∇U - h rate p + sqrt(2 γ T h) R.

    Args:
        state: The state before.
        noise: Random numbers of this step; one normal number per parameter is drawn.
        friction: γ of the added noise.
        rate: The friction that acts, in 1/time, shape (walkers, 1) or (walkers, parameters).
    """
    time, temperature = (
        column(values, state.momentum) for values in (state.rung.step_size, state.rung.temperature)
    )
    spread = sqrt(2.0 * friction * time * temperature)
    random = noise.normal(state.momentum.shape)
    momentum = (
        state.momentum - time * state.gradient - time * rate * state.momentum + spread * random
    )
    return state._replace(momentum=momentum)
