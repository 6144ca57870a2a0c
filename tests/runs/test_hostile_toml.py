"""One reader of TOML and JSON: what is deep, long or huge is refused before it takes memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tati_re.cli import evidence
from tati_re.core.errors import InputError
from tati_re.core.files.structured import DEEPEST, MOST_TOML, json_of, read_toml_file, toml_of
from tati_re.landscape.scan import ARRAYS
from tati_re.landscape.scan import load as load_landscape
from tati_re.options.make import read_toml
from tati_re.report.parts import made_of
from tati_re.runs import manifest
from tati_re.runs.specification import open_folder

PARTS = ["a"] * 40_000
DEEP = {
    "a dotted key": ".".join(PARTS) + " = 1",
    "a dotted key with spaces": " . ".join(PARTS) + " = 1",
    "a dotted key of quoted parts": ".".join(['"a.b"'] * 40_000) + " = 1",
    "a dotted key of literal parts": ".".join(["'a'"] * 40_000) + " = 1",
    "a dotted key of digits": ".".join(["1"] * 40_000) + " = 1",
    "a header": f"[{'.'.join(PARTS)}]",
    "a header of an array": f"[[{'.'.join(PARTS)}]]",
    "a key in an inline table": f"x = {{{'.'.join(PARTS)} = 1}}",
    "arrays": f"a = {'[' * 50_000}{']' * 50_000}",
    "inline tables": f"a = {'{a = ' * 50_000}1{'}' * 50_000}",
    "an unclosed array": "a = " + "[" * 50_000,
    "many dotted keys": "".join(f"a{i}.b = 1\n" for i in range(250_000)),
    "many dotted keys of digits": "".join(f"{i}.1 = 1\n" for i in range(250_000)),
    "many headers": "".join(f"[a{i}]\n" for i in range(250_000)),
    "many empty arrays": "".join(f"a{i} = []\n" for i in range(250_000)),
    "many keys": "".join(f"k{i} = 1\n" for i in range(250_000)),
    "many keys of an inline table": f"a = {{{','.join(f'k{i}=1' for i in range(250_000))}}}",
    "many values": f"a = [{'1,' * 1_100_000}]",
}
HUGE = {
    "decimal": "seed = " + "9" * 6_000,
    "hexadecimal": "seed = 0x" + "f" * 6_000,
    "in an array": "seed = [[0x" + "f" * 6_000 + "]]",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_nested_deeply_is_refused_before_it_is_parsed(name):
    began = time.process_time()
    with pytest.raises(ValueError, match=r"parts|nested|values"):
        toml_of(DEEP[name])
    assert time.process_time() - began < 5


def test_commas_of_a_text_are_no_values():
    text = "a,b" * 600_000
    for quotes in ("'", '"', "'''", '"""'):
        assert toml_of(f"# {text}\na = {quotes}{text}{quotes}") == {"a": text}


@pytest.mark.parametrize("name", HUGE)
def test_an_integer_of_thousands_of_digits(tmp_path, name):
    (path := tmp_path / "a.toml").write_text(HUGE[name])
    with pytest.raises(InputError, match="integer"):
        read_toml_file(path)


def folder_of(tmp_path, name, content):
    (folder := tmp_path / "folder").mkdir()
    (folder / name).write_bytes(content)
    return folder


