"""The noise of a Gaussian likelihood as a parameter: its priors, its posterior in closed form, and
what sees it.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import polygamma, psi

from tati_re import InputError, Simulation, priors
from tati_re.core.backend import keras, tf
from tati_re.landscape.surface import Surface
from tati_re.options.make import options_from_flags
from tati_re.posterior.noise_level import NoisePrior
from tests.scenarios import TOLERANCE
from tests.scripts import example
from tests.systems import tables

GENERATOR = np.random.default_rng(4)
X = GENERATOR.standard_normal((20, 2))
Y = X @ [1.0, -2.0] + 0.5 + 0.4 * GENERATOR.standard_normal(20)
DESIGN = np.concatenate([X, np.ones((20, 1))], axis=1)
SQUARES = float(np.sum((Y - DESIGN @ np.linalg.lstsq(DESIGN, Y, rcond=None)[0]) ** 2))
OPTIONS = {
    "data": (X, Y),
    "noise_std": "sampled",
    "dtype": "float64",
    "verbose": 0,
    "seed": 1,
    "execution": "graph",
}
GAMMA = {"noise_prior": "inverse_gamma", "noise_prior_shape": 3.0, "noise_prior_scale": 0.5}
PRIORS = {
    "half_normal": (NoisePrior("half_normal", 0.7), stats.halfnorm(scale=0.7)),
    "inverse_gamma": (NoisePrior("inverse_gamma", 0.7, 2.5), stats.invgamma(2.5, scale=2.5 * 0.49)),
    "log_normal": (NoisePrior("log_normal", 0.7, 0.4), stats.lognorm(0.4, scale=0.7)),
}


def density(prior: NoisePrior, s: np.ndarray) -> np.ndarray:
    return np.exp(prior.log_prob(tf.constant(s[:, None])).numpy())


@pytest.mark.parametrize("name", PRIORS)
def test_priors_of_the_noise_are_densities_of_its_logarithm(name):
    """dσ/ds = σ, dσ²/ds = 2σ²; without that factor they would not integrate to one."""
    prior, law = PRIORS[name]
    s = np.linspace(-9.0, 5.0, 14_001)
    sigma = np.exp(s)
    expected = (
        law.pdf(sigma**2) * 2 * sigma**2 if name == "inverse_gamma" else law.pdf(sigma) * sigma
    )
    np.testing.assert_allclose(density(prior, s), expected, rtol=1e-9, atol=1e-200)
    assert integrate.simpson(density(prior, s), x=s) == pytest.approx(1.0, abs=1e-3)
    assert abs(integrate.simpson(density(prior, s) / sigma, x=s) - 1.0) > 0.05
    position = tf.constant(np.array([[-0.8], [0.1], [0.4]]))
    with tf.GradientTape() as tape:
        tape.watch(position)
        total = -tf.reduce_sum(prior.log_prob(position))
    np.testing.assert_allclose(prior.gradient(position), tape.gradient(total, position), rtol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
def test_draws_of_the_noise_follow_its_prior(name):
    prior, law = PRIORS[name]
    normal = tf.constant(np.random.default_rng(2).standard_normal((20_000, 1)))
    for s in (prior.sample((20_000, 1), 3), prior.from_normal(normal).numpy()):
        values = np.exp(s[:, 0]) ** (2 if name == "inverse_gamma" else 1)
        assert stats.kstest(values, law.cdf).pvalue > 1e-4
        assert stats.kstest(1.1 * values, law.cdf).pvalue < 1e-4
    z = np.linspace(-6, 6, 25)
    made = np.exp(prior.from_normal(tf.constant(z[:, None])).numpy()[:, 0]) ** (
        2 if name == "inverse_gamma" else 1
    )
    np.testing.assert_allclose(made, law.ppf(stats.norm.cdf(z)), rtol=1e-6)


def test_the_potential_counts_the_noise():
    """U = N log σ + sum of squares/(2σ²) + ... - log prior, and its slope."""
    sim = Simulation(**OPTIONS, num_walkers=3, prior_std=2.0, **GAMMA)
    assert sim.parameter_names()[-1] == "log_noise_std" and sim.num_parameters() == 4
    assert sim.parameters[0, -1] == pytest.approx(np.log(0.5))
    theta = np.random.default_rng(1).normal(0, 0.5, (3, 4))

    def potential(theta) -> float:
        sigma = np.exp(theta[3])
        likelihood = stats.norm(DESIGN @ theta[:3], sigma).logpdf(Y).sum()
        noise = stats.invgamma(3.0, scale=3.0 * 0.25).logpdf(sigma**2) + np.log(2 * sigma**2)
        return -(likelihood + stats.norm(0, 2.0).logpdf(theta[:3]).sum() + noise)

    sim.parameters = theta
    np.testing.assert_allclose(sim.potential(), [potential(row) for row in theta], rtol=1e-12)
    steps = 1e-5 * np.eye(4)
    slopes = [[(potential(row + e) - potential(row - e)) / 2e-5 for e in steps] for row in theta]
    np.testing.assert_allclose(sim.gradients(), slopes, rtol=1e-7, atol=1e-7)
    for how in ("vectorized", "unrolled", "looped"):
        sim.set_options(walker_evaluation=how)
        np.testing.assert_allclose(sim.gradients(), slopes, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(sim.predict(X, walker_index=1)[:, 0], DESIGN @ theta[1, :3])


@pytest.mark.parametrize(
    ("prior", "scale", "part"),
    [
        ("inverse_gamma", "auto", 0.3),
        ("inverse_gamma", "deviation", 1.0),
        ("half_normal", "auto", 1.0),
        ("log_normal", "auto", 1.0),
        ("inverse_gamma", 0.7, 0.7 / np.std(Y)),
    ],
)
def test_the_scale_of_the_prior_is_a_part_of_the_deviation_and_the_noise_starts_there(
    prior, scale, part
):
    sim = Simulation(**OPTIONS, noise_prior=prior, noise_prior_scale=scale)
    used = sim.system.prior(sim.options, sim.objects).parts[-1]
    assert used.scale == pytest.approx(part * np.std(Y))
    assert sim.parameters[-1] == pytest.approx(np.log(0.7 if scale == 0.7 else np.std(Y)))


@pytest.mark.slow
def test_a_small_noise_is_found_by_the_defaults():
    """Noise of a tenth of the deviation: 1/σ² is Gamma(1 + (N - 4)/2, scale² + squares/2) but for
    the weights' prior. With the deviation as scale, 1.8 times as much would be found.
    """
    random = np.random.default_rng(5)
    x = random.standard_normal((48, 3))
    y = 10 + x @ [1.0, -2.0, 3.0] + 0.36 * random.standard_normal(48)
    design = np.column_stack([x, np.ones(48)])
    squares = np.sum((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2) / np.var(y)

    def mean(scale: float) -> float:
        return stats.gamma(1 + (48 - 4) / 2, scale=1 / (scale**2 + squares / 2)).expect(
            lambda precision: precision**-0.5
        )

    sim = Simulation(data=(x, y), seed=1, verbose=0)
    rows = sim.sample(goal="posterior").run_info
    found = rows.noise_std[rows.step > rows.step.max() / 2].mean()
    assert found == pytest.approx(mean(0.3), rel=0.05) and mean(1.0) > 1.7 * mean(0.3)


def test_landscapes_and_fixed_weights_know_the_noise():
    sim = Simulation(**OPTIONS, fix_parameters="dense/kernel[0,0]=0.5", **GAMMA)
    assert sim.parameter_names() == ["dense/kernel[1,0]", "dense/bias[0]", "log_noise_std"]
    value, slope = Surface(sim).gradient(sim.parameters)
    assert value == pytest.approx(sim.potential(), rel=1e-12)
    np.testing.assert_allclose(slope, sim.gradients(), rtol=1e-12)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """HMC on all data with flat weights: 1/σ² is Gamma(a + (N - 3)/2, b + squares/2)."""
    sim = Simulation(
        **OPTIONS, num_walkers=64, walker_evaluation="vectorized", prior="none", **GAMMA
    )
    return sim.sample(
        sampler="HMC",
        num_leapfrog_steps=8,
        step_size=0.06,
        num_steps=300,
        num_burnin_steps=60,
        record_every=6,
        trajectory_every=6,
        output=str(tmp_path_factory.mktemp("noise") / "run"),
    )


def test_the_posterior_of_the_noise_is_the_closed_form(sampled):
    """Mean and variance of log σ; one more power of 1/σ² is what a lost Jacobian makes."""
    frame = sampled.trajectory
    chains = frame["log_noise_std"].to_numpy().reshape(-1, 64)
    shape, rate = 3.0 + (20 - 3) / 2, 3.0 * 0.25 + SQUARES / 2
    mean, variance = -0.5 * (psi(shape) - np.log(rate)), 0.25 * polygamma(1, shape)
    error = chains.mean(axis=0).std(ddof=1) / 8
    assert abs(chains.mean() - mean) < TOLERANCE * error
    squares = ((chains - mean) ** 2).mean(axis=0)
    assert abs(squares.mean() - variance) < TOLERANCE * squares.std(ddof=1) / 8
    lost = -0.5 * (psi(shape + 1) - np.log(rate))
    assert abs(chains.mean() - lost) > TOLERANCE * error


def test_run_folder_and_summary_show_the_noise(sampled, tmp_path):
    rows = sampled.run_info
    kept = rows[rows["step"] > 60]
    np.testing.assert_allclose(
        kept["noise_std"],
        np.exp(sampled.trajectory["log_noise_std"].to_numpy()[-len(kept) :]),
        rtol=1e-7,
    )
    assert "noise_std (mean)" in sampled.summary()
    assert "Gaussian noise with a sampled standard deviation" in sampled.manifest["meaning"]
    assert sampled.manifest["parameters"]["names"][-1] == "log_noise_std"
    sampled.save_model("mean", tmp_path / "mean.keras")
    mean = sampled.parameters("mean")
    np.testing.assert_allclose(
        keras.saving.load_model(tmp_path / "mean.keras").predict(X, verbose=0)[:, 0],
        DESIGN @ mean[:3],
        rtol=1e-5,
    )


def test_a_fit_finds_the_most_probable_noise():
    """σ² = (squares + 2b)/(N + 2a), the maximum of the density of log σ."""
    sim = Simulation(**OPTIONS, prior="none", **GAMMA)
    sim.fit(optimizer="fire", learning_rate=0.05, num_steps=400)
    assert np.exp(2 * sim.parameters[-1]) == pytest.approx(
        (SQUARES + 2 * 0.75) / (20 + 6.0), rel=1e-4
    )


@pytest.mark.slow
def test_a_run_with_mini_batches_goes_on_byte_for_byte(tmp_path):
    options = OPTIONS | {"batch_size": 6}
    options |= {"sampler": "BAOAB", "step_size": 0.01, "record_every": 1, "trajectory_every": 1}
    whole = Simulation(**options).sample(num_steps=8, output=str(tmp_path / "whole"))
    Simulation(**options).sample(num_steps=5, output=str(tmp_path / "half"))
    Simulation.resume(str(tmp_path / "half"), num_steps=8, data=(X, Y))
    assert tables(tmp_path / "half") == tables(tmp_path / "whole")
    assert whole.trajectory.columns[-1] == "log_noise_std"


def test_starts_leave_the_noise_at_its_start(tmp_path):
    """Fresh walkers, and weights of a file that has no noise; a file that has it says where."""
    fresh = Simulation(**OPTIONS, num_walkers=3, walker_start="fresh")
    np.testing.assert_allclose(fresh.parameters[:, -1], np.log(np.std(Y)))
    for length in (3, 4):
        np.save(tmp_path / "start.npy", np.arange(1.0, 1.0 + length))
        sim = Simulation(**OPTIONS, parameters=str(tmp_path / "start.npy"))
        np.testing.assert_allclose(
            sim.parameters, [1, 2, 3, np.log(np.std(Y)) if length == 3 else 4]
        )
    np.save(tmp_path / "start.npy", np.zeros(7))
    with pytest.raises(InputError, match="parameters"):
        Simulation(**OPTIONS, parameters=str(tmp_path / "start.npy"))


def test_a_prior_object_is_that_of_the_weights():
    sim = Simulation(**OPTIONS, prior=priors.Gaussian([1.0, 2.0, 3.0]))
    prior = sim.system.prior(sim.options, sim.objects)
    assert prior.num_parameters == 4
    assert f"for the noise σ a prior with 1/σ² ~ Gamma(1, {0.09 * np.var(Y):g})" in str(prior)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Simulation(**OPTIONS, loss="mean_squared_error").potential(),
            "noise_std: only the Gaussian likelihood has a sampled noise. Received: loss mean_squared_error.",
        ),
        (
            lambda: Simulation(**OPTIONS).sample(noise_std=0.5, num_steps=2),
            "noise_std: sampled adds a parameter, and cannot change after the Simulation is created. Received: 0.5.",
        ),
        (
            lambda: Simulation(**OPTIONS | {"noise_std": 0.5}).sample(
                noise_std="sampled", num_steps=2
            ),
            "noise_std: sampled adds a parameter, and cannot change after the Simulation is created. Received: sampled.",
        ),
        (
            lambda: Simulation(**OPTIONS | {"data": (X, 0 * Y)}),
            "noise_std: all targets are equal.",
        ),
        *(
            (
                lambda labels=labels: Simulation(
                    **OPTIONS | {"data": (X, labels)}, loss="gaussian"
                ).potential(),
                "noise_std: sampled noise needs numeric targets, but the labels are classes. Received: sampled.",
            )
            for labels in (np.arange(len(Y)) % 3, 2 * (np.arange(len(Y)) % 2) - 1)
        ),
        (
            lambda: Simulation(**OPTIONS | {"noise_std": -1.0}),
            "noise_std is out of range. Received: -1.0.",
        ),
        (lambda: Simulation(**OPTIONS | {"noise_std": "sample"}), "Did you mean 'sampled'?"),
    ],
)
def test_what_cannot_be_sampled_is_refused(make, sentence):
    with pytest.raises(InputError) as caught:
        make()
    assert sentence in str(caught.value)


def test_flags_take_a_number_or_the_word():
    assert options_from_flags({"noise_std": "sampled"}).noise_std == "sampled"
    assert options_from_flags({"noise_std": "0.25"}).noise_std == 0.25


@pytest.fixture
def script():
    return example("sampled_noise")


def test_the_example_says_what_it_misses(script, tmp_path, capsys):
    assert script.main(["--data", str(tmp_path), "--output", str(tmp_path)]) == 2
    assert "--data: there is no uci/yacht.txt." in capsys.readouterr().err
    assert script.main(["--num-steps", "3"]) == 2


@pytest.mark.slow
def test_the_example_finds_the_noise_that_was_made(script, tmp_path, capsys):
    """0.8 beside a spread of 15 is 0.053; noise of the whole spread predicts worse."""
    script.CHOSEN = (1.0,)
    assert script.main(["--num-steps", "900", "--output", str(tmp_path)]) == 0
    table = np.genfromtxt(
        tmp_path / "sampled_noise.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    found = {row["noise_std"]: row for row in table}
    made = 0.8 / np.std(script.made()[:, -1])
    assert 0.6 * made < found["sampled"]["noise_median"] < 1.5 * made
    assert found["sampled"]["log_density"] > found["1.0"]["log_density"] + 1
    assert (tmp_path / "sampled_noise.png").stat().st_size > 10_000
