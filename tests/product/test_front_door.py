"""Public functions given what they do not take: one sentence, never an error from deep inside."""

from __future__ import annotations

import datetime
import inspect
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import tati_re
from tati_re.core.errors import InputError, SamplingError
from tati_re.core.front_door import front_door, front_doors
from tati_re.options.make import OPTIONS, make_options


class Strange:
    """An object with nothing that is asked for."""


class Broken:
    """An object whose every use fails."""

    def __bool__(self):
        raise RuntimeError("no truth")

    __eq__ = __len__ = __iter__ = __float__ = __array__ = None


ODD = [
    None,
    True,
    0,
    -1,
    3,
    2**70,
    -(2**70),
    10**400,
    0.5,
    float("nan"),
    float("inf"),
    1j,
    "",
    "a",
    "a\0b",
    "\udc80",
    "x" * 5_000,
    b"",
    b"a",
    bytearray(b"a"),
    [],
    [None],
    [1, [2]],
    ["a"],
    [{}],
    (),
    ("a", 1),
    {},
    {"a": 1},
    {1: 2},
    set(),
    {1},
    range(3),
    slice(None),
    ...,
    Path("nowhere"),
    Path("a\0b"),
    Path("."),
    np.float64("nan"),
    np.int64(5),
    np.bool_(True),
    np.array(3),
    np.zeros(0),
    np.zeros((2, 2)),
    np.zeros((2, 2, 2)),
    np.array(["a", "b"]),
    np.array([None, {}], object),
    np.array([1j]),
    np.ma.masked,
    np.datetime64("2020-01-01"),
    pandas.DataFrame(),
    pandas.DataFrame({"a": [1.0, 2.0]}),
    pandas.Series([1, 2]),
    pandas.NA,
    pandas.NaT,
    datetime.date(2020, 1, 1),
    Strange(),
    Strange,
    Broken(),
    print,
    lambda: 1,
    lambda *_: 1 / 0,
    iter([1]),
    (i for i in range(3)),
    NotImplemented,
    inspect,
]


FEW = [
    float("nan"),
    1j,
    b"",
    {},
    [{}],
    "a\0b",
    2**70,
    np.zeros((2, 2)),
    np.array(["a", "b"]),
    pandas.DataFrame({"a": [1.0]}),
    Strange(),
    print,
]
"""Those that are tried where a call that succeeds takes seconds."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(folder):
    sim = tati_re.Simulation(data="two_clusters", hidden=[2], verbose=0, seed=1, num_walkers=2)
    return sim.sample(
        sampler="sgld",
        step_size=1e-5,
        num_steps=40,
        trajectory_every=2,
        record_every=2,
        output=str(folder / "a"),
    )


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.print", lambda *_, **__: None)


def tried(call: Any, what: str, /, *args: Any, **kwargs: Any) -> list[str]:
    """Nothing, or what was raised in place of a sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(*args, **kwargs)
    except (InputError, SamplingError) as error:
        text = str(error)
        return [] if "\n" not in text and len(text) < 3_000 else [f"{what}: {text}"]
    except TypeError as error:
        words = ("unexpected keyword argument", "required positional", "positional argument")
        if any(word in str(error) for word in words):
            return []
        return [f"{what}: {type(error).__name__} {error}"[:200]]
    except Exception as error:
        return [f"{what}: {type(error).__name__} {error}"[:200]]
    return []


def faults_of(
    call: Any, name: str, fixed: Sequence[Any] = (), values: Sequence[Any] = tuple(ODD)
) -> list[str]:
    """Each odd value for each argument of a call, the arguments before it as they should be."""
    signature = inspect.signature(call)
    found = []
    for place, parameter in enumerate(signature.parameters.values()):
        for number, value in enumerate(values):
            what = f"{name}({parameter.name}={type(value).__name__} #{number})"
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY or place < len(fixed):
                args = [*fixed[:place], value, *fixed[place + 1 :]]
                found += tried(call, what, *args)
            else:
                found += tried(call, what, *fixed, **{parameter.name: value})
    return found


QUICK = {"has": ["run.csv"], "at_rung": [0], "parameters": ["mean"]}
SLOW = {
    "save_model": ["mean", "a.keras"],
    "predict": [np.zeros((3, 2))],
    "to_arviz": [],
    "loo": [],
    "plot": [],
}
OPTIONS_OF = {
    "predict": ["interval", "rung", "burnin", "thin", "model", "parameters"],
    "plot": ["burnin", "thin", "path"],
}


