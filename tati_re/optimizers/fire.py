"""Descent by molecular dynamics that restarts at rest whenever it goes uphill."""

from typing import Any, NamedTuple

from tati_re.core.errors import refuse_if
from tati_re.core.method import Optimizer
from tati_re.core.ops import column, minimum, where, zeros_like
from tati_re.core.protocol import Info, Rung, chosen, with_energy


class FireState(NamedTuple):
    """As `State`, with `velocity`, `(walkers, parameters)`, and the next `step_size`, `(walkers,)`,
    float64.
    """

    position: Any
    velocity: Any
    gradient: Any
    potential: Any
    loss: Any
    log_prior: Any
    step_size: Any
    rung: Rung


class Fire(Optimizer):
    """Velocity Verlet from rest that never lets U rise; it needs all data in every step.

    If U rises, the step is undone, the walker halts, and the step size shrinks.

    Targets the minimum of U.

    Rule, for each walker on its own, from v = 0, with the learning rate as the first time step t:

        v' = v - (t/2) ∇U(θ)/scale;  θ' = θ + t v';  v' <- v' - (t/2) ∇U(θ')/scale
        if U(θ') <= U(θ):  θ <- θ', v <- v', t <- t + increase * min(t, learning_rate)
        else (also where U is not finite):  θ stays, v <- 0, t <- decrease * t

    t is a time: near a minimum of curvature k of U/scale a step is stable below 2/sqrt(k). t grows
    to there from a smaller learning rate r in about 2 / (increase r sqrt(k)) steps, and shrinks
    from a larger one by 5 % a step. Cost: one gradient of all data per step. Source: the descent
    with which Baldock and Marzari (arXiv 1904.04154) start their walkers, where t <- t + 0.05; here
    the increment is relative to the first t, or the present one if smaller: no unit. Simpler than
    FIRE, Bitzek et al., Phys. Rev. Lett. 97, 170201 (2006), which also turns v towards the force.

    Args:
        increase: At least 0. Default: 0.05.
        decrease: In (0, 1). Default: 0.95.

    Examples:
        >>> Fire().get_config()["decrease"]
        0.95
    """

    name = "fire"
    full_batch = True
    settings = ("increase", "decrease")

    def __init__(self, increase: float = 0.05, decrease: float = 0.95) -> None:
        refuse_if(not increase >= 0, "fire: increase is out of range.", increase, "at least 0")
        refuse_if(
            not 0 < decrease < 1, "fire: decrease is out of range.", decrease, "above 0 and below 1"
        )
        self.increase = float(increase)
        self.decrease = float(decrease)

    def init(self, position, evaluate, noise) -> FireState:
        rung = evaluate.rung
        energy = evaluate.full(position)
        return FireState(
            position, zeros_like(position), **energy._asdict(), step_size=rung.step_size, rung=rung
        )

    def step(self, state: FireState, evaluate, noise) -> tuple[FireState, Info]:
        t = column(state.step_size, state.position)
        half = state.velocity - 0.5 * t / evaluate.scale * state.gradient
        position, half = evaluate.confine(state.position + t * half, half)
        energy = evaluate.full(position)
        velocity = half - 0.5 * t / evaluate.scale * energy.gradient
        # A comparison with nan is false, so that a step that blew up is taken back.
        falls = energy.potential <= state.potential
        least = minimum(state.step_size, state.rung.step_size)
        step_size = where(
            falls, state.step_size + self.increase * least, self.decrease * state.step_size
        )
        moved = with_energy(state, energy)._replace(position=position, velocity=velocity)
        fields = chosen(
            falls, moved, state._replace(velocity=zeros_like(velocity)), FireState._fields[:-2]
        )
        return FireState(**fields, step_size=step_size, rung=state.rung), Info()
