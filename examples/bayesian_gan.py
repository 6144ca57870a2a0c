"""A semi-supervised Bayesian GAN: generators and discriminators as two simulations that take turns.

A discriminator gives an image ten logits l. It is real with probability Z / (1 + Z), Z = sum of exp
l, and of class c with exp(l_c) / Z. Its potential is the sum over images of -ln p(real), of -ln
p(class) where a label is known, with a weight by which all labels count as much as all images, and
of the mean -ln p(not real) of what each generator makes of a latent vector of the image; that of a
generator is the sum over these vectors of the mean -ln p(real). Latent vectors are drawn once, so
that both are functions of positions: each player reads the positions of the other,
`tati_re.Player.positions`.

The discriminator is a pair of replicas by reSGHMC, with corrected swaps, generators and their
samples are walkers of SGHMC; each has one step a round. The same discriminator by Adam on the
labels alone, and by SGHMC, stands beside it, with as many gradients as a round takes of the cold
replica.

    python examples/bayesian_gan.py --data FOLDER [--images cifar10] [--num-labels 100] [--full]
    [--output DIR]

FOLDER holds mnist.npz or cifar10_subset.npz. Writes results.csv, accuracy.csv and figure.png; a run
that was stopped goes on where it was when the same command is given again.

Published: W. Deng, Q. Feng, L. Gao, F. Liang, G. Lin, Non-convex learning via replica exchange
stochastic gradient MCMC (ICML 2020), section 5.3: convolutional networks on all images, features
matched.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re

PUBLISHED = published("resgld_gan")
LATENT = 16
MOMENTUM_LOST = 0.1
PRIOR_STD = 1.0
FACTOR, FACTOR_DECAY = 3e5, 0.8
"""F of the correction: that of the networks of section 5.2."""


class Sizes(NamedTuple):
    """How long everything runs.

    Attributes:
        num_labels: Images with a known label; 0: 100 for MNIST, 2,000 for CIFAR-10.
        num_images: Training images, with and without labels.
        num_test: Test images that count.
        num_generators: Generators.
        num_samples: Walkers of each.
        num_rounds: Steps of each player.
        batch_size: Of a gradient.
        width: Hidden units, or channels of the first layer times 4.
        num_draws: Positions of the discriminator whose predictions are averaged.
    """

    num_labels: int = 0
    num_images: int = 2_000
    num_test: int = 1_000
    num_generators: int = 2
    num_samples: int = 2
    num_rounds: int = 1_500
    batch_size: int = 64
    width: int = 64
    num_draws: int = 20


QUICK = Sizes(20, 60, 40, 1, 2, 20, 10, 4, 4)
FULL = Sizes(0, 10_000, 2_000, 10, 2, 15_000, 64, 256, 60)


class Images(NamedTuple):
    """Images `(n, height, width, channels)` from 0 to 1, and labels `(n,)`, -1 where none is
    known.
    """

    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


def scaled(images: np.ndarray) -> np.ndarray:
    return (images.reshape(*images.shape[:3], -1) / 255).astype(np.float32)


def read(folder: Path | None, name: str, sizes: Sizes, seed: int) -> Images:
    """The first images of a set, of which the first of each class keep their labels; without a
    folder, generated.
    """
    if folder is None:
        random = np.random.default_rng(seed)
        patterns, labels = (
            random.integers(0, 192, (10, 8, 8, 1)),
            np.arange(sizes.num_images + sizes.num_test) % 10,
        )
        images = patterns[labels] + random.integers(0, 64, (len(labels), 8, 8, 1))
        train, test = images[: sizes.num_images], images[sizes.num_images :]
        labels, test_labels = labels[: sizes.num_images], labels[sizes.num_images :]
    else:
        path = folder / {"mnist": "mnist.npz", "cifar10": "cifar10_subset.npz"}[name]
        if not path.is_file():
            raise tati_re.InputError(
                f"--data: there is no {path.name}.", folder, f"a folder that holds {path.name}"
            )
        with np.load(path) as file:
            train, labels, test, test_labels = (
                file[key] for key in ("x_train", "y_train", "x_test", "y_test")
            )
        for option, count, most in (
            ("--num-images", sizes.num_images, len(labels)),
            ("--num-test", sizes.num_test, len(test)),
        ):
            if not 1 <= count <= most:
                raise tati_re.InputError(f"{option} is out of range.", count, f"1 to {most:,}")
        train, labels = train[: sizes.num_images], labels[: sizes.num_images].ravel()
        test, test_labels = test[: sizes.num_test], test_labels[: sizes.num_test].ravel()
    known = np.full(len(labels), -1)
    for digit in range(10):
        chosen = np.flatnonzero(labels == digit)[: sizes.num_labels // 10]
        if len(chosen) < sizes.num_labels // 10:
            raise tati_re.InputError(
                "--num-labels: too few images of a class.", sizes.num_labels, f"{10 * len(chosen)}"
            )
        known[chosen] = digit
    return Images(scaled(train), known, scaled(test), test_labels)


def discriminator(shape: tuple[int, ...], width: int):
    """Ten logits of an image: a hidden layer where there is one channel, else two convolutions."""
    import keras
    from keras import layers

    if shape[-1] == 1:
        inner = [layers.Flatten(), layers.Dense(width, "leaky_relu")]
    else:
        inner = [
            layers.Conv2D(size, 3, 2, "same", activation="leaky_relu")
            for size in (width // 4, width // 2)
        ]
        inner.append(layers.Flatten())
    return keras.Sequential([keras.Input(shape), *inner, layers.Dense(10)], name="discriminator")


def generator(shape: tuple[int, ...], width: int):
    """An image of a latent vector."""
    import keras
    from keras import layers

    inner: list[Any] = [layers.Dense(width, "relu")]
    if shape[-1] == 1:
        inner += [layers.Dense(math.prod(shape), "sigmoid"), layers.Reshape(shape)]
    else:
        inner += [layers.Dense(8 * 8 * (width // 4), "relu"), layers.Reshape((8, 8, width // 4))]
        inner.append(layers.Conv2DTranspose(width // 4, 3, 2, "same", activation="relu"))
        inner.append(layers.Conv2DTranspose(shape[-1], 3, 2, "same", activation="sigmoid"))
    return keras.Sequential([keras.Input((LATENT,)), *inner], name="generator")


def outputs_of(model, positions, inputs) -> list:
    """The outputs of a network for each of several vectors of its parameters, `(walkers,
    parameters)`.
    """
    import keras

    shapes = [tuple(variable.shape) for variable in model.trainable_variables]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1].tolist()

    def of_one(vector):
        weights = [
            keras.ops.reshape(part, shape)
            for part, shape in zip(keras.ops.split(vector, ends), shapes, strict=True)
        ]
        return model.stateless_call(weights, [], inputs)[0]

    return [of_one(positions[walker]) for walker in range(positions.shape[0])]


def made_layers(weight: float = 1.0):
    """Classes and losses that need Keras; `weight` is that of a label."""
    import keras
    from keras import ops

    class Unreal(keras.layers.Layer):
        """Mean -ln p(not real) by a network of what the other player's networks make of inputs,
        `(n, 1)`.
        """

        def __init__(self, network, other: tuple[Any, tati_re.Player]) -> None:
            super().__init__()
            self.network, self.read = network, lambda z: outputs_of(other[0], other[1].positions, z)

        def call(self, latent):
            terms = [
                ops.softplus(ops.logsumexp(self.network(images), -1))
                for images in self.read(latent)
            ]
            return ops.mean(ops.stack(terms), 0)[:, None]

    class Real(keras.layers.Layer):
        """Mean -ln p(real) of images by the other player's networks, `(n, 1)`."""

        def __init__(self, other: tuple[Any, tati_re.Player]) -> None:
            super().__init__()
            self.read = lambda images: outputs_of(other[0], other[1].positions, images)

        def call(self, images):
            return ops.mean(
                ops.stack(
                    [ops.softplus(-ops.logsumexp(logits, -1)) for logits in self.read(images)]
                ),
                0,
            )[:, None]

    class OfDiscriminator(keras.losses.Loss):
        """-ln p(real), w times -ln p(class) where a label is known, and the last output."""

        def call(self, y_true, y_pred):
            label, logits, unreal = y_true[:, 0], y_pred[:, :10], y_pred[:, 10]
            total = ops.logsumexp(logits, -1)
            own = ops.sum(ops.one_hot(ops.cast(ops.maximum(label, 0), "int32"), 10) * logits, -1)
            return ops.softplus(-total) + weight * ops.where(label >= 0, total - own, 0.0) + unreal

    class OfGenerator(keras.losses.Loss):
        """The output."""

        def call(self, y_true, y_pred):
            return y_pred[:, 0]

    return Unreal, Real, OfDiscriminator(reduction=None), OfGenerator(reduction=None)


