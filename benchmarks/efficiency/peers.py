"""The peers, as their own guides run them: BlackJAX NUTS, MCLMC and MAMS, NumPyro NUTS, each tuned
by itself.

Each chain is tuned on its own, by the library's defaults: NUTS by 1,000 steps of window adaptation
to .8 with a diagonal mass; MCLMC by `mclmc_find_L_and_step_size` (diagonal mass, a third of the
run); MAMS by `adjusted_mclmc_find_L_and_step_size` to .9. Chains of fixed cost run side by side
(`vmap`), those of NUTS one after the other, so that none waits for another's tree. Functions are in
float64, networks in float32 and from minima of Adam, whose gradients count as tuning. It works in a
process of its own, with a Python of its own if need be:

    python -m benchmarks.efficiency.peers TARGET METHOD --chains 4 --seed 0 --gradients 50000
    --output draws.npz

With `--output truth.csv` it writes the moments of the draws in place of the draws: those in
truth.csv are of "NumPyro NUTS" with `--chains 16 --seed 7 --gradients 1000000`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.efficiency.measures import Draws
from benchmarks.efficiency.targets import Target, all_targets, num_rows

FIT = ((1e-2, 3_000), (1e-3, 2_000))
"""Learning rate and steps of Adam, one after the other."""
WARM_UP = 1_000


class Peer(NamedTuple):
    """One sampler for one chain: `tune(key, position)` gives a state, what it is sampled with, and
    the gradients used; `step(key, state, tuned)` a state, a position, the gradients used and ΔE²/d.
    `steps` is about how many there are; `mapped`: chains go one after the other.
    """

    tune: Callable[..., Any]
    step: Callable[..., Any]
    steps: int = 1
    mapped: bool = False


def blackjax_nuts(target: Target, log_density: Callable[[Any], Any], gradients: int) -> Peer:
    """Window adaptation, then NUTS."""
    import blackjax

    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    kernel = blackjax.nuts.build_kernel()

    def tune(key, position):
        found, info = adaptation.run(key, position, num_steps=WARM_UP)
        return found.state, found.parameters, info.info.num_integration_steps.sum()

    def step(key, state, tuned):
        state, info = kernel(key, state, log_density, **tuned)
        return state, state.position, info.num_integration_steps, np.nan

    return Peer(tune, step, mapped=True)


def blackjax_mclmc(target: Target, log_density: Callable[[Any], Any], gradients: int) -> Peer:
    """MCLMC with the McLachlan integrator, two gradients a step."""
    import blackjax

    steps = int(gradients / 2 / (1 + 1 / 3))
    kernel = blackjax.mclmc.build_kernel()

    def tune(key, position):
        state = blackjax.mclmc.init(position, log_density, key)
        state, tuned, used = blackjax.mclmc_find_L_and_step_size(
            kernel, steps, state, key, log_density
        )
        return state, tuned, 2 * used

    def step(key, state, tuned):
        state, info = kernel(
            key, state, log_density, tuned.inverse_mass_matrix, tuned.L, tuned.step_size
        )
        return state, state.position, 2, info.energy_change**2 / target.dimension

    return Peer(tune, step, steps)


def blackjax_mams(target: Target, log_density: Callable[[Any], Any], gradients: int) -> Peer:
    """MCLMC with a Metropolis test and trajectories of random length, two gradients a step of
    them.
    """
    import blackjax
    import jax
    from blackjax.mcmc.adjusted_mclmc import rescale

    def lengths(key, mean):
        return jax.numpy.ceil(jax.random.uniform(key) * rescale(mean))

    proposals = int(gradients / 4 / 1.3)
    kernel = blackjax.adjusted_mclmc_dynamic.build_kernel(integration_steps_fn=lengths)

    def tune(key, position):
        state = blackjax.adjusted_mclmc_dynamic.init(position, log_density, key)
        find = blackjax.adjusted_mclmc_find_L_and_step_size
        state, tuned, used = find(kernel, log_density, proposals, state, key, target=0.9)
        return state, tuned, 2 * used

    def step(key, state, tuned):
        given = {"inverse_mass_matrix": tuned.inverse_mass_matrix}
        given["integration_steps_params"] = (tuned.L / tuned.step_size,)
        state, info = kernel(key, state, log_density, tuned.step_size, **given)
        return state, state.position, 2 * info.num_integration_steps, np.nan

    return Peer(tune, step, proposals)


def numpyro_nuts(target: Target, log_density: Callable[[Any], Any], gradients: int) -> Peer:
    """NUTS of NumPyro by its kernel."""
    import jax
    from numpyro.infer import NUTS

    kernel = NUTS(potential_fn=lambda x: -log_density(x))

    def warm(state, _):
        state = kernel.sample(state, (), {})
        return state, state.num_steps

    def tune(key, position):
        state, used = jax.lax.scan(
            warm, kernel.init(key, WARM_UP, position, (), {}), length=WARM_UP
        )
        return state, (), used.sum()

    def step(key, state, tuned):
        state = kernel.sample(state, (), {})
        return state, state.z, state.num_steps, np.nan

    return Peer(tune, step, mapped=True)


PEERS = {
    "BlackJAX NUTS": blackjax_nuts,
    "BlackJAX MCLMC": blackjax_mclmc,
    "BlackJAX MAMS": blackjax_mams,
    "NumPyro NUTS": numpyro_nuts,
}


def draws_of(target: Target, method: str, chains: int, seed: int, gradients: int) -> Draws:
    """Tunes and samples with a peer, in this process; `gradients` are those of a chain, tuning
    included, fits not.
    """
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", not target.network)
    start, fit_gradients, fit_seconds = jnp.asarray(target.starts(chains, seed)), 0, 0.0
    if target.network:
        start, fit_seconds = _fitted(target, start.astype(jnp.float32))
        fit_gradients = sum(steps for _, steps in FIT)
    peer = PEERS[method](target, lambda x: -target.potential(jnp, x), gradients)
    thin = -(-peer.steps // num_rows(target, chains))

    def each(function):
        return (
            (lambda *given: jax.lax.map(lambda one: function(*one), given))
            if peer.mapped
            else jax.vmap(function)
        )

    def rows(key, state, tuned):
        def one(state, key):
            state, *seen = peer.step(key, state, tuned)
            return state, seen

        def row(state, key):
            state, (position, used, error) = jax.lax.scan(one, state, jax.random.split(key, thin))
            return state, (position[-1], used.sum(), error.mean())

        return jax.lax.scan(row, state, jax.random.split(key, 100 if peer.mapped else 500))

    keys = jax.random.split(jax.random.key(seed + 1), chains)
    tune, compile_seconds = _compiled(each(peer.tune), keys, start)
    (state, tuned, used), tuning_seconds = _timed(tune, keys, start)
    more, seconds = _compiled(each(rows), keys, state, tuned)
    compile_seconds, left, found, sampling = (
        compile_seconds + seconds,
        gradients - float(np.mean(used)),
        [],
        0.0,
    )
    while not found or sum(part[1].sum(axis=1).mean() for part in found) < left:
        keys = jax.vmap(lambda key: jax.random.split(key)[1])(keys)
        (state, part), seconds = _timed(more, keys, state, tuned)
        sampling += seconds
        found.append([np.asarray(values) for values in part])
    positions, costs, errors = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in (method.split()[0].lower(), "jax")
    )
    numbers = (
        float(np.mean(used)) + fit_gradients,
        sampling,
        tuning_seconds + fit_seconds,
        compile_seconds,
    )
    return Draws(positions, costs.cumsum(axis=1), *numbers, float(errors.mean()), versions)


def _compiled(function, *given):
    import jax

    began = time.perf_counter()
    compiled = jax.jit(function).lower(*given).compile()
    return compiled, time.perf_counter() - began


def _timed(function, *given):
    import jax

    began = time.perf_counter()
    found = jax.block_until_ready(function(*given))
    return found, time.perf_counter() - began


def _fitted(target: Target, start):
    """Where Adam brings each chain, and the seconds without those to compile."""
    import jax
    import optax

    seconds = 0.0
    for rate, steps in FIT:
        adam = optax.adam(rate)

        def step(carry, _, adam=adam):
            position, state = carry
            change, state = adam.update(
                jax.grad(lambda x: target.potential(jax.numpy, x))(position), state
            )
            return (position + change, state), None

        def descend(position, adam=adam, steps=steps, step=step):
            return jax.lax.scan(step, (position, adam.init(position)), length=steps)[0][0]

        start, more = _timed(_compiled(jax.vmap(descend), start)[0], start)
        seconds += more
    return start, seconds


def missing(python: str, method: str) -> str:
    """Why a peer cannot run with that Python, or nothing."""
    code = f"import jax, optax, {'numpyro' if 'NumPyro' in method else 'blackjax'}"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def in_process(
    python: str, target: str, method: str, gradients: int, options: dict[str, Any]
) -> Draws:
    """As `draws_of`, in a process of its own; `options` are chains and seed, and data where a set
    lies in a folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draws.npz"
        command = [
            python,
            "-m",
            "benchmarks.efficiency.peers",
            target,
            method,
            f"--gradients={gradients}",
        ]
        command += [f"--output={path}", *(f"--{name}={value}" for name, value in options.items())]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(
                f"{method} on {target}: {(done.stderr.strip().splitlines() or ['no words'])[-1]}"
            )
        with np.load(path) as arrays:
            return Draws(
                arrays["positions"], arrays["gradients"], **json.loads(str(arrays["rest"]))
            )


def main(arguments: list[str] | None = None) -> int:
    """Writes the draws of one peer on one target, or their moments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("method", choices=PEERS)
    for name in ("chains", "seed", "gradients"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    target = all_targets(given.data)[0][given.target]()
    draws = draws_of(target, given.method, given.chains, given.seed, given.gradients)
    if given.output.suffix == ".csv":
        flat = target.observed(np, draws.positions.reshape(-1, target.dimension))
        moments = zip(flat.mean(0), flat.var(0), (flat**2).mean(0), (flat**2).var(0), strict=True)
        with given.output.open("a", encoding="utf-8") as file:
            file.writelines(
                f"{target.name},{','.join(f'{value:.8g}' for value in row)}\n" for row in moments
            )
        return 0
    rest = {
        name: value
        for name, value in draws._asdict().items()
        if name not in ("positions", "gradients")
    }
    np.savez(
        given.output, positions=draws.positions, gradients=draws.gradients, rest=json.dumps(rest)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
