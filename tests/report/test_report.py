"""The report: one file that needs nothing from outside, warnings first, figures present; looked at
in a browser.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.analysis import averages
from tati_re.cli import report
from tati_re.core.errors import InputError
from tati_re.plotting import plot_traces
from tati_re.report import page as page_of_runs
from tati_re.report import write_report
from tati_re.runs.manifest import Manifest
from tati_re.samplers.skeleton import Skeleton
from tati_re.summary.step_sizes import step_size_text
from tests.made_runs import made_run

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
VOID = {"meta", "link", "img", "br", "hr"}


class Page(HTMLParser):
    """Checks nesting, and gathers what a page holds."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.links, self.images, self.ids, self.text = [], [], [], set(), []
        self.warnings = []
        self.feed(text)
        assert not self.stack, f"not closed: {self.stack}"

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [given[name] for name in ("src", "href") if name in given]
        if "id" in given:
            assert given["id"] not in self.ids, "an id twice"
            self.ids.add(given["id"])
        if tag == "img":
            assert given["alt"], "a figure says what it shows"
            self.images.append(given["src"])
        if tag not in VOID:
            self.stack.append((tag, given.get("class")))
        assert tag not in ("script", "iframe", "object"), "nothing runs in the page"

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1][0] == tag, f"</{tag}> closes {self.stack[-1:]}"
        self.stack.pop()

    def handle_data(self, data):
        self.text.append(data)
        if ("ul", "warnings") in self.stack and data.strip():
            self.warnings.append(data)


def checked(path):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert "\nTITLE" not in text and "@import" not in text and "url(" not in text
    for link in page.links:
        assert link.startswith(("data:", "#")), f"a link to the outside: {link[:60]}"
        if link.startswith("#"):
            assert link[1:] in page.ids, link
    for source in page.images:
        assert base64.b64decode(source.partition("base64,")[2]).startswith(b"\x89PNG")
    return page


def chains(seed, walkers=4, rows=400, heat=1.0, parameters=9):
    generator = np.random.default_rng(seed)
    energies = 0.5 * heat * generator.chisquare(parameters, (3, walkers, rows))
    found = {
        "potential": 20 + energies[0],
        "loss": 0.1 * energies[0],
        "log_prior": -0.1 * energies[0],
    }
    return found | {"kinetic_energy": energies[1], "virial": energies[2]}