class Problem:
    """The game and the discriminator alone, at their starts."""

    def __init__(
        self,
        images: Images,
        sizes: Sizes,
        rate: float,
        temperatures: tuple[float, float],
        seed: int,
    ) -> None:
        import keras

        self.images, self.sizes = images, sizes
        keras.utils.set_random_seed(seed)
        shape = images.train.shape[1:]
        self.judge, self.maker = discriminator(shape, sizes.width), generator(shape, sizes.width)
        count, start = sizes.num_generators * sizes.num_samples, flat(self.judge)
        first, second = [flat(generator(shape, sizes.width)) for _ in range(count)], [start]
        judges, makers = tati_re.Player(np.stack(second)), tati_re.Player(np.stack(first))
        unreal, real, of_judge, of_maker = made_layers(
            len(images.labels) / np.sum(images.labels >= 0)
        )
        image, latent = keras.Input(shape, name="image"), keras.Input((LATENT,), name="latent")
        terms = [self.judge(image), unreal(self.judge, (self.maker, makers))(latent)]
        whole = keras.Model([image, latent], keras.layers.Concatenate()(terms))
        seen = keras.Input((LATENT,))
        # The networks that a player reads are other objects than those that move.
        fooled = keras.Model(
            seen,
            real((discriminator(shape, sizes.width), judges))(generator(shape, sizes.width)(seen)),
        )
        self.vectors = (
            np.random.default_rng(seed)
            .standard_normal((len(images.train), LATENT))
            .astype(np.float32)
        )
        labels = images.labels[:, None].astype(np.float32)
        step = math.sqrt(rate / len(labels))
        own = {
            "prior_std": PRIOR_STD,
            "execution": "graph",
            "walker_evaluation": "looped",
            "seed": seed,
            "verbose": 0,
        }
        own |= {
            "batch_size": sizes.batch_size,
            "friction": MOMENTUM_LOST / step,
            "record_every": 10,
        }
        every = max(1, sizes.num_rounds // (2 * sizes.num_draws))
        pair = {
            "sampler": "reSGHMC",
            "temperatures": list(temperatures),
            "step_sizes": [step, math.sqrt(1 / 0.66) * step],
        }
        pair |= {
            "swap_schedule": "all_pairs",
            "exchange_every": 10,
            "exchange_batch_size": min(256, len(labels)),
        }
        pair |= {
            "correction_factor": FACTOR,
            "correction_decay": FACTOR_DECAY,
            "trajectory_every": every,
        }
        single = {
            "sampler": "SGHMC",
            "temperature": temperatures[0],
            "step_size": step,
            "trajectory_every": every,
        }
        first_game = tati_re.Simulation(
            whole,
            ((images.train, self.vectors), labels),
            loss=of_judge,
            parameters=second[0],
            **own,
            **pair,
        )
        second_game = tati_re.Simulation(
            fooled,
            (self.vectors, 0 * labels),
            loss=of_maker,
            parameters=np.stack(first),
            num_walkers=count,
            **own,
            **single,
        )
        self.game = tati_re.Game(
            discriminator=(judges, first_game), generator=(makers, second_game)
        )
        self.makers = makers
        known = images.labels >= 0
        self.alone = tati_re.Simulation(
            self.judge,
            (images.train[known], images.labels[known]),
            loss="sparse_categorical_crossentropy",
            from_logits=True,
            parameters=start,
            **(own | {"batch_size": min(sizes.batch_size, int(known.sum()))}),
        )
        step = math.sqrt(rate / int(known.sum()))
        self.single = single | {"step_size": step, "friction": MOMENTUM_LOST / step}

    def accuracies(self, vectors: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
        """Test accuracy in % of the averages of the first 1, 2, ... predictions, and the NLL of the
        last average.
        """
        from tati_re.prediction import accuracy, negative_log_likelihood

        outputs = [
            self.alone.predict_probabilities(self.images.test, vector).astype(np.float64)
            for vector in vectors
        ]
        means = np.cumsum(outputs, axis=0) / np.arange(1, len(outputs) + 1)[:, None, None]
        labels = self.images.test_labels
        return np.array([100 * accuracy(mean, labels) for mean in means]), negative_log_likelihood(
            means[-1], labels
        )


def flat(model) -> np.ndarray:
    return np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])


