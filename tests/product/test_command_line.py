"""The commands: what they pass on, how they refuse bad input, how fast their help is."""

from __future__ import annotations

import gc
import importlib
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tati_re.cli import optimize, sample
from tati_re.cli.arguments import as_typed, free_folder
from tati_re.core.errors import InputError, SamplingError
from tati_re.core.lazy import left_out, uncollected
from tati_re.options.flags import expected
from tati_re.options.make import OPTIMIZE, OPTIONS, SAMPLE, make_options, read_toml, to_toml

HEAVY = ("tensorflow", "keras", "pandas", "matplotlib", "scipy", "sklearn", "numpy", "h5py", "rich")


class Recorder:
    """Stands in for the simulation: notes what the commands ask of it."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.failure = failure
        self.calls: list[tuple] = []

    def _run(self, name, *args):
        self.calls.append((name, *args))
        if self.failure is not None:
            raise self.failure
        return types.SimpleNamespace(
            summary=lambda: "the summary", folder="runs/somewhere", exit_status=0
        )

    def from_options(self, options):
        return types.SimpleNamespace(
            sample=lambda: self._run("sample", options),
            fit=lambda: self._run("fit", options),
            step_size_advice=lambda: "The advice.",
        )

    def resume(self, folder, **kwargs):
        return self._run("resume", folder, kwargs)


@pytest.fixture
def simulation(monkeypatch, tmp_path):
    """Replaces `tati_re.simulation.simulation` and works in an empty folder."""
    monkeypatch.chdir(tmp_path)
    recorder = Recorder()
    monkeypatch.setitem(
        sys.modules, "tati_re.simulation.simulation", types.SimpleNamespace(Simulation=recorder)
    )
    return recorder


def refused(capsys, main, *argv) -> str:
    assert main(list(argv)) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err.removeprefix("error: ").rstrip("\n")


def test_a_file_without_an_option_is_taken_for_the_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("own.csv").write_text("x,y\n1,2\n")
    said = refused(capsys, sample.main, "own.csv")
    assert said == "own.csv is not the value of an option. Expected: --data own.csv."


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (
            ["--step-size", "-1"],
            "--step-size is out of range. Received: -1. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            ["--step-size", "-1e-3"],
            "--step-size is out of range. Received: -1e-3. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            ["--step-size=abc"],
            "--step-size has an unknown value. Received: abc. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            ["--step-size", ""],
            "--step-size has an unknown value. Received: nothing. Expected: a number greater than 0 or 'auto'.",
        ),
        (["--step-size"], "--step-size: expected one argument; see tati-sample --help."),
        (
            ["--step-sise", "1"],
            "--step-sise is not a known option of tati-sample. Did you mean '--step-size'?",
        ),
        (
            ["--step_size", "1"],
            "--step_size is not a known option of tati-sample. Did you mean '--step-size'?",
        ),
        (
            ["--step", "1"],
            "--step is not a known option of tati-sample. Did you mean '--step-size'?",
        ),
        (["--learning-rate", "1"], "--learning-rate is not a known option of tati-sample."),
        (
            ["runs/a"],
            "runs/a is not the value of an option. Expected: options and their values, such as --seed 1.",
        ),
        (
            ["--num-steps", "2.5"],
            "--num-steps has the wrong type. Received: 2.5. Expected: an integer at least 1.",
        ),
        (
            ["--hidden", "10", "x"],
            "--hidden has the wrong type. Received: x. Expected: a list of integers, each at least 1.",
        ),
        (
            ["--prior", "gausian"],
            "--prior has an unknown value. Did you mean 'gaussian'? Received: gausian. "
            f"Expected: {expected(OPTIONS['prior'])}.",
        ),
        (
            ["--temperature", "1", "--inverse-temperature", "2"],
            "--temperature and --inverse-temperature are two names for the same quantity. "
            "Received: --temperature 1 and --inverse-temperature 2. Expected: one of the two.",
        ),
        (
            ["--quiet", "--verbose", "2"],
            "--quiet and --verbose contradict each other. Received: 2. Expected: one of the two.",
        ),
        (
            ["--config", "no.toml"],
            "no.toml cannot be read: No such file or directory. Expected: a TOML file.",
        ),
        ([], f"--data is missing. Expected: {OPTIONS['data'].description}."),
        (
            ["--resume", "runs/a", "--step-size", "1"],
            "--step-size cannot be changed by --resume. "
            "Expected: only --num-steps, --max-time, --requeue-signal, --require-certificate, --workers, "
            "--cluster, --worker-gpus, --data or --test-data of files that moved, --trust, --verbose or --quiet.",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(simulation, capsys, argv, sentence):
    assert refused(capsys, sample.main, *argv) == sentence
    assert simulation.calls == []


def test_optimize_has_no_resume(simulation, capsys):
    assert refused(capsys, optimize.main, "--resume", "a").startswith(
        "--resume is not a known option of tati-optimize."
    )


def test_bad_toml_is_one_line_and_status_2(simulation, capsys, tmp_path):
    (tmp_path / "run.toml").write_text("step_sise = 0.1")
    sentence = "run.toml: step_sise is not a known option. Did you mean 'step_size'?"
    assert refused(capsys, sample.main, "--config", "run.toml") == sentence


def test_sample_passes_options_on(simulation, capsys):
    assert (
        sample.main(["--data", "digits", "--num-steps", "20", "--threads", "1", "--no-overwrite"])
        == 0
    )
    [(name, options)] = simulation.calls
    assert name == "sample"
    assert options == make_options(data="digits", num_steps=20, threads=1, output="runs/sample-1")
    assert options.explicit == {"data", "num_steps", "threads", "overwrite", "output"}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("end", [[], ["--seed", "1"], ["2"]])
def test_verbose_without_a_number_is_the_most(simulation, capsys, end):
    before = ["--data", "points.csv", "--num-steps", "5"]
    assert sample.main([*before, "--verbose", *end]) == 0
    [(_, options)] = simulation.calls
    assert options.verbose == 2


def test_optimize_passes_options_on(simulation, capsys):
    assert (
        optimize.main(["--data", "digits", "--optimizer", "sgd", "--output", "x", "--quiet"]) == 0
    )
    [(name, options)] = simulation.calls
    assert name == "fit"
    assert options == make_options(data="digits", optimizer="sgd", output="x", verbose=0)
    assert capsys.readouterr().out == ""


def test_resume_passes_on_what_may_change(simulation):
    assert sample.main(["--resume", "runs/a", "--num-steps", "50", "--quiet"]) == 0
    assert sample.main(["--resume", "runs/a", "--max-time", "2.5"]) == 0
    assert simulation.calls == [
        ("resume", "runs/a", {"num_steps": 50, "trust": False, "max_time": None, "verbose": 0}),
        ("resume", "runs/a", {"num_steps": None, "trust": False, "max_time": 2.5, "verbose": 1}),
    ]


def test_flags_go_before_the_config_file(simulation, tmp_path):
    (tmp_path / "run.toml").write_text(
        'data = "digits"\nnum_steps = 7\nseed = 3\ninverse_temperature = 2.0\n'
    )
    assert (
        sample.main(
            ["--config", "run.toml", "--num-steps", "9", "--temperature", "5", "--output", "x"]
        )
        == 0
    )
    expected = make_options(data="digits", num_steps=9, seed=3, temperature=5.0, output="x")
    assert simulation.calls == [("sample", expected)]


@pytest.mark.parametrize(("main", "groups"), [(sample.main, SAMPLE), (optimize.main, OPTIMIZE)])
def test_printed_config_reads_back_to_the_same(simulation, capsys, tmp_path, main, groups):
    assert (
        main(
            [
                "--print-config",
                "--hidden",
                "10",
                "5",
                "--data",
                "a b.csv",
                "--seed",
                "4",
                "--noise-std",
                "1e-7",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    (tmp_path / "run.toml").write_text(printed)
    options = make_options(hidden=[10, 5], data="a b.csv", seed=4, noise_std=1e-7)
    assert make_options(read_toml("run.toml")) == options
    assert printed == to_toml(options, groups)
    assert main(["--config", "run.toml", "--print-config"]) == 0
    assert capsys.readouterr().out == printed
    assert simulation.calls == [] and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("failure", "argv", "sentence"),
    [
        (
            InputError("batch_size is too large.", 9),
            ["--batch-size", "9"],
            "--batch-size is too large. Received: 9.",
        ),
        (InputError("sampler 'X' is unknown."), ["--sampler", "X"], "--sampler 'X' is unknown."),
        (InputError("sampler 'X' is unknown."), [], "sampler 'X' is unknown."),
        (
            SamplingError("loss is NaN at step 3,\nwalker 0.", 3, 0),
            ["--loss", "a"],
            "loss is NaN at step 3, walker 0.",
        ),
    ],
)
def test_failures_of_the_run_are_one_line_in_the_words_typed(
    simulation, capsys, tmp_path, failure, argv, sentence
):
    simulation.failure = failure
    assert refused(capsys, sample.main, "--data", "digits", *argv) == sentence
    assert not (tmp_path / "runs").exists(), "the empty run folder of a refused run stays behind"


def test_a_run_that_is_not_finished_has_a_status_of_its_own(simulation, capsys, monkeypatch):
    for status in (75, 130):
        ended = types.SimpleNamespace(
            summary=lambda: "the summary", folder="runs/somewhere", exit_status=status
        )
        monkeypatch.setattr(simulation, "_run", lambda *_, ended=ended: ended)
        for command in (["--data", "digits"], ["--resume", "runs/a"]):
            assert sample.main(command) == status and capsys.readouterr().out == ""
        assert optimize.main(["--data", "digits", "--quiet"]) == status


def test_an_interrupt_ends_with_status_130(simulation, capsys):
    simulation.failure = KeyboardInterrupt()
    assert sample.main(["--data", "digits"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_folders_are_numbered_and_the_next_free_one_is_taken(tmp_path):
    (tmp_path / "sample-2").mkdir()
    assert [free_folder("sample", str(tmp_path)).name for _ in range(3)] == [
        "sample-1",
        "sample-3",
        "sample-4",
    ]


def test_a_file_where_the_folders_go_is_refused(simulation, capsys, tmp_path):
    (tmp_path / "runs").write_text("")
    assert refused(capsys, sample.main, "--data", "digits").startswith(
        "runs is not a folder. Received: a file."
    )


def test_only_what_was_typed_is_written_as_a_flag():
    message = "step_size 3 in my_step_size.csv, step_size.csv and a/step_size: seed 1"
    assert as_typed(message, {"step_size", "seed"}) == message.replace(
        "step_size 3", "--step-size 3"
    )
    assert as_typed("data.csv has no rows.", {"data"}) == "data.csv has no rows."
    of_tati = {"parse_steps", "parse_parameters_file"}
    assert as_typed("parameters_step: none", of_tati) == "--parse_steps: none"
    assert as_typed("parameters: no file", of_tati) == "--parse_parameters_file: no file"
    assert as_typed("parameters: no file", {"every_nth"}) == "parameters: no file"


def loaded(code: str) -> tuple[int, str, list[str]]:
    """Returns exit status, output, and the heavy modules that a fresh interpreter has loaded after
    `code`.
    """
    program = f"""
