"""A process that was forked after TensorFlow had computed gets a sentence in place of hanging."""

import multiprocessing
import os
import pickle

import numpy as np
import pytest

import tati_re
from tati_re import InputError
from tati_re.core.backend import tf
from tati_re.core.process import forks
from tati_re.sklearn import BayesianRegressor

SHORT = {
    "hidden": (2,),
    "members": 1,
    "sampler": "BAOAB",
    "step_size": 0.01,
    "walker_start": "fresh",
    "num_steps": 20,
    "num_burnin_steps": 10,
    "seed": 1,
}
X = np.random.default_rng(0).normal(size=(20, 2))
Y = X.sum(axis=1)

forking = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes are not forked here"
)
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def said_in_fork(work):
    """What work in a forked process raises, or its result, as text; it is waited for a minute."""

    def answer(pipe):
        try:
            pipe.send(f"{work()}")
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}")

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=answer, args=(theirs,))
    process.start()
    try:
        assert ours.poll(60), "it hangs"
        return ours.recv()
    finally:
        process.kill()
        process.join()


@pytest.fixture(scope="module")
def fitted():
    return BayesianRegressor(**SHORT).fit(X, Y)


@forking
@pytest.mark.parametrize(
    "work",
    ["simulation", "sample", "fit", "predict", "clone", "predict a run", "resume", "potential"],
)
def test_each_use_has_the_sentence(work, fitted):
    sim = tati_re.Simulation(data=(X, Y), hidden=[2], verbose=0, execution="graph")
    works = {
        "simulation": lambda: tati_re.Simulation(data=(X, Y), hidden=[2], verbose=0),
        "sample": lambda: sim.sample(num_steps=3),
        "fit": lambda: sim.fit(num_steps=3),
        "predict": lambda: fitted.predict(X),
        "clone": lambda: BayesianRegressor(**SHORT).fit(X, Y),
        "predict a run": lambda: tati_re.predict(fitted.run_, X),
        "resume": lambda: tati_re.Simulation.resume(fitted.run_.folder, 30, data=(X, Y)),
        "potential": lambda: sim.potential(),
    }
    assert said_in_fork(works[work]).startswith(
        "InputError: tati_re: this process was forked after TensorFlow had run, and would hang. "
    )


@forking
def test_other_work_in_a_fork_is_not_refused(fitted):
    assert said_in_fork(lambda: np.sum(X) == X.sum()) == "True"
    assert said_in_fork(lambda: fitted.run_.run_info.empty) == "False"
    assert tf.add(1, 1) == 2 and not forks._noted


def test_the_error_comes_back_from_a_pool():
    """One that cannot be read would make the parent wait for ever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forks, "_noted", [True])
        with pytest.raises(InputError) as raised:
            forks.refuse()
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@forking
def test_a_fork_before_tensorflow_computes_is_fine(monkeypatch):
    monkeypatch.setattr("tati_re.core.backend._has_computed", lambda: False)
    assert said_in_fork(lambda: forks.refuse()) == "None"


@pytest.mark.slow
def test_a_search_in_two_processes(fitted):
    """By joblib's default backend, after TensorFlow has computed in this process."""
    from sklearn.model_selection import GridSearchCV

    asked = {"prior_std": [0.5, 1.0]}
    one = GridSearchCV(BayesianRegressor(**SHORT), asked, cv=2).fit(X, Y)
    two = GridSearchCV(BayesianRegressor(**SHORT), asked, cv=2, n_jobs=2).fit(X, Y)
    found = [search.cv_results_["mean_test_score"] for search in (one, two)]
    np.testing.assert_allclose(*found, rtol=1e-5)
    assert os.getpid() and np.isfinite(found[0]).all()
