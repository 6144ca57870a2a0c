"""Rivals that are no networks: a Gaussian process and boosted trees."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.prediction.budget import Budget
from benchmarks.prediction.cases import Case
from benchmarks.prediction.scores import Distribution, Normals, Shares, Standard

MOST_GP_ROWS = 2_000
_RESTARTS = 5
_FOLDS = 5
_TUNING_SHARE = 0.6
_MEAN_OF_LOG_SQUARE = -1.2703628454614782
"""E log z² of a normal z: digamma(1/2) + log 2."""
_LEAST_SHARE = 1e-3
_ROUNDS = 2_000
_PATIENCE = 50
_VALIDATION_SHARE = 0.1


Method = Callable[[Case, Budget], tuple[Distribution, int]]


class TooLarge(Exception):
    """A table that a method is not made for."""


def one_thread(method: Method) -> Method:
    """The method with one thread: those of OpenMP burn processor time while they wait."""

    def called(case: Case, budget: Budget) -> tuple[Distribution, int]:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1):
            return method(case, budget)

    return called


@one_thread
def gaussian_process(case: Case, budget: Budget) -> tuple[Distribution, int]:
    """A squared exponential kernel with a length for each feature, and noise, by the evidence."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    if len(case.inputs) > MOST_GP_ROWS or case.num_classes:
        raise TooLarge(f"{len(case.inputs):,} rows or classes")
    scale, standard = Standard(case.inputs), Standard(case.targets)
    inputs, targets = scale.apply(case.inputs), standard.apply(case.targets)
    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(np.ones(inputs.shape[1]), (1e-2, 1e4))
    kernel = kernel + WhiteKernel(0.1, (1e-6, 10.0))
    random = np.random.default_rng(case.split)
    best, longest, fits = None, 0.0, 0
    while fits < _RESTARTS and (best is None or budget.left > 1.2 * longest):
        before = budget.used
        start = kernel
        if fits:
            low, high = kernel.bounds.T
            start = kernel.clone_with_theta(np.clip(random.normal(0, 1, len(low)), low, high))
        model = GaussianProcessRegressor(start, optimizer=_in_time(budget), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(inputs, targets)
        value = model.log_marginal_likelihood_value_
        if best is None or value > best.log_marginal_likelihood_value_:
            best = model
        fits += 1
        longest = max(longest, budget.used - before)
    mean, std = best.predict(scale.apply(case.test_inputs), return_std=True)
    return standard.restore(mean[None], std[None]), fits


class _OutOfTime(Exception):
    """The budget of an optimization is used."""


def _in_time(budget: Budget) -> Any:
    """An optimizer for scikit-learn's Gaussian process that keeps its best point when time is up."""
    from scipy.optimize import minimize

    def optimize(objective: Any, start: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, float]:
        best = [start, math.inf]

        def watched(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = objective(theta)
            if value < best[1]:
                best[:] = [theta.copy(), float(value)]
            if budget.left < 0.1 * budget.seconds:
                raise _OutOfTime
            return value, gradient

        with contextlib.suppress(_OutOfTime):
            minimize(watched, start, method="L-BFGS-B", jac=True, bounds=bounds)
        return best[0], best[1]

    return optimize


_CANDIDATES = (
    {"learning_rate": 0.1, "max_leaf_nodes": 15},
    {"learning_rate": 0.05, "max_leaf_nodes": 8},
    {"learning_rate": 0.1, "max_leaf_nodes": 31},
    {"learning_rate": 0.05, "max_leaf_nodes": 31, "min_samples_leaf": 5},
    {"learning_rate": 0.1, "max_leaf_nodes": 4},
    {"learning_rate": 0.03, "max_leaf_nodes": 15, "max_iter": 600},
)


@one_thread
def gradient_boosting(case: Case, budget: Budget) -> tuple[Distribution, int]:
    """HistGradientBoosting, settings chosen by five folds; the spread from their residuals.

    A second model predicts the logarithm of the squared residual of rows that were left out.
    """
    tried: list[tuple[float, dict[str, Any], np.ndarray]] = []
    longest = 0.0
    for settings in _CANDIDATES:
        if tried and budget.used + longest > _TUNING_SHARE * budget.seconds:
            break
        before = budget.used
        found = _out_of_fold(case, settings)
        tried.append((_loss(case, found), settings, found))
        longest = max(longest, budget.used - before)
    _, settings, found = min(tried, key=lambda one: one[0])
    model = _boosted(case, settings).fit(case.inputs, case.targets)
    if case.num_classes:
        return Shares(model.predict_proba(case.test_inputs)), len(tried)
    residual = case.targets - found
    least = _LEAST_SHARE * residual.var()
    logs = np.log(residual**2 + least) - _MEAN_OF_LOG_SQUARE
    spread = _boosted(case, {"learning_rate": 0.05, "max_leaf_nodes": 8, "max_iter": 60})
    spread.fit(case.inputs, logs)
    ratio = np.mean(residual**2 / np.exp(_out_of_fold_logs(case, logs)))
    variance = ratio * np.exp(spread.predict(case.test_inputs))
    return Normals(model.predict(case.test_inputs)[None], np.sqrt(variance)[None]), len(tried)


def _boosted(case: Case, settings: dict[str, Any]) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if case.num_classes else HistGradientBoostingRegressor
    return kind(early_stopping=False, random_state=0, **({"max_iter": 200} | settings))


def _folds(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import KFold

    return [*KFold(_FOLDS, shuffle=True, random_state=case.split).split(case.inputs)]


def _out_of_fold(case: Case, settings: dict[str, Any]) -> np.ndarray:
    """Predictions of each training row by models that did not see it, (n,) or (n, classes)."""
    width = (len(case.targets), case.num_classes) if case.num_classes else len(case.targets)
    found = np.zeros(width)
    for rest, aside in _folds(case):
        model = _boosted(case, settings).fit(case.inputs[rest], case.targets[rest])
        if case.num_classes:
            found[aside][:, model.classes_.astype(int)] = 0.0
            columns = model.classes_.astype(int)
            found[np.ix_(aside, columns)] = model.predict_proba(case.inputs[aside])
        else:
            found[aside] = model.predict(case.inputs[aside])
    return found


def _out_of_fold_logs(case: Case, logs: np.ndarray) -> np.ndarray:
    found = np.zeros(len(logs))
    settings = {"learning_rate": 0.05, "max_leaf_nodes": 8, "max_iter": 60}
    for rest, aside in _folds(case):
        model = _boosted(case, settings).fit(case.inputs[rest], logs[rest])
        found[aside] = model.predict(case.inputs[aside])
    return found


def _loss(case: Case, found: np.ndarray) -> float:
    if not case.num_classes:
        return float(((case.targets - found) ** 2).mean())
    return Shares(found).scores(case.targets)["nll"]


def has(package: str) -> bool:
    """Whether an extra package is installed."""
    return importlib.util.find_spec(package) is not None


def _put_aside(case: Case) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(case.split).permutation(len(case.inputs))
    count = max(2, round(_VALIDATION_SHARE * len(order)))
    return order[count:], order[:count]


def ngboost(case: Case, budget: Budget) -> tuple[Distribution, int]:
    """NGBoost with a normal law, rounds chosen on a tenth of the rows."""
    from ngboost import NGBRegressor

    if case.num_classes:
        raise TooLarge("classes")
    rest, aside = _put_aside(case)
    standard = Standard(case.targets[rest])
    model = NGBRegressor(n_estimators=_ROUNDS, random_state=case.split, verbose=False)
    model.fit(
        case.inputs[rest],
        standard.apply(case.targets[rest]),
        X_val=case.inputs[aside],
        Y_val=standard.apply(case.targets[aside]),
        early_stopping_rounds=_PATIENCE,
    )
    law = model.pred_dist(case.test_inputs)
    found = standard.restore(np.asarray(law.loc)[None], np.asarray(law.scale)[None])
    return found, 1


def catboost(case: Case, budget: Budget) -> tuple[Distribution, int]:
    """CatBoost that predicts mean and variance, rounds chosen on a tenth of the rows."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    rest, aside = _put_aside(case)
    shared = {
        "iterations": _ROUNDS,
        "random_seed": case.split,
        "verbose": False,
        "thread_count": 1,
        "early_stopping_rounds": _PATIENCE,
        "allow_writing_files": False,
    }
    watched = (case.inputs[aside], case.targets[aside])
    if case.num_classes:
        model = CatBoostClassifier(loss_function="MultiClass", **shared)
        model.fit(case.inputs[rest], case.targets[rest], eval_set=watched)
        return Shares(model.predict_proba(case.test_inputs)), 1
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **shared)
    model.fit(case.inputs[rest], case.targets[rest], eval_set=watched)
    found = np.asarray(model.predict(case.test_inputs))
    return Normals(found[:, 0][None], np.sqrt(found[:, 1])[None]), 1
