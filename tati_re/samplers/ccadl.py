"""The covariance-controlled adaptive Langevin thermostat, as it was published: one explicit Euler
step.
"""

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import Dynamics
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import as_float64, as_type, column, maximum
from tati_re.core.protocol import Info, with_energy
from tati_re.samplers.sgnht import push, start
from tati_re.samplers.splitting import drift
from tati_re.samplers.thermostat import DAMPS, checked_mass, heat_up
from tati_re.samplers.wrappers.coordinates import extend


class CCAdL(Method):
    """Langevin dynamics with a thermostat, and friction that balances the mini-batch heating of
    each parameter.

    Targets exp(-β U) under gradient noise with a different variance for each parameter, up to a
    bias of order h: the positions have the temperature T (1 - s/2), s = hξ + h²Σ/(2T) the friction
    per step. The published average over all steps converges to the mean of Σ, so noise that depends
    on the position stays uncorrected. Average over one step, or use mCCAdL, which is also of second
    order.

    Rule:

        p <- p - h ∇U(θ) - (h²/(2T)) Σ p - h ξ p + sqrt(2 γ T h) R
        θ <- θ + h p
        Σ <- (1 - κ) Σ + κ V(θ),   κ = max(1/t, 1/w) at step t
        ξ <- ξ + h (p'p - P T) / μ

    with V the variance of each entry of this mini-batch's estimate of ∇U, N²/n times that of one
    example; the published Σ is the whole matrix. Batches are drawn with replacement, so the noise
    is independent in every step.

    Cost: one gradient, and half of one for the variance where all parameters belong to dense layers
    in a row; for other networks the gradients of the single examples of a mini-batch. Stable while
    hω < 2 and hξ + h²Σ/(2T) < 2. Source: Shang, Zhu, Leimkuhler and Storkey, NeurIPS 2015,
    algorithm 1 (there T = 1, μ = P and w without end).

    Args:
        friction: γ above 0, the initial ξ; γT is the strength of the added noise. Default: 1.
        thermal_mass: μ above 0. Default: the number of parameters, as published.
        covariance_window: w, the number of steps in the average of the variance; 1: no average.
            Default: None, all steps, as published.

    Examples:
        >>> CCAdL(covariance_window=1).get_config()
        {'sampler': 'CCAdL', 'friction': 1.0, 'thermal_mass': None, 'covariance_window': 1}
    """

    name = "CCAdL"
    has_momentum = subtracts_noise = True
    dynamics = Dynamics(first_order=True, needs_heat=True)
    shown = ("thermostat",)
    against_noise = DAMPS
    of_rung = ("thermostat", "gradient_variance")
    settings = ("friction", "thermal_mass", "covariance_window")

    @front_door
    def __init__(
        self,
        friction: float = 1.0,
        thermal_mass: float | None = None,
        covariance_window: int | None = None,
    ):
        problem = "friction must be positive: CCAdL injects noise of strength friction × T."
        refuse_if(
            isinstance(friction, str) or not friction > 0, problem, friction, "a number above 0"
        )
        if covariance_window is not None and not covariance_window >= 1:
            raise InputError(
                "covariance_window: empty.",
                received=covariance_window,
                expected="1 or more, or none",
            )
        self.friction = float(friction)
        self.thermal_mass = checked_mass(thermal_mass)
        self.covariance_window = covariance_window

    def init(self, position, evaluate, noise):
        """Starts with momenta from N(0, T), the gradient and its variance there, and ξ = γ.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        state = start(self.friction, position, evaluate, noise)
        return extend(state, gradient_variance=evaluate.gradient_variance(position))

    def step(self, state, evaluate, noise):
        time = column(state.rung.step_size, state.momentum)
        damping = column(
            0.5 * state.rung.step_size * state.rung.inverse_temperature, state.momentum
        )
        rate = column(state.thermostat, state.momentum) + damping * state.gradient_variance
        state = drift(push(state, noise, self.friction, rate), evaluate, time)
        energy, variance = evaluate.with_variance(state.position)
        gain = 1.0 / maximum(as_float64(evaluate.clock.step), as_float64(1.0))
        if self.covariance_window is not None:
            gain = maximum(gain, as_float64(1.0 / self.covariance_window))
        gain = as_type(gain, variance)
        averaged = state.gradient_variance + gain * (variance - state.gradient_variance)
        state = with_energy(state._replace(gradient_variance=averaged), energy)
        return heat_up(state, state.rung.step_size, self.thermal_mass), Info()
