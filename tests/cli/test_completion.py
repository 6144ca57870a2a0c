"""Completion by shells: bash itself is asked, and what the script of zsh says."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import subprocess

import pytest

from tati_re import cli
from tati_re.cli.arguments import Parser, make_parser
from tati_re.cli.completion import offered, script
from tati_re.core.errors import InputError
from tati_re.optimizers import make_optimizer
from tati_re.options.make import OPTIONS, SAMPLE, make_options
from tati_re.options.presets import PRESETS
from tati_re.samplers import make_sampler

BASH = shutil.which("bash")


@pytest.fixture
def parser():
    return make_parser("tati-sample", "", SAMPLE)


def completed(parser, *words: str, cwd=None) -> list[str]:
    """What bash offers for the last of the words."""
    program = script(parser, "bash") + (
        f"\nCOMP_WORDS=(tati-sample {' '.join(words[:-1])} '{words[-1]}'); COMP_CWORD={len(words)}\n"
        "_shtab_tati_sample\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [BASH, "-c", program], capture_output=True, text=True, check=True, cwd=cwd
    )
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="bash is not there")
def test_bash_completes_flags_names_and_files(parser, tmp_path):
    assert completed(parser, "--num-st") == ["--num-steps"]
    offered = completed(parser, "--num-steps", "5", "--pri")
    assert "--prior" in offered and "--prior-std" in offered
    assert completed(parser, "--walker-start", "j") == ["jitter"]
    assert "gaussian" in completed(parser, "--prior", "g")
    assert completed(parser, "--sampler", "BAO") == ["BAOAB"]
    assert completed(parser, "--print-completion", "") == ["bash", "zsh"]
    (tmp_path / "data.csv").touch()
    assert completed(parser, "--data", "da", cwd=tmp_path) == ["data.csv"]
    assert completed(parser, "--sampler", "da", cwd=tmp_path) == ["data.csv"]
    assert completed(parser, "--num-steps", "da", cwd=tmp_path) == []
    assert not [flag for flag in completed(parser, "--") if "_" in flag]
    assert "complete -o bashdefault -F _shtab_tati_sample tati-sample" in script(parser, "bash")
    with_runs = Parser(prog="tati-sample")
    with_runs.add_argument("runs", nargs="+", metavar="RUN")
    assert completed(with_runs, "da", cwd=tmp_path) == ["data.csv"]


def test_zsh_is_told_flags_meanings_and_names(parser):
    text = script(parser, "zsh")
    assert text.startswith("#compdef tati-sample\n")
    assert '"--walker-start[' in text and ':NAME:(same jitter fresh fit)"\n' in text
    assert '{--shuffle,--no-shuffle}"[' in text
    for line in text.splitlines():
        assert line.replace('\\"', "").count('"') % 2 == 0, line


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not there")
def test_zsh_reads_its_script(parser):
    subprocess.run(["zsh", "-n", "-c", script(parser, "zsh")], check=True)


def test_names_that_are_offered_are_there():
    names = offered()
    for name in names["sampler"]:
        sampler = make_options(sampler=name).sampler if name in PRESETS else name
        assert make_sampler(sampler, make_options())
    for name in names["optimizer"]:
        assert make_optimizer(name, make_options(), [(2,)])
    for name in names:
        assert name in OPTIONS or name == "print_completion"


def commands() -> list[str]:
    """Modules of commands, by what they define."""
    found = []
    for module in pkgutil.iter_modules(cli.__path__):
        if module.name != "tati" and hasattr(
            importlib.import_module(f"tati_re.cli.{module.name}"), "main"
        ):
            found.append(module.name)
    return found


@pytest.mark.parametrize("name", commands())
def test_every_command_prints_its_completion_and_version(name, capsys):
    main = importlib.import_module(f"tati_re.cli.{name}").main
    with pytest.raises(SystemExit, match="0"):
        main(["--print-completion", "bash"])
    said = capsys.readouterr().out
    assert "complete -o bashdefault -F _shtab_" in said and "--version" in said
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.split()[1][0].isdigit()


def test_another_shell_is_refused(parser):
    with pytest.raises(
        InputError, match=r"^--print-completion: this shell is not supported. Received: fish."
    ):
        parser.parse(["--print-completion", "fish"])