@pytest.mark.parametrize("name", QUICK)
def test_methods_of_a_run(run, name):
    found = faults_of(getattr(tati_re.load(run.folder), name), name, QUICK[name])
    assert found == [], "\n".join(found)


def test_what_a_run_does_not_have(run):
    """Properties read a file that the folder has, or say that it has none."""
    own = tati_re.load(run.folder)
    names = [
        name
        for name, member in inspect.getmembers(type(own), lambda one: isinstance(one, property))
        if not name.startswith("_")
    ]
    assert "directions" in names and len(names) > 8
    found = [fault for name in names for fault in tried(getattr, name, own, name)]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("values", [FEW, pytest.param(ODD, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SLOW)
def test_methods_that_compute(run, name, values):
    call = getattr(tati_re.load(run.folder), name)
    found = faults_of(call, name, SLOW[name], values)
    for option in OPTIONS_OF.get(name, ()):
        for number, value in enumerate(values):
            what = f"{name}({option}={type(value).__name__} #{number})"
            found += tried(call, what, *SLOW[name], **{option: value})
    assert found == [], "\n".join(found)


def functions(run: Any) -> dict[str, Any]:
    folder = run.folder
    return {
        "load": (tati_re.load, [folder], ODD),
        "verify": (tati_re.verify, [folder], ODD),
        "compare": (tati_re.compare, [folder, folder], ODD),
        "help": (tati_re.help, ["step_size"], ODD),
        "Run": (tati_re.Run, [folder], ODD),
        "side_by_side": (tati_re.side_by_side, [[]], ODD),
        "load_data": (tati_re.data.load_data, ["two_clusters"], ODD),
        "analyse": (tati_re.analyse, [folder, ["averages"]], FEW),
        "write_report": (tati_re.write_report, [folder, "a.html"], FEW),
        "predict": (tati_re.predict, [run, np.zeros((3, 2))], FEW),
        "temperature_study": (tati_re.temperature_study, [[run]], FEW),
    }


class Nowhere:
    folder = None


_LONG = ("compare", "side_by_side", "write_report")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in _LONG else name
        for name in functions(Nowhere)
    ],
)
def test_functions_of_the_package(run, name):
    call, fixed, values = functions(run)[name]
    found = faults_of(call, name, fixed, values)
    assert found == [], "\n".join(found)


def methods(thing: Any) -> list[tuple[str, Any]]:
    return [
        (name, call)
        for name, call in inspect.getmembers(thing, inspect.ismethod)
        if not name.startswith("_")
    ]


def test_methods_of_a_prediction_and_of_a_data_set(run):
    predicted = tati_re.load(run.folder).predict(np.zeros((3, 2)), np.array([0, 1, 0]))
    found = []
    for thing in (predicted, tati_re.data.load_data("two_clusters")):
        for name, call in methods(thing):
            found += faults_of(call, name, values=FEW)
    assert found == [], "\n".join(found)


def test_methods_of_a_simulation():
    sim = tati_re.Simulation(data="two_clusters", verbose=0)
    calls = {
        "predict": [np.zeros((3, 2))],
        "predict_probabilities": [np.zeros((3, 2))],
        "init_momenta": [],
        "get_options": [],
        "from_folder": [],
        "resume": [],
    }
    found = []
    for name, fixed in calls.items():
        found += faults_of(getattr(sim, name), name, fixed, FEW)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_option_given_what_it_does_not_take(name):
    found = []
    for number, value in enumerate(ODD):
        what = f"{name}={type(value).__name__} #{number}"
        found += tried(make_options, what, **{name: value})
    assert found == [], "\n".join(found)


NAMES = ["data", "test_data", "hidden", "loss", "prior", "model", "parameters", "sample_weights"]


@pytest.mark.parametrize("name", NAMES)
def test_objects_for_a_simulation(name):
    found = []
    for number, value in enumerate(FEW):
        given = {"data": "two_clusters", "verbose": 0} | {name: value}
        found += tried(tati_re.Simulation, f"{name}={type(value).__name__} #{number}", **given)
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("name", ["sampler", "output", "until", "observables", "callbacks"])
def test_objects_for_a_run(name):
    sim = tati_re.Simulation(data="two_clusters", verbose=0)
    found = []
    for number, value in enumerate(FEW):
        given = {"sampler": "sgld", "step_size": 1e-5, "num_steps": 2} | {name: value}
        found += tried(sim.sample, f"{name}={type(value).__name__} #{number}", **given)
    assert found == [], "\n".join(found)


