"""Samplers that users wrote: what `check_sampler` catches, how one is found by name, made, run and
resumed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.cli import sample
from tati_re.core.backend import tf, threads
from tati_re.core.ops import as_float64, column
from tati_re.options import families
from tati_re.options.make import make_options
from tati_re.samplers import (
    MALA,
    SGLD,
    Info,
    LeimkuhlerMatthews,
    Splitting,
    State,
    StepSizeTuning,
    make_sampler,
)
from tati_re.samplers.skeleton import Skeleton
from tati_re.samplers.user_samplers import imported, made
from tati_re.testing import check_law, check_sampler
from tests.systems import tables

# --------------------------------------------------------------------------------------- what
# check_sampler lets pass


@pytest.mark.parametrize(
    ("sampler", "variance"),
    [
        pytest.param(Splitting("OBABO", 2.0), lambda h: 1 / (1 - h**2 / 4), marks=pytest.mark.slow),
        pytest.param(LeimkuhlerMatthews, 1.0, marks=pytest.mark.slow),
    ],
    ids=["OBABO", "LM"],
)
def test_a_right_sampler_passes(sampler, variance):
    check_sampler(sampler, variance)


def test_the_law_knows_stiffness_and_order():
    """Var q = 1/k (1 - hk/2) for SGLD at k = 4; OBABO keeps to order 2, which SGLD does not at a
    larger step.
    """
    check_law(SGLD(), lambda h: 0.25 / (1 - 2 * h), stiffness=4.0)
    check_law(Splitting("OBABO"), stiffness=4.0, order=2)
    with pytest.raises(AssertionError, match=r"variance of position, extrapolated from h = 0\.3"):
        check_law(SGLD(), step_size=0.3, order=2)


# ------------------------------------------------------------------------------------------- what
# check_sampler catches


class Half:
    """Gives half of each normal number."""

    def __init__(self, noise) -> None:
        self.noise = noise

    def normal(self, shape):
        return 0.5 * self.noise.normal(shape)


class HalvedNoise(Skeleton):
    def step(self, state, evaluate, noise):
        return super().step(state, evaluate, Half(noise))


class ForgetsTheTemperature(Skeleton):
    def step(self, state, evaluate, noise):
        one = as_float64(1.0) + 0.0 * state.rung.step_size
        new, info = super().step(
            state._replace(rung=state.rung._replace(inverse_temperature=one)), evaluate, noise
        )
        return new._replace(rung=state.rung), info


class TooMuchMomentum(Splitting):
    def step(self, state, evaluate, noise):
        return super().step(
            state, evaluate, SimpleNamespace(normal=lambda shape: 1.2 * noise.normal(shape))
        )


class AcceptsAll(MALA):
    def step(self, state, evaluate, noise):
        return super().step(state, evaluate, Certain(noise))


class Certain:
    """Uniform numbers of almost 0: everything is accepted."""

    def __init__(self, noise) -> None:
        self.normal, self.drawn = noise.normal, noise

    def uniform(self, shape):
        return 1e-300 * self.drawn.uniform(shape)


class Counts(Skeleton):
    """Impure: the sampler is not what it was."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def step(self, state, evaluate, noise):
        self.steps += 1
        return super().step(state, evaluate, noise)


