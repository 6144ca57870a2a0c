"""Runs for prediction on more rows than a step can see: rounds of fits on mini-batches, a trial of
chains from them, and the end.
"""

import math
import time

import keras
import numpy as np
import pytest

import tati_re
import tati_re.sklearn
from tati_re.launch import batch_chains, batch_members, batch_setup, predicting, request
from tati_re.launch.batch_chains import BatchChains, BatchSteps, steps_at
from tati_re.launch.batch_members import (
    LEAST_GAIN,
    Rounds,
    Schedule,
    is_worth_more,
    learning_rate_of,
    members_at_once,
    steps_of_fit,
)
from tati_re.launch.goal import with_goal
from tati_re.launch.header import header
from tati_re.launch.member_fits import FittedMembers
from tati_re.options.make import make_options
from tati_re.runs.fits import read_fits
from tati_re.tuning.choosing import latest_end, latest_end_on_batches


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch):
    """Tables of a few hundred rows take the way of large ones."""
    for name in ("FEW_EXAMPLES", "FULL_BATCH_BELOW", "MOST_PRODUCTS"):
        monkeypatch.setattr(request, name, 0)


@pytest.fixture(autouse=True)
def processor_time(monkeypatch):
    """Time limits in seconds of this process, whatever else the machine does."""
    monkeypatch.setattr(time, "monotonic", time.process_time)


def curve(rows=300, seed=0):
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (rows, 1))
    return x, np.sin(2 * x[:, 0]) + 0.2 * random.standard_normal(rows)


def images(rows=300, seed=0):
    """Noise with a bright upper or lower half."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, rows)
    pixels = random.normal(0, 1, (rows, 6, 6, 1))
    pixels[:, :3] += labels[:, None, None, None]
    return pixels.astype(np.float32), labels


def small_convolution():
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((6, 6, 1)),
            layers.Conv2D(2, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )


def members(density, members=2, rows=200, seed=0):
    """A round whose rows have about this log density, independently of other rounds."""
    each = density + 1.0 * np.random.default_rng(seed).standard_normal((members, rows))
    mixed = np.logaddexp.reduce(each, axis=0) - math.log(members)
    return FittedMembers(
        positions=np.full((members, 3), float(seed)),
        last=np.zeros((members, 3)),
        densities=each,
        steps=np.full(members, 100),
        num_steps=100,
        cross_stopped=mixed,
    )


def test_a_rate_falls_with_the_inputs_of_a_unit():
    assert learning_rate_of([(8, 16), (16,), (16, 1)]) == 0.01
    assert learning_rate_of([(5, 5, 16, 16), (400, 120)]) == pytest.approx(0.003)
    assert learning_rate_of([(10_000, 64)]) == 0.001
    assert learning_rate_of([(3,)]) == 0.01


def test_a_fit_sees_each_row_ten_times_or_takes_four_thousand_steps():
    assert steps_of_fit(60_000, 128) == 4_688
    assert steps_of_fit(500, 128) == 4_000


def test_a_slow_network_has_fewer_members():
    assert members_at_once(0.001, seconds=60, steps_of_epoch=469) == 4
    assert members_at_once(0.01, seconds=60, steps_of_epoch=469) == 2
    assert members_at_once(1.0, seconds=60, steps_of_epoch=469) == 1


def test_a_round_that_predicts_badly_is_left_out():
    good = [members(-0.5, seed=1), members(-0.5, seed=2)]
    rounds = Rounds([good[0], members(-9.0, seed=3), good[1]])
    assert rounds.best().fits == good
    assert rounds.best().cross_stopped.mean() > rounds.cross_stopped.mean() + 0.2  # than all rounds
    assert Rounds(good).gain > LEAST_GAIN  # independent members make a better mixture
    assert Rounds([good[0], members(-9.0, seed=3)]).gain == 0


def test_many_rounds_are_compared_in_time():
    """The rounds of a slow network have one member each, and are as many as members."""
    rounds = [members(-0.5, members=1, seed=seed) for seed in range(32)]
    bad = members(-9.0, members=1, seed=40)
    assert bad not in Rounds([*rounds, bad]).best().fits


def test_no_round_follows_one_without_a_gain(monkeypatch):
    good = members(-0.5, seed=1)
    assert is_worth_more(Rounds([good]), 2)
    assert is_worth_more(Rounds([good, members(-0.5, seed=2)]), 2)
    assert not is_worth_more(Rounds([good, members(-9.0, seed=3)]), 2)
    monkeypatch.setattr(batch_members, "MOST_MEMBERS", 3)
    assert not is_worth_more(Rounds([good]), 2)


def test_rounds_grow_while_longer_fits_are_better():
    schedule = Schedule(unit_seconds=10.0, density=-1.0)
    assert schedule.next_length(left=100.0) == 2
    schedule.note(2, -0.9)
    assert schedule.next_length(left=100.0) == 4
    assert schedule.next_length(left=39.0) == 2
    schedule.note(4, -0.9)
    assert schedule.next_length(left=100.0) == 2
    assert schedule.next_length(left=5.0) == 1
    assert schedule.next_length(left=3.0) == 0


def linear(rows=256, tests=40, seed=0):
    """A linear regression of known noise, as a Simulation whose test set has large inputs."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, 2))
    y = x @ [1.0, -2.0] + 0.5 * random.standard_normal(rows)
    x_test = 40.0 * random.standard_normal((tests, 2))
    y_test = x_test @ [1.0, -2.0] + 1.5 * random.uniform(-1, 1, tests)
    sim = tati_re.Simulation(
        data=((x, y), (x_test, y_test)),
        hidden=[],
        use_bias=False,
        loss="gaussian",
        noise_std=0.5,
        standardize="none",
        dtype="float64",
        goal="posterior",
    )
    precision = x.T @ x / 0.25 + np.eye(2)
    covariance = np.linalg.inv(precision)
    mean = covariance @ x.T @ y / 0.25
    variance = 0.25 + np.einsum("ij,jk,ik->i", x_test, covariance, x_test)
    error = y_test - x_test @ mean
    density = -0.5 * (error**2 / variance + np.log(2 * np.pi * variance))
    slopes = -len(x) * (y - x @ mean)[:, None] * x / 0.25
    return sim, mean, precision, density, slopes


