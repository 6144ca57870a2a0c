"""The compiled part of a run: a loop for each stage, and what they have in common."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core.backend import quiet, tf
from tati_re.core.facets import temperatures_of, turns_of
from tati_re.distributed.block import BlockLoop
from tati_re.distributed.blocks import Blocks
from tati_re.distributed.processes import Failed
from tati_re.engine.limits import Limits
from tati_re.engine.loop import Carry, Loop
from tati_re.engine.observables import Observables
from tati_re.launch.request import Request
from tati_re.launch.workers import Workers, workers_of
from tati_re.options.stages import PlannedStage, planned
from tati_re.samplers import Rung
from tati_re.samplers.schedules import Factor, step_factor, temperature_factor


class RunLoops:
    """The loops of a run's stages.

    Args:
        request: The request of the run.
        execution: "xla", "graph" or "eager".
        say: Shows a sentence to the user. Default: `print`.

    Attributes:
        potential: The potential of the first stage.
        meaning: U in words.
    """

    def __init__(
        self, request: Request, execution: str, say: Callable[[str], None] = print
    ) -> None:
        self.request = request
        self.execution = execution
        self.workers: Workers | None = None
        if request.options.workers is not None and request.samples:
            self.workers = workers_of(request, execution, say, RunLoops)
        options = request.options
        potential = request.potential
        extra_columns = {**potential.columns, **(request.objects.get("observables") or {})}
        flat = request.system.flat
        sizes = dict(
            zip(flat.tensor_names, (math.prod(shape) for shape in flat.shapes), strict=True)
        )
        groups = sizes if options.group_temperatures else {}
        self.observables = Observables(
            method=request.method,
            metric_name=potential.metric_name,
            extra=extra_columns,
            full_every=options.full_every,
            groups=groups,
        )
        self.stages = [PlannedStage(0, options.num_steps, None, options.batch_size)]
        potentials = [potential]
        if options.stages and not request.samples:
            self.stages = planned(options)
            parts = [
                request.system.batches(options, stage.batch_size, k)
                for k, stage in enumerate(self.stages)
            ]
            potentials = [potential.with_batches(batches) for batches in parts]
        self.loops = [self._loop(*pair) for pair in zip(potentials, self.stages, strict=True)]
        self.potential = potentials[0]
        self.meaning = self.potential.describe(
            "the examples of each stage" if len(self.stages) > 1 else None
        )

    def _loop(self, potential, stage: PlannedStage) -> Loop:
        request = self.request
        options = self.request.options
        fits = np.inf, 1.0, self.rate(self.stages[0])
        values = (options.beta, 1.0, options.first_step_size) if request.samples else fits
        ladder = temperatures_of(request.method)
        if ladder.rungs is not None:
            values = tuple(column[0] for column in ladder.rungs)
        rung = Rung(
            *(tf.fill([potential.num_walkers], tf.constant(value, tf.float64)) for value in values)
        )
        loop_options: dict[str, Any] = {
            "first_step": stage.first_step,
            "num_recorded": options.num_walkers if options.trajectory_rungs == "target" else None,
            "num_steps": options.num_steps,
            "limits": self._limits(),
        }
        kind: Callable[..., Loop] = Loop
        if self.workers is not None:
            kind = Blocks
            loop_options["team"] = self.workers.team
            loop_options["size"] = self.workers.plan.block_size
            loop_options["replica_subset"] = self.workers.replica_subset
        elif ladder.stretch is not None:
            kind = BlockLoop
            at_target = options.trajectory_rungs == "target"
            loop_options["kept"] = ladder.at_target if at_target else ladder.in_all
            loop_options |= {"num_recorded": None, "num_steps": loop_options["num_steps"] + 1}

        step_factor, temperature_factor = self._schedules(stage)
        loop = kind(
            potential,
            request.method,
            self.observables,
            rung,
            options.run_seed,
            self.execution,
            record_every=request.record_every,
            trajectory_every=request.trajectory_every,
            num_burnin_steps=options.burnin if request.samples else 0,
            directions=request.directions,
            step_factor=step_factor,
            temperature_factor=temperature_factor,
            **loop_options,
        )
        loop.timeline.fewest_positions = request.fewest_positions
        return loop

    def _schedules(self, stage: PlannedStage) -> tuple[Factor | None, Factor | None]:
        """The factors of step size and temperature; of a fit in stages, of the rate of the first
        one.
        """
        if self.request.samples:
            schedules = (
                self.request.objects.get(name) for name in ("step_schedule", "temperature_schedule")
            )
            return step_factor(self.request.options, next(schedules)), temperature_factor(
                self.request.options, next(schedules)
            )
        factor = self.rate(stage) / self.rate(self.stages[0])
        return (lambda steps: np.full(len(steps), factor)) if len(self.stages) > 1 else None, None

    def _limits(self) -> Limits:
        """Those of the request; no chunk goes past a prediction, for its random bits are drawn as a
        whole.
        """
        limits = self.request.limits
        every = self.request.options.stream_predictions
        method = self.request.method
        stretch = temperatures_of(method).stretch
        if stretch is not None:
            # A stretch begins with the step before, and ends where replicas swap.
            rounds = stretch or limits.most_steps
            return replace(limits, most_steps=min(limits.most_steps, rounds + 1))
        return (
            limits
            if not every
            else replace(limits, most_steps=min(limits.most_steps, every * turns_of(method).groups))
        )

    def close(self) -> None:
        """Ends the workers, where there are any."""
        if self.workers is not None:
            self.workers.team.close()

    def rate(self, stage: PlannedStage) -> float:
        """The learning rate of a stage: its own, that of an optimizer object, or that of the
        options.
        """
        method: Any = self.request.method
        optimizer_rate = None if self.request.samples else method.learning_rate
        return next(
            rate
            for rate in (stage.learning_rate, optimizer_rate, self.request.options.learning_rate)
            if rate is not None
        )

    def compiles(self, carry: Carry) -> bool:
        """Compiles the steps without taking one; `False` where XLA refuses."""
        if self.execution == "eager":
            return True
        try:
            with quiet():
                for loop in self.loops:
                    loop.prepare(carry.state)
                    loop.run(carry, loop.first_step + 1, 0)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, Failed) as error:
            of_xla = not isinstance(error, Failed) or error.kind in (
                "InvalidArgumentError",
                "UnimplementedError",
            )
            if self.execution != "xla" or not of_xla:
                raise
            return False
        return True
