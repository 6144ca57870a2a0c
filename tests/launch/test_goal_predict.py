"""Runs for prediction: the model is chosen on held-out training rows, members are fitted, chains
start from them, and the run ends when predictions no longer improve.
"""

import contextlib
import io
import math
import time
import warnings

import numpy as np
import pytest

import tati_re
from tati_re.analysis.until import Quantity, conditions_of, diagnosis, steps_left, within_chains
from tati_re.core.backend import tf
from tati_re.core.errors import CertificateWarning, InputError
from tati_re.data import Dataset
from tati_re.launch import fit_maker, predicting
from tati_re.launch.candidates import Candidate, candidate_of, candidates_of, widths_of
from tati_re.launch.goal import MAX_TIME, with_goal
from tati_re.launch.loo_density import left_out
from tati_re.launch.mean_first import with_spread
from tati_re.launch.member_fits import FEWEST_STEPS, LOOKS, MemberFits, held_out_rows
from tati_re.launch.predicting import exceeds
from tati_re.launch.time_plan import LIKELIHOOD_SECONDS, TimePlan
from tati_re.likelihoods import StudentTNoise
from tati_re.options.make import make_options
from tati_re.posterior.potential import ModelPotential
from tati_re.runs.fits import read_fits
from tati_re.tuning.tuner import rhat_of_energies


def table(rows=160, seed=0):
    """A curve whose noise grows with x, and a test set."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (rows, 1))
    y = np.sin(2 * x[:, 0]) + (0.05 + 0.2 * (x[:, 0] > 0)) * random.standard_normal(rows)
    return x, y


@pytest.fixture(scope="module", autouse=True)
def processor_time():
    """Time limits in seconds of this process, whatever else the machine does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", time.process_time)
        yield


@pytest.fixture(scope="module")
def run_and_screen(tmp_path_factory):
    """A run, and what it printed."""
    x, y = table()
    test = table(seed=1)
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        sim = tati_re.Simulation(
            data=((x, y), test),
            goal="predict",
            candidates=["heteroscedastic_gaussian:16-16:1", "gaussian:16-16:1"],
            max_time=34.0,
            seed=2,
        )
        run = sim.sample(output=str(tmp_path_factory.mktemp("runs") / "a"))
    return run, screen.getvalue()


@pytest.fixture(scope="module")
def run(run_and_screen):
    return run_and_screen[0]


def test_all_choices_stand_in_one_block(run_and_screen):
    run, screen = run_and_screen
    _, _, block = screen.partition("\nchoices  ")
    assert "\nchoices" not in block
    block = " ".join(block.split())
    for words in ("hidden layers 16-16", "Members: 8 fits", "a chain from each member", "stops at"):
        assert words in block
    assert run.manifest["choice"]["chosen"].startswith(block.split(",")[0])


def test_a_run_chooses_fits_and_samples(run):
    said = run.manifest
    options = said["options"]
    choice = said["choice"]
    assert options["num_walkers"] == predicting.NUM_MEMBERS
    assert choice["chosen"].rpartition(":")[0] in {
        name.rpartition(":")[0] for name in choice["candidates"]
    }
    assert options["until"] == predicting.UNTIL and run.exit_status == 0
    fits = read_fits(run.folder)
    assert len(fits.held_out) == choice["held_out"] == round(0.2 * 160)
    assert fits.positions.shape[0] == predicting.NUM_MEMBERS

    found = run.predict()
    plain = float(np.log(found.targets.std() * math.sqrt(2 * math.pi * math.e)))
    assert found.scores()["negative_log_likelihood"] < plain - 0.5
    certificate = run.certificate
    assert len(certificate)


def test_a_prediction_of_its_folder_is_the_same(run):
    again = tati_re.load(run.folder, data=(table(), table(seed=1)))
    x = np.linspace(-2, 2, 5)[:, None]
    np.testing.assert_array_equal(again.predict(x).mean, run.predict(x).mean)


def test_resume_goes_on_without_choosing_again(run, monkeypatch):
    monkeypatch.setattr(predicting.PredictionSetup, "made", _refused)
    before = int(run.run_info["step"].max())
    more = tati_re.Simulation.resume(
        run.folder, num_steps=before + 200, data=((table(), table(seed=1))), verbose=0
    )
    assert int(more.run_info["step"].max()) >= before
    assert more.manifest["choice"] == run.manifest["choice"]


