"""What every sampler must do: the checks of `tati_re.testing`, which users run on theirs, for all
that `tati_re.samplers` holds.

Classes are found by themselves: each module of the package, each class with `init` and `step` that
can be made without arguments. A word of each kind (gradient carried over or not) stands for the
splittings.
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
from tati_re.options.families import FAMILIES
from tati_re.options.make import make_options
from tati_re.samplers import (
    MAMS,
    SGHMC,
    CCAdL,
    HamiltonianMonteCarlo,
    Sampler,
    Splitting,
    make_sampler,
)
from tati_re.samplers.skeleton import Skeleton
from tati_re.testing import CHECKS, NumpyEvaluate, NumpyNoise, check_law, rung_of
from tati_re.testing.sampler_in_engine import check_execution
from tati_re.testing.sampler_protocol import PARAMETERS, WALKERS


def sampler_classes() -> list[type]:
    found = {}
    for module_info in pkgutil.iter_modules(tati_re.samplers.__path__, "tati_re.samplers."):
        module = importlib.import_module(module_info.name)
        for name, value in inspect.getmembers(module, inspect.isclass):
            own = value.__module__ == module.__name__ and not getattr(value, "_is_protocol", False)
            method = callable(getattr(value, "init", None)) and callable(
                getattr(value, "step", None)
            )
            if own and method:
                found[name] = value
    return list(found.values())


# A rotation of MAMS in NumPy takes longer than a leapfrog step: half as many as by default.
SAMPLERS = [MAMS(5) if cls is MAMS else cls() for cls in sampler_classes()]
SAMPLERS += [
    Splitting("BADODAB", 0.5, 2.0),
    Splitting("mCCAdL"),
    SGHMC(1.0, "estimate"),
    CCAdL(2.0, None, 3),
]
SAMPLERS += [
    Splitting("ABOBA", 0.7),
    Splitting("GLA1"),
    HamiltonianMonteCarlo(3, 0.0),
    Skeleton(0.5),
]


def named(sampler) -> str:
    return "-".join(map(str, sampler.get_config().values()))


def quick(but: tuple[str, ...]) -> list:
    """All samplers, some of them in the slow suite only."""
    return [
        pytest.param(sampler, marks=[pytest.mark.slow] * (named(sampler) in but))
        for sampler in SAMPLERS
    ]


ITS_LAW_ELSEWHERE = (
    *("TACT-HMC-1.0-None-6.0-0.1-100.0-25", "mCCAdL-1.0-None", "BAOAB-1.0", "SGLD"),
    *("HMC-10-0.5-reject", "MALA", "RWMH", "MAMS-5-0.5-reject-leapfrog", "CCAdL-2.0-None-3"),
)
"""In test_tact_hmc.py: θ at every ξ, and ξ itself. In closed form: mCCAdL and BAOAB in
test_gaussian_law.py, SGLD in test_sampler_law.py, HMC in test_hmc.py, MALA and RWMH in
test_metropolis_samplers.py, MAMS in test_microcanonical.py. CCAdL has it without a window.
"""
COMPILED_LIKE_OTHERS = (
    *(
        "CCAdL-1.0-None-None",
        "SGNHT-1.0-None",
        "SGHMC-1.0-0.0",
        "HMC1-10-0.5-reject",
        "GHMC-1.0-10",
        "RWMH",
        "MALA",
    ),
    *("GLA1-1.0", "ABOBA-0.7", "BADODAB-0.5-2.0", "LM", "Skeleton-1.0", "MCLMC-1.0-leapfrog"),
    *("BAOAB-1.0", "HMC-10-0.5-reject", "TACT-HMC-1.0-None-6.0-0.1-100.0-25"),
)
"""Made of functions that a sampler which stays has: CCAdL with a window has the push and the
thermostat of SGNHT, SGHMC with an estimate has SGHMC, MAMS trajectories, the Metropolis test and
the rotation, mCCAdL all letters, and SGLD the moves without momenta. BAOAB and HMC agree in whole
runs in test_engine.py, and TACT-HMC has a law under XLA in test_tact_hmc.py.
"""
EVERY = pytest.mark.parametrize("sampler", SAMPLERS, ids=named)


def test_every_family_and_the_skeleton_are_found():
    names = {cls.__name__ for cls in sampler_classes()}
    assert {"Splitting", "SGLD", "HamiltonianMonteCarlo", "Skeleton"} <= names
    made = {type(make_sampler(name, make_options())) for name in FAMILIES}
    assert made <= set(sampler_classes())
    assert Skeleton not in made


@EVERY
def test_what_the_docstring_says(sampler):
    assert isinstance(sampler, Sampler)
    assert "Targets exp(-β U)" in inspect.getdoc(type(sampler))
    assert "Source:" in inspect.getdoc(type(sampler))


@EVERY
@pytest.mark.parametrize("what", [what for what in CHECKS if what != "eager, graph and XLA"])
def test_protocol(sampler, what):
    """What `check_sampler` tries, rule by rule."""
    CHECKS[what](sampler)


@EVERY
def test_one_evaluation_starts_it(sampler):
    position = np.ones((WALKERS, PARAMETERS))
    evaluate = NumpyEvaluate(rung_of(np.full(WALKERS, 0.1), numpy=True))
    sampler.init(position, evaluate, NumpyNoise(1))
    assert (evaluate.calls, evaluate.full_calls) == ((0, 1) if sampler.full_batch else (1, 0))


@pytest.mark.parametrize("sampler", quick(ITS_LAW_ELSEWHERE), ids=named)
def test_law_as_users_check_it(sampler):
    """Without knowing the closed form; the closed forms are those of test_sampler_law.py. 300 steps
    of HMC's kind tell a variance within a tenth, or `check_law` refuses.
    """
    explicit = (
        isinstance(sampler, CCAdL) and sampler.friction > 1
    )  # an Euler step that is unstable at 0.2
    tempered = "weight" in getattr(sampler, "label_names", ())  # a tenth of the steps counts
    check_law(
        sampler,
        step_size=0.1 if explicit else 0.4 if tempered else None,
        num_steps=300 if sampler.full_batch and sampler.has_momentum else 1_500,
    )


@EVERY
def test_the_configuration_makes_the_sampler_again(sampler):
    """Through JSON and, for what options can name, through `make_sampler`; each tuning parameter is
    an attribute.
    """
    config = json.loads(json.dumps(sampler.get_config()))
    assert config == sampler.get_config() and config["sampler"] == sampler.name
    for name in set(config) - {"sampler"}:
        assert getattr(sampler, name) == config[name]
    if config["sampler"] not in FAMILIES and not isinstance(sampler, Splitting):
        again = type(sampler)(
            **{name: value for name, value in config.items() if name != "sampler"}
        )
    else:
        options = {"kT": 1.0, "thermostat_bath": "friction", "target_acceptance": None, **config}
        again = make_sampler(config["sampler"], SimpleNamespace(**options))
    assert (
        type(again) is type(sampler)
        and again.get_config() == config
        and vars(again) == vars(sampler)
    )


@pytest.mark.parametrize("sampler", quick(COMPILED_LIKE_OTHERS)[:-2], ids=named)
def test_eager_graph_and_xla_agree(sampler, loop_run):
    """25 steps of the engine's loop with the same keys."""
    check_execution(sampler, loop_run)
