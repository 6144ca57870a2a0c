"""What every sampler must do, whatever its law: one test of the protocol for all that `tati_re.samplers` holds.

Classes are found by themselves: each module of the package, each class with `init` and `step` that can be made without
arguments. A word of each kind (gradient carried over or not) stands for the splittings.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from types import SimpleNamespace

import numpy as np
import pytest

import tati_re.samplers
from tati_re.engine.noise import RecordingNoise, StepNoise, draw_bits
from tati_re.models.backend import tf
from tati_re.options import make_options
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import (
    FAMILIES,
    SGHMC,
    CCAdL,
    HamiltonianMonteCarlo,
    Info,
    Sampler,
    Splitting,
    State,
    make_sampler,
)
from tati_re.samplers.skeleton import Skeleton
from tests.scenarios import NumpyEvaluate, NumpyNoise, quartic, rung_of

WALKERS, PARAMETERS = 5, 3


def sampler_classes() -> list[type]:
    found = {}
    for module_info in pkgutil.iter_modules(tati_re.samplers.__path__, "tati_re.samplers."):
        module = importlib.import_module(module_info.name)
        for name, value in inspect.getmembers(module, inspect.isclass):
            own = value.__module__ == module.__name__ and not getattr(value, "_is_protocol", False)
            method = callable(getattr(value, "init", None)) and callable(getattr(value, "step", None))
            if own and method and not getattr(value, "wraps", False):
                found[name] = value
    return list(found.values())


SAMPLERS = [cls() for cls in sampler_classes()]
SAMPLERS += [Splitting("BADODAB", 0.5, 2.0), Splitting("mCCAdL"), SGHMC(1.0, "estimate"), CCAdL(2.0, None, 3)]
SAMPLERS += [Splitting("ABOBA", 0.7), Splitting("GLA1"), HamiltonianMonteCarlo(3, 0.0), Skeleton(0.5)]
EVERY = pytest.mark.parametrize(
    "sampler", SAMPLERS, ids=lambda sampler: "-".join(map(str, sampler.get_config().values()))
)


def inputs(dtype=np.float64):
    """Positions, the potential, and noise, all in numpy; the positions refuse to be written to."""
    position = np.random.default_rng(0).normal(size=(WALKERS, PARAMETERS)).astype(dtype)
    position.setflags(write=False)
    rung = rung_of(np.linspace(0.05, 0.15, WALKERS), np.linspace(0.5, 1.5, WALKERS), numpy=True)
    return position, NumpyEvaluate(rung), NumpyNoise(1, dtype)


def locked(state):
    """The state, its arrays protected against writing."""
    for name, value in state._asdict().items():
        for array in value if name == "rung" else [value]:
            array.setflags(write=False)
    return state


def started(sampler, dtype=np.float64):
    position, evaluate, noise = inputs(dtype)
    return locked(sampler.init(position, evaluate, noise)), evaluate


def same(first, second) -> bool:
    return all(np.array_equal(a, b) for name, a, b in zip(first._fields, first, second, strict=True) if name != "rung")


def test_every_family_and_the_skeleton_are_found():
    names = {cls.__name__ for cls in sampler_classes()}
    assert {"Splitting", "SGLD", "HamiltonianMonteCarlo", "Skeleton"} <= names
    made = {type(make(make_options())) for make in FAMILIES.values()}
    assert made <= set(sampler_classes())
    assert Skeleton not in made


@EVERY
def test_attributes_and_argument_names(sampler):
    assert isinstance(sampler, Sampler)
    assert list(inspect.signature(type(sampler).init).parameters) == ["self", "position", "evaluate", "noise"]
    assert list(inspect.signature(type(sampler).step).parameters) == ["self", "state", "evaluate", "noise"]
    assert isinstance(sampler.name, str) and sampler.name
    for flag in ("has_momentum", "metropolis", "full_batch", "current"):
        assert isinstance(getattr(sampler, flag), bool), flag
    assert isinstance(sampler.gradients_per_step, float) and sampler.gradients_per_step > 0
    assert "Targets exp(-β U)" in inspect.getdoc(type(sampler))
    assert "Source:" in inspect.getdoc(type(sampler))


@EVERY
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_states_shapes_and_types(sampler, dtype):
    """A NamedTuple with the fields of State, rung last; arrays of the parameters' type, energies in float64; the same
    after a step."""
    state, evaluate = started(sampler, dtype)
    after, info = sampler.step(state, evaluate, NumpyNoise(2, dtype))
    for now in (state, after):
        assert isinstance(now, tuple) and type(now) is type(state)
        assert set(State._fields) <= set(now._fields) and now._fields[-1] == "rung"
        assert ("momentum" in now._fields) == sampler.has_momentum
        for name in ("position", "gradient", *(["momentum"] if sampler.has_momentum else [])):
            assert (getattr(now, name).shape, getattr(now, name).dtype) == ((WALKERS, PARAMETERS), dtype), name
        for name in ("potential", "loss", "log_prior"):
            assert (getattr(now, name).shape, getattr(now, name).dtype) == ((WALKERS,), np.float64), name
        assert now.rung is evaluate.rung
    assert isinstance(info, Info)
    assert (info.acceptance is not None) == (info.energy_change is not None) == sampler.metropolis
    if sampler.metropolis:
        assert info.acceptance.shape == info.energy_change.shape == (WALKERS,)
        assert ((info.acceptance >= 0) & (info.acceptance <= 1)).all()


@EVERY
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types_in_tensorflow(sampler, dtype):
    """The same in TensorFlow with float32 parameters: rungs are float64 and must not raise or change a type."""
    potential = FunctionPotential(quartic, PARAMETERS, dtype=dtype)
    evaluate = potential.bind(rung_of(np.linspace(0.05, 0.15, WALKERS)))
    noise = RecordingNoise(potential.dtype)
    state = sampler.init(tf.ones((WALKERS, PARAMETERS), dtype), evaluate, noise)
    after, _ = sampler.step(state, evaluate, noise)
    for before, now in zip(state[:-1], after[:-1], strict=True):
        assert (before.dtype, before.shape) == (now.dtype, now.shape)
    assert after.position.dtype == after.gradient.dtype == dtype
    assert after.potential.dtype == after.loss.dtype == after.log_prior.dtype == tf.float64


@EVERY
def test_pure(sampler):
    """Inputs are protected against writing and unchanged; the same inputs give the same outputs, bit for bit; nothing
    is kept in the sampler."""
    before = dict(vars(sampler))
    state, evaluate = started(sampler)
    copies = [np.copy(value) for value in state[:-1]]
    first, _ = sampler.step(state, evaluate, NumpyNoise(2))
    sampler.step(first, evaluate, NumpyNoise(3))
    again, _ = sampler.step(state, evaluate, NumpyNoise(2))
    other, _ = sampler.step(state, evaluate, NumpyNoise(4))
    assert same(first, again) and not same(first, other)
    assert all(np.array_equal(copy, value) for copy, value in zip(copies, state[:-1], strict=True))
    assert vars(sampler) == before
    assert same(sampler.init(*inputs()), sampler.init(*inputs()))


@EVERY
def test_noise_is_asked_for_alike_in_each_step(sampler):
    """The same kinds and shapes each time, `(walkers, ...)` or `()`, whatever the state."""
    state, evaluate = started(sampler)
    requests = []
    for seed in range(3):
        noise = NumpyNoise(seed)
        state, _ = sampler.step(state, evaluate, noise)
        requests.append(noise.asked)
    assert requests[0] == requests[1] == requests[2] != []
    assert all(shape == () or shape[0] == WALKERS for _, shape in requests[0])


@EVERY
def test_walkers_do_not_feel_each_other(sampler):
    """Another start of walker 0 changes nothing of the others."""
    position, evaluate, noise = inputs()
    moved = position.copy()
    moved[0] += 0.3
    ends = []
    for start, seeded in ((position, noise), (moved, NumpyNoise(1))):
        state = sampler.init(start, evaluate, seeded)
        for seed in range(3):
            state, _ = sampler.step(state, evaluate, NumpyNoise(seed))
        ends.append(state)
    for name in set(ends[0]._fields) - {"rung"}:
        np.testing.assert_array_equal(getattr(ends[0], name)[1:], getattr(ends[1], name)[1:])
    assert (ends[0].position[0] != ends[1].position[0]).any()


@EVERY
def test_gradients_are_counted_and_current_where_it_says_so(sampler):
    """`full_batch` methods ask for all data and nothing else, others never; the count over steps is
    `gradients_per_step`."""
    state, evaluate = started(sampler)
    asked = (lambda: evaluate.full_calls) if sampler.full_batch else (lambda: evaluate.calls)
    assert evaluate.calls + evaluate.full_calls == asked() == 1
    num_steps = 400 if sampler.metropolis else 10
    before = asked()
    for seed in range(num_steps):
        state, _ = sampler.step(state, evaluate, NumpyNoise(seed))
        if sampler.current:
            np.testing.assert_allclose(state.gradient, state.position**3 + state.position, rtol=0, atol=1e-12)
            np.testing.assert_allclose(state.potential, quartic(state.position), rtol=0, atol=1e-12)
    assert evaluate.calls + evaluate.full_calls == asked()
    # Random trajectory lengths: 400 of them give the mean within 8 % (5.5 standard errors); fixed counts agree exactly.
    assert (asked() - before) / num_steps == pytest.approx(
        sampler.gradients_per_step, rel=0.09 if sampler.metropolis else 0
    )


@EVERY
def test_the_configuration_makes_the_sampler_again(sampler):
    """Through JSON and, for what options can name, through `make_sampler`; each tuning parameter is an attribute."""
    config = json.loads(json.dumps(sampler.get_config()))
    assert config == sampler.get_config() and config["sampler"] == sampler.name
    for name in set(config) - {"sampler"}:
        assert getattr(sampler, name) == config[name]
    if isinstance(sampler, Skeleton):
        again = Skeleton(**{name: value for name, value in config.items() if name != "sampler"})
    else:
        again = make_sampler(config["sampler"], SimpleNamespace(**config))
    assert type(again) is type(sampler) and again.get_config() == config and vars(again) == vars(sampler)


@EVERY
def test_numpy_and_tensorflow_agree(sampler):
    """Ten steps on the same numbers in numpy and eagerly, float64, to 1e-12."""
    state, evaluate = started(sampler)
    potential = FunctionPotential(quartic, PARAMETERS)
    tensor_rung = type(evaluate.rung)(*map(tf.constant, evaluate.rung))
    bound = potential.bind(tensor_rung, clock=type(evaluate.clock)(*map(tf.constant, evaluate.clock)))
    bound.gradient_variance = evaluate.gradient_variance
    recording = RecordingNoise(tf.float64)
    tensors = type(state)(*(tf.constant(value) for value in state[:-1]), rung=tensor_rung)
    sampler.step(tensors, bound, recording)
    bits = draw_bits(recording.draws, 3, "step", 1, 10)
    for i in range(10):
        noise = StepNoise(recording.draws, [values[i] for values in bits])
        tensors, _ = sampler.step(tensors, bound, noise)
        given = Given(StepNoise(recording.draws, [values[i] for values in bits]))
        state, _ = sampler.step(state, evaluate, given)
    for name in set(state._fields) - {"rung"}:
        np.testing.assert_allclose(getattr(state, name), getattr(tensors, name), rtol=0, atol=1e-12, err_msg=name)


class Given:
    """The numbers of another noise as numpy arrays."""

    def __init__(self, noise) -> None:
        self.noise = noise

    def normal(self, shape):
        return self.noise.normal(shape).numpy()

    def uniform(self, shape):
        return self.noise.uniform(shape).numpy()


@pytest.mark.parametrize(
    "sampler", SAMPLERS[:-2], ids=lambda sampler: "-".join(map(str, sampler.get_config().values()))
)
def test_eager_graph_and_xla_agree(sampler, loop_run):
    """25 steps of the engine's loop with the same keys: a graph within 1e-12 of eager, XLA (its own erfinv) within
    1e-9; one trace."""
    eager, graph, xla = (loop_run(sampler, execution) for execution in ("eager", "graph", "xla"))
    for run, tolerance in ((graph, 1e-12), (xla, 1e-9)):
        assert run.traces == 1
        assert run.rows.shape == eager.rows.shape and len(run.rows) == 5
        np.testing.assert_allclose(run.rows, eager.rows, rtol=0, atol=tolerance)
        for name, value in run.fields.items():
            np.testing.assert_allclose(value, eager.fields[name], rtol=0, atol=tolerance, err_msg=name)
    assert eager.traces == 0
