"""The Metropolis test, the same for every method that has one."""

from tati_re.core.ops import exp, log, minimum, where
from tati_re.core.protocol import Info


def accept_or_keep(proposal, current, change, noise):
    """The proposal with probability min(1, exp(-β ΔH)), else the current state, for each walker.

    Args:
        proposal: The proposed state.
        current: The state that is kept on rejection; its rung has the β, and stays in either case.
        change: ΔH, shape (walkers,), float64; not a number means rejected.
        noise: Random numbers of this step; one uniform number per walker is drawn.

    Returns:
        The state, and the `Info` with acceptance probability and ΔH.
    """
    # A comparison with nan is false, so that a trajectory that blew up is rejected.
    accepted = (
        log(noise.uniform(current.potential.shape)) < -current.rung.inverse_temperature * change
    )
    pairs = zip(proposal[:-1], current[:-1], strict=True)
    column = accepted[:, None]
    chosen = [where(column if len(new.shape) == 2 else accepted, new, old) for new, old in pairs]
    rate = exp(minimum(-current.rung.inverse_temperature * change, 0.0 * change))
    rate = where(rate == rate, rate, 0.0 * current.potential)
    return type(current)(*chosen, rung=current.rung), Info(acceptance=rate, energy_change=change)
