"""Local learning coefficients against quadrature, closed forms of Watanabe and Aoyagi, and P/2 of
regular models.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.analysis import learning_coefficient, learning_curve
from tati_re.cli import analyse
from tati_re.core.errors import InputError
from tests.made_runs import made_run
from tests.scripts import example

Z = 5.5

module = sys.modules["tati_re.analysis.learning_coefficient"]

deep_linear_networks = example("deep_linear_networks")
closed_form = deep_linear_networks.closed_form


def made(folder, loss, penalty, examples, **extra):
    """A run of independent draws, `(walkers, draws)` each: mean loss above its minimum, and V."""
    chains = {
        "loss": 0.7 + loss,
        "log_prior": -penalty,
        "potential": examples * (0.7 + loss) + penalty,
    }
    extra = {
        "dataset": {"num_examples": examples},
        "loss_at_center": 0.7,
        "prior": {"prior": "tether"},
    } | extra
    return made_run(folder, chains, extra=extra)


def drawn(power, examples, precision, seed=0, shape=(8, 4000)):
    """Draws of w under exp(-n w^power - γw²/2), by the inverse of its distribution function."""
    w = (
        np.linspace(-1, 1, 400_001) * 40 / np.sqrt(precision)
        if power == 0
        else np.sinh(np.linspace(-18, 18, 400_001))
    )
    w = w / np.abs(w).max() * 8 / np.sqrt(precision)
    density = np.exp(-examples * w**power - 0.5 * precision * w**2)
    cumulated = np.concatenate([[0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(w))])
    return np.interp(np.random.default_rng(seed).random(shape), cumulated / cumulated[-1], w)


@pytest.mark.parametrize(("power", "exact"), [(2, 1 / 2), (4, 1 / 4), (6, 1 / 6)])
def test_powers_of_one_parameter(tmp_path, power, exact):
    """32,000 draws: an error of 4 % is seen."""
    n = 10**8
    w = drawn(power, n, 1.0)
    line = learning_coefficient(made(tmp_path / "run", w**power, 0.5 * w**2, n)).iloc[0]
    assert abs(line["coefficient"] - exact) < Z * line["error"] + 0.003 * (power > 2)
    assert line["error"] < 0.02 * exact
    halved = learning_coefficient(made(tmp_path / "half", 0.5 * w**power, 0.5 * w**2, n)).iloc[0]
    assert abs(halved["coefficient"] - exact) > Z * halved["error"], "half the energy is no λ"


@pytest.mark.parametrize(("power", "exact"), [(2, 1 / 2), (4, 1 / 4), (6, 1 / 6)])
def test_the_variance_is_a_second_estimate(tmp_path, power, exact):
    """Both agree around a minimum. If the lowest loss is below the given one, only the mean moves."""
    n = 10**8
    w = drawn(power, n, 1.0)
    line = learning_coefficient(made(tmp_path / "run", w**power, 0.5 * w**2, n)).iloc[0]
    expected = exact + 0.003 * (power > 2)
    assert abs(line["from_variance"] - expected) < Z * line["from_variance_error"] + 0.003
    assert line["from_variance_error"] < 0.06 * exact
    assert abs(line["disagreement"]) < Z
    too_low = made(tmp_path / "low", w**power, 0.5 * w**2, n, loss_at_center=0.7 - 2 * exact / n)
    moved = learning_coefficient(too_low).iloc[0]
    assert moved["from_variance"] == pytest.approx(line["from_variance"])
    assert moved["raw"] == pytest.approx(line["raw"] + 2 * exact, rel=1e-6)
    assert moved["disagreement"] > 2 * Z
    result = tati_re.analyse(tmp_path / "low", modules=["learning_coefficient"])
    assert "The two disagree at 1 of 1 rungs" in " ".join(result["learning_coefficient"].sentences)
    result = tati_re.analyse(tmp_path / "run", modules=["learning_coefficient"])
    assert "disagree" not in " ".join(result["learning_coefficient"].sentences)


def test_the_tether_is_corrected_to_first_order(tmp_path):
    """Curvatures 1, 0.3, 0.1, 0 under nβ = 1000 and γ = 100: raw Σ s/2, corrected Σ (1 - (1 -
    s)²)/2.
    """
    k, n, precision = np.array([1.0, 0.3, 0.1, 0.0]), 1000, 100.0
    s = n * k / (n * k + precision)
    w = np.random.default_rng(1).standard_normal((8, 20_000, 4)) / np.sqrt(n * k + precision)
    run = made(tmp_path / "run", 0.5 * (k * w * w).sum(-1), 0.5 * precision * (w * w).sum(-1), n)
    line = learning_coefficient(run).iloc[0]
    assert abs(line["raw"] - s.sum() / 2) < Z * line["raw_error"]
    corrected = (1 - (1 - s) ** 2).sum() / 2
    assert abs(line["coefficient"] - corrected) < Z * line["error"]
    assert abs(line["raw"] - line["correction"] - corrected) > Z * line["error"], (
        "the wrong sign is seen"
    )
    assert abs(line["coefficient"] - 1.5) < 0.6 * abs(line["raw"] - 1.5)
    # The variance is smaller by as much, which is no disagreement.
    assert abs(line["from_variance"] - (s**2).sum() / 2) < Z * line["from_variance_error"]
    assert line["raw"] - line["from_variance"] > 3 * line["from_variance_error"]
    assert abs(line["disagreement"]) < Z


def test_a_correction_that_is_not_known_is_left_out(tmp_path):
    w = np.random.default_rng(1).standard_normal((4, 500, 2000))
    w[..., :4] /= 1e4
    line = learning_coefficient(
        made(tmp_path / "run", 0.5 * (w[..., :4] ** 2).sum(-1), 0.5 * (w**2).sum(-1), 10**8)
    )
    line = line.iloc[0]
    assert line["coefficient"] == line["raw"] and line["correction_error"] > line["raw_error"]
    assert abs(line["raw"] - 2) < Z * line["raw_error"]


def test_a_ladder_is_corrected_as_a_whole(tmp_path, monkeypatch):
    """Four rungs, of which only the hottest resolves its correction: a curve through both kinds
    would bend.
    """
    examples, generator = np.array([10**6, 10**5, 10**4, 20]), np.random.default_rng(2)
    w = [drawn(2, n, 1.0, seed=rung, shape=(8, 500)) for rung, n in enumerate(examples)]
    run = made(tmp_path / "run", w[0] ** 2, w[0] ** 2, 10**6)
    monkeypatch.setattr(module, "exact_rows", lambda run, rows, what: rows)
    for tied in (True, False):
        penalty = [0.5 * tied * x**2 + generator.standard_normal((8, 500)) / 100 for x in w]
        ladder = SimpleNamespace(
            inverse_temperatures=examples / 10**6,
            likelihood_weights=np.ones(4),
            penalty=penalty,
            likelihood=[10**6 * (0.7 + x**2) for x in w],
        )
        monkeypatch.setattr(module, "sampled_energies", lambda run, rows, ladder=ladder: ladder)
        found = learning_coefficient(run)
        resolved = found["correction"] > 4 * found["correction_error"]
        assert list(resolved) == [False, False, False, tied]
        assert (found["coefficient"] != found["raw"]).all() == tied


def curve(multiplicity, coefficient=0.5, error=0.003, seed=0):
    examples = np.geomspace(30, 1e6, 10)
    t = np.log(examples)
    values = (
        coefficient - (multiplicity - 1) / (t + 2)
        if multiplicity > 1
        else coefficient - 1 / examples
    )
    values = values + error * np.random.default_rng(seed).standard_normal(10)
    return pd.DataFrame({"effective_examples": examples, "coefficient": values, "error": error})


@pytest.mark.parametrize("multiplicity", [1, 2, 3])
def test_curves_tell_the_multiplicity(multiplicity):
    fits = learning_curve(curve(multiplicity, 1.0))
    best = fits.iloc[0]
    assert best["multiplicity"] == multiplicity
    assert abs(best["coefficient"] - 1.0) < Z * best["error"] < 0.15
    assert fits["chi_squared"][1] > best["chi_squared"] + 6
    assert best["rungs"] == 10


def test_the_product_of_two_parameters_by_quadrature():
    """(w1 w2)² under a Gaussian, whose λ is 1/2 with multiplicity 2: the values themselves are
    below .43.
    """
    s = np.sinh(np.linspace(-14, 14, 1001)) / np.sinh(14) * 6
    weight = np.gradient(s)
    density = np.outer(weight * np.exp(-(s**2) / 2), weight * np.exp(-(s**2) / 2))
    energy = np.outer(s, s) ** 2
    examples = np.geomspace(1e2, 1e6, 6)
    weights = [density * np.exp(-n * energy) for n in examples]
    values = [n * (energy * p).sum() / p.sum() for n, p in zip(examples, weights, strict=True)]
    table = pd.DataFrame({"effective_examples": examples, "coefficient": values, "error": 0.002})
    best = learning_curve(table, 2).iloc[0]
    assert max(values) < 0.45
    assert best["multiplicity"] == 2
    assert best["coefficient"] == pytest.approx(0.5, abs=0.01)
    with pytest.raises(InputError, match="at least 4"):
        learning_curve(table.head(3))


def test_refusals(tmp_path):
    w = drawn(2, 1000, 1.0, shape=(2, 50))
    extra = {"loss_at_center": None, "prior": {"prior": "gaussian"}}
    run = made(tmp_path / "run", w**2, 0.5 * w**2, 1000, **extra)
    with pytest.raises(InputError, match=r"loss of the minimum is not known.*gaussian"):
        learning_coefficient(run)
    given = learning_coefficient(run, lowest_loss=0.7)
    assert given["raw"][0] == pytest.approx(1000 * (w**2).mean())
    with pytest.raises(InputError, match="center is not a point"):
        tati_re.priors.Tether(np.zeros((2, 2)))
    with pytest.raises(InputError, match="tether is out of range"):
        tati_re.priors.Tether(np.zeros(2), 0.0)


def line_of_points(n=200, parameters=3, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((n, parameters - 1))
    return x, x @ np.arange(1.0, parameters)[:, None] + 0.5 + 0.3 * generator.standard_normal(
        (n, 1)
    )


@pytest.mark.slow
def test_from_the_fit_to_the_table(tmp_path, capsys, monkeypatch):
    """A linear model of 4 parameters, by its options alone: P/2 at every rung that knows them all;
    and resumed.
    """
    monkeypatch.chdir(tmp_path)
    given = {
        "data": line_of_points(parameters=4),
        "dtype": "float64",
        "noise_std": 0.3,
        "verbose": 0,
        "seed": 2,
    }
    sim = tati_re.Simulation(num_walkers=4, **given)
    sim.fit(optimizer="adam", learning_rate=0.05, num_steps=600, prior="none", output="fit")
    ladder = {"sampler": "HMC", "step_size": 0.02, "tempering": "likelihood", "num_replicas": 6}
    run = sim.sample(
        tether="fit", prior_factor=10.0, num_steps=600, num_burnin_steps=100, output="run", **ladder
    )
    center = sim.system.prior(
        tati_re.Simulation.from_folder("run", data=given["data"]).options, {}
    ).center
    assert run.manifest["prior"] == {"prior": "tether", "tether": 10.0}
    analyse.main(["run", "--modules", "learning-coefficient"])
    said = capsys.readouterr().out
    assert "coldest rungs fit λ = " in said
    assert (tmp_path / "run/analysis/learning_coefficient.png").exists()
    table = pd.read_csv("run/analysis/learning_coefficient.csv")
    cold = table[table["effective_examples"] > 20]
    assert (np.abs(cold["coefficient"] - 2.0) < Z * cold["error"]).all()
    assert cold["error"].max() < 0.2
    own = tati_re.Simulation(parameters=center, **given)
    again = own.sample(
        prior=tati_re.priors.Tether(own.parameters, 10.0), num_steps=2, step_size=0.01
    )
    assert again.manifest["loss_at_center"] == pytest.approx(
        run.manifest["loss_at_center"], rel=1e-12
    )
    with pytest.raises(InputError, match="a single strength"):
        own.sample(tether="fit", prior_factor={"dense*": 1.0}, num_steps=5)
    with pytest.raises(InputError, match="nowhere"):
        own.sample(tether="nowhere", num_steps=5)


def test_closed_forms_of_deep_linear_networks():
    assert closed_form((3, 3), 1) == (4.5, 1)  # regular
    assert closed_form((1, 1, 1), 0) == (0.5, 2)
    assert closed_form((10, 10, 10), 2)[0] == 42


def test_networks_that_are_none_are_one_sentence(capsys):
    assert deep_linear_networks.main(["--networks", "2-2:3"]) == 2
    assert "Received: 2-2:3." in capsys.readouterr().err


@pytest.mark.slow
def test_the_example_finds_a_closed_form_from_both_sides(tmp_path):
    """λ = 1.5 of a product of two matrices, of 8 weights; a regular model would have 4."""
    arguments = ["--networks", "2-2-2:0", "--num-steps", "4000", "--output", str(tmp_path)]
    assert deep_linear_networks.main(arguments) == 0
    table = pd.read_csv(tmp_path / "results.csv")
    assert list(table["start"]) == ["center", "draws"] and (table["exact"] == 1.5).all()
    assert (abs(table["estimate"] - 1.5) < 0.15).all() and (tmp_path / "figure.png").exists()


@pytest.mark.slow
def test_a_deep_linear_network_of_800_weights_has_its_closed_form(tmp_path):
    """λ = 50 of P/2 = 400, within 5 %, from the tether's center and from its draws; half of the
    weights, and half of those of one layer, are far off.
    """
    assert (
        deep_linear_networks.main(["--networks", "10-20-20-10:2", "--output", str(tmp_path)]) == 0
    )
    table = pd.read_csv(tmp_path / "results.csv")
    assert (abs(table["ratio"] - 1) < 0.05 + Z * table["error"] / 50).all() and (
        table["error"] < 2.0
    ).all(), table


def test_energies_are_those_of_all_examples_in_either_convention():
    """Under `potential="mean_loss"` the energy, E[n L], was E[L]."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(40, 2))
    data = (x, x @ [[1.0], [2.0]] + 0.3 * generator.normal(size=(40, 1)))
    length = {"sampler": "HMC", "num_steps": 30, "execution": "graph", "prior": "none"}
    energies = []
    for words, step in (
        ({}, 0.02),
        ({"potential": "mean_loss", "temperature": 1 / 40}, 0.02 * 40**0.5),
    ):
        sim = tati_re.Simulation(
            data=data, noise_std=0.3, dtype="float64", num_walkers=2, seed=1, verbose=0
        )
        table = learning_coefficient(
            sim.sample(step_size=step, **words, **length), lowest_loss=0.0, burnin=0
        )
        energies.append(table["energy"][0])
        assert table["effective_examples"][0] == pytest.approx(40)
    assert energies[1] == pytest.approx(energies[0])