READERS = {
    "a manifest": lambda path, content: manifest.read(folder_of(path, "manifest.toml", content)),
    "a file of options": lambda path, content: read_toml(
        folder_of(path, "a.toml", content) / "a.toml"
    ),
    "a specification": lambda path, content: open_folder(
        folder_of(path, "a.toml", content), "a.toml", {"seed": 1}, "evidence"
    ),
    "a landscape": lambda path, content: load_landscape(folder_of(path, "landscape.toml", content)),
}
BAD = {
    "deep": DEEP["a dotted key"].encode(),
    "nested": DEEP["arrays"].encode(),
    "a huge integer": HUGE["decimal"].encode(),
    "a huge hexadecimal integer": HUGE["hexadecimal"].encode(),
    "too large": b"# " + b"x" * MOST_TOML,
    "no UTF-8": b"a = '\xff'",
    "no TOML": b"a = = 1",
    "NUL": b"a = '\0'",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", BAD)
def test_each_reader_of_toml_refuses_it_in_one_sentence(tmp_path, reader, name):
    with pytest.raises(InputError) as error:
        READERS[reader](tmp_path, BAD[name])
    text = str(error.value)
    assert ".toml" in text and "\n" not in text and len(text) < 600


def test_a_neighbour_of_a_run_is_passed_over(tmp_path):
    class Run:
        folder = tmp_path / "run"

    Run.folder.mkdir()
    folder_of(tmp_path, "landscape.toml", BAD["deep"])
    (good := tmp_path / "good").mkdir()
    (good / "inputspace.toml").write_text('run = "../run"')
    assert made_of(Run) == [good]


def test_a_file_of_options_is_not_cut(tmp_path):
    """What stood beyond 16 MiB was left out without a word."""
    path = tmp_path / "a.toml"
    path.write_text(f"step_size = 0.5\n#{'x' * 2**24}\nfriction = 2.0\n")
    with pytest.raises(InputError, match=r"too large\. .*Expected: a TOML file of at most 16 MB"):
        read_toml(path)
    path.write_text(f"step_size = 0.5\n#{'x' * 10**6}\nfriction = 2.0\n")
    assert read_toml(path)["friction"] == 2.0


def test_options_from_a_pipe_of_the_shell():
    program = (
        "from tati_re.options.make import read_toml; import sys; print(read_toml(sys.argv[1]))"
    )
    line = f"{sys.executable} -c '{program}' <(echo step_size = 0.25)"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "{'step_size': 0.25}", done.stderr


GOOD = """
a.b = 1.5
x = [1.5, 2.5, [1e5, 3.0]]  # a.b.c [[[
"a.b.c" = "x.y.z.\\"w"
day = 2020-01-01T00:00:00.5
text = \"""a.b
\""\\"" ]]] c\"""
raw = '''a.b' ''c'''
n = { a = 1, b.c = 2 }
[t."q.r"]
[[u]]
[[u]]
z = true
"""


def test_what_is_right_is_read_as_the_standard_library_does():
    assert toml_of(GOOD) == tomllib.loads(GOOD)
    deep = ".".join(f"k{i}" for i in range(DEEPEST)) + " = 1"
    assert toml_of(deep) == tomllib.loads(deep)
    numbers = ", ".join(f"{x:.17g}" for x in np.random.default_rng(0).normal(size=300_000))
    assert toml_of(f"a = [{numbers}]") == tomllib.loads(f"a = [{numbers}]")
    many = "a = [" + ", ".join(["'x.y'"] * 250_000) + "]"
    assert len(toml_of(many)["a"]) == 250_000


def test_time_and_memory_stay_small():
    """80 kB took 9.5 GB and 88 s."""
    program = (
        "import sys, resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 10**9, 3 * 10**9))\n"
        "from tati_re.core.files.structured import toml_of\n"
        "try:\n    toml_of(sys.stdin.read())\nexcept ValueError as error:\n    print(error)\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=DEEP["a dotted key"],
        text=True,
        capture_output=True,
        timeout=60,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.strip() == f"a key has more than {DEEPEST} parts", done.stderr
    assert used.ru_utime - before.ru_utime < 10


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 6_000, "\ud800", "{"])
def test_json_of_others(text):
    with pytest.raises(ValueError) as error:
        json_of(text if text != "\ud800" else b"\xff\xff")
    assert not isinstance(error.value, InputError) and len(str(error.value)) < 300
    with pytest.raises(ValueError, match="the limit is"):
        json_of(b"[1, 2, 3]", most=5)


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", '{"": 1}', "9" * 6_000, "{"])
def test_models_of_an_evidence(tmp_path, capsys, content):
    (path := tmp_path / evidence.KEPT / evidence.MODELS).parent.mkdir()
    path.write_text(content)
    assert evidence.main(["--resume", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "models.json" in said and said.count("\n") == 1


def test_a_landscape_without_names(tmp_path):
    folder = folder_of(tmp_path, "landscape.toml", b"names = 3")
    (folder / "landscape.csv").write_text("x,loss\n1,2\n")
    np.savez(folder / ARRAYS, centre=np.zeros(1), directions=np.zeros((1, 1)))
    with pytest.raises(InputError, match="does not name its coordinates"):
        load_landscape(Path(folder))


@pytest.mark.parametrize("name", BAD)
def test_overwrite_replaces_a_damaged_specification(tmp_path, name):
    """It was refused, although it was to be replaced."""
    folder = folder_of(tmp_path, "a.toml", BAD[name])
    (folder / "old.csv").write_text("x\n")
    now = {"schema_version": 1, "seed": 1}
    options = {"outdated": ["*.csv"], "overwrite": True}
    assert open_folder(folder, "a.toml", now, "evidence", **options) is None
    assert not (folder / "old.csv").exists()
    assert open_folder(folder, "a.toml", now, "evidence") == now
