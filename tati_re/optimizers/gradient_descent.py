"""Plain gradient descent."""

from tati_re.core.method import Optimizer
from tati_re.core.ops import column
from tati_re.core.protocol import Info
from tati_re.samplers.sgld import SGLD


class GradientDescent(Optimizer):
    """Gradient descent θ <- θ - learning_rate ∇U/scale, on a mini-batch or on all data.

    Each step costs one gradient. The learning rate is the walkers' `step_size`. The scale is N, or
    1 under `potential="mean_loss"`.
    """

    name = "gradient_descent"

    init = SGLD.init

    def step(self, state, evaluate, noise):
        rate = column(state.rung.step_size, state.position) / evaluate.scale
        position, _ = evaluate.confine(state.position - rate * state.gradient, None)
        return self.init(position, evaluate, noise), Info()