class Lists(Skeleton):
    """Impure: the same list, longer."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = []

    def step(self, state, evaluate, noise):
        self.seen.append(state.potential)
        return super().step(state, evaluate, noise)


class WritesIntoItsInput(Skeleton):
    def step(self, state, evaluate, noise):
        if isinstance(state.position, np.ndarray):
            state.position[:] = state.position + 0.1
        return super().step(state, evaluate, noise)


class OwnRandomNumbers(Skeleton):
    def step(self, state, evaluate, noise):
        new, info = super().step(state, evaluate, noise)
        if isinstance(new.position, np.ndarray):
            new = new._replace(log_prior=new.log_prior + np.random.uniform())
        return new, info


class RaisesTheType(Skeleton):
    """Multiplies float32 positions with a float64 array."""

    def step(self, state, evaluate, noise):
        if isinstance(state.position, np.ndarray):
            state = state._replace(position=state.position * np.ones((1, 1)))
        return super().step(state, evaluate, noise)


class MixesTypes(Skeleton):
    """The rung without `column`: numpy casts, TensorFlow refuses."""

    def step(self, state, evaluate, noise):
        time = state.rung.step_size[:, None]
        position = state.position - time * state.gradient + noise.normal(state.position.shape)
        return self.init(position.astype(state.position.dtype), evaluate, noise)._replace(
            rung=state.rung
        ), Info()


class AsksTwice(Skeleton):
    def step(self, state, evaluate, noise):
        new, info = super().step(state, evaluate, noise)
        return new._replace(potential=evaluate(new.position).potential), info


class AsksForAllData(Skeleton):
    def step(self, state, evaluate, noise):
        new, info = super().step(state, evaluate, noise)
        return new._replace(potential=evaluate.full(new.position).potential), info


class StaleGradient(Skeleton):
    def step(self, state, evaluate, noise):
        new, info = super().step(state, evaluate, noise)
        return new._replace(gradient=state.gradient), info


class ThroughWalls(Skeleton):
    def step(self, state, evaluate, noise):
        inside = SimpleNamespace(
            rung=evaluate.rung, confine=lambda position, momentum: (position, momentum)
        )
        open_evaluate = type("Open", (), {"__call__": lambda self, position: evaluate(position)})()
        vars(open_evaluate).update(vars(inside))
        return super().step(state, open_evaluate, noise)


class DrawsSometimes(Skeleton):
    def step(self, state, evaluate, noise):
        if isinstance(state.position, np.ndarray) and state.position[0, 0] > 0:
            noise.uniform(())
        return super().step(state, evaluate, noise)


class CoupledWalkers(Skeleton):
    def step(self, state, evaluate, noise):
        new, info = super().step(state, evaluate, noise)
        first = new.position[:1]
        return new._replace(
            loss=new.loss + 0.0 * as_float64(first[:, 0]) + as_float64(first[:, 0])
        ), info


class NumpyOnly(Skeleton):
    """numpy's square root goes through in numpy and eagerly, not in a graph."""

    def step(self, state, evaluate, noise):
        spread = np.sqrt(2.0 * state.rung.step_size * state.rung.temperature)
        random = column(spread, state.position) * noise.normal(state.position.shape)
        moved = (
            state.position - column(state.rung.step_size, state.position) * state.gradient + random
        )
        return self.init(evaluate.confine(moved, None)[0], evaluate, noise), Info()


class LosesAField(LeimkuhlerMatthews):
    """The step returns the state without `random`."""

    def step(self, state, evaluate, noise):
        new, info = super().step(state, evaluate, noise)
        return State(**{name: getattr(new, name) for name in State._fields}), info


class WithMemory(State):
    """Remembers what is no field, so that no checkpoint holds it."""

    memory = 0.0


class HidesAField(Skeleton):
    gradients_per_step = 2.0

    def init(self, position, evaluate, noise):
        return WithMemory(*super().init(position, evaluate, noise))

    def step(self, state, evaluate, noise):
        new, info = super().step(state, evaluate, noise)
        new = new._replace(position=new.position * (1.0 - 0.01 * state.memory))
        energy = evaluate(new.position)
        new = new._replace(gradient=energy.gradient, potential=energy.potential, loss=energy.loss)
        new.memory = state.memory + 1.0
        return new, info


class ShowsNoField(Skeleton):
    shown = ("gradient",)


class NoName(Skeleton):
    name = ""


class WrongNames(Skeleton):
    def step(self, state, gradient, noise):
        return super().step(state, gradient, noise)


class NoPair(Skeleton):
    def step(self, state, evaluate, noise):
        return super().step(state, evaluate, noise)[0]


class ArrayInConfig(Skeleton):
    def get_config(self):
        return {"sampler": self.name, "mass": np.ones(3)}


class Raises(Skeleton):
    def step(self, state, evaluate, noise):
        raise RuntimeError("what\nnow?")


class NeedsArguments(Skeleton):
    def __init__(self, mobility) -> None:
        super().__init__(mobility)