def potential_of(sim, walkers, batch_size):
    options = make_options(sim.options, batch_size=batch_size, batch_sampling="symmetric")
    settled = options.resolved(execution="graph", num_walkers=walkers)
    return sim.system.potential(settled, sim.objects, copies=walkers)


def test_steps_follow_from_curvature_and_noise():
    sim, mean, precision, _, slopes = linear()
    found = steps_at(potential_of(sim, 1, 32), mean, seed=0)
    stiffest = np.linalg.eigvalsh(precision)[-1]
    assert found.step_size == pytest.approx(0.25 / math.sqrt(stiffest), rel=1e-3)

    of_batch = (1 - 32 / 256) / 32 * slopes.var(axis=0, ddof=1).mean()
    expected = min(found.step_size * of_batch / (2 * batch_chains.HEATING), 1 / found.step_size)
    assert found.friction == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_short_chains_average_over_the_posterior(monkeypatch, temperature):
    """The log density of each of 40 held-out rows under 24 draws of 64 chains is that of the closed
    form within 0.2 nats in the mean square; at four times the temperature it is not.

    1,536 draws, a third of them independent, have 500 on a row: a kernel of 0.5 among predictions
    with a spread of 2 has a relative error of 0.06, in the tails of 0.1. A correct code fails at
    twice that, in all rows together.
    """
    sim, mean, precision, density, _ = linear()
    potential = potential_of(sim, 64, 128)
    omega = math.sqrt(np.linalg.eigvalsh(precision)[-1])
    chains = BatchChains(sim.system, potential, BatchSteps(0.1 / omega, 2 * omega))
    ticks = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: 1e-3 * next(ticks))
    if temperature != 1.0:
        scale = math.sqrt(temperature)
        drawn = batch_chains.tf.random.stateless_normal
        wide = lambda *given, **named: scale * drawn(*given, **named)  # noqa: E731
        monkeypatch.setattr(batch_chains.tf.random, "stateless_normal", wide)
    found = chains.run(np.tile(mean, (64, 1)), deadline=0.05, seed=3)
    error = math.sqrt(np.mean((found - density) ** 2))
    assert (error < 0.2) == (temperature == 1.0), error


