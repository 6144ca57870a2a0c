"""The heating of a run by the noise of its mini-batches: expected, limited in the burn-in, and said."""

from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.facets import temperatures_of, turns_of
from tati_re.engine.loop import Carry
from tati_re.engine.progress import Progress
from tati_re.launch.heating import (
    ROOM,
    cool_enough,
    expected_heating,
    heating_sentence,
    heating_warning,
    settings_of,
)
from tati_re.launch.loops import RunLoops
from tati_re.launch.request import Request
from tati_re.samplers.wrappers.metered import SETTLED, UNLIMITED


class RunHeating:
    """The heating by mini-batches around the walkers of a run.

    Args:
        request: The request of the run.
        loops: Its loops; noise is limited in the last one.
        has_chains: Whether the run takes steps at all.
    """

    def __init__(self, request: Request, loops: RunLoops, has_chains: bool) -> None:
        self._request = request
        self._has_chains = has_chains
        self._loop = loops.loops[-1]

    def limit(self) -> None:
        """Limits the heating at the steps of the burn-in at which what it tunes has settled."""
        self._loop.cools = self._cooled
        self._loop.cools_after = [int(step) for step in SETTLED]

    @property
    def is_there(self) -> bool:
        """Whether the steps of a sampler see mini-batches."""
        sees_part = self._request.samples and not self._request.potential.batches.full
        return sees_part and self._has_chains

    @property
    def is_tuned(self) -> bool:
        """Whether the burn-in finds a step size or friction for steps that see mini-batches."""
        options = self._request.options
        method = self._request.method
        tuned = isinstance(options.step_size, str) or options.friction == "auto"
        return self.is_there and tuned and method.adapts and turns_of(method).groups == 1

    def expected(self, carry: Carry) -> dict[str, Any]:
        """The heating expected around the target's first walker, as an entry of the manifest.

        Args:
            carry: The state of the run.
        """
        return expected_heating(self._request, *self._targets(carry)[0])

    def say(self, heating: dict[str, Any], progress: Progress) -> None:
        """Says what heating is expected, and warns if it is too large.

        Args:
            heating: As of `expected`.
            progress: Where it is said.
        """
        options = self._request.options
        progress.detail(heating_sentence(heating, options.batch_sampling))
        if warning := heating_warning(heating, options.target_bias, self.is_tuned):
            progress.message(warning)

    def _targets(self, carry: Carry) -> list[tuple[np.ndarray, tuple, dict[str, Any]]]:
        """Position and auxiliary variables of the target's first walker, and what it found; at one
        temperature of the first one of each block, which tunes for itself.
        """
        method = self._request.method
        ladder = temperatures_of(method)
        states = self._loop.states(carry)
        size = self._request.copies // len(states)
        position = np.array(carry.state.position)
        firsts = (
            [int(np.asarray(ladder.order(carry.state))[0])]
            if ladder.by_rung
            else range(0, len(position), size)
        )
        auxiliary = [
            tuple(np.array(value)[[first]] for value in carry.auxiliary) for first in firsts
        ]
        settings = [settings_of(method, states[first // size], first % size) for first in firsts]
        return list(zip(position[firsts], auxiliary, settings, strict=True))

    def _cooled(self, carry: Carry, last: int) -> Carry:
        """After a move of the burn-in: noise heats no more than it may, at all rungs alike, now and
        until next time.
        """
        burning = last < self._loop.timeline.num_burnin_steps
        factors_by_target = [
            cool_enough(self._request, *target, ROOM if burning else 1.0)
            for target in self._targets(carry)
        ]
        fields = carry.state._asdict()

        def of_walkers(name: str, unchanged: float) -> np.ndarray:
            return np.repeat(
                [factors.get(name, unchanged) for factors in factors_by_target],
                self._request.copies // len(factors_by_target),
            )

        tuned = [name for name in ("friction", "step_factor") if name in fields]
        changed: dict[str, Any] = {name: fields[name] * of_walkers(name, 1.0) for name in tuned}
        if "step_limit" in fields:
            limit = fields["step_factor"] * of_walkers("step_limit", np.inf)
            changed["step_limit"] = tf.where(tf.math.is_finite(limit), limit, UNLIMITED)
        if "raised" in fields:
            changed["raised"] = fields["raised"] * 0.0 + of_walkers("friction", 1.0)
        return carry._replace(state=carry.state._replace(**changed))
