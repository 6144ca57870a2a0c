"""A run for prediction predicts with its chains, its fits or both, by held-out rows."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.cli import predict
from tati_re.core.errors import InputError
from tati_re.launch.member_fits import cross_stopped_density, mixture
from tati_re.launch.predictor import (
    BOTH,
    CHAINS,
    FEWEST_DRAWS,
    FITS,
    MOST_DRAWS,
    MOST_LOST,
    better,
    choose_predictor,
)
from tati_re.prediction import left_out
from tati_re.prediction.calibrating import calibration
from tati_re.prediction.held_out import shortest_lines
from tati_re.prediction.left_out import left_out_of, left_out_of_unseen_rows
from tati_re.runs import files, manifest
from tati_re.runs.fits import Fits, read_fits, write_fits
from tati_re.runs.positions import Positions

NUM_CHAINS = 3
X = np.linspace(-2, 2, 7)[:, None]

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def table(seed):
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (80, 1))
    return x, np.sin(2 * x[:, 0]) + 0.1 * random.standard_normal(80)


NAMED = {
    "goal": "predict",
    "hidden": [4],
    "loss": "gaussian",
    "noise_std": 0.1,
    "prior_std": 1.0,
    "num_walkers": NUM_CHAINS,
    "verbose": 0,
}
SAMPLED = {"sampler": "BAOAB", "step_size": 0.003}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = (table(seed=0), table(seed=1))
    sim = tati_re.Simulation(data=data, fit_steps=640, seed=2, **NAMED)
    return sim.sample(
        num_steps=300,
        num_burnin_steps=100,
        trajectory_every=5,
        output=str(tmp_path_factory.mktemp("runs") / "a"),
        **SAMPLED,
    )


class ScatteredPositions(Positions):
    """Draws of chains that are still far from the typical set."""

    def read(self):
        block = super().read()
        random = np.random.default_rng(6)
        return block._replace(values=block.values + random.standard_normal(block.values.shape))


@pytest.fixture
def with_bad_chains(run, monkeypatch):
    """The run with its choice for draws that predict badly; it has its own choice afterwards."""
    with monkeypatch.context() as patch:
        patch.setattr(left_out, "Positions", ScatteredPositions)
        choose_predictor(run)
    (run.folder / files.COMPARISON).unlink(missing_ok=True)
    yield run
    (run.folder / files.COMPARISON).unlink(missing_ok=True)
    choose_predictor(run)


@pytest.fixture
def with_fits(run):
    """The run with other fits; it has its own again afterwards."""
    own = read_fits(run.folder)

    def changed(fits):
        write_fits(run.folder, fits)
        (run.folder / files.COMPARISON).unlink(missing_ok=True)
        choose_predictor(run)
        return run

    yield changed
    changed(own)


def test_a_run_compares_its_chains_with_its_fits(run):
    chosen = run.manifest.predictor
    assert chosen.rows == len(read_fits(run.folder).held_out) == 16
    assert chosen.draws == 40 and chosen.error > 0
    gained = chosen.fits - chosen.chains
    if gained <= chosen.error:
        assert chosen.uses == CHAINS
    else:
        assert chosen.uses == (BOTH if gained <= MOST_LOST else FITS)
    used = {CHAINS: "posterior", BOTH: "mixture", FITS: "ensemble of the fits"}[chosen.uses]
    assert list(run.comparison.index[run.comparison["used"] == 1]) == [used]


def test_bad_chains_are_not_predicted_with(with_bad_chains):
    run = with_bad_chains
    chosen = run.manifest.predictor
    assert chosen.uses == FITS and run.manifest.prefers_fits
    assert chosen.fits > chosen.chains + chosen.error

    fits = run.predict(X, parameters=read_fits(run.folder).positions)
    found = run.predict(X)
    assert found.num_draws == NUM_CHAINS
    np.testing.assert_array_equal(found.mean, fits.mean)
    np.testing.assert_array_equal(tati_re.load(run.folder).predict(X).mean, fits.mean)
    assert any("Predictions use the fits" in note for note in found.notes)

    assert found.averaged == ("fits",) and found.title == "ensemble of the fits"
    assert f"{NUM_CHAINS} fits" in repr(found) and "draws" not in repr(found)
    assert fits.title == "average of the passed parameters"

    chains = run.predict(X, weights="equal")
    assert chains.title == "posterior average" and "draws" in repr(chains)
    assert chains.num_draws == NUM_CHAINS * 40
    assert not np.allclose(chains.mean, found.mean)


def test_the_choice_is_reported(with_bad_chains, tmp_path):
    run = with_bad_chains
    note = "Predictions use the fits."
    frame = run.comparison
    assert frame["used"].to_dict() == {"posterior": 0, "ensemble of the fits": 1, "one fit": 0}
    assert note in run.summary()
    assert note in " ".join(line.strip() for line in shortest_lines(run))
    assert note in tati_re.write_report(run, tmp_path / "report.html").read_text()


def test_outputs_name_what_was_averaged(with_bad_chains, tmp_path, capsys):
    run = with_bad_chains
    x, y = table(seed=1)
    pd.DataFrame({"x": x[:, 0], "y": y}).to_csv(tmp_path / "new.csv", index=False)
    where = ["--data", str(tmp_path / "new.csv"), "--output", str(tmp_path / "p")]
    assert predict.main([str(run.folder), *where]) == 0
    screen = capsys.readouterr().out
    assert "ensemble of the fits" in screen and "posterior average" not in screen
    assert "Predictions use the fits." in screen
    assert re.search(rf"^members +{NUM_CHAINS}$", screen, re.MULTILINE)
    scores = pd.read_csv(tmp_path / "p" / "scores.csv")
    assert scores["predictor"].tolist() == ["ensemble of the fits"]

    page = tati_re.write_report(run, tmp_path / "report.html").read_text()
    assert "The ensemble of the fits on the test set" in page and f"{NUM_CHAINS} fits" in page

    few = run.compress(members=None)
    few.save(tmp_path / "few.tati")
    for one in (few, tati_re.Predictor.load(tmp_path / "few.tati")):
        assert "fits of the run, not posterior draws" in repr(one)
        assert one.predict(X).title == "ensemble of the fits"


@pytest.fixture
def mixed(run, with_fits):
    """The run with fits that were slightly better than its chains on the held-out rows."""
    own = read_fits(run.folder)
    chains = left_out_of(run, run.data, own.held_out, MOST_DRAWS, averaged="draws")
    return with_fits(replace(own, density=chains.log_density + 0.2))


def test_slightly_better_fits_are_mixed_with_the_chains(mixed):
    """The density of the mixture is the mean of both densities."""
    assert mixed.manifest.predictor.uses == BOTH and not mixed.manifest.prefers_fits
    x, y = table(seed=1)
    found = mixed.predict(x, y)
    fits = mixed.predict(x, y, parameters=read_fits(mixed.folder).positions)
    chains = mixed.predict(x, y, weights="equal")
    assert found.num_draws == chains.num_draws + NUM_CHAINS
    np.testing.assert_allclose(found.mean, (fits.mean + chains.mean) / 2, rtol=1e-5)
    expected = np.logaddexp(fits.log_density, chains.log_density) - np.log(2)
    np.testing.assert_allclose(found.log_density, expected, rtol=1e-5, atol=1e-5)
    pit = (fits.pit + chains.pit) / 2
    np.testing.assert_allclose(found.pit, pit, atol=1e-5)

    alike = np.average(
        np.stack([fits.mean, chains.mean]), axis=0, weights=[NUM_CHAINS, chains.num_draws]
    )
    assert not np.allclose(found.mean, alike, rtol=1e-3)  # vectors that count alike
    assert found.independent_draws <= 4 * NUM_CHAINS


def test_a_mixture_is_reported(mixed, tmp_path):
    note = "Predictions use the chains and the fits, half each."
    found = mixed.predict(X)
    assert found.title == "average of chains and fits"
    assert f"{found.num_draws} draws and fits" in repr(found)
    assert any(note in text for text in found.notes)

    frame = mixed.comparison
    assert note in " ".join(mixed.summary().split())
    assert note in tati_re.write_report(mixed, tmp_path / "report.html").read_text()
    assert list(frame.index) == ["posterior", "mixture", "ensemble of the fits", "one fit"]
    assert frame.index[frame["used"] == 1].tolist() == ["mixture"]
    nll = frame["negative_log_likelihood"]
    x, y = table(seed=1)
    scores = mixed.predict(x, y).scores()
    assert nll["mixture"] == pytest.approx(scores["negative_log_likelihood"], rel=1e-5)
    assert frame.loc["mixture", "crps"] == pytest.approx(scores["crps"], rel=1e-4)
    assert nll["mixture"] <= min(nll["posterior"], nll["ensemble of the fits"]) + np.log(2)


def test_a_mixture_is_carried_along(mixed, tmp_path):
    x, y = table(seed=1)
    expected = mixed.predict(x)
    every = mixed.compress(members=None)
    every.save(tmp_path / "every.tati")
    for predictor in (every, tati_re.Predictor.load(tmp_path / "every.tati")):
        assert "posterior draws and fits of the run" in repr(predictor)
        np.testing.assert_allclose(predictor.predict(x).mean, expected.mean, rtol=1e-5, atol=1e-6)
        density = mixed.predict(x, y).log_density
        np.testing.assert_allclose(predictor.log_prob(x, y), density, rtol=1e-4, atol=1e-4)

    few = mixed.compress(members=16)
    assert max(few.losses.values()) < 0.05
    reloaded = tati_re.load(mixed.folder)
    np.testing.assert_allclose(reloaded.predict(x).mean, expected.mean, rtol=1e-6)


def test_a_mixture_is_calibrated_as_a_whole(mixed):
    found = calibration(mixed, averaged="both")
    rows = read_fits(mixed.folder).held_out
    parts = [left_out_of(mixed, mixed.data, rows, MOST_DRAWS, kind) for kind in ("draws", "fits")]
    density = np.logaddexp(*(part.log_density for part in parts)) - np.log(2)
    assert found.before == pytest.approx(density.mean(), rel=1e-6)
    assert found.after >= found.before and found.rows == len(rows)
    stretched = mixed.predict(X, calibrate="loo")
    plain = mixed.predict(X)
    np.testing.assert_allclose(stretched.std, found.factor * plain.std, rtol=1e-5)


def test_bad_fits_are_not_predicted_with(run, with_fits):
    own = read_fits(run.folder)
    positions = 3 * np.random.default_rng(3).standard_normal(own.positions.shape)
    bad = Fits(positions.astype(own.positions.dtype), held_out=own.held_out)
    changed = with_fits(bad)
    assert changed.manifest.predictor.uses == CHAINS
    found = changed.predict(X)
    assert found.num_draws == NUM_CHAINS * 40
    np.testing.assert_array_equal(found.mean, changed.predict(X, weights="equal").mean)
    assert changed.comparison["used"]["posterior"] == 1
    assert "Predictions use the chains." in changed.summary()


def test_no_test_row_decides(run, monkeypatch):
    """The choice is the same whatever the test set holds."""
    before = run.manifest.predictor
    data = run.data
    monkeypatch.setattr(manifest, "check_data", lambda *_: None)
    run.data = replace(data, test_targets=data.test_targets + 100.0)
    try:
        choose_predictor(run)
    finally:
        run.data = data
    assert run.manifest.predictor == before


def test_fits_are_calibrated_on_rows_that_they_have_not_seen(with_bad_chains):
    run = with_bad_chains
    found = calibration(run, averaged="fits")
    assert found.rows == len(read_fits(run.folder).held_out)
    own = left_out_of_unseen_rows(run, run.data, read_fits(run.folder).held_out)
    assert found.after >= found.before == pytest.approx(own.log_density.mean())
    assert not run.has(files.CALIBRATION)
    stretched = run.predict(X, calibrate="loo")
    plain = run.predict(X)
    np.testing.assert_allclose(stretched.noise_std, found.factor * plain.noise_std)


def test_lost_fits_are_reported(with_bad_chains):
    run = with_bad_chains
    path = run.folder / files.MEMBERS
    content = path.read_bytes()
    path.unlink()
    try:
        with pytest.raises(InputError, match="does not contain the fits"):
            tati_re.load(run.folder).predict(X)
    finally:
        path.write_bytes(content)


def test_chains_of_few_draws_are_not_compared():
    """A resume decides again, by the draws that there are then."""
    sim = tati_re.Simulation(data=table(seed=0), fit_steps=320, **NAMED)
    steps = 10 + FEWEST_DRAWS
    stored = {"num_burnin_steps": 10, "trajectory_every": 1}
    short = sim.sample(num_steps=steps - 1, **stored, **SAMPLED)
    assert short.manifest.predictor.uses == FITS and not short.manifest.predictor.rows
    assert short.manifest.predictor.draws == FEWEST_DRAWS - 1
    assert "only 9 draws" in short.summary()

    more = tati_re.Simulation.resume(short, num_steps=steps, verbose=0)
    assert more.manifest.predictor.rows == 16


def test_a_better_predictor_is_better_beyond_its_error():
    random = np.random.default_rng(4)
    chains = random.standard_normal(60)
    clearly = better(chains + 0.3 + 0.1 * random.standard_normal(60), chains)
    assert clearly["uses"] == BOTH and clearly["rows"] == 60
    assert clearly["fits"] - clearly["chains"] == pytest.approx(0.3, abs=0.05)
    assert better(chains + 0.68, chains)["uses"] == BOTH  # log 2 is 0.693
    assert better(chains + 0.71, chains)["uses"] == FITS
    noise = random.standard_normal(60)
    noise -= noise.mean()
    assert better(chains + noise + 0.05, chains)["uses"] == CHAINS
    assert better(chains - 0.3, chains)["uses"] == CHAINS
    assert better(chains, np.full(60, -np.inf))["uses"] == FITS
    assert better(np.full(60, -np.inf), chains)["uses"] == CHAINS


def test_rows_that_stop_a_member_do_not_score_it():
    """Where nothing is learnt, members that their own rows stop look better than they are: the
    mean of 50 looks of noise is 0, and the best one is far above.
    """
    random = np.random.default_rng(7)
    densities = random.standard_normal((50, 8, 40))
    best = densities.mean(axis=2).argmax(axis=0)
    flattered = mixture(densities[best, np.arange(8)]).mean()
    level = mixture(random.standard_normal((8, 4_000))).mean()
    assert flattered > level + 0.15
    assert cross_stopped_density(densities).mean() == pytest.approx(level, abs=0.15)

    falling = np.stack([np.full((8, 40), 1.0), np.full((8, 40), 2.0), np.full((8, 40), 0.0)])
    np.testing.assert_allclose(cross_stopped_density(falling), 2.0)


def test_the_fits_are_scored_by_rows_that_did_not_stop_them(run):
    fits = read_fits(run.folder)
    assert fits.density.shape == fits.held_out.shape
    assert run.manifest.predictor.fits == pytest.approx(fits.density.mean())
    flattered = left_out_of_unseen_rows(run, run.data, fits.held_out).log_density
    assert fits.density.mean() <= flattered.mean() + 1e-4
    np.testing.assert_allclose(fits.density, flattered, atol=2.0)
