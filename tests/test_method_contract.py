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
from tati_re.core.method import REQUIRED, Method, Optimizer, Wrapper, as_method, missing
from tati_re.exchange.apart import Apart
from tati_re.exchange.ladder import make_ladder
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.optimizers import KerasOptimizer
from tati_re.samplers import MALA, Splitting, StepSizeTuning
from tati_re.samplers.choosing import checked
from tati_re.samplers.hmc import HamiltonianMonteCarlo
from tati_re.samplers.wrappers.coordinates import extend, inner_of
from tati_re.samplers.wrappers.eqn import EnsembleQuasiNewton
from tati_re.samplers.wrappers.mass import Massive

MOVES = {"init", "step", "begin_turn", "move", "end_turn"}
"""What a wrapper does itself."""
DATA = sorted(Method.__annotations__)
FUNCTIONS = sorted(
    name for name, value in vars(Method).items() if inspect.isfunction(value) and name[0] != "_"
)


def method_classes() -> list[type[Method]]:
    """Every method of the package, by name."""
    found = {}
    for room in ("samplers", "optimizers", "exchange", "evidence"):
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
    if cls in (ReplicaExchange, Apart):
        exchange = ReplicaExchange(Splitting("BAOAB"), make_ladder(temperatures=[1.0, 2.0]))
        return exchange if cls is ReplicaExchange else Apart(exchange)
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
    assert method.name and (method.event_every == 0 or method.event_columns)
    for name in FUNCTIONS:
        own = list(inspect.signature(getattr(method, name)).parameters)
        assert own == list(inspect.signature(getattr(Method(), name)).parameters), name


def test_every_answer_has_a_sentence():
    described = inspect.getdoc(Method)
    assert [name for name in DATA if f"\n    {name}: " not in described] == []
    assert [name for name in FUNCTIONS if not inspect.getdoc(vars(Method)[name])] == []


@pytest.mark.parametrize("name", DATA)
def test_a_wrapper_gives_the_answer_of_the_method_inside(name):
    answer = object()
    inside = type("Inside", (Method,), {name: answer})()
    assert getattr(Wrapper(Wrapper(inside)), name) is answer
    inside = Method()
    setattr(inside, name, answer)
    assert getattr(Wrapper(inside), name) is answer


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - MOVES))
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

    wrapped = Counts(EnsembleQuasiNewton(Splitting("BAOAB")))
    assert (wrapped.groups, wrapped.group_steps) == (2, 100)
    assert wrapped.end_turn(
        "before", wrapped.move(wrapped.begin_turn("state", None), None, None)[0], None
    ) == (
        "counted",
        "state",
    )


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
    assert (
        method.groups == 1
        and method.tables(None) == {}
        and method.get_config() == plain.get_config()
    )
    assert method.move.__func__ is Method.move and method.step == plain.step
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
        and (ladder.copies, ladder.by_rung) == (2, True)
    )
    assert pd.unique(pd.Series(ladder.label_names)).tolist() == ["rung", "replica"]
