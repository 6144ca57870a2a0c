"""The screen of a run: one screen of 100 columns, from the header to the next command."""

from __future__ import annotations

import io
import re
import shlex

import numpy as np
import pytest

import tati_re
from tati_re.cli.sample import main
from tati_re.launch.header import header
from tati_re.summary import screen
from tati_re.summary.verdicts import (
    ABOVE,
    FAILED,
    NOT_MEASURED,
    PASSED,
    Certificate,
    certificate_text,
    check_result,
    title_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::tati_re.core.errors.CertificateWarning")

WIDTH = 100
MOST_LINES = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=120)


def table(folder):
    path = folder / "table.csv"
    np.savetxt(path, np.c_[X, Y], delimiter=",", header="a,b,c,strength", comments="")
    return str(path)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Screen and folder of a command that chooses everything, and does not converge."""
    folder = tmp_path_factory.mktemp("screen")
    given = ["--data", table(folder), "--hidden", "4", "--test-fraction", "0.2", "--seed", "1"]
    given += ["--num-steps", "4000", "--fit-steps", "200", "--output", str(folder / "run")]
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        status = main(given)
    return status, stream.getvalue(), folder / "run"


def test_a_run_fits_one_screen(printed):
    _, text, folder = printed
    lines = text.replace(str(folder), "runs/a").splitlines()
    assert len(lines) <= MOST_LINES, text
    assert max(map(len, lines)) <= WIDTH, text


def test_header_and_choices_come_first(printed):
    lines = printed[1].partition("tati_re ")[2].splitlines()
    assert 'table.csv: 96 training rows, 24 test rows, 3 inputs, target "strength"' in lines[0]
    assert " ".join(lines[1].split()) == "model 3-4-1, relu, 22 parameters; prior N(0, 1)"
    assert lines[2].startswith("choices        4 chains from independent fits of 200 adam steps")
    assert "MCLMC, full data (96 rows) in each step" in printed[1]


def test_three_lines_of_progress_in_their_order(printed):
    lines = printed[1].splitlines()
    names = ["fitting", "burn-in", "sampling"]
    last = [max(k for k, line in enumerate(lines) if line.startswith(name)) for name in names]
    assert last == sorted(last)
    assert "200/200" in lines[last[0]]
    assert "step size" in lines[last[1]]
    assert re.search(r"ESS [\d,]+ of 400, R-hat", lines[last[2]])


def test_the_last_line_continues_a_run_that_has_not_converged(printed):
    status, text, folder = printed
    assert status == 0
    lines = text.splitlines()
    said = " ".join(lines[-3:])
    assert "Not converged: " in said and "Continue with:" in said
    command = shlex.split(lines[-1])
    assert command[:3] == ["tati-sample", "--resume", str(folder)]
    assert main([*command[1:-1], "4500", "--quiet"]) == 0
    assert tati_re.load(folder).run_info["step"].max() == 4500


def test_the_certificate_stands_once_and_has_one_line_a_check(printed):
    _, text, _ = printed
    assert text.count("Certificate: ") == 1
    part = text.partition("Certificate: ")[2].partition("\n\n")[0]
    for name in ("R-hat", "ESS", "divergences", "burn-in"):
        assert len(re.findall(rf"^  {name}  ", part, re.MULTILINE)) == 1, name


def test_from_python_the_last_line_is_a_call(capsys, tmp_path):
    sim = tati_re.Simulation(data=(X, Y), hidden=[2], seed=1, noise_std=0.3)
    small = {"sampler": "BAOAB", "step_size": 0.003, "num_steps": 200}
    sim.sample(**small)
    assert capsys.readouterr().out.splitlines()[-1] == "  tati_re.Simulation.resume(run, 400)"
    sim.sample(**small, output=str(tmp_path / "a"))
    text = capsys.readouterr().out
    call = f"  tati_re.Simulation.resume('{tmp_path}/a', 400, data=...)"
    assert text.splitlines()[-1] == call
    assert "tati_re 0" not in text, "version, data and model stand on the screen already"


def test_a_quiet_run_prints_nothing(capsys):
    sim = tati_re.Simulation(data=(X, Y), hidden=[2], seed=1, noise_std=0.3, verbose=0)
    sim.sample(sampler="BAOAB", step_size=0.003, num_steps=100)
    assert capsys.readouterr().out == ""


def test_details_are_printed_with_verbose_2(capsys):
    sim = tati_re.Simulation(data=(X, Y), hidden=[2], seed=1, noise_std=0.3)
    few = {"sampler": "BAOAB", "step_size": 0.003, "num_steps": 100}
    for verbose in (1, 2):
        sim.sample(**few, verbose=verbose)
        assert ("U = L + V" in capsys.readouterr().out) == (verbose == 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data": (X, Y), "hidden": [5, 2]}, ["3-5-2-1, relu", "1 target", "no test rows"]),
        ({"data": (X, (Y > 0).astype(int)), "hidden": []}, ["3-2", "2 classes"]),
        ({"data": (X, Y), "prior": "none"}, ["no prior"]),
        ({"data": (X, Y), "prior_std": 0.5}, ["prior N(0, 0.5²)"]),
        ({"data": (X, Y), "prior": "laplace"}, ["laplace prior"]),
        ({"data": "digits", "hidden": [32]}, ["64-32-10", "10 classes"]),
        ({"potential": lambda x: ((x**2).sum(-1), 2 * x), "dimension": 3}, ["3 dimensions"]),
    ],
)
def test_the_header_names_data_and_model(given, words):
    sim = tati_re.Simulation(**given, seed=1, verbose=0)
    lines = header(sim.system, sim.options, sim.objects)
    assert tati_re.__version__ in lines[0]
    assert max(map(len, lines)) <= WIDTH
    text = " ".join(" ".join(lines).split())
    assert all(word in text for word in words), text


def results(*verdicts):
    passed = {PASSED: True, FAILED: False, NOT_MEASURED: None}
    return [
        check_result(
            f"check {k}",
            1_690.4,
            400.0,
            passed[one],
            form=ABOVE,
            remark=f"remark {k}",
            details=f"details {k}",
            advice=f"do {k}",
        )
        for k, one in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("verdicts", "title"),
    [
        ([PASSED, PASSED], "passed (2 of 2 checks)"),
        ([PASSED, NOT_MEASURED], "not measured (1 of 2 checks)"),
        ([FAILED, NOT_MEASURED, PASSED, FAILED], "failed (2 of 4 checks)"),
    ],
)
def test_one_failed_check_fails_the_certificate(verdicts, title):
    assert title_of(results(*verdicts)) == title
    certificate = Certificate.of(results(*verdicts))
    assert certificate.outcome == title.partition(" (")[0]
    assert list(certificate.columns) == ["check", "value", "limit", "verdict", "advice"]
    assert certificate["verdict"].tolist() == verdicts


def test_only_a_failed_check_says_what_to_do():
    lines = certificate_text(results(PASSED, FAILED, NOT_MEASURED))
    assert lines == [
        "Certificate: failed (1 of 3 checks)",
        "  check 0  1,690  > 400  remark 0",
        "  check 1  1,690  > 400  failed (remark 1)",
        "      do 1",
        "  check 2  1,690  > 400  not measured (remark 2)",
    ]
    detailed = "\n".join(certificate_text(results(PASSED, FAILED), details=True))
    assert "details 0" in detailed and "do 0" not in detailed


def test_a_new_section_stands_on_the_screen(monkeypatch, capsys):
    monkeypatch.setattr(
        screen, "END_SECTIONS", (*screen.END_SECTIONS[:-1], lambda run: ["A table."])
    )
    sim = tati_re.Simulation(data=(X, Y), hidden=[2], seed=1, noise_std=0.3)
    sim.sample(sampler="BAOAB", step_size=0.003, num_steps=100)
    assert capsys.readouterr().out.endswith("\n\nA table.\n")
