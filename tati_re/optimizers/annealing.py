"""Simulated annealing that stops where the validation loss rises."""

import math
from typing import Any, NamedTuple

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.method import Optimizer
from tati_re.core.ops import column, cond, sqrt, where, zeros_like
from tati_re.core.protocol import Info, chosen, fields_of
from tati_re.samplers.splitting import LangevinState, drift, evaluated, kick, ornstein_uhlenbeck
from tati_re.samplers.wrappers.coordinates import extend


class BestPosition(NamedTuple):
    """Each walker where its loss on the test set was lowest: `validation`, `(walkers,)`, float64,
    inf at first.
    """

    position: Any
    gradient: Any
    potential: Any
    loss: Any
    log_prior: Any
    temperature: Any
    validation: Any


class Annealing(Optimizer):
    """Langevin dynamics, cooled in stages until the loss on the test set rises.

    It then returns to the best parameters.

    Targets small U in a region of large volume, chosen by the test set. Scores on this set are then
    no longer an independent test. While it runs, a stage samples exp(-U/T).

    Rule, for each walker on its own, with h = sqrt(learning_rate/scale):

        BAOAB steps with time step h at temperature T; the O step keeps the part `momentum` of the
        momentum `validations` times in a stage, or more where they do not divide it, the last at
        its end: the validation loss, the mean loss on the test set; after `stage_steps` steps,
        with the average of the stage's validation losses:
            if it is not above that of the stage before:  T <- cooling * T
            else (also where it is not finite):  θ as it was at the lowest validation loss so far, momentum 0, stopped

    With this h the gradient moves θ by learning_rate ∇U/scale times (1 + momentum)/2 in a step. A
    stopped walker does not move in further steps. A run that ends before its walkers stop leaves
    them at their positions. Cost: one gradient per step, on a mini-batch or on all data, and the
    losses of the test set `validations` times a stage. A single validation loss scatters by about
    T sqrt(P/2)/N. Use many, or long stages, if P is small. Source: Baldock and Marzari (arXiv
    1904.04154), who cool until the average validation error rises and then take the parameters of
    the lowest; letters and word: Leimkuhler and Matthews (2013).

    Args:
        start_temperature: T of the first stage, above 0. Default: 1.
        cooling: Factor of T from stage to stage, in (0, 1). Default: 0.8.
        stage_steps: Steps of a stage, at least 1. Default: 100.
        validations: Validations per stage, at least 1; one after each step of a stage with fewer
            steps. Default: 10.
        momentum: c = exp(-γh) of the O step, in [0, 1). Default: 0, the limit of large friction.

    Raises:
        InputError: A value is out of range, or the data have no test set.

    Examples:
        >>> Annealing(cooling=0.5).temperature(3)
        0.25
    """

    name = "annealing"
    has_momentum = validates = True
    settings = ("start_temperature", "cooling", "stage_steps", "validations", "momentum")

    def __init__(
        self,
        start_temperature: float = 1.0,
        cooling: float = 0.8,
        stage_steps: int = 100,
        validations: int = 10,
        momentum: float = 0.0,
    ) -> None:
        if not start_temperature > 0:
            raise InputError(
                "annealing_start_temperature is out of range.", start_temperature, "above 0"
            )
        refuse_if(
            not 0 < cooling < 1,
            "annealing_cooling is out of range.",
            cooling,
            "above 0 and below 1",
        )
        refuse_if(stage_steps < 1, "annealing_stage_steps: too few.", stage_steps, "at least 1")
        refuse_if(validations < 1, "annealing_validations: too few.", validations, "at least 1")
        refuse_if(
            not 0 <= momentum < 1, "momentum is out of range.", momentum, "at least 0 and below 1"
        )
        self.start_temperature = float(start_temperature)
        self.cooling = float(cooling)
        self.stage_steps = int(stage_steps)
        self.validations = int(validations)
        self.momentum = float(momentum)
        self._every = max(1, self.stage_steps // self.validations)
        self._count = (self.stage_steps - 1) // self._every + 1
        self._friction_time = -math.log(momentum) if momentum > 0 else math.inf

    def temperature(self, stage: int) -> float:
        """Returns the temperature of a stage.

        Args:
            stage: Number of the stage, from 1.

        Returns:
            T.
        """
        return self.start_temperature * self.cooling ** (stage - 1)

    def init(self, position, evaluate, noise):
        """The state before the first step, with momenta from N(0, T) and the gradient there.

        Further entries are (walkers,) each. `temperature`, `validation_sum` of this stage and
        `last_validation`, the average of the last stage, are float64. `stopped` is bool.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of the momenta.
        """
        energy = evaluate(position)
        zeros = zeros_like(energy.potential)
        temperature = zeros + self.start_temperature
        momentum = sqrt(column(temperature, position)) * noise.normal(position.shape)
        state = LangevinState(position, momentum, **energy._asdict(), rung=evaluate.rung)
        best = BestPosition(
            position, **energy._asdict(), temperature=temperature, validation=zeros + math.inf
        )
        validations = {"validation_sum": zeros, "last_validation": zeros + math.inf}
        return extend(state, temperature=temperature, **validations, stopped=zeros > 0, best=best)

    def step(self, state, evaluate, noise):
        step_size = sqrt(state.rung.step_size / evaluate.scale)
        rung = state.rung._replace(inverse_temperature=1.0 / state.temperature, step_size=step_size)
        t = column(0.5 * step_size, state.position)
        moved = LangevinState(**fields_of(state, LangevinState._fields[:-1]), rung=rung)
        moved = drift(kick(moved, t), evaluate, t)
        moved = ornstein_uhlenbeck(moved, noise, 0.0 * t + self._friction_time)
        moved = drift(moved, evaluate, t)
        # Walkers that stopped are evaluated where they are: batch normalization then learns what
        # belongs there.
        moved = moved._replace(
            position=where(state.stopped[:, None], state.position, moved.position)
        )
        moved = kick(evaluated(moved, evaluate), t)
        state = state._replace(**chosen(state.stopped, state, moved, LangevinState._fields[:-1]))
        left = -evaluate.clock.step % self.stage_steps
        new = cond(
            left % self._every == 0,
            lambda: self._validated(state, evaluate, left == 0),
            lambda: state,
        )
        return new._replace(rung=state.rung), Info()

    def _validated(self, state, evaluate, ended):
        """The state after a validation; `ended` tells whether it is the last of its stage."""
        validation = evaluate.validation(state.position)
        running = ~state.stopped
        names = BestPosition._fields[:-1]
        now = BestPosition(**fields_of(state, names), validation=validation)
        improved = running & (validation <= state.best.validation)
        best = BestPosition(**chosen(improved, now, state.best, BestPosition._fields))
        total = state.validation_sum + validation
        average = total / self._count
        # A comparison with nan is false, so that a walker whose validation loss is not finite
        # stops.
        falls = average <= state.last_validation
        cools = ended & running & falls
        stops = ended & running & ~falls
        back = state._replace(**chosen(stops, best, state, names))
        momentum = where(stops[:, None], zeros_like(state.momentum), state.momentum)
        temperature = where(cools, self.cooling * state.temperature, back.temperature)
        sums = where(ended, zeros_like(total), total)
        last = where(cools, average, state.last_validation)
        back = back._replace(
            momentum=momentum, temperature=temperature, stopped=state.stopped | stops
        )
        return back._replace(validation_sum=sums, last_validation=last, best=best)
