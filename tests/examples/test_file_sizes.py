"""The size of a run's files is announced where it is large, with the option that reduces it."""

import re
from pathlib import Path

import numpy as np
import pytest

from tati_re import Simulation

CLUSTER = Path(__file__).parents[2] / "userguide" / "cluster.md"


def announced(tmp_path, capsys, **options) -> str:
    """The sentence on the size of the files, empty where there is none."""
    x = np.linspace(-1, 1, 20)[:, None]
    settings = {"hidden": [], "walker_start": "same", "standardize": "none", "noise_std": 0.5}
    settings |= {"sampler": "HMC", "step_size": 0.1, "num_walkers": 4, "num_burnin_steps": 0}
    sim = Simulation(data=(x, x[:, 0]), seed=1, verbose=1, **settings | options)
    sim.sample(max_time=0.2, output=str(tmp_path / "run"))
    out = " ".join(capsys.readouterr().out.split())
    found = re.search(r"The files of this run .*To reduce this, [^.]*\.", out)
    return found[0] if found else ""


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"trajectory_every": 0}, "increase record_every."),
        (
            {"trajectory_every": 10, "record_every": 10_000},
            "increase trajectory_every or set directions.",
        ),
    ],
)
def test_a_large_size_names_what_reduces_it(tmp_path, capsys, options, advice):
    found = announced(tmp_path, capsys, num_steps=10**8, **options)
    assert re.search(r"about \d+\.\d GB when it reaches step 100,000,000\.", found)
    assert found.endswith(f"To reduce this, {advice}")


def test_the_script_for_a_queue_fills_no_disk(tmp_path, capsys):
    """Its flags on the data of the test, of a sampler that records each step by default."""
    line = next(line for line in CLUSTER.read_text().splitlines() if line.startswith('run="--data'))
    steps, every = (
        int(re.search(rf"--{name} (\d+)", line)[1]) for name in ("num-steps", "record-every")
    )
    assert announced(tmp_path, capsys, num_steps=steps, record_every=every) == ""
