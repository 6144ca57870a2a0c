"""Each public function, constructor and method of the package, called with arguments of odd kinds.

What fails is one sentence, an `InputError`; never an error from deep inside. Arguments that are
missing or unknown are `TypeError`s of Python, and scikit-learn's own checks keep their words.
"""

from __future__ import annotations

import importlib
import inspect
import random
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import tati_re
from tati_re import exchange, priors, samplers, supports
from tati_re.core.errors import InputError
from tati_re.core.front_door import Doors, front_door
from tests.product.test_front_door import ODD, tried

ROOMS = [
    "tati_re",
    *("analysis", "data", "engine", "evidence", "exchange", "exploration", "interop"),
    *("landscape", "likelihoods", "optimizers", "plotting", "posterior", "posterior.priors"),
    *("prediction", "report", "runs", "samplers", "shipping", "sklearn", "supports", "testing"),
]
QUICK = ("optimizers", "runs", "supports")
"""Rooms whose calls take less than a second together."""

COSTLY = {
    *("analyse", "calibrate", "chain_weights", "check_law", "check_sampler", "compress"),
    *("connect", "characterize", "descend", "distil", "explore", "export", "fit"),
    *("gaussian_approximation", "held_out_comparison", "hessian_density", "hessian_directions"),
    *("hessian_eigenpairs", "hessian_matrix", "hessian_trace", "log_evidence", "log_evidences"),
    *("loo", "lowest_below", "predict", "sample", "sample_energies", "save_model"),
    *("temperature_study", "to_arviz", "to_keras", "write_arviz", "write_report"),
}
"""Functions that compute for a while when all arguments are right: fewer calls."""

ELSEWHERE = ("distil", "side_by_side")
"""Functions that fit networks or start processes: tests of their own call them."""

CONTAINS_ITSELF: list[Any] = []
CONTAINS_ITSELF.append(CONTAINS_ITSELF)
VALUES = [*ODD, CONTAINS_ITSELF, {"a": CONTAINS_ITSELF}, np.array([np.nan])]