class NoStep:
    name = "NoStep"

    def init(self, position, evaluate, noise): ...


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            HalvedNoise,
            "Skeleton, the law: the variance of position, extrapolated from h = 0.2 and 0.1 to 0, on the ",
        ),
        (
            Counts,
            "Skeleton, purity: a step changes steps of the sampler. Expected: everything that changes is a field",
        ),
        (Lists, "Skeleton, purity: a step changes seen of the sampler."),
        (WritesIntoItsInput, "a step raised ValueError: assignment destination is read-only"),
        (OwnRandomNumbers, "Skeleton, purity: log_prior differs when a step is repeated."),
        (
            RaisesTheType,
            "shapes and types in float32: position after step is float64 of shape (5, 3). Expected: float32 of shape "
            "(5, 3) for parameters in float32.",
        ),
        (MixesTypes, "Skeleton, types in TensorFlow in float64: a step raised AttributeError: "),
        (
            AsksTwice,
            "Skeleton, gradients: a step requests 2 gradients. Expected: 1, as gradients_per_step says.",
        ),
        (
            AsksForAllData,
            "Skeleton, gradients: full_batch is False, but evaluate.full(position) is requested.",
        ),
        (StaleGradient, "Skeleton, gradients: gradient after a step is not for the new position."),
        (ThroughWalls, "Skeleton, walls: a walker is at"),
        (DrawsSometimes, "Skeleton, random numbers: one step draws [('"),
        (
            CoupledWalkers,
            "Skeleton, independent walkers: loss of the other walkers changes when walker 0 starts",
        ),
        (NumpyOnly, "Skeleton, eager, graph and XLA: a step raised NotImplementedError: "),
        (
            LosesAField,
            "LM, shapes and types in float64: step returns a State of position, gradient, potential, loss, ",
        ),
        (
            HidesAField,
            "Skeleton, checkpoint: position differs when a checkpoint is resumed",
        ),
        (
            ShowsNoField,
            "shapes and types in float64: shown names gradient, which is not a field of shape (5,).",
        ),
        (NoName, "attributes: name is ''. Expected: a text."),
        (
            WrongNames,
            "attributes: step takes state, gradient, noise. Expected: state, evaluate, noise.",
        ),
        (NoPair, "step returns a State. Expected: a pair of state and Info."),
        (
            ArrayInConfig,
            "attributes: get_config gives {'sampler': 'Skeleton', 'mass': array([1., 1., 1.])}.",
        ),
        (Raises, "Skeleton, shapes and types in float64: a step raised RuntimeError: what now?"),
        (NeedsArguments, "NeedsArguments cannot be made without arguments (TypeError: "),
        (
            NoStep,
            "attributes: the attributes step, get_config, has_momentum, metropolis, full_batch, current, ",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_sampler_is_caught(wrong, sentence):
    with pytest.raises(AssertionError) as caught:
        check_sampler(wrong)
    said = str(caught.value)
    assert sentence in said
    assert "\n" not in said and len(said) < 500


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (ForgetsTheTemperature(), "on the harmonic well at T = 0.5 is 1.9"),
        (TooMuchMomentum(), "is 1.4"),
        (
            AcceptsAll(),
            "the variance of position at h = 0.2 on the harmonic well at T = 0.5 is 1.1",
        ),
        (
            Skeleton(1e-3),
            "because the walkers move too slowly; expected 10%. Use more num_steps or a larger step_size.",
        ),
        (Skeleton(50.0), "is not finite; expected 1. Try a smaller step_size."),
    ],
    ids=["temperature", "momentum", "acceptance", "slow", "unstable"],
)
def test_a_wrong_law_is_caught(wrong, sentence):
    with pytest.raises(AssertionError, match="the variance of position") as caught:
        check_law(wrong)
    assert sentence in str(caught.value)


# --------------------------------------------------------------------------------------------------
# found by its name

