"""Options of one method: tables made from its constructor, `--set`, and the help."""

from __future__ import annotations

import inspect

import pytest

from tati_re import InputError
from tati_re.cli import evidence, optimize, sample
from tati_re.options.families import FAMILIES, factory
from tati_re.options.make import describe, make_options, options_from_flags, read_toml
from tati_re.options.methods import (
    DECLARED,
    KINDS,
    SHARED,
    methods_of,
    options_of_method,
    options_of_methods,
)
from tati_re.options.table import EVIDENCE, OPTIMIZE, OPTIONS, SAMPLE, options_of


def given(options) -> dict:
    return options.values_of(sorted(options.explicit))


def of_toml(tmp_path, text: str, **flags):
    path = tmp_path / "run.toml"
    path.write_text(text)
    return options_from_flags(flags, read_toml(path))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_table_of_a_sampler_is_its_constructor(name):
    parameters = inspect.signature(factory(FAMILIES[name])).parameters
    expected = [parameter for parameter in parameters if parameter in OPTIONS]
    assert [*options_of_method("sampler", name).values()] == expected


def test_the_table_of_an_optimizer_has_the_names_of_its_constructor():
    from tati_re.optimizers import Annealing

    parameters = inspect.signature(Annealing).parameters
    assert {*options_of_method("optimizer", "annealing")} == {*parameters}


def test_all_names_are_options_and_none_stands_for_two():
    for kind in KINDS:
        assert kind in OPTIONS
        for name in methods_of(kind):
            own = options_of_method(kind, name)
            assert own and set(own.values()) <= set(OPTIONS)
            assert len(set(own.values())) == len(own)
            # A short name that is the full name of another option would mean two things.
            assert all(
                short == option or short not in own.values() for short, option in own.items()
            )


@pytest.mark.parametrize("kind", KINDS)
def test_each_table_gives_what_the_options_give(kind, tmp_path):
    """In TOML and in Python, under both names."""
    for method in methods_of(kind):
        own = options_of_method(kind, method)
        usual = {short: OPTIONS[option].default for short, option in own.items()}
        usual = {short: value for short, value in usual.items() if value is not None}
        if kind == "preset":
            usual["blending"] = 5.0
        named = [method] if kind == "method" else method
        flat = make_options({kind: named} | {own[short]: value for short, value in usual.items()})
        assert given(make_options({kind: {method: usual}})) == given(flat)
        full = {own[short]: value for short, value in usual.items()}
        assert given(make_options(**{kind: {method: full}})) == given(flat)
        lines = [f"{short} = {_toml(value)}" for short, value in usual.items()]
        text = "\n".join([f"[{kind}.{method}]", *lines])
        assert given(of_toml(tmp_path, text)) == given(flat)


def _toml(value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def test_a_table_names_the_method_and_flags_go_first(tmp_path):
    text = "step_size = 0.1\n[sampler.pSGLD]\ndecay = 0.9\n"
    expected = {"preconditioner_decay": 0.9, "sampler": "pSGLD", "step_size": 0.1}
    assert given(of_toml(tmp_path, text)) == expected
    assert given(of_toml(tmp_path, text, set=["decay=0.5"])) == expected | {
        "preconditioner_decay": 0.5
    }
    assert of_toml(tmp_path, text, preconditioner_decay="0.5").preconditioner_decay == 0.5


def test_two_estimators_have_tables(tmp_path):
    text = "[method.smc]\nparticles = 10\n[method.mbar]\n"
    expected = {"method": ["smc", "mbar"], "num_particles": 10}
    assert given(of_toml(tmp_path, text)) == expected


def test_tables_of_patterns_stay_tables_of_patterns():
    prior = {"dense/*": "box", "*": "gaussian"}
    assert make_options(prior=prior).prior == prior


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            {"sampler": {"pSGLD": {"dekay": 0.9}}},
            r"\[sampler\.pSGLD\] dekay is not an option of pSGLD\. Did you mean 'decay'\?",
        ),
        ({"sampler": {"pSGLD": {"step_size": 0.9}}}, "step_size is not an option of pSGLD"),
        ({"sampler": {"pSGLD": {}, "HMC": {}}}, "sampler: the tables name several methods"),
        ({"sampler": {"SGLD": {"decay": 0.9}}}, "SGLD has no options of this kind"),
        ({"sampler": {"pSGLD": {"decay": 2.0}}}, "preconditioner_decay is out of range"),
        ({"sampler": {"pSGLD": {"decay": "x"}}}, "preconditioner_decay has the wrong type"),
        (
            {"sampler": {"pSGLD": {"decay": 0.9}}, "preconditioner_decay": 0.9},
            "decay and preconditioner_decay are two names for the same option",
        ),
        ({"optimizer": {"anneal": {"cooling": 0.9}}}, "anneal has no options of this kind"),
    ],
)
def test_wrong_tables_are_refused(value, sentence):
    with pytest.raises(InputError, match=sentence):
        make_options(value)
    with pytest.raises(InputError, match=sentence):
        make_options(**value)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"sampler": "pSGLD", "set": ["decay=0.9"]}, {"preconditioner_decay": 0.9}),
        ({"sampler": "psgld", "set": ["preconditioner-decay=0.9"]}, {"preconditioner_decay": 0.9}),
        ({"set": ["pSGLD.decay=0.9"]}, {"preconditioner_decay": 0.9}),
        ({"set": ["sampler.pSGLD.decay=0.9"]}, {"preconditioner_decay": 0.9}),
        (
            {"sampler": "pSGLD", "swap_rule": "corrected", "set": ["corrected.decay=0.9"]},
            {"correction_decay": 0.9},
        ),
        ({"sampler": "EQN", "set": ["after_steps=7"]}, {"covariance_after_steps": 7}),
        ({"method": ["smc"], "set": ["particles=7", "moves=3"]}, {"num_moves": 3}),
    ],
)
def test_set_gives_what_the_flag_gives(flags, expected):
    found = options_from_flags(flags)
    assert given(found) | expected == given(found)
    others = {name: value for name, value in flags.items() if name != "set"}
    without = options_from_flags(others)
    assert len(found.explicit - without.explicit) >= len(expected) - (
        flags["set"] == ["after_steps=7"]
    )


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"set": ["decay=0.9"]}, "does not use.*sampler = pSGLD or swap_rule = corrected"),
        (
            {"sampler": "pSGLD", "swap_rule": "corrected", "set": ["decay=0.9"]},
            r"several methods.*pSGLD\.decay or corrected\.decay",
        ),
        (
            {"sampler": "pSGLD", "set": ["deca=0.9"]},
            "have no such option",
        ),
        (
            {"sampler": "pSGLD", "set": ["step_size=1"]},
            "have no such option",
        ),
        ({"sampler": "pSGLD", "set": ["decay"]}, "needs a name and a value"),
        ({"sampler": "pSGLD", "set": ["=1"]}, "needs a name and a value"),
        ({"sampler": "pSGLD", "set": ["decay=2"]}, "--preconditioner-decay is out of range"),
        ({"sampler": "pSGLD", "set": ["decay=.5", "decay=.6"]}, "is given twice"),
        (
            {"sampler": "pSGLD", "preconditioner_decay": "0.5", "set": ["decay=.6"]},
            "--preconditioner-decay is given twice",
        ),
    ],
)
def test_wrong_settings_are_refused(flags, sentence):
    with pytest.raises(InputError, match=sentence):
        options_from_flags(flags)


