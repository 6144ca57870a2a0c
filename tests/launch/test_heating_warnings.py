"""A run with mini-batches warns before its first step if the mean expected heating is too large, or
that of a single direction.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.launch.heating import heating_warning

COOL = {"slowest": 0.001, "stiffest": 0.05, "hottest": 0.05, "mean": 0.003}
REMEDY = "Larger batches reduce the heating."


def test_nothing_is_wrong_with_a_cool_run_or_one_that_is_not_predicted():
    assert heating_warning(COOL, 0.02, tuned=True) == ""
    assert heating_warning(COOL | {"stiffest": math.nan}, 0.02, tuned=True) == ""
    assert heating_warning({"not_predicted": "no second derivatives"}, 0.02, tuned=True) == ""


def test_a_mean_above_target_bias():
    said = heating_warning(COOL | {"mean": 0.03}, 0.02, tuned=True)
    assert said == f"The mean exceeds target_bias = 0.02. {REMEDY}"


@pytest.mark.parametrize("name", ["slowest", "stiffest", "hottest"])
def test_a_direction_above_ten_percent(name):
    said = heating_warning(COOL | {name: 0.25}, 0.02, tuned=True)
    assert said == (
        f"Mini-batch noise raises variances in the {name} directions by 25 %; the certificate allows "
        f"10 % in a single direction. {REMEDY}"
    )


def test_a_run_that_does_not_tune_may_be_given_smaller_steps():
    said = heating_warning(COOL | {"hottest": 0.25}, 0.02, tuned=False)
    assert said.endswith("Larger batches, smaller steps or more friction reduce the heating.")


GIVEN = {"step_size": 0.005, "friction": 10.0}
TUNED = {"step_size": "auto", "friction": "auto"}


@pytest.mark.parametrize(
    ("settings", "scale", "is_hot"),
    [(GIVEN, 4.0, True), (GIVEN, 0.05, False), (TUNED, 4.0, True)],
    ids=["given", "given, all directions alike", "tuned"],
)
def test_a_run_warns_of_one_stiff_direction_among_many(settings, scale, is_hot, tmp_path, capsys):
    """One of 40 inputs is large: its weight alone is heated, and the mean hides it."""
    random = np.random.default_rng(0)
    inputs = 0.05 * random.standard_normal((64, 40))
    inputs[:, 0] = scale * random.standard_normal(64)
    targets = random.standard_normal(64)
    sim = Simulation(
        data=(inputs, targets),
        hidden=[],
        use_bias=False,
        loss="gaussian",
        noise_std=1.0,
        prior_std=1.0,
        standardize="none",
        seed=1,
        verbose=1,
    )
    run = sim.sample(
        sampler="BAOAB",
        batch_size=16,
        batch_sampling="replacement",
        num_steps=200,
        target_bias=0.2,
        execution="graph",
        output=str(tmp_path / "run"),
        **settings,
    )
    expected = run.manifest["heating"]["start"]
    said = " ".join(capsys.readouterr().out.split())
    assert expected["mean"] < 0.2
    assert (expected["stiffest"] > 0.1) == is_hot
    assert ("the certificate allows 10 % in a single direction" in said) == is_hot
