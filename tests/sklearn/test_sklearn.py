"""The estimators for scikit-learn: its own checks, its tools, pickles, and intervals that cover
what they say.
"""

from __future__ import annotations

import inspect
import pickle
import re
import warnings
import zipfile
from io import BytesIO

import keras
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import tati_re
from tati_re.core.errors import InputError
from tati_re.core.process import programs
from tati_re.sklearn import BayesianClassifier, BayesianRegressor
from tati_re.sklearn.estimators import PackedModel

pytestmark = [
    pytest.mark.filterwarnings("ignore:Predictions average"),
    # Keras, when it writes a model.
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
SHORT = {"hidden": (8,), "activation": "tanh", "members": 2, "sampler": "BAOAB", "step_size": 0.01}
SHORT |= {"num_steps": 150, "num_burnin_steps": 100, "walker_start": "fresh", "trajectory_every": 5}
SMALL = SHORT | {"num_steps": 40, "num_burnin_steps": 20, "members": 1}
WITHOUT_A_FIT = (
    *(
        "check_estimator_cloneable",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_estimator_repr",
    ),
    *(
        "check_no_attributes_set_in_init",
        "check_estimators_unfitted",
        "check_estimators_empty_data_messages",
    ),
    *(
        "check_do_not_raise_errors_in_init_or_set_param",
        "check_parameters_default_constructible",
        "check_mixin_order",
    ),
    *("check_get_params_invariance", "check_set_params", "check_fit1d"),
    *("check_fit2d_1sample", "check_requires_y_none", "check_supervised_y_no_nan"),
)


def checks_of(estimator, wanted=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one, check in estimator_checks_generator(estimator):
            if wanted is None or check.func.__name__ in wanted:
                yield one, check


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [BayesianRegressor, BayesianClassifier])
def test_checks_of_scikit_learn_that_need_no_fit(kind):
    done = [
        check(one) or check.func.__name__ for one, check in checks_of(kind(**SMALL), WITHOUT_A_FIT)
    ]
    assert len(done) >= 12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [BayesianRegressor, BayesianClassifier])
def test_all_checks_of_scikit_learn(kind):
    """Each on its own, so that none is skipped; those of a sample weight compare to 1e-7."""
    random = np.random.default_rng(0)
    x, y = random.standard_normal((40, 2)), random.integers(0, 2, 40)
    assert cross_val_score(kind(**SMALL), x, y, cv=2).shape == (2,)
    failed, count = {}, 0
    for one, check in checks_of(kind(**SHORT)):
        count += 1
        try:
            check(one)
        except Exception as error:
            if type(error).__name__ != "SkipTest":
                failed[check.func.__name__] = str(error)[:500]
    assert failed == {} and count > 40


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 3))
    return x, 50 + 20 * (x @ [1.0, -2.0, 0.5]) + 5 * random.standard_normal(60)


@pytest.fixture(scope="module")
def regressor(table):
    return BayesianRegressor(**SHORT, seed=3).fit(*table)


def test_predictions_are_those_of_the_run(regressor, table):
    x, y = table
    run, draws = regressor.run_.predict(x, y, interval=0.8), regressor.sample_posterior(x)
    mean, std = regressor.predict(x, return_std=True)
    lower, upper = regressor.predict_interval(x, 0.8)
    for level in (0.0, 1.5):
        with pytest.raises(InputError, match=f"level is out of range. Received: {level}."):
            regressor.predict_interval(x, level)
    np.testing.assert_array_equal(mean, run.mean[:, 0])
    np.testing.assert_allclose(draws.mean(0), mean, rtol=1e-12)
    np.testing.assert_array_equal(
        (std, lower, upper), (run.std[:, 0], run.lower[:, 0], run.upper[:, 0])
    )
    again = regressor.sample_posterior(x, noise=True)
    assert draws.shape == again.shape == (20, 60) and again.std() > draws.std()
    np.testing.assert_array_equal(again, regressor.sample_posterior(x, noise=True))
    assert regressor.score(x, y) == pytest.approx(1 - ((y - mean) ** 2).mean() / y.var())