@front_door
def plain(a: int, b: str = "x", c: Sequence[float] = (), d: Any = None) -> str:
    """Fails on all but plain arguments, as functions do."""
    return b[a] + str(sum(c)) + str(d + 1 if d is not None else "")


def test_the_argument_of_another_kind_is_named():
    assert plain(0) == "x0"
    with pytest.raises(InputError, match=r"^a has the wrong type or value\. Received: 'x'\. Exp"):
        plain("x")
    with pytest.raises(InputError, match=r"Expected: a list of finite numbers"):
        plain(0, c=["y"])
    with pytest.raises(InputError, match=r"^d cannot be used \(TypeError"):
        plain(0, d={})
    with pytest.raises(TypeError, match="unexpected keyword"):
        plain(0, e=1)


@front_door
def drawn(count: int, seed: int = 0) -> np.ndarray:
    """Draws numbers, as functions with a seed do."""
    return np.random.default_rng([seed, 7]).random(count)


def test_a_function_that_returns_what_only_type_checkers_import(run):
    """Its other annotations count: they were lost, and the error came from deep inside."""
    names = np.zeros((2, 2, 2))
    with pytest.raises(InputError, match=r"^names cannot be used \(TypeError"):
        tati_re.load(run.folder).parameter_summary(names)


def test_a_negative_seed_is_named(run):
    assert drawn(2).shape == (2,)
    for call in (
        lambda: drawn(2, seed=-1),
        lambda: drawn(2, -1),
        lambda: tati_re.load(run.folder).compress().sample(np.zeros((3, 2)), seed=-1),
    ):
        with pytest.raises(InputError, match=r"^seed is out of range\. Received: -1\. Expected"):
            call()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_place_of_an_input_that_is_not_finite(run, value):
    inputs = np.zeros((3, 2))
    inputs[2, 1] = value
    with pytest.raises(InputError, match=rf"Received: inputs\[2, 1\] = {value}\."):
        tati_re.load(run.folder).predict(inputs)


def test_a_fault_of_the_function_stays_one():
    """Arguments that are right do not hide it."""
    with pytest.raises(IndexError):
        plain(5)
    with pytest.raises(TypeError):
        plain(0, d="text")
    with pytest.raises(InputError) as error:
        plain(0, d=1j, c=None)
    assert isinstance(error.value.__cause__, TypeError)


def test_an_error_of_type_stays_one_too():
    """Libraries that catch a `TypeError` of theirs find it, and all others find an InputError."""

    @front_door
    def total(values: object) -> float:
        return sum(map(float, values))

    @front_door
    def square(value: float) -> float:
        return value.squared()

    with pytest.raises(InputError, match="values cannot be used") as met:
        total([1.0, {}])
    assert isinstance(met.value, TypeError)
    with pytest.raises(InputError, match="value has the wrong type") as met:
        square("a")
    assert not isinstance(met.value, TypeError)


def test_a_class():
    @front_doors
    class Small:
        def __init__(self, size: int) -> None:
            self.size = [0] * size

        def at(self, place: int) -> int:
            return self.size[place]

        @classmethod
        def of(cls, size: int) -> Any:
            return cls(size)

    with pytest.raises(InputError, match="size has the wrong type"):
        Small("a")
    with pytest.raises(InputError, match="place has the wrong type"):
        Small.of(3).at("a")
    with pytest.raises(IndexError):
        Small(3).at(5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tati_re.priors.Gaussian(std={}),
        lambda: tati_re.priors.StudentT(degrees=None),
        lambda: tati_re.priors.HardWalls(3),
        lambda: tati_re.priors.make_prior(1j, [], []),
        lambda: tati_re.evidence.log_evidence(None),
        lambda: tati_re.evidence.log_evidence(b""),
        lambda: tati_re.exploration.explore(b""),
        lambda: tati_re.landscape.scan(1j, 2, 3, 4),
        lambda: tati_re.prediction.crps("", 1, 2, 3),
        lambda: tati_re.prediction.accuracy(print, [1]),
        lambda: tati_re.samplers.make_sampler(3, None),
        lambda: tati_re.samplers.parse_word(1j),
        lambda: tati_re.shipping.to_keras(None),
        lambda: tati_re.shipping.inputs_outside(None, "a"),
    ],
)
def test_functions_of_the_rooms(call):
    with pytest.raises(InputError):
        call()


def test_none_and_a_text_without_what_is_asked_of_them():
    @front_door
    def folder_of(run: Any) -> str:
        return str(run.folder)

    for value in (None, "a"):
        with pytest.raises(InputError, match=r"^run cannot be used \(AttributeError"):
            folder_of(value)
