"""Methods of this package: the posterior, and a deep ensemble of the same networks."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.prediction.budget import Budget, clock_of_processor
from benchmarks.prediction.cases import Case
from benchmarks.prediction.scores import Predicted
from tati_re.options.table import OPTIONS

HIDDEN = [16, 16]
MEMBERS = 8
_FIT_STEPS = 2_000
_STEPS_A_SECOND = 100
_MOST_STEPS = 20_000
_BURNIN_SHARE = 0.8
_TIME_SHARE = 0.85
"""Of the budget for fits and sampling; the rest predicts."""

_ENSEMBLE_STEPS = 4_000
_SNAPSHOTS = 20
_VALIDATION_SHARE = 0.1
_LEARNING_RATE = 0.01


def has_goal() -> bool:
    """Whether the package has runs for prediction, `goal="predict"`."""
    return "goal" in OPTIONS


def _system(case: Case, inputs: np.ndarray, targets: np.ndarray, **options: Any) -> Any:
    import tati_re

    values = targets if not case.num_classes else targets.astype(int)
    return tati_re.Simulation(
        data=(inputs, values),
        num_classes=case.num_classes,
        test_fraction=0.0,
        seed=case.split + 1,
        verbose=0,
        **options,
    )


def _predicted(run: Any, case: Case) -> Predicted:
    return Predicted(run.predict(case.test_inputs, _test_labels(case)))


def _test_labels(case: Case) -> np.ndarray:
    """The labels of the test rows: class numbers are integers."""
    return case.test_targets.astype(int) if case.num_classes else case.test_targets


def _averaged(network: Any, members: list[np.ndarray], case: Case) -> tuple[Predicted, int]:
    """The prediction of an ensemble, and how many members it has.

    Args:
        network: The network of all members.
        members: Groups of members, shape (fits, P) each.
        case: The rows to predict.
    """
    from tati_re.prediction.averaging import average
    from tati_re.prediction.draws import Members

    vectors = np.concatenate(members)
    found = average([(network, Members(vectors))], case.test_inputs, _test_labels(case))
    return Predicted(found), len(vectors)


def _loss_of(case: Case) -> dict[str, Any]:
    return {} if case.num_classes else {"loss": "heteroscedastic_gaussian"}


def for_prediction(case: Case, budget: Budget) -> tuple[Predicted, int]:
    """A run with `goal="predict"` and nothing else named."""
    simulation = _system(case, case.inputs, case.targets)
    with clock_of_processor():
        run = simulation.sample(goal="predict", max_time=_TIME_SHARE * budget.seconds)
    found = _predicted(run, case)
    return found, found.prediction.num_draws


def by_hand(case: Case, budget: Budget) -> tuple[Predicted, int]:
    """Eight members and a MILE chain from each: two layers of 16, mean and spread, prior N(0, 1)."""
    steps = int(min(_MOST_STEPS, _STEPS_A_SECOND * budget.seconds))
    simulation = _system(
        case, case.inputs, case.targets, hidden=HIDDEN, activation="tanh", **_loss_of(case)
    )
    with clock_of_processor():
        run = simulation.sample(
            preset="MILE",
            fit_steps=_FIT_STEPS,
            num_steps=steps,
            num_burnin_steps=int(_BURNIN_SHARE * steps),
            max_time=_TIME_SHARE * budget.seconds,
        )
    found = _predicted(run, case)
    return found, found.prediction.num_draws


def deep_ensemble(case: Case, budget: Budget) -> tuple[Predicted, int]:
    """As many fits of the same networks as the budget allows, each stopped on validation rows.

    Each fit is kept at twenty steps; the one with the best density on a tenth of the training rows
    is the member. Groups of eight fits follow each other while there is time for one more.
    """
    order = np.random.default_rng(case.split).permutation(len(case.inputs))
    count = max(1, round(_VALIDATION_SHARE * len(order)))
    aside, rest = order[:count], order[count:]
    simulation = _system(
        case,
        case.inputs[rest],
        case.targets[rest],
        hidden=HIDDEN,
        activation="tanh",
        num_walkers=MEMBERS,
        walker_start="fresh",
        **_loss_of(case),
    )
    members: list[np.ndarray] = []
    took = 0.0
    network = None
    seed = 0
    while not members or budget.left > took:
        before = budget.used
        seed += 1
        network, stopped = _stopped_fits(simulation, case, aside, seed)
        members.append(stopped)
        took = budget.used - before
        simulation.parameters = _fresh(simulation, seed)
    return _averaged(network, members, case)


def mean_first_ensemble(case: Case, budget: Budget) -> tuple[Predicted, int]:
    """As many of the fits that a run for prediction begins with as the budget allows.

    The mean is fitted before the spread, under the likelihood of the default. Groups of eight fits,
    each stopped on a fifth of the training rows, follow each other while there is time for one
    more.
    """
    from tati_re.launch.member_fits import held_out_rows
    from tati_re.launch.predicting import HELD_OUT, MEMBER_STEPS, PredictionSetup
    from tati_re.launch.time_plan import TimePlan
    from tati_re.prediction.network import Network

    likelihood: dict[str, Any] = {"loss": "student_t", "degrees_of_freedom": 10.0}
    simulation = _system(
        case,
        case.inputs,
        case.targets,
        goal="predict",
        hidden=HIDDEN,
        activation="tanh",
        prior_std=1.0,
        **({} if case.num_classes else likelihood),
    )
    options = simulation.options
    plan = TimePlan(None, time.monotonic())
    maker = PredictionSetup(simulation, options, simulation.objects, plan).maker
    held_out = held_out_rows(simulation.system.dataset, HELD_OUT, options.seed)
    system = maker.held_out_system(simulation.system, held_out)
    fits = maker.fits(system, options, MEMBERS, xla=False)
    members: list[np.ndarray] = []
    took = 0.0
    with clock_of_processor():
        while not members or budget.left > took:
            before = budget.used
            end = time.monotonic() + budget.left
            drawn = len(members) * MEMBERS
            start = maker.start(system, options, MEMBERS, held_out, end, before=drawn)
            members.append(fits.run(start, MEMBER_STEPS, end).positions)
            took = budget.used - before

    return _averaged(Network(simulation.fit(num_steps=1)), members, case)


def _fresh(simulation: Any, seed: int) -> np.ndarray:
    """New starts of the walkers, from the law that `walker_start` fresh has."""
    from tati_re.launch.starts import fresh_starts

    flat = simulation.system.flat
    return fresh_starts(flat.tensor_names, flat.shapes, MEMBERS, 1_000 + seed)


def _stopped_fits(
    simulation: Any, case: Case, aside: np.ndarray, seed: int
) -> tuple[Any, np.ndarray]:
    """Network and parameters (fits, P) of fits at their best validation density."""
    from tati_re.prediction.network import Network
    from tati_re.runs.positions import Positions

    first = 3 * _ENSEMBLE_STEPS // 4
    run = simulation.fit(
        optimizer="Adam",
        stages=[
            {"num_steps": first, "learning_rate": _LEARNING_RATE},
            {"num_steps": _ENSEMBLE_STEPS - first, "learning_rate": _LEARNING_RATE / 10},
        ],
        batch_size=min(100, len(case.inputs) - len(aside)),
        trajectory_every=_ENSEMBLE_STEPS // _SNAPSHOTS,
        seed=seed,
    )
    network = Network(run)
    stored = Positions(run, burnin=0).read()
    outputs = network.outputs(stored.values, stored.walker, network.prepared(case.inputs[aside]))
    labels = case.targets[aside]
    if case.num_classes:
        labels = labels.astype(int)
    logs = network.predictive.log_likelihoods(outputs, network.prepared_targets(labels), labels)
    density = logs.mean(axis=1)
    best = []
    for walker in range(MEMBERS):
        rows = np.flatnonzero(stored.walker == walker)
        best.append(stored.values[rows[np.argmax(density[rows])]])
    return network, np.stack(best)


def quietly(method: Any) -> Any:
    """The method without the warnings of short runs: the table says how good they are."""

    def called(case: Case, budget: Budget) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return method(case, budget)

    return called
