"""Densities of named parameters: from the front door to draws, summary, ArviZ and leave-one-out."""

import math
import pickle
import time
import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

import tati_re
from tati_re.core.backend import value_and_gradient
from tati_re.core.errors import InputError
from tati_re.core.process import programs
from tati_re.posterior.named_density import NamedDensity
from tati_re.prediction.arviz import _variables
from tati_re.supports import cholesky_corr, corr, interval, ordered, positive, real, simplex

COUNTS = np.array([3, 5, 2, 4, 6, 1, 4])
SHARES = np.array([2.0, 3.0, 4.0])
SUPPORTS = {"rate": positive(), "theta": simplex(3)}


def log_density(rate, theta, y, shares):
    """Counts with a Gamma(2, 1) prior of their rate, and a Dirichlet law next to it."""
    counts = tf.cast(y, rate.dtype)
    poisson = tf.reduce_sum(counts * tf.math.log(rate) - rate)
    dirichlet = tf.reduce_sum((shares - 1) * tf.math.log(theta))
    return poisson + tf.math.log(rate) - rate + dirichlet


def log_likelihood(rate, y):
    counts = tf.cast(y, rate.dtype)
    return counts * tf.math.log(rate) - rate - tf.math.lgamma(counts + 1)


def replicated(rate, y, seed):
    return tf.random.stateless_poisson(tf.shape(y), seed, rate, dtype=tf.float64)


DATA = {"y": COUNTS, "shares": SHARES}
GIVEN = {
    "log_density": log_density,
    "parameters": SUPPORTS,
    "data": DATA,
    "log_likelihood": log_likelihood,
    "generated": {"y_rep": replicated, "doubled": lambda rate: 2 * rate},
}
RATE = stats.gamma(2 + COUNTS.sum(), scale=1 / (1 + len(COUNTS)))
UNTIL = "rhat<1.02, ess(rate)>400, ess(theta)>400"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named") / "run"
    sim = tati_re.Simulation(**GIVEN, seed=1, verbose=0)
    return sim.sample(until=UNTIL, output=str(folder), execution="graph")


def test_draws_have_names_shapes_and_the_right_law(run):
    """Errors of means and spreads by ESS above 300; 4.5 of them, exceeded by chance once in 1e5."""
    draws = run.draws
    chains, number = draws["rate"].shape
    assert chains == 4
    assert draws["theta"].shape == (4, number, 3)
    assert draws["theta"].sum(-1) == pytest.approx(np.ones((4, number)))
    summary = run.parameter_summary()
    assert abs(summary.loc["rate", "mean"] - RATE.mean()) < 4.5 * RATE.std() / math.sqrt(400)
    assert abs(summary.loc["rate", "sd"] / RATE.std() - 1) < 4.5 / math.sqrt(2 * 300)
    # Without the Jacobian the law has a smaller shape: a wrong variant lies far outside.
    wrong = stats.gamma(1 + COUNTS.sum(), scale=1 / (1 + len(COUNTS)))
    ess = summary.loc["rate", "ess_bulk"]
    assert abs(summary.loc["rate", "mean"] - wrong.mean()) > 2.5 * RATE.std() / math.sqrt(ess)

    law = stats.dirichlet(SHARES)
    for k, (mean, variance) in enumerate(zip(law.mean(), law.var(), strict=True)):
        row = summary.loc[f"theta[{k}]"]
        assert abs(row["mean"] - mean) < 4.5 * math.sqrt(variance / 300)
        low = stats.beta(SHARES[k], SHARES.sum() - SHARES[k]).ppf(0.05)
        assert abs(row["q5"] - low) < 4.5 * math.sqrt(variance / 150)


