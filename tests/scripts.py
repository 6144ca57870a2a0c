"""The scripts of the folder `examples`, and images for those that take MNIST."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str):
    """Loads a script of the folder `examples` as a module."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_images(folder: Path, train: int, test: int) -> None:
    """`mnist.npz` with images of ten classes, each a pattern of its own plus noise."""
    generator = np.random.default_rng(3)
    patterns = generator.integers(0, 128, (10, 28, 28))
    arrays = {}
    for part, count in (("train", train), ("test", test)):
        labels = np.arange(count) % 10
        arrays[f"x_{part}"] = (
            patterns[labels] + generator.integers(0, 128, (count, 28, 28))
        ).astype(np.uint8)
        arrays[f"y_{part}"] = labels.astype(np.uint8)
    np.savez(folder / "mnist.npz", **arrays)