def positions(run, after: int) -> tuple[list[int], list[np.ndarray]]:
    from tati_re.analysis import stored_positions

    kept = [(place.step, place.parameters) for place in stored_positions(run) if place.step > after]
    return [step for step, _ in kept], [vector for _, vector in kept]


def played(problem: Problem, settings: dict[str, Any], output: Path) -> dict[str, Any]:
    """The runs of the game: from its start, or where the same one was stopped."""
    folder, said = output / "game", output / "settings.json"
    rounds = settings["num_rounds"]
    if said.is_file() and (folder / "generator").is_dir():
        before = json.loads(said.read_text(encoding="utf-8"))
        if before | {"num_rounds": rounds} != settings:
            raise tati_re.InputError(
                "--output holds a game with other settings.", output, "another folder"
            )
        return problem.game.resume(folder, rounds)
    output.mkdir(parents=True, exist_ok=True)
    said.write_text(json.dumps(settings), encoding="utf-8")
    return problem.game.sample(rounds, output=folder)


def draw(rows: list[tuple], results: list[tuple], made: np.ndarray, path: Path) -> None:
    """Draws the accuracy over the rounds, and images of the generators."""
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    figure = new_figure(9.0, 3.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    steps, average, last = zip(*rows, strict=True)
    left.plot(steps, average, color=COLORS[0], label="GAN, average of draws")
    left.plot(steps, last, ".", color=COLORS[0], markersize=4, label="GAN, single draws")
    for (name, value, _), style in zip(results[1:], ("--", ":"), strict=True):
        left.axhline(value, color=GRAY, linestyle=style, label=name)
    left.set_xlabel("round")
    left.set_ylabel("test accuracy in %")
    left.legend(fontsize=7, frameon=False)
    plain(left)
    tiles = np.concatenate([np.concatenate(list(row), axis=1) for row in made], axis=0)
    right.imshow(tiles.squeeze(), cmap="gray", vmin=0, vmax=1)
    right.set_title("one row a generator's walker", fontsize=9, loc="left")
    right.axis("off")
    save(figure, path)


def experiment(
    data: Path | None, name: str, sizes: Sizes, rate: float, hot: float, seed: int, output: Path
) -> None:
    """Plays, scores and draws; without a folder on generated images.

    Raises:
        InputError: A file that is not there, a size that does not fit, or a folder with another
            game.
    """
    sizes = sizes._replace(num_labels=sizes.num_labels or {"mnist": 100, "cifar10": 2_000}[name])
    if sizes.num_rounds < 2 * sizes.num_draws:
        raise tati_re.InputError(
            "--num-rounds is too small.", sizes.num_rounds, f"at least {2 * sizes.num_draws}"
        )
    images, temperatures = read(data, name, sizes, seed), (0.01, 0.01 * hot)
    problem = Problem(images, sizes, rate, temperatures, seed)
    judge, maker = (sim for _, sim in problem.game.players.values())
    print(
        f"{sizes.num_labels} labels, {len(images.train):,} images; discriminator of {judge.num_parameters():,} "
        f"parameters at T = {temperatures[0]:g} and {temperatures[1]:g}, {maker.num_walkers()} generators of "
        f"{maker.num_parameters():,}; {sizes.num_rounds:,} rounds",
        flush=True,
    )
    settings = {**sizes._asdict(), "images": name, "rate": rate, "hot": hot, "seed": seed}
    runs = played(problem, settings, output)
    steps, vectors = positions(runs["discriminator"], sizes.num_rounds // 2)
    average, nll = problem.accuracies(vectors)
    single = [problem.accuracies([vector])[0][0] for vector in vectors]
    results = [("Bayesian GAN, average", float(average[-1]), nll)]
    alone, start = problem.alone, problem.alone.parameters.copy()
    alone.fit(optimizer="adam", learning_rate=0.001, num_steps=sizes.num_rounds, trajectory_every=0)
    found, nll = problem.accuracies([alone.parameters])
    results.append(("Adam, labels alone", float(found[-1]), nll))
    alone.parameters = start
    found, nll = problem.accuracies(
        positions(
            alone.sample(**problem.single, num_steps=sizes.num_rounds), sizes.num_rounds // 2
        )[1]
    )
    results.append(("SGHMC, labels alone", float(found[-1]), nll))
    swaps = runs["discriminator"].exchanges["accepted"]
    print(f"\n{'':24}test accuracy, %  NLL")
    for title, value, loss in results:
        print(f"{title:24}{value:<18.2f}{loss:.3f}")
    print(f"swaps: {swaps.sum():.0f} of {len(swaps)} tries")
    for title in ("CIFAR-10", "SVHN"):
        print(f"published, {title}: {' to '.join(PUBLISHED[title])} %")
    rows = list(zip(steps, average.tolist(), single, strict=True))
    for table, header, path in (
        (results, "method,accuracy,nll", "results.csv"),
        (rows, "round,average,single", "accuracy.csv"),
    ):
        text = "\n".join([header, *(",".join(str(value) for value in row) for row in table), ""])
        (output / path).write_text(text, encoding="utf-8")
    made = [
        np.asarray(images)
        for images in outputs_of(problem.maker, problem.makers.positions, problem.vectors[:6])
    ]
    draw(rows, results, np.stack(made[:6]), output / "figure.png")
    print(f"{output / 'results.csv'}, {output / 'accuracy.csv'}, {output / 'figure.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="A semi-supervised Bayesian GAN.")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder that holds mnist.npz or cifar10_subset.npz",
    )
    parser.add_argument(
        "--images", choices=["mnist", "cifar10"], default="mnist", help="default mnist"
    )
    parser.add_argument(
        "--learning-rate",
        type=float,
        default=0.001,
        metavar="R",
        help="of the mean loss; default 0.001",
    )
    parser.add_argument(
        "--hot",
        type=float,
        default=100.0,
        metavar="R",
        help="ratio of the temperatures; default 100",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    for name, default in Sizes._field_defaults.items():
        parser.add_argument(
            "--" + name.replace("_", "-"), type=int, metavar="N", help=f"default {default:,}"
        )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="generated images, seconds")
    size.add_argument(
        "--full",
        action="store_true",
        help="10 generators x 2 samples and 15,000 rounds, as published",
    )
    parser.add_argument("--output", type=Path, default=Path("results/bayesian_gan"), metavar="DIR")
    arguments = parser.parse_args(argv)
    given = {
        name: getattr(arguments, name)
        for name in Sizes._fields
        if getattr(arguments, name) is not None
    }
    sizes = (QUICK if arguments.quick else FULL if arguments.full else Sizes())._replace(**given)
    try:
        if arguments.data is None and not arguments.quick:
            raise tati_re.InputError(
                "--data is missing.", None, "a folder with mnist.npz, or --quick"
            )
        data = None if arguments.quick else arguments.data
        rate, hot = arguments.learning_rate, arguments.hot
        experiment(data, arguments.images, sizes, rate, hot, arguments.seed, arguments.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
