"""A run that fails its certificate says so whatever `verbose` is: once for each run and process."""

import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import tati_re
from tati_re.core.errors import CertificateWarning
from tati_re.exploration.trajectories import ModelTrajectories
from tati_re.runs import failed_checks
from tati_re.sklearn import BayesianRegressor
from tati_re.summary.verdicts import FAILED

RNG = np.random.default_rng(2)
X = RNG.uniform(-1, 1, (60, 1))
Y = X[:, 0] + 0.3 * RNG.normal(size=60)
BAD = {"sampler": "BAOAB", "step_size": 0.03, "num_steps": 300, "seed": 1, "verbose": 0}
pytestmark = pytest.mark.filterwarnings("always::tati_re.core.errors.CertificateWarning")


def simulation(**given):
    return tati_re.Simulation(data=(X, Y), hidden=[3], noise_std=0.3, **BAD, **given)


def caught(action):
    """The result of a function, and the certificate warnings that it gave."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = action()
    return result, [each for each in seen if issubclass(each.category, CertificateWarning)]


def test_a_failed_run_warns_at_its_end_and_its_readers_not_again(tmp_path):
    run, seen = caught(lambda: simulation(output=str(tmp_path / "run")).sample())
    frame = run.certificate
    failed = frame.loc[frame["verdict"] == FAILED, "check"]
    assert len(seen) == 1 and len(failed) > 0
    assert seen[0].filename == __file__
    assert all(name in str(seen[0].message) for name in failed[:4])
    for read in (
        lambda: run.predict(X),
        run.to_arviz,
        lambda: tati_re.load(run.folder),
        run.summary,
    ):
        assert caught(read)[1] == []
    _, again = caught(lambda: tati_re.Simulation.resume(run.folder, 400, data=(X, Y)))
    assert len(again) == 1, "another end"


def test_readers_in_another_process_warn_once(tmp_path):
    run, _ = caught(lambda: simulation(output=str(tmp_path / "run")).sample())
    for reader in (
        lambda: tati_re.load(run.folder),
        lambda: run.predict(X),
        run.to_arviz,
        run.loo,
    ):
        failed_checks._warned.clear()
        assert len(caught(reader)[1]) == 1
        assert caught(reader)[1] == []
    code = f"import tati_re; a = [tati_re.load({str(run.folder)!r}) for _ in range(3)]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("CertificateWarning") == 1 and "failed" in done.stderr


def test_a_run_that_passes_is_quiet():
    run, seen = caught(lambda: passing().sample())
    frame = run.certificate
    assert seen == [] and not (frame["verdict"] == FAILED).any()
    assert failed_checks.FAILED not in run.manifest


def passing():
    """A Gaussian, which four walkers of HMC sample in no time."""
    import tensorflow as tf

    return tati_re.Simulation(
        potential=lambda q: 0.5 * tf.reduce_sum(q**2, axis=-1),
        dimension=2,
        num_walkers=4,
        sampler="HMC",
        step_size=0.5,
        num_leapfrog_steps=4,
        num_steps=3000,
        seed=1,
        verbose=0,
    )


def test_estimators_warn_at_fit_and_not_at_each_prediction():
    regressor = BayesianRegressor(hidden=(3,), members=2, **BAD)
    _, seen = caught(lambda: regressor.fit(X, Y))
    assert len(seen) == 1
    assert caught(lambda: [regressor.predict(X) for _ in range(2)])[1] == []
    assert caught(lambda: regressor.predict_interval(X))[1] == []


def test_the_command_prints_the_certificate_once(tmp_path, capsys):
    from tati_re.cli.sample import main

    table = tmp_path / "table.csv"
    np.savetxt(table, np.column_stack([X, Y]), delimiter=",", header="x,y", comments="")
    given = ["--data", str(table), "--hidden", "3", "--num-classes", "0", "--sampler", "BAOAB"]
    given += ["--step-size", "0.03", "--num-steps", "300", "--noise-std", "0.3"]
    _, loud = caught(lambda: main([*given, "--output", str(tmp_path / "loud")]))
    assert loud == []
    assert capsys.readouterr().out.count("Certificate: failed") == 1
    _, quiet = caught(lambda: main([*given, "--quiet", "--output", str(tmp_path / "quiet")]))
    assert len(quiet) == 1


def test_legs_of_an_exploration_are_quiet():
    """They look for minima, and nobody averages over their draws."""
    legs = ModelTrajectories(simulation())
    positions, seen = caught(lambda: legs(legs.sim.parameters, 1.0, 300, 1))
    assert seen == [] and len(positions) > 2


@pytest.mark.parametrize(
    ("goal", "checks", "said"),
    [
        ("predict", ("R-hat 1.2 (limit < 1.05)", "ESS 29 (limit > 100)"), "max_time"),
        ("predict", ("R-hat 1.2 (limit < 1.05)", "divergences 3"), "predictions may be wrong"),
        (None, ("R-hat 1.2 (limit < 1.01)", "ESS 29 (limit > 400)"), "predictions may be wrong"),
    ],
)
def test_a_warning_says_what_failed_checks_mean_for_predictions(goal, checks, said, tmp_path):
    """Predictions of a short run are scored as they are; a biased run may be wrong."""
    content = SimpleNamespace(
        failed_checks=checks, prefers_fits=False, options=SimpleNamespace(goal=goal)
    )
    run = SimpleNamespace(folder=tmp_path, manifest=content)
    _, seen = caught(lambda: failed_checks.warn_of_failed_checks(run, ended=True))
    assert len(seen) == 1 and said in str(seen[0].message)
    assert seen[0].filename == __file__