SHAPES = {"dense/kernel": (2, 3), "dense/bias": (3,)}
EXTRA = {
    "dataset": {"name": "two <clusters>", "num_examples": 500},
    "seed": 7,
    "given": ["num_steps", "sampler"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that is well, one that is not in each way, and one on a broken ladder with a bias and
    other figures.
    """
    folder = tmp_path_factory.mktemp("report")
    made_run(folder / "well", chains(1), shapes=SHAPES, extra=EXTRA)
    values = chains(2, heat=1.3)
    values["potential"] = np.cumsum(np.random.default_rng(3).standard_normal((4, 400)), axis=1)
    values |= {
        f"kinetic_energy({name})": values["kinetic_energy"] * share
        for name, share in zip(SHAPES, (2 / 3, 1 / 3), strict=True)
    }
    values |= {
        f"virial({name})": values["virial"] * share
        for name, share in zip(SHAPES, (2 / 3, 1 / 3), strict=True)
    }
    made_run(
        folder / "ill", values, burnin=500, shapes=SHAPES, extra=EXTRA | {"prior_proper": False}
    )
    ladder = made_run(
        folder / "ladder",
        chains(4, 2),
        shapes=SHAPES,
        extra=EXTRA | {"method": {"exchange": "metropolis"}},
    )
    rows = ladder.run_info
    rungs = [rows.assign(rung=rung, replica=rung, temperature=1.0 + rung) for rung in range(6)]
    rows = pd.concat(rungs).sort_values(["step", "rung", "walker"], kind="stable")
    rows.to_csv(ladder.folder / "run.csv", index=False)
    columns = {
        "rung": range(6),
        "temperature": np.arange(1.0, 7.0),
        "likelihood_weight": 1.0,
        "step_size": 0.1,
    }
    columns |= {
        "attempts": 100.0,
        "acceptance": [0.4, 0.3, 0.4, 0.3, 0.001, np.nan],
        "expected_acceptance": 0.3,
    }
    columns |= {
        "predicted_acceptance": 0.3,
        "barrier": 1.0,
        "mean_potential": np.arange(20.0, 26.0),
    }
    pd.DataFrame(columns | {"restarts": 0.0, "round_trips": 0.0}).to_csv(
        ladder.folder / "ladder.csv", index=False
    )
    energy = np.linspace(10, 30, 50)
    bias = {"rung": 0, "energy": energy, "bias": np.exp(-((energy - 20) ** 2)), "log_weight": 0.0}
    pd.DataFrame(bias).to_csv(ladder.folder / "bias.csv", index=False)
    (ladder.folder / "predictions").mkdir()
    from tati_re.plotting.figure import new_figure

    new_figure(2, 2).savefig(ladder.folder / "predictions" / "calibration.png")
    return folder


def test_a_run_that_is_well(folder):
    path = write_report(folder / "well")
    assert path == folder / "well" / "report.html"
    page = checked(path)
    text = " ".join(page.text)
    assert page.warnings == [] and "No warnings." in text
    assert len(page.images) == 2, "traces and autocorrelation"
    assert "The system has 9 parameters: dense/kernel 2×3, dense/bias 3." in text
    assert "two <clusters>, 500 examples, all at every step" in text, "escaped"
    assert "4 walkers for 4,000 steps; seed 7." in text
    assert "exp(-U/T) at T = 1, the Bayesian posterior" in text
    assert path.stat().st_size < 500_000


def test_warnings_come_first_each_with_advice(folder):
    page = checked(write_report(folder / "ill"))
    text = "\n".join(page.warnings)
    for part in (
        "Nothing confines U",
        "R-hat 1.",
        "(limit < 1.01), worst: U",
        "ESS ",
        "(limit > 400), least: U",
        " more steps",
        " % above its target, more than chance allows: not in equilibrium yet, or the steps are large for the",
        "The kinetic temperature is above its band in dense/kernel (1.3",
        "not in equilibrium yet, or the step is large for them: more burn-in, smaller steps",
        "The chains are too short to estimate the autocorrelation time of potential. Run until each walker has ",
    ):
        assert part in text, part
    assert "noise" not in text, "each step saw all data"
    whole = " ".join(page.text)
    assert whole.index("Nothing confines U") < whole.index("The system has"), "before all else"
    assert len(page.images) == 3


def test_a_broken_ladder_with_a_bias_and_other_figures(folder):
    page = checked(write_report([folder / "ladder"]))
    assert any(
        "between rungs 4 and 5 are accepted: the ladder is broken there" in warning
        for warning in page.warnings
    )
    text = " ".join(page.text)
    assert "a ladder of" in text or "Ladder and round trips" in text
    assert "Round trips: 0; arrivals from the hottest rung: 0." in text
    assert "calibration (predictions/calibration.png)" in text
    assert len(page.images) == 6, "traces, autocorrelation, swaps, replicas, bias, calibration"


def test_weights_that_rest_on_few_rows(tmp_path):
    values = chains(6)
    values["weight"] = np.exp(3 * (values["potential"] - 25))
    page = checked(write_report(made_run(tmp_path / "run", values, shapes=SHAPES, extra=EXTRA)))
    assert any("carry weight" in warning and "bias_factor" in warning for warning in page.warnings)


def test_several_runs(folder, tmp_path):
    page = checked(write_report([folder / "well", folder / "ill"], tmp_path / "both.html"))
    text = " ".join(page.text)
    assert "Report of 2 runs" in text and "U mean" in text
    assert {"run-0", "run-1"} <= page.ids
    assert "Side by side" in text and "standard errors apart" in page.text
    assert "num_burnin_steps" in page.text, "an option that differs"
    beside = write_report([folder / "well", folder / "ladder"])
    assert beside == folder / "report-well-ladder.html" and "beside" in beside.read_text(
        encoding="utf-8"
    )
    with pytest.raises(InputError, match="more than two runs needs a file"):
        write_report([folder / "well", folder / "ill", folder / "ladder"])


def test_figures_of_other_folders(folder, tmp_path, capsys):
    arguments = [str(folder / "well"), "--output", str(tmp_path / "page.html"), "--figures"]
    assert report.main([*arguments, str(folder / "ladder" / "predictions")]) == 0
    page = checked(tmp_path / "page.html")
    assert len(page.images) == 3 and "calibration (calibration.png)" in " ".join(page.text)
    assert report.main([*arguments, str(tmp_path)]) == 2
    assert "the folder contains no figures" in capsys.readouterr().err


def test_another_burnin_and_thinning(tmp_path, capsys, monkeypatch):
    """A walk that comes to rest after 2,000 of 4,000 steps: averages, warnings and words are those
    of the rows kept.
    """
    values = chains(8)
    values["potential"][:, :200] += np.linspace(400, 0, 200)
    run = made_run(tmp_path / "late", values, burnin=100, shapes=SHAPES, extra=EXTRA)
    path = tmp_path / "page.html"
    whole = checked(write_report(run, path))
    assert any(warning.startswith(("R-hat", "ESS")) for warning in whole.warnings)
    flags = [str(run.folder), "--output", str(path), "--quiet", "--burnin", "2000"]
    assert report.main(flags) == 0
    rest = checked(path)
    assert rest.warnings == []
    assert "4 walkers for 4,000 steps, the first 2,000 left out as burn-in; seed 7." in " ".join(
        rest.text
    )
    assert report.main([*flags, "--thin", "2"]) == 0
    thinned = checked(path)
    drawn = []
    monkeypatch.setattr(
        page_of_runs,
        "plot_traces",
        lambda rows, *rest: drawn.append(rows) or plot_traces(rows, *rest),
    )
    assert report.main([*flags, "--thin", "2"]) == 0
    (apart,) = drawn[0].query("walker == 0")["step"].diff().dropna().unique()
    assert apart == 20, (
        "rows of the burn-in are as far apart as the others: at wider gaps a trace breaks"
    )
    text = " ".join(thinned.text)
    assert "4,000, the first 2,000 left out as burn-in, thinned by a factor of 2" in text
    for page, thin in ((rest, 1), (thinned, 2)):
        table = averages(run, ["potential"], burnin=2000, thin=thin).iloc[0]
        assert f"{table['mean']:.4g}" in page.text and f"{table['error']:.4g}" in page.text
    # The whole page of each run follows, and so does the table that compares them; a fit stays as
    # it is.
    fit = made_run(
        tmp_path / "fit", {"loss": np.random.default_rng(1).random((1, 30))}, extra={"kind": "fit"}
    )
    both = checked(write_report([run, fit], path, burnin=2000, thin=2))
    assert both.text.count(f"{table['mean']:.4g}") == 2 and both.warnings == []
    for wrong, sentence in (
        (
            ["--burnin", "4000"],
            "No rows are left after the burn-in of 4,000 steps. Received: last step 4,000.",
        ),
        (["--burnin", "-1"], "--burnin is out of range. Received: -1. Expected: 0 or more."),
        (["--thin", "0"], "--thin is out of range. Received: 0. Expected: 1 or more."),
        (["--thin", "two"], "--thin has the wrong type. Received: two. Expected: an integer."),
    ):
        assert report.main([*flags[:3], *wrong]) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and sentence in captured.err


def test_runs_that_have_little_to_say(tmp_path):
    short = made_run(
        tmp_path / "short",
        {name: values[:, :2] for name, values in chains(1).items()},
        shapes=SHAPES,
    )
    assert any("Fewer than 4 rows" in warning for warning in checked(write_report(short)).warnings)
    fit = made_run(
        tmp_path / "fit", {"loss": np.random.default_rng(1).random((1, 30))}, extra={"kind": "fit"}
    )
    rows = fit.run_info.assign(temperature=np.nan)
    rows.to_csv(fit.folder / "run.csv", index=False)
    assert "not sampled" in " ".join(checked(write_report(fit)).text)
    rows.head(0).to_csv(fit.folder / "run.csv", index=False)
    assert "The run has no rows yet." in checked(write_report(fit)).warnings


def test_the_command(folder, tmp_path, capsys):
    path = tmp_path / "page.html"
    assert report.main([str(folder / "well"), "--output", str(path)]) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1] == f"written: {path}"
    )  # after a first line in a new process
    for arguments, sentence in (
        ([], "tati-report needs a run folder"),
        ([str(folder / "wel")], "Did you mean 'well'?"),
        ([str(folder / "well"), "--output", "page.pdf"], "must end in .html"),
        ([str(folder / name) for name in ("well", "ill", "ladder")], "--output FILE.html"),
        ([str(folder / "well"), "--output", str(tmp_path / "no" / "page.html")], "Cannot write"),
    ):
        assert report.main(arguments) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and sentence in captured.err


def test_help_is_quick():
    program = "import json, sys\nfrom tati_re.cli.report import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n"
    program += "    print(json.dumps(sorted({n.partition('.')[0] for n in sys.modules} & {'tensorflow', 'pandas', 'numpy'})))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """8 walkers x 10,000 rows."""
    folder = tmp_path_factory.mktemp("large") / "run"
    return write_report(made_run(folder, chains(5, 8, 10_000), shapes=SHAPES, extra=EXTRA))


def test_a_large_run_is_a_small_page(large):
    page = checked(large)
    assert large.stat().st_size < 600_000 and len(page.images) == 2


@pytest.mark.slow
@pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium or Chrome on this machine: the page was not looked at"
)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(large, width, dark, tmp_path):
    """No message on the console, no page wider than the window, it opens within seconds, and is as
    dark as asked for; tables are as wide as the page, or scroll by themselves.
    """
    probe = tmp_path / "probe.html"
    # A window cannot be narrower than 500 pixels, a frame can.
    probe.write_text(
        f"<iframe id=f src='{large.as_uri()}' width={width} height=800></iframe><script>onload = () => {{"
        "const d = document.getElementById('f').contentDocument, w = [...d.images];"
        "const t = [...d.querySelectorAll('.wide')], over = t.filter(e => e.scrollWidth > e.clientWidth).length;"
        "document.title = 'loaded ' + d.documentElement.scrollWidth + ' ' + w.filter(i => i.naturalWidth > 0).length"
        "+ ' ' + over + ' ' + getComputedStyle(d.body).backgroundColor.replaceAll(' ', '');"
        "}</script>"
    )
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--enable-logging=stderr",
    ]
    flags += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    flags += ["--window-size=1300,900", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    began = time.monotonic()
    command = [CHROMIUM, *flags, probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    seconds = time.monotonic() - began
    assert "CONSOLE" not in done.stderr
    title = re.search(r"<title>loaded (\d+) (\d+) (\d+) (.+)</title>", done.stdout)
    assert title, done.stdout[-500:]
    assert int(title[1]) <= width, "the page does not move sideways"
    assert int(title[2]) == 2, "both figures are drawn"
    assert int(title[3]) == (0 if width == 1280 else 1), (
        "tables fit a screen, and scroll on a phone"
    )
    assert title[4] == ("rgb(28,28,28)" if dark else "rgb(255,255,255)")
    assert seconds < 60, "the start of the browser included, on a busy machine"


def step_sizes(values, start=0.001, burnin=0, tuned=False, kind="sample"):
    """What is said of step sizes `(steps, walkers)` at steps 10, 20, ..."""
    values = np.asarray(values, np.float64)
    step = np.repeat(10 * np.arange(1, len(values) + 1), values.shape[1])
    rows = pd.DataFrame({"step": step, "walker": np.tile(np.arange(values.shape[1]), len(values))})
    options = {"num_burnin_steps": burnin, "step_size": start}
    method = {"sampler": "HMC", "target_acceptance": 0.8} if tuned else {}
    manifest = Manifest.of({"kind": kind, "options": options, "method": method})
    return step_size_text(manifest, rows.assign(step_size=values.ravel()), None)


def test_step_sizes_in_words():
    assert step_sizes([[0.1, 0.1]] * 4) == "0.1"
    assert step_sizes([[0.1, 0.3]] * 4) == "0.1 to 0.3 over the walkers"
    assert step_sizes([[0.4], [0.2], [0.1]]) == "0.4 at step 10 to 0.1 at step 30"
    assert step_sizes([[0.4], [0.2], [0.4]]) == "0.2 to 0.4, not the same at every step"
    assert (
        step_sizes([[0.001], [0.09], [0.0186], [0.0186]], burnin=20, tuned=True)
        == "0.0186, tuned from 0.001"
    )
    assert step_sizes([[0.001], [0.09]], burnin=50, tuned=True) == "0.09, still being tuned"
    assert step_sizes([[np.nan]] * 3) == ""


def text_of(run):
    return " ".join(checked(write_report(run)).text), run.summary()


def small(**options):
    return tati_re.Simulation(
        data="two_clusters", hidden=[2], seed=1, execution="graph", verbose=0, **options
    )


def test_the_report_says_what_ran(tmp_path):
    """The tuned step size and the leapfrog steps; not the friction, which HMC has no use for."""
    options = {
        "num_steps": 60,
        "num_burnin_steps": 40,
        "friction": 3.0,
        "num_leapfrog_steps": 7,
        "step_size": 0.001,
    }
    run = small(num_walkers=2, output=str(tmp_path / "a")).sample(
        sampler="HMC", target_acceptance=0.8, **options
    )
    page, summary = text_of(run)
    used = run.run_info["step_size"].iloc[-1]
    assert run.manifest["unused"] == ["friction"] and used > 0.002
    assert (
        f"The sampler is HMC with step size {used:.4g}, tuned from 0.001; leapfrog steps 7, leapfrog jitter"
        in page
    )
    assert re.search(rf"step size +{used:.4g}, tuned from 0.001", summary)
    assert "and friction" not in page and "3.0 (not used by HMC)" in page and "walls" not in page


@pytest.mark.slow
def test_reports_of_schedules_ladders_objects_and_fits(tmp_path):
    sim = small(num_walkers=2)
    length = {"num_steps": 40, "record_every": 10}
    decaying = {
        "step_schedule": "polynomial",
        "schedule_delay": 10.0,
        "schedule_power": 1.0,
        "step_size": 1e-4,
    }
    page, summary = text_of(
        sim.sample(sampler="SGLD", output=str(tmp_path / "a"), **decaying, **length)
    )
    # (1 + t/10)^-1 with t = 9 and 39 steps before.
    assert "SGLD with step size 5.263e-05 at step 10 to 2.041e-05 at step 40; the target" in page
    assert "5.263e-05 at step 10 to 2.041e-05 at step 40" in summary
    tuned = {
        "sampler": "HMC",
        "target_acceptance": 0.8,
        "num_burnin_steps": 20,
        "num_leapfrog_steps": 2,
    }
    ladder = {"temperatures": [1.0, 4.0], "step_sizes": [0.001, 0.03]}
    run = sim.sample(output=str(tmp_path / "b"), **tuned, **ladder, **length)
    last = run.run_info[run.run_info["step"] == 40].groupby("rung")["step_size"].first()
    np.testing.assert_allclose(run.ladder["step_size"], last)
    page, summary = text_of(run)
    for rung in (0, 1):
        assert f"step size {last[rung]:.4g}" in summary
    assert last[0] > 0.0015 and last[1] != 0.03
    page, _ = text_of(
        sim.sample(
            sampler=Skeleton(0.5),
            output=str(tmp_path / "c"),
            step_size=1e-4,
            friction=2.0,
            **length,
        )
    )
    assert (
        "Skeleton with step size 0.0001; mobility 0.5; the target" in page
        and "2.0 (not used by Skeleton)" in page
    )
    stages = [
        {"num_steps": 20, "learning_rate": 1e-3, "batch_size": 100},
        {"num_steps": 20, "learning_rate": 1e-4},
    ]
    page, summary = text_of(sim.fit(stages=stages, optimizer="sgd", output=str(tmp_path / "d")))
    assert "sgd with learning rate 0.001 at step 10 to 0.0001 at step 40" in page
    assert "mini-batches of 100, then" in page
    assert "learning rate" in summary and "step size" not in summary


def test_what_is_computed_from_stored_positions(tmp_path):
    """Marginals of walkers that agree and of walkers that do not; predictions need a model, and say
    so.
    """
    generator = np.random.default_rng(9)
    positions = generator.standard_normal((4, 400, 9))
    positions[3, :, 0] += 6.0
    run = made_run(tmp_path / "run", chains(1), positions, shapes=SHAPES, extra=EXTRA)
    page = checked(write_report(run))
    text = " ".join(page.text)
    assert len(page.images) == 3 and "9 of 9 parameters, evenly spaced; 1,600 positions." in text
    assert "R-hat is above 1.01 for 1: walkers disagree" in text
    assert "No predictions of the test set:" in text
    assert {"run-0-parameters", "run-0-predictions", "top"} <= page.ids


def test_figures_that_were_made_of_a_run_beside_it(folder, tmp_path):
    from tati_re.plotting.figure import new_figure

    run = made_run(tmp_path / "run", chains(1), shapes=SHAPES, extra=EXTRA)
    for name, of in (("landscape-1", "../run"), ("landscape-2", "../other")):
        (tmp_path / name).mkdir()
        new_figure(2, 2).savefig(tmp_path / name / "landscape.png")
        (tmp_path / name / "landscape.toml").write_text(f'run = "{of}"\n')
    text = " ".join(checked(write_report(run)).text)
    assert "../landscape-1/landscape.png" in text and "landscape-2" not in text


def test_warnings_lead_to_what_they_are_about(folder):
    page = checked(write_report(folder / "ill"))
    assert {"#run-0-traces", "#run-0-averages", "#run-0-groups", "#top"} <= set(page.links)


@pytest.mark.slow
def test_a_bias_alone_is_no_ladder(tmp_path):
    """A page spoke of a ladder of 1 rungs at temperatures 1 to 1, a summary of its mean potential
    nan.
    """
    length = {"num_steps": 60, "num_burnin_steps": 20, "record_every": 2}
    run = small().sample(bias="well_tempered", step_size=1e-3, output=str(tmp_path / "a"), **length)
    page, summary = text_of(run)
    assert "ladder of" not in page and "Ladder and" not in page and "A well-tempered bias" in page
    assert "rung 0" not in summary


def test_a_line_for_each_of_many_walkers():
    from tati_re.report.parts import _marginals

    draws = np.random.default_rng(1).normal(size=(9, 50))
    panel = _marginals({"x": draws}, np.ones_like(draws)).axes[0]
    assert len(panel.patches) == 9 and {patch.get_edgecolor()[:3] for patch in panel.patches} == {
        (0, 114 / 255, 178 / 255)
    }