def test_a_fit_warns_and_predictions_do_not(table):
    """Each prediction warned of few draws."""
    x, y = table
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = BayesianRegressor(**SMALL, seed=4).fit(x, y)
    own = [each for each in caught if re.search("rough|certificate", str(each.message))]
    assert len(own) == 1 and own[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(x)
        fitted.predict(x, return_std=True)
        fitted.predict_interval(x, 0.8)
        fitted.score(x, y)


def test_densities_quantiles_and_new_observations_are_those_of_the_run(regressor, table):
    x, y = table
    found = regressor.run_.predict(x, y)
    density = regressor.log_prob(x, y)
    np.testing.assert_allclose(density, found.log_density, rtol=1e-9)
    lower, upper = regressor.predict_interval(x)
    low, middle, high = regressor.predict_quantiles(x)
    assert low.shape == (len(x),) and (low < middle).all() and (middle < high).all()
    np.testing.assert_allclose([low, high], [lower, upper], rtol=1e-6)
    drawn = regressor.sample_predictive(x, num=2_000)
    assert drawn.shape == (2_000, len(x))
    # The share below a quantile of 5 % has a standard error of 6e-4 over all rows.
    assert abs((drawn < low).mean() - 0.05) < 0.005
    np.testing.assert_array_equal(drawn, regressor.sample_predictive(x, num=2_000))
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_allclose(again.log_prob(x, y), density, rtol=1e-9)
    np.testing.assert_array_equal(again.sample_predictive(x, num=2_000), drawn)
    with pytest.raises(InputError, match="out of range"):
        regressor.predict_quantiles(x, [1.5])


def test_new_observations_have_not_the_noise_of_data_of_the_same_seed():
    noise = np.random.default_rng(0).standard_normal(60)
    x = np.linspace(-1, 1, 60)[:, None]
    regressor = BayesianRegressor(**SHORT).fit(x, x[:, 0] + 0.5 * noise)
    drawn = regressor.sample_posterior(x, noise=True) - regressor.sample_posterior(x)
    assert abs(np.corrcoef(drawn[0], noise)[0, 1]) < 0.6


def test_bagging_gives_each_member_a_seed():
    x = np.linspace(-1, 1, 20)[:, None]
    bagged = BaggingRegressor(BayesianRegressor(**SHORT), n_estimators=2, random_state=0).fit(
        x, x[:, 0]
    )
    seeds = [member.run_.manifest["seed"] for member in bagged.estimators_]
    again = BayesianRegressor(**SHORT, random_state=bagged.estimators_[0].random_state).fit(
        x, x[:, 0]
    )
    assert len({*seeds, 0}) == 3 and again.run_.manifest["seed"] == seeds[0]


def test_a_pickle_holds_a_predictor_and_no_tensorflow(regressor, table):
    """It held the run folder, tables of all steps among them."""
    x, y = table
    state = regressor.__getstate__()
    assert "run_" not in state and "source_" not in state
    names = zipfile.ZipFile(BytesIO(state["predictor_"])).namelist()
    assert {"predictor.toml", "model.keras", "members.npy"} <= {*names}
    text = pickle.dumps(regressor)
    assert b"tensorflow" not in text and b"keras.src" not in text
    again = pickle.loads(text)
    np.testing.assert_array_equal(again.predict(x), regressor.predict(x))
    np.testing.assert_array_equal(again.predict_interval(x), regressor.predict_interval(x))
    for noise in (False, True):
        ours, theirs = (one.sample_posterior(x, noise=noise) for one in (again, regressor))
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(AttributeError, match="keep_run=True"):
        again.run_.summary()
    assert not hasattr(again, "nothing") and not hasattr(clone(regressor), "run_")
    twice = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(twice.predict(x), regressor.predict(x))
    assert "predictor_" not in vars(again.fit(x[:20], y[:20])) and again.run_ is not None


def test_a_pickle_may_keep_the_run(regressor, table):
    x, _ = table
    kept = clone(regressor).set_params(keep_run=True)
    vars(kept).update({name: vars(regressor)[name] for name in ("run_", "source_")})
    kept.n_features_in_, kept.n_outputs_ = regressor.n_features_in_, regressor.n_outputs_
    state = kept.__getstate__()
    names = zipfile.ZipFile(BytesIO(state["run_"])).namelist()
    assert {"manifest.toml", "model.keras", "trajectory.csv"} <= {*names}
    again = pickle.loads(pickle.dumps(kept))
    np.testing.assert_array_equal(again.predict(x), regressor.predict(x))
    assert again.run_.folder != regressor.run_.folder


def test_a_model_in_a_pickle():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    given = BayesianRegressor(model)
    assert isinstance(given.__getstate__()["model"], PackedModel)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(given)).model.get_weights()[0], model.get_weights()[0]
    )


