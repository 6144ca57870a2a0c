"""An estimate that was stopped goes on with what is kept, to the same digits and without doing work
again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tati_re import InputError
from tati_re.cli import evidence
from tati_re.evidence import Evidence, estimation, log_evidence, parts
from tati_re.evidence.chains import Chains
from tati_re.evidence.estimation import Estimation
from tati_re.evidence.methods import prepared
from tati_re.evidence.parts import PartFiles, opened
from tests.evidence.test_evidence import regression
from tests.evidence.test_evidence_command import models  # noqa: F401 - a fixture

TINY = {
    "num_walkers": 2,
    "num_steps": 14,
    "num_burnin_steps": 2,
    "evidence_nodes": 2,
    "num_leapfrog_steps": 2,
}
TINY |= {
    "num_particles": 4,
    "num_moves": 3,
    "num_populations": 2,
    "descent_steps": 3,
    "execution": "graph",
}


class Stop(Exception):
    pass


@pytest.fixture
def steps(monkeypatch):
    """Steps of each call of chains, as they are taken."""
    taken, run = [], Chains.run

    def counting(self, position, weight, step_size, num_steps):
        taken.append(num_steps * self.walkers)
        return run(self, position, weight, step_size, num_steps)

    monkeypatch.setattr(Chains, "run", counting)
    return taken


def stopping(monkeypatch, after: int, error: type[BaseException]) -> None:
    """Raises an error once so many parts are kept."""
    save, saved = PartFiles.save, []

    def counting(self, *values, **more):
        save(self, *values, **more)
        saved.append(1)
        if len(saved) == after:
            raise error

    monkeypatch.setattr(PartFiles, "save", counting)


@pytest.mark.parametrize(
    ("method", "sampling", "after"),
    [
        pytest.param("stepping_stone", "ladder", 4, marks=pytest.mark.slow),
        pytest.param("frenkel_ladd", "sequential", 4, marks=pytest.mark.slow),
        pytest.param("smc", "ladder", 3, marks=pytest.mark.slow),
    ],
)
def test_a_stopped_estimate_goes_on_to_the_same_digits(tmp_path, steps, method, sampling, after):
    sim, options = regression(1), {**TINY, "evidence_sampling": sampling}
    whole = log_evidence(sim, method, **options)
    needed = sum(steps)
    steps.clear()
    with pytest.MonkeyPatch.context() as context:
        stopping(context, after, Stop)
        with pytest.raises(Stop):
            log_evidence(sim, method, output=str(tmp_path / "a"), **options)
    before = sum(steps)
    assert 0 < before < needed
    found = log_evidence(sim, method, output=str(tmp_path / "a"), **options)
    assert sum(steps) == needed
    assert (found.log_z, found.error) == (whole.log_z, whole.error)
    assert found.settings["gradients"] == whole.settings["gradients"]
    pd.testing.assert_frame_equal(found.curve, whole.curve, check_exact=True)
    steps.clear()
    again = log_evidence(sim, method, output=str(tmp_path / "a"), **options)
    assert again.log_z == whole.log_z and not steps


def test_the_command_goes_on(models, monkeypatch, capsys):  # noqa: F811
    arguments = [
        "--config",
        "line.toml",
        "--method",
        "stepping_stone",
        "--evidence-sampling",
        "sequential",
        "--quiet",
    ]
    arguments += [
        "--execution",
        "graph",
        "--num-steps",
        "14",
        "--evidence-nodes",
        "3",
        "--num-leapfrog-steps",
        "2",
    ]
    with monkeypatch.context() as context:
        stopping(context, 3, KeyboardInterrupt)
        assert evidence.main([*arguments, "--output", "stopped"]) == 130
    assert "tati-evidence --resume stopped" in capsys.readouterr().err
    assert not (models / "stopped/evidence.csv").exists()
    assert evidence.main(["--resume", "stopped", "--num-steps", "20"]) == 2
    assert "cannot be changed by --resume" in capsys.readouterr().err
    assert evidence.main(["--resume", "stopped", "--quiet"]) == 0
    assert evidence.main([*arguments, "--output", "whole"]) == 0
    stopped, whole = (pd.read_csv(f"{name}/evidence.csv") for name in ("stopped", "whole"))
    assert stopped["log_z"][0] == whole["log_z"][0] and stopped["error"][0] == whole["error"][0]
    assert evidence.main(["--resume", "nowhere"]) == 2
    assert "this folder holds no evidence estimate" in capsys.readouterr().err


def test_parts_are_computed_once(tmp_path):
    class Chain:
        calls, gradients = 0, 0.0

    def compute():
        chain.calls, chain.gradients = chain.calls + 1, chain.gradients + 2.5
        return {"values": np.arange(3.0), "size": 0.5}

    chain, kept = Chain(), PartFiles(tmp_path, "a-")
    kept.part("first", compute, chain)
    assert chain.calls == 1
    chain = Chain()
    found = PartFiles(tmp_path, "a-").part("first", compute, chain)
    assert (chain.calls, chain.gradients) == (1, 2.5) and found["values"].tolist() == [0, 1, 2]
    assert PartFiles(tmp_path, "b-").load("first", chain) is None
    assert PartFiles().part("first", compute, chain)["size"] == 0.5 and chain.calls == 2
    (tmp_path / "a-first.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="damaged"):
        kept.load("first", chain)


def test_parts_of_another_estimate_are_refused(tmp_path):
    folder = tmp_path / "a"
    messages = opened(folder, {"seed": "1"}, False)
    assert not messages
    PartFiles(folder).save("one", {"x": 1.0})
    assert "has 1 finished parts" in opened(folder, {"seed": "1"}, False)[0]
    with pytest.raises(InputError, match=r"another evidence\. Received: seed = 1"):
        opened(folder, {"seed": "2"}, False)
    assert not opened(folder, {"seed": "2"}, True) and not list(folder.glob("*.npz"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        opened(tmp_path / "b", {"seed": "1"}, False)
    with pytest.raises(InputError, match="is a file"):
        opened(tmp_path / "b" / "mine.txt", {"seed": "1"}, True)


def test_an_estimate_says_which_option_is_another(tmp_path):
    prepared(regression(1), ["smc"], output=str(tmp_path), **TINY)
    prepared(regression(1), ["stepping_stone"], output=str(tmp_path), **TINY)
    with pytest.raises(InputError, match="num_steps = 14"):
        prepared(regression(1), ["smc"], output=str(tmp_path), **{**TINY, "num_steps": 15})
    with pytest.raises(InputError, match="data set"):
        prepared(regression(2), ["smc"], output=str(tmp_path), **TINY)


def test_seconds_of_parts_add_up_over_a_part_that_is_replaced_and_a_resume(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(parts.time, "monotonic", lambda: now[0])
    kept = PartFiles(tmp_path)
    for seconds in (5, 7):  # stages of smc replace each other
        now[0] += seconds
        kept.save("populations", {"x": 1})
    again = PartFiles(tmp_path)
    again.load("populations")
    now[0] += 4
    again.save("populations", {"x": 1})
    last = PartFiles(tmp_path)
    last.load("populations")
    assert (again.seconds_saved, last.seconds_saved) == (12, 16)


def test_seconds_of_energies_that_methods_share_count_once_in_each(monkeypatch):
    now, known = [0.0], []
    monkeypatch.setattr(estimation.time, "monotonic", lambda: now[0])
    found = Evidence(0.0, 1.0, "mbar", pd.DataFrame(), np.zeros(1), (), {}, False)
    monkeypatch.setattr(estimation, "estimated", lambda *_: found)
    one: Any = Estimation.__new__(Estimation)

    def from_prior():
        now[0] += 0.0 if known else 5.0
        known.append(1)
        return None, 5.0

    one.from_prior, one.grid = from_prior, lambda: None
    assert [one.by(method).settings["seconds"] for method in ("stepping_stone", "mbar")] == [
        5.0,
        5.0,
    ]
