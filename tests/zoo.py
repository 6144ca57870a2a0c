"""Small models of all kinds of layers, each with data that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import keras

layers = keras.layers
N = 6
_GENERATOR = np.random.default_rng(12)
ROWS = _GENERATOR.normal(size=(N, 3))
SERIES = _GENERATOR.normal(size=(N, 3, 2))
IMAGES = _GENERATOR.normal(size=(N, 4, 4, 1))
TOKENS = _GENERATOR.integers(0, 4, size=(N, 3))
LABELS = np.arange(N) % 3


class Animal(NamedTuple):
    """A model of the zoo.

    Attributes:
        make: Builds it, 3 outputs.
        inputs: Its inputs, arrays of N rows.
        options: What a Simulation with it has besides.
        fast: Its way of going through a resumed run is checked in every test run.
    """

    make: Callable[[], Any]
    inputs: Any
    options: dict[str, Any]
    fast: bool = False


@keras.saving.register_keras_serializable("tati_re_zoo")
class Subclassed(keras.Model):
    """A model of its own class, with a residual branch and a config."""

    def __init__(self, units: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.first = layers.Dense(units, "tanh")
        self.last = layers.Dense(3)

    def call(self, x: Any) -> Any:
        return self.last(x + self.first(x))

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"units": self.units}


def _row(shape: tuple[int, ...], *parts: Any, dtype: str | None = None) -> Any:
    return keras.Sequential([keras.Input(shape, dtype=dtype), *parts, layers.Dense(3)])


def _attention() -> Any:
    x = keras.Input((3, 2))
    seen = layers.MultiHeadAttention(num_heads=2, key_dim=2)(x, x)
    return keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(layers.Add()([x, seen]))))


def _shared() -> Any:
    x, layer = keras.Input((3,)), layers.Dense(3, "tanh")
    return keras.Model(x, layers.Dense(3)(layer(layer(x))))


def _two_inputs() -> Any:
    tokens, rows = keras.Input((3,), dtype="int32", name="tokens"), keras.Input((3,), name="rows")
    embedded = layers.Flatten()(layers.Embedding(4, 2)(tokens))
    return keras.Model([tokens, rows], layers.Dense(3)(layers.Concatenate()([embedded, rows])))


@keras.saving.register_keras_serializable("tati_re_zoo")
class Places(layers.Layer):
    """Adds a vector to each place of a sequence, as transformers do."""

    def build(self, shape: Any) -> None:
        self.vectors = self.add_weight(shape=tuple(shape[1:]), initializer="zeros", name="vectors")

    def call(self, x: Any) -> Any:
        return x + self.vectors


def _block(x: Any) -> Any:
    """A block of a transformer: attention and two dense layers, with what went in added, each after
    a normalization.
    """
    inside = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(num_heads=2, key_dim=1)(inside, inside)])
    return layers.Add()(
        [x, layers.Dense(2)(layers.Dense(2, "gelu")(layers.LayerNormalization()(x)))]
    )


def _vision_transformer() -> Any:
    x = keras.Input((4, 4, 1))
    patches = layers.Reshape((4, 2))(layers.Conv2D(2, 2, strides=2)(x))
    return keras.Model(
        x, layers.Dense(3)(layers.GlobalAveragePooling1D()(_block(Places()(patches))))
    )


def _text() -> Any:
    """Tokens, of which 0 fills up short texts and is masked out."""
    tokens = keras.Input((3,), dtype="int32")
    words = layers.Embedding(4, 2, mask_zero=True)(tokens)
    return keras.Model(tokens, layers.Dense(3)(layers.GlobalAveragePooling1D()(_block(words))))


def _subclassed() -> Any:
    model = Subclassed()
    model(np.zeros((1, 3), "float32"))
    return model


def _normalised() -> Any:
    norm = layers.BatchNormalization(momentum=0.8)
    return _row((3,), layers.Dense(3, "tanh", kernel_regularizer="l2"), norm)


ZOO = {
    "Dense": Animal(lambda: _row((3,), layers.Dense(4, "tanh")), ROWS, {}),
    "Conv1D": Animal(
        lambda: _row((3, 2), layers.Conv1D(2, 2, activation="tanh"), layers.Flatten()), SERIES, {}
    ),
    "Conv2D": Animal(
        lambda: _row((4, 4, 1), layers.Conv2D(2, 3, activation="tanh"), layers.Flatten()),
        IMAGES,
        {},
    ),
    "LSTM": Animal(lambda: _row((3, 2), layers.LSTM(2)), SERIES, {}),
    "GRU": Animal(lambda: _row((3, 2), layers.GRU(2)), SERIES, {}),
    "Embedding": Animal(
        lambda: _row((3,), layers.Embedding(4, 2), layers.Flatten(), dtype="int32"), TOKENS, {}
    ),
    "LayerNormalization": Animal(
        lambda: _row((3,), layers.Dense(3, "tanh"), layers.LayerNormalization()), ROWS, {}
    ),
    "BatchNormalization, frozen": Animal(_normalised, ROWS, {"batch_norm": "frozen"}),
    "BatchNormalization, batch": Animal(_normalised, ROWS, {"batch_norm": "batch"}),
    "attention": Animal(_attention, SERIES, {}),
    "vision transformer": Animal(_vision_transformer, IMAGES, {}),
    "text": Animal(_text, TOKENS, {}),
    "shared layers": Animal(_shared, ROWS, {}),
    "two inputs": Animal(_two_inputs, {"rows": ROWS, "tokens": TOKENS}, {}),
    "subclassed": Animal(_subclassed, ROWS, {}, True),
}


def built(name: str) -> Any:
    """The model, from a fixed seed, with every weight moved away from its start."""
    keras.utils.set_random_seed(8)
    model = ZOO[name].make()
    random = np.random.default_rng(1)
    model.set_weights([w + 0.2 * np.abs(random.normal(size=w.shape)) for w in model.get_weights()])
    return model
