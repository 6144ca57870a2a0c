"""`tati` and what all commands share: a short help, what differs from the defaults, and one
completion.
"""

import os
import shutil
import subprocess
import sys

import pytest

from tati_re.cli import arguments, sample, tati
from tati_re.core.errors import InputError
from tati_re.options.make import (
    ELSEWHERE,
    OPTIONS,
    SAMPLE,
    make_options,
    options_of,
    read_toml,
    unknown,
)

BASH = shutil.which("bash")


def said(main, capsys, *words: str) -> tuple[int, str, str]:
    try:
        status = main(list(words))
    except SystemExit as error:
        status = error.code
    told = capsys.readouterr()
    return status, told.out, told.err


def test_all_commands_stand_under_one_name(capsys):
    status, out, _ = said(tati.main, capsys, "--help")
    assert status == 0 and all(f"  {name} " in out for name in tati.COMMANDS)
    assert said(tati.main, capsys) == (0, out, "")
    assert (
        said(tati.main, capsys, "sample", "--version")[1]
        == said(sample.main, capsys, "--version")[1]
    )
    assert said(tati.main, capsys, "optimize", "--print-config") == said(
        tati.main, capsys, "fit", "--print-config"
    )
    status, out, err = said(tati.main, capsys, "sampel")
    assert (status, out) == (2, "") and "Did you mean 'sample'?" in err
    status, _, err = said(tati.main, capsys, "sample", "--num-stepz", "3")
    assert status == 2 and "tati-sample. Did you mean '--num-steps'?" in err
    for name in tati.COMMANDS:
        assert callable(tati.module_of(name).main) and tati.module_of(name).parser_of_command()


def test_the_help_explains_ten_options_and_names_the_others(capsys):
    _, short, _ = said(sample.main, capsys, "--help")
    _, whole, _ = said(sample.main, capsys, "--help-all")
    flags = {arguments.flag(name) for name in options_of(SAMPLE)}
    assert all(flag in short.split() for flag in flags)
    explained = {
        line.split()[0]
        for line in short.split("\n\ndata:")[0].splitlines()
        if line.startswith("  --")
    }
    assert explained & flags == {arguments.flag(name) for name in arguments.MAIN} - {
        "--optimizer",
        "--learning-rate",
    }
    assert len(short.splitlines()) <= 121 < 300 < len(whole.splitlines())
    assert f"default {OPTIONS['friction'].default}" in whole


def test_a_configuration_of_what_differs(tmp_path, capsys):
    words = (
        "--print-config",
        "--changed",
        "--data",
        "digits",
        "--num-steps",
        "1000",
        "--step-size",
        "0.25",
    )
    status, out, _ = said(sample.main, capsys, *words)
    assert status == 0 and out.splitlines() == ['data = "digits"', "step_size = 0.25"]
    (tmp_path / "run.toml").write_text(out)
    assert make_options(read_toml(tmp_path / "run.toml")) == make_options(
        data="digits", step_size=0.25
    )
    status, _, err = said(sample.main, capsys, "--changed", "--data", "digits")
    assert status == 2 and "--changed needs --print-config" in err


def test_the_first_line_comes_before_tensorflow(monkeypatch, capsys):
    arguments.loading(0)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    arguments.loading(0)
    assert capsys.readouterr().out == ""
    arguments.loading()
    assert capsys.readouterr().out == "Loading TensorFlow ...\n"


@pytest.mark.parametrize("name", ["report", "analyse", "compare"])
def test_commands_that_read_runs_say_so_first(monkeypatch, capsys, name):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    words = ("no-a", "no-b") if name == "compare" else ("no-a",)
    status, out, err = said(tati.main, capsys, name, *words)
    assert (status, out) == (
        2,
        f"Reading {(' and ' if name == 'compare' else ', ').join(words)} ...\n",
    ) and err
    assert said(tati.main, capsys, name, *words, "--quiet")[:2] == (2, "")


@pytest.mark.parametrize("given", [None, "0"])
def test_importing_the_package_leaves_the_words_of_tensorflow_to_who_set_them(given):
    code = "import os, sys, tati_re; print(os.environ['TF_CPP_MIN_LOG_LEVEL'], 'tensorflow' in sys.modules)"
    environment = {
        name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"
    }
    environment |= {} if given is None else {"TF_CPP_MIN_LOG_LEVEL": given}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert out.stdout.split() == [given or "3", "False"] and not out.stderr