def test_trajectory_summary_and_certificate_use_the_same_names(run):
    columns = ["rate", "theta[0]", "theta[1]", "theta[2]"]
    assert list(run.trajectory.columns[-4:]) == columns
    assert (run.trajectory["rate"] > 0).all()
    assert list(run.parameter_summary(["rate"]).index) == ["rate"]
    assert list(run.parameter_summary("rate").index) == ["rate"]
    assert "theta[2]" in run.summary()
    rows = run.certificate.set_index("check")
    assert rows.loc["ESS of rate", "verdict"] == "passed"
    assert rows.loc["ESS of theta", "value"] > 400
    assert run.certificate.outcome == "passed"
    with pytest.raises(InputError, match="The run has no parameter rat"):
        run.parameter_summary(["rat"])


def test_the_wanted_effective_size_is_in_the_stored_draws(run):
    summary = run.parameter_summary()
    assert summary.loc["rate", ["ess_bulk", "ess_tail"]].min() > 400
    squares = (run.draws["rate"] - run.draws["rate"].mean()) ** 2
    assert tati_re.analysis.effective_sample_size(squares, "mean") > 400


def test_arviz_has_constrained_values_and_groups(run):
    tree = tati_re.analysis.to_arviz(run)
    assert np.array_equal(tree["posterior"]["theta"].values, run.draws["theta"])
    assert tree["log_likelihood"]["log_likelihood"].shape[-1] == len(COUNTS)
    assert tree["posterior_predictive"]["y_rep"].shape[-1] == len(COUNTS)
    assert np.array_equal(tree["observed_data"]["y"].values, COUNTS)


def test_generated_quantities_follow_their_draws(run):
    generated = run.generated
    assert generated["doubled"] == pytest.approx(2 * run.draws["rate"])
    assert generated["y_rep"].shape == (*run.draws["rate"].shape, len(COUNTS))
    # A negative binomial law: mean E rate, with 400 x 7 draws an error of 0.04.
    assert abs(generated["y_rep"].mean() - RATE.mean()) < 0.25
    assert np.array_equal(run.generated["y_rep"], generated["y_rep"])


def test_leave_one_out_agrees_with_the_closed_form(run):
    """log p(y_i | others) is a negative binomial density."""
    found = run.loo()
    expected = []
    for k, count in enumerate(COUNTS):
        others = np.delete(COUNTS, k)
        shape, scale = 2 + others.sum(), 1 + len(others)
        expected.append(stats.nbinom(shape, scale / (scale + 1)).logpmf(count))
    assert found.elpd == pytest.approx(expected, abs=0.03)
    assert found.num_examples == len(COUNTS)
    assert "of 7 examples" in run.summary()


def test_a_folder_gives_draws_without_the_density(run):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = tati_re.load(run.folder)
    assert np.array_equal(opened.draws["theta"], run.draws["theta"])
    with pytest.raises(InputError, match="does not hold the log density"):
        _ = opened.generated
    again = {name: value for name, value in GIVEN.items() if name != "parameters"}
    with pytest.raises(InputError, match="parameters: the run has other supports"):
        tati_re.load(run.folder, **{**GIVEN, "parameters": {**SUPPORTS, "rate": real()}})
    opened = tati_re.load(run.folder, **again)
    assert np.array_equal(opened.generated["y_rep"], run.generated["y_rep"])


def test_other_data_give_generated_quantities_and_no_scores(run):
    """Counts that the run was not conditioned on had leave-one-out scores as if it had been."""
    again = {name: value for name, value in GIVEN.items() if name != "parameters"}
    other = {**DATA, "y": np.r_[COUNTS, 5]}
    opened = tati_re.load(run.folder, **{**again, "data": other})
    assert opened.generated["y_rep"].shape[-1] == len(COUNTS) + 1
    problem = "the log density or its data differ from the run's"
    with pytest.raises(InputError, match=problem):
        opened.loo()
    tree = tati_re.analysis.to_arviz(opened)
    assert problem in tree["posterior"].attrs["left_out"]
    assert "posterior" in tree.children and "log_likelihood" not in tree.children


def test_resume_takes_the_density_again_and_refuses_another(run):
    more = int(run.run_info["step"].max()) + 40
    other = {**DATA, "y": COUNTS + 1}
    with pytest.raises(InputError, match="the potential differs"):
        tati_re.Simulation.resume(run.folder, more, log_density=log_density, data=other)
    longer = tati_re.Simulation.resume(run.folder, more, log_density=log_density, data=DATA)
    assert longer.draws["rate"].shape[1] >= run.draws["rate"].shape[1]
    assert longer.draws["theta"].shape[2:] == (3,)


