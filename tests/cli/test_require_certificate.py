"""`require_certificate`: the exit status of a completed run tells its certificate."""

import tomllib

import numpy as np
import pytest
import tensorflow as tf

import tati_re
from tati_re.cli.sample import main
from tati_re.core.process.exit_status import (
    CERTIFICATE_FAILED,
    CERTIFICATE_NOT_MEASURED,
    OUT_OF_TIME,
)

GAUSSIAN = {
    "potential": lambda q: 0.5 * tf.reduce_sum(q**2, axis=-1),
    "dimension": 2,
    "num_walkers": 4,
    "walker_start": "jitter",
    "walker_jitter": 1.0,
    "sampler": "HMC",
    "step_size": 0.5,
    "num_leapfrog_steps": 4,
    "seed": 1,
    "verbose": 0,
    "execution": "graph",
}


def table(folder):
    x = np.random.default_rng(2).uniform(-1, 1, 60)
    path = folder / "table.csv"
    np.savetxt(path, np.column_stack([x, x]), delimiter=",", header="x,y", comments="")
    return str(path)


@pytest.mark.filterwarnings("ignore::tati_re.core.errors.CertificateWarning")
@pytest.mark.parametrize(
    ("changed", "outcome", "status"),
    [
        ({"num_steps": 4000, "target_bias": 0.5}, "passed", 0),
        ({"num_steps": 60, "num_burnin_steps": 0}, "failed", CERTIFICATE_FAILED),
        (
            {"sampler": "BAOAB", "friction": 1.0, "num_steps": 8000, "num_burnin_steps": 400},
            "not measured",
            CERTIFICATE_NOT_MEASURED,
        ),
    ],
)
def test_the_status_is_that_of_the_certificate(changed, outcome, status):
    run = tati_re.Simulation(**GAUSSIAN | changed).sample(require_certificate=True)
    assert run.certificate.outcome == outcome, run.certificate
    assert run.exit_status == status


@pytest.mark.filterwarnings("ignore::tati_re.core.errors.CertificateWarning")
def test_without_it_and_out_of_time_the_status_is_as_before():
    sim = tati_re.Simulation(**GAUSSIAN)
    assert sim.sample(num_steps=60).exit_status == 0
    late = sim.sample(num_steps=10**9, max_time=0.5, require_certificate=True)
    assert late.exit_status == OUT_OF_TIME


@pytest.mark.filterwarnings("ignore::tati_re.core.errors.CertificateWarning")
def test_the_command_its_file_and_a_resume(tmp_path, capsys):
    given = ["--data", table(tmp_path), "--hidden", "3", "--num-classes", "0", "--quiet"]
    given += ["--sampler", "BAOAB", "--step-size", "0.03", "--noise-std", "0.3"]
    first = tmp_path / "first"
    short = [*given, "--num-steps", "100"]
    assert main([*short, "--output", str(first)]) == 0
    assert main([*short, "--require-certificate", "--output", str(tmp_path / "a")]) == 4
    config = tmp_path / "config.toml"
    config.write_text("require_certificate = true\n")
    assert main([*short, "--config", str(config), "--output", str(tmp_path / "b")]) == 4
    stored = tomllib.loads((tmp_path / "b" / "manifest.toml").read_text())
    assert stored["options"]["require_certificate"] is True
    longer = ["--num-steps", "120", "--quiet"]
    assert main(["--resume", str(first), *longer, "--require-certificate"]) == 4
    assert main(["--resume", str(tmp_path / "b"), *longer]) == 4, "as the run was started"


def test_a_fit_has_no_use_for_it(tmp_path, capsys):
    from tati_re.cli.optimize import main as optimize

    assert optimize(["--data", table(tmp_path), "--require-certificate"]) == 2
    assert "--require-certificate" in capsys.readouterr().err
