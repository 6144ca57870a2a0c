"""The posterior average beside the fits it began from, on rows that were held out."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import quad

import tati_re
from tati_re.core.errors import InputError
from tati_re.likelihoods.laws import ScipyLaw
from tati_re.likelihoods.mixture import empirical_crps, mixture_crps
from tati_re.prediction import average, held_out_comparison, source_of
from tati_re.prediction.draws import Members
from tati_re.prediction.held_out import (
    ENSEMBLE,
    EQUAL_CHAINS,
    ONE_FIT,
    POSTERIOR,
    PREDICTORS,
    comparison_lines,
    scores_of,
)
from tati_re.prediction.held_out_table import (
    LEFT_OUT,
    SCORES,
    TEST_PART,
    VALIDATION,
    HeldOutComparison,
)
from tati_re.prediction.leave_one_out import chosen_rows, left_out_weights
from tati_re.runs import files
from tati_re.runs.fits import Fits, read_fits, write_fits

RUN = {
    "sampler": "BAOAB",
    "step_size": 0.01,
    "num_steps": 120,
    "num_burnin_steps": 20,
    "trajectory_every": 5,
    "fit_steps": 150,
    "verbose": 0,
}


def _values(count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    inputs = random.standard_normal((count, 2))
    return inputs, 3 * inputs[:, 0] + random.standard_normal(count) + 10


def _sampled(**options):
    choices = {"hidden": [3], "num_walkers": 3, "walker_start": "fit", "seed": 2, "verbose": 0}
    simulation = tati_re.Simulation(**(choices | options))
    return simulation.sample(**RUN)


@pytest.fixture(scope="module")
def with_test_part():
    return _sampled(data=_values(), test_fraction=0.25)


@pytest.fixture(scope="module")
def without_test_part():
    return _sampled(data=_values(), loss="heteroscedastic_gaussian", test_fraction=0.0)


def test_the_rows_are_those_of_three_predictions(with_test_part):
    run = with_test_part
    frame = run.comparison
    assert tuple(frame.index) == PREDICTORS and set(frame["scored_on"]) == {TEST_PART}
    assert frame["rows"].tolist() == [15] * 3 and frame["members"].tolist() == [60, 3, 3]

    posterior = run.predict().scores()
    for name in ("negative_log_likelihood", "rmse", "crps"):
        assert frame.loc[POSTERIOR, name] == pytest.approx(posterior[name], rel=1e-6)
    assert frame.loc[POSTERIOR, "coverage_90"] == posterior["coverage"]

    network, _ = source_of(run)
    fits = read_fits(run.folder)
    data = run.data
    scored = [data.test_inputs, data.test_targets]
    ensemble = average([(network, Members(fits.positions))], *scored)
    assert frame.loc[ENSEMBLE, "crps"] == pytest.approx(ensemble.scores()["crps"], rel=1e-6)
    single = [average([(network, Members(one))], *scored) for one in fits.positions]
    mean = np.mean([one.scores()["negative_log_likelihood"] for one in single])
    assert frame.loc[ONE_FIT, "negative_log_likelihood"] == pytest.approx(mean, rel=1e-6)
    best = min(one.scores()["negative_log_likelihood"] for one in single)
    assert frame.loc[ONE_FIT, "negative_log_likelihood"] > best + 1e-6  # the mean, not the best


def test_the_fits_are_those_before_the_first_step(with_test_part):
    """Where the walkers are at the end is another ensemble."""
    fits = read_fits(with_test_part.folder)
    last = with_test_part.parameters(120, 0)
    assert np.abs(fits.positions[0] - last).max() > 1e-3


def test_coverage_counts_the_probability_below_each_target(with_test_part):
    found = with_test_part.predict()
    scores = scores_of(found)
    for level in (50, 90, 95):
        within = with_test_part.predict(interval=level / 100)
        assert scores[f"coverage_{level}"] == pytest.approx(within.coverage)


def test_a_comparison_of_fewer_draws_than_predictions_names_both(
    with_test_part, monkeypatch, tmp_path
):
    """Users read its scores next to those of `predict`, which differed without a word."""
    assert "predictions, whose" not in str(with_test_part.comparison)
    monkeypatch.setattr("tati_re.prediction.held_out._MOST_DRAWS", 20)
    shutil.copytree(with_test_part.folder, tmp_path / "run")
    (tmp_path / "run" / files.COMPARISON).unlink()
    run = tati_re.load(tmp_path / "run", data=_values())
    frame = run.comparison
    members = frame.loc[POSTERIOR, "members"]
    assert members < 30 and run.predict().num_draws == 60
    note = f"The posterior averages {members} draws here and about 60 in predictions, whose scores"
    for text in (str(frame), run.summary(), "\n".join(comparison_lines(run))):
        assert note in " ".join(text.split())


def test_the_run_keeps_the_table_and_shows_it(with_test_part, tmp_path):
    run = with_test_part
    frame = run.comparison
    kept = pd.read_csv(run.folder / files.COMPARISON, index_col="predictor")
    pd.testing.assert_frame_equal(kept, pd.DataFrame(frame))
    lines = comparison_lines(run)
    assert lines[0].split() == ["Held-out", "rows", "(15)", *" ".join(PREDICTORS).split()]
    assert len(lines) == 7 and max(map(len, lines)) <= 100
    assert "ensemble of the fits" in run.summary() and "90 % intervals cover" in run.summary()
    page = tati_re.write_report(run, tmp_path / "report.html").read_text()
    assert "What sampling bought" in page


def test_the_comparison_prints_whole(with_test_part, without_test_part):
    """pandas cuts the columns of a frame that is wider than the terminal."""
    for run in (with_test_part, without_test_part):
        frame = run.comparison
        with pd.option_context("display.width", 80, "display.max_columns", 0):
            text = str(frame)
        lines = text.splitlines()
        assert "..." not in text and max(map(len, lines)) <= 100
        for name, words in SCORES.items():
            assert (name in frame.columns) == any(line.strip().startswith(words) for line in lines)
        draws = next(line for line in lines if "draws or fits" in line)
        known = frame["scored_on"] != ""
        assert draws.split()[3:] == [f"{number:,}" for number in frame["members"][known]]
    assert "test_fraction=0.2" in str(without_test_part.comparison)
    selected = with_test_part.comparison[["rmse"]]
    assert type(selected) is pd.DataFrame and "rmse" in str(selected)
    again = pickle.loads(pickle.dumps(without_test_part.comparison))
    assert str(again) == str(without_test_part.comparison)


def test_the_widest_table_fits_the_screen():
    """The widest table: stacking weights, a choice of predictor, and a long note."""
    names = [POSTERIOR, EQUAL_CHAINS, ENSEMBLE, ONE_FIT]
    columns = {"members": 12_345, "rows": 1_000, "scored_on": TEST_PART, "used": 1}
    frame = pd.DataFrame([{**columns, **dict.fromkeys(SCORES, -1234.5678)}] * 4, index=names)
    text = str(HeldOutComparison.of(frame, ["word " * 60]))
    assert max(map(len, text.splitlines())) <= 100
    assert text.split("one fit")[0].count("equal weights") == 1 and "yes" in text


def test_without_a_test_part_only_the_posterior_has_scores(without_test_part):
    run = without_test_part
    frame = run.comparison
    assert frame["scored_on"].tolist() == [LEFT_OUT, "", ""]
    loo = run.loo()
    expected = -loo.total[0] / loo.num_examples
    found = frame.loc[POSTERIOR, "negative_log_likelihood"]
    assert found == pytest.approx(expected, abs=0.02)
    assert frame.loc[ENSEMBLE:, "rmse"].isna().all()
    assert "test_fraction=0.2 compares all predictors" in comparison_lines(run)[-1]
    # Each row left out, predictions are worse than on rows that were seen.
    seen = run.predict(run.data.inputs, run.data.targets).scores()
    assert found > seen["negative_log_likelihood"] and frame.loc[POSTERIOR, "rmse"] > seen["rmse"]


def test_fits_stopped_on_validation_rows_are_scored_on_these(without_test_part, tmp_path):
    run = without_test_part
    before = (run.folder / files.COMPARISON).read_bytes(), read_fits(run.folder)
    rows = np.array([3, 7, 20, 41])
    try:
        write_fits(run.folder, Fits(before[1].positions, (), rows))
        (run.folder / files.COMPARISON).unlink()
        frame = held_out_comparison(run)
        network, _ = source_of(run)
        scored = [run.data.inputs[rows], run.data.targets[rows]]
        ensemble = average([(network, Members(before[1].positions))], *scored).scores()
        assert set(frame["scored_on"]) == {VALIDATION} and frame["rows"].tolist() == [4] * 3
        assert frame.loc[ENSEMBLE, "rmse"] == pytest.approx(ensemble["rmse"], rel=1e-6)

        write_fits(run.folder, Fits(before[1].positions, (), np.array([60])))
        (run.folder / files.COMPARISON).unlink()
        with pytest.raises(InputError, match="other data"):
            held_out_comparison(run)
    finally:
        write_fits(run.folder, before[1])
        (run.folder / files.COMPARISON).write_bytes(before[0])


@pytest.mark.parametrize("content", ["", "predictor,rows\nposterior,3\n", "a,b\n1,x,y,z\n"])
def test_a_damaged_table_is_refused_in_one_sentence(with_test_part, content):
    path = with_test_part.folder / files.COMPARISON
    before = path.read_bytes()
    try:
        path.write_text(content)
        with pytest.raises(InputError, match="comparison"):
            held_out_comparison(with_test_part)
    finally:
        path.write_bytes(before)


def test_a_run_from_elsewhere_has_no_comparison():
    run = _sampled(data=_values(), walker_start="fresh")
    assert comparison_lines(run) == [] and not run.has(files.COMPARISON)
    with pytest.raises(InputError, match="did not begin from fits"):
        _ = run.comparison


def test_classes_have_accuracy_and_calibration():
    inputs, values = _values(80)
    labels = (values > 10).astype(int)
    for fraction in (0.25, 0.0):
        run = _sampled(data=(inputs, labels), test_fraction=fraction)
        frame = run.comparison
        posterior = frame.loc[POSTERIOR]
        assert {"accuracy", "brier_score", "calibration_error"} <= {*frame.columns}
        assert posterior["accuracy"] > 0.7 and posterior["negative_log_likelihood"] < np.log(2)
        if fraction:
            assert posterior["accuracy"] == run.predict().scores()["accuracy"]


def test_leaving_out_gives_the_density_of_the_others():
    """θ given y is normal for y ~ N(θ, 1), so that each density without its row is known."""
    random = np.random.default_rng(3)
    y = random.standard_normal(12)
    mean, variance = y.sum() / 13, 1 / 13
    draws = mean + np.sqrt(variance) * random.standard_normal(4_000)
    logs = stats.norm.logpdf(y, draws[:, None])
    exact = np.array(
        [stats.norm.logpdf(one, (y.sum() - one) / 12, np.sqrt(1 + 1 / 12)) for one in y]
    )
    weights, pareto_k = left_out_weights(logs)
    assert np.allclose(np.exp(weights).sum(axis=0), 1) and (pareto_k < 0.7).all()
    found = np.log(np.exp(weights + logs).sum(axis=0))
    np.testing.assert_allclose(found, exact, atol=0.02)
    plain = np.log(np.exp(logs).mean(axis=0))
    assert np.abs(plain - exact).max() > 0.1  # without weights it is another density


LAWS = {
    "normal": (stats.norm, {"loc": 1.0, "scale": 2.0}, False),
    "student t": (stats.t, {"df": 4.0, "loc": 0.5, "scale": 1.5}, False),
    "laplace": (stats.laplace, {"loc": -1.0, "scale": 0.7}, False),
    "gamma": (stats.gamma, {"a": 2.5, "scale": 1.2}, False),
    "log-normal": (stats.lognorm, {"s": 0.6, "scale": 2.0}, False),
    "beta": (stats.beta, {"a": 2.0, "b": 5.0}, False),
    "poisson": (stats.poisson, {"mu": 4.0}, True),
    "negative binomial": (stats.nbinom, {"n": 3.0, "p": 0.4}, True),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("level", [0.05, 0.5, 0.97])
def test_the_score_of_a_law_is_the_integral_over_its_distribution(name, level):
    family, parameters, discrete = LAWS[name]
    y = float(family.ppf(level, **parameters))
    if discrete:
        values = np.arange(0, 200)
        exact = ((family.cdf(values, **parameters) - (values >= y)) ** 2).sum()
    else:
        low, high = family.ppf([1e-12, 1 - 1e-12], **parameters)
        below = quad(lambda x: family.cdf(x, **parameters) ** 2, low, y, limit=500)[0]
        above = quad(lambda x: family.sf(x, **parameters) ** 2, y, high, limit=500)[0]
        exact = below + above
    arrays = {key: np.full((1, 1, 1), value) for key, value in parameters.items()}
    law = ScipyLaw(family, arrays, discrete)
    found = mixture_crps(law, np.array([[y]]), np.ones(1))
    assert found.item() == pytest.approx(exact, rel=4e-3)


def test_points_may_have_weights_of_their_own_in_each_law():
    random = np.random.default_rng(10)
    points, share = random.standard_normal((9, 4)), random.dirichlet(np.ones(9), 4).T
    values = random.standard_normal(4)
    distance = (share * np.abs(points - values)).sum(axis=0)
    pairs = np.abs(points[:, None] - points[None])
    expected = distance - 0.5 * np.einsum("ik,jk,ijk->k", share, share, pairs)
    np.testing.assert_allclose(empirical_crps(points, values, share), expected, rtol=1e-12)
    alike = np.broadcast_to(share[:, :1], share.shape)
    same = empirical_crps(points, values, share[:, 0])
    np.testing.assert_allclose(empirical_crps(points, values, alike), same, rtol=1e-12)


def test_rows_are_drawn_once_for_all():
    assert np.array_equal(chosen_rows(5, 9), np.arange(5))
    rows = chosen_rows(5_000, 100)
    assert len(set(rows.tolist())) == 100 and rows.max() > 4_000
    assert np.array_equal(rows, chosen_rows(5_000, 100))
