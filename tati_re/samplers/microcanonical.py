"""Microcanonical dynamics: momenta of fixed length, which the gradient turns.

With d parameters, g = ∇U, |p| = sqrt(d T) and the direction u = p/|p|, uniform on the sphere in
equilibrium,

    dθ = p dt,    du = -sqrt(d/T)/(d - 1) (1 - u u') g dt

keeps exp(-βU) without a bath, and U + K with dK = -g·dθ. It is split into exactly solved parts, and
a refreshment:

    B(t)  rotation  u <- e (1 - ζ)(1 + ζ + c (1 - ζ)) + 2ζ u, normalized;   e = -g/|g|, c = u·e,
                    ζ = exp(-δ), δ = t sqrt(d/T) |g|/(d - 1);   K <- K + T (d - 1)(δ + ln((1 + c + (1 - c) ζ²)/2))
    A(t)  drift     θ <- θ + t p
    O(t)  refresh   p <- exp(-γt) p + sqrt((1 - exp(-2γt)) T) R, normalized;   R ~ N(0, 1)

In the units of the papers, where the speed is 1, a step is h sqrt(d T) and the decoherence length
sqrt(d T)/γ.
"""

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import Dynamics
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import column, exp, log, maximum, minimum, sqrt, sum_of_products
from tati_re.core.protocol import Info, with_energy
from tati_re.samplers.splitting import FIRST_RATE, drift, ornstein_uhlenbeck, with_momenta
from tati_re.samplers.wrappers.coordinates import extend

_LEAST_ERROR = 0.1931833275037836
_ISOTROPIC = (3.0 - 3.0**0.5) / 6.0
INTEGRATORS = {
    "leapfrog": (0.5, 1.0, 0.5),
    "mclachlan": (_LEAST_ERROR, 0.5, 1.0 - 2.0 * _LEAST_ERROR, 0.5, _LEAST_ERROR),
    "isotropic": (_ISOTROPIC, 0.5, 1.0 - 2.0 * _ISOTROPIC, 0.5, _ISOTROPIC),
}
"""Shares of the step of B, A, B, ... The error of B A B A B with outer shares b is, to leading
order in h,

    h² ((1 - 6b + 6b²)/12 [B, [B, A]] + (1 - 6b)/24 [A, [A, B]]),

whose second commutator is u'Hu of the Hessian H, a constant where all directions are alike: with
momenta of fixed length the first one alone drifts there, and b = (3 - √3)/6 is without it.
McLachlan, SIAM J. Sci. Comput. 16, 151 (1995), has the least sum of both squares.
"""


def checked(integrator: str) -> str:
    refuse_if(
        integrator not in INTEGRATORS,
        "integrator: unknown value.",
        repr(integrator),
        " or ".join(INTEGRATORS),
    )
    return integrator


def check_dimension(num_parameters: int) -> None:
    problem = "sampler: a momentum of fixed length cannot turn in one dimension."
    refuse_if(
        num_parameters < 2, problem, "1 parameter", "2 or more, or a sampler such as HMC or BAOAB"
    )


def on_sphere(state):
    """The state with momenta of length sqrt(d T)."""
    length = sqrt(sum_of_products(state.momentum, state.momentum))
    radius = sqrt(state.position.shape[1] * state.rung.temperature)
    return state._replace(
        momentum=column(radius / maximum(length, 1e-300), state.momentum) * state.momentum
    )


def rotate(state, t):
    """B(t): turns the momentum towards the force.

    Args:
        state: The state before.
        t: Time of the rotation, shape (walkers,).

    Returns:
        The state after, with momenta of length sqrt(d T), and the change of K, (walkers,), float64.
    """
    d = state.position.shape[1]
    temperature = state.rung.temperature
    steep, speed = (sqrt(sum_of_products(v, v)) for v in (state.gradient, state.momentum))
    c = -sum_of_products(state.momentum, state.gradient) / maximum(steep * speed, 1e-300)
    # Straight against the force there is no plane to turn in.
    c = minimum(maximum(c, 1e-12 - 1.0), 1.0)
    delta = t * sqrt(d / temperature) * steep / (d - 1)
    zeta = exp(-delta)
    factor = 2.0 * zeta / maximum(speed, 1e-300)
    turned = (1.0 - zeta) * (1.0 + zeta + c * (1.0 - zeta)) / maximum(steep, 1e-300)
    momentum = (
        column(factor, state.momentum) * state.momentum
        - column(turned, state.momentum) * state.gradient
    )
    change = temperature * (d - 1) * (delta + log(0.5 * (1.0 + c + (1.0 - c) * zeta * zeta)))
    return on_sphere(state._replace(momentum=momentum)), change


