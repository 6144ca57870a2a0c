"""Learning coefficients of a small transformer while it learns modular addition, or groks it.

The network reads three tokens, a, b and "=", and predicts (a + b) mod p. A part of all pairs trains
it, by AdamW on all of them at each step. It knows the training pairs early and the others late: in
between the loss hardly changes, and the network does. Its local learning coefficient λ tells how
many parameters it uses: at each of some steps a tethered run around the weights of that step
estimates λ from the mean of the loss, and again from its variance. One attention block without
layer norms (N. Nanda and others, Progress measures for grokking via mechanistic interpretability,
ICLR 2023), the coefficient as in E. Lau and others (2308.12108).

    python examples/grokking.py [--quick] [--modulus 29] [--num-steps 600] [--output DIR]

The chains are of HMC: the weights that a training ends at lie far below the energies of the tethered
law, and a Metropolis test bounds what a step size found there does later. `short` in results.csv
marks estimates whose chain is below 50 autocorrelation times: raise --num-draws before believing
them.

Writes results.csv, one line a step, and figure.png. --quick trains for a moment only: it shows that
everything runs. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tati_re

WIDTH = 32
HEADS = 4


def pairs(modulus: int, fraction: float, seed: int) -> tuple:
    """Tokens and sums of the training pairs, then of the others.

    A number has one token as the first summand and another one as the second, so that the network
    knows places without further inputs.
    """
    first, second = np.divmod(np.arange(modulus**2), modulus)
    equals = np.full(modulus**2, 2 * modulus)
    tokens = np.stack([first, second + modulus, equals], axis=1)
    sums = (first + second) % modulus
    order = np.random.default_rng(seed).permutation(modulus**2)
    train, rest = np.split(order, [round(fraction * modulus**2)])
    return (tokens[train], sums[train]), (tokens[rest], sums[rest])


def transformer(modulus: int, seed: int):
    """One block of attention, from the last token to all, and one of a dense layer; logits."""
    import keras

    keras.utils.set_random_seed(seed)
    layers = keras.layers
    tokens = keras.Input((3,), dtype="int32")
    embedded = layers.Embedding(2 * modulus + 1, WIDTH, name="embedding")(tokens)
    last = layers.Cropping1D((2, 0), name="last")(embedded)
    attend = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name="attention")
    stream = layers.Add(name="after_attention")([last, attend(last, embedded)])
    hidden = layers.Dense(4 * WIDTH, activation="relu", name="hidden")(stream)
    stream = layers.Add(name="after_hidden")([stream, layers.Dense(WIDTH, name="out")(hidden)])
    logits = layers.Dense(modulus, name="logits")(layers.Flatten(name="flatten")(stream))
    return keras.Model(tokens, logits, name="transformer")


def accuracy(sim, data: tuple, parameters: np.ndarray) -> float:
    """The part of the pairs whose sum has the largest logit."""
    tokens, sums = data
    return float(np.mean(sim.predict(tokens, parameters=parameters).argmax(-1) == sums))


def trained(train: tuple, given) -> tuple:
    """The simulation, and the weights of some steps: the steps `(k,)` and `(k, parameters)`."""
    import keras

    sim = tati_re.Simulation(
        model=transformer(given.modulus, given.seed),
        data=train,
        loss="sparse_categorical_crossentropy",
        from_logits=True,
        seed=given.seed,
        verbose=0,
    )
    start = np.asarray(sim.parameters)
    run = sim.fit(
        optimizer=keras.optimizers.AdamW(
            learning_rate=given.learning_rate, weight_decay=given.weight_decay, beta_2=0.98
        ),
        prior="none",
        num_steps=given.num_steps,
        record_every=given.every,
        trajectory_every=given.every,
    )
    rows = run.trajectory
    names = sim.parameter_names()
    return sim, np.append(0, rows["step"]), np.vstack([start, rows[names]])


def estimated(sim, center: np.ndarray, given) -> dict:
    """λ around some weights by both estimates, their errors and processor seconds."""
    sim.parameters = center
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tati_re.CertificateWarning)
        run = sim.sample(
            prior=tati_re.priors.Tether(center, given.tether),
            sampler="HMC",
            num_leapfrog_steps=10,
            num_steps=given.num_draws + given.num_draws // 2,
            num_burnin_steps=given.num_draws // 2,
            record_every=1,
        )
    line = tati_re.analysis.learning_coefficient(run).iloc[0]
    columns = ("coefficient", "error", "from_variance", "from_variance_error", "disagreement")
    found = {name: float(line[name]) for name in columns}
    found["short"] = bool(line["short"])
    return found | {"seconds": time.process_time() - began}


def drawn(lines: Sequence[dict], path: Path) -> None:
    """Accuracies above, λ below, against the step."""
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    figure = new_figure(6.4, 4.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    steps = [line["step"] for line in lines]
    for name, color in (("training", COLORS[0]), ("test", COLORS[1])):
        values = [line[f"{name}_accuracy"] for line in lines]
        upper.plot(steps, values, "o-", color=color, markersize=3, label=name)
    upper.set(ylabel="accuracy")
    upper.legend(frameon=False, fontsize=8)
    for name, error, color, label in (
        ("coefficient", "error", COLORS[2], "from the mean loss"),
        ("from_variance", "from_variance_error", GRAY, "from its variance"),
    ):
        values = [line[name] for line in lines]
        errors = [line[error] for line in lines]
        lower.errorbar(steps, values, errors, fmt="o-", color=color, markersize=3, label=label)
    lower.set(xlabel="step", ylabel="learning coefficient λ")
    lower.legend(frameon=False, fontsize=8)
    plain(upper)
    plain(lower)
    save(figure, path)


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, checked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--modulus", type=int, default=29, help="p; default 29")
    parser.add_argument("--fraction", type=float, default=0.75, help="of pairs that train")
    parser.add_argument("--num-steps", type=int, default=600, help="of AdamW; default 600")
    parser.add_argument("--every", type=int, default=75, help="steps between estimates")
    parser.add_argument("--num-draws", type=int, default=400, help="of each tethered run")
    text = "its precision: a weak tether lets chains leave, a strong one holds flat directions"
    parser.add_argument("--tether", type=float, default=100.0, help=text)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--weight-decay", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a moment of training, two estimates")
    parser.add_argument("--output", type=Path, default=Path("results/grokking"))
    given = parser.parse_args(argv)
    if given.quick:
        given.modulus, given.num_steps, given.every, given.num_draws = 7, 20, 20, 40
    if not 0 < given.fraction < 1:
        raise tati_re.InputError("--fraction is out of range.", given.fraction, "between 0 and 1")
    if not 0 < given.tether < np.inf:
        raise tati_re.InputError("--tether is out of range.", given.tether, "a number above 0")
    least = {"modulus": 3, "num_steps": 1, "every": 1, "num_draws": 20}
    for name, low in least.items():
        value = getattr(given, name)
        if value < low:
            flag = f"--{name.replace('_', '-')}"
            raise tati_re.InputError(f"{flag} is too small.", value, f"at least {low}")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Trains, estimates, prints and writes; the exit status is 2 for bad input."""
    try:
        given = parsed(argv)
    except tati_re.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    given.output.mkdir(parents=True, exist_ok=True)
    train, rest = pairs(given.modulus, given.fraction, given.seed)
    sim, steps, weights = trained(train, given)
    print(f"{sim.num_parameters():,} parameters, {len(train[0])} training pairs", flush=True)
    lines = []
    for step, center in zip(steps, weights, strict=True):
        line = {
            "step": int(step),
            "training_accuracy": accuracy(sim, train, center),
            "test_accuracy": accuracy(sim, rest, center),
        }
        line |= estimated(sim, center, given)
        lines.append(line)
        print(", ".join(f"{name} {value:.4g}" for name, value in line.items()), flush=True)
        with (given.output / "results.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(line), lineterminator="\n")
            table.writeheader()
            table.writerows(lines)
    drawn(lines, given.output / "figure.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