@pytest.mark.slow
def test_processes_of_joblib_predict(table):
    """Each process of loky fits, and gives back predictions."""
    x, y = table
    options = {"cv": 2, "n_jobs": 2}
    ours = cross_val_predict(BayesianRegressor(**SMALL), x, y, **options)
    here = cross_val_predict(BayesianRegressor(**SMALL), x, y, cv=2)
    np.testing.assert_allclose(ours, here, rtol=1e-6)


@pytest.mark.slow
def test_options_are_parameters_of_searches(table, tmp_path):
    estimator = BayesianRegressor(**SMALL, folder=tmp_path)
    assert estimator.get_params()["prior_std"] is None and "prior_std" in str(
        estimator.set_params(prior_std=0.5)
    )
    search = GridSearchCV(
        make_pipeline(StandardScaler(), estimator), {"bayesianregressor__prior_std": [0.5]}, cv=2
    )
    search.fit(*table)
    found = [tati_re.load(path).manifest["options"]["prior_std"] for path in tmp_path.iterdir()]
    assert found == [0.5, 0.5, 0.5], "a folder each fit"


def test_labels_of_any_type_and_models_with_one_output(table):
    x, y = table
    labels = np.where(y > 50, "high", "low")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation="sigmoid")])
    before = [each.copy() for each in model.get_weights()]
    options = {name: value for name, value in SHORT.items() if name not in ("hidden", "activation")}
    classifier = BayesianClassifier(model, **options).fit(x, labels)
    assert classifier.classes_.tolist() == ["high", "low"] and classifier.score(x, labels) > 0.8
    assert classifier.run_.manifest["loss"]["loss"] == "binary_crossentropy"
    for run in (classifier.run_, pickle.loads(pickle.dumps(classifier)).predictor_):
        found = run.predict(x, labels)
        assert found.predicted.tolist() == classifier.predict(x).tolist() and {
            "p[high]",
            "p[low]",
        } <= {*found.frame()}
        assert found.scores()["accuracy"] == classifier.score(x, labels)
    p, (lower, upper) = classifier.predict_proba(x), classifier.predict_interval(x)
    np.testing.assert_allclose(p.sum(1), 1.0)
    np.testing.assert_allclose(classifier.sample_posterior(x).mean(0), p, rtol=1e-9)
    assert (lower <= upper).all()
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)

    number = (labels == "low").astype(int)
    expected = np.log(p[np.arange(len(x)), number])
    np.testing.assert_allclose(classifier.log_prob(x, labels), expected, rtol=1e-6)
    drawn = classifier.sample_predictive(x, num=2_000)
    assert {*np.unique(drawn)} == {"high", "low"}
    # Each share has a standard error of at most 0.011: of 60, none is off by 6 of them.
    assert np.abs((drawn == "low").mean(axis=0) - p[:, 1]).max() < 0.07
    with pytest.raises(InputError, match="a class that fit did not see"):
        classifier.log_prob(x, np.where(labels == "low", "none", labels))


@pytest.mark.parametrize(
    "names",
    [
        (-1, 1),
        (1.0, 2.0),
        (False, True),
        *(pytest.param(names, marks=pytest.mark.slow) for names in ((3, 5), (0, 1))),
    ],
)
def test_numbers_that_are_labels_name_their_classes_in_the_run_too(table, names):
    x, y = table
    labels = np.array(names)[(y > 50).astype(int)]
    classifier = BayesianClassifier(**SMALL).fit(x, labels, sample_weight=np.ones(len(x)))
    found = classifier.run_.predict(x, labels)
    assert found.scores()["accuracy"] == classifier.score(x, labels)
    # Of one class alone its label could be taken for a number.
    for number, label in enumerate(classifier.classes_):
        density = classifier.log_prob(x[:4], np.full(4, label))
        expected = np.log(classifier.predict_proba(x[:4])[:, number])
        np.testing.assert_allclose(density, expected, rtol=1e-6)
    assert {*np.unique(classifier.sample_predictive(x, num=20))} <= {*names}
    assert [
        float(str(value).replace("False", "0").replace("True", "1")) for value in found.class_values
    ] == [*names]


