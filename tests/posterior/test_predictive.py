"""What outputs predict under a loss, and averages over draws, against closed forms; networks
written in NumPy.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from scipy.stats import norm

from tati_re.core.errors import InputError
from tati_re.posterior.predictive import Predictive, entropy_of, log_mean_exp
from tati_re.prediction.averaging import average
from tati_re.prediction.draws import Members
from tati_re.prediction.predict import predict
from tati_re.testing.sampler_law import TOLERANCE


def test_probabilities_of_0_and_1_have_a_loss():
    stated = Predictive(
        {"loss": "binary_crossentropy", "from_logits": False}, "classification", 2, 1
    )
    outputs, targets = np.array([[1.0], [0.0], [0.25], [0.25]]), np.array([1, 0, 1, 0])
    found = stated.losses(outputs, targets)
    np.testing.assert_allclose(found, [0.0, 0.0, -np.log(0.25), -np.log(0.75)], atol=1e-15)
    assert stated.losses(np.array([[1.0]]), np.array([0]))[0] == np.inf


class Linear:
    """A network x -> x W, weights flattened row by row; behind them log s where the noise is a
    parameter.
    """

    class_names = ()
    target_names = ()
    num_parameters = 4

    def __init__(self, predictive):
        self.predictive = predictive

    def packed(self, inputs):
        return np.asarray(inputs)

    def prepared(self, inputs):
        return self.prepared_rows(self.packed(inputs))

    def prepared_rows(self, packed):
        return np.asarray(packed, np.float64)

    def prepared_targets(self, targets):
        return targets

    def outputs(self, parameters, walkers, inputs):
        count = inputs.shape[1] * self.predictive.num_outputs
        weights = parameters[:, :count].reshape(len(parameters), inputs.shape[1], -1)
        return np.einsum("ni,sik->snk", inputs, weights)

    def outputs_of_all(self, draws, inputs):
        _, parameters = next(iter(draws.blocks(len(draws))))
        return self.outputs(parameters, draws.walker, inputs)

    def extra(self, parameters):
        return parameters[:, -1:]


def weighted(vectors, weights):
    members = Members(vectors)
    members.weight = np.asarray(weights, np.float64)
    return members


def classifier(num_classes=3, **loss):
    loss = {
        "loss": "sparse_categorical_crossentropy",
        "from_logits": True,
        "noise_std": 1.0,
        **loss,
    }
    return Predictive(loss, "classification", num_classes, num_classes)


def regression(noise_std=0.5, num_outputs=1, **around):
    return Predictive(
        {"loss": "gaussian", "noise_std": noise_std}, "regression", None, num_outputs, **around
    )


def test_probabilities_of_every_loss():
    f = np.array([[0.3, -1.0, 2.0], [0.0, 0.5, -0.5]])
    assert np.exp(classifier().log_probabilities(f)) == pytest.approx(softmax(f, axis=-1))
    probabilities = softmax(f, axis=-1)
    one = classifier(from_logits=False)
    assert np.exp(one.log_probabilities(probabilities)) == pytest.approx(probabilities)
    z = np.array([[0.7], [-2.0]])
    for task in ("classification", "signs"):
        binary = Predictive({"loss": "binary_crossentropy", "from_logits": True}, task, 2, 1)
        assert np.exp(binary.log_probabilities(z))[:, 1] == pytest.approx(expit(z[:, 0]))
    stated = Predictive(
        {"loss": "binary_crossentropy", "from_logits": False}, "classification", 2, 1
    )
    assert np.exp(stated.log_probabilities(expit(z)))[:, 1] == pytest.approx(expit(z[:, 0]))
    # Gaussian noise of variance s² around -1 and +1: log p(+)/p(-) = 2f/s²; the mean squared error
    # has s² = 1/2.
    for loss, variance in (
        ({"loss": "gaussian", "noise_std": 0.7}, 0.49),
        ({"loss": "mean_squared_error"}, 0.5),
    ):
        signs = Predictive(loss, "signs", 2, 1)
        assert np.exp(signs.log_probabilities(z))[:, 1] == pytest.approx(
            expit(2 * z[:, 0] / variance)
        )
        zeros = Predictive(loss, "classification", 2, 1)
        assert np.exp(zeros.log_probabilities(z))[:, 1] == pytest.approx(
            expit((z[:, 0] - 0.5) / variance)
        )
    rows = Predictive({"loss": "mean_squared_error"}, "one_hot", 3, 3)
    assert np.exp(rows.log_probabilities(f)) == pytest.approx(softmax(2 * f / 3, axis=-1))
    assert (
        Predictive({"loss": "gaussian", "noise_std": 1.0}, "classification", 10, 1).kind
        == "regression"
    )
    with pytest.raises(InputError, match="loss was an object"):
        Predictive({"loss": "keras.losses.Huber"}, "classification", 2, 1)


def test_losses_are_those_of_the_definition():
    generator = np.random.default_rng(1)
    f = generator.normal(size=(4, 5, 3))
    labels = np.array([0, 2, 1, 1, 0])
    expected = -log_softmax(f, axis=-1)[:, np.arange(5), labels]
    assert classifier().losses(f, labels) == pytest.approx(expected)
    rows = Predictive({"loss": "categorical_crossentropy", "from_logits": True}, "one_hot", 3, 3)
    assert rows.losses(f, np.eye(3)[labels]) == pytest.approx(expected)
    y = generator.normal(size=(5, 3))
    assert regression(0.5, 3).losses(f, y) == pytest.approx(-norm.logpdf(y, f, 0.5).sum(axis=-1))
    squares = Predictive({"loss": "mean_squared_error"}, "regression", None, 3)
    assert squares.losses(f, y) == pytest.approx(((y - f) ** 2).mean(axis=-1))
    assert squares.noise(f) == pytest.approx(np.sqrt(1.5))
    binary = Predictive({"loss": "binary_crossentropy", "from_logits": True}, "signs", 2, 1)
    z, signs = f[..., :1], np.array([-1, 1, 1, -1, 1])
    assert binary.losses(z, signs) == pytest.approx(np.logaddexp(0, -signs * z[..., 0]))


@pytest.fixture(scope="module")
def classes():
    generator = np.random.default_rng(2)
    vectors, inputs = generator.normal(size=(40, 6)) * 2, generator.normal(size=(25, 2))
    labels = generator.integers(0, 3, 25)
    return vectors, inputs, labels, generator.random(40) + 0.05


def test_probabilities_are_averaged_with_their_weights(classes):
    vectors, inputs, labels, weights = classes
    network = Linear(classifier())
    each = softmax(network.outputs(vectors, None, inputs), axis=-1)
    found = average([(network, weighted(vectors, weights))], inputs, labels)
    expected = np.average(each, axis=0, weights=weights)
    assert found.probabilities == pytest.approx(expected, rel=1e-12)
    assert found.effective_draws == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    # Wrong variants that this catches: logits averaged in place of probabilities, and weights that
    # are forgotten.
    logits = softmax(
        np.average(network.outputs(vectors, None, inputs), axis=0, weights=weights), axis=-1
    )
    assert np.abs(found.probabilities - logits).max() > 0.1
    assert np.abs(found.probabilities - each.mean(axis=0)).max() > 0.01
    assert found.draw_accuracy == pytest.approx((each.argmax(-1) == labels).mean(axis=1))
    assert found.draw_losses == pytest.approx(-np.log(each[:, np.arange(25), labels]).mean(axis=1))
    # Jensen: the average is no worse than the draws are on average.
    assert found.scores()["negative_log_likelihood"] < np.average(
        found.draw_losses, weights=weights
    )


def test_entropy_is_the_sum_of_its_two_parts(classes):
    vectors, inputs, _, weights = classes
    network = Linear(classifier())
    found = average([(network, weighted(vectors, weights))], inputs)
    p = softmax(network.outputs(vectors, None, inputs), axis=-1)
    mean, share = found.probabilities, weights / weights.sum()
    # The mutual information is the mean divergence of a draw's probabilities from their average.
    divergence = np.tensordot(share, (p * np.log(p / mean)).sum(axis=-1), 1)
    assert found.mutual_information == pytest.approx(divergence, rel=1e-9)
    assert found.entropy == pytest.approx(
        found.expected_entropy + found.mutual_information, rel=1e-12
    )
    assert found.scores() == {}
    same = average([(network, Members(np.tile(vectors[:1], (7, 1))))], inputs)
    assert (same.mutual_information == 0).all(), "draws that agree leave nothing to learn"
    assert entropy_of(np.log(np.full((2, 4), 0.25))) == pytest.approx(np.log(4))
    assert entropy_of(np.array([0.0, -np.inf])) == 0


def test_inputs_in_parts_and_runs_together_change_nothing(classes):
    vectors, inputs, labels, _ = classes
    network = Linear(classifier())
    whole = average([(network, Members(vectors))], inputs, labels)
    halves = [(network, Members(vectors[:15])), (network, Members(vectors[15:]))]
    parts = average(halves, inputs, labels, memory_values=40 * 3 * 4, block_draws=7)
    assert parts.frame().to_numpy() == pytest.approx(whole.frame().to_numpy(), rel=1e-10, abs=1e-12)
    assert parts.draw_losses == pytest.approx(whole.draw_losses)
    assert list(whole.frame().columns) == [
        *("input", "label", "predicted", "probability", "lower", "upper"),
        *("entropy", "expected_entropy", "mutual_information", "p[0]", "p[1]", "p[2]"),
    ]
    assert list(parts.scores()) == [
        "accuracy",
        "negative_log_likelihood",
        "brier_score",
        "calibration_error",
    ]


def test_signs_keep_their_names(tmp_path):
    network = Linear(Predictive({"loss": "mean_squared_error"}, "signs", 2, 1))
    found = average([(network, Members(np.array([[1.0], [2.0]])))], [[-1.0], [0.5]], [-1, -1])
    assert found.predicted.tolist() == [-1, 1]
    assert found.probabilities[:, 1] == pytest.approx(
        [(expit(-4) + expit(-8)) / 2, (expit(2) + expit(4)) / 2]
    )
    assert found.scores()["accuracy"] == 0.5
    found.write_csv(tmp_path / "predictions.csv")
    header, first, _ = (tmp_path / "predictions.csv").read_text().splitlines()
    assert header.startswith("input,label,predicted,probability") and header.endswith("p[-1],p[1]")
    assert first.startswith("0,-1,-1,")


@pytest.fixture(scope="module")
def conjugate():
    """Linear regression with a Gaussian prior: the posterior N(m, S), and exact draws from it."""
    generator = np.random.default_rng(3)
    x, noise = generator.normal(size=(12, 2)), 0.4
    y = x @ [1.0, -0.5] + noise * generator.normal(size=12)
    covariance = np.linalg.inv(np.eye(2) + x.T @ x / noise**2)
    mean = covariance @ x.T @ y / noise**2
    draws = generator.multivariate_normal(mean, covariance, 4000)
    new = generator.normal(size=(30, 2)) * 3
    variance = np.einsum("ni,ij,nj->n", new, covariance, new)
    targets = new @ mean + np.sqrt(variance + noise**2) * generator.normal(size=30)
    return SimpleNamespace(
        draws=draws, new=new, mean=new @ mean, variance=variance, noise=noise, targets=targets
    )


def test_conjugate_regression_has_its_closed_form(conjugate):
    """Mean x·m and variance s² + x·Sx within 5.5 standard errors of 4,000 independent draws."""
    one, count = conjugate, len(conjugate.draws)
    found = average(
        [(Linear(regression(one.noise)), Members(one.draws))], one.new, one.targets, 0.9
    )
    error = np.sqrt(one.variance / count)
    assert (np.abs(found.mean[:, 0] - one.mean) < TOLERANCE * error).all()
    assert (
        np.abs(found.parameter_std[:, 0] ** 2 / one.variance - 1) < TOLERANCE * np.sqrt(2 / count)
    ).all()
    assert found.noise_std == pytest.approx(one.noise)
    total = np.sqrt(one.variance + one.noise**2)
    assert found.std[:, 0] == pytest.approx(total, rel=0.1)
    # Normal in closed form, so its quantiles, log density and CRPS are too.
    reach = norm.ppf(0.95) * total
    close = 0.05 * total
    assert (np.abs(found.lower[:, 0] - (one.mean - reach)) < close + TOLERANCE * error).all()
    assert (np.abs(found.upper[:, 0] - (one.mean + reach)) < close + TOLERANCE * error).all()
    assert found.log_density == pytest.approx(norm.logpdf(one.targets, one.mean, total), abs=0.15)
    assert found.pit[:, 0] == pytest.approx(norm.cdf(one.targets, one.mean, total), abs=0.05)


def test_intervals_cover_what_they_promise():
    """4,000 targets drawn from the predictive law itself: coverage 0.8 within 5.5 standard errors,
    0.0063 each.
    """
    generator = np.random.default_rng(4)
    draws, new = generator.normal(size=(100, 1)), np.linspace(-3, 3, 4000)[:, None]
    chosen = draws[generator.integers(0, 100, len(new)), 0]
    targets = new[:, 0] * chosen + 0.5 * generator.normal(size=len(new))
    found = average([(Linear(regression(0.5)), Members(draws))], new, targets, 0.8)
    error = np.sqrt(0.8 * 0.2 / len(new))
    assert abs(found.coverage - 0.8) < TOLERANCE * error
    inside = (found.mean_lower[:, 0] <= targets) & (targets <= found.mean_upper[:, 0])
    assert inside.mean() < 0.8 - 10 * error, "intervals without the noise cover too little"


def test_units_are_those_of_the_data(conjugate):
    """Targets divided by 10 after 3 was subtracted: everything comes back in their units."""
    one = conjugate
    plain = average([(Linear(regression(one.noise)), Members(one.draws))], one.new, one.targets)
    network = Linear(regression(one.noise, deviation=np.float64(10.0), mean=np.float64(3.0)))
    network.prepared_targets = lambda targets: (targets - 3.0) / 10.0
    found = average([(network, Members(one.draws))], one.new, 10 * one.targets + 3)
    for name in ("mean", "lower", "upper", "mean_lower"):
        assert getattr(found, name) == pytest.approx(10 * getattr(plain, name) + 3, rel=1e-6)
    assert found.std == pytest.approx(10 * plain.std) and found.crps == pytest.approx(
        10 * plain.crps
    )
    assert found.log_density == pytest.approx(plain.log_density - np.log(10))
    assert found.draw_losses == pytest.approx(plain.draw_losses), "the loss is the network's"


def test_each_draw_has_its_own_noise_where_that_is_a_parameter(conjugate):
    one, generator = conjugate, np.random.default_rng(6)
    log_noise = generator.normal(-1.0, 0.3, len(one.draws))
    network = Linear(regression("sampled", deviation=np.float64(2.0)))
    network.prepared_targets = lambda targets: targets / 2
    vectors = np.column_stack([one.draws, log_noise])[:300]
    found = average([(network, Members(vectors))], one.new, one.targets)
    values, noise = 2 * one.draws[:300] @ one.new.T, 2 * np.exp(log_noise[:300])[:, None]
    assert found.noise_std[:, 0] == pytest.approx(np.sqrt((noise**2).mean()))
    density = norm.logpdf(one.targets, values, noise)
    assert found.log_density == pytest.approx(log_mean_exp(density, np.ones(300)))
    assert found.pit[:, 0] == pytest.approx(norm.cdf(one.targets, values, noise).mean(axis=0))
    assert found.draw_losses == pytest.approx(
        -norm.logpdf(one.targets / 2, values / 2, noise / 2).mean(axis=1)
    )
    # Wrong variant that this catches: one noise for all draws.
    wrong = norm.logpdf(one.targets, values, np.sqrt((noise**2).mean()))
    assert np.abs(found.log_density - log_mean_exp(wrong, np.ones(300))).max() > 0.01


def test_several_outputs_and_no_noise():
    generator = np.random.default_rng(5)
    draws, new, y = (
        generator.normal(size=(50, 4)),
        generator.normal(size=(6, 2)),
        generator.normal(size=(6, 2)),
    )
    found = average([(Linear(regression(0.5, 2)), Members(draws))], new, y)
    values = np.einsum("ni,sik->snk", new, draws.reshape(50, 2, 2))
    joint = log_mean_exp(norm.logpdf(y, values, 0.5).sum(axis=-1), np.ones(50))
    assert found.log_density == pytest.approx(joint), "outputs of one example share its draw"
    assert "target[1]" in found.frame().columns and found.frame().shape == (6, 20)
    absolute = Predictive({"loss": "mean_absolute_error"}, "regression", None, 2)
    found = average([(Linear(absolute), Members(draws))], new, y)
    assert found.noise_std is None and found.log_density is None
    assert found.lower is None and found.upper is None and found.std is None
    assert set(found.scores()) == {"rmse", "mean_loss"}


def test_outputs_in_units_of_their_own_count_alike():
    """Watts and meters: the uncertainty was that of the output with the largest numbers alone, as
    was the RMSE.
    """
    generator, units = np.random.default_rng(6), np.array([1e6, 1e-3])
    draws, new, y = (
        generator.normal(size=(50, 4)),
        generator.normal(size=(6, 2)),
        generator.normal(size=(6, 2)),
    )
    loss = {"loss": "gaussian", "noise_std": 0.5}
    plain, found = (
        average(
            [(Linear(Predictive(loss, "regression", None, 2, scale)), Members(draws))],
            new,
            y * scale,
        )
        for scale in (np.ones(2), units)
    )
    for name, values in plain.uncertainty().items():
        assert found.uncertainty()[name] == pytest.approx(values)
    scores = found.scores()
    error = np.sqrt(((y - plain.mean) ** 2).mean(axis=0))
    assert [scores["rmse[0]"], scores["rmse[1]"]] == pytest.approx(error * units)
    assert list(plain.scores()) == [name for name in scores if "[" not in name]


def test_what_does_not_fit_is_refused(classes):
    vectors, inputs, labels, _ = classes
    source = (Linear(classifier()), Members(vectors))
    with pytest.raises(InputError, match="differ"):
        average([source], inputs, labels[:3])
    with pytest.raises(InputError, match="Labels do not match"):
        average([source], inputs, labels + 1)
    with pytest.raises(InputError, match="predict different quantities"):
        average([source, (Linear(regression(1.0)), Members(vectors))], inputs)
    with pytest.raises(InputError, match="targets do not match"):
        average([(Linear(regression(1.0)), Members(vectors[:, :2]))], inputs, np.zeros((25, 2)))
    with pytest.raises(InputError, match="interval is out of range"):
        predict(SimpleNamespace(), inputs, interval=1.5)