def test_the_package_runs_as_the_command_and_lists_the_others_without_tensorflow():
    call = [sys.executable, "-X", "importtime", "-m", "tati_re"]
    listed = subprocess.run(call, capture_output=True, text=True, check=True)
    assert all(f"\n  {name} " in listed.stdout for name in tati.COMMANDS)
    assert "tati_re.cli.tati" in listed.stderr and "tensorflow" not in listed.stderr

    unknown_command = subprocess.run([*call, "samle"], capture_output=True, text=True)
    assert unknown_command.returncode == 2 and "Did you mean 'sample'?" in unknown_command.stderr


def test_negative_numbers_and_ranges_are_values_of_the_flag_before_them():
    parser = arguments.Parser("tati-test")
    parser.add_argument("run")
    parser.add_argument("-v", action="store_true", dest="loud")
    parser.add_table(
        {"range": ("R", ""), "step": ("X", ""), "several": (("X",), ""), "limit": ("X", "")}
    )
    words = [
        "--range",
        "-1:1:41,-.5:2:3",
        "--step",
        "-1e-3",
        "--quiet",
        "-v",
        "run",
        "--several",
        "-1e-3",
        "-2e5",
    ]
    typed = parser.parse([*words, "--limit", "-inf"])
    assert typed == {
        **{"range": "-1:1:41,-.5:2:3", "step": "-1e-3", "quiet": True, "loud": True, "run": "run"},
        **{"several": ["-1e-3", "-2e5"], "limit": "-inf"},
    }


def test_words_of_other_libraries_are_told_what_they_are_here(capsys):
    with pytest.raises(InputError, match=r"epochs is not a known option\. num_steps counts"):
        make_options(epochs=3)
    with pytest.raises(
        InputError, match=r"x_train is not a known option. Pass arrays as data=\(x, y\)."
    ):
        make_options(x_train=[1.0])
    status, _, err = said(sample.main, capsys, "--data", "digits", "--num-chains", "3")
    assert status == 2 and "Use num_walkers." in err
    assert not ELSEWHERE.keys() & OPTIONS.keys()
    assert "Did you mean 'num_steps'?" in str(unknown("num_step"))


@pytest.mark.skipif(BASH is None, reason="bash is not there")
def test_one_completion_serves_both_names(tmp_path, capsys):
    _, script, _ = said(tati.main, capsys, "--print-completion", "bash")
    (tmp_path / "complete.bash").write_text(script)
    for function, words, offered in (
        ("_shtab_tati", ("tati", "samp"), "sample"),
        ("_shtab_tati", ("tati", "sample", "--num-st"), "--num-steps"),
        ("_shtab_tati", ("tati", "sample", "--sampler", "BAO"), "BAOAB"),
        ("_shtab_tati_sample", ("tati-sample", "--walker-start", "j"), "jitter"),
    ):
        line = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
        asked = f"source ./complete.bash\n{line}\n{function}\necho ${{COMPREPLY[@]}}"
        done = subprocess.run(
            [BASH, "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stdout.strip() == offered
    status, _, err = said(tati.main, capsys, "--print-completion")
    assert status == 2 and "this shell" in err


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        (["--max_step", "5"], "num_steps", 5),
        (["--max_step=5"], "num_steps", 5),
        (["--parse_step", "7", "--parameters", "runs/a"], "parameters_step", 7),
        (["--number_w", "3"], "num_walkers", 3),
        (["--friction_const", "2.5"], "friction", 2.5),
    ],
)
def test_a_unique_beginning_of_a_flag_of_tati_stands_for_it(capsys, typed, name, value):
    status, out, _ = said(sample.main, capsys, "--data", "digits", *typed, "--print-config")
    assert status == 0 and f"\n{name} = {value}\n" in out


@pytest.mark.parametrize(
    "flag",
    ["--batch_data_file", "--step", "--num-step", "--max", "--m", "--h"],
    ids=["two of TATi", "TATi's or ours", "ours", "short", "a letter", "help"],
)
def test_other_beginnings_stand_for_nothing(capsys, flag):
    status, _, err = said(sample.main, capsys, "--data", "digits", flag, "3", "--print-config")
    assert status == 2 and f"{flag} is not a known option" in err