def moved(state, evaluate, integrator: str, reflect: bool):
    """Makes one step B A B or B A B A B on all data.

    Args:
        state: The state before the step.
        evaluate: Computes U and its gradient on all data.
        integrator: A name of `INTEGRATORS`.
        reflect: Whether drifts turn around at the walls of the prior.

    Returns:
        The state after the step, and the change of K, shape (walkers,).
    """
    kinetic = 0.0 * state.potential
    for number, share in enumerate(INTEGRATORS[integrator]):
        t = share * state.rung.step_size
        if number % 2:
            state = drift(state, evaluate if reflect else None, column(t, state.position))
            state = with_energy(state, evaluate.full(state.position))
        else:
            state, change = rotate(state, t)
            kinetic = kinetic + change
    return state, kinetic


class MCLMC(Method):
    """Microcanonical Langevin dynamics: the gradient turns momenta of fixed length, refreshed at
    rate γ.

    Targets exp(-β U) up to a bias of order h². It needs all data in every step. Walls reflect. U moves
    freely at constant U + K. The energy error ΔE of a step of n gradients bounds the mean relative
    error β of variances, up to .08: E[ΔE²]/(n d T²) = 4β³/(1 + β)², of order h⁶.

    Rule: B A B ("leapfrog", 1 gradient) or B A B A B (2 gradients: "mclachlan" has the smallest
    error in general, "isotropic" an error of order h¹⁰ if all directions are equal). Then comes
    O(h), which merges the half refreshments of two successive steps. The module explains letters
    and shares.

    Mini-batch noise would turn momenta towards directions of weak noise. On a Gaussian, the
    variances of a noisy and a quiet half become 1.43 and 0.615. Source: Robnik et al., JMLR 24, 311
    (2023); Robnik and Seljak, PMLR 253 (2024).

    Args:
        friction: γ above 0, or "auto": the burn-in tunes it, and stores it in the state. Directions
            decorrelate within the time 1/γ. For parameters with standard deviation sqrt(T), the
            default is the published length sqrt(d). Default: 1.
        integrator: "leapfrog", "mclachlan", or "isotropic" for a target that its mass makes
            isotropic. Default: leapfrog.

    Raises:
        InputError: A value is out of range, or there is a single parameter.

    Examples:
        >>> MCLMC(integrator="mclachlan").gradients_per_step
        2.0
    """

    name = "MCLMC"
    has_momentum = full_batch = True
    settings = ("friction", "integrator")

    @front_door
    def __init__(self, friction: float | str = 1.0, integrator: str = "leapfrog") -> None:
        self.adapts = friction == "auto"
        self.dynamics = Dynamics(
            isokinetic=True, needs_heat=True, meters=True, finds_length=self.adapts
        )
        if not self.adapts and (isinstance(friction, str) or not friction > 0):
            raise InputError(
                "friction: momenta are not refreshed.",
                received=friction,
                expected="a number above 0, or auto",
            )
        self.friction = friction if isinstance(friction, str) else float(friction)
        self.integrator = checked(integrator)
        self.gradients_per_step = float(len(INTEGRATORS[integrator]) // 2)
        self.shown = self.of_rung = ("friction",) if self.adapts else ()

    def init(self, position, evaluate, noise):
        """Starts with momenta of fixed length in uniform directions.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.

        Raises:
            InputError: There is a single parameter.
        """
        check_dimension(position.shape[1])
        state = on_sphere(with_momenta(position, evaluate.full, evaluate.rung, noise))
        return (
            extend(state, friction=FIRST_RATE / evaluate.rung.step_size) if self.adapts else state
        )

    def step(self, state, evaluate, noise):
        new, kinetic = moved(state, evaluate, self.integrator, reflect=True)
        rate = state.friction if self.adapts else self.friction
        refreshed = ornstein_uhlenbeck(
            new, noise, column(rate * state.rung.step_size, state.position)
        )
        return on_sphere(refreshed), Info(energy_change=new.potential - state.potential + kinetic)
