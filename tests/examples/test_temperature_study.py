"""Loss against temperature, against the closed form of a linear regression, and the rule that stops
cooling.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.cli import predict as command
from tati_re.core.errors import InputError
from tati_re.plotting.temperatures import plot_temperatures
from tati_re.prediction.temperature_study import (
    mean_and_error,
    stopping,
    temperature_curve,
    temperature_study,
)
from tati_re.testing.sampler_law import TOLERANCE

NOISE, TEMPERATURES = 0.5, (0.2, 1.0, 4.0)


def frame(losses, error=0.01):
    """Cooling from 8 to 1, with these validation losses in the order of cooling."""
    temperatures = 2.0 ** np.arange(len(losses))[::-1]
    columns = {
        "temperature": temperatures,
        "validation_loss": losses,
        "validation_loss_error": error,
    }
    columns |= {"train_loss": losses, "test_loss": losses, "average_loss": losses}
    return pd.DataFrame(columns).sort_values("temperature")


def test_cooling_stops_where_the_validation_loss_rises():
    assert stopping(frame([2.0, 1.0, 1.5, 0.5])) == (4.0, 2.0), (
        "what lies beyond the rise is not seen"
    )
    assert stopping(frame([2.0, 1.5, 1.2, 1.0])) == (1.0, None)
    assert stopping(frame([2.0, 1.0, 1.02, 0.9])) == (1.0, None), "a rise within its error is none"
    assert stopping(frame([2.0, 1.0, 1.02, 0.9], error=np.nan)) == (4.0, 2.0)
    assert stopping(frame([1.0, 2.0])) == (2.0, 1.0)


def test_errors_of_weighted_means():
    """The variance of a ratio of means, against its spread over 400 repetitions."""
    generator = np.random.default_rng(1)
    found = []
    for _ in range(400):
        values, weights = generator.normal(size=600), generator.gamma(0.5, size=600)
        found.append(
            mean_and_error(
                values + 2.0, weights, np.tile(np.arange(200), 3), np.repeat([0, 1, 2], 200)
            )
        )
    means, errors = np.array(found).T
    assert abs(means.mean() - 2.0) < TOLERANCE * means.std() / 20
    z = (means - 2.0) / errors
    assert 0.8 < z.std() < 1.2
    assert means.std() > 1.3 / np.sqrt(600), "weights that are forgotten make the error too small"
    assert np.isnan(mean_and_error(np.ones(3), np.ones(3), np.arange(3), np.zeros(3))[1])


def test_errors_of_walkers_that_come_and_leave():
    """Against the spread over 200 repetitions; rows were cut to the walker with fewest, and with
    less than four of them no error was told.
    """
    generator = np.random.default_rng(2)
    for shortest in (2, 60):
        there = np.zeros((3, 400), bool)
        there[0], there[1, 100:300], there[2, 200 : 200 + shortest] = True, True, True
        walker, step = np.nonzero(there)
        found = []
        for _ in range(200):
            chains = np.zeros((3, 400))
            chains[:, 0] = generator.normal(size=3)
            for i in range(1, 400):
                chains[:, i] = 0.5 * chains[:, i - 1] + np.sqrt(0.75) * generator.normal(size=3)
            found.append(mean_and_error(chains[there], np.ones(len(step)), step, walker))
        means, errors = np.array(found).T
        assert 0.8 < (means / errors).std() < 1.25


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A linear regression at three temperatures; the steps of BAOAB sample its Gaussian law without
    error.
    """
    generator = np.random.default_rng(2)
    x, new = generator.normal(size=(20, 2)), generator.normal(size=(60, 2))
    y, goal = (part @ [1.0, -2.0] + NOISE * generator.normal(size=len(part)) for part in (x, new))
    sim = tati_re.Simulation(
        data=((x, y), (new, goal)),
        num_walkers=30,
        noise_std=NOISE,
        use_bias=False,
        seed=3,
        dtype="float64",
        execution="graph",
        verbose=0,
    )
    folder = tmp_path_factory.mktemp("study")
    options = {
        "step_size": 0.1,
        "friction": 5.0,
        "num_steps": 1700,
        "num_burnin_steps": 100,
        "record_every": 4,
    }
    found = temperature_study(
        sim, TEMPERATURES, trajectory_every=8, output=folder, early_stopping=False, **options
    )
    return found, (x, y), (new, goal), folder, sim


