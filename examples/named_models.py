"""Three statistical models by named parameters: a hierarchy, a Gaussian process, and an ODE.

    python examples/named_models.py schools|process|growth [--seed 1] [--num-steps N] [--output DIR]

`schools` are the eight schools, not centered; `process` is a Gaussian process with three
hyperparameters; `growth` is a population that grows logistically, integrated by Runge-Kutta steps
in `tf.scan`. Each prints the table of its parameters and its certificate.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tati_re import Simulation
from tati_re.likelihoods.log_prob import (
    half_cauchy,
    half_normal,
    inverse_gamma,
    log_normal,
    normal,
    normal_cholesky,
    total,
)
from tati_re.supports import Support, positive, real

STEPS_BETWEEN = 10
"""Runge-Kutta steps between two observations."""


class Model(NamedTuple):
    """A log density, the supports of its parameters, and its data."""

    log_density: Any
    parameters: dict[str, Support]
    data: dict[str, Any]


def schools(mu, tau, z, y, sigma):
    """Effects mu + tau z of eight schools, with known errors."""
    effects = normal(y, mu + tau * z, sigma)
    return total(effects, normal(z), normal(mu, 0, 5), half_cauchy(tau, 5))


def process(rho, alpha, sigma, x, y):
    """Values of a smooth function of x, with noise sigma."""
    covariance = alpha**2 * tf.exp(-0.5 * ((x[:, None] - x) / rho) ** 2)
    factor = tf.linalg.cholesky(covariance + sigma**2 * tf.eye(x.shape[0], dtype=x.dtype))
    priors = total(inverse_gamma(rho, 5, 5), half_normal(alpha), half_normal(sigma))
    return priors + normal_cholesky(y, tf.zeros_like(y), factor)


def grown(rate, capacity, start, times):
    """The population at some times, by Runge-Kutta steps of fourth order.

    Args:
        rate: Rate of growth of a small population.
        capacity: The population that does not grow any more.
        start: The population at the first time.
        times: Times of the observations, shape (n,).

    Returns:
        The population, shape (n,).
    """

    def slope(size):
        return rate * size * (1 - size / capacity)

    def step(size, length):
        first = slope(size)
        second = slope(size + 0.5 * length * first)
        third = slope(size + 0.5 * length * second)
        fourth = slope(size + length * third)
        return size + length / 6 * (first + 2 * second + 2 * third + fourth)

    lengths = tf.repeat((times[1:] - times[:-1]) / STEPS_BETWEEN, STEPS_BETWEEN)
    sizes = tf.scan(step, lengths, initializer=start)
    return tf.concat([start[None], sizes[STEPS_BETWEEN - 1 :: STEPS_BETWEEN]], axis=0)


def growth(rate, capacity, start, sigma, times, counts):
    """Counts of a population, with a relative error sigma."""
    errors = log_normal(counts, tf.math.log(grown(rate, capacity, start, times)), sigma)
    priors = total(
        log_normal(rate), log_normal(capacity, 3.0), log_normal(start), half_normal(sigma)
    )
    return total(errors) + priors


def models(seed: int) -> dict[str, Model]:
    """The models by name, with data that follow from a seed where they are generated."""
    random = np.random.default_rng(seed)
    errors = [15.0, 10, 16, 11, 9, 11, 10, 18]
    effects = {"y": [28.0, 8, -3, 7, -1, 1, 18, 12], "sigma": errors}
    x = np.linspace(-2, 2, 20)
    curve = {"x": x, "y": np.sin(2 * x) + 0.2 * random.normal(size=20)}
    times = np.linspace(0.0, 8.0, 12)
    exact = 20 / (1 + 19 * np.exp(-times))
    counts = {"times": times, "counts": exact * np.exp(0.1 * random.normal(size=12))}
    positives = {name: positive() for name in ("rate", "capacity", "start", "sigma")}
    scales = {name: positive() for name in ("rho", "alpha", "sigma")}
    hierarchy = {"mu": real(), "tau": positive(), "z": real(8)}
    return {
        "schools": Model(schools, hierarchy, effects),
        "process": Model(process, scales, curve),
        "growth": Model(growth, positives, counts),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Samples a model and prints its parameters and its certificate.

    Args:
        arguments: Arguments of the command. Default: those of the process.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", choices=["schools", "process", "growth"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--num-steps", type=int, help="default: until the draws suffice")
    parser.add_argument("--output", help="run folder (default: none)")
    chosen = parser.parse_args(arguments)
    model = models(chosen.seed)[chosen.model]
    sim = Simulation(
        log_density=model.log_density,
        parameters=model.parameters,
        data=model.data,
        seed=chosen.seed,
        verbose=0,
    )
    length = {} if chosen.num_steps is None else {"num_steps": chosen.num_steps, "until": None}
    run = sim.sample(output=chosen.output, **length)
    print(run.parameter_summary().round(3).to_string())
    print(run.certificate)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