import json, sys
status = 0
try:
    {code}
except SystemExit as error:
    status = error.code or 0
print("\\n" + json.dumps([status, sorted({{name.partition(".")[0] for name in sys.modules}} & set({HEAVY!r}))]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    output, _, last = done.stdout.rstrip("\n").rpartition("\n")
    status, modules = json.loads(last)
    return status, output, modules


@pytest.mark.parametrize("command", ["sample", "optimize"])
def test_help_lists_the_options_and_loads_nothing_heavy(command):
    status, output, modules = loaded(
        f"from tati_re.cli.{command} import main; main(['--help-all'])"
    )
    assert (status, modules) == (0, [])
    assert (
        "--num-steps" in output
        and "--print-config" in output
        and "default 1000" in " ".join(output.split())
    )


def test_importing_the_package_loads_nothing_heavy():
    status, _, modules = loaded(
        "import tati_re; tati_re.InputError; dir(tati_re); tati_re.__version__"
    )
    assert (status, modules) == (0, [])


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        sample.main(["--version"])
    assert capsys.readouterr().out == "tati-sample 0.2.0\n"


def test_what_is_left_out_is_there_again_afterwards(monkeypatch):
    for name in ("this", "colorsys"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.import_module("colorsys")
    with left_out("this", "colorsys"):
        assert importlib.import_module("colorsys") is sys.modules["colorsys"]
        with pytest.raises(ImportError):
            importlib.import_module("this")
    assert "this" not in sys.modules
    assert importlib.import_module("colorsys").hsv_to_rgb(0.0, 0.0, 1.0) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_looked_for_again_after_a_failed_import(collects, request):
    request.addfinalizer(gc.enable if gc.isenabled() else gc.disable)
    (gc.enable if collects else gc.disable)()
    with pytest.raises(ImportError), uncollected():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled() is collects


@pytest.mark.slow
def test_a_command_that_draws_nothing_loads_no_library_of_figures(tmp_path):
    """In a process of its own; afterwards whoever wants these libraries has them. The certificate's
    R-hat needs scipy.stats.
    """
    program = f"""
import gc, sys
from tati_re.cli import sample
flags = "--data two_clusters --sampler BAOAB --step-size 0.01 --num-steps 20 --quiet --output {tmp_path}/run"
assert sample.main(flags.split()) == 0
assert not {{"matplotlib", "sklearn"}} & set(sys.modules)
assert gc.isenabled() and gc.get_freeze_count() > 100_000
import matplotlib.figure, sklearn.base
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "run.csv").exists()
