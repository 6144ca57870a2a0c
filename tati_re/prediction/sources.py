"""What predicts: the network of a run, with its draws, its fits or the end points of a fit."""

from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.front_door import front_door
from tati_re.prediction.draws import ENDS, FITS, AnyDraws, Draws, DrawsAndFits, Members
from tati_re.prediction.network import Network, network_of
from tati_re.prediction.stacking import weigh
from tati_re.runs import checkpoint, files
from tati_re.runs.fits import read_fits
from tati_re.runs.run import RunFiles, last_step, stored_every
from tati_re.runs.selection import burnin_of

MOST_PREDICTIONS, FEWEST_DRAWS = 20_000_000, 2_000
"""Draws times inputs that a prediction takes where nobody says, and the draws that it takes of any
inputs: 40 seconds of one core, where all 41,000 draws of a run of two million steps took more than
six minutes for 4,000 inputs.
"""


@front_door
def source_of(
    run: RunFiles,
    rung: int = 0,
    burnin: int | None = None,
    thin: int | None = 1,
    model: Any = None,
    inputs: Any = (),
    weights: str | None = None,
) -> tuple[Network, AnyDraws]:
    """Returns the network of a run and the parameters for predictions.

    The parameters are the draws of the run, or the end points of a fit. For a run for prediction
    whose fits did better on held-out rows, they are its fits, alone or beside the draws.

    Args:
        run: The run.
        rung: The rung, on a ladder that stores all rungs. Default: 0, the target.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many draws; None keeps as many draws as 20,000,000 predictions of the
            inputs allow. Default: 1.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.
        inputs: The inputs; only their number is used, if `thin` is None. Default: none.
        weights: Weights of the chains, `"equal"` or `"stacking"`. Default: None, the run's option.

    Returns:
        The network and the parameters.

    Raises:
        InputError: The run predicts with its fits, and its folder lacks them.
    """
    network = network_of(run, model)
    if run.manifest.is_fit:
        return network, run.cached_result("members", lambda: _end_of_fit(run, network))
    by_default = (rung, burnin, weights) == (0, None, None)
    if run.manifest.prefers_fits and by_default:
        return network, run.cached_result("fits", lambda: _fits_of(run, network))
    if thin is None:
        thin = default_thin(run, _number_of(inputs, network), burnin)

    def drawn() -> Draws:
        draws = Draws(run, rung, burnin, thin)
        draws.cache()
        weigh(run, draws, weights, model)
        return draws

    chains = run.cached_result(("draws", rung, burnin, thin, weights, id(model)), drawn)
    if not (run.manifest.mixes_fits and by_default):
        return network, chains

    def beside() -> DrawsAndFits:
        return DrawsAndFits(chains, _fits_of(run, network))

    return network, run.cached_result(("both", thin, id(model)), beside)


def _number_of(inputs: Any, network: Network) -> int:
    """The number of rows of inputs; those of an array need no packing."""
    is_array = isinstance(inputs, np.ndarray) and inputs.ndim > 0 and len(inputs) > 0
    return len(inputs) if is_array else len(network.packed(inputs))


def default_thin(run: RunFiles, num_inputs: int, burnin: int | None = None) -> int:
    """Keep one in this many stored positions, for predictions of so many inputs.

    Args:
        run: The run.
        num_inputs: The number of inputs.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
    """
    most = max(FEWEST_DRAWS, MOST_PREDICTIONS // max(1, num_inputs))
    return max(1, _stored_draws(run, burnin) // most)


def draws_of_predictions(run: RunFiles, num_inputs: int) -> int:
    """About how many draws predictions of so many inputs average.

    Args:
        run: The run.
        num_inputs: The number of inputs.
    """
    return -(-_stored_draws(run, None) // default_thin(run, num_inputs))


def _stored_draws(run: RunFiles, burnin: int | None) -> int:
    return run.cached_result(("stored", burnin), lambda: _num_stored(run, burnin))


def _end_of_fit(run: RunFiles, network: Network) -> Members:
    """The places where the walkers of an optimization arrived."""
    arrays, _, _ = checkpoint.load(run.folder)
    positions = arrays.of_shape("state/position/0", (None, network.num_parameters))
    return Members(positions, np.arange(len(positions)), kind=ENDS)


def _fits_of(run: RunFiles, network: Network) -> Members:
    """The fits that a run predicts with."""
    fits = read_fits(run.folder)
    if fits is None or fits.positions.shape[1:] != (network.num_parameters,):
        raise InputError(
            f"{run.folder / files.MEMBERS} does not contain the fits of this run.",
            expected="the unmodified file; weights='equal' predicts with the chains",
        )
    return Members(fits.positions, np.arange(len(fits.positions)), kind=FITS)


def _num_stored(run: RunFiles, burnin: int | None) -> int:
    """About how many positions of all walkers the run stored after its burn-in."""
    first = burnin_of(run, burnin)
    steps = (last_step(run, first) - first) // (stored_every(run) or 1)
    return steps * run.manifest.options.num_walkers
