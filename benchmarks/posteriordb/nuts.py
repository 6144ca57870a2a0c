"""The models of `models.py` in NumPyro, sampled by NUTS with its defaults in a process of its own:

    python -m benchmarks.posteriordb.nuts POSTERIOR DATA.json --seed 1 --output draws.npz

It needs NumPyro, but neither TensorFlow nor this package, and may run in an environment of its own.
Each chain has 1,000 steps of warm-up and 1,000 draws. Sampling runs twice with the same compiled
program, and the second run is timed, so that tracing and compiling are not in its seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.experimental.ode import odeint
from numpyro.infer import MCMC, NUTS, init_to_uniform, init_to_value

CHAINS = 4
WARM_UP = 1_000
DRAWS = 1_000

Data = Mapping[str, np.ndarray]


class NumPyroModel(NamedTuple):
    """A model of NumPyro.

    Attributes:
        sample: The model, a function without arguments.
        inits: Where chains start, by name; none: NumPyro's default.
    """

    sample: Callable[[], None]
    inits: Mapping[str, Any] | None = None


def flat(name: str, support: Any, *shape: int) -> Any:
    """A parameter without a prior on its support."""
    return numpyro.sample(name, dist.ImproperUniform(support, (), shape))


def regression(
    columns: Sequence[np.ndarray], y: np.ndarray, scale_of_sigma: float | None = None
) -> NumPyroModel:
    """A linear regression with a constant, flat priors, and perhaps a half Cauchy prior of sigma."""
    x = jnp.stack([jnp.ones(len(y)), *columns], axis=1)

    def sample():
        beta = flat("beta", dist.constraints.real_vector, x.shape[1])
        if scale_of_sigma is None:
            sigma = flat("sigma", dist.constraints.positive)
        else:
            sigma = numpyro.sample("sigma", dist.HalfCauchy(scale_of_sigma))
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)

    return NumPyroModel(sample)


def earn_height(d: Data) -> NumPyroModel:
    return regression([d["height"]], d["earn"])


def logearn_interaction(d: Data) -> NumPyroModel:
    return regression([d["height"], d["male"], d["height"] * d["male"]], np.log(d["earn"]))


def kidscore_interaction(d: Data) -> NumPyroModel:
    columns = [d["mom_hs"], d["mom_iq"], d["mom_hs"] * d["mom_iq"]]
    return regression(columns, d["kid_score"], 2.5)


def mesquite(d: Data) -> NumPyroModel:
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    return regression([d[name] for name in names], d["weight"])


def logmesquite_logvash(d: Data) -> NumPyroModel:
    area = d["diam1"] * d["diam2"]
    positive = [area * d["canopy_height"], area, d["diam1"] / d["diam2"], d["total_height"]]
    columns = [*(np.log(column) for column in positive), d["group"]]
    return regression(columns, np.log(d["weight"]))


def nes(d: Data) -> NumPyroModel:
    ages = [(d["age_discrete"] == k).astype(float) for k in (2, 3, 4)]
    columns = [d["real_ideo"], d["race_adj"], *ages, d["educ1"], d["gender"], d["income"]]
    return regression(columns, d["partyid7"])


def blr(d: Data) -> NumPyroModel:
    def sample():
        beta = numpyro.sample("beta", dist.Normal(0, 10).expand([d["X"].shape[1]]))
        sigma = numpyro.sample("sigma", dist.HalfNormal(10))
        numpyro.sample("y", dist.Normal(d["X"] @ beta, sigma), obs=d["y"])

    return NumPyroModel(sample)


def kilpisjarvi(d: Data) -> NumPyroModel:
    def sample():
        alpha = numpyro.sample("alpha", dist.Normal(d["pmualpha"], d["psalpha"]))
        beta = numpyro.sample("beta", dist.Normal(d["pmubeta"], d["psbeta"]))
        sigma = flat("sigma", dist.constraints.positive)
        numpyro.sample("y", dist.Normal(alpha + beta * d["x"], sigma), obs=d["y"])

    return NumPyroModel(sample)


def arma11(d: Data) -> NumPyroModel:
    y = jnp.asarray(d["y"])

    def sample():
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        phi = numpyro.sample("phi", dist.Normal(0, 2))
        theta = numpyro.sample("theta", dist.Normal(0, 2))
        sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
        innovations = y - mu - phi * jnp.concatenate([mu[None], y[:-1]])

        def next_error(error, innovation):
            error = innovation - theta * error
            return error, error

        _, errors = jax.lax.scan(next_error, jnp.zeros(()), innovations)
        numpyro.factor("errors", dist.Normal(0, sigma).log_prob(errors).sum())

    return NumPyroModel(sample)


def squared_exponential(x: Any, alpha: Any, rho: Any) -> Any:
    """The covariance alpha² exp(-(x - x')²/(2 rho²))."""
    return alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x) / rho) ** 2)


