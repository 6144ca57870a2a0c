"""Further runs of one Simulation draw other numbers: their scatter is that of their errors, each
can be repeated, and the first one is that of a new Simulation.

Bounds are 5.5 standard errors, or probabilities of 1e-4 of F. The faults are far outside: with
repeated noise calls agree to 1e-13, momenta that are drawn once give an HMC over `sim` variances
that are wrong by factors.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import stats

import tati_re
from tati_re import InputError, Simulation
from tati_re.cli import sample
from tati_re.evidence import log_evidence
from tati_re.evidence.methods import prepared
from tati_re.exploration import explore
from tati_re.exploration.trajectories import ModelTrajectories
from tati_re.launch.calls import Calls
from tati_re.options.make import make_options
from tati_re.report.description import sampling_sentences

GENERATOR = np.random.default_rng(17)
N, NOISE, WALKERS, BOUND = 24, 0.5, 24, 5.5
X = GENERATOR.normal(size=(N, 2)) * [1.0, 0.4]
Y = X @ [1.0, -2.0] + NOISE * GENERATOR.normal(size=N)
DESIGN = np.column_stack([X, np.ones(N)])
COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN / NOISE**2 + np.eye(3))
RUN = {
    "step_size": 0.1,
    "friction": 4.0,
    "num_steps": 120,
    "record_every": 2,
    "trajectory_every": 2,
}
SHORT = RUN | {"num_steps": 12, "batch_size": 10}


def linear(**options) -> Simulation:
    """Linear regression with a Gaussian posterior."""
    given = {
        "data": (X, Y),
        "noise_std": NOISE,
        "dtype": "float64",
        "seed": 3,
        "verbose": 0,
        "execution": "graph",
    }
    return Simulation(**given | options)


def next_of(sim: Simulation, kind: str = "sample") -> int | None:
    return sim.calls.numbered(kind, sim.options).call


def files_of(run) -> list[bytes]:
    return [
        (run.folder / name).read_bytes() for name in ("run.csv", "averages.csv", "trajectory.csv")
    ]


@pytest.mark.slow
def test_means_of_further_calls_scatter_as_their_errors_say():
    """Mini-batches and noise of the default sampler: the variance of the mean potential between
    calls over that between walkers follows F. With the noise of the first call, here by `call=1`,
    the ratio is below 1e-3.
    """
    sim, means = linear(num_walkers=WALKERS), []
    for options in ({}, {}, {}, {}, {"call": 1}):
        rows = sim.sample(**RUN, batch_size=8, **options).run_info
        # What is left of the place where the one before ended is forgotten by then.
        means.append(rows[rows["step"] > 60].groupby("walker")["potential"].mean())
    table = np.array(means)
    within = table.var(axis=1, ddof=1).mean() / WALKERS
    fresh, repeated = (
        table[chosen].mean(axis=1).var(ddof=1) / within for chosen in ([0, 1, 2, 3], [0, 4])
    )
    print(f"between calls / within: {fresh:.3g}, repeated {repeated:.3g}")
    low, high = stats.f.ppf([1e-4, 1 - 1e-4], 3, 4 * (WALKERS - 1))
    assert low < fresh < high and repeated < 1e-3 < low


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"sampler": "SGLD", "step_size": 0.01, "batch_size": 8},
        {"sampler": "HMC", "num_leapfrog_steps": 3, "step_size": 0.1},
        {"temperatures": [1.0, 3.0], "exchange_every": 5, "batch_size": 8, "swap_rule": "barker"},
    ],
    ids=["SGLD", "HMC", "replicas"],
)
def test_positions_of_further_calls_are_not_those_of_the_first(options):
    """Correlation of second halves between two calls, each walker an independent value: 0 within
    5.5 standard errors, which are below .1. With repeated noise it is 1.
    """
    sim = linear(num_walkers=WALKERS)
    positions = []
    for _ in range(2):
        rows = sim.sample(**RUN | {"num_steps": 240, "trajectory_every": 4} | options).trajectory
        rows = rows[rows["step"] > 120]
        positions.append(rows[sim.parameter_names()].to_numpy().reshape(-1, WALKERS, 3))
    assert not np.isin(positions[0], positions[1]).any(), "equal to the last bit"
    whitened = [(values - values.mean((0, 1))) / values.std((0, 1)) for values in positions]
    each = (whitened[0] * whitened[1]).mean(axis=(0, 2))
    error = each.std(ddof=1) / np.sqrt(WALKERS)
    print(f"correlation {each.mean():.3f} +- {error:.3f}")
    assert abs(each.mean()) < BOUND * error < BOUND * 0.1


def test_the_first_call_is_that_of_a_new_simulation_and_each_can_be_repeated(tmp_path, capsys):
    """Byte for byte: call 1, call 2 by its number, by its folder, and resumed from the command
    line.
    """
    data = {"data": "two_clusters", "seed": 2, "verbose": 0, "execution": "graph"}
    sim, options = Simulation(**data), SHORT | {"step_size": 0.005}
    start = str(tmp_path / "start.npz")
    first = sim.sample(**options, output=str(tmp_path / "1"))
    np.savez(start, parameters=sim.parameters)
    second = sim.sample(**options, output=str(tmp_path / "2"))
    assert (first.manifest["call"], second.manifest["call"], next_of(sim)) == (1, 2, 3)
    assert "call" not in first.manifest["options"], "the manifest of a first call is what it was"

    again = Simulation(**data)
    assert files_of(again.sample(**options)) == files_of(first)
    again.parameters = np.load(start)["parameters"]
    assert files_of(again.sample(**options, call=2)) == files_of(second)
    assert next_of(again) == 3

    typed = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in {**data, **options, "num_steps": 5}.items()
    ]
    assert (
        sample.main(
            [*typed, "--parameters", start, "--call", "2", "--output", str(tmp_path / "half")]
        )
        == 0
    )
    assert (
        sample.main(["--resume", str(tmp_path / "half"), "--num-steps", "12", "--verbose", "0"])
        == 0
    )
    assert files_of(tati_re.load(tmp_path / "half")) == files_of(second)

    repeated = Simulation.from_folder(tmp_path / "2").sample(output=str(tmp_path / "repeated"))
    assert repeated.manifest["call"] == 2 and files_of(repeated) == files_of(second)
    after = Simulation.from_folder(tmp_path / "2", parameters=str(tmp_path / "2"))
    assert (next_of(after), next_of(after, "fit")) == (3, None), "fits are counted by themselves"
    assert "seed 2, call 2." in " ".join(sampling_sentences(second.manifest, second.run_info))


def test_fits_see_other_batches():
    """From the same place with a rate of almost 0: the losses of the rows are those of the
    batches.
    """
    sim = linear()
    rows = []
    for options in ({}, {}, {"call": 1}):
        sim.parameters = np.zeros(3)
        run = sim.fit(num_steps=6, batch_size=5, learning_rate=1e-12, record_every=1, **options)
        rows.append((run.manifest["call"], run.run_info["loss"].to_numpy()))
    assert [call for call, _ in rows] == [1, 2, 1]
    assert (rows[0][1] != rows[1][1]).all()
    np.testing.assert_array_equal(rows[2][1], rows[0][1])


def test_how_calls_are_counted():
    """By kind and seed; seed or call given with a call repeat, and a refused one is not counted."""
    calls, options = Calls(), make_options(seed=5)
    numbers = [calls.next(kind, options).call for kind in ("sample", "sample", "fit", "sample")]
    assert numbers == [None, 2, None, 3]
    assert calls.next("sample", make_options(seed=6)).call is None
    assert calls.next("sample", make_options(options, call=9), {"call": 9}).call == 9
    assert calls.next("sample", options).call == 10
    assert calls.next("sample", options, {"seed": 5}).call is None
    later = Calls()
    assert [later.next("fit", make_options(call=4)).call for _ in range(2)] == [4, 5]
    seeds = {
        make_options(seed=seed, call=call).run_seed for seed in range(30) for call in range(1, 31)
    }
    assert len(seeds) == 900 and max(seeds) < 2**63 and make_options(seed=7, call=1).run_seed == 7
    with pytest.raises(InputError, match=r"^call is out of range\. Received: 0\. Expected: "):
        make_options(call=0)

    sim = linear()
    with pytest.raises(InputError):
        sim.sample(**SHORT, sampler="HMC")
    assert next_of(sim) is None
    sim.sample(**SHORT)
    assert next_of(sim) == sim._for_call({"call": None})[0].call == 2
    sim.set_options(call=1)
    assert next_of(sim) == 1, "it begins again"


def test_a_batch_stays_until_the_next_one():
    """A loop of one's own goes on where it was after a run."""
    sim = linear(batch_size=5)
    sim.next_batch()
    before, slope = sim.batch.examples, sim.gradients()
    start = sim.parameters.copy()
    sim.sample(**SHORT)
    assert sim.batch.number == 1 and (sim.batch.examples == before).all()
    sim.parameters = start
    np.testing.assert_array_equal(sim.gradients(), slope)
    sim.dataset = (X[:9], Y[:9])
    assert sim.batch.number == 0


