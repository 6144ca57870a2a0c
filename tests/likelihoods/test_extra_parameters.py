"""Parameters of a likelihood besides the network's: noise of each target, degrees of freedom."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tati_re
from tati_re import InputError, Simulation
from tati_re.likelihoods import LaplaceNoise, StudentTNoise
from tati_re.likelihoods.gaussian import GaussianNoise
from tati_re.sklearn import BayesianRegressor
from tati_re.testing import check_likelihood

RANDOM = np.random.default_rng(17)
N = 60
X = RANDOM.standard_normal((N, 2))
SLOPES = np.array([[1.0, -0.5], [0.3, 0.8]])
NOISE = np.array([0.1, 1.0])
Y = X @ SLOPES + NOISE * RANDOM.standard_normal((N, 2))
LINEAR = {"dtype": "float64", "seed": 3, "verbose": 0, "standardize": "none", "use_bias": False}
VALUES = 40 + 7 * RANDOM.standard_normal((200, 1))


@pytest.mark.parametrize(
    "likelihood",
    [
        GaussianNoise("sampled"),
        StudentTNoise("sampled"),
        StudentTNoise("sampled", "sampled"),
        StudentTNoise(5.0, 3.0),
        LaplaceNoise("sampled"),
    ],
    ids=repr,
)
def test_the_protocol_holds(likelihood):
    check_likelihood(likelihood, VALUES)


@pytest.mark.parametrize(
    "likelihood",
    [GaussianNoise("by_target", ["a", "b"]), StudentTNoise("sampled", "by_target", ["a", "b"])],
    ids=repr,
)
def test_the_protocol_holds_of_two_targets(likelihood):
    check_likelihood(likelihood, np.hstack([VALUES, 0.1 * VALUES[::-1]]))


class Swapped(GaussianNoise):
    """A wrong variant: each target has the noise of the other."""

    def loss(self, targets, outputs, extra=None):
        return super().loss(targets, outputs, extra[::-1])


def test_swapped_noise_is_caught():
    with pytest.raises(AssertionError):
        check_likelihood(Swapped("by_target", ["a", "b"]), np.hstack([VALUES, VALUES[::-1]]))


def minus_log_prior_of_noise(log_noise: float, scale: float) -> float:
    """Of 1/σ² ~ Gamma(1, rate scale²), as a density of log σ."""
    variance = np.exp(2 * log_noise)
    return -(stats.invgamma(1.0, scale=scale**2).logpdf(variance) + np.log(2 * variance))


def test_the_potential_of_a_noise_of_each_target():
    sim = Simulation(data=(X, Y), loss="gaussian", noise_std="by_target", **LINEAR)
    assert sim.parameter_names()[-2:] == ["log_noise_std[0]", "log_noise_std[1]"]
    deviations = Y.std(axis=0)
    np.testing.assert_allclose(sim.parameters[-2:], np.log(deviations), rtol=1e-6)
    theta = np.random.default_rng(1).normal(0, 0.5, 6)
    sim.parameters = theta
    noise = np.exp(theta[4:])
    expected = -stats.norm(X @ theta[:4].reshape(2, 2), noise).logpdf(Y).sum()
    expected -= stats.norm(0, 1).logpdf(theta[:4]).sum()
    for number in range(2):
        expected += minus_log_prior_of_noise(theta[4 + number], 0.3 * deviations[number])
    np.testing.assert_allclose(sim.potential(), expected, rtol=1e-6)


def test_each_target_has_its_own_noise(tmp_path):
    names = ["cold", "hot"]
    import pandas as pd

    table = pd.DataFrame(np.hstack([X, Y]), columns=["u", "v", *names])
    sim = Simulation(
        data=table,
        label_columns=names,
        noise_std="by_target",
        output=str(tmp_path / "run"),
        num_walkers=4,
        test_fraction=0.2,
        **LINEAR,
    )
    run = sim.sample(sampler="HMC", step_size=0.03, num_leapfrog_steps=10, num_steps=600)
    found = [run.run_info[f"noise_std[{name}]"].to_numpy()[-800:].mean() for name in names]
    # 48 rows: the deviation of σ is σ/sqrt(96), a tenth.
    np.testing.assert_allclose(found, NOISE, rtol=0.5)
    again = tati_re.load(tmp_path / "run", data=table)
    prediction = again.predict()
    np.testing.assert_allclose(prediction.noise_std.mean(axis=0), found, rtol=0.2)
    by_target = prediction.by_target()
    assert list(by_target.index) == names
    squares = (prediction.targets - prediction.mean) ** 2
    np.testing.assert_allclose(by_target["rmse"], np.sqrt(squares.mean(axis=0)))
    inside = (prediction.lower <= prediction.targets) & (prediction.targets <= prediction.upper)
    np.testing.assert_allclose(by_target["coverage"], inside.mean(axis=0))


def test_the_potential_of_student_t_with_sampled_width_and_degrees():
    sim = Simulation(
        data=(X, Y[:, 1]),
        loss="student_t",
        noise_std="sampled",
        degrees_of_freedom="sampled",
        **LINEAR,
    )
    assert sim.parameter_names()[-2:] == ["log_noise_std", "log_degrees_of_freedom"]
    theta = np.array([0.4, -0.2, 0.3, 1.5])
    sim.parameters = theta
    y = Y[:, 1]
    width = y.std() * np.exp(theta[2])
    center = y.mean() + y.std() * (X @ theta[:2])
    degrees = 2 + np.exp(theta[3])
    expected = -stats.t(degrees, center, width).logpdf(y).sum()
    expected -= stats.norm(0, 1).logpdf(theta[:2]).sum()
    expected += minus_log_prior_of_noise(theta[2], 0.3)
    expected -= stats.gamma(2.0, scale=10.0).logpdf(degrees - 2) + theta[3]
    np.testing.assert_allclose(sim.potential(), expected, rtol=1e-6)


def test_student_t_finds_heavy_tails(tmp_path):
    """Columns are in the units of the data; predictions from the folder have the law of the run."""
    random = np.random.default_rng(5)
    x = random.standard_normal((300, 1))
    y = 50 + 10 * (x[:, 0] + 0.2 * random.standard_t(2.5, 300))
    degrees = {}
    for name, targets in {
        "heavy": y,
        "normal": 50 + 10 * x[:, 0] + 2 * random.normal(size=300),
    }.items():
        sim = Simulation(
            data=(x, targets),
            loss="student_t",
            noise_std="sampled",
            degrees_of_freedom="sampled",
            output=str(tmp_path / name),
            num_walkers=4,
            **LINEAR,
        )
        run = sim.sample(sampler="HMC", step_size=0.02, num_leapfrog_steps=10, num_steps=500)
        kept = run.run_info[run.run_info["step"] > 200]
        degrees[name] = np.median(kept["degrees_of_freedom"])
        if name == "heavy":
            assert 1.3 < kept["noise_std"].mean() < 3.0
    assert degrees["heavy"] < 6 < degrees["normal"]
    found = tati_re.load(tmp_path / "heavy").predict(x[:20], y[:20])
    assert np.isfinite(found.log_density).all()
    assert ((found.lower < found.mean) & (found.mean < found.upper)).all()


@pytest.mark.parametrize(
    "loss",
    [
        {"noise_std": "by_target"},
        {"loss": "student_t", "noise_std": "sampled", "degrees_of_freedom": "sampled"},
    ],
    ids=["gaussian", "student_t"],
)
def test_a_run_goes_on_byte_for_byte(tmp_path, loss):
    given = LINEAR | loss | {"data": (X, Y), "record_every": 1, "trajectory_every": 1}
    moves = {"sampler": "BAOAB", "step_size": 0.01}
    whole = Simulation(**given).sample(num_steps=8, output=str(tmp_path / "whole"), **moves)
    Simulation(**given).sample(num_steps=5, output=str(tmp_path / "half"), **moves)
    half = Simulation.resume(str(tmp_path / "half"), num_steps=8, data=(X, Y))
    np.testing.assert_array_equal(half.trajectory, whole.trajectory)
    extra = [name for name in whole.trajectory.columns if name.startswith("log_")]
    assert len(extra) == 2


def test_one_width_of_several_targets_counts_in_their_deviations():
    sim = Simulation(data=(X, Y * [1.0, 100.0]), loss="laplace", noise_std="sampled", **LINEAR)
    assert sim.parameter_names()[-1] == "log_noise_std"
    theta = np.array([0.3, 0.1, -0.2, 0.4, -0.5])
    sim.parameters = theta
    scaled = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    width = np.exp(theta[4])
    expected = -stats.laplace(X @ theta[:4].reshape(2, 2), width).logpdf(scaled).sum()
    expected += N * np.log(Y.std(axis=0) * [1.0, 100.0]).sum()
    expected -= stats.norm(0, 1).logpdf(theta[:4]).sum()
    expected += minus_log_prior_of_noise(theta[4], 0.3)
    np.testing.assert_allclose(sim.potential(), expected, rtol=1e-6)


def test_the_estimator_samples_extra_parameters():
    given = {"num_steps": 60, "members": 2, "seed": 1, "verbose": 0, "hidden": (3,)}
    for loss in (
        {"loss": "student_t", "noise_std": "sampled", "degrees_of_freedom": "sampled"},
        {"noise_std": "by_target"},
    ):
        estimator = BayesianRegressor(**given, **loss).fit(X, Y)
        mean, std = estimator.predict(X, return_std=True)
        assert mean.shape == std.shape == Y.shape
        assert estimator.sample_posterior(X[:3], noise=True).shape[1:] == (3, 2)


REFUSED = [
    ({"loss": "gaussian", "noise_std": "predicted"}, "heteroscedastic_gaussian"),
    ({"loss": "gamma", "noise_std": "sampled"}, "Gaussian likelihood"),
    ({"loss": "huber", "noise_std": "by_target"}, "Gaussian likelihood"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_noise_that_no_loss_has_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        Simulation(data=(X, np.abs(Y) + 0.1), hidden=[2], **LINEAR, **options).potential()


def test_degrees_of_freedom_shape_the_system():
    sim = Simulation(
        data=(X, Y[:, 0]), loss="student_t", degrees_of_freedom="sampled", hidden=[2], **LINEAR
    )
    with pytest.raises(InputError, match="degrees_of_freedom: sampled adds a parameter"):
        sim.sample(degrees_of_freedom=4.0, num_steps=2)