def test_other_data_of_the_same_shapes_compile_nothing():
    """The second simulation finds the programs of the first one."""
    given = {"parameters": {"rate": positive()}, "seed": 2, "verbose": 0}

    def density(rate, y):
        return tf.reduce_sum(y) * tf.math.log(rate) - 7 * rate

    means = []
    known = []
    for factor in (1.0, 4.0):
        sim = tati_re.Simulation(
            log_density=density, data={"y": factor * COUNTS.astype(float)}, **given
        )
        run = sim.sample(sampler="HMC", step_size=0.1, num_leapfrog_steps=5, num_steps=150)
        means.append(run.draws["rate"].mean())
        known.append(set(programs._programs))
    assert known[0] == known[1]
    assert means[1] / means[0] > 2


def test_a_named_sampler_keeps_chains_and_starts():
    made = {name: GIVEN[name] for name in ("log_density", "parameters", "data")}
    sim = tati_re.Simulation(**made, seed=1, verbose=0)
    assert sim.num_walkers() == 4
    before = np.array(sim.parameters)
    assert np.ptp(before, axis=0).min() > 0
    alone = tati_re.Simulation(**made, num_walkers=2, walker_start="same", verbose=0)
    assert alone.num_walkers() == 2


@pytest.mark.parametrize(("dimension", "sampler"), [(10, "HMC"), (25, "MCLMC")])
def test_few_named_parameters_get_an_exact_sampler(dimension, sampler):
    """A run of 10 by MCLMC ended before its bias could be measured."""
    sim = tati_re.Simulation(
        log_density=lambda x: -0.5 * tf.reduce_sum(x**2),
        parameters={"x": real(dimension)},
        seed=1,
        verbose=0,
        execution="eager",
    )
    assert sim.sample(num_steps=2).manifest.method.sampler == sampler


def test_starts_are_given_by_name():
    made = {name: GIVEN[name] for name in ("log_density", "parameters", "data")}
    sim = tati_re.Simulation(**made, inits={"rate": 3.0}, walker_start="same", verbose=0)
    assert sim.parameters[:, 0] == pytest.approx(np.log(3.0))
    each = tati_re.Simulation(**made, inits={"rate": [1.0, 2.0, 3.0, 4.0]}, verbose=0)
    assert np.abs(np.exp(each.parameters[:, 0]) / [1, 2, 3, 4] - 1).max() < 0.6
    with pytest.raises(InputError, match="rate: outside of its support"):
        tati_re.Simulation(**made, inits={"rate": -3.0}, verbose=0)


def test_starts_without_density_are_drawn_again(capsys):
    def density(x):
        return tf.where(x > 1.0, -x, tf.constant(-np.inf, x.dtype))

    sim = tati_re.Simulation(log_density=density, parameters={"x": real()}, seed=1)
    sim.sample(sampler="HMC", step_size=0.1, num_leapfrog_steps=2, num_steps=4)
    printed = capsys.readouterr().out
    assert "New starts were drawn" in printed
    assert "Set a start with inits=" in printed
    assert (sim.parameters > 1).all()

    def nowhere(x):
        return tf.where(x > 50.0, -x, tf.constant(-np.inf, x.dtype))

    sim = tati_re.Simulation(log_density=nowhere, parameters={"x": real()}, verbose=0)
    with pytest.raises(InputError, match="nor at 100 other random starts"):
        sim.sample(sampler="HMC", step_size=0.1, num_leapfrog_steps=2, num_steps=4)