def test_chains_without_time_draw_nothing(monkeypatch):
    sim, mean, *_ = linear()
    chains = BatchChains(sim.system, potential_of(sim, 2, 128), BatchSteps(0.01, 1.0))
    assert chains.run(np.tile(mean, (2, 1)), deadline=0.0, seed=3) is None


@pytest.fixture(scope="module")
def convolution(tmp_path_factory):
    """A run of a network with pooling, whose screen is kept."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FEW_EXAMPLES", "FULL_BATCH_BELOW", "MOST_PRODUCTS"):
            patch.setattr(request, name, 0)
        patch.setattr(time, "monotonic", time.process_time)
        patch.setattr(batch_members, "FEWEST_STEPS", 320)
        folder = str(tmp_path_factory.mktemp("runs") / "a")
        data = images(), images(seed=1)
        sim = tati_re.Simulation(small_convolution(), data=data, seed=1, verbose=0)
        yield sim.sample(max_time=12.0, output=folder)


def test_a_network_on_many_images_is_fitted_in_rounds(convolution):
    run = convolution
    options = run.manifest["options"]
    assert options["goal"] == "predict"
    fits = read_fits(run.folder)
    assert len(fits.positions) == options["num_walkers"]
    assert len(fits.positions) % batch_members.MEMBERS == 0
    assert len(fits.held_out) == 60
    comparison = run.comparison
    assert comparison.loc["ensemble of the fits", "accuracy"] > 0.9
    again = tati_re.load(run.folder, data=(images(), images(seed=1)))
    x = images(seed=2)[0][:5]
    np.testing.assert_allclose(again.predict(x).probabilities, run.predict(x).probabilities)


def test_a_run_that_goes_on_names_the_network_that_it_has():
    sim = tati_re.Simulation(small_convolution(), data=images(), verbose=0)
    options = make_options(sim.options, goal="predict")
    assert "chosen by the run" in " ".join(header(sim.system, options, {}))
    resumed = " ".join(header(sim.system, options, {}, resumes=True))
    assert "Sequential" in resumed and "58 parameters" in resumed


def setup_of(sim, **options):
    """What a run for prediction prepares, after a call with these options."""
    chosen = make_options(sim.options, goal="predict", **options)
    sim.options = chosen
    plan = predicting.TimePlan(chosen.max_time, time.monotonic())
    return predicting.PredictionSetup(sim, chosen, sim.objects, plan)


def curve_simulation(**options):
    return tati_re.Simulation(
        data=curve(), hidden=[3], loss="gaussian", noise_std=0.2, verbose=0, seed=1, **options
    )


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_chains_follow_where_their_trial_predicts_better(monkeypatch, advantage):
    """What short chains predict decides between chains and more fits."""
    monkeypatch.setattr(batch_members, "FEWEST_STEPS", 320)
    monkeypatch.setattr(batch_setup, "_SECONDS_OF_TRIAL", 0.0)
    monkeypatch.setattr(batch_setup, "TRIAL_SHARE", 0.1)
    tried = []

    def drew(self, start, deadline, seed, auxiliary):
        tried.append(len(start))
        self.num_steps = 700
        kept = np.arange(60) / 1e3  # the differences vary a little
        return -0.5 * np.ones(60) + advantage * (2.0 + kept)

    monkeypatch.setattr(BatchChains, "run", drew)
    sim = curve_simulation()
    setup = setup_of(sim, max_time=10.0)
    options, said = setup.made()
    assert tried == [batch_members.MEMBERS]
    assert setup.tried_chains and any("700 steps of BAOAB" in sentence for sentence in said)
    assert sim.walkers.choice["trial_steps"] == 700
    assert sim.walkers.choice["trial_won"] == (advantage > 0)
    assert sim.walkers.fits_alone == (advantage < 0)
    if advantage > 0:
        assert options.sampler == "BAOAB" and options.num_burnin_steps == 350
        assert options.batch_sampling == "symmetric"
        assert len(sim.walkers.position) == batch_members.MEMBERS


@pytest.mark.parametrize(
    ("num_steps", "epoch", "end"),
    [(100_000, 469, 3_840), (100_000, 100, 1_920), (400, 100, 120), (10**6, 5_000, 30_720)],
)
def test_chains_on_batches_burn_in_for_a_few_epochs(num_steps, epoch, end):
    """Of 60,000 rows in batches of 128 it is 3,840 steps, where others may take 30,720."""
    assert latest_end_on_batches(num_steps, epoch) == end
    assert latest_end(100_000) == 30_720


@pytest.mark.parametrize(("goal", "most"), [("predict", 1_920), ("posterior", 30_720)])
def test_a_run_that_is_resumed_without_a_trial_has_a_short_burnin(goal, most):
    """The options of the first call are those of a resume."""
    sim = curve_simulation(batch_size=20)
    until = make_options(sim.options, goal=goal, until="rhat<1.01")
    asked = make_options(until, sampler="BAOAB", friction="auto", step_size="auto")
    made = request.make_request("sample", asked, sim.objects, sim.system, sim.limits)
    assert made.options.num_burnin_steps == most


def test_chains_that_were_asked_for_take_steps_from_the_noise(monkeypatch):
    monkeypatch.setattr(batch_members, "FEWEST_STEPS", 320)
    run = curve_simulation().sample(goal="predict", num_steps=300, max_time=30.0)
    options = run.manifest["options"]
    assert options["sampler"] == "BAOAB" and options["batch_size"] == 128
    assert options["batch_sampling"] == "symmetric"
    assert options["friction"] <= 1 / options["step_size"]
    assert int(run.run_info["step"].max()) == 300


def goal_of(sim, **options):
    chosen = make_options(sim.options, **options)
    return with_goal(chosen, sim.objects, sim.system, False).goal


def test_a_named_model_of_many_rows_is_for_predictions(monkeypatch):
    sim = curve_simulation()
    assert goal_of(sim) == "predict"
    assert goal_of(sim, goal="posterior") == "posterior"
    assert goal_of(sim, sampler="BAOAB") != "predict"
    assert goal_of(sim, num_steps=100) != "predict"
    monkeypatch.setattr(request, "FEW_EXAMPLES", 1_000)
    assert goal_of(sim) != "predict"


def normalized():
    """A network that acts otherwise in training: batch normalization and dropout."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((6, 6, 1)),
            layers.Flatten(),
            layers.BatchNormalization(),
            layers.Dense(4, activation="relu"),
            layers.Dropout(0.1),
            layers.Dense(2),
        ]
    )


