"""The campaign of faults: what it counts, that it loses nothing in small, and that it finds what is
lost.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.faults.__main__ import mixed, table
from benchmarks.faults.campaign import LOST, WHOLE, Result
from benchmarks.faults.children import OWN_MODULES
from benchmarks.faults.contents import contents, differences

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "benchmarks" / "faults" / "storage_faults.c"
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="preloads a C library"
)

KILLED_AT_EACH_CHANGE = """
import ctypes, os, sys
from pathlib import Path
from tati_re.runs.storage import remove_leftovers, write_whole
library, folder = ctypes.CDLL(None), Path(sys.argv[1])
path, old, new = folder / "a", b"o" * 9_000, b"n" * 20_000
for at in range(1, 100):
    path.write_bytes(old)
    if not (child := os.fork()):
        library.faults_arm(os.fsencode(folder), ctypes.c_long(at), 1)
        write_whole(path, new)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = sorted(each.stat().st_size for each in folder.iterdir() if each != path)
    print(status, path.read_bytes() == old, path.read_bytes() == new, *left)
    remove_leftovers(folder)
    assert os.listdir(folder) == ["a"]
    if status == 0:
        break
"""


def test_a_file_that_is_replaced_is_old_or_new_after_a_kill_at_each_change(tmp_path):
    library = tmp_path / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    (folder := tmp_path / "folder").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_EACH_CHANGE, str(folder)],
        env={"LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == ["-9"] * (len(lines) - 1) + ["0"]
    # An opened new file, a write, a sync, a new name, a sync of the folder; half of the write is
    # two pages.
    assert len(lines) >= 6 and ["-9", "True", "False", "8192"] in lines
    assert all((old, new) in (("True", "False"), ("False", "True")) for _, old, new, *_ in lines)
    assert lines[-1] == ["0", "False", "True"]


def test_what_differs_between_folders(tmp_path):
    def write(name: str, seconds: float, step: int, rows: str) -> Path:
        folder = tmp_path / name / "run"
        (folder / "checkpoint").mkdir(parents=True)
        meta = json.dumps(
            {"seconds": seconds, "step": step, "files": {"timing.csv": int(seconds)}}
        ).encode()
        np.savez(folder / "checkpoint/current.npz", **{"meta.json": np.frombuffer(meta, np.uint8)})
        (folder / "run.csv").write_text(rows)
        (folder / "timing.csv").write_text(f"{seconds}\n")
        return tmp_path / name

    a = contents(write("a", 1.0, 4, "step\n4\n"))
    assert not differences(contents(write("b", 2.0, 4, "step\n4\n")), a), "times do not count"
    assert differences(contents(write("c", 1.0, 5, "step\n5\n")), a) == [
        "checkpoint/current.npz differs",
        "run.csv differs",
    ]
    (tmp_path / "b/run/run.csv").rename(tmp_path / "b/run/run.csv.partial")
    assert differences(contents(tmp_path / "b"), a) == [
        "run.csv is missing",
        "run.csv.partial is left over",
    ]


def test_cases_are_mixed_and_counted():
    cases = mixed({"kill": 4, "full": 2})
    assert cases == ["kill:0", "full:0", "kill:1", "kill:2", "full:1", "kill:3"]
    results = [
        Result(case, "HMC", "killed", WHOLE if case != "full:1" else LOST, "") for case in cases
    ]
    rows = table(results, "kind").splitlines()
    assert (
        "| killed inside a change | 2 | 2 | 0 | 0 | 0 | 0 |" in rows
        and "| a full disk | 2 | 1 | 0 | 0 | 0 | 1 |" in rows
    )
    assert table(results, "family").splitlines()[2:] == ["| HMC | 4 | 4 | 0 | 0 | 0 | 0 |"]


def test_the_modules_of_the_children_exist():
    assert [name for name in OWN_MODULES if importlib.util.find_spec(name) is None] == []


def campaign(tmp_path: Path, *words: str, before: str = "") -> list[Result]:
    program = f"{before}\nimport runpy\nrunpy.run_module('benchmarks.faults', run_name='__main__')"
    output = tmp_path / "results.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--output", str(output)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    results = [Result(**json.loads(line)) for line in output.read_text().splitlines()]
    lost = any(result.end == LOST for result in results)
    assert done.returncode == int(lost), done.stderr
    return results


@pytest.mark.slow
def test_a_campaign_in_small_loses_nothing(tmp_path):
    results = campaign(
        tmp_path, "--kinds", "kill", "writers", "removed", "readonly", "--count", "2"
    )
    assert len(results) == 8 and not [result for result in results if result.end == LOST]


@pytest.mark.slow
def test_a_campaign_finds_sums_that_a_resume_forgets(tmp_path):
    wrong = "from tati_re.engine.run_tables import RunningAverages as R\nR.restore = lambda self, arrays: None"
    results = campaign(tmp_path, "--case", "kill:1", "kill:3", before=wrong)
    assert LOST in {result.end for result in results} and "averages.csv differs" in str(results)
