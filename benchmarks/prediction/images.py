"""`python -m benchmarks.prediction --images --data FOLDER`: 60,000 images beside rivals at equal
processor time.

    python -m benchmarks.prediction --images --data FOLDER --output FOLDER --budgets 240 1200
    python -m benchmarks.prediction --images --only-tables --output FOLDER

FOLDER holds `mnist.npz`, and `cifar10_subset.npz` for images of another kind. Networks: LeNet-5
(61,706 parameters) and 784-100-10. Every method has the same seconds of processor time for fits and
sampling, compilation included; predictions come after it. No method sees a test image before.

Each case adds a line to images.csv; lines that are there are not computed again.
"""

from __future__ import annotations

import argparse
import csv
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.prediction.budget import Budget, clock_of_processor

Probabilities = Callable[[np.ndarray], np.ndarray]
"""Images (n, 28, 28, 1) in 0 to 1 to class probabilities (n, 10)."""
ANGLES = (15, 30, 45, 60)
BATCH = 128
EPOCHS = 10
RATE = 0.003
WARM_UP = 0.05
HELD_OUT = 2_000
PASSES = 30
SWAG_DRAWS = 20
_SHIFTED = 2_000
_BINS = 15
_DROPOUT = 0.1


@dataclass
class Images:
    """The images and labels of a folder, scaled to 0 to 1."""

    folder: Path

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        with np.load(self.folder / "mnist.npz", allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
        for name in ("x_train", "x_test"):
            found[name] = (found[name][..., None] / 255).astype(np.float32)
        for name in ("y_train", "y_test"):
            found[name] = found[name].astype(np.int32)
        return found

    def rotated(self, angle: float) -> tuple[np.ndarray, np.ndarray]:
        """The first test images, turned, and their labels."""
        from scipy.ndimage import rotate

        images = self.arrays["x_test"][:_SHIFTED]
        turned = rotate(images, angle, axes=(1, 2), reshape=False, order=1)
        return np.clip(turned, 0, 1), self.arrays["y_test"][:_SHIFTED]

    def foreign(self) -> dict[str, np.ndarray]:
        """Images that show no digit, by their kind."""
        random = np.random.default_rng(0)
        images = self.arrays["x_test"][:_SHIFTED]
        shape = images.shape
        flat = images.reshape(len(images), -1)
        found = {
            "noise": random.random(shape).astype(np.float32),
            "shuffled": random.permuted(flat, axis=1).reshape(shape),
        }
        others = self.folder / "cifar10_subset.npz"
        if others.exists():
            with np.load(others, allow_pickle=False) as archive:
                grey = archive["x_test"].mean(axis=-1)[:, 2:30, 2:30, None] / 255
            found["cifar"] = grey.astype(np.float32)
        return found


def lenet(dropout: float = 0.0) -> Any:
    """LeNet-5 with rectifiers, 61,706 parameters."""
    from keras import Sequential, layers

    parts: list[Any] = [
        layers.Input((28, 28, 1)),
        layers.Conv2D(6, 5, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 5, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
    ]
    for units in (120, 84):
        parts.append(layers.Dense(units, activation="relu"))
        if dropout:
            parts.append(layers.Dropout(dropout))
    return Sequential([*parts, layers.Dense(10)])


def dense(dropout: float = 0.0) -> Any:
    """784-100-10 with rectifiers, 79,510 parameters."""
    from keras import Sequential, layers

    parts: list[Any] = [
        layers.Input((28, 28, 1)),
        layers.Flatten(),
        layers.Dense(100, activation="relu"),
    ]
    if dropout:
        parts.append(layers.Dropout(dropout))
    return Sequential([*parts, layers.Dense(10)])


NETWORKS: dict[str, Callable[..., Any]] = {"LeNet-5": lenet, "784-100-10": dense}


class Fit:
    """A Keras network fitted by Adam with one cycle, and stopped on held-out images."""

    def __init__(self, images: Images, network: Callable[..., Any], seed: int, number: int) -> None:
        import keras

        keras.utils.set_random_seed(1_000 * seed + number)
        order = np.random.default_rng([seed, number]).permutation(len(images.arrays["x_train"]))
        self._aside, self._rest = order[:HELD_OUT], order[HELD_OUT:]
        self._images = images
        self.network = network

    def fitted(self, budget: Budget, dropout: float = 0.0, callbacks: Sequence[Any] = ()) -> Any:
        """The network at its best epoch; the fit ends when the budget is used."""
        import keras

        model = self.network(dropout)
        steps = EPOCHS * -(-len(self._rest) // BATCH)
        warm = round(WARM_UP * steps)
        rates = keras.optimizers.schedules.CosineDecay(
            0.0, steps - warm, warmup_target=RATE, warmup_steps=warm
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(rates), loss=loss)
        end = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: _stop_in_time(model, budget)
        )
        x, y = self._images.arrays["x_train"], self._images.arrays["y_train"]
        model.fit(
            x[self._rest],
            y[self._rest],
            batch_size=BATCH,
            epochs=EPOCHS,
            verbose=0,
            validation_data=(x[self._aside], y[self._aside]),
            callbacks=[
                end,
                keras.callbacks.EarlyStopping(patience=EPOCHS, restore_best_weights=True),
                *callbacks,
            ],
        )
        return model


def _stop_in_time(model: Any, budget: Budget) -> None:
    if budget.left < 0:
        model.stop_training = True


def _softmax(logits: Any) -> np.ndarray:
    from scipy.special import softmax

    return softmax(np.asarray(logits, np.float64), axis=-1)


def _of_network(model: Any, images: np.ndarray) -> np.ndarray:
    return _softmax(model.predict(images, batch_size=1_000, verbose=0))


def ours(
    images: Images, network: Callable[..., Any], budget: Budget, seed: int
) -> tuple[Probabilities, int]:
    """A run of this package by its defaults: the network, the data and a time."""
    import tati_re

    a = images.arrays
    simulation = tati_re.Simulation(
        network(), data=(a["x_train"], a["y_train"]), test_fraction=0.0, seed=seed + 1, verbose=0
    )
    with clock_of_processor():
        run = simulation.sample(max_time=budget.seconds)

    def probabilities(inputs: np.ndarray) -> np.ndarray:
        return run.predict(inputs).probabilities

    return probabilities, int(run.manifest.options.num_walkers)


def ensemble(
    images: Images, network: Callable[..., Any], budget: Budget, seed: int
) -> tuple[Probabilities, int]:
    """A deep ensemble in plain Keras, of as many members as fit into the time."""
    models: list[Any] = []
    took = 0.0
    while not models or budget.left > took:
        before = budget.used
        models.append(Fit(images, network, seed, len(models)).fitted(budget))
        took = budget.used - before

    def probabilities(inputs: np.ndarray) -> np.ndarray:
        return np.mean([_of_network(model, inputs) for model in models], axis=0)

    return probabilities, len(models)


def mc_dropout(
    images: Images, network: Callable[..., Any], budget: Budget, seed: int
) -> tuple[Probabilities, int]:
    """One network with dropout after each dense layer, also while it predicts."""
    model = Fit(images, network, seed, 0).fitted(budget, dropout=_DROPOUT)

    def one_pass(inputs: np.ndarray) -> np.ndarray:
        parts = np.array_split(inputs, max(1, len(inputs) // 1_000))
        return np.concatenate([_softmax(model(part, training=True)) for part in parts])

    def probabilities(inputs: np.ndarray) -> np.ndarray:
        return np.mean([one_pass(inputs) for _ in range(PASSES)], axis=0)

    return probabilities, PASSES


def swag(
    images: Images, network: Callable[..., Any], budget: Budget, seed: int
) -> tuple[Probabilities, int]:
    """One fit, then SGD at a constant rate while there is time; a Gaussian with the mean, half the
    diagonal and half the low-rank part of the covariance of the epochs (Maddox et al., 2019).
    """
    import keras

    model = Fit(images, network, seed, 0).fitted(budget)
    a = images.arrays
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9), loss=loss)
    seen: list[np.ndarray] = []
    while len(seen) < 4 or (budget.left > 0 and len(seen) < 40):
        model.fit(a["x_train"], a["y_train"], batch_size=BATCH, epochs=1, verbose=0)
        seen.append(np.concatenate([w.ravel() for w in model.get_weights()]))
    positions = np.stack(seen)
    mean = positions.mean(axis=0)
    away = (positions - mean)[-20:]
    random = np.random.default_rng(seed)
    shapes = [w.shape for w in model.get_weights()]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def probabilities(inputs: np.ndarray) -> np.ndarray:
        total = np.zeros((len(inputs), 10))
        for _ in range(SWAG_DRAWS):
            flat = mean + positions.std(axis=0) * random.standard_normal(len(mean)) / np.sqrt(2)
            flat = flat + random.standard_normal(len(away)) @ away / np.sqrt(2 * (len(away) - 1))
            parts = np.split(flat, ends)
            pairs = zip(parts, shapes, strict=True)
            model.set_weights([part.reshape(shape) for part, shape in pairs])
            total += _of_network(model, inputs)
        return total / SWAG_DRAWS

    return probabilities, SWAG_DRAWS


METHODS = {
    "tati_re, defaults": ours,
    "Keras ensemble": ensemble,
    "MC dropout": mc_dropout,
    "SWAG": swag,
}


def scores(probabilities: Probabilities, images: Images) -> dict[str, float]:
    """Scores on the test images, on turned ones, and how well other images are told apart."""
    from sklearn.metrics import roc_auc_score

    labels = images.arrays["y_test"]
    p = probabilities(images.arrays["x_test"])
    found = {
        "nll": _nll(p, labels),
        "accuracy": float((p.argmax(axis=1) == labels).mean()),
        "ece": _calibration_error(p, labels),
    }
    for angle in ANGLES:
        turned, of_turned = images.rotated(angle)
        found[f"nll_{angle}"] = _nll(probabilities(turned), of_turned)
    known = _entropy(p)
    for name, others in images.foreign().items():
        unknown = _entropy(probabilities(others))
        truth = np.r_[np.zeros(len(known)), np.ones(len(unknown))]
        found[f"auroc_{name}"] = float(roc_auc_score(truth, np.r_[known, unknown]))
    return found


def _nll(p: np.ndarray, labels: np.ndarray) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(p)), labels], 1e-30)).mean())