def gp_regr(d: Data) -> NumPyroModel:
    x = jnp.asarray(d["x"])

    def sample():
        rho = numpyro.sample("rho", dist.Gamma(25, 4))
        alpha = numpyro.sample("alpha", dist.HalfNormal(2))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1))
        covariance = squared_exponential(x, alpha, rho) + sigma * jnp.eye(len(x))
        numpyro.sample("y", dist.MultivariateNormal(0.0, covariance), obs=d["y"])

    return NumPyroModel(sample)


def gp_pois_regr(d: Data) -> NumPyroModel:
    x = jnp.asarray(d["x"])

    def sample():
        rho = numpyro.sample("rho", dist.Gamma(25, 4))
        alpha = numpyro.sample("alpha", dist.HalfNormal(2))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([len(x)]))
        covariance = squared_exponential(x, alpha, rho) + 1e-10 * jnp.eye(len(x))
        f = numpyro.deterministic("f", jnp.linalg.cholesky(covariance) @ z)
        numpyro.sample("k", dist.Poisson(jnp.exp(f)), obs=d["k"].astype(int))

    return NumPyroModel(sample)


def lotka_volterra(d: Data) -> NumPyroModel:
    times = jnp.arange(len(d["y"]) + 1.0)

    def slope(state, _, theta):
        u, v = state
        return jnp.stack([(theta[0] - theta[1] * v) * u, (theta[3] * u - theta[2]) * v])

    def sample():
        center = jnp.array([1.0, 0.05, 1.0, 0.05])
        width = jnp.array([0.5, 0.05, 0.5, 0.05])
        positive = dist.constraints.positive
        theta = flat("theta", dist.constraints.independent(positive, 1), 4)
        numpyro.factor("prior", dist.Normal(center, width).log_prob(theta).sum())
        sigma = numpyro.sample("sigma", dist.LogNormal(-1, 1).expand([2]))
        z_init = numpyro.sample("z_init", dist.LogNormal(np.log(10.0), 1).expand([2]))
        states = odeint(slope, z_init, times, theta, rtol=1e-6, atol=1e-6)
        logs = jnp.log(jnp.maximum(states, 1e-12))
        numpyro.sample("y_init", dist.LogNormal(logs[0], sigma), obs=d["y_init"])
        numpyro.sample("y", dist.LogNormal(logs[1:], sigma), obs=d["y"])

    inits = {
        "theta": jnp.array([0.5, 0.03, 0.8, 0.03]),
        "z_init": jnp.array([30.0, 5.0]),
        "sigma": jnp.array([0.3, 0.3]),
    }
    return NumPyroModel(sample, inits)


MODELS: dict[str, Callable[[Data], NumPyroModel]] = {
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


def sampled(model: NumPyroModel, seed: int) -> dict[str, np.ndarray]:
    """Draws by name, `(chains, draws, *shape)`, gradients of all chains, and processor seconds."""
    start = init_to_uniform if model.inits is None else init_to_value(values=model.inits)
    mcmc = MCMC(
        NUTS(model.sample, init_strategy=start),
        num_warmup=WARM_UP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    for key in (jax.random.key(seed), jax.random.key(seed + 1_000)):
        begin = time.process_time()
        mcmc.warmup(key, extra_fields=("num_steps",), collect_warmup=True)
        warm_up = int(np.sum(mcmc.get_extra_fields()["num_steps"]))
        mcmc.run(mcmc.post_warmup_state.rng_key, extra_fields=("num_steps",))
        draws = {
            name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()
        }
        seconds = time.process_time() - begin
    kept = int(np.sum(mcmc.get_extra_fields()["num_steps"]))
    measures = {"gradients": kept + warm_up, "gradients_kept": kept, "seconds": seconds}
    return draws | {f"measured_{name}": np.asarray(value) for name, value in measures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("posterior", choices=list(MODELS))
    parser.add_argument("data", type=Path, help="JSON file of the posterior")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    numpyro.enable_x64()
    data = json.loads(chosen.data.read_text())["data"]
    arrays = {name: np.asarray(value, float) for name, value in data.items()}
    np.savez(chosen.output, **sampled(MODELS[chosen.posterior](arrays), chosen.seed))


if __name__ == "__main__":
    main()
