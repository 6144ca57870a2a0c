"""What is measured: random images, a few networks, and the rows of the table."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NUM_EXAMPLES = 55_000
BATCH_SIZE = 550
STEP_SIZE = 1e-4
FRICTION = 10.0


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        network: "784-10", "784-100-10", "conv", "lstm" or "resnet20".
        walkers: Number of walkers.
        batches: "own" or "shared".
        batch_size: Examples in a mini-batch.
        examples: Of the data.
    """

    network: str
    walkers: int
    batches: str = "own"
    batch_size: int = BATCH_SIZE
    examples: int = NUM_EXAMPLES

    @property
    def name(self) -> str:
        """As it is typed after `--rows`, such as `784-10x8-own`."""
        return f"{self.network}x{self.walkers}" + (f"-{self.batches}" if self.walkers > 1 else "")

    @property
    def hidden(self) -> list[int]:
        """Units of the hidden layers of a dense network."""
        return [int(units) for units in self.network.split("-")[1:-1]]

    @property
    def dense(self) -> bool:
        """Whether the network is one of dense layers, whose walkers can be vectorized."""
        return self.network[0].isdigit()

    @property
    def in_jax(self) -> bool:
        """Whether the JAX peer knows the network."""
        return self.dense or self.network == "resnet20"

    @property
    def evaluations(self) -> tuple[str, ...]:
        """The ways to evaluate the walkers that differ for this row."""
        return (
            ("unrolled", "vectorized", "looped")
            if self.dense and self.walkers > 1
            else ("unrolled", "looped")
        )


DENSE = tuple(
    Row(network, *rest)
    for network in ("784-10", "784-100-10")
    for rest in ((1,), (8, "own"), (8, "shared"))
)
OTHER = (
    Row("conv", 1, batch_size=100),
    Row("conv", 4, batch_size=100),
    Row("lstm", 1, batch_size=100),
)
ON_GPU = (
    Row("784-100-10", 64),
    Row("resnet20", 1, batch_size=256),
    Row("resnet20", 8, batch_size=256),
)
ROWS = {row.name: row for row in DENSE + OTHER + ON_GPU}
"""Those after `OTHER` take minutes on a processor."""
SHAPES = {"conv": (28, 28, 1), "lstm": (28, 28), "resnet20": (32, 32, 3)}


def images(
    shape: tuple[int, ...] = (784,), count: int = NUM_EXAMPLES
) -> tuple[np.ndarray, np.ndarray]:
    """Random images of bytes and their random labels, always the same."""
    generator = np.random.default_rng(0)
    inputs = generator.integers(0, 256, (count, *shape), np.uint8)
    return inputs, generator.integers(0, 10, count, np.int32)


class Measured(NamedTuple):
    """A row as a Simulation would make it.

    Attributes:
        potential: U.
        position: Of the walkers, `(walkers, parameters)`.
        options: The options.
        execution: What the option came to.
    """

    potential: Any
    position: np.ndarray
    options: Any
    execution: str


def measured(
    row: Row, execution: str = "auto", walker_evaluation: str = "auto", prior: str = "gaussian"
) -> Measured:
    """Makes the potential of a row.

    The images stay bytes with scale 1/255, so that gathering a mini-batch moves bytes.

    Args:
        row: Network, walkers, batches.
        execution: As the option.
        walker_evaluation: As the option.
        prior: As the option.
    """
    import tati_re
    from tati_re.data import Dataset

    inputs, labels = images(SHAPES.get(row.network, (784,)), row.examples)
    data = Dataset(inputs, labels, name="images", input_scale=1 / 255, num_classes=10)
    sim = tati_re.Simulation(
        None if row.dense else _network(row.network),
        data,
        hidden=row.hidden if row.dense else [],
        activation="relu",
        batch_size=row.batch_size,
        num_walkers=row.walkers,
        walker_batches=row.batches,
        execution=execution,
        walker_evaluation=walker_evaluation,
        prior=prior,
        batch_norm="batch" if row.network == "resnet20" else "frozen",
        step_size=STEP_SIZE,
        friction=FRICTION,
    )
    position = np.repeat(sim.system.flat.get()[None], row.walkers, axis=0)
    return Measured(
        sim.system.potential(sim.options), position, sim.options, sim.system.execution(sim.options)
    )


def _network(name: str):
    import keras

    keras.utils.set_random_seed(0)
    if name == "resnet20":
        sys.path.append(str(Path(__file__).parents[1] / "examples"))
        return importlib.import_module("resghmc_resnet").resnet((32, 32, 3), 3, 16)
    if name == "conv":
        layers = [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
        ]
    else:
        layers = [keras.Input((28, 28)), keras.layers.LSTM(16)]
    return keras.Sequential([*layers, keras.layers.Dense(10)])
