"""The page that a run prints about itself."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tati_re.analysis.format import table, with_error
from tati_re.runs.manifest import Manifest
from tati_re.summary import summary
from tati_re.summary.summary import summarize, summary_lines
from tati_re.summary.told import Told

WALKERS, ROWS, PARAMETERS = 4, 500, 40


def fake_run(
    folder, prior="gaussian", meaning="U = 100 * mean loss - log prior", kind="sample", **changes
):
    """A folder object with what is read of it; keyword `columns` changes columns of run.csv."""
    generator = np.random.default_rng(1)
    step = np.repeat(10 * np.arange(1, ROWS + 1), WALKERS)
    walker = np.tile(np.arange(WALKERS), ROWS)
    draws = 0.5 * generator.chisquare(PARAMETERS, (3, step.size))
    columns = {
        "step": step,
        "walker": walker,
        "temperature": 1.0,
        "loss": draws[0] / 100,
        "potential": draws[0],
    }
    columns |= {"kinetic_energy": draws[1], "virial": draws[2], "accuracy": 0.9 + 0.001 * draws[0]}
    options = {"num_steps": 10 * ROWS, "num_burnin_steps": 1000, "record_every": 10}
    manifest = {
        "options": options,
        "parameters": {"num": PARAMETERS},
        "meaning": meaning,
        "kind": kind,
    }
    manifest |= {"prior": {"prior": prior}, "prior_proper": prior != "none"}
    (folder / "run.csv").touch()
    (folder / "manifest.toml").touch()
    rows = pd.DataFrame(columns)
    for name, change in changes.items():
        rows[name] = change(rows) if callable(change) else change
    return SimpleNamespace(
        folder=folder,
        manifest=Manifest.of(manifest),
        run_info=rows,
        has=lambda name: (folder / name).exists(),
        moments=SimpleNamespace(variance=np.ones((WALKERS, PARAMETERS))),
    )


def warnings_of(text):
    return text.split("\n\n")[0] if text.startswith("Warning") else ""


def test_a_good_run_has_no_warnings(tmp_path):
    text = summarize(fake_run(tmp_path))
    assert warnings_of(text) == ""
    for words in (
        str(tmp_path),
        "U = 100 * mean loss - log prior",
        "5,000, the first 1,000 left out as burn-in",
        "4, 500 rows each",
        "potential (mean)",
        "±",
        "accuracy (mean)",
        "kinetic temperature",
        "target 1",
        "consistent",
        "manifest.toml, run.csv",
    ):
        assert words in text
    assert "acceptance" not in text
    assert max(map(len, text.splitlines())) <= max(110, len(str(tmp_path)) + 30)


def test_a_run_that_is_still_in_its_burnin_says_so(tmp_path):
    """It said "120 of 100,000, the first 30,720 left out as burn-in"."""
    run = fake_run(tmp_path)
    options = run.manifest["options"] | {"num_steps": 50_000, "num_burnin_steps": 20_000}
    run.manifest |= {"options": options}
    assert " 5,000 of 50,000, burn-in up to 20,000\n" in summarize(run)


def test_acceptance_and_missing_momenta(tmp_path):
    accepted = {
        "acceptance": lambda rows: (rows["step"] % 30 > 0).astype(float),
        "kinetic_energy": np.nan,
    }
    text = summarize(fake_run(tmp_path, **accepted))
    assert "acceptance (mean)" in text
    assert "kinetic temperature" not in text
    assert "configurational temperature" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kinetic_energy": lambda rows: 1.05 * rows["kinetic_energy"]}, "kinetic temperature is"),
        ({"kinetic_energy": lambda rows: 0.95 * rows["kinetic_energy"]}, "reduce step_size"),
        ({"virial": lambda rows: 1.05 * rows["virial"]}, "configurational temperature is"),
        ({"virial": lambda rows: 0.95 * rows["virial"]}, "take more burn-in"),
        ({"prior": "none"}, "Nothing confines U"),
        ({"potential": 3.0}, "The potential never changed"),
    ],
)
def test_one_sentence_per_trouble_comes_first(tmp_path, changes, words):
    text = summarize(fake_run(tmp_path, **changes))
    first = " ".join(warnings_of(text).split())
    assert words in first
    assert text.startswith("Warning: ")


@pytest.mark.parametrize(
    ("potential", "failed"),
    [
        (lambda rows: rows["potential"] + 5 * rows["walker"], ["R-hat", "ESS"]),
        (lambda rows: np.sin(rows["step"] / 900), ["ESS"]),
    ],
)
def test_convergence_stands_once_in_the_certificate(tmp_path, potential, failed):
    run = fake_run(tmp_path, potential=potential)
    certificate = summarize(run).partition("Certificate: failed")[2]
    assert summarize(run).count("R-hat ") == certificate.count("R-hat ") > 0
    assert certificate.count("ESS ") == 1
    lines = certificate.splitlines()
    for name in failed:
        place = next(k for k, line in enumerate(lines) if line.startswith(f"  {name} "))
        assert "failed" in lines[place]
        assert lines[place + 1].startswith("      "), "what to do stands below it"
    notes = summary_lines(run)[0]
    assert all(any(note.startswith(f"{name} ") for note in notes) for name in failed)


def test_a_temperature_without_a_target_is_not_judged(tmp_path):
    for changes in ({"prior": "none"}, {"prior": "box"}):
        text = summarize(fake_run(tmp_path, virial=lambda rows: 2 * rows["virial"], **changes))
        assert "no target" in text
        assert "configurational temperature is" not in text
    confined = fake_run(
        tmp_path,
        prior="none",
        meaning="U = mean loss, and 100 times the model's weight regularisers",
    )
    assert "Nothing confines" not in summarize(confined)


def test_a_run_of_an_optimizer(tmp_path):
    for changes in ({"temperature": np.nan}, {"kind": "fit"}):
        text = summarize(fake_run(tmp_path, **changes))
        assert "last loss" in text
        assert "R-hat" not in text
        assert "temperature" not in text.replace(str(tmp_path), "")


def test_runs_that_have_hardly_begun(tmp_path):
    run = fake_run(tmp_path)
    run.run_info = run.run_info[run.run_info["step"] <= 1020]
    text = summarize(run)
    assert text.startswith("Warning: Fewer than 4 rows")
    assert "1,020 of 5,000" in text
    run.run_info = run.run_info.head(0)
    assert summarize(run).startswith("Warning: The run has no rows yet.")


def test_numbers_with_errors():
    assert with_error(1295.765, 2.7568) == "1,295.8 ± 2.8"
    assert with_error(0.0534, 0.000123) == "0.05340 ± 0.00012"
    assert with_error(12345.0, 321.0) == "12,345 ± 321"
    assert with_error(0.5, float("nan")) == "0.5"
    assert table([("a", "1"), ("long name", "2")]) == "a          1\nlong name  2"


def test_a_new_section_stands_in_the_summary(tmp_path, monkeypatch):
    def rows_of_run(facts, thin):
        return Told([f"Each {thin}st row."], [("rows", f"{len(facts.kept):,}")])

    monkeypatch.setattr(summary, "END", (rows_of_run, *summary.END))
    run = fake_run(tmp_path)
    assert "Warning: Each 1st row." in summarize(run)
    assert ("rows", f"{(ROWS - 100) * WALKERS:,}") in summary_lines(run)[1]