OWN = '''
from tati_re.core.errors import InputError
from tati_re.core.ops import column
from tati_re.samplers.leimkuhler_matthews import LeimkuhlerMatthews


class Own(LeimkuhlerMatthews):
    """LM of another name, with a friction that slows it down; the state has a further field."""

    name = "Own"

    def __init__(self, friction, num_leapfrog_steps=3, thermal_mass=7.0, mobility=1.0, *, seed):
        self.friction, self.num_leapfrog_steps, self.thermal_mass = friction, num_leapfrog_steps, thermal_mass
        self.mobility, self.seed = mobility, seed

    def step(self, state, evaluate, noise):
        slow = state.rung._replace(step_size=state.rung.step_size / self.friction)
        new, info = super().step(state._replace(rung=slow), evaluate, noise)
        return new._replace(rung=state.rung), info

    def get_config(self):
        return {"sampler": self.name, "friction": self.friction}


class NeedsMass(Own):
    def __init__(self, heaviness):
        pass


class Fails(Own):
    def __init__(self):
        {}["nothing"]


class Refuses(Own):
    def __init__(self, friction):
        raise InputError("friction: too much.", received=friction)


class Lame:
    name, has_momentum, metropolis, full_batch, gradients_per_step = "Lame", False, False, False, 1.0

    def init(self, position, evaluate, noise): ...

    def get_config(self): ...


def make_own(friction):
    return Own(2 * friction, seed=0)


number = 3
'''

DATA = ["--data", "two_clusters", "--loss", "mean_squared_error", "--quiet"]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty current folder with own.py and packed/deeper.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "deeper.py").write_text("from own import Own\n")
    (tmp_path / "broken.py").write_text("import nowhere_at_all\n")
    (tmp_path / "halves.py").write_text("class Own(:\n")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_file_and_module_make_the_same_sampler(folder):
    """A module of the current folder, one in a package, a file, a file elsewhere; the search path
    stays as it was.
    """
    path = list(sys.path)
    for name in ("own:Own", "own.py:Own", f"{folder}/own.py:Own", "packed.deeper:Own"):
        sampler = make_sampler(name, make_options(friction=2.5, seed=4))
        assert sampler.get_config() == {"sampler": "Own", "friction": 2.5}
    assert sys.path == path


def test_the_constructor_gets_the_options_that_it_names(folder):
    """Also their defaults in the table; what has no value or is no option keeps the default of the
    constructor.
    """
    sampler = imported("own.py:Own", make_options(seed=4))
    assert (sampler.friction, sampler.num_leapfrog_steps, sampler.seed) == (1.0, 10, 4)
    assert (sampler.thermal_mass, sampler.mobility) == (7.0, 1.0)
    assert imported("own.py:Own", make_options(thermal_mass=2.0)).thermal_mass == 2.0
    assert imported("own.py:make_own", make_options(friction=1.5)).friction == 3.0
    assert made(Splitting, SimpleNamespace(friction=3.0)).get_config() == {
        "sampler": "BAOAB",
        "friction": 3.0,
    }


