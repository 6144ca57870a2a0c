"""The contract of methods: every answer is there with its type, a wrapper passes each one on, and
none is lost on the way to the files of a run.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.core.facets import (
    BurninTuning,
    Dynamics,
    Temperatures,
    Turns,
    temperatures_of,
    tuning_of,
    turns_of,
)
from tati_re.core.method import REQUIRED, Method, Optimizer, Wrapper, as_method, missing
from tati_re.distributed.replica_subset import ReplicaSubset
from tati_re.exchange.ladder import make_ladder
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.optimizers import KerasOptimizer
from tati_re.samplers import MALA, Splitting, StepSizeTuning
from tati_re.samplers.hmc import HamiltonianMonteCarlo
from tati_re.samplers.user_samplers import checked
from tati_re.samplers.wrappers.coordinates import extend, inner_of
from tati_re.samplers.wrappers.eqn import EnsembleQuasiNewton
from tati_re.samplers.wrappers.mass import Massive

ITS_OWN = {"used_options", "linear_part", "at_friction"}
"""What a wrapper answers by itself."""
DATA = sorted(Method.__annotations__)
FUNCTIONS = sorted(
    name for name, value in vars(Method).items() if inspect.isfunction(value) and name[0] != "_"
)


def method_classes() -> list[type[Method]]:
    """Every method of the package, by name."""
    found = {}
    for room in ("samplers", "optimizers", "exchange", "distributed", "evidence"):
        package = importlib.import_module(f"tati_re.{room}")
        for info in pkgutil.walk_packages(package.__path__, f"tati_re.{room}."):
            for name, value in vars(importlib.import_module(info.name)).items():
                if (
                    inspect.isclass(value)
                    and issubclass(value, Method)
                    and value.__module__ == info.name
                ):
                    found[name] = value
    return [found[name] for name in sorted(found)]


def made(cls: type[Method]) -> Method:
    if cls is KerasOptimizer:
        return KerasOptimizer("adam", 0.01, [(2,)], 1)
    if cls in (ReplicaExchange, ReplicaSubset):
        exchange = ReplicaExchange(Splitting("BAOAB"), make_ladder(temperatures=[1.0, 2.0]))
        return exchange if cls is ReplicaExchange else ReplicaSubset(exchange)
    return cls()


CLASSES = method_classes()


def test_the_methods_of_the_package_are_found():
    names = {cls.__name__ for cls in CLASSES}
    assert {"Splitting", "TactHMC", "Skeleton", "Fire", "KerasOptimizer", "ReferenceDraws"} <= names
    wrappers = {cls.__name__ for cls in CLASSES if issubclass(cls, Wrapper)}
    assert wrappers >= {"Massive", "ControlVariate", "StepSizeTuning", "SimulatedTempering"}
    assert wrappers >= {"EnsembleQuasiNewton", "ReplicaExchange"}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_answer_is_there_with_its_type(cls):
    method = made(cls)
    assert missing(method) == []
    kinds = typing.get_type_hints(Method) | (
        typing.get_type_hints(Optimizer) if isinstance(method, Optimizer) else {}
    )
    for name, kind in kinds.items():
        value = getattr(method, name)
        if kind == tuple[str, ...]:
            assert isinstance(value, tuple) and all(isinstance(each, str) for each in value), name
        elif kind is not typing.Any:
            assert isinstance(value, kind), f"{name} is {value!r}"
    ladder = temperatures_of(method)
    assert method.name and (ladder.event_every == 0 or ladder.event_columns)
    for name in FUNCTIONS:
        own = list(inspect.signature(getattr(method, name)).parameters)
        assert own == list(inspect.signature(getattr(Method(), name)).parameters), name


def test_every_answer_has_a_sentence():
    for kind in (Method, BurninTuning, Dynamics, Temperatures):
        described = inspect.getdoc(kind)
        lacking = [name for name in kind.__annotations__ if f"\n    {name}: " not in described]
        assert lacking == [], kind
    for kind in (Method, BurninTuning, Temperatures, Turns):
        functions = [value for value in vars(kind).values() if inspect.isfunction(value)]
        named = [value for value in functions if not value.__name__.startswith("_")]
        assert [value for value in named if not inspect.getdoc(value)] == []


def test_a_method_has_few_answers():
    """What only some methods have belongs to a facet."""
    facets = {"turns", "burnin", "ladder", "dynamics"}
    assert facets < set(DATA)
    assert len(set(DATA) - facets) <= 13


@pytest.mark.parametrize("name", sorted({*DATA} - {"turns"}))
def test_a_wrapper_gives_the_answer_of_the_method_inside(name):
    facets = {"burnin": BurninTuning, "ladder": Temperatures, "dynamics": Dynamics}
    answer = facets.get(name, object)()
    inside = type("Inside", (Method,), {name: answer})()
    assert getattr(Wrapper(Wrapper(inside)), name) is answer
    inside = Method()
    setattr(inside, name, answer)
    assert getattr(Wrapper(inside), name) is answer


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - ITS_OWN))
def test_a_wrapper_asks_the_method_inside(name):
    seen = []
    inside = type("Inside", (Method,), {name: lambda self, *given: (seen.append(given), name)[1]})()
    given = tuple(object() for _ in inspect.signature(getattr(Method(), name)).parameters)
    found = getattr(Wrapper(Wrapper(inside)), name)(*given)
    assert seen == [given] and found == name


def test_a_turn_of_a_wrapper_is_around_its_own_steps():
    """The turns of the ensemble inside would leave out what the wrapper adds to a step."""

    class Counts(Wrapper):
        def step(self, state, evaluate, noise):
            return ("counted", state), None

    turns = Counts(EnsembleQuasiNewton(Splitting("BAOAB"))).turns
    assert (turns.groups, turns.steps) == (2, 100)
    turn, _ = turns.move(turns.begin("state", None), None, None)
    assert turns.end("before", turn, None) == ("counted", "state")


class Flat(Method):
    """Answers by itself what belongs to facets, as methods did before there were facets."""

    name, groups, group_steps, renewals, finds_end = "Flat", 2, 5, (7,), True
    copies, by_rung, event_columns, event_every = 3, True, ("step",), 4
    isokinetic, acceptance, timed = True, 0.3, True

    def init(self, position, evaluate, noise):
        return position

    def step(self, state, evaluate, noise):
        return ("step", state), None

    def begin_turn(self, state, evaluate):
        return ("begin", state)

    def end_turn(self, state, turn, evaluate):
        return ("end", turn)

    def renewed(self, state):
        return ("renewed", state)

    def burnin_end(self, state):
        return 11

    def tuned(self, state):
        return "tuned"

    def order(self, state):
        return ("order", state)

    def tables(self, state):
        return {"ladder": {"a": [1]}}


class FlatWithout:
    """The same without the base class."""

    has_momentum, metropolis, full_batch, current, gradients_per_step = (
        *(False, False, False, True),
        1.0,
    )

    def get_config(self):
        return {"sampler": "Flat", "friction": 1.0}


for _name, _value in vars(Flat).items():
    if not _name.startswith("_"):
        setattr(FlatWithout, _name, _value)


@pytest.mark.parametrize("own", [Flat, FlatWithout])
def test_answers_without_facets_become_facets(own):
    """Samplers of others go on working."""
    method = as_method(own())
    assert isinstance(method, Method) and as_method(method) is method
    turns = turns_of(method)
    assert (turns.groups, turns.steps) == (2, 5)
    assert turns.begin("s", None) == ("begin", "s") and turns.end("s", "t", None) == ("end", "t")
    assert turns.move("t", None, None) == (("step", "t"), None)
    burnin = tuning_of(method)
    assert (burnin.renewals, burnin.finds_end, burnin.end("s")) == ((7,), True, 11)
    assert burnin.renewed("s") == ("renewed", "s") and burnin.tuned("s") == "tuned"
    assert burnin.shortened("s", 3) == "s"
    ladder = temperatures_of(method)
    assert (ladder.copies, ladder.by_rung, ladder.event_every) == (3, True, 4)
    assert ladder.order("s") == ("order", "s") and ladder.tables("s") == {"ladder": {"a": [1]}}
    dynamics = method.dynamics
    assert (dynamics.isokinetic, dynamics.acceptance, dynamics.timed) == (True, 0.3, True)
    assert tuning_of(Wrapper(own())).end("s") == 11


def test_what_is_called_like_a_facet_is_none():
    """A sampler may have had attributes of these names before there were facets."""
    own = Inheriting()
    own.burnin, own.turns, own.dynamics, own.ladder = 500, 3, "overdamped", None
    method = as_method(own)
    assert method.turns is method.burnin is method.ladder is None
    assert method.dynamics == Dynamics() and method.step == own.step


def test_columns_of_rungs_become_a_ladder():
    columns = ([1.0, 0.5], [1.0, 1.0], [0.1, 0.1])
    own = type("Own", (Flat,), {"ladder": columns})()
    assert temperatures_of(as_method(own)).rungs == columns


@pytest.mark.parametrize("own", [MALA(), KerasOptimizer("adam", 0.01, [(2,)], 1), Method()])
def test_a_method_without_facets_has_none(own):
    assert as_method(own) is own and own.turns is own.burnin is own.ladder is None
    assert (turns_of(own).groups, turns_of(own).steps) == (1, 1)
    assert tuning_of(own).renewals == () and tuning_of(own).end(None) is None
    assert temperatures_of(own).rungs is None and temperatures_of(own).copies == 1


# ---------------------------------------------------------------------------------------- samplers
# without a base class


class Plain:
    """MALA without the base class: an own Metropolis sampler with a field to show, and a weight."""

    name, has_momentum, metropolis, full_batch, current = "Plain", False, True, True, True
    gradients_per_step = 1.0
    shown, label_names = ("twice",), ("weight",)

    def __init__(self) -> None:
        self.inside = MALA()

    def init(self, position, evaluate, noise):
        state = self.inside.init(position, evaluate, noise)
        return extend(state, twice=2.0 * state.potential)

    def step(self, state, evaluate, noise):
        new, info = self.inside.step(inner_of(state), evaluate, noise)
        return extend(new, twice=2.0 * new.potential), info

    def labels(self, state):
        """A weight that differs from row to row."""
        return {"weight": state.potential}

    def get_config(self):
        return {"sampler": self.name}


class Inheriting(Method):
    """The same with the base class."""

    name, metropolis, full_batch = Plain.name, True, True
    shown, label_names = Plain.shown, Plain.label_names
    __init__, init, step, labels = Plain.__init__, Plain.init, Plain.step, Plain.labels


def test_a_sampler_without_a_base_class_gets_the_defaults_and_keeps_its_answers():
    plain = Plain()
    method = checked(plain)
    assert isinstance(method, Method) and (method.name, method.shown) == ("Plain", ("twice",))
    assert method.turns is None and temperatures_of(method).tables(None) == {}
    assert method.get_config() == plain.get_config() and method.used_options() == {"sampler"}
    assert method.step == plain.step
    assert as_method(method) is method and checked(Inheriting()).get_config() == plain.get_config()


def test_what_is_not_there_is_named():
    lame = type("Lame", (), {"name": "Lame", "init": None})()
    assert missing(lame) == [name for name in REQUIRED if name not in ("init", "name")]
    assert missing(Method()) == ["init", "step"]
    with pytest.raises(tati_re.InputError, match=r"Half is not a sampler: it lacks step\."):
        checked(type("Half", (Method,), {"init": lambda self, position, evaluate, noise: None})())


def weighted_mean(run, name: str) -> float:
    rows = run.run_info[run.run_info["step"] > 20]
    return float(np.average(rows[name], weights=rows["weight"]))


@pytest.mark.parametrize("own", [Plain, Inheriting])
def test_target_acceptance_keeps_what_a_sampler_shows_and_its_weights(own):
    """The columns are in run.csv, and the averages are those of the weights."""
    sim = tati_re.Simulation(data="two_clusters", num_walkers=1, seed=1, verbose=0)
    options = {
        "num_steps": 60,
        "num_burnin_steps": 20,
        "step_size": 1e-3,
        "execution": "graph",
        "record_every": 1,
    }
    run = sim.sample(sampler=own(), target_acceptance=0.6, **options)
    rows = run.run_info
    np.testing.assert_array_equal(rows["twice"], 2.0 * rows["potential"])
    assert list(rows.columns)[-1] == "weight" and (rows["weight"] == rows["potential"]).all()
    last = run.averages.iloc[-1]
    assert last["loss"] == pytest.approx(weighted_mean(run, "loss"), rel=1e-12)
    assert abs(rows[rows["step"] > 20]["loss"].mean() / last["loss"] - 1) > 1e-6


def test_a_table_that_no_file_is_for_is_refused_before_any_step():
    own = type("Own", (Inheriting,), {"tables": lambda self, state: {"mine": {"a": np.zeros(1)}}})
    sim = tati_re.Simulation(data="two_clusters", num_walkers=1, seed=1, verbose=0)
    with pytest.raises(
        tati_re.InputError,
        match=r"no such table\. Received: tables .mine.\. Expected: ladder or bias",
    ):
        sim.sample(
            sampler=own(), num_steps=60, num_burnin_steps=20, step_size=1e-3, execution="graph"
        )


def test_each_wrapper_keeps_what_a_sampler_shows():
    """Columns of the sampler inside, also through several wrappers."""

    class Labelled(HamiltonianMonteCarlo):
        shown, label_names, of_rung = ("potential",), ("weight",), ("loss",)

        def labels(self, state):
            return {"weight": state.potential}

    wrapped = Massive(StepSizeTuning(Labelled(3)), "gradient_rms")
    assert wrapped.shown == ("potential",) and wrapped.label_names == ("weight",) and wrapped.adapts
    assert {"loss", "step_factor", "mass"} <= set(wrapped.of_rung)
    assert wrapped.labels(SimpleNamespace(potential=3.0)) == {"weight": 3.0}
    ladder = ReplicaExchange(
        StepSizeTuning(HamiltonianMonteCarlo(3)), make_ladder(temperatures=[1.0, 2.0])
    )
    assert (
        "step_factor" in ladder.of_rung
        and ladder.adapts
        and (ladder.ladder.copies, ladder.ladder.by_rung) == (2, True)
    )
    assert pd.unique(pd.Series(ladder.label_names)).tolist() == ["rung", "replica"]
