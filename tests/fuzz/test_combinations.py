"""Random combinations of sensible options on tables, odd ones among them.

What runs is stopped and resumed to the same bytes, and all that reads runs reads it or says in a
sentence why not; what does not run is refused in a sentence. 2 cases in the quick suite, 12 behind
--slow, always the same ones.
"""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path

import h5py
import keras
import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re import InputError, SamplingError, Simulation
from tati_re.cli import analyse, compare, explore, inputspace, landscape, predict, report
from tati_re.core.process.exit_status import BAD_INPUT, FINISHED
from tati_re.engine.limits import Limits

QUICK, SLOW = 2, 12
MOST_REPAIRS = 15
SAMPLERS = "auto HMC HMC1 GHMC MALA RWMH MCLMC MAMS BAOAB OBABO UBU BADODAB SGLD SGHMC SGNHT pSGLD CCAdL TACT-HMC GLA1 LM"
SYSTEM = {
    **{
        "batch_size": [8, 16],
        "batch_sampling": ["symmetric", "replacement"],
        "num_walkers": [2, 3, 4],
    },
    **{
        "prior": ["laplace", "student_t", "box"],
        "prior_std": [0.5],
        "prior_scaling": ["fan_in"],
        "lower_wall": [-2.0],
    },
    **{
        "dtype": ["float64"],
        "noise_std": [0.3],
        "loss": ["heteroscedastic_gaussian", "mean_squared_error"],
    },
    **{
        "test_fraction": [0.0, 0.5],
        "fix_parameters": ["*bias*"],
        "standardize": ["all", "inputs"],
        "shuffle": [False],
    },
    **{
        "walker_start": ["jitter", "fresh"],
        "walker_batches": ["shared"],
        "walker_evaluation": ["looped", "unrolled"],
    },
}
RUN = {
    **{
        "step_size": [0.003, 1e-6, "auto"],
        "friction": [5.0, "auto"],
        "temperature": [0.5, 2.0],
        "target_bias": [0.1],
    },
    **{
        "mass": ["fan_in", "fisher", "variance"],
        "num_leapfrog_steps": [3, "auto"],
        "target_acceptance": [0.7],
    },
    **{
        "integrator": ["mclachlan", "isotropic"],
        "step_schedule": ["polynomial"],
        "walls": ["reflect"],
    },
    **{
        "num_replicas": [2, 3],
        "temperature_ratio": [1.3],
        "tempering": ["likelihood"],
        "adapt_ladder": [True],
    },
    **{
        "exchange": ["infinite", "tempering", "none"],
        "swap_rule": ["barker", "penalty", "corrected", "naive"],
    },
    **{
        "swap_schedule": ["random_neighbours", "all_pairs"],
        "exchange_every": [1, 4],
        "exchange_batch_size": [8],
    },
    **{
        "replica_start": ["fresh", "descent"],
        "descent_steps": [5],
        "bias": ["well_tempered"],
        "bias_factor": [4.0],
    },
    **{
        "trajectory_rungs": ["all"],
        "num_burnin_steps": [0, 10],
        "record_every": [1, 3],
        "trajectory_every": [0, 1, 4],
    },
    **{
        "full_every": [6],
        "group_temperatures": [True],
        "trajectory_format": ["h5"],
        "stream_predictions": [3],
    },
    **{
        "until": ["ess>20"],
        "control_variate": [True],
        "covariance_blending": [0.5],
        "gradient_noise": ["estimate"],
    },
    **{"preconditioner": ["adaptive"], "thermostat_bath": ["noise"], "leapfrog_jitter": [0.0]},
}
READERS = [
    *(
        (analyse, ["--no-figures", "--modules", what])
        for what in ("averages", "parameters", "covariance", "reweighting")
    ),
    *(
        (analyse, ["--no-figures", "--modules", what])
        for what in ("free_energy", "diffusion_map", "temperatures")
    ),
    *(
        (analyse, words)
        for words in ([], ["--by", "rung"], ["--burnin", "39"], ["--modules", "alignment"])
    ),
    *(
        (report, []),
        (report, ["--burnin", "39"]),
        (predict, ["--overwrite"]),
        (predict, ["--overwrite", "--by-temperature"]),
    ),
    *(
        (landscape, ["--range=-1:1:3", "--output", "plane"]),
        (landscape, ["--along", "--output", "line"]),
    ),
    (
        explore,
        [
            "--max-rounds",
            "1",
            "--num-legs",
            "1",
            "--leg-steps",
            "20",
            "--num-candidates",
            "1",
            "--output",
            "minima",
        ],
    ),
    *((inputspace, ["--output", "inputs"]), (compare, ["--verify"])),
]