def made_with(**changes):
    base = {name: GIVEN[name] for name in ("log_density", "parameters", "data")}
    given = {**base, **changes, "verbose": 0}
    return lambda: tati_re.Simulation(**{name: v for name, v in given.items() if v is not None})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (made_with(parameters=None), "a log density needs named parameters"),
        (made_with(parameters={"rate": positive()}), "argument theta is neither a parameter"),
        (
            made_with(parameters={**SUPPORTS, "extra": real()}),
            "does not take the parameter extra",
        ),
        (made_with(data={"y": COUNTS}), "argument shares is neither a parameter nor data"),
        (made_with(data={**DATA, "rate": 1.0}), "rate is also a parameter"),
        (made_with(data={**DATA, "y": "abc"}), "the function fails for one draw"),
        (made_with(data={**DATA, "y": [[1], [2, 3]]}), "y is not an array of numbers"),
        (
            made_with(data={**DATA, "y": np.ma.masked_array(COUNTS, COUNTS > 5)}),
            "y: a masked array has missing numbers. Received: 1 masked",
        ),
        (
            made_with(data={**DATA, "y": np.array([2**63], np.uint64)}),
            "y has numbers that int64 cannot hold",
        ),
        (
            made_with(data={**DATA, "shares": [1e300, 1.0, 1.0]}, dtype="float32"),
            "shares has numbers that float32 cannot hold",
        ),
        (made_with(dtype="half"), "dtype has an unknown value. Received: 'half'"),
        (made_with(data=COUNTS), "needs its data by name"),
        (made_with(log_density=3), "log_density: this is not a function"),
        (
            made_with(log_density=lambda rate, theta, y: tf.reduce_sum(y * rate) + theta[0]),
            "tf.cast whole numbers",
        ),
        (
            made_with(log_density=lambda rate, theta: theta[0] if rate > 1 else rate),
            "TensorFlow cannot compile the function",
        ),
        (made_with(log_density=lambda rate, theta: 1.0), "it does not return a tensor"),
        (made_with(log_density=lambda rate, theta: theta), "it returns an array"),
        (
            made_with(log_density=lambda rate, theta: tf.cast(rate, tf.complex128)),
            "log_density: it does not return real numbers. Received: complex128",
        ),
        (
            made_with(log_density=lambda rate, theta: rate @ theta),
            "the function fails for one draw",
        ),
        (made_with(log_density=lambda *all: 0), "cannot be given by name"),
        (made_with(potential=lambda x: x), "log_density and potential exclude each other"),
        (made_with(loss="gaussian"), "log_density and loss exclude each other"),
        (made_with(log_density=None), "parameters: supports belong to a log density"),
        (
            made_with(
                log_density=None,
                potential=NamedDensity(log_density, SUPPORTS, DATA),
                parameters=None,
                data=None,
                log_likelihood=log_likelihood,
            ),
            r"log_likelihood belongs to .* Expected: NamedDensity\(f, \{...\}, log_likelihood=",
        ),
        (made_with(dimension=3), "the named parameters of the density say"),
        (made_with(generated=[1]), "generated: this is not a table of functions"),
        (made_with(generated={"y": lambda nothing: 0}), "argument nothing is neither a parameter"),
        (made_with(generated={"y": lambda rate: rate + "a"}), "generated: y: the function fails"),
        (made_with(generated={"y": lambda rate: {"a": rate}}), "y: it does not return an array"),
        (
            made_with(data={**DATA, "seed": 1.0}, generated={"y": lambda seed: seed}),
            "seed means the random numbers, and a parameter or data as well",
        ),
        (made_with(log_likelihood=lambda rat: rat), "Did you mean 'rate'"),
        (
            made_with(log_likelihood=lambda rate: None),
            "log_likelihood: it does not return an array",
        ),
        (
            made_with(log_likelihood=lambda y: y),
            "log_likelihood: it does not return real numbers. Received: int64",
        ),
        (
            made_with(log_density=None, parameters=None, inits={"a": 1}, data=None),
            "inits belongs to",
        ),
    ],
)
def test_hostile_input_gets_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_letters_that_python_reads_as_others_are_named():
    """The micro sign of a keyboard is the Greek letter in a signature."""
    function = eval("lambda \u00b5: -\u00b5**2")
    with pytest.raises(InputError, match=r"the name \u00b5 \(U\+00B5\).*\u03bc \(U\+03BC\)"):
        NamedDensity(function, {"\u00b5": real()})


