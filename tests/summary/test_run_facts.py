"""The facts of a run are computed once, and again only after a file of it changed."""

import numpy as np
import pytest

import tati_re
from tati_re.runs import manifest
from tati_re.runs.run import RunFiles
from tati_re.summary import certificate as certificates
from tati_re.summary.certificate import certificate
from tati_re.summary.facts import facts_of
from tati_re.summary.outcome import note_failed_checks
from tati_re.summary.summary import summarize
from tests.made_runs import made_run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)


@pytest.fixture
def looks(monkeypatch):
    """How often the checks of certificates were made."""
    counted = []
    first, *others = certificates.CHECKS

    def counting(facts):
        counted.append(facts.burnin)
        return first(facts)

    monkeypatch.setattr(certificates, "CHECKS", (counting, *others))
    return counted


@pytest.fixture
def run(tmp_path):
    chains = {"virial": RNG.chisquare(3, (2, 40)) / 2, "loss": RNG.random((2, 40))}
    made = made_run(tmp_path / "a", chains, RNG.normal(size=(2, 40, 3)), burnin=50)
    return RunFiles.open(made.folder)


def test_certificate_summary_and_failed_checks_are_one_computation(run, looks):
    frame = certificate(run)
    summarize(run)
    note_failed_checks(run)
    assert certificate(run).equals(frame) and looks == [50]
    assert facts_of(run) is facts_of(run)
    certificate(run, burnin=100)
    assert looks == [50, 100], "another part of the run"


def test_noting_the_failed_checks_changes_no_facts(run, looks):
    facts = facts_of(run)
    certificate(run)
    manifest.note(run.folder, failed_checks=["R-hat 2 (limit < 1.01)"])
    assert facts_of(run) is facts and run.manifest.failed_checks
    certificate(run)
    assert len(looks) == 1


@pytest.mark.parametrize("change", ["rows", "manifest"])
def test_a_change_of_a_file_is_seen(run, looks, change):
    before = certificate(run)
    if change == "rows":
        path = run.folder / "run.csv"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:-20]))
    else:
        manifest.note(run.folder, options={"target_bias": 0.5}, given=["target_bias"])
    after = certificate(run)
    assert looks == [50, 50] and not after.equals(before)


def test_what_is_done_to_a_frame_stays_with_it(run):
    frame = certificate(run)
    frame.loc[:, "value"] = 7.0
    assert not certificate(run).equals(frame)


def test_a_run_is_judged_once_at_its_end(looks, tmp_path):
    """By the warning, the screen, the exit status, and what is asked of the run afterwards."""
    run = tati_re.Simulation(data=(X, Y), hidden=[3], verbose=1, seed=1).sample(
        sampler="BAOAB",
        step_size=0.01,
        num_steps=400,
        num_burnin_steps=100,
        require_certificate=True,
        output=tmp_path / "run",
    )
    run.certificate  # noqa: B018
    run.summary()
    assert looks == [100]