class Things:
    """A small run and what belongs to it; arguments by their names, and objects by their class."""

    def __init__(self, folder: str) -> None:
        options = {"hidden": [2], "num_walkers": 2, "verbose": 0, "seed": 1}
        self.sim = tati_re.Simulation(data="two_clusters", **options)
        steps = {"num_steps": 40, "trajectory_every": 2, "record_every": 2}
        run = self.sim.sample(sampler="sgld", step_size=1e-5, output=folder, **steps)
        self.run = tati_re.load(run.folder)
        inputs = np.zeros((3, 2))
        rung = tati_re.testing.rung_of(0.1)
        evidence = tati_re.evidence.Evidence(1.0, 0.1, "mbar", pd.DataFrame())
        positions = np.random.default_rng(0).normal(size=(6, self.sim.num_parameters()))
        self.arguments = self._arguments(inputs, positions, rung, evidence)
        self.objects = self._objects(inputs, positions, rung, evidence)

    def _arguments(self, inputs: Any, positions: Any, rung: Any, evidence: Any) -> dict[str, Any]:
        run = self.run
        chains = np.random.default_rng(1).normal(size=(2, 50))
        sampler = samplers.SGLD()
        paths = dict.fromkeys(("run", "folder", "first", "second"), run.folder)
        tables = dict.fromkeys(("run_info", "table", "frame"), run.run_info)
        points = dict.fromkeys(("positions", "points"), positions)
        point = dict.fromkeys(("position", "start", "centre"), positions[0])
        methods = dict.fromkeys(("sampler", "method", "inner"), sampler)
        rates = dict.fromkeys(("acceptance", "rejection", "uniform"), np.full(3, 0.5))
        systems = dict.fromkeys(("sim", "source"), self.sim)
        rows = dict.fromkeys(("inputs", "X", "x"), inputs)
        numbers = {
            "step_size": 0.1,
            "noise_variance": 0.5,
            "variance": 0.5,
            "level": 0.9,
            "seed": 0,
        }
        return {
            **{
                **paths,
                **tables,
                **points,
                **point,
                **methods,
                **rates,
                **systems,
                **rows,
                **numbers,
            },
            "runs": run,
            "surface": tati_re.landscape.Surface(self.sim),
            "chains": chains,
            "column": "loss",
            "path": "out.x",
            "options": self.sim.options,
            "ladder": exchange.geometric(3, max_temperature=3.0),
            "num_rungs": 3,
            "rule": exchange.Barker(),
            "estimates": [evidence],
            "rung": rung,
            "evaluate": tati_re.testing.NumpyEvaluate(rung),
            "noise": tati_re.testing.NumpyNoise(0),
            "random": np.random.default_rng(0),
            "y": np.array([0, 1, 0]),
            "labels": np.array([0, 1, 0]),
            "probabilities": np.full((3, 2), 0.5),
            "targets": np.zeros((3, 1)),
            "outputs": np.zeros((2, 3, 1)),
        }

    def _objects(self, inputs: Any, positions: Any, rung: Any, evidence: Any) -> dict[str, Any]:
        function = tati_re.FunctionPotential(lambda place: (place**2).sum(-1), 3)
        density = tati_re.NamedDensity(lambda a: -(a**2), {"a": supports.real()})
        return {
            "Simulation": self.sim,
            "Run": self.run,
            "Predictor": self.run.compress(),
            "ClassPrediction": self.run.predict(inputs, np.array([0, 1, 0])),
            "Dataset": tati_re.data.load_data("two_clusters"),
            "Batches": tati_re.data.Batches(10, 2, 2, 0),
            "Positions": tati_re.analysis.Positions(self.run),
            "FunctionPotential": function,
            "NamedDensity": density,
            "Evidence": evidence,
            "Evidences": tati_re.evidence.Evidences([evidence]),
            "Ladder": exchange.geometric(3, max_temperature=3.0),
            "EvenOdd": exchange.EvenOdd(3),
            "AllPairs": exchange.AllPairs(3),
            "RandomNeighbours": exchange.RandomNeighbours(3),
            "WellTempered": exchange.WellTempered(5.0),
            "HardWalls": priors.HardWalls(priors.Gaussian(), -1.0, 1.0),
            "Tether": priors.Tether(np.zeros(3)),
            "Surface": tati_re.landscape.Surface(self.sim),
            "Tolerance": tati_re.runs.Tolerance(1e-8),
            "NumpyEvaluate": tati_re.testing.NumpyEvaluate(rung),
            "NumpyNoise": tati_re.testing.NumpyNoise(0),
            "Turns": samplers.Turns(samplers.SGLD()),
        }

    def of(self, kind: type) -> Any:
        """An object of a class; None where it needs arguments that are not known here."""
        known = self.objects.get(kind.__name__)
        if known is not None or inspect.isabstract(kind):
            return known
        try:
            return kind()
        except (TypeError, InputError):
            return None


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    return Things(str(tmp_path_factory.mktemp("runs") / "a"))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.print", lambda *_, **__: None)


def module_of(room: str) -> Any:
    return tati_re if room == "tati_re" else importlib.import_module(f"tati_re.{room}")


def is_own(call: Any) -> bool:
    return str(getattr(call, "__module__", "")).partition(".")[0] == "tati_re"