def test_missing_data_are_named():
    sim = tati_re.Simulation(
        log_density=lambda m, y: -tf.reduce_sum((y - m) ** 2),
        parameters={"m": real()},
        data={"y": [1.0, np.nan]},
        verbose=0,
    )
    with pytest.raises(InputError, match=r"Expected: data without NaN \(y\), or inits="):
        sim.sample(sampler="HMC", step_size=0.1, num_leapfrog_steps=2, num_steps=4)


def test_functions_of_seed_or_data_alone_are_generated():
    def noise(seed, **others):
        return others["y"][0] + tf.random.stateless_normal((), seed, dtype=tf.float64)

    density = NamedDensity(
        lambda m: -(m**2),
        {"m": real()},
        {"y": [1.0, 2.0]},
        generated={"one": lambda: 3.0, "of_data": lambda y: 2 * y, "noise": noise},
    )
    generated = density.generate({"m": np.zeros(5)}, seed=1)
    assert (generated["one"] == np.full(5, 3.0)).all()
    assert (generated["of_data"] == np.tile([2.0, 4.0], (5, 1))).all()
    assert len(set(generated["noise"])) == 5


def test_arviz_keeps_variables_that_are_named_like_axes():
    values = {"draw": np.zeros((2, 3)), "a": np.zeros((2, 3, 4)), "a_dim_0": np.zeros((2, 3))}
    variables = _variables({**values, "draw_": np.zeros((2, 3))}, ("chain", "draw"))
    assert {*variables} == {"draw__", "draw_", "a", "a_dim_0"}
    assert variables["a"][0] == ("chain", "draw", "a_dim_0_")
    assert list(_variables({"draw": np.zeros(3)}, ())) == ["draw"]


def test_the_diagonal_of_a_correlation_matrix_has_no_sizes():
    """Its ones are constant but for rounding."""
    sim = tati_re.Simulation(
        log_density=lambda R: tf.linalg.logdet(R), parameters={"R": corr(3)}, seed=1, verbose=0
    )
    run = sim.sample(sampler="HMC", step_size=0.3, num_leapfrog_steps=3, num_steps=100)
    summary = run.parameter_summary()
    assert np.ptp(run.draws["R"][..., 2, 2]) > 0
    assert summary.loc["R[2,2]", ["ess_bulk", "ess_tail", "r_hat"]].isna().all()
    assert summary.loc["R[2,1]", ["ess_bulk", "ess_tail", "r_hat"]].notna().all()


@pytest.mark.parametrize(
    ("until", "words"),
    [
        ("ess(rat)>100", "there is no parameter rat"),
        ("ess(rate)<100", "no valid condition at character 1"),
        ("ess(rate)>100, ess(rate)>200", "occurs twice"),
    ],
)
def test_hostile_conditions_get_one_sentence(until, words):
    sim = made_with()()
    with pytest.raises(InputError, match=words):
        sim.sample(until=until)


def test_conditions_on_names_need_named_parameters():
    sim = tati_re.Simulation(
        potential=lambda x: tf.reduce_sum(x * x, -1), dimension=2, num_walkers=2, verbose=0
    )
    with pytest.raises(InputError, match="is about a named parameter"):
        sim.sample(until="ess(x)>100")


def test_density_matches_its_parts():
    """U of free coordinates, with several supports, is -log density - log Jacobian."""
    supports = {"c": ordered(3), "r": interval(0, 2), "L": cholesky_corr(2)}

    def density(c, r, L):
        return -tf.reduce_sum(c**2) - r - tf.reduce_sum(L**2 * [[1.0, 0.0], [2.0, 3.0]])

    named = NamedDensity(density, supports)
    position = np.random.default_rng(1).standard_normal((3, named.dimension))
    values, log_jacobian = named.layout.constrain(position)
    weights = np.array([[1.0, 0.0], [2.0, 3.0]])
    expected = [
        (values["c"][k] ** 2).sum() + values["r"][k] + (values["L"][k] ** 2 * weights).sum()
        for k in range(3)
    ]
    assert named(tf.constant(position)).numpy() == pytest.approx(np.array(expected) - log_jacobian)


