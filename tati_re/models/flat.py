"""A Keras model as a function of one flat vector of its trainable parameters, some of whose entries
may be fixed.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import keras, layers_of, tf
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.user_input import users_code
from tati_re.models import inspect
from tati_re.models.inputs import called
from tati_re.models.names import (
    PartShape,
    described_names,
    fan_in_plus_one,
    fans_by_layer,
    tensor_names,
)
from tati_re.options.patterns import matches

_ENTRIES = re.compile(r"(.*?)\[([\d\s,*]*)\]$")
_TATI = re.compile(r"(?:layer(\d+)|(output))/(weights|biases)/Variable(?:_\d+)?:0$")


class Fixed(NamedTuple):
    """The fixed entries of one tensor: a mask of its shape, True where fixed, and values, of which
    only those count.
    """

    mask: np.ndarray
    values: np.ndarray


def items(patterns: str | Sequence[str] | None) -> list[tuple[str, str | None]]:
    """Patterns and the text of their values, None to keep the model's. Each given text is `pattern`
    or `pattern=values`, or several of these separated by `;`, as in "dense/bias;output/*=0,0.5".
    """
    texts = [patterns] if isinstance(patterns, str) else list(patterns or ())
    parts = [part.strip() for text in texts for part in text.split(";")]
    pairs = [part.partition("=") for part in parts if part]
    return [(name.strip(), values.strip() if equals else None) for name, equals, values in pairs]


def fixed_parts(
    patterns: str | Sequence[str] | None, names: Sequence[str], values: Sequence[np.ndarray]
) -> list[Fixed | None]:
    """The fixed entries of each tensor, None where there are none.

    A pattern is a tensor's name or the end of it after a slash, with `*` and `?` as in file names,
    and perhaps entries: `dense/bias`, `bias`, `dense_1/*`, `dense/kernel[0,3]`,
    `dense/kernel[0,*]`. For networks of dense layers TATi's names mean the same:
    `layer1/weights/Variable:0`, `output/biases/Variable:0`. A value of one number stands for all
    entries, else there is one for each. Of two values the later counts.

    Args:
        patterns: Patterns, perhaps with values, as for `items`. None: nothing is fixed.
        names: Names of the tensors.
        values: Values of the tensors, which stay where a pattern has none.

    Raises:
        InputError: A pattern matches no tensor or entry, or its values do not fit.
    """
    fixed: list[Fixed | None] = [None] * len(names)
    for pattern, text in items(patterns):
        tensor, entries = _tensor_and_entries(pattern, names)
        hits = [i for i, name in enumerate(names) if matches(tensor, name)]
        if not hits:
            listed = f"{', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"
            problem = f"fix_parameters: no parameter of the model matches the pattern.{nearest(tensor, names)}"
            raise InputError(problem, repr(pattern), f"a pattern that matches {listed}")
        for i in hits:
            old = fixed[i] or Fixed(np.zeros(values[i].shape, bool), np.array(values[i]))
            mask = _mask(pattern, entries, names[i], values[i].shape)
            if text is not None:
                old.values[mask] = _numbers(pattern, text, names[i], int(mask.sum()))
            fixed[i] = Fixed(old.mask | mask, old.values)
    return fixed


def _tensor_and_entries(pattern: str, names: Sequence[str]) -> tuple[str, str | None]:
    if (match := _ENTRIES.match(pattern)) is not None:
        return match[1], match[2]
    if (theirs := _TATI.match(pattern)) is not None:
        layers = list(dict.fromkeys(name.rsplit("/", 1)[0] for name in names))
        dense = layers == [f"dense_{k}" if k else "dense" for k in range(len(layers))]
        number = len(layers) if theirs[2] else int(theirs[1])
        if dense and 1 <= number <= len(layers) - (not theirs[2]):
            return f"{layers[number - 1]}/{'kernel' if theirs[3] == 'weights' else 'bias'}", None
    return pattern, None


def _mask(pattern: str, entries: str | None, name: str, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.zeros(shape, bool)
    if entries is None:
        mask[...] = True
        return mask
    parts = [part.strip() for part in entries.split(",")]
    inside = len(parts) == len(shape) and all(
        part == "*" or (part.isdigit() and int(part) < length)
        for part, length in zip(parts, shape, strict=False)
    )
    last = ",".join(str(length - 1) for length in shape)
    zeros = ",".join("0" for _ in shape)
    problem = f"fix_parameters: {name} has no such entry."
    refuse_if(not inside, problem, repr(pattern), f"{name}[{zeros}] to {name}[{last}]")
    mask[tuple(slice(None) if part == "*" else int(part) for part in parts)] = True
    return mask


def _numbers(pattern: str, text: str, name: str, count: int) -> np.ndarray:
    try:
        numbers = np.array([float(part) for part in text.strip("[]").split(",") if part.strip()])
    except ValueError:
        problem = "fix_parameters: the values are not numbers."
        raise InputError(problem, f"{pattern}={text}", f"{pattern}=0, or {count} numbers") from None
    if len(numbers) not in (1, count) or not np.isfinite(numbers).all():
        expected = (
            f"one finite number for all, or {count} numbers for {name}"
            if count > 1
            else f"one finite number for {name}"
        )
        raise InputError(
            "fix_parameters: the number of values does not match the tensor.",
            f"{len(numbers)} of them",
            expected,
        )
    return numbers


class FlatModel:
    """The trainable variables of a Keras model as one vector of P parameters.

    They keep their order, and are flattened row by row. Nothing here holds a state: `call` runs in
    Keras' `StatelessScope`. Functions of tensors run eagerly, in a graph, under XLA and in
    `tf.vectorized_map`. A model whose variables move otherwise (constraints), or whose loss has
    terms that depend on activations, is refused.

    Args:
        model: A built Keras model with one output. Its trainable variables are of one type, float32
            or float64 (`in_precision`).
        fix: Parameters that keep their values, as for `fixed_parts`. Default: None.
        whole: Model that contains this one; tensors then have their names there. Default: None.

    Attributes:
        variables: Trainable variables that are not fixed as a whole.
        shapes: Their shapes, (free entries,) where some are fixed.
        tensor_names: Their names by place.
        parts: By name, whole shape and numbers of fixed entries.
        num_fixed: Number of parameters that do not move.
        others: The non-trainable variables, then the fixed ones.
        auxiliary: Values of `others`.
        input_dtype: Type of the inputs that the model takes.
        training_layers: Kinds of layers that act differently while training.
        vectorizable: Whether the layers can be computed as single large operations.
        xla_safe: Whether the gradient compiles under XLA.
        recurrent: Whether there are recurrent layers, which are loops.
        regularizer: Function of the weights of one walker, the sum of their regularizers; or None.
        head: The part that is sampled where the rest is frozen, see `LastLayer`; else None.
    """

    samples_noise = False
    num_extra = 0
    extra_names: Sequence[str] = ()
    head: "FlatModel | None" = None

    def __init__(
        self, model: Any, fix: str | Sequence[str] | None = None, whole: Any = None
    ) -> None:
        inspect.refuse_unsupported(model)
        self.model = model
        self._fix = fix
        self._whole = whole
        self._choose(fix)
        variables = self.variables
        self._sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self.shapes]
        self.num_parameters = sum(self._sizes)
        self.num_fixed = (
            sum(int(np.prod(v.shape)) for v in model.trainable_variables) - self.num_parameters
        )
        self.dtype: str = variables[0].dtype
        self.input_dtype = inspect.input_dtype_of(model) or self.dtype
        self.training_layers = inspect.training_layers(model)
        self.has_training_state = bool(self.training_layers)
        self.vectorizable = inspect.vectorizable(model)
        self.xla_safe = inspect.xla_safe(model)
        self.recurrent = any(isinstance(layer, keras.layers.RNN) for layer in layers_of(model))
        terms = [(i, v.regularizer) for i, v in enumerate(variables) if v.regularizer is not None]
        self.regularized = [self.tensor_names[i] for i, _ in terms]

        def regularizer(weights: Sequence[Any]) -> Any:
            with users_code(
                f"model: a regularizer in {self.dtype}", "a regularizer that accepts such weights"
            ):
                return tf.add_n([tf.cast(term(weights[i]), self.dtype) for i, term in terms])

        self.regularizer = regularizer if terms else None

    def __reduce__(self) -> Any:
        """A copy, or what a pickle holds, has the variables of its own copy of the model."""
        return FlatModel, (self.model, self._fix, self._whole)

    def _choose(self, fix: str | Sequence[str] | None) -> None:
        trainable = self.model.trainable_variables
        names = tensor_names(self.model, self._whole)
        fixed = (
            fixed_parts(fix, names, [v.numpy() for v in trainable]) if fix else [None] * len(names)
        )
        free = [i for i, part in enumerate(fixed) if part is None or not part.mask.all()]
        refuse_if(
            not free,
            "fix_parameters: all parameters are fixed.",
            fix,
            "at least one free parameter",
        )
        self.variables = [trainable[i] for i in free]
        self.tensor_names = [names[i] for i in free]
        self.others = [*self.model.non_trainable_variables]
        self.auxiliary = [np.array(v.numpy()) for v in self.others]
        for variable, part in zip(trainable, fixed, strict=True):
            if part is not None and part.mask.all():
                self.others.append(variable)
                self.auxiliary.append(part.values)
        self._full_shapes: list[tuple[int, ...]] = [tuple(v.shape) for v in self.variables]
        self._constants = [_Constant(fixed[i]) if fixed[i] is not None else None for i in free]
        by_layer = fans_by_layer(self.model)
        whole = [
            PartShape(v.shape, by_layer[id(v)]) if id(v) in by_layer else tuple(v.shape)
            for v in trainable
        ]
        self.shapes = [whole[i] for i in free]
        self.parts = {}
        if fix:
            # What a unit has as inputs does not depend on which of its weights move.
            fans = np.split(
                fan_in_plus_one(names, whole),
                np.cumsum([int(np.prod(v.shape)) for v in trainable])[:-1],
            )
            sizes = [
                s if c is None else (len(c.free),)
                for c, s in zip(self._constants, self.shapes, strict=True)
            ]
            self.shapes = [
                PartShape(size, fans[i][0] - 1) for size, i in zip(sizes, free, strict=True)
            ]
            self.parts = {
                name: {"shape": list(shape), "fixed": c.still.tolist()}
                for name, shape, c in zip(
                    self.tensor_names, self._full_shapes, self._constants, strict=True
                )
                if c is not None
            }
        self._kept = None
        if self.parts:
            sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self._full_shapes]
            starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
            free_entries = [
                np.arange(size) if c is None else c.free
                for c, size in zip(self._constants, sizes, strict=True)
            ]
            self._kept = np.concatenate(
                [a + b for a, b in zip(starts, free_entries, strict=True)]
            ).astype(np.int32)

    @property
    def widest(self) -> int:
        """Units of the widest layer, by the shapes of the tensors."""
        return max((shape[-1] for shape in self.shapes if shape), default=1)

    def described(self) -> dict[str, Any]:
        """Returns the parameters' entry in the manifest, from which `described_names` makes their
        names.
        """
        shapes = [list(shape) for shape in self.shapes]
        description = {"num": self.num_parameters, "names": self.tensor_names, "shapes": shapes}
        return description | ({"parts": self.parts} if self.parts else {})

    def parameter_names(self) -> list[str]:
        """Returns the P names of the parameters, in the order of the vector:
        `dense/kernel[0,3]`.
        """
        return described_names(self.described())

    def get(self) -> np.ndarray:
        """Returns the current parameters of the Keras model, `(P,)`."""
        pairs = zip([v.numpy().reshape(-1) for v in self.variables], self._constants, strict=True)
        return np.concatenate(
            [value if part is None else value[part.free] for value, part in pairs]
        )

    def set(self, vector: Any) -> None:
        """Writes parameters `(P,)`, and the fixed entries of their tensors, into the Keras
        model.
        """
        vector = np.asarray(vector)
        if vector.shape != (self.num_parameters,):
            raise InputError(
                "The parameters do not match the model.", vector.shape, f"({self.num_parameters},)"
            )
        pieces = np.split(vector, np.cumsum(self._sizes)[:-1])
        targets = zip(self.variables, pieces, self._constants, self._full_shapes, strict=True)
        for variable, piece, part, shape in targets:
            variable.assign(
                (piece if part is None else part.whole(piece)).reshape(shape).astype(self.dtype)
            )

    def split(self, position: Any) -> list[Any]:
        """Returns the weights of all walkers, a list of `(walkers, *shape)`, of positions
        `(walkers, P)`.
        """
        parts = zip(
            tf.split(position, self._sizes, axis=1), self._constants, self._full_shapes, strict=True
        )
        return [
            tf.reshape(p if part is None else part.filled(p), (-1, *shape))
            for p, part, shape in parts
        ]

    def split_one(self, vector: Any) -> list[Any]:
        """Returns the weights of one walker, a list of tensors of `shapes`, of a vector `(P,)`."""
        parts = zip(
            tf.split(vector, self._sizes, axis=0), self._constants, self._full_shapes, strict=True
        )
        return [
            tf.reshape(p if part is None else part.filled(p[None]), shape)
            for p, part, shape in parts
        ]

    def join(self, weights: Sequence[Any]) -> Any:
        """Returns positions `(walkers, P)` of weights of all walkers, a list of `(walkers,
        *shape)`: undoes `split`.
        """
        pairs = zip(
            weights,
            [int(np.prod(shape, dtype=np.int64)) for shape in self._full_shapes],
            strict=True,
        )
        return self.free(
            tf.concat([tf.reshape(weight, (-1, size)) for weight, size in pairs], axis=1)
        )

    def free(self, vectors: Any) -> Any:
        """Returns the free entries, `(walkers, P)`, of all entries of the variables, `(walkers,
        entries)`.
        """
        return vectors if self._kept is None else tf.gather(vectors, self._kept, axis=1)

    def call(
        self, weights: Sequence[Any], auxiliary: Sequence[Any], x: Any, training: bool = False
    ) -> tuple[Any, tuple]:
        """The outputs (n, ...) of one walker, and the non-trainable variables after the call.

        Args:
            weights: Tensors in the shapes of `variables`.
            auxiliary: Tensors in the shapes of `self.auxiliary`.
            x: Inputs, (n, ...); several inputs of a model stand side by side, (n, numbers).
            training: Whether layers act as in training, with batch statistics and dropout. Default:
                False.
        """
        # Keras' own stateless_call skips what calling a model does: casting its inputs, telling
        # layers that they train.
        variables = [*self.variables, *self.others]
        with keras.StatelessScope(
            list(zip(variables, [*weights, *auxiliary], strict=True))
        ) as scope:
            outputs = called(self.model, x, training)
        return outputs, tuple([scope.get_current_value(variable) for variable in self.others])


class _Constant:
    """A tensor with some fixed entries: numbers of the entries that are `free`, the last index
    fastest, and `still`.
    """

    def __init__(self, fixed: Any) -> None:
        mask = fixed.mask.reshape(-1)
        self._values = fixed.values.reshape(-1)
        self.free = np.flatnonzero(~mask)
        self.still = np.flatnonzero(mask)
        self._order = np.argsort(np.concatenate([self.free, self.still])).astype(np.int32)

    def whole(self, moving: np.ndarray) -> np.ndarray:
        """Returns all entries, `(entries,)`, from the free ones."""
        values = np.array(self._values)
        values[self.free] = moving
        return values

    def filled(self, moving: Any) -> Any:
        """Returns all entries, `(walkers, entries)`, from the free ones, `(walkers, free)`."""
        values = tf.constant(self._values[self.still], moving.dtype)
        rows = tf.broadcast_to(values[None], (tf.shape(moving)[0], len(self.still)))
        return tf.gather(tf.concat([moving, rows], 1), self._order, axis=1)
