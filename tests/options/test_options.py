"""The table of options and its doors: Python, TOML, help, the reference page."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.core.errors import InputError
from tati_re.options.flags import choices, expected
from tati_re.options.make import (
    GROUPS,
    OPTIMIZE,
    OPTIONS,
    SAMPLE,
    add_arguments,
    describe,
    make_options,
    options_from_flags,
    options_of,
    read_toml,
    reference_page,
    to_toml,
)


def message(call, *args, **kwargs) -> str:
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_are_valid_and_none_is_explicit():
    options = make_options()
    assert options.explicit == frozenset()
    assert make_options({name: getattr(options, name) for name in OPTIONS}) == options


def test_every_option_has_a_group_and_one_line_of_help():
    assert set(options_of(GROUPS)) == set(OPTIONS)
    for field in OPTIONS.values():
        assert field.description and "\n" not in field.description
        assert expected(field)
    assert "learning_rate" not in options_of(SAMPLE)
    assert "step_size" not in options_of(OPTIMIZE) and "num_walkers" in options_of(OPTIMIZE)


def test_explicit_are_the_names_that_were_given():
    first = make_options({"step_size": 0.1}, num_steps=5)
    assert first.explicit == {"step_size", "num_steps"}
    second = make_options(first, num_steps=7, seed=0)
    assert second.explicit == {"step_size", "num_steps", "seed"}
    assert (second.step_size, second.num_steps) == (0.1, 7)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"step_size": -0.1},
            "step_size is out of range. Received: -0.1. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            {"step_size": float("nan")},
            "step_size is out of range. Received: nan. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            {"step_size": "0.1"},
            "step_size has an unknown value. Received: '0.1'. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            {"num_steps": True},
            "num_steps has the wrong type. Received: True. Expected: an integer at least 1.",
        ),
        (
            {"num_steps": 2.5},
            "num_steps has the wrong type. Received: 2.5. Expected: an integer at least 1.",
        ),
        (
            {"num_steps": None},
            "num_steps has the wrong type. Received: none. Expected: an integer at least 1.",
        ),
        (
            {"test_fraction": 1.0},
            "test_fraction is out of range. Received: 1.0. Expected: a number at least 0 and below 1, or none.",
        ),
        (
            {"verbose": 3},
            "verbose is out of range. Received: 3. Expected: an integer at least 0 and at most 2.",
        ),
        (
            {"batch_size": 0},
            "batch_size is out of range. Received: 0. Expected: an integer at least 1 or none.",
        ),
        (
            {"hidden": [10, 0]},
            "hidden is out of range. Received: 0. Expected: a list of integers, each at least 1.",
        ),
        (
            {"hidden": 10},
            "hidden has the wrong type. Received: 10. Expected: a list of integers, each at least 1.",
        ),
        (
            {"potential": "posteriour"},
            "potential has an unknown value. Did you mean 'posterior'? Received: 'posteriour'. "
            "Expected: 'posterior', 'mean_loss' or my_file.py:my_function.",
        ),
        (
            {"from_logits": "yes"},
            "from_logits has an unknown value. Received: 'yes'. Expected: 'auto', true or false.",
        ),
        ({"step_sise": 0.1}, "step_sise is not a known option. Did you mean 'step_size'?"),
        (
            {"temperature": 1.0, "inverse_temperature": 2.0},
            "temperature and inverse_temperature are two names for the same quantity. "
            "Received: temperature 1.0 and inverse_temperature 2.0. Expected: one of the two.",
        ),
        (
            {"resume": "runs/a"},
            "resume is a flag of the command, not an option. Received: runs/a. Expected: Simulation.resume(folder).",
        ),
    ],
)
def test_bad_value_is_one_sentence(options, sentence):
    assert message(make_options, options) == sentence
    assert message(make_options, **options) == sentence


def test_long_values_are_cut_in_the_message():
    assert len(message(make_options, step_size="1" * 1000)) < 200


def test_numpy_numbers_arrays_tuples_and_paths_are_taken():
    options = make_options(
        step_size=np.float32(0.5),
        num_steps=np.int64(7),
        hidden=np.array([3, 4]),
        output=Path("runs") / "a",
        temperature=2,
    )
    assert (options.step_size, options.num_steps, options.hidden) == (0.5, 7, [3, 4])
    assert options.output == "runs/a"
    assert make_options(hidden=(5,)).hidden == [5]


@pytest.mark.parametrize(
    ("options", "beta", "kT"),
    [({}, 1.0, 1.0), ({"temperature": 4.0}, 0.25, 4.0), ({"inverse_temperature": 8.0}, 8.0, 0.125)],
)
def test_beta_and_temperature(options, beta, kT):
    made = make_options(options)
    assert (made.beta, made.kT) == (beta, kT)


def test_a_later_temperature_replaces_an_earlier_inverse_temperature():
    assert make_options({"inverse_temperature": 2.0}, temperature=5.0).kT == 5.0
    assert make_options(make_options(temperature=2.0), inverse_temperature=5.0).beta == 5.0


def test_options_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        make_options().seed = 3


def test_toml_round_trip(tmp_path):
    values = {
        "data": 'a "quoted" name.csv',
        "hidden": [100, 20],
        "step_size": 1e-5,
        "overwrite": True,
        "from_logits": False,
        "inverse_temperature": 3.0,
        "max_time": 12.5,
        "num_steps": 10,
    }
    options = make_options(values)
    path = tmp_path / "run.toml"
    path.write_text(to_toml(options))
    assert make_options(read_toml(path)) == options
    assert "# batch_size is not set\n" in path.read_text()
    assert tomllib.loads(to_toml(options, OPTIMIZE)).keys() <= set(options_of(OPTIMIZE))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("step_sise = 0.1", "step_sise is not a known option. Did you mean 'step_size'?"),
        (
            "step_size = -1",
            "step_size is out of range. Received: -1. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            'step_size = "1"',
            "step_size has an unknown value. Received: '1'. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            "[sampler]\nstep_size = 1",
            "a table may contain only options of a method. Received: [sampler]. "
            "Expected: step_size = 0.001, or [sampler.pSGLD] and decay = 0.99 below it.",
        ),
        (
            'resume = "runs/a"',
            "resume is a flag of the command, not an option. Received: runs/a. Expected: Simulation.resume(folder).",
        ),
    ],
)
def test_bad_toml_names_the_file(tmp_path, text, sentence):
    path = tmp_path / "run.toml"
    path.write_text(text)
    assert message(read_toml, path) == f"{path}: {sentence}"


def test_toml_with_the_mark_of_an_editor_of_windows(tmp_path):
    (tmp_path / "run.toml").write_text("step_size = 0.5\n", encoding="utf-8-sig")
    assert read_toml(tmp_path / "run.toml") == {"step_size": 0.5}


def test_toml_that_is_missing_or_not_toml(tmp_path):
    path = tmp_path / "run.toml"
    assert (
        message(read_toml, path)
        == f"{path} cannot be read: No such file or directory. Expected: a TOML file."
    )
    path.write_bytes(b"step_size = \xff\n")
    assert message(read_toml, path).startswith(f"{path} is not valid TOML: ")
    path.write_text("step_size 0.1\n")
    assert message(read_toml, path).startswith(f"{path} is not valid TOML: ")


def test_flags_go_before_the_file_and_none_unsets():
    config = {"batch_size": 10, "inverse_temperature": 2.0, "num_steps": 5, "prior": "box"}
    options = options_from_flags(
        {"batch_size": "none", "temperature": "4", "hidden": ["3", "4"], "prior": "none"}, config
    )
    assert options.batch_size is None and options.kT == 4.0 and options.num_steps == 5
    assert options.hidden == [3, 4] and options.prior == "none"
    assert options.explicit == {"batch_size", "temperature", "hidden", "num_steps", "prior"}
    assert options_from_flags({"from_logits": "true"}).from_logits is True


def test_describe_says_range_default_and_flag():
    text = describe("step_size")
    for part in ("step_size", "a number greater than 0", "default: auto", "--step-size"):
        assert part in text
    assert all(f"  {name} (" in describe() for name in OPTIONS)
    assert (
        message(describe, "step_sice")
        == "step_sice is not a known option. Did you mean 'step_size'?"
    )


def test_help_of_the_package_prints_the_description(capsys):
    tati_re.help("friction")
    assert capsys.readouterr().out == describe("friction") + "\n"


def test_choices_are_named_in_the_table():
    assert choices(OPTIONS["execution"]) == ["auto", "xla", "graph", "eager"]
    assert choices(OPTIONS["from_logits"]) == ["auto"]
    assert choices(OPTIONS["step_size"]) == ["auto"] and choices(OPTIONS["num_steps"]) == []


def test_reference_page_of_the_userguide_is_up_to_date():
    page = Path(__file__).parents[2] / "userguide" / "options.md"
    assert page.read_text() == reference_page(), (
        "run: python -m tati_re.options > userguide/options.md"
    )


def test_one_file_or_several():
    assert make_options(data="a.csv").data == "a.csv"
    assert make_options(data=["a.csv", "b.csv"]).data == ["a.csv", "b.csv"]
    assert options_from_flags({"data": ["a.csv", "b.csv"], "test_data": "none"}).test_data is None
    parser = argparse.ArgumentParser()
    add_arguments(parser, ["data"])
    assert vars(parser.parse_args(["--data", "a", "b", "--test-data", "c"])) == {
        "data": ["a", "b"],
        "test_data": "c",
    }
    toml = to_toml(make_options(data=["a.csv", "b.csv"], input_columns=["x1^2"]))
    assert tomllib.loads(toml)["data"] == ["a.csv", "b.csv"]
    said = message(make_options, data=3)
    assert said == "data has the wrong type. Received: 3. Expected: text, a list of texts or none."


def test_commands_share_a_file_of_options(tmp_path, capsys):
    """Options of other commands are of no matter to a command; misspelt ones are refused by all."""
    from tati_re.cli import optimize, sample

    path = tmp_path / "shared.toml"
    path.write_text('data = "digits"\nhidden = [3]\nsampler = "BAOAB"\noptimizer = "sgd"\n')
    own = {sample: 'sampler = "BAOAB"', optimize: 'optimizer = "sgd"'}
    for command, line in own.items():
        assert command.main(["--config", str(path), "--print-config", "--changed"]) == 0
        printed = capsys.readouterr().out
        (other,) = {*own.values()} - {line}
        assert line in printed and other not in printed and "hidden = [3]" in printed

    path.write_text('data = "digits"\noptimiser = "sgd"\n')
    for command in own:
        assert command.main(["--config", str(path), "--print-config"]) == 2
        assert "Did you mean 'optimizer'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_a_value_that_holds_itself_is_refused(name):
    twice: list[Any] = []
    twice += [twice, twice]
    table: dict[str, Any] = {}
    table["a"] = table
    for value in (twice, (twice,), table, {"a": twice}):
        with pytest.raises(InputError):
            make_options({name: value})
        with pytest.raises(InputError):
            make_options(**{name: value})


@pytest.mark.parametrize(
    "value", [np.array([1.0, 2.0]), np.zeros((2, 2)), pd.DataFrame({"a": [1]})]
)
def test_a_mapping_of_options_may_hold_arrays(value):
    with pytest.raises(InputError, match=r"^potential has the wrong type\."):
        make_options({"potential": value})