def _refused(*_, **__):
    raise AssertionError("work that was not to be done")


def _densities(sim):
    """What is compared, and the members, of a Simulation with the time of a choice."""
    plan = TimePlan(sim.options.max_time, time.monotonic())
    preparation = predicting.PredictionSetup(sim, sim.options, sim.objects, plan)
    preparation.made()
    return sim.walkers.choice, sim.walkers.fits


def test_no_test_row_is_looked_at():
    """Choices and fits are the same whatever the test set holds, and other ones if training rows
    that are held out change.
    """
    x, y = table(rows=80)
    tests = [table(rows=40, seed=3), (np.full((40, 1), 1.5), np.full(40, 1e3))]
    found = []
    for test in (*tests, tests[0]):
        labels = y.copy()
        if len(found) == 2:
            rows = held_out_rows(_of(x, y), predicting.HELD_OUT, 0)
            labels[rows] += 5.0
        given = {"loss": "heteroscedastic_gaussian", "hidden": [3], "prior_std": 1.0}
        sim = tati_re.Simulation(data=((x, labels), test), goal="predict", verbose=0, **given)
        found.append(_densities(sim))
    (first, fits), (second, others), (_, moved) = found
    assert first == second
    np.testing.assert_array_equal(fits.positions, others.positions)
    np.testing.assert_array_equal(fits.held_out, others.held_out)
    assert not np.array_equal(fits.positions, moved.positions)


def _of(x, y):
    return Dataset.from_arrays(x, y)


def test_the_prior_of_the_noise_is_that_of_all_rows():
    """Held-out rows change the spread of the others, and a number of the prior is compiled."""
    x, y = table(rows=60)
    sim = tati_re.Simulation(data=(x, 100.0 * y), hidden=[3], loss="gaussian", verbose=0)
    whole = sim.system.prior(sim.options)
    scales = []
    for seed in range(3):
        held_out = held_out_rows(sim.system.dataset, predicting.HELD_OUT, seed)
        apart = fit_maker.FitMaker.held_out_system(sim.system, held_out)
        assert apart.examples.targets.std() != pytest.approx(1.0, abs=1e-6)
        scales.append(apart.prior(sim.options).get_config())
    assert scales == [whole.get_config()] * 3


@pytest.mark.parametrize("name", ["student_t", "laplace", "log_normal", "gamma", "poisson_count"])
def test_fits_have_the_units_of_the_run(name):
    """A likelihood takes units from its targets. Fits that leave out rows predicted in units of
    the other rows: where the noise is small, their 90 % intervals covered 4 % of the rows.
    """
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (60, 2))
    y = random.poisson(np.exp(2 + x[:, 0])) if name == "poisson_count" else np.exp(3 * x[:, 0])
    sim = tati_re.Simulation(data=(x, y), num_classes=0, hidden=[3], loss=name, verbose=0)
    position = 0.3 * random.standard_normal((1, sim.num_parameters()))
    whole = sim.system.potential(sim.options, copies=1).loss.objective
    held_out = held_out_rows(sim.system.dataset, predicting.HELD_OUT, 0)
    apart = fit_maker.FitMaker.held_out_system(sim.system, held_out)
    objective = apart.potential(sim.options, copies=1).loss.objective
    assert objective.constants and objective.get_config() == whole.get_config()

    setup = predicting.PredictionSetup(sim, sim.options, sim.objects, TimePlan(None, 0.0))
    fits = setup.maker.fits(apart, sim.options, 1, xla=False)
    outputs = sim.predict(x[held_out], position[0])[None]
    densities = whole.law(outputs).log_prob(y[held_out, None])[0, :, 0]
    fitted = fits.densities(position.astype(apart.flat.dtype))
    np.testing.assert_allclose(fitted[0], densities, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "named",
    [
        {"loss": "student_t", "degrees_of_freedom": "sampled"},
        {"loss": StudentTNoise(degrees_of_freedom="sampled")},
    ],
    ids=["by name", "as an object"],
)
def test_a_spread_beside_sampled_degrees_of_freedom_starts_from_the_mean(named):
    """Degrees of freedom begin at their own start, and the spread of every row is the noise."""
    x, y = table(rows=80)
    sim = tati_re.Simulation(data=(x, y), goal="predict", hidden=[3], verbose=0, **named)
    setup = predicting.PredictionSetup(sim, sim.options, sim.objects, TimePlan(None, 0.0))
    held_out = held_out_rows(sim.system.dataset, predicting.HELD_OUT, 0)
    system = setup.maker.held_out_system(sim.system, held_out)
    start = setup.maker.start(system, sim.options, 2, held_out, time.monotonic() + 60.0)
    assert start.shape == (2, sim.num_parameters())
    np.testing.assert_allclose(start[:, -1], sim.system.flat.extra[-1], rtol=1e-6)
    outputs = np.stack([sim.predict(x, position) for position in start])
    assert np.ptp(outputs[..., 1], axis=1) == pytest.approx(0.0, abs=1e-6)
    assert ((outputs[..., 0] - y) ** 2).mean() < 0.8 * y.var()