def _entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(np.maximum(p, 1e-30))).sum(axis=1)


def _calibration_error(p: np.ndarray, labels: np.ndarray) -> float:
    """Mean distance of accuracy and confidence over 15 bins of confidence, weighted by size."""
    sure = p.max(axis=1)
    right = p.argmax(axis=1) == labels
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    error = 0.0
    for number in range(_BINS):
        inside = bins == number
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - sure[inside].mean())
    return float(error)


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prediction --images")
    parser.add_argument("--images", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, default=Path(), help="folder that holds mnist.npz")
    parser.add_argument("--output", type=Path, default=Path("images"), help="folder of results")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=[*NETWORKS])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--budgets", nargs="+", type=float, default=[240.0, 1200.0])
    parser.add_argument("--seeds", type=int, default=3, help="how many; default: 3")
    parser.add_argument("--only-tables", action="store_true", help="compute no new line")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what images.csv lacks, and prints the table."""
    arguments = parsed(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "images.csv"
    if not arguments.only_tables:
        _measure(arguments, path)
    lines = _read(path)
    if not lines:
        print("There are no results.", file=sys.stderr)
        return 1
    text = table(lines)
    (arguments.output / "images.md").write_text(f"{text}\n", encoding="utf-8")
    print(text)
    return 0


def _measure(arguments: argparse.Namespace, path: Path) -> None:
    images = Images(arguments.data)
    for seed in range(arguments.seeds):
        for budget in arguments.budgets:
            for network in arguments.networks:
                for method in arguments.methods:
                    key = (network, method, f"{budget:g}", str(seed))
                    if key not in {_key(line) for line in _read(path)}:
                        _add(_measured(images, *key), path)


def _measured(images: Images, network: str, method: str, seconds: str, seed: str) -> dict[str, str]:
    """The line of one case."""
    import keras

    budget = Budget(float(seconds))
    predict, members = METHODS[method](images, NETWORKS[network], budget, int(seed))
    used = budget.used
    line = {"network": network, "method": method, "budget": seconds, "seed": seed}
    line |= {"processor_seconds": f"{used:.1f}", "members": str(members)}
    line |= {name: f"{value:.5g}" for name, value in scores(predict, images).items()}
    print(", ".join(f"{name} {value}" for name, value in line.items()), flush=True)
    keras.backend.clear_session()
    gc.collect()
    return line


def _key(line: dict[str, str]) -> tuple[str, str, str, str]:
    return line["network"], line["method"], line["budget"], line["seed"]


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def _add(line: dict[str, str], path: Path) -> None:
    known = _read(path)
    names = [*dict.fromkeys([*(known[0] if known else ()), *line])]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows([*known, line])


def table(lines: Sequence[dict[str, str]]) -> str:
    """The means over seeds as a table in Markdown, a row for each network, budget and method."""
    names = [name for name in lines[0] if name not in ("network", "method", "budget", "seed")]
    rows = [["network", "budget", "method", "seeds", *names]]
    groups = dict.fromkeys((one["network"], one["budget"], one["method"]) for one in lines)
    for network, budget, method in groups:
        here = [
            one
            for one in lines
            if (one["network"], one["budget"], one["method"]) == (network, budget, method)
        ]
        means = [np.mean([float(one[name]) for one in here if one.get(name)]) for name in names]
        rows.append([network, budget, method, str(len(here)), *(f"{mean:.4g}" for mean in means)])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