@pytest.mark.parametrize(
    ("command", "groups"), [(sample, SAMPLE), (optimize, OPTIMIZE), (evidence, EVIDENCE)]
)
def test_the_help_leaves_out_the_options_of_one_method(command, groups, capsys):
    with pytest.raises(SystemExit):
        command.main(["--help-all"])
    text = capsys.readouterr().out
    explained = {
        line.split()[0].strip(",") for line in text.splitlines() if line.startswith("  --")
    }
    left_out = {name for name in options_of_methods() - {*SHARED} if name in options_of(groups)}
    flags = {"--" + name.replace("_", "-") for name in left_out}
    assert len(flags) >= 8 and not flags & explained
    assert "--help-method NAME explains them" in text


def test_the_help_of_all_is_shorter_by_a_fifth(capsys, monkeypatch):
    """It had 589 lines of 80 columns, with all options of all methods."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        sample.main(["--help-all"])
    assert len(capsys.readouterr().out.splitlines()) < 589 * 4 / 5
    assert len(options_of_methods() - {*SHARED}) >= 38


@pytest.mark.parametrize("name", ["pSGLD", "psgld", "annealing", "smc", "EQN", "BADODAB"])
def test_the_help_of_a_method_explains_its_options(name, capsys):
    with pytest.raises(SystemExit) as end:
        sample.main(["--help-method", name])
    assert not end.value.code
    text = capsys.readouterr().out
    for kind in KINDS:
        for method in methods_of(kind):
            if method.upper() == name.upper():
                assert f"[{kind}.{method}]" in text
                for short, option in options_of_method(kind, method).items():
                    assert "--" + option.replace("_", "-") in text and f"  {short} = " in text


def test_the_help_of_no_method_names_the_methods(capsys):
    assert sample.main(["--help-method", "pSLGD"]) == 2
    said = capsys.readouterr().err
    assert "Did you mean 'pSGLD'?" in said and "annealing" in said


def test_a_run_takes_settings_from_the_command_line(tmp_path, capsys):
    """The whole way: the printed configuration of a command has the option."""
    argv = ["--data", "two_clusters", "--sampler", "pSGLD", "--set", "decay=0.9", "offset=1e-4"]
    assert sample.main([*argv, "--print-config", "--changed"]) == 0
    printed = capsys.readouterr().out
    assert "preconditioner_decay = 0.9\n" in printed and "preconditioner_offset = 0.0001" in printed
    path = tmp_path / "run.toml"
    path.write_text(printed)
    assert sample.main(["--config", str(path), "--print-config", "--changed"]) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("name", ["annealing.cooling", "cooling", "annealing_cooling"])
def test_options_of_another_command_are_refused(name, capsys):
    assert sample.main(["--data", "two_clusters", "--set", f"{name}=0.5", "--print-config"]) == 2
    said = capsys.readouterr().err
    assert f"--set {name} is not an option of tati-sample" in said


def test_the_description_of_an_option_names_its_tables():
    text = describe("preconditioner_decay")
    assert text.endswith("in the table of a method: [sampler.pSGLD] decay")
    assert "[bias.well_tempered] factor" in describe("bias_factor")
    assert "table" not in describe("friction") and "table" not in describe("num_steps")


def test_every_declared_table_is_of_a_value_of_its_option():
    for kind, methods in DECLARED.items():
        for name in methods:
            value = [name] if kind == "method" else name
            assert make_options({kind: value})