def methods_of(kind: type, thing: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of an object, or the class methods of a class without one."""
    for name, member in inspect.getmembers(kind if thing is None else type(thing)):
        plain = inspect.getattr_static(kind, name)
        is_method = inspect.isfunction(member) or inspect.ismethod(member)
        if name.startswith("_") or isinstance(plain, property) or not is_method:
            continue
        has_owner = thing is not None or inspect.ismethod(member)
        if has_owner and is_own(inspect.unwrap(getattr(member, "__func__", member))):
            yield name, getattr(kind if thing is None else thing, name)


def calls_of(room: str, things: Things) -> Iterator[tuple[str, Callable[..., Any]]]:
    """What a room makes public, and the methods of its classes, by name."""
    module = module_of(room)
    for name in module.__all__:
        public = getattr(module, name)
        if inspect.ismodule(public) or not callable(public) or not is_own(public):
            continue
        if getattr(public, "_is_protocol", False):  # Python says that it cannot be made.
            continue
        is_class = inspect.isclass(public)
        if not is_class or not (issubclass(public, Exception) or inspect.isabstract(public)):
            yield name, public
        if inspect.isclass(public):
            for method, call in methods_of(public, things.of(public)):
                yield f"{name}.{method}", call


def is_verdict(fault: str) -> bool:
    """Whether a check of user code says what it found; an odd function of the user is a finding."""
    is_of_user = "division by zero" in fault
    return "AssertionError" in fault and (" raised " not in fault or is_of_user)


def is_refused_elsewhere(call: Callable[..., Any], args: Any) -> bool:
    """Whether the checks of scikit-learn refuse an argument, or a method that a class does not
    have says so.
    """
    try:
        call(**args)
    except NotImplementedError as error:
        return bool(str(error))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return "sklearn/utils" in frames[-1].filename
    return False


def faults_of(name: str, call: Callable[..., Any], things: Things, count: int) -> list[str]:
    """What a call raises in place of a sentence: one odd argument, then several."""
    if name.split(".")[-1] in ELSEWHERE:
        return []
    signature = inspect.signature(call)
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    named = [each for each in signature.parameters.values() if each.kind not in variable]
    draw = random.Random(zlib.crc32(name.encode()))
    needed = {
        each.name: things.arguments.get(each.name, np.zeros(3))
        for each in named
        if each.default is each.empty
    }
    is_costly = name.split(".")[-1] in COSTLY
    tries = [] if is_costly else [needed]
    for each in named:
        for value in draw.sample(VALUES, 1 if is_costly else count):
            tries.append(needed | {each.name: value})
    for _ in range(0 if is_costly else count):
        tries.append({key: draw.choice(VALUES) for key in needed})
    found = []
    for given in tries:
        what = f"{name}({', '.join(f'{key}={type(given[key]).__name__}' for key in given)})"
        faults = tried(call, what, **given)
        if is_own(call) and str(call.__module__).startswith("tati_re.testing"):
            faults = [fault for fault in faults if not is_verdict(fault)]
        if faults and not is_refused_elsewhere(call, given):
            found += faults
    return found


def test_the_calls_are_those_of_all_rooms(things):
    names = {name for room in ROOMS for name, _ in calls_of(room, things)}
    expected = {"Run.plot", "BayesianRegressor", "SGLD.step", "Gaussian.sample", "plot_evidence"}
    assert expected - names == set()
    assert len(names) > 800, len(names)


@pytest.mark.parametrize(
    "room",
    [room if room in QUICK else pytest.param(room, marks=pytest.mark.slow) for room in ROOMS],
)
def test_odd_arguments(room, things):
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in calls_of(room, things):
            found += faults_of(name, call, things, 2 if room in QUICK else 4)
    assert found == [], "\n".join(found)


def test_a_function_that_is_no_front_door_is_found(things):
    def bare(positions: Any) -> Any:
        return positions.shape[7]

    assert faults_of("bare", bare, things, 4)
    assert not faults_of("bare", front_door(bare), things, 4)


class Contract(Doors):
    """As the base of samplers and of likelihoods."""

    def size(self, values: Any) -> int:
        return len(values)


def test_classes_of_users_keep_their_errors():
    """Their traceback leads to the line of the user."""

    class Mine(Contract):
        def size(self, values: Any) -> int:
            return len(values)

    with pytest.raises(TypeError, match="has no len"):
        Mine().size(1j)
    with pytest.raises(InputError, match=r"^position cannot be used"):
        samplers.SGLD().init(position=1j, evaluate=None, noise=None)


def test_a_generator_is_a_door_while_it_is_iterated():
    @front_door
    def halves(values: Any) -> Iterator[Any]:
        yield 0
        for each in values:
            yield each / 2

    assert [*halves([2, 4])] == [0, 1, 2]
    iterator = halves(["a"])
    assert next(iterator) == 0
    with pytest.raises(InputError, match=r"^values cannot be used"):
        next(iterator)


def test_a_missing_value_of_a_frame_is_refused():
    with pytest.raises(InputError, match=r"^x cannot be used \(TypeError: boolean value of NA"):
        priors.Box(1.0).score(pd.NA)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: tati_re.data.Dataset(np.zeros((3, 2)), np.zeros(3), test_weights=np.ones(3)),
            "test_weights needs a test set",
        ),
        (
            lambda: tati_re.likelihoods.LogNormal().fitted(np.array(3)),
            "targets cannot be used",
        ),
        (
            lambda: tati_re.exchange.geometric(3, max_temperature=3.0).adapted("abc"),
            "rejection cannot be used",
        ),
        (
            lambda: tati_re.testing.NumpyNoise(0).normal(np.zeros(3)),
            "shape has a shape that does not fit|shape cannot be used",
        ),
        (
            lambda: tati_re.testing.check_sampler(samplers.SGLD, order=np.zeros(2)),
            "order has the wrong type",
        ),
        (
            lambda: tati_re.plotting.plot_evidence(
                [tati_re.evidence.Evidence(1.0, 0.1, "mbar", pd.DataFrame({"path": [0.0, 1.0]}))]
            ),
            "estimates: the curve of .* lacks a column. Received: path. Expected: log_z",
        ),
    ],
)
def test_what_was_raw_is_a_sentence(call, sentence):
    with pytest.raises(InputError, match=rf"^{sentence}"):
        call()


def test_an_estimator_whose_fit_failed_is_not_fitted():
    """The names of the inputs were there already: `run_` was missing, from deep inside."""
    estimator = tati_re.sklearn.BayesianRegressor(num_steps=10, sampler="no such sampler")
    with pytest.raises(InputError):
        estimator.fit(np.zeros((9, 2)), np.arange(9.0))
    for call in (estimator.predict, estimator.sample_predictive, estimator.predict_quantiles):
        with pytest.raises(NotFittedError):
            call(np.zeros((3, 2)))


def test_shapes_that_do_not_fit_are_named():
    rule = exchange.Barker()
    with pytest.raises(InputError, match=r"log_ratio of shape \(3,\), .*uniform of shape \(4,\)"):
        rule.accept(np.zeros(3), 0.5, 10, np.full(4, 0.5), np.zeros(3))


def test_a_column_that_a_table_lacks_is_named():
    @front_door
    def mean(table: pd.DataFrame) -> float:
        return table["loss"].mean()

    with pytest.raises(InputError, match=r"^table lacks the column 'loss'\. Received: step, U"):
        mean(pd.DataFrame({"step": [1], "U": [2.0]}))


@pytest.mark.parametrize("count", [0, -1, 2**70, 0.5, True, "3"])
def test_a_potential_of_a_number_of_parameters_that_cannot_be(count):
    """2**70 took all memory, for the names."""
    with pytest.raises(InputError, match=r"^num_parameters is out of range"):
        tati_re.FunctionPotential(lambda place: place[:, 0], count)


def test_names_of_a_potential_are_as_many_as_its_parameters():
    with pytest.raises(InputError, match=r"Received: 1 names\. Expected: 2 names"):
        tati_re.FunctionPotential(lambda place: place[:, 0], 2, parameter_names=["a"])


def test_a_simulation_keeps_its_system(things):
    """`take` broke it before it failed."""
    before = things.sim.system
    with pytest.raises(InputError, match=r"^system has the wrong type"):
        things.sim.take([])
    assert things.sim.system is before