def test_its_step_size_can_be_tuned(folder):
    (folder / "accepting.py").write_text("from tati_re.samplers import MALA\n")
    assert isinstance(
        make_sampler("accepting:MALA", make_options(target_acceptance=0.6)), StepSizeTuning
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "elsewhere:Own",
            "there is no such module. Received: elsewhere. Expected: a module that is installed or lies in ",
        ),
        (
            "elsewhere.py:Own",
            "there is no such file. Received: elsewhere.py. Expected: such as my_module:MySampler",
        ),
        (
            "own:Owm",
            "own has no class of this name. Did you mean 'Own'? Received: Owm. Expected: LeimkuhlerMatthews, ",
        ),
        ("own:", "the form is MODULE:CLASS. Received: 'own:'. Expected: my_module:MySampler or "),
        ("own:number", "int is not a class. Received: int. Expected: a class with init and step."),
        (
            "own:Lame",
            "Lame is not a sampler: it lacks step and current. Expected: the attributes and methods of ",
        ),
        (
            "own:NeedsMass",
            "NeedsMass needs heaviness, which is not an option. Expected: a default for it in the ",
        ),
        ("own:Fails", "Fails could not be created (KeyError: 'nothing')."),
        (
            "broken:Own",
            "broken cannot be imported (ModuleNotFoundError: No module named 'nowhere_at_all').",
        ),
        ("halves.py:Own", "halves.py cannot be imported (SyntaxError: "),
    ],
)
def test_what_cannot_be_is_one_line_and_status_2(folder, capsys, name, sentence):
    assert sample.main([*DATA, "--sampler", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: --sampler: {sentence}") and said.count("\n") == 1
    assert not (folder / "runs").exists()


def test_the_constructors_own_refusal_is_kept(folder, capsys):
    assert sample.main([*DATA, "--sampler", "own:Refuses", "--friction", "9"]) == 2
    assert capsys.readouterr().err == "error: --friction: too much. Received: 9.0.\n"


def test_objects_and_classes_in_python(folder):
    sim = Simulation(data="two_clusters", loss="mean_squared_error", execution="graph", verbose=0)
    with pytest.raises(
        InputError,
        match=r"sampler: SimpleNamespace is not a sampler: it lacks init, step, get_config",
    ):
        sim.sample(sampler=SimpleNamespace(name="nothing"))
    run = sim.sample(sampler=Splitting, friction=4.0, step_size=0.001, num_steps=10)
    assert run.manifest["method"] == {"sampler": "BAOAB", "friction": 4.0}


# ------------------------------------------------------------------------------------------------------------
# the run


class Lacking(NamedTuple):
    position: Any
    gradient: Any
    rung: Any


class StateAlone(Skeleton):
    def step(self, state, evaluate, noise):
        return super().step(state, evaluate, noise)[0]


class Wide(Skeleton):
    def step(self, state, evaluate, noise):
        state, info = super().step(state, evaluate, noise)
        return state._replace(loss=state.loss[:, None]), info


class Narrow(Skeleton):
    def step(self, state, evaluate, noise):
        state, info = super().step(state, evaluate, noise)
        return state._replace(potential=tf.cast(state.potential, tf.float32)), info


class NotAll(Skeleton):
    def init(self, position, evaluate, noise):
        return Lacking(position, evaluate(position).gradient, evaluate.rung)


class SaysMomentum(Skeleton):
    has_momentum = True


class SaysMetropolis(Skeleton):
    metropolis = True


class ShowsWhatIsNot(Skeleton):
    shown = ("temperture",)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (StateAlone, "a step does not return a pair of state and Info. Received: State."),
        (
            Wide,
            (
                "a step returns loss with another type or shape. Received: float64 of shape "
                "(2, 1). Expected: float64 of shape (2,)."
            ),
        ),
        (
            Narrow,
            (
                "a step returns potential with another type or shape. Received: float32 of "
                "shape (2,). Expected: float64 of shape"
            ),
        ),
        (
            SaysMetropolis,
            "a step returns acceptance with another type or shape. Received: NoneType. Expected: float64 of shape (2,)",
        ),
        (NotAll, "the state from init lacks log_prior, loss, potential. Received: Lacking."),
        (SaysMomentum, "the state from init lacks momentum. Received: State."),
        (ShowsWhatIsNot, "the state from init lacks temperture. Received: State."),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else "",
)
def test_what_is_wrong_with_a_state_is_said_by_its_name_before_a_step(wrong, sentence):
    sim = Simulation(data="two_clusters", num_walkers=2, execution="graph", verbose=0)
    with pytest.raises(InputError) as caught:
        sim.sample(sampler=wrong(), step_size=1e-5, num_steps=4)
    assert str(caught.value).startswith(f"Skeleton: {sentence}")


def test_the_command_says_whose_code_fails_and_where(folder, capsys):
    (folder / "failing.py").write_text(
        "from tati_re.samplers.skeleton import Skeleton\n\n\nclass Fails(Skeleton):\n"
        "    def step(self, state, evaluate, noise):\n        return 1 / 0\n"
    )
    for name in ("failing.py:Fails", "failing:Fails"):
        assert sample.main([*DATA, "--sampler", name, "--verbose", "0"]) == 2
        said = capsys.readouterr().err
        assert said.startswith(
            f"error: {folder / 'failing.py'} fails in line 6 (ZeroDivisionError: division by zero)."
        )


COMMON = {
    "data": "two_clusters",
    "loss": "mean_squared_error",
    "batch_size": 50,
    "num_walkers": 2,
    "seed": 3,
}
COMMON |= {"execution": "graph"}  # an own sampler under XLA: check_sampler above
LENGTH = {
    "step_size": 0.0001,
    "friction": 2.0,
    "record_every": 5,
    "trajectory_every": 7,
    "verbose": 0,
}


def test_flag_file_and_object_are_one_run(folder):
    """The same bytes from the command line, from a TOML file, and from an object in Python."""
    (folder / "run.toml").write_text(
        'data = "two_clusters"\nloss = "mean_squared_error"\nbatch_size = 50\nnum_walkers = 2\nseed = 3\n'
        'sampler = "own.py:Own"\nstep_size = 0.0001\nfriction = 2.0\nrecord_every = 5\ntrajectory_every = 7\n'
        'num_steps = 30\nexecution = "graph"\nverbose = 0\n'
    )
    assert sample.main(["--config", "run.toml", "--output", "a"]) == 0
    assert sample.main(["--config", "run.toml", "--sampler", "own:Own", "--output", "b"]) == 0
    own = imported("own.py:Own", make_options(friction=2.0, seed=3))
    Simulation(**COMMON).sample(sampler=own, num_steps=30, output="c", **LENGTH)
    assert tables("a") == tables("b") == tables("c")
    assert tables("a")["run.csv"].count(b"\n") == 1 + 2 * 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["packed/deeper.py:Own", "packed.deeper:Own"])