def test_held_out_rows_do_not_stop_the_fits_of_the_mean():
    """Rows that stopped the fits of the mean scored the fits of mean and spread too well."""
    x, y = table(rows=80)
    held_out = held_out_rows(_of(x, y), predicting.HELD_OUT, 0)
    swapped = y.copy()
    swapped[held_out] = y[held_out[::-1]]  # the units of all rows stay
    starts = []
    for labels in (y, swapped):
        given = {"hidden": [3], "loss": "heteroscedastic_gaussian", "verbose": 0}
        sim = tati_re.Simulation(data=(x, labels), goal="predict", **given)
        setup = predicting.PredictionSetup(sim, sim.options, sim.objects, TimePlan(None, 0.0))
        system = setup.maker.held_out_system(sim.system, held_out)
        deadline = time.monotonic() + 60.0
        starts.append(setup.maker.start(system, sim.options, 2, held_out, deadline))
    np.testing.assert_allclose(starts[1], starts[0], rtol=1e-4, atol=1e-5)


def test_what_is_named_is_kept():
    data = _of(*table())
    options = make_options(goal="predict", loss="gaussian", hidden=[5], prior_std=2.0)
    assert candidates_of(options, {}, data) == [Candidate()]
    assert widths_of(options, {}, Candidate()) == (None,)
    options = make_options(goal="predict", loss="gaussian")
    assert {one.loss for one in candidates_of(options, {}, data)} == {None}
    options = make_options(goal="predict")
    assert candidates_of(options, {"model": object()}, data) == [Candidate()]
    assert candidates_of(options, {"loss": object()}, data)[0].loss is None
    classes = Dataset.from_arrays(np.ones((40, 2)), np.arange(40) % 3)
    assert all(one.loss is None for one in candidates_of(options, {}, classes))


def test_a_list_of_candidates_is_compared():
    x, y = table(rows=60)
    listed = ["gaussian:3:1", "heteroscedastic_gaussian:4-4:0.5"]
    sim = tati_re.Simulation(
        data=(x, y), goal="predict", candidates=listed, max_time=30.0, verbose=0
    )
    choice, _ = _densities(sim)
    assert set(choice["candidates"]) <= set(listed) and choice["chosen"] in listed
    assert sim.options.hidden in ([3], [4, 4])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"goal": "win"}, "goal"),
        ({"candidates": ["gaussian:3:1"], "goal": "posterior"}, "goal predict"),
        ({"candidates": ["gaussian:3:1"], "sampler": "BAOAB"}, "goal predict"),
        ({"goal": "predict", "candidates": ["gaussian"]}, "LOSS:UNITS:WIDTH"),
        ({"goal": "predict", "candidates": ["gaussian:0:1"]}, "above 0"),
        ({"goal": "predict", "candidates": ["gaussian:3:0"]}, "above 0"),
        ({"goal": "predict", "candidates": ["no_loss:3:1"]}, "no_loss"),
        ({"goal": "predict", "candidates": ["gaussian:3:1"], "loss": "gaussian"}, "one of the two"),
        ({"goal": "predict", "temperature": 2.0}, "temperature 1"),
        ({"goal": "predict", "num_replicas": 3, "temperature_ratio": 2.0}, "temperature 1"),
        ({"goal": "predict", "potential": "mean_loss"}, "mean_loss"),
        ({"goal": "predict", "until": "gain>1"}, "character 1"),
    ],
)
def test_wrong_values_are_refused_before_work(given, said, monkeypatch):
    monkeypatch.setattr(MemberFits, "run", _refused)
    with pytest.raises(InputError) as error:
        tati_re.Simulation(data=table(rows=60), verbose=0, **given).sample()
    assert said in str(error.value)