def hmc(
    sim: Simulation, num_moves: int, num_steps: int, h: float, fresh: bool = True
) -> np.ndarray:
    """Hamiltonian Monte Carlo over `sim`: positions `(moves, walkers, parameters)`."""
    generator, positions = np.random.default_rng(1), []
    for _ in range(num_moves):
        sim.init_momenta(**({} if fresh else {"seed": 3}))
        here, energy = sim.parameters.copy(), sim.potential() + (sim.momenta**2).sum(1) / 2
        for _ in range(num_steps):
            sim.momenta = sim.momenta - h / 2 * sim.gradients()
            sim.parameters = sim.parameters + h * sim.momenta
            sim.momenta = sim.momenta - h / 2 * sim.gradients()
        rise = sim.potential() + (sim.momenta**2).sum(1) / 2 - energy
        refused = np.log(generator.uniform(size=len(rise))) > -rise
        sim.parameters = np.where(refused[:, None], here, sim.parameters)
        positions.append(sim.parameters.copy())
    return np.array(positions)


@pytest.mark.slow
def test_a_hamiltonian_monte_carlo_over_a_simulation_has_the_posteriors_widths():
    """Each variance within 5.5 standard errors, which are 5 to 10 % of it; the same momenta in each
    move are caught.
    """
    exact = np.diag(COVARIANCE)
    optimum = COVARIANCE @ DESIGN.T @ Y / NOISE**2
    found = {}
    for fresh in (True, False):
        sim = linear(num_walkers=WALKERS)
        sim.parameters = np.tile(optimum, (WALKERS, 1))
        each = ((hmc(sim, 150, 4, 0.05, fresh)[20:] - optimum) ** 2).mean(axis=0) / exact
        found[fresh] = each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(WALKERS)
        print(
            f"fresh {fresh}: variance / exact {found[fresh][0].round(3)} +- {found[fresh][1].round(3)}"
        )
    (ratio, error), (wrong, _) = found[True], found[False]
    assert (np.abs(ratio - 1) < BOUND * error).all() and (error < 0.12).all()
    assert (np.abs(wrong - 1) > BOUND * error).any()


