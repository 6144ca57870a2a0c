"""Log densities of models of posteriordb, written for `Simulation(log_density=...)`.

Each entry of `MODELS` makes a `Model` from the data of a file. Priors are those of the Stan
programs; a parameter without one has a flat prior on its support.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tati_re.likelihoods import log_prob
from tati_re.supports import positive, real


@dataclass(frozen=True)
class Model:
    """A model in the arguments of `Simulation`.

    Attributes:
        log_density: The log density of one draw.
        parameters: Supports by name.
        data: Arrays by name.
        generated: Functions of a draw, for reference quantities that are no parameters.
        inits: Where chains start, in place of the default.
    """

    log_density: Callable
    parameters: Mapping[str, Any]
    data: Mapping[str, Any]
    generated: Mapping[str, Callable] = field(default_factory=dict)
    inits: Mapping[str, Any] | None = None


def regression(
    columns: list[np.ndarray], y: np.ndarray, scale_of_sigma: float | None = None
) -> Model:
    """A linear regression with a constant, flat priors, and perhaps a half Cauchy prior of sigma."""
    ones = np.ones(len(y))
    x = np.stack([ones, *columns], axis=1).astype(float)

    def log_density(beta, sigma, x, y):
        likelihood = log_prob.normal(y, tf.linalg.matvec(x, beta), sigma)
        if scale_of_sigma is None:
            return log_prob.total(likelihood)
        return log_prob.total(likelihood, log_prob.half_cauchy(sigma, scale_of_sigma))

    parameters = {"beta": real(x.shape[1]), "sigma": positive()}
    return Model(log_density, parameters, {"x": x, "y": np.asarray(y, float)})


def arrays(data: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """All entries of a file as float arrays."""
    return {name: np.asarray(value, float) for name, value in data.items()}


def earn_height(data: Mapping[str, Any]) -> Model:
    d = arrays(data)
    return regression([d["height"]], d["earn"])


def logearn_interaction(data: Mapping[str, Any]) -> Model:
    d = arrays(data)
    return regression([d["height"], d["male"], d["height"] * d["male"]], np.log(d["earn"]))


def kidscore_interaction(data: Mapping[str, Any]) -> Model:
    d = arrays(data)
    columns = [d["mom_hs"], d["mom_iq"], d["mom_hs"] * d["mom_iq"]]
    return regression(columns, d["kid_score"], 2.5)


def mesquite(data: Mapping[str, Any]) -> Model:
    d = arrays(data)
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    return regression([d[name] for name in names], d["weight"])


def logmesquite_logvash(data: Mapping[str, Any]) -> Model:
    d = arrays(data)
    area = d["diam1"] * d["diam2"]
    logs = [area * d["canopy_height"], area, d["diam1"] / d["diam2"], d["total_height"]]
    return regression([*(np.log(one) for one in logs), d["group"]], np.log(d["weight"]))


def nes(data: Mapping[str, Any]) -> Model:
    d = arrays(data)
    ages = [(d["age_discrete"] == k).astype(float) for k in (2, 3, 4)]
    others = [d["educ1"], d["gender"], d["income"]]
    return regression([d["real_ideo"], d["race_adj"], *ages, *others], d["partyid7"])


def blr(data: Mapping[str, Any]) -> Model:
    d = arrays(data)

    def log_density(beta, sigma, X, y):
        likelihood = log_prob.normal(y, tf.linalg.matvec(X, beta), sigma)
        return log_prob.total(
            likelihood, log_prob.normal(beta, 0, 10), log_prob.half_normal(sigma, 10)
        )

    parameters = {"beta": real(d["X"].shape[1]), "sigma": positive()}
    return Model(log_density, parameters, {"X": d["X"], "y": d["y"]})


def kilpisjarvi(data: Mapping[str, Any]) -> Model:
    d = arrays(data)

    def log_density(alpha, beta, sigma, x, y, pmualpha, psalpha, pmubeta, psbeta):
        return log_prob.total(
            log_prob.normal(alpha, pmualpha, psalpha),
            log_prob.normal(beta, pmubeta, psbeta),
            log_prob.normal(y, alpha + beta * x, sigma),
        )

    parameters = {"alpha": real(), "beta": real(), "sigma": positive()}
    names = ("x", "y", "pmualpha", "psalpha", "pmubeta", "psbeta")
    return Model(log_density, parameters, {name: d[name] for name in names})


def arma11(data: Mapping[str, Any]) -> Model:
    d = arrays(data)
    size = len(d["y"])
    lag = np.subtract.outer(np.arange(size), np.arange(size)).astype(float)

    def log_density(mu, phi, theta, sigma, y, lag):
        before = tf.concat([mu[None], y[:-1]], axis=0)
        innovations = y - mu - phi * before
        # err_t = innovation_t - theta err_(t-1), solved for all times at once.
        powers = tf.where(lag >= 0, tf.pow(-theta, tf.maximum(lag, 0.0)), tf.zeros_like(lag))
        errors = tf.linalg.matvec(powers, innovations)
        return log_prob.total(
            log_prob.normal(mu, 0, 10),
            log_prob.normal(phi, 0, 2),
            log_prob.normal(theta, 0, 2),
            log_prob.half_cauchy(sigma, 2.5),
            log_prob.normal(errors, 0, sigma),
        )

    parameters = {"mu": real(), "phi": real(), "theta": real(), "sigma": positive()}
    return Model(log_density, parameters, {"y": d["y"], "lag": lag})


def squared_exponential(x: Any, alpha: Any, rho: Any) -> Any:
    """The covariance alpha² exp(-(x - x')²/(2 rho²))."""
    return alpha**2 * tf.exp(-0.5 * ((x[:, None] - x) / rho) ** 2)


def gp_regr(data: Mapping[str, Any]) -> Model:
    d = arrays(data)

    def log_density(rho, alpha, sigma, x, y):
        covariance = squared_exponential(x, alpha, rho) + sigma * tf.eye(x.shape[0], dtype=x.dtype)
        return log_prob.total(
            log_prob.gamma(rho, 25, 4),
            log_prob.half_normal(alpha, 2),
            log_prob.half_normal(sigma, 1),
            log_prob.normal_cholesky(y, tf.zeros_like(y), tf.linalg.cholesky(covariance)),
        )

    parameters = {name: positive() for name in ("rho", "alpha", "sigma")}
    return Model(log_density, parameters, {"x": d["x"], "y": d["y"]})


def gp_pois_regr(data: Mapping[str, Any]) -> Model:
    d = arrays(data)

    def latent(rho, alpha, z, x):
        covariance = squared_exponential(x, alpha, rho) + 1e-10 * tf.eye(x.shape[0], dtype=x.dtype)
        return tf.linalg.matvec(tf.linalg.cholesky(covariance), z)

    def log_density(rho, alpha, z, x, k):
        return log_prob.total(
            log_prob.gamma(rho, 25, 4),
            log_prob.half_normal(alpha, 2),
            log_prob.normal(z),
            log_prob.poisson_log(k, latent(rho, alpha, z, x)),
        )

    parameters = {"rho": positive(), "alpha": positive(), "z": real(len(d["x"]))}
    data = {"x": d["x"], "k": d["k"]}
    return Model(log_density, parameters, data, {"f": latent})


STEPS_PER_YEAR = 8
"""Of the Runge-Kutta method: states are then off by less than 1e-3 of themselves."""


def lotka_volterra(data: Mapping[str, Any]) -> Model:
    d = arrays(data)

    def slope(state, theta):
        u = state[0]
        v = state[1]
        return tf.stack([(theta[0] - theta[1] * v) * u, (theta[3] * u - theta[2]) * v])

    def one_step(state, theta):
        """A step of the classical Runge-Kutta method."""
        h = 1.0 / STEPS_PER_YEAR
        first = slope(state, theta)
        second = slope(state + 0.5 * h * first, theta)
        third = slope(state + 0.5 * h * second, theta)
        fourth = slope(state + h * third, theta)
        return state + h / 6 * (first + 2 * second + 2 * third + fourth)

    def solution(z_init, theta, years):
        """The state after each year, `(years, 2)`."""
        steps = tf.range(years * STEPS_PER_YEAR)
        states = tf.scan(lambda state, _: one_step(state, theta), steps, initializer=z_init)
        return states[STEPS_PER_YEAR - 1 :: STEPS_PER_YEAR]

    def log_density(theta, z_init, sigma, y, y_init):
        states = solution(z_init, theta, y.shape[0])
        logs = tf.math.log(tf.maximum(states, 1e-12))
        center = tf.constant([1.0, 0.05, 1.0, 0.05], theta.dtype)
        width = tf.constant([0.5, 0.05, 0.5, 0.05], theta.dtype)
        return log_prob.total(
            log_prob.normal(theta, center, width),
            log_prob.log_normal(sigma, -1, 1),
            log_prob.log_normal(z_init, np.log(10.0), 1),
            log_prob.log_normal(y_init, tf.math.log(z_init), sigma),
            log_prob.log_normal(y, logs, sigma),
        )

    parameters = {"theta": positive(4), "z_init": positive(2), "sigma": positive(2)}
    inits = {"theta": [0.5, 0.03, 0.8, 0.03], "z_init": [30.0, 5.0], "sigma": [0.3, 0.3]}
    return Model(log_density, parameters, {"y": d["y"], "y_init": d["y_init"]}, inits=inits)


MODELS: dict[str, Callable[[Mapping[str, Any]], Model]] = {
    "arma-arma11": arma11,
    "earnings-earn_height": earn_height,
    "earnings-logearn_interaction": logearn_interaction,
    "gp_pois_regr-gp_pois_regr": gp_pois_regr,
    "gp_pois_regr-gp_regr": gp_regr,
    "hudson_lynx_hare-lotka_volterra": lotka_volterra,
    "kidiq-kidscore_interaction": kidscore_interaction,
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    "mesquite-logmesquite_logvash": logmesquite_logvash,
    "mesquite-mesquite": mesquite,
    "nes1988-nes": nes,
    "sblrc-blr": blr,
}