def test_losses_are_those_of_the_closed_form(study):
    """Mean loss at T: that of the posterior mean plus T tr(X S X')/(2 s² n), for the examples of
    each column.

    Within 5.5 standard errors, which are at most a tenth of what the temperature adds.
    """
    found, (x, y), (new, goal), _, _ = study
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(2))
    mean = covariance @ x.T @ y / NOISE**2
    half = np.arange(60) % 2 == 1
    parts = {
        "train": (x, y),
        "validation": (new[half], goal[half]),
        "test": (new[~half], goal[~half]),
    }
    assert found.frame["temperature"].tolist() == list(TEMPERATURES)
    for name, (inputs, targets) in parts.items():
        least = ((targets - inputs @ mean) ** 2).mean() / (2 * NOISE**2) + np.log(
            NOISE * np.sqrt(2 * np.pi)
        )
        slope = np.einsum("ni,ij,nj->n", inputs, covariance, inputs).mean() / (2 * NOISE**2)
        for row in found.frame.to_dict("records"):
            expected, error = least + slope * row["temperature"], row[f"{name}_loss_error"]
            assert abs(row[f"{name}_loss"] - expected) < TOLERANCE * error, (
                name,
                row["temperature"],
            )
            assert error < 0.1 * slope * row["temperature"]
        # Wrong variants that this catches: the temperature squared, or forgotten.
        hot = found.frame.iloc[-1]
        for wrong in (slope, slope * 16):
            assert abs(hot[f"{name}_loss"] - least - wrong) > TOLERANCE * hot[f"{name}_loss_error"]
    # Normal around x·m with the variance s² + T x·Sx.
    inputs, targets = parts["test"]
    for row in found.frame.to_dict("records"):
        variance = NOISE**2 + row["temperature"] * np.einsum(
            "ni,ij,nj->n", inputs, covariance, inputs
        )
        expected = (
            0.5 * (targets - inputs @ mean) ** 2 / variance + 0.5 * np.log(2 * np.pi * variance)
        ).mean()
        assert row["average_loss"] == pytest.approx(expected, abs=0.02)
        assert row["average_loss"] < row["test_loss"]


def test_temperatures_have_noise_of_their_own(study):
    """Correlation between the positions at two temperatures, each of 30 walkers an independent
    value: 0 within 5.5 standard errors, which are below .03; with the same noise at both it is
    1.
    """
    runs, names = study[0].runs, study[4].parameter_names()
    assert [runs[value].manifest["call"] for value in sorted(runs, reverse=True)] == [1, 2, 3]
    tables = [runs[value].trajectory[names].to_numpy().reshape(-1, 30, 2) for value in TEMPERATURES]
    whitened = [(table - table.mean((0, 1))) / table.std((0, 1)) for table in tables]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        each = (whitened[one] * whitened[other]).mean(axis=(0, 2))
        error = each.std(ddof=1) / np.sqrt(30)
        print(f"correlation {each.mean():.4f} +- {error:.4f}")
        assert abs(each.mean()) < TOLERANCE * error < TOLERANCE * 0.03


@pytest.mark.slow
def test_a_curve_of_runs_is_the_same(study, capsys):
    found, _, test, folder, _ = study
    curve = temperature_curve(list(found.runs.values()), *test)
    pd.testing.assert_frame_equal(curve, found.frame)
    with pytest.raises(InputError, match="only one temperature"):
        temperature_curve(found.runs[1.0], *test)
    np.savez(folder / "test.npz", x=test[0], y=test[1])
    runs = [str(folder / f"T-{value:g}") for value in TEMPERATURES]
    arguments = [
        *runs,
        "--by-temperature",
        "--data",
        str(folder / "test.npz"),
        "--output",
        str(folder / "curve"),
    ]
    assert command.main(arguments) == 0
    said = capsys.readouterr().out
    assert "T = 0.2" in said and "the validation loss is lowest at T = 0.2, and never rises" in said
    table = pd.read_csv(folder / "curve" / "temperatures.csv")
    assert table["test_loss"].to_numpy() == pytest.approx(curve["test_loss"].to_numpy())
    assert (folder / "curve" / "temperatures.png").stat().st_size > 10_000
    assert (
        command.main(
            [*runs, "--by-temperature", "--ood", "noise", "--output", str(folder / "other")]
        )
        == 2
    )
    assert "does not belong to" in capsys.readouterr().err