def test_other_scales_of_the_coordinates_compile_nothing():
    """The burn-in changes location and scales; XLA must take them for arguments.

    A call with other scales takes less than a tenth of the processor time of the first, which
    compiles; compiling again takes half of it and more.
    """
    density = NamedDensity(log_density, SUPPORTS, DATA)

    @tf.function(autograph=False, jit_compile=True)
    def slopes(position, location, scale):
        return value_and_gradient(density, location + scale * position)

    position = tf.constant(np.random.default_rng(1).standard_normal((4, 3)))
    seconds = []
    for scale in (1.0, 0.5, 0.25):
        scales = tf.constant(np.full(3, scale))
        begin = time.process_time()
        slopes(position, 1 - scales, scales)
        seconds.append(time.process_time() - begin)
    assert max(seconds[1:]) < 0.1 * seconds[0]


def test_a_density_is_traced_once_for_all_places_that_need_it():
    """The checks, the descent and the steps of a run use what was traced first."""
    calls = []

    def counted(rate, theta, y, shares):
        calls.append(rate)
        return log_density(rate, theta, y, shares)

    density = NamedDensity(counted, SUPPORTS, DATA)
    position = tf.constant(np.random.default_rng(1).standard_normal((4, 3)))
    value, slope = value_and_gradient(density, position)
    before = len(calls)
    for scale in (1.0, 2.0):
        again = tf.function(lambda x, c=scale: value_and_gradient(density, c * x), autograph=False)
        value_again, slope_again = again(position / scale)
        np.testing.assert_allclose(value_again, value, rtol=1e-14)
        np.testing.assert_allclose(slope_again, slope, rtol=1e-14)
    assert len(calls) == before
    value_and_gradient(density, position[:2])
    assert len(calls) > before, "another number of walkers has other shapes"


def test_a_density_travels_after_it_was_traced():
    density = NamedDensity(log_density, SUPPORTS, DATA)
    position = tf.constant(np.random.default_rng(1).standard_normal((4, 3)))
    value = density(position)
    copied = pickle.loads(pickle.dumps(density))
    np.testing.assert_array_equal(copied(position), value)


def test_second_derivatives_are_those_of_the_formula():
    """U of a normal law is quadratic in b, so that its Hessian is the inverse covariance."""
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    precision = np.linalg.inv(covariance)

    def normal(b, precision):
        return -0.5 * tf.reduce_sum(b * tf.linalg.matvec(precision, b))

    sim = tati_re.Simulation(
        log_density=normal,
        parameters={"b": real(2)},
        data={"precision": precision},
        num_walkers=2,
        verbose=0,
    )
    np.testing.assert_allclose(sim.hessians(), np.stack([precision] * 2), rtol=1e-12)


def test_loops_have_gradients_also_with_data_of_their_own():
    """A sum by `tf.scan`: log density -a² (x1 + x2 + x3), whose slope is -2a (x1 + x2 + x3)."""

    def by_scan(a, x):
        return -tf.scan(lambda total, entry: total + a**2 * entry, x, tf.zeros((), a.dtype))[-1]

    density = NamedDensity(by_scan, {"a": real()}, {"x": np.array([1.0, 2.0, 4.0])})
    position = tf.constant([[0.5], [3.0]], tf.float64)
    rows = {"x": tf.constant([[1.0, 2.0, 4.0], [0.0, 0.0, 1.0]], tf.float64)}
    for function, sums in (
        (density, [7.0, 7.0]),
        (lambda place: density.with_data_of_rows(place, rows), [7.0, 1.0]),
    ):
        value, slope = tf.function(lambda place, f=function: value_and_gradient(f, place))(position)
        np.testing.assert_allclose(value, [0.25 * sums[0], 9.0 * sums[1]], rtol=1e-12)
        np.testing.assert_allclose(slope, [[1.0 * sums[0]], [6.0 * sums[1]]], rtol=1e-12)
