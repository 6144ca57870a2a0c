"""Outputs of a network by all draws, a block of them at a time."""

from typing import Any

import numpy as np

from tati_re.prediction.draws import Draws, Members
from tati_re.prediction.network import Network

BLOCK_DRAWS = 512
_PARAMETERS_AT_ONCE = 4_000_000
"""Numbers of all draws that go through the network in one call."""


def outputs_of_draws(
    network: Network, draws: Draws | Members, inputs: np.ndarray, block_draws: int = BLOCK_DRAWS
) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs of all draws, as of `Network.outputs`, float64, and their extra parameters `(draws,
    numbers)`, None without any.
    """
    extra: list[Any] = []
    outputs = np.empty(
        (len(draws), len(inputs) * network.predictive.rows, network.predictive.num_outputs)
    )
    # Small networks go through in one call, whose fixed cost is that of a hundred draws.
    few = len(draws) * network.num_parameters <= _PARAMETERS_AT_ONCE
    if few and draws.in_memory and not network.predictive.num_extra:
        outputs[:] = network.outputs_of_all(draws, inputs)
        return outputs, None
    for first, vectors in draws.blocks(block_draws):
        some_draws = slice(first, first + len(vectors))
        outputs[some_draws] = network.outputs(vectors, draws.walker[some_draws], inputs)
        if network.predictive.num_extra:
            extra.append(network.extra(vectors))
    return outputs, np.concatenate(extra) if extra else None