def test_init_momenta_takes_named_arguments():
    sim = linear(num_walkers=2)
    with pytest.raises(
        InputError,
        match=r"^init_momenta: pass the argument by name .* Received: 4.0. Expected: temp",
    ):
        sim.init_momenta(4.0)
    sim.init_momenta(seed=8)
    first = sim.momenta.copy()
    sim.init_momenta(inverse_temperature=0.25, seed=8)
    np.testing.assert_allclose(sim.momenta, 2 * first, rtol=1e-15)
    with pytest.raises(InputError, match="two names for the same"):
        sim.init_momenta(temperature=1.0, inverse_temperature=1.0)


def test_evidence_and_explorations_draw_anew(tmp_path):
    """The call of an estimate, which with `output` is the first, so that a folder goes on to the
    same numbers.
    """
    sim = linear()
    made = [
        prepared(sim, ["smc"], **options)
        for options in ({}, {}, {"output": str(tmp_path)}, {"call": 2})
    ]
    assert [each.options.call for each in made] == [None, 2, None, 2]
    seeds = [each.plan(np.ones(3)).seed for each in made]
    assert seeds[0] == seeds[2] == 3 and seeds[1] == seeds[3] != 3
    legs = ModelTrajectories(sim)
    assert legs.next_seed() == 0 != legs.next_seed()


