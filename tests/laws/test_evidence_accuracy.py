"""log Z within 0.05 by every method, at the sizes that the userguide names, and the error bar of
populations.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

from tati_re.evidence import bayes_factors, estimated, log_evidence, log_evidences, sample_energies
from tati_re.evidence.energies import Energies
from tati_re.evidence.grids import trapezoid
from tati_re.evidence.smc import combined, counted_moves
from tati_re.launch.starts import descended
from tests import regression as known
from tests.evidence.test_evidence import FAST, Z, linear, regression

WITHIN = 0.05
SEQUENTIAL = {"evidence_sampling": "sequential", **FAST}


def close(found, exact: float) -> bool:
    """Within 0.05 and 5.5 standard errors, with an error bar that makes the first no luck."""
    print(found.method, round(found.log_z - exact, 4), "±", round(found.error, 4), found.notes)
    return abs(found.log_z - exact) < min(Z * found.error, WITHIN) and found.error < WITHIN / 3


def every(energies: Energies, step: int) -> Energies:
    """Each k-th point of a path; evenly spaced points stay so."""
    return energies._replace(
        path=energies.path[::step],
        values=energies.values[::step],
        acceptance=energies.acceptance[::step],
    )


@pytest.mark.slow
def test_the_regression_by_quadrature_over_an_even_path():
    """A trapezoid with 81 points is off by 0.015 by itself; corrected, 41 are enough."""
    grid = trapezoid(81)
    options = {
        "evidence_grid": "trapezoid",
        "evidence_nodes": 81,
        "num_walkers": 500,
        "num_steps": 75,
    }
    energies = sample_energies(regression(), **options, **SEQUENTIAL)
    assert close(estimated(energies, "thermodynamic_integration", grid), known.LOG_Z[3])
    half = estimated(every(energies, 2), "thermodynamic_integration", trapezoid(41, corrected=True))
    assert close(half, known.LOG_Z[3])
    assert close(estimated(every(energies, 2), "stepping_stone"), known.LOG_Z[3])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("thermodynamic_integration", {"num_walkers": 1600, "num_steps": 100, **SEQUENTIAL}),
        ("frenkel_ladd", {"num_walkers": 32, "num_steps": 200, "evidence_nodes": 8, **FAST}),
        (
            "mbar",
            {
                "evidence_grid": "trapezoid",
                "evidence_nodes": 10,
                "num_walkers": 1000,
                "num_steps": 100,
                **SEQUENTIAL,
            },
        ),
        (
            "smc",
            {
                "num_populations": 32,
                "num_particles": 440,
                "num_moves": 10,
                "particle_fraction": 0.5,
                **FAST,
            },
        ),
    ],
)
def test_the_regression_by_every_other_method(method, options):
    if method == "mbar":
        pytest.importorskip("pymbar", reason="the extra evidence brings pymbar")
    assert close(log_evidence(regression(), method, **options), known.LOG_Z[3])


@pytest.mark.slow
def test_two_features_are_picked_from_the_prior():
    """-67.081, -15.901 and -18.075, each within 0.05."""
    options = {
        "evidence_grid": "trapezoid",
        "evidence_nodes": 10,
        "num_walkers": 1000,
        "num_steps": 80,
        **SEQUENTIAL,
    }
    found = {
        count: log_evidence(regression(count), "stepping_stone", **options) for count in known.LOG_Z
    }
    assert all(close(found[count], exact) for count, exact in known.LOG_Z.items())
    assert list(bayes_factors(found)["model"]) == [2, 3, 1]


@pytest.mark.slow
def test_a_gaussian_in_twenty_dimensions_by_every_method():
    """y_i = θ_i + noise."""
    targets = np.random.default_rng(2).normal(size=20)
    sim = linear(np.eye(20), targets, noise_std=0.5, prior_std=1.0, seed=3)
    exact = known.closed_form(np.eye(20), targets, 0.5, 1.0)
    methods = ["thermodynamic_integration", "stepping_stone", "mbar", "frenkel_ladd", "smc"]
    sizes = {"num_walkers": 3000, "num_steps": 100, "evidence_nodes": 12, "num_populations": 32}
    smc = {"num_particles": 440, "num_moves": 10}
    found = log_evidences(sim, methods, **sizes, **smc, **SEQUENTIAL)
    for each in found:
        assert close(each, exact)
    assert not found.disagreements


@pytest.mark.slow
def test_the_error_bar_of_populations_covers_the_truth():
    """20 runs of 16 populations, cooled together: 0.44 to 1.67 but for one time in 10,000."""
    found = log_evidence(
        regression(),
        "smc",
        num_populations=320,
        num_particles=24,
        num_moves=4,
        particle_fraction=0.5,
        **FAST,
    )
    scores = []
    for group in np.split(found.repeats, 20):
        log_z, error = combined(group)
        scores.append((log_z - known.LOG_Z[3]) / error)
    print(np.round(scores, 2), found)
    assert 0.44 < np.sqrt(np.mean(np.square(scores))) < 1.67
    assert abs(found.log_z - known.LOG_Z[3]) < min(Z * found.error, WITHIN)


@pytest.mark.slow
def test_the_error_bar_of_populations_covers_the_truth_over_twenty_seeds():
    scores = []
    for seed in range(20):
        sizes = {"num_populations": 16, "num_particles": 24, "num_moves": 4}
        found = log_evidence(regression(seed=seed), "smc", **sizes, **FAST)
        scores.append((found.log_z - known.LOG_Z[3]) / found.error)
    print(np.round(scores, 2))
    assert 0.44 < np.sqrt(np.mean(np.square(scores))) < 1.67


@pytest.mark.slow
def test_populations_that_are_not_moved_are_caught(monkeypatch):
    """Members that stay where they were resampled, of which fewer and fewer are different."""
    from tati_re.evidence.chains import Chains

    right = Chains._moved

    def stuck(self, position, rung, *rest):
        return right(self, position, rung._replace(step_size=1e-9 * rung.step_size), *rest)

    monkeypatch.setattr(Chains, "_moved", stuck)
    found = log_evidence(
        regression(), "smc", num_particles=24, num_moves=2, **FAST, target_acceptance=0.99
    )
    # Their mean stays right by the few that were lucky at once.
    assert np.median(found.repeats) < known.LOG_Z[3] - 5


def test_moves_count_as_far_as_memory_goes():
    assert counted_moves(1000, 7) == 7
    assert counted_moves(100 * 2**20, 7) == 2
    assert counted_moves(2**40, 7) == 1


def test_repeats_are_not_taken_for_functions_traced_again(caplog):
    """TensorFlow would say so at the sixth."""
    sim = regression(1)
    potential = sim.system.potential(sim.options, {}, copies=1)
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        for _ in range(7):
            descended(potential, np.zeros((1, 1)), (), 2, "graph")
    assert "retracing" not in caplog.text


@pytest.mark.slow
def test_springs_find_all_three_in_a_few_draws():
    for count, exact in known.LOG_Z.items():
        sizes = {"num_walkers": 80, "num_steps": 80, "evidence_nodes": 6}
        assert close(log_evidence(regression(count), "frenkel_ladd", **sizes, **SEQUENTIAL), exact)
