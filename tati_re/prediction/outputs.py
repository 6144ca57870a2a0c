"""Outputs of a network by all draws, a block of them at a time."""

from typing import Any

import numpy as np

from tati_re.prediction.draws import AnyDraws
from tati_re.prediction.network import Network

BLOCK_DRAWS = 512
_PARAMETERS_AT_ONCE = 4_000_000
"""Numbers of all draws that go through the network in one call."""


def outputs_of_draws(
    network: Network, draws: AnyDraws, inputs: np.ndarray, block_draws: int = BLOCK_DRAWS
) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs of a network by all draws, a block of them at a time.

    Args:
        network: The network.
        draws: The draws.
        inputs: Inputs as `Network.prepared` returns them, shape (n, ...).
        block_draws: Draws in a block. Small networks take all at once. Default: 512.

    Returns:
        Outputs as `Network.outputs` returns them, in the network's number type, and extra parameters
        of shape (draws, numbers), or None.
    """
    # Small networks go through in one call, whose fixed cost is that of a hundred draws.
    few = len(draws) * network.num_parameters <= _PARAMETERS_AT_ONCE
    if few and draws.in_memory and not network.predictive.num_extra:
        return network.outputs_of_all(draws, inputs), None

    extra: list[Any] = []
    outputs = np.empty(0)
    for first, vectors in draws.blocks(block_draws):
        some_draws = slice(first, first + len(vectors))
        of_block = network.outputs(vectors, draws.walker[some_draws], inputs)
        if not first:
            outputs = np.empty((len(draws), *of_block.shape[1:]), of_block.dtype)
        outputs[some_draws] = of_block
        if network.predictive.num_extra:
            extra.append(network.extra(vectors))
    return outputs, np.concatenate(extra) if extra else None