@pytest.mark.slow
def test_further_estimates_and_explorations_are_other_ones():
    sim, sizes = (
        linear(),
        {"num_steps": 20, "num_leapfrog_steps": 2, "evidence_nodes": 2, "num_walkers": 2},
    )
    found = [
        log_evidence(sim, "stepping_stone", **sizes, **options).log_z
        for options in ({}, {}, {"call": 1})
    ]
    assert found[0] == found[2] != found[1]
    legs = []
    for options in ({}, {}, {"seed": 0}):
        sim.parameters = np.zeros(3)
        legs.append(explore(sim, num_steps=10, num_legs=1, max_rounds=1, **options).legs[0])
    np.testing.assert_array_equal(legs[0], legs[2])
    assert (legs[0][1:] != legs[1][1:]).all()


@pytest.mark.slow
def test_a_study_with_a_seed_has_calls_of_it():
    x = GENERATOR.normal(size=(6, 2))
    sim = linear(data=((X, Y), (x, x @ [1.0, -2.0])))
    for options, expected in (
        ({}, [1, 2]),
        ({"seed": 9}, [1, 2]),
        ({"call": 5}, [5, 6]),
        ({}, [7, 8]),
    ):
        study = tati_re.temperature_study(sim, [0.5, 2.0], early_stopping=False, **SHORT, **options)
        assert [study.runs[temperature].manifest["call"] for temperature in (2.0, 0.5)] == expected


def test_a_start_from_a_run_of_the_same_seed_and_call_is_told(tmp_path, capsys):
    linear().sample(**SHORT, output=str(tmp_path / "run"))
    cases = {"": ({}, {}), "call": ({}, {"call": 2}), "seed": ({"seed": 4}, {})}
    for name, (given, called) in cases.items():
        linear(parameters=str(tmp_path / "run"), verbose=1, **given).sample(**SHORT, **called)
        said = capsys.readouterr().out
        assert (
            "This run repeats the random numbers of" in said
            and "Set call=2 or another seed" in said
        ) == (name == "")
    again = Simulation.from_folder(
        tmp_path / "run", parameters=str(tmp_path / "run"), data=(X, Y), verbose=2
    )
    again.sample(**SHORT)
    said = capsys.readouterr().out
    assert "call 2 of seed 3" in said and "repeats the random numbers" not in said


def test_options_beside_a_sampler_object_are_told(capsys):
    """It has its own numbers; options that wrap it, as its step size, are used."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    sim = tati_re.Simulation(data=(x, x[:, 0]), seed=1, verbose=1)
    sim.sample(
        sampler=tati_re.samplers.Splitting("BAOAB", 2.0), friction=7.0, step_size=0.01, num_steps=3
    )
    assert "Not used by BAOAB with these settings: friction.\n" in capsys.readouterr().out
    sim.sample(sampler=tati_re.samplers.Splitting("BAOAB", 2.0), step_size=0.01, num_steps=3)
    assert "Not used" not in capsys.readouterr().out


def test_two_threads_are_not_in_one_simulation_at_once():
    """Both would draw the same numbers. A run in a callback of a run is one of the same thread."""
    sim, said = linear(), []

    def second():
        try:
            sim.fit(num_steps=2)
        except InputError as error:
            said.append(str(error))

    def callback(folder, step):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        if step == SHORT["num_steps"] and len(said) == 1:
            said.append(str(sim.sample(**SHORT).run_info["step"].max()))

    sim.sample(**SHORT, callbacks=[callback])
    what = "Another thread is already running this Simulation."
    assert said == [
        f"{what} Expected: one call after the other, or a Simulation for each thread.",
        "12",
    ]
    second()
    assert len(said) == 2