def test_workers_get_the_code_of_a_file_and_what_it_imports_beside_it(
    folder, name, rewritten_graphs
):
    """They have neither the module of the file nor the folder where it found another one."""
    (folder / "packed" / "own.py").write_text(OWN)
    run = {"sampler": name, "num_steps": 30, "block_size": 1} | LENGTH
    for workers in (1, 2):
        Simulation(**COMMON, threads=threads()).sample(output=f"{workers}", workers=workers, **run)
    assert tables("1") == tables("2")


def test_what_workers_find_themselves_travels_by_its_name(folder, monkeypatch):
    """A package that is installed, though it lies in the current folder, is the same package in a
    worker.
    """
    imported("own:Own", make_options())
    assert "own" in cloudpickle.list_registry_pickle_by_value()
    cloudpickle.unregister_pickle_by_value(sys.modules["own"])
    del sys.modules["own"]
    monkeypatch.syspath_prepend(str(folder))
    imported("own:Own", make_options())
    assert "own" not in cloudpickle.list_registry_pickle_by_value()


def test_a_resumed_run_is_the_uninterrupted_one_byte_for_byte(folder):
    """Resumed by the command, which knows nothing but the run folder and the file."""
    Simulation(**COMMON).sample(sampler="own.py:Own", num_steps=60, output="whole", **LENGTH)
    Simulation(**COMMON).sample(sampler="own.py:Own", num_steps=23, output="parts", **LENGTH)
    assert sample.main(["--resume", "parts", "--num-steps", "60", "--quiet", "--trust"]) == 0
    assert tables("whole") == tables("parts")