def test_a_function_has_no_goal_predict():
    sim = tati_re.Simulation(potential=lambda x: tf.reduce_sum(x**2, -1), dimension=2, verbose=0)
    with pytest.raises(InputError, match="needs a model and data"):
        sim.sample(goal="predict")


@pytest.mark.slow
def test_a_budget_that_is_too_small_predicts_with_the_fits():
    sim = tati_re.Simulation(data=table(rows=80), goal="predict", max_time=1.0, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CertificateWarning)
        run = sim.sample()
    assert run.exit_status == 0 and run.manifest.has_fits_alone
    with pytest.warns(UserWarning, match="8 fits, not draws"):
        found = run.predict(np.linspace(-2, 2, 7)[:, None])
    assert np.isfinite(found.mean).all() and found.num_draws == predicting.NUM_MEMBERS
    assert list(run.comparison.index) == ["ensemble of the fits", "one fit"]
    assert {*run.certificate["verdict"]} == {"not measured"}
    assert "fits alone" in run.summary()

    more = tati_re.Simulation.resume(run, num_steps=200, verbose=0)
    assert int(more.run_info["step"].max()) == 200 and not more.manifest.has_fits_alone


class StepClock:
    """A clock that only steps and looks of fits advance, by fixed seconds."""

    def __init__(self, monkeypatch, step_seconds: float, look_seconds: float) -> None:
        self.seconds = 0.0
        self.looks = 0
        self.seconds_of_first_look = look_seconds
        called = MemberFits._called
        densities = MemberFits.densities

        def timed_steps(fits, state, first, count, planned):
            self.seconds += step_seconds * count
            return called(fits, state, first, count, planned)

        def timed_look(fits, position):
            self.seconds += look_seconds if self.looks else self.seconds_of_first_look
            self.looks += 1
            return densities(fits, position)

        monkeypatch.setattr(MemberFits, "_called", timed_steps)
        monkeypatch.setattr(MemberFits, "densities", timed_look)
        for name in ("monotonic", "process_time"):
            monkeypatch.setattr(time, name, lambda: self.seconds)


def test_a_time_limit_holds_with_fits_alone(monkeypatch):
    """More steps are asked for than there is time for."""
    clock = StepClock(monkeypatch, step_seconds=0.01, look_seconds=0.02)
    sim = tati_re.Simulation(data=table(rows=400), goal="predict", max_time=8.0, verbose=0)
    run = sim.sample(fit_steps=10**6)
    assert run.manifest.has_fits_alone
    assert 4.0 < clock.seconds < 8.0