def test_a_function_builds_the_model_and_targets_may_be_several(table):
    def build(input_shape, num_outputs):
        return keras.Sequential([keras.Input(input_shape), keras.layers.Dense(num_outputs)])

    x, y = table
    regressor = BayesianRegressor(build, **{**SMALL, "hidden": None, "activation": None}).fit(
        x, np.stack([y, x[:, 0]], 1)
    )
    mean, std = regressor.predict(x, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    # Two kernels of three, two biases, and a noise of each target.
    assert regressor.run_.manifest["parameters"]["num"] == 10


def test_what_is_wrong_is_said(regressor, table):
    with pytest.raises(
        InputError,
        match=r"prior_sdt is not a parameter of BayesianRegressor\. Did you mean 'prior_std'",
    ):
        BayesianRegressor(prior_sdt=1.0)
    with pytest.raises(
        InputError, match=r"num_walkers is not a parameter .*\. Did you mean 'members'"
    ):
        BayesianRegressor(num_walkers=2)
    with pytest.raises(InputError, match="one class"):
        BayesianClassifier(**SMALL).fit(table[0], np.zeros(60))
    with pytest.raises(InputError, match=r"model and hidden exclude"):
        BayesianRegressor(
            keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]), hidden=(3,)
        ).fit(*table)
    assert "options" not in inspect.signature(BayesianRegressor).parameters


@pytest.mark.slow
def test_intervals_cover_what_they_say():
    """Coverage of 90 % intervals on 2,000 new examples of each of 6 data sets. The noise is known
    to 1/sqrt(2 * 300), which moves the coverage of one data set by 0.014, and of six by 0.006: 0.03
    are five standard errors. A noise that is wrong by 15 %, or left out, is found.
    """
    covered, without = [], []
    for seed in range(6):
        random = np.random.default_rng(seed)
        x = random.uniform(-2, 2, (2300, 2))
        y = 100 * (np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] + 0.3 * random.standard_normal(2300))
        regressor = BayesianRegressor(
            hidden=(8,), activation="tanh", seed=seed, num_steps=4000, fit_steps=1000
        )
        regressor.fit(x[:300], y[:300])
        lower, upper = regressor.predict_interval(x[300:])
        covered.append(((lower <= y[300:]) & (y[300:] <= upper)).mean())
        lower, upper = np.quantile(regressor.sample_posterior(x[300:]), [0.05, 0.95], axis=0)
        without.append(((lower <= y[300:]) & (y[300:] <= upper)).mean())
    print(covered, without)
    assert abs(np.mean(covered) - 0.9) < 0.03
    assert np.mean(without) < 0.6, "the wrong variant: intervals of the mean"


PREDICTING = {"goal": "predict", "members": 2, "num_steps": 120, "fit_steps": 320}
PREDICTING["candidates"] = ["gaussian:3:1", "heteroscedastic_gaussian:3:1"]


def rows_of_two_spreads(seed):
    """Rows of which no random choice hides that the spread varies."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (130, 3))
    spread = np.where(x[:, 0] > 0, 5.0, 0.05)
    return x, 10.0 * seed + (1 + seed) * (x[:, 1] + spread * random.standard_normal(len(x)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options",
    [{**SHORT, "walker_start": "fit", "fit_steps": 40, "step_size": "auto"}, PREDICTING],
    ids=["posterior", "predict"],
)
def test_a_second_fit_of_the_same_shapes_compiles_nothing(options, monkeypatch):
    """Other data, another seed and a new estimator: each program is that of the first fit.

    The prior of the noise of a run for prediction had the spread of the rows that were not held
    out, and so programs of its own for each seed.
    """
    compiled = []
    alone = programs._alone

    def counted(function):
        compiled.append(function.name)
        return alone(function)

    monkeypatch.setattr(programs, "_alone", counted)
    monkeypatch.setattr(programs, "_programs", type(programs._programs)())
    chosen = []
    for seed in range(2):
        first = list(compiled)
        compiled.clear()
        x, y = rows_of_two_spreads(seed)
        estimator = BayesianRegressor(**options, seed=seed).fit(x, y)
        estimator.predict_interval(x)
        estimator.log_prob(x, y)
        chosen.append(estimator.run_.manifest["options"].get("loss"))
    assert chosen[0] == chosen[1]
    assert len(first) > 5 and compiled == []