def test_code_that_has_changed_is_refused(folder, capsys):
    Simulation(**COMMON).sample(sampler="own.py:Own", num_steps=20, output="run", **LENGTH)
    before = tables("run")
    changes = {
        'name = "Own"': (
            'name = "Other"',
            "resume: the sampler differs from the run's. Received: {'sampler': 'Other', ",
        ),
        "LeimkuhlerMatthews\n\n\nclass Own": (
            "LeimkuhlerMatthews\nfrom tati_re.samplers import LeimkuhlerMatthews as Base\n"
            "from tati_re.samplers.wrappers.coordinates import extend\n\n\n"
            "class LeimkuhlerMatthews(Base):\n"
            "    def init(self, position, evaluate, noise):\n"
            "        return extend(super().init(position, evaluate, noise), memory=position)\n\n\nclass Own",
            "resume: the checkpoint lacks 'state/memory/0' of the sampler's state. Expected: the same sampler as before.",
        ),
    }
    for old, (new, sentence) in changes.items():
        assert OWN.count(old) == 1
        (folder / "own.py").write_text(OWN.replace(old, new))
        assert sample.main(["--resume", "run", "--num-steps", "40", "--quiet", "--trust"]) == 2
        assert sentence in capsys.readouterr().err
    (folder / "own.py").unlink()
    assert sample.main(["--resume", "run", "--num-steps", "40", "--quiet", "--trust"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: sampler: there is no such file. Received: own.py."
    )
    assert tables("run") == before


def test_a_package_adds_a_sampler_by_one_file_and_one_line(tmp_path, monkeypatch):
    """Its name is in the help, the options page and completion, and a run has it."""
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "own-1.0.dist-info").mkdir()
    (tmp_path / "own-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n"
    )
    (tmp_path / "own-1.0.dist-info" / "entry_points.txt").write_text(
        "[tati_re.samplers]\nMyDynamics = own:Own\n"
    )
    command = "import sys; from tati_re.cli.sample import main; sys.exit(main(sys.argv[1:]))"
    paths = [
        str(tmp_path),
        str(Path(__file__).parents[2]),
        *os.environ.get("PYTHONPATH", "").split(os.pathsep),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def said(*words: str) -> str:
        words = [sys.executable, *words]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "MyDynamics" in said("-c", command, "--help")
    assert "MyDynamics" in said("-c", command, "--print-completion", "bash")
    page = said("-m", "tati_re.options")
    assert "TACT-HMC, MyDynamics; your own" in page
    assert "| `MyDynamics` | `friction`, `num_leapfrog_steps`, `thermal_mass`, `seed` |" in page
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    families._installed.cache_clear()
    try:
        options = [
            "--sampler",
            "mydynamics",
            "--friction",
            "2.5",
            "--num-steps",
            "5",
            "--output",
            "run",
        ]
        assert sample.main([*DATA, *options]) == 0
    finally:
        families._installed.cache_clear()
        sys.modules.pop("own", None)
    config = tomllib.loads((tmp_path / "run" / "manifest.toml").read_text())["method"]
    assert config["sampler"] == "Own" and config["friction"] == 2.5


@pytest.fixture
def installed(monkeypatch):
    """Lets packages that are installed give these names to samplers."""

    def install(*entries: tuple[str, str]) -> None:
        found = [EntryPoint(name, where, "tati_re.samplers") for name, where in entries]
        monkeypatch.setattr(families, "entry_points", lambda group: found)
        families._installed.cache_clear()

    yield install
    families._installed.cache_clear()


@pytest.mark.parametrize("name", ["HMC", "baoab", "Mine"])
def test_a_name_that_two_samplers_have_is_refused_where_it_is_asked_for(installed, name, capsys):
    """A package that takes a name of others breaks neither the help nor runs by other names, nor is
    it run for them.
    """
    installed(("Mine", "tests.product.test_own_sampler:First"), (name, "elsewhere:Second"))
    with pytest.raises(SystemExit, match="0"):
        sample.main(["--help"])
    assert "MAMS, MALA, RWMH, TACT-HMC, Mine; your" in " ".join(capsys.readouterr().out.split())
    assert make_sampler("OBABO", make_options()).name == "OBABO"
    with pytest.raises(InputError) as refused:
        make_sampler(name.upper(), make_options())
    assert str(refused.value) == (
        f"sampler: the name {name} is already used, but an installed package also gives it to elsewhere:Second. Expected: "
        "another name in the entry points of that package, or elsewhere:Second."
    )
    assert "elsewhere" not in families.markdown_table()


def test_a_package_that_cannot_be_imported_leaves_the_options_page(
    installed, tmp_path, monkeypatch
):
    """And a class without a docstring has none there, rather than that of `Method`."""
    (tmp_path / "ends_at_once.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "says_nothing.py").write_text(
        "from tati_re.samplers import Method\n\n\nclass Silent(Method):\n    def step(self): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    installed(("Ends", "ends_at_once:Ends"), ("Silent", "says_nothing:Silent"))
    rows = families.markdown_table().split("\n")
    assert rows[-2:] == [
        "| `Ends` |  | sampler: ends_at_once cannot be imported (SystemExit: 3). |",
        "| `Silent` |  |  |",
    ]
    for name in ("ENDS", f"{tmp_path}/ends_at_once.py:Ends"):
        with pytest.raises(
            InputError, match=r"ends_at_once(\.py)? cannot be imported \(SystemExit: 3\)"
        ):
            make_sampler(name, make_options())


def test_what_is_installed_is_read_once(monkeypatch):
    """Reading it takes milliseconds, and `Simulation.momenta` makes a sampler at each access."""
    reads: list[str] = []
    monkeypatch.setattr(families, "entry_points", lambda group: reads.append(group) or [])
    families._installed.cache_clear()
    try:
        for name in ("BAOAB", "HMC", "BAOAB"):
            make_sampler(name, make_options())
    finally:
        families._installed.cache_clear()
    assert reads == ["tati_re.samplers"]