def test_each_look_evaluates_the_held_out_rows_once(monkeypatch, sim_of_table):
    """Mean loss and densities were two evaluations."""
    clock = StepClock(monkeypatch, step_seconds=0.0, look_seconds=0.0)
    monkeypatch.setattr(ModelPotential, "validation", _refused)
    sim = sim_of_table
    plan = TimePlan(None, 0.0)
    setup = predicting.PredictionSetup(sim, sim.options, sim.objects, plan)
    held_out = held_out_rows(sim.system.dataset, predicting.HELD_OUT, 0)
    system = setup.maker.held_out_system(sim.system, held_out)
    fits = setup.maker.fits(system, sim.options, 2, xla=False)
    start = 0.1 * np.random.default_rng(0).standard_normal((2, system.flat.num_parameters))
    start = start.astype(system.flat.dtype)

    found = fits.run(start, FEWEST_STEPS, deadline=1.0)
    steps_of_look = FEWEST_STEPS // LOOKS
    assert clock.looks == 1 + found.num_steps // steps_of_look
    np.testing.assert_allclose(found.densities, fits.densities(found.positions), rtol=1e-12)
    assert (found.densities.mean(axis=1) > fits.densities(start).mean(axis=1)).all()

    # The first look is compiled: it says nothing about the other ones.
    clock = StepClock(monkeypatch, step_seconds=1e-6, look_seconds=1e-6)
    clock.seconds_of_first_look = 1.0
    found = setup.maker.fits(system, sim.options, 2, xla=False).run(start, 640, deadline=10.0)
    assert found.num_steps % (640 // LOOKS) == 0

    # Compilation alone can take the time: the shortest schedule follows all the same.
    clock = StepClock(monkeypatch, step_seconds=1e-3, look_seconds=1e-4)
    late = fits.run(start, 10**6, deadline=-100.0)
    assert FEWEST_STEPS / 2 < late.num_steps < 3 * FEWEST_STEPS
    assert (late.densities.mean(axis=1) > fits.densities(start).mean(axis=1)).all()


def test_time_is_divided_by_what_it_is_enough_for():
    def plan(seconds):
        return TimePlan(seconds, time.monotonic())

    assert plan(15.0).num_candidates(4) == 0 and plan(60.0).num_candidates(3) == 3
    assert plan(26.0).num_candidates(4) == 0 and plan(26.0).has_chains(fits=True)
    assert plan(30.0).num_candidates(4) == 2 and plan(None).num_candidates(9) == 9
    assert plan(60.0).num_candidates(3, LIKELIHOOD_SECONDS) == 0
    assert plan(150.0).num_candidates(4, LIKELIHOOD_SECONDS) == 3
    assert plan(None).num_candidates(9, LIKELIHOOD_SECONDS) == 9
    for least in (2.5, LIKELIHOOD_SECONDS):
        needed = TimePlan.seconds_to_compare(least)
        assert plan(needed + 0.1).num_candidates(9, least) == 2
        assert plan(needed - 0.1).num_candidates(9, least) == 0
    assert not plan(15.0).has_chains(fits=True) and plan(60.0).has_chains(fits=True)
    assert not plan(60.0).has_chains(step_seconds=0.1), "600 steps are too few"
    assert plan(None).has_chains(step_seconds=1e6) and plan(None).left == math.inf
    assert plan(15.0).fit_seconds(with_chains=False) > 11 > plan(15.0).fit_seconds(True)
    assert plan(60.0).has_xla() and not plan(25.0).has_xla()
    assert plan(25.0).has_xla(one_network=True) and not plan(10.0).has_xla(one_network=True)
    assert 0 < plan(2.0).reserve <= 0.8


def test_a_slow_machine_leaves_less_time_for_chains():
    plan = TimePlan(40.0, time.monotonic())
    assert plan.has_chains(fits=True)
    plan._wall_began -= 60.0
    plan._processor_began -= 20.0
    assert plan.slowness == pytest.approx(3.0, rel=0.1)
    assert not plan.has_chains(fits=True) and plan.reserve == pytest.approx(9.0, rel=0.1)


@pytest.mark.parametrize(
    "named",
    [
        {"hidden": [3]},
        {"model": lambda inputs: None},
        {"loss": "gaussian"},
        {"prior_std": 0.5},
        {"prior": "none"},
        {"sampler": "BAOAB"},
        {"preset": "MILE"},
        {"step_size": 0.1},
        {"noise_std": 0.2},
        {"temperature": 2.0},
        {"walker_start": "fresh"},
        {"goal": "posterior"},
    ],
)
def test_a_run_that_names_a_part_of_a_posterior_samples_it(sim_of_table, named):
    objects = {"model": named["model"]} if "model" in named else {}
    options = make_options(**({} if objects else named))
    found = with_goal(options, objects, sim_of_table.system, placed=False)
    assert found.goal in (None, "posterior") and "max_time" not in found.explicit


@pytest.fixture(scope="module")
def sim_of_table():
    return tati_re.Simulation(data=table(rows=60), verbose=0)


def test_a_run_that_names_nothing_is_for_predictions(sim_of_table):
    system = sim_of_table.system
    assert with_goal(make_options(), {}, system, placed=False).goal == "predict"
    assert with_goal(make_options(), {}, system, placed=False).max_time == MAX_TIME
    kept = {"seed": 3, "max_time": 5.0, "num_walkers": 4, "output": "a", "test_fraction": 0.2}
    found = with_goal(make_options(**kept), {}, system, placed=False)
    assert found.goal == "predict" and found.max_time == 5.0
    assert with_goal(make_options(num_steps=50), {}, system, placed=False).max_time is None
    assert with_goal(make_options(), {}, system, placed=True).goal is None


def test_nothing_named_chooses_a_model_and_says_so(capsys):
    sim = tati_re.Simulation(data=table(rows=80), max_time=1.0, seed=1)
    run = sim.sample()
    said = capsys.readouterr().out
    assert "chosen by the run, for predictions" in said and "hidden layers 16-16" in said
    assert said.count("\nchoices  ") == 1 and "no chains: 1 seconds are too short" in said
    assert run.manifest["options"]["goal"] == "predict" and sim.options.hidden == [16, 16]


def test_notes_are_those_of_the_chosen_model(capsys):
    """The first lines said that the targets are standardized, as under the loss before the choice."""
    x, y = table(rows=80)
    sim = tati_re.Simulation(data=(100 + 20 * x, 500 + 90 * y), max_time=1.0, seed=1)
    sim.sample()
    said = " ".join(capsys.readouterr().out.split())
    assert sim.options.loss == "student_t" and sim.dataset.preparation.target_standard is None
    assert "The inputs are standardized" in said and said.count("standardized (mean 0") == 1
    assert "(standardized)" not in said
    assert said.index("choices student_t") < said.index("notes The inputs")


def test_estimators_without_arguments_predict():
    x, y = table(rows=80)
    regressor = tati_re.sklearn.BayesianRegressor(max_time=1.0).fit(x, y)
    assert regressor.run_.manifest["options"]["goal"] == "predict"
    assert regressor.__sklearn_tags__().non_deterministic
    for named in ({"hidden": (3,)}, {"sampler": "BAOAB"}, {"goal": "posterior"}):
        assert not tati_re.sklearn.BayesianRegressor(**named)._predicts


def test_goal_posterior_is_the_run_of_today():
    given = {"data": "two_clusters", "hidden": [3], "loss": "binary_crossentropy", "verbose": 0}
    short = {"sampler": "BAOAB", "step_size": 0.01, "num_steps": 60}
    plain = tati_re.Simulation(**given).sample(**short)
    asked = tati_re.Simulation(**given, goal="posterior").sample(**short)
    assert (plain.folder / "run.csv").read_bytes() == (asked.folder / "run.csv").read_bytes()
    assert "goal" not in plain.manifest["options"]


def test_gain_is_a_condition():
    (one,) = conditions_of("gain<0.005")
    assert str(one) == "gain<0.005"
    assert one.met({"gain": 0.001}) and not one.met({"gain": -1.0})
    assert not one.met({"gain": 0.01}) and not one.met({"gain": math.nan}) and not one.met({})
    assert steps_left(one, {"gain": 0.01}, 500) == 500.0


def test_leaving_out_agrees_with_the_closed_form():
    """Of a Gaussian mean with a flat prior: p(y_i | others) = N(mean of others, 1 + 1/(n - 1))."""
    random = np.random.default_rng(5)
    y = random.standard_normal(30)
    draws = y.mean() + random.standard_normal(20_000) / math.sqrt(len(y))
    logs = -0.5 * (y - draws[:, None]) ** 2 - 0.5 * math.log(2 * math.pi)
    others = (y.sum() - y) / (len(y) - 1)
    variance = 1 + 1 / (len(y) - 1)
    exact = -0.5 * (y - others) ** 2 / variance - 0.5 * np.log(2 * math.pi * variance)
    np.testing.assert_allclose(left_out(logs), exact, atol=0.02)
    assert np.abs(np.log(np.exp(logs).mean(axis=0)) - exact).max() > 0.05


def test_chains_in_modes_of_their_own_agree_within():
    draws = np.random.default_rng(1).standard_normal((4, 500)) + 10.0 * np.arange(4)[:, None]
    quantity = Quantity("U", draws)
    assert diagnosis([quantity], 1.01)["rhat"] > 2
    within = diagnosis(within_chains([quantity]), 1.01)
    assert within["rhat"] < 1.02 and within["ess"] > 1_000
    drifting = Quantity("U", draws + np.linspace(0, 5, 500))
    assert diagnosis(within_chains([drifting]), 1.01)["rhat"] > 1.1


def test_a_candidate_is_better_beyond_its_error():
    random = np.random.default_rng(2)
    base = random.standard_normal(50)
    assert exceeds(base + 0.5 + 0.1 * random.standard_normal(50), base)
    noisy = base + 0.1 + 5.0 * random.standard_normal(50)
    noisy -= noisy.mean() - base.mean() - 0.05
    assert not exceeds(noisy, base)
    assert exceeds(base, np.full(50, -np.inf)) and not exceeds(np.full(50, -np.inf), base)


def test_a_candidate_is_read():
    assert candidate_of("student_t:16-16:0.5") == Candidate("student_t", (16, 16), 0.5)
    assert str(Candidate("gaussian", (50,), 1.0)) == "gaussian:50:1"


def test_the_command_has_the_option(capsys):
    from tati_re.cli.sample import main

    wanted = ["--goal", "predict", "--candidates", "gaussian:3:1", "gaussian:4:1"]
    assert main([*wanted, "--data", "own.csv", "--print-config", "--changed"]) == 0
    printed = capsys.readouterr().out
    assert 'goal = "predict"' in printed
    assert "candidates = ['gaussian:3:1', 'gaussian:4:1']" in printed
    assert main(["--goal", "win", "--data", "own.csv"]) == 2


@pytest.mark.slow
def test_a_command_ends_well_when_its_time_is_over(tmp_path, monkeypatch):
    from tati_re.cli.sample import main

    monkeypatch.chdir(tmp_path)
    x, y = table()
    np.savetxt("own.csv", np.column_stack([x, y]), delimiter=",", header="x,y", comments="")
    typed = ["--data", "own.csv", "--goal", "predict", "--max-time", "12", "--until", "gain<1e-9"]
    assert main([*typed, "--output", "a", "--quiet"]) == 0
    assert read_fits("a") is not None and len(tati_re.load("a").predict(x[:3]).mean) == 3


@pytest.mark.slow
def test_classes_are_predicted():
    random = np.random.default_rng(4)
    x = random.standard_normal((150, 2))
    y = (x[:, 0] * x[:, 1] > 0).astype(int) + (x[:, 0] > 1)
    sim = tati_re.Simulation(data=(x, y), goal="predict", max_time=20.0, verbose=0)
    run = sim.sample()
    assert run.manifest["loss"]["loss"] == "sparse_categorical_crossentropy"
    scores = run.predict(x, y).scores()
    assert scores["accuracy"] > 0.85


@pytest.mark.slow
def test_estimators_have_the_goal():
    x, y = table()
    regressor = tati_re.sklearn.BayesianRegressor(goal="predict", max_time=30.0).fit(x, y)
    assert regressor.run_.manifest["options"]["num_walkers"] == predicting.NUM_MEMBERS
    assert regressor.score(x, y) > 0.6
    mean, std = regressor.predict(x, return_std=True)
    assert np.corrcoef(std, 0.05 + 0.2 * (x[:, 0] > 0))[0, 1] > 0.3 and mean.shape == (160,)


def test_a_spread_is_added_to_a_network_of_the_mean():
    """The mean stays, in other units, and the spread of each row is the noise."""
    random = np.random.default_rng(6)
    units, targets, members = 3, 2, 4
    mean, deviation = np.array([5.0, -1.0]), np.array([2.0, 3.0])
    after_mean, after_deviation = np.array([4.0, 0.0]), np.array([1.0, 1.5])
    inside = random.standard_normal((members, 7))
    kernel = random.standard_normal((members, units, targets))
    bias = random.standard_normal((members, targets))
    log_noise = random.standard_normal((members, 1))
    position = np.concatenate([inside, kernel.reshape(members, -1), bias, log_noise], axis=1)

    shapes = [(7,), (units, 2 * targets), (2 * targets,)]
    found = with_spread(position, shapes, (mean, deviation), (after_mean, after_deviation))
    np.testing.assert_array_equal(found[:, :7], inside)
    last = found[:, 7 : 7 + 2 * units * targets].reshape(members, units, 2 * targets)
    hidden = random.standard_normal(units)
    outputs = hidden @ last + found[:, 7 + 2 * units * targets :]
    expected = mean + deviation * (hidden @ kernel + bias)
    np.testing.assert_allclose(after_mean + after_deviation * outputs[:, :targets], expected)
    widths = after_deviation * np.exp(outputs[:, targets:])
    np.testing.assert_allclose(widths, deviation * np.exp(log_noise))


def test_a_burn_in_within_chains_does_not_wait_for_chains_to_agree():
    energies = np.random.default_rng(7).standard_normal((1, 4, 200)) + np.arange(4)[:, None]
    assert rhat_of_energies(energies, within_chains=False) > 1.2
    assert rhat_of_energies(energies, within_chains=True) < 1.05
    drifting = energies + np.linspace(0, 4, 200)
    assert rhat_of_energies(drifting, within_chains=True) > 1.1
