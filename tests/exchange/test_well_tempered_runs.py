"""The well-tempered ensemble in the engine: laws of biased ladders, what is written, and what is
refused.

On a harmonic well of d dimensions the converged bias gives energies the mean T(a - 1 + γ) and the
variance γT²(a - 1 + γ), a = d/2, and neighbors at the ratio R the acceptance 2 I_{1/(1+R)}(b, b), b
= (a - 1)/γ + 1; weights give back <U> = aT whatever the bias is. Errors come from independent
ladders; energies with the reweighted mean of each ladder as a ratio. Power: 5.5 errors are about
0.5 % of a mean in ten dimensions; swaps that forget the bias move it by several per cent, weights
of the wrong sign by half.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc

from tati_re import InputError, Simulation
from tati_re.core.backend import tf
from tati_re.engine.limits import LIMITS, Limits
from tati_re.exchange.ladder import make_ladder
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.exchange.swap_rules import Barker
from tati_re.exchange.well_tempered import WellTempered
from tati_re.runs.positions import Positions
from tati_re.samplers import HamiltonianMonteCarlo, Splitting
from tests.ladders import FunctionPotential, exchanging, harmonic, run_ladder
from tests.scenarios import TOLERANCE, mean_and_error
from tests.systems import tables

FACTOR = 4.0


def acceptance(d: int, ratio: float, factor: float) -> float:
    b = (d / 2 - 1) / factor + 1
    return float(2 * betainc(b, b, 1 / (1 + ratio)))


def biased(
    inner,
    d,
    ratio,
    rungs,
    ladders,
    burnin,
    steps,
    every=1,
    kind=ReplicaExchange,
    step_size=0.25,
    record_every=2,
    **more,
):
    """A run that starts in the law without bias; rows of the burn-in included."""
    method = exchanging(
        inner,
        make_ladder(num_replicas=rungs, temperature_ratio=ratio, step_size=step_size),
        every=every,
        ladders=ladders,
        kind=kind,
        bias=WellTempered(FACTOR, 2.0, 0.5, 5000.0),
        **more,
    )
    temperature = ratio ** np.arange(rungs)
    start = (
        np.random.default_rng(d).normal(size=(rungs * ladders, d))
        * np.sqrt(np.repeat(temperature, ladders))[:, None]
    )
    run = run_ladder(
        method, FunctionPotential(harmonic, d), start, burnin + steps, record_every, burnin
    )
    # The first twentieth after the burn-in is left out too: the law has just stopped to move.
    left_out = (burnin + steps // 20) // record_every
    return run._replace(
        rows=run.rows[left_out:], events=run.events[run.events[:, 0] > burnin]
    ), temperature


def z_of_reweighted(run, temperature, d, sign=1.0):
    """z-scores of <U> of each rung, the weighted mean of all ladders as a ratio of their sums."""
    energy, weight = run.column("potential"), run.column("weight") ** sign
    found = []
    for rung, hot in enumerate(temperature):
        ratio = (energy[:, rung] * weight[:, rung]).sum() / weight[:, rung].sum()
        residual = (weight[:, rung] * (energy[:, rung] - ratio)).mean(0) / weight[:, rung].mean()
        error = mean_and_error(residual)[1]
        print(f"reweighted <U>/T {ratio / hot:.4f} +- {error / hot:.4f}, expected {d / 2}")
        found.append((ratio - 0.5 * d * hot) / error)
    return np.array(found)


def swap_rate(run, pair):
    """Mean acceptance of a pair, and its error from the ladders."""
    events = run.events[run.events[:, 1] == pair]
    walker = events[:, 9].astype(int)
    return mean_and_error(np.bincount(walker, events[:, 8]) / np.bincount(walker))


# -----------------------------------------------------------------------------------------------------------------
# laws


@pytest.mark.slow
def test_a_hundred_dimensions_by_hmc():
    """Variance 212 T² within 5 %, mean 53 T, swaps 0.642 ± 0.02 where they would be 0.36, and <U> =
    50 T comes back.
    """
    run, temperature = biased(HamiltonianMonteCarlo(8), 100, 1.2, 3, 60, 1400, 1000)
    energy = run.column("potential")
    mean, variance = energy.mean((0, 2)) / temperature, energy.var((0, 2)) / temperature**2
    print(mean, variance, acceptance(100, 1.2, FACTOR))
    assert np.abs(mean - 53).max() < 1
    assert np.abs(variance / 212 - 1).max() < 0.05
    for pair in range(2):
        rate, error = swap_rate(run, pair)
        print(f"{rate:.4f} +- {error:.4f}")
        assert abs(rate - acceptance(100, 1.2, FACTOR)) < 0.02
    assert np.abs(z_of_reweighted(run, temperature, 100)).max() < TOLERANCE
    weight = run.column("weight")
    assert (weight > 0).all() and np.median(weight) < 2
    assert np.isfinite(run.rows).all()
    assert (run.state.rungs.bias.refused.numpy() == 0).all()


TEN = (10, 1.5, 3, 150, 600, 800)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["metropolis", "barker", "infinite", "BAOAB"])
def test_ten_dimensions(rule):
    """R = 1.5: swaps 0.70 where they would be 0.53; Barker's rule and all assignments keep the law
    as well, and BAOAB inside with a step size small enough.
    """
    inner, more = HamiltonianMonteCarlo(4), {"step_size": 0.4}
    if rule == "BAOAB":
        inner, more = Splitting("BAOAB", 1.0), {"every": 4, "step_size": 0.2}
    elif rule == "infinite":
        more["infinite"] = True
    elif rule == "barker":
        more["rule"] = Barker()
    run, temperature = biased(inner, *TEN, **more)
    assert np.abs(z_of_reweighted(run, temperature, 10)).max() < TOLERANCE
    if rule in ("metropolis", "BAOAB"):
        for pair in range(2):
            rate, error = swap_rate(run, pair)
            print(f"{rate:.4f} +- {error:.4f}, {acceptance(10, 1.5, FACTOR):.4f}")
            # BAOAB's burn-in has a quarter of the rounds, which leave the ends of the bias to be
            # filled.
            assert abs(rate - acceptance(10, 1.5, FACTOR)) < (0.06 if rule == "BAOAB" else 0.03)


class Forgetful(ReplicaExchange):
    """Swaps without the bias, as the published algorithm has them: a wrong variant."""

    def __init__(self, *parts, **named):
        super().__init__(*parts, **named)
        self.swaps._with_bias = lambda difference, *others: difference


@pytest.mark.slow
def test_wrong_variants_are_caught():
    """Swaps that forget the bias, and the weights e^{-βA}."""
    run, temperature = biased(
        HamiltonianMonteCarlo(4), 10, 1.5, 2, 100, 300, 400, kind=Forgetful, step_size=0.4
    )
    z = np.abs(z_of_reweighted(run, temperature, 10))
    print(z)
    assert z.max() > 2 * TOLERANCE
    assert np.abs(z_of_reweighted(run, temperature, 10, sign=-1.0)).min() > 2 * TOLERANCE


# ----------------------------------------------------------------------------------------------------
# infinite swapping


@pytest.mark.slow
def test_infinite_swapping_without_a_bias():
    """<U> = 5 T on each rung, every replica at each rung a quarter of the time, and expected equals
    accepted.
    """
    rungs, ladders, d = 4, 100, 10
    method = exchanging(
        Splitting("BAOAB", 1.0),
        make_ladder(num_replicas=rungs, temperature_ratio=1.5, step_size=0.5),
        ladders=ladders,
        infinite=True,
    )
    temperature = 1.5 ** np.arange(rungs)
    start = (
        np.random.default_rng(0).normal(size=(rungs * ladders, d))
        * np.sqrt(np.repeat(temperature, ladders))[:, None]
    )
    run = run_ladder(method, FunctionPotential(harmonic, d), start, 2_000, 4)
    for rung in range(rungs):
        mean, error = mean_and_error(run.column("potential")[:, rung].mean(0))
        print(f"{mean:.4f} +- {error:.4f}, {0.5 * d * temperature[rung]:.4f}")
        assert abs(mean - 0.5 * d * temperature[rung]) < TOLERANCE * error
    replica = run.column("replica")
    assert (np.sort(replica, axis=1) == np.arange(rungs)[:, None]).all()
    for rung in range(rungs):
        for which in range(rungs):
            mean, error = mean_and_error((replica[:, rung] == which).mean(0))
            assert abs(mean - 0.25) < TOLERANCE * error
    counts = run.state.rungs.counts
    attempts, accepted, expected = (
        np.asarray(values) for values in (counts.attempts, counts.accepted, counts.expected)
    )
    # A sum of Bernoulli variables of known probabilities: at most a variance of 1/4 each.
    assert np.abs((accepted - expected) / np.sqrt(0.25 * attempts)).max() < TOLERANCE
    assert (attempts == 500 * ladders).all() and (expected / attempts > 0.2).all()


# --------------------------------------------------------------------------------------------------------
# frozen, wrong


def test_the_bias_is_frozen_to_the_bit_after_the_burn_in():
    def final(steps):
        method = exchanging(
            HamiltonianMonteCarlo(2),
            make_ladder(num_replicas=3, temperature_ratio=1.3, step_size=0.4),
            every=1,
            ladders=2,
            bias=WellTempered(3.0),
        )
        start = np.random.default_rng(0).normal(size=(6, 2))
        run = run_ladder(
            method, FunctionPotential(harmonic, 2), start, steps, 1, 20, execution="graph"
        )
        return run.state.rungs.bias, method.ladder.tables(run.state)["bias"]

    first, table = final(20)
    later, _ = final(60)
    for name, before, after in zip(first._fields, first, later, strict=True):
        np.testing.assert_array_equal(before, after, err_msg=name)
    assert (first.count.numpy() == 40).all() and (first.heights.numpy().max(1) > 0.1).all()
    assert list(table) == ["rung", "energy", "bias", "log_weight"]
    assert set(table["rung"]) == {0, 1, 2} and (table["bias"] > 0).all()
    np.testing.assert_allclose(table["log_weight"], table["bias"] / 1.3 ** table["rung"])


@pytest.mark.slow
def test_energies_that_are_not_finite_are_not_counted():
    """A replica at a place where U is NaN neither swaps nor enters the bias."""

    def broken(position):
        return tf.where(position[:, 0] > 50.0, tf.constant(np.nan, tf.float64), 1.0) * harmonic(
            position
        )

    method = exchanging(
        HamiltonianMonteCarlo(2),
        make_ladder(num_replicas=2, temperature_ratio=1.3, step_size=0.4),
        every=1,
        ladders=3,
        bias=WellTempered(3.0),
    )
    start = np.random.default_rng(0).normal(size=(6, 2))
    start[0] = 100.0
    run = run_ladder(method, FunctionPotential(broken, 2), start, 30, 1, 25, execution="graph")
    bias = run.state.rungs.bias
    print({name: values for name, values in bias._asdict().items() if name != "heights"})
    assert np.isfinite(bias.heights.numpy()).all() and np.isfinite(bias.variance.numpy()).all()
    assert list(bias.count.numpy()) == [50, 75]
    # The engine records nothing once a walker is not finite; who sits where tells about swaps.
    assert list(run.state.rungs.index.numpy()[[0, 3]]) == [0, 1]
    assert run.state.rungs.counts.accepted.numpy()[0] > 0


# ------------------------------------------------------------------------------------------------------
# through options

GENERATOR = np.random.default_rng(5)
X, Y = GENERATOR.normal(size=(12, 2)), GENERATOR.normal(size=12)
BURNIN, STEPS = 50, 96
OPTIONS = {
    "sampler": "HMC",
    "num_leapfrog_steps": 2,
    "num_replicas": 3,
    "temperature_ratio": 1.4,
    "bias": "well_tempered",
    "bias_factor": 4.0,
    "step_size": 0.1,
    "num_steps": STEPS,
    "num_burnin_steps": BURNIN,
    "record_every": 1,
    "trajectory_every": 1,
}
SYSTEM = {
    "noise_std": 1.0,
    "dtype": "float64",
    "seed": 3,
    "verbose": 0,
    "execution": "graph",
    "num_walkers": 2,
}


def sample(output=None, verbose=0, limits=LIMITS, **options):
    """Linear regression with 3 parameters."""
    simulation = Simulation(data=(X, Y), **SYSTEM | {"verbose": verbose})
    simulation.limits = limits
    return simulation.sample(**OPTIONS | options, output=None if output is None else str(output))


@pytest.fixture(scope="module")
def small():
    return sample()


def test_weights_stand_last_and_count_in_averages(small):
    rows = small.run_info
    assert list(rows.columns[-3:]) == ["rung", "replica", "weight"]
    assert (rows["weight"] > 0).all()
    late = rows[rows["step"] > BURNIN]
    assert late["weight"].std() > 0.01
    for (rung, walker), mine in late.groupby(["rung", "walker"]):
        told = small.averages.query(f"rung == {rung} and walker == {walker}")
        for name in ("loss", "potential", "kinetic_energy"):
            running = (mine[name] * mine["weight"]).cumsum() / mine["weight"].cumsum()
            np.testing.assert_allclose(told[name], running, rtol=1e-11)
    bias = np.genfromtxt(small.folder / "bias.csv", delimiter=",", names=True)
    assert bias.dtype.names == ("rung", "energy", "bias", "log_weight") and set(bias["rung"]) == {
        0,
        1,
        2,
    }


def highest(run, rung: int) -> float:
    bias = np.genfromtxt(run.folder / "bias.csv", delimiter=",", names=True)
    return bias["log_weight"][bias["rung"] == rung].max()


def test_weights_are_those_of_the_bias_that_was_written(small):
    """e^{βA(U)} up to a factor of the rung: its logarithm at rows near a cell against bias.csv."""
    late = small.run_info.query(f"step > {BURNIN}")
    bias = np.genfromtxt(small.folder / "bias.csv", delimiter=",", names=True)
    for rung, mine in late.groupby("rung"):
        table = bias[bias["rung"] == rung]
        exponent = np.interp(mine["potential"], table["energy"], table["log_weight"])
        offset = np.log(mine["weight"]) - exponent
        # Between cells the bias is cubic, not linear.
        assert offset.std() < 0.03 * np.log(mine["weight"]).std()


@pytest.mark.slow
def test_weights_and_heights_are_those_of_the_temperature_of_a_schedule(small):
    """At T = 3 weights are e^{A(U)/3}, and the bias is as high, in units of T, as at T = 1."""
    run = sample(temperature_schedule=[(1, 3.0)])
    late = run.run_info.query(f"step > {BURNIN}")
    bias = np.genfromtxt(run.folder / "bias.csv", delimiter=",", names=True)
    for rung, mine in late.groupby("rung"):
        table = bias[bias["rung"] == rung]
        temperature = mine["temperature"].iloc[0]
        assert temperature == pytest.approx(3 * 1.4**rung)
        np.testing.assert_allclose(table["log_weight"], table["bias"] / temperature)
        offset = np.log(mine["weight"]) - np.interp(
            mine["potential"], table["energy"], table["log_weight"]
        )
        assert offset.std() < 0.03 * np.log(mine["weight"]).std()
        assert 0.5 < table["log_weight"].max() / highest(small, rung) < 2


def test_mean_and_variance_of_the_parameters_are_weighted(small):
    """The variance is that of numpy's reliability weights: a factor on all weights changes
    nothing.
    """
    positions = small.trajectory
    names = [name for name in positions.columns if "[" in name]
    assert len(names) == 3 and "weight" in positions and set(positions["rung"]) == {0}
    weight = positions["weight"].to_numpy()[:, None]
    expected = (weight * positions[names].to_numpy()).sum(0) / weight.sum()
    np.testing.assert_allclose(small.parameters("mean"), expected, rtol=1e-10)
    moments = small.moments
    for walker in range(2):
        mine = positions[positions["walker"] == walker]
        weight, values = mine["weight"].to_numpy()[:, None], mine[names].to_numpy()
        np.testing.assert_allclose(
            moments.mean[walker], (weight * values).sum(0) / weight.sum(), rtol=1e-10
        )
        assert moments.count[walker] == pytest.approx(weight.sum())
        variance = np.diag(np.cov(values.T, aweights=weight[:, 0]))
        np.testing.assert_allclose(moments.variance[walker], variance, rtol=1e-9)
    pooled = np.diag(np.cov(positions[names].T, aweights=positions["weight"]))
    np.testing.assert_allclose(small.moments.pooled()[1], pooled, rtol=1e-9)
    np.testing.assert_allclose(Positions(small).moments()[1], pooled, rtol=1e-9)


def test_one_temperature_may_be_biased_alone():
    run = sample(num_replicas=None, temperature_ratio=None, exchange="none")
    rows = run.run_info
    assert set(rows["rung"]) == {0} and set(rows["replica"]) == {0} and (rows["weight"] > 0).all()
    assert rows["weight"].std() > 0.01 and (run.folder / "bias.csv").exists()
    assert run.manifest["method"]["bias"] == "well_tempered"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"exchange": "none"}, marks=pytest.mark.slow),
        pytest.param({"exchange": "infinite"}, marks=pytest.mark.slow),
        pytest.param({"sampler": "BADODAB", "swap_rule": "barker"}, marks=pytest.mark.slow),
    ],
)
def test_other_ways_to_swap_run(options, capsys):
    """Without a word on the energies of mini-batches: see the next test."""
    run = sample(verbose=1, num_steps=60, **options)
    said = capsys.readouterr()
    assert run.run_info["weight"].std() > 0
    assert "bias_energies" not in said.out + said.err


MINI = {"sampler": "RENHD", "batch_size": 4, "exchange_every": 5, "step_size": 0.02}


def test_mini_batches_beside_energies_of_all_data(capsys):
    """U of the rows is that of all data, swaps are free of noise, and each kept its law's
    weights.
    """
    run = sample(verbose=1, full_every=1, **MINI)
    said = capsys.readouterr()
    assert "each step also evaluates the loss of all 12 rows" in said.out + said.err
    rows = run.run_info
    np.testing.assert_allclose(rows["potential"], rows["full_potential"], rtol=1e-12)
    assert (run.exchanges["variance"] == 0).all() and run.manifest["method"][
        "bias_energies"
    ] == "full"
    assert rows.query(f"step > {BURNIN}")["weight"].std() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["penalty", "barker_compensated"])
def test_mini_batches_by_their_own_energies_are_warned_of(rule, capsys):
    """A noisy rule is told the variance of its estimate; examples of a pair: those asked for, or
    all of 12.
    """
    run = sample(
        verbose=1, **MINI | {"swap_rule": rule}, bias_energies="batch", exchange_batch_size=6
    )
    said = capsys.readouterr()
    assert "bias_energies batch: the bias acts on noisy mini-batch energies" in said.out + said.err
    tried = run.exchanges.query(f"step > {BURNIN}")
    assert set(tried["batch_size"]) <= {6, 12} and (tried["variance"] > 0).mean() > 0.1
    assert (tried["variance"] <= 1).all() or rule == "penalty"
    assert run.run_info["weight"].std() > 0 and (run.run_info["weight"] > 0).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"tempering": "likelihood", "temperature_ratio": None},
            "^bias: well_tempered acts on U at fixed temperatures",
        ),
        ({"exchange": "tempering"}, "^bias: well_tempered acts on U at fixed temperatures"),
        ({"num_burnin_steps": 0}, r"^bias: it grows during the burn-in only"),
        ({"bias_factor": 1.0}, r"^bias_factor is out of range"),
        ({"sampler": "CCAdL", "batch_size": 4}, r"^bias: this sampler estimates the gradient"),
        (
            {"sampler": "CCAdL", "batch_size": 4, "bias_energies": "batch"},
            r"^bias: this sampler estimates the gradient",
        ),
    ],
)
def test_what_does_not_fit_a_bias_is_one_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        sample(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("stop", [20, pytest.param(70, marks=pytest.mark.slow)])
def test_an_interruption_changes_no_byte(tmp_path, small, stop):
    """Stopped in the burn-in, while the bias grows, and after it."""
    sample(tmp_path / "parts", limits=Limits(most_steps=stop, first_steps=stop), max_time=1e-6)
    stopped = (tmp_path / "parts" / "exchange.csv").read_text().splitlines()[-1]
    assert int(stopped.split(",")[0]) == stop
    Simulation.resume(str(tmp_path / "parts"), data=(X, Y), max_time=None)
    assert tables(tmp_path / "parts") == tables(small.folder)
