"""A sampler to copy: the Euler-Maruyama scheme of overdamped Langevin dynamics, complete and
working.

To have a sampler of your own:

1. Copy this file to any place, `my_file.py`, rename the class, and write the rule in its docstring
   before the code.
2. Run `tati_re.testing.check_sampler(MySampler)`: it tries the protocol and the distribution, and
   says what is wrong.
3. Sample: `sim.sample(sampler=MySampler())`, or `tati-sample --sampler my_file.py:MySampler`.

To add it to the package:

1. Move it to `samplers/<name>.py` and add one line to `FAMILIES` in `options/families.py`: the name
   as users type it, and the class. Its options are the parameters of the constructor that have the
   name of an option.
2. Run `tests/samplers/test_sampler_protocol.py`: it finds the class by itself. Then give the stationary
   distribution in closed form in `tests/scenarios.py` and test it beside the others in
   `tests/laws/test_sampler_law.py`, with a wrong variant that must fail.
"""

from tati_re.core.errors import refuse_if
from tati_re.core.method import Method

# Only arithmetic operators and these functions, so that one step runs on numpy, eagerly, as a graph
# and under XLA. Nothing here may read a file or a clock, keep a global, or change its inputs.
from tati_re.core.ops import column, sqrt
from tati_re.core.protocol import Info, State, with_energy


class Skeleton(Method):
    """Overdamped Langevin dynamics by the Euler-Maruyama scheme, with a mobility as its one tuning
    parameter.

    Targets exp(-β U) up to a bias of order h. On a harmonic well of stiffness k the variance is
    (T/k) / (1 - μhk/2). Stable while μhk < 2. One gradient per step.

    Rule:

        θ <- θ - μ h ∇U(θ) + sqrt(2 μ h T) R,   R ~ N(0, 1)

    Source: Maruyama, Rend. Circ. Mat. Palermo 4, 48-90 (1955); its linear case is a first-order
    autoregression.

    Args:
        mobility: μ above 0, multiplies the step size. Default: 1.

    Examples:
        >>> Skeleton(mobility=0.5).get_config()
        {'sampler': 'Skeleton', 'mobility': 0.5}
    """

    # `Method` answers all else that a run asks: whether the state has a `momentum`, whether `step`
    # returns an acceptance, what a step costs, ... Each answer whose default is wrong for a sampler
    # is an attribute here.
    name = "Skeleton"
    settings = ("mobility",)

    def __init__(self, mobility: float = 1.0) -> None:
        # Tuning parameters live here, not in the state; `not x > 0` also refuses nan.
        refuse_if(not mobility > 0, "mobility: nothing would move.", mobility, "a number above 0")
        self.mobility = float(mobility)

    def init(self, position, evaluate, noise) -> State:
        energy = evaluate(position)
        # A method that moves or adapts more than State holds has a NamedTuple of its own with
        # further fields (see LangevinState); they are checkpointed with the rest.
        return State(
            position,
            energy.gradient,
            energy.potential,
            energy.loss,
            energy.log_prior,
            evaluate.rung,
        )

    def step(self, state: State, evaluate, noise) -> tuple[State, Info]:
        """Makes one step; the gradient of the new position is kept for the next.

        Args:
            state: The state before the step.
            evaluate: Computes U and its gradient on the mini-batch of the step.
            noise: Random numbers of this step.

        Returns:
            The state after the step, and its `Info`.
        """
        # Rungs are float64 `(walkers,)`: `column` makes them `(walkers, 1)` in the type of the
        # parameters.
        time = self.mobility * column(state.rung.step_size, state.position)
        temperature = column(state.rung.temperature, state.position)
        # Each call of a step asks for the same numbers in the same order, outside of loops and
        # conditions.
        random = noise.normal(state.position.shape)
        position = state.position - time * state.gradient + sqrt(2.0 * time * temperature) * random
        # Whatever moves positions hands them to the prior's walls; the second value is the
        # momentum, if there is one.
        position, _ = evaluate.confine(position, None)
        return with_energy(state._replace(position=position), evaluate(position)), Info()