def test_a_network_that_normalizes_batches_is_fitted_with_what_its_layers_keep(monkeypatch):
    """Moving averages belong to the members: with those of a fresh network they predict worse."""
    monkeypatch.setattr(batch_members, "FEWEST_STEPS", 320)
    inputs, labels = images()
    data = (3.0 + 5.0 * inputs, labels)
    sim = tati_re.Simulation(normalized(), data=data, test_fraction=0.2, verbose=0, seed=2)
    assert goal_of(sim) == "predict"
    run = sim.sample(max_time=6.0)
    fits = read_fits(run.folder)
    averages = [value for value in fits.auxiliary if value.shape[1:] == (36,)]
    assert len(averages) == 2 and abs(averages[0].mean() - 5.0) < 2.0
    assert run.comparison.loc["ensemble of the fits", "accuracy"] > 0.9
    predicted = run.predict(data[0][:50])
    assert (predicted.probabilities.argmax(axis=1) == labels[:50]).mean() > 0.9


@pytest.mark.parametrize(("given", "goal"), [({}, "predict"), ({"members": 2}, None)])
def test_an_estimator_of_many_rows_is_for_predictions(monkeypatch, given, goal):
    monkeypatch.setattr(batch_members, "FEWEST_STEPS", 320)
    asked = []

    def sampled(sim, **overrides):
        asked.append(goal_of(sim))
        raise InterruptedError

    monkeypatch.setattr(tati_re.Simulation, "sample", sampled)
    regressor = tati_re.sklearn.BayesianRegressor(hidden=(3,), max_time=5.0, verbose=0, **given)
    with pytest.raises(InterruptedError):
        regressor.fit(*curve())
    assert asked == [goal]
