"""The potential with the bias of the walkers' rungs, and with exact energies beside the gradients of mini-batches."""

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.evaluate import Delegating, Energy, Rung
from tati_re.core.ops import column
from tati_re.exchange.well_tempered import Bias, bias_value, force_factor


class ExactEnergies(Delegating):
    """A mini-batch's gradient with the energies of all data, at the cost of a forward pass over them.

    What a bias makes of such energies is exact, and its force (1 + A'(U)) ∇U_b right on average.
    """

    def __init__(self, evaluate) -> None:
        super().__init__(evaluate)
        self.exact = True

    def __call__(self, position) -> Energy:
        loss, log_prior = self.mean_loss(position), self.log_prior(position)
        potential = self.rung.likelihood_weight * self.scale * loss - log_prior
        return Energy(potential, self.evaluate(position).gradient, loss, log_prior)

    def around(self, evaluate):
        return ExactEnergies(evaluate)


class Biased(Delegating):
    """U + A_r(U) in place of U, and the gradient (1 + A_r'(U)) ∇U; mean loss and log prior stay those of U."""

    def __init__(self, evaluate, bias: Bias, index) -> None:
        super().__init__(evaluate)
        self.bias, self.index = bias, index

    def _biased(self, energy: Energy) -> Energy:
        factor = force_factor(self.bias, energy.potential, self.index)
        return energy._replace(
            potential=energy.potential + bias_value(self.bias, energy.potential, self.index),
            gradient=column(factor, energy.gradient) * energy.gradient,
        )

    def __call__(self, position) -> Energy:
        return self._biased(self.evaluate(position))

    def full(self, position) -> Energy:
        return self._biased(self.evaluate.full(position))

    def gradient_variance(self, position):
        what = "bias: this sampler estimates the gradient's variance from single examples."
        raise InputError(what, expected="a sampler that does not, such as BAOAB or HMC")

    def at(self, rung: Rung):
        raise InputError("bias: this sampler changes temperatures by itself.", expected="such as BAOAB or HMC")

    def part(self, first, count: int):
        raise InputError("bias: this sampler moves a part of the walkers.", expected="such as BAOAB or HMC")


def bias_table(bias: Bias, inverse_temperature) -> dict:
    """The columns of bias.csv: A and the weight's exponent β A at the cells of each rung that hold a bias, NumPy."""
    heights, origin, width = (np.asarray(values) for values in bias[:3])
    beta = np.asarray(inverse_temperature)
    rung, cell = np.nonzero(heights > 0)
    return {
        "rung": rung,
        "energy": origin[rung] + cell * width[rung],
        "bias": heights[rung, cell],
        "log_weight": beta[rung] * heights[rung, cell],
    }
