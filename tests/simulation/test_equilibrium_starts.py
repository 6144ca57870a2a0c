"""Runs with certify="teacher": modes that no chain found are noticed; where none is, chains agree."""

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.core.backend import tf
from tati_re.launch.equilibrium import _with_targets
from tati_re.likelihoods.log_prob import normal, total
from tati_re.supports import real

MANY = 20
NARROW = 0.1
INPUTS = np.linspace(-1, 1, 8)
CHAINS = {"num_walkers": 4, "seed": 3, "verbose": 0}
HMC = {
    "sampler": "HMC",
    "num_leapfrog_steps": 8,
    "num_steps": 2000,
    "num_burnin_steps": 100,
    "trajectory_every": 4,
    "until": None,
    "certify": "teacher",
}


def two_modes(x):
    """Two Gaussians of equal mass, 20 widths apart in each coordinate."""
    modes = [-0.5 * tf.reduce_sum((x - center) ** 2, -1) for center in (-10.0, 10.0)]
    return -tf.reduce_logsumexp(tf.stack(modes), axis=0)


def draw_of_two_modes(rng):
    return rng.normal(size=2) + rng.choice([-10.0, 10.0])


def concentric(x):
    """Two Gaussians of equal mass about the same center, one ten times narrower."""
    square = tf.reduce_sum(x * x, -1)
    narrow = -0.5 * square / NARROW**2 - MANY * np.log(NARROW)
    return -tf.reduce_logsumexp(tf.stack([-0.5 * square, narrow]), axis=0)


def draw_of_concentric(rng):
    return rng.normal(size=MANY) * rng.choice([1.0, NARROW])


def gaussian(x):
    return 0.5 * tf.reduce_sum(x * x, -1)


def line(slope, shift, x, y):
    return total(normal(y, shift + slope * x, 1.0), normal(slope), normal(shift))


def simulated_line(rng):
    slope = rng.normal()
    shift = rng.normal()
    y = shift + slope * INPUTS + rng.normal(size=len(INPUTS))
    return {"slope": slope, "shift": shift}, {"x": INPUTS, "y": y}


def row_of(run):
    table = run.certificate.detailed().set_index("check")
    return table.loc["equilibrium starts"]


@pytest.mark.slow
def test_a_second_mode_is_noticed():
    """The probability that all four exact draws lie in the mode of the chains is 1/16."""
    left = {"parameters": [-10.0, -10.0], "simulate": draw_of_two_modes}
    run = Simulation(potential=two_modes, dimension=2, **left, **CHAINS).sample(
        step_size=0.3, **HMC
    )
    assert row_of(run)["verdict"] == "failed"
    rows = run.certificate.set_index("check")
    assert rows.loc["R-hat", "verdict"] == "passed"
    assert run.manifest.teacher.draws == 4


@pytest.mark.slow
def test_a_narrow_part_about_the_same_center_is_noticed():
    starts = {"walker_start": "jitter", "walker_jitter": 1.0, "simulate": draw_of_concentric}
    run = Simulation(potential=concentric, dimension=MANY, **starts, **CHAINS).sample(
        step_size=0.1, **HMC
    )
    assert row_of(run)["verdict"] == "failed"
    rows = run.certificate.set_index("check")
    assert rows.loc["R-hat", "verdict"] == "passed"


@pytest.mark.slow
def test_chains_of_one_mode_agree():
    draws = {"simulate": lambda rng: rng.normal(size=MANY)}
    run = Simulation(potential=gaussian, dimension=MANY, **draws, **CHAINS).sample(
        step_size=0.3, **HMC
    )
    assert row_of(run)["verdict"] == "passed"


@pytest.mark.slow
def test_named_parameters_agree_on_simulated_data():
    _, data = simulated_line(np.random.default_rng(1))
    supports = {"slope": real(), "shift": real()}
    sim = Simulation(log_density=line, parameters=supports, data=data, **CHAINS)
    run = sim.sample(step_size=0.2, simulate=simulated_line, **HMC)
    assert row_of(run)["verdict"] == "passed"
    assert run.manifest.teacher.draws == 1


@pytest.mark.slow
def test_a_network_agrees_on_simulated_targets():
    inputs = np.random.default_rng(0).normal(size=(20, 1))
    network = {"hidden": [], "noise_std": 0.3, "loss": "gaussian", "standardize": "none"}
    sim = Simulation(data=(inputs, 2 * inputs[:, 0]), **network, **CHAINS)
    run = sim.sample(step_size=0.05, **HMC)
    assert row_of(run)["verdict"] == "passed"
    assert sim.dataset.targets[:3] == pytest.approx(2 * inputs[:3, 0])


def density(**changes):
    return Simulation(potential=gaussian, dimension=2, **{**CHAINS, **changes})


def network(**changes):
    inputs = np.linspace(-1, 1, 6)[:, None]
    return Simulation(data=(inputs, inputs[:, 0]), hidden=[2], **{**CHAINS, **changes})


def fails(rng):
    raise ValueError("no draws")


@pytest.mark.parametrize(
    ("make", "changes", "words"),
    [
        (density, {}, "needs exact draws"),
        (density, {"simulate": 3}, "this is not a function"),
        (density, {"simulate": fails}, "the function fails"),
        (density, {"simulate": lambda rng: rng.normal(size=3)}, "wrong shape"),
        (density, {"simulate": lambda rng: np.full(2, np.nan)}, "not all are finite"),
        (density, {"simulate": draw_of_two_modes, "certify": "none"}, "used by certify alone"),
        (density, {"simulate": draw_of_two_modes, "temperature": 2.0}, "at temperature 1 only"),
        (network, {"prior": "none"}, "a prior that can be normalized"),
        (network, {"loss": "mean_absolute_percentage_error"}, "not a likelihood"),
        (network, {"temperature": 0.5}, "at temperature 1 only"),
    ],
)
def test_what_has_no_exact_draw_is_refused(make, changes, words, tmp_path):
    at_start = {name: changes[name] for name in ("prior", "loss") if name in changes}
    of_call = {name: value for name, value in changes.items() if name not in at_start}
    sim = make(**at_start)
    call = {"sampler": "HMC", "step_size": 0.1, "num_steps": 10, "certify": "teacher", **of_call}
    with pytest.raises(InputError, match=words):
        sim.sample(output=tmp_path / "run", **call)
    assert not (tmp_path / "run" / "manifest.toml").exists()


def test_simulated_targets_keep_the_units_of_the_data():
    """A likelihood takes its units from the targets, and simulated targets have other moments."""
    targets = 50.0 + 20.0 * INPUTS
    sim = Simulation(
        data=(INPUTS[:, None], targets), loss="student_t", hidden=[3], num_classes=0, verbose=0
    )
    simulated = _with_targets(sim.system, 3.0 * sim.system.examples.targets)
    own = sim.system.potential(sim.options, copies=1).loss.objective
    assert simulated.potential(sim.options, copies=1).loss.objective.get_config() == (
        own.get_config()
    )