def tables(folder):
    """Tables of 48 rows by name."""
    draw = np.random.default_rng(5)
    x, noise = draw.standard_normal((48, 3)), draw.standard_normal(48)
    y = np.sin(x[:, 0]) + 0.3 * x[:, 1] + 0.1 * noise
    found = {
        **{
            "plain": (x, y),
            "huge": (x, 1e12 * y),
            "tiny": (x, 1e-12 * y),
            "far": (x, 1e9 + y),
            "flat": (x, 0 * y + 3),
        },
        **{
            "constant": (np.c_[x[:, :2], 0 * y + 1], y),
            "twice": (x[:, [0, 0, 0]], y),
            "exact": (x, x @ [1.0, 2.0, 3.0]),
        },
        **{
            "few": (x[:5], y[:5]),
            "classes": (x, (y > 0).astype(int) + (y > 1)),
            "rare": (x, (np.arange(48) == 7) * 1),
        },
    }
    for name, (inputs, targets) in found.items():
        last = "label" if targets.dtype.kind == "i" else "target"
        frame = pd.DataFrame(inputs, columns=["a", "b", "c"]).assign(**{last: targets})
        frame.to_csv(folder / f"{name}.csv", index=False)
    return [*found]


def content(folder):
    """The bytes of what a run repeats: tables, and the numbers of HDF5 files."""
    found = {}
    for path in sorted(Path(folder).glob("*.csv")):
        found[path.name] = path.read_bytes()
    found.pop("timing.csv")
    for path in Path(folder).glob("*.h5"):
        with h5py.File(path) as file:
            found[path.name] = file["index"][()].tobytes() + file["rows"][()].tobytes()
    return found


def chosen(case, names):
    """The options of a case: of the system and of its run."""
    pick = random.Random(case)
    system = {
        name: pick.choice(SYSTEM[name])
        for name in pick.sample(sorted(SYSTEM), pick.choice([1, 2, 3]))
    }
    system |= {"data": f"{pick.choice(names)}.csv", "hidden": [3], "seed": case, "verbose": 0}
    run = {
        name: pick.choice(RUN[name]) for name in pick.sample(sorted(RUN), pick.choice([1, 2, 4, 6]))
    }
    run |= {"sampler": pick.choice(SAMPLERS.split()), "num_steps": 40, "execution": "graph"}
    if pick.random() < 0.3 or "num_replicas" in run:
        run.setdefault("num_replicas", 2)
        run |= {} if "tempering" in run else {"temperature_ratio": 1.3}
    if pick.random() < 0.7:
        run.setdefault("step_size", 0.003)
    return pick, system, run


def made(system, run, folder, callbacks=()):
    keras.utils.set_random_seed(1)
    return Simulation(**system).sample(
        **run, output=folder, callbacks=callbacks, checkpoint_seconds=1e-9
    )


def repaired(pick, system, run, error):
    """Leaves out what a refusal names, else anything."""
    free = [
        name
        for name in (*run, *system)
        if name not in ("num_steps", "execution", "data", "hidden", "seed", "verbose")
    ]
    name = next(
        (word for word in re.findall(r"[a-z_]+", str(error)) if word in free), None
    ) or pick.choice(free)
    (run if name in run else system).pop(name)


def tried(case, names):
    """The run of a case as far as it is possible, and its options; None where it is refused however
    it is repaired.
    """
    pick, system, run = chosen(case, names)
    for number in range(MOST_REPAIRS):
        try:
            return made(system, run, f"whole{case}-{number}"), pick, system, run
        except SamplingError:
            return None
        except InputError as error:
            assert str(error).count("\n") == 0 and len(str(error)) > 20
            repaired(pick, system, run, error)
    return None


def status_of(command, words):
    try:
        return command.main(words)
    except SystemExit as stopped:
        return stopped.code


# Where a model cannot fit targets of 1e9, sampled noise leaves the range of floats: NumPy warns,
# nothing breaks.
@pytest.mark.filterwarnings("default::RuntimeWarning")
@pytest.mark.parametrize("number", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_what_runs_is_resumed_and_read(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Simulation, "limits", Limits(most_steps=7))
    names, ran, stopped = tables(tmp_path), 0, 0
    for case in range(number):
        if (found := tried(case, names)) is None:
            continue
        whole, pick, system, run = found
        ran += 1
        stop_at, last = [pick.randint(1, 30)], whole.run_info["step"].max()

        def stop(_, step, at=stop_at, last=last):
            if at and at[0] <= step < last:
                at.clear()  # a second signal would not wait for a checkpoint
                os.kill(os.getpid(), signal.SIGINT)

        try:
            parts = made(system, run, f"parts{case}", [stop])
        except KeyboardInterrupt:  # in a fit before the run, of which there is nothing yet
            continue
        if parts.exit_status != FINISHED:
            stopped += 1
            tati_re.Simulation.resume(f"parts{case}", num_steps=run["num_steps"], verbose=0)
        assert content(whole.folder) == content(f"parts{case}"), (case, system, run)
        whole.summary(), str(whole.certificate)
        capsys.readouterr()
        for command, words in pick.sample(READERS, 2 if number == QUICK else 5):
            output = [
                word if word not in ("plane", "line", "minima", "inputs") else f"{word}{case}"
                for word in words
            ]
            status, said = status_of(command, [str(whole.folder), *output]), capsys.readouterr()
            assert status in (FINISHED, BAD_INPUT, None), (
                case,
                command.__name__,
                output,
                system,
                run,
                said.err,
            )
    assert ran > 0.6 * number and stopped > 0.5 * ran