@pytest.mark.slow
def test_a_curve_of_a_ladder(study, tmp_path):
    """All rungs of one run lie on the line in T of the closed form, here through two of them and
    their errors.
    """
    _, train, test, _, sim = study
    options = {
        "step_size": 0.1,
        "friction": 5.0,
        "num_steps": 3000,
        "num_burnin_steps": 200,
        "record_every": 4,
    }
    ladder = {
        "temperatures": [1.0, 2.0, 4.0],
        "trajectory_rungs": "all",
        "trajectory_every": 8,
        "exchange_every": 10,
    }
    run = sim.sample(**options, **ladder, output=str(tmp_path / "ladder"))
    curve = temperature_curve(run, *test)
    assert curve["temperature"].tolist() == [1.0, 2.0, 4.0]
    covariance = np.linalg.inv(train[0].T @ train[0] / NOISE**2 + np.eye(2))
    mean = covariance @ train[0].T @ train[1] / NOISE**2
    least = ((train[1] - train[0] @ mean) ** 2).mean() / (2 * NOISE**2) + np.log(
        NOISE * np.sqrt(2 * np.pi)
    )
    slope = np.einsum("ni,ij,nj->n", train[0], covariance, train[0]).mean() / (2 * NOISE**2)
    for row in curve.to_dict("records"):
        expected = least + slope * row["temperature"]
        assert abs(row["train_loss"] - expected) < TOLERANCE * row["train_loss_error"]


def test_cooling_goes_back(study, monkeypatch):
    """With a rise at the second temperature the third is not sampled, and the walkers return to the
    first.
    """
    from tati_re.prediction import temperature_study as module

    *_, sim = study
    rising = iter([1.0, 2.0])

    def row(temperature, *_):
        names = ("validation_loss", "test_loss", "train_loss")
        return {"temperature": temperature, "validation_loss_error": 0.1} | dict.fromkeys(
            names, next(rising)
        )

    ends = []
    sample = sim.sample

    def recorded(**options):
        run = sample(**options)
        ends.append((options["temperature"], np.array(sim.parameters)))
        return run

    monkeypatch.setattr(module, "_row", row)
    monkeypatch.setattr(sim, "sample", recorded)
    found = temperature_study(
        sim, [0.1, 1.0, 10.0], num_steps=4, trajectory_every=2, step_size=0.01
    )
    assert (found.best_temperature, found.stopped_at) == (10.0, 1.0)
    assert [temperature for temperature, _ in ends] == [10.0, 1.0]
    assert np.array_equal(sim.parameters, ends[0][1])
    assert not np.array_equal(sim.parameters, ends[1][1])


def test_figure_and_refusals(tmp_path, study):
    table = study[0].frame.assign(
        test_accuracy=0.9, test_accuracy_error=0.01, average_accuracy=0.95
    )
    figure = plot_temperatures(table, tmp_path / "temperatures.png")
    assert len(figure.axes) == 2 and figure.axes[1].get_xlabel() == "temperature T"
    sim = study[-1]
    for wrong in ([], [1.0, 1.0], [0.0, 1.0]):
        with pytest.raises(InputError, match="temperatures"):
            temperature_study(sim, wrong)
    with pytest.raises(InputError, match="validation_fraction"):
        temperature_study(sim, [1.0, 2.0], validation_fraction=1.0)


def test_what_a_study_lacks_is_said_before_its_first_run(tmp_path):
    x = np.linspace(-1, 1, 20)[:, None]
    options = {"test_fraction": 0.2, "noise_std": 0.5, "execution": "graph", "verbose": 0}
    sim = tati_re.Simulation(data=(x, x[:, 0]), **options)
    for temperatures in (1.0, ["a", "b"], [1.0, 1.0], [], [0.0, 1.0]):
        with pytest.raises(InputError, match=r"temperatures are invalid\..* in a list"):
            temperature_study(sim, temperatures)
    with pytest.raises(
        InputError, match=r"sets the temperature itself\. Received: inverse_temperature"
    ):
        temperature_study(sim, [0.5, 1.0], inverse_temperature=2.0)
    with pytest.raises(InputError, match="no positions are stored"):
        temperature_study(sim, [0.5, 1.0], trajectory_every=0)
    (tmp_path / "T-0.5").mkdir()
    (tmp_path / "T-0.5" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"the folder of a run is not empty\. Received: .*T-0\.5"):
        temperature_study(sim, [0.5, 2.0], output=tmp_path, num_steps=10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["T-0.5"]
