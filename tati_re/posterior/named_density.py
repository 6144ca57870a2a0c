"""A density of named parameters with supports, written by users for one draw."""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, abbreviated, nearest, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.user_input import error_text, masked_entries, seeded
from tati_re.supports.contract import Support
from tati_re.supports.layout import ParameterLayout

EXPECTED = (
    "a function of parameters and data by their names that returns one log density, in TensorFlow"
)
EXPECTED_OF_OTHERS = "a function of parameters and data by their names, in TensorFlow"
DTYPES = ("float32", "float64")
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
_CONTROL_FLOW = {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"}


@front_doors
class NamedDensity:
    """The log density of named parameters as a potential of free coordinates.

    The potential is U = -log density - log |Jacobian| of the maps of the supports, so the
    parameters have the given density. It is a function of free coordinates for
    `Simulation(potential=...)`; `Simulation(log_density=...)` creates one.

    Args:
        log_density: The log density of one draw, up to a constant, in TensorFlow. Its arguments are
            the names of parameters, arrays in their own shapes, and the names of data.
        parameters: The support of each parameter by its name.
        data: Arrays and numbers by name. Floats and arrays become tensors; integers, booleans and
            strings stay as they are. Default: None.
        log_likelihood: A function like `log_density` that returns the log density of each
            observation, for `run.loo()`. Default: None.
        generated: Functions of parameters and data by name, for one draw each. They may have an
            argument `seed`, two int32 numbers for functions such as `tf.random.stateless_normal`.
            Default: None.
        dtype: "float64" or "float32". Default: "float64".

    Raises:
        InputError: A function fails, has unknown arguments or does not return what it should, or
            data are not arrays of numbers that the type can hold.

    Examples:
        >>> density = NamedDensity(lambda sigma: -sigma, {"sigma": tati_re.supports.positive()})
        >>> density.dimension
        1
    """

    def __init__(
        self,
        log_density: Callable,
        parameters: Mapping[str, Support],
        data: Mapping[str, Any] | None = None,
        *,
        log_likelihood: Callable | None = None,
        generated: Mapping[str, Callable] | None = None,
        dtype: str = "float64",
    ) -> None:
        refuse_if(
            not isinstance(parameters, Mapping),
            "parameters: a log density needs named parameters.",
            abbreviated(parameters, 60),
            'parameters={"beta": real(4), "sigma": positive()}, from tati_re.supports',
        )
        problem = "dtype has an unknown value."
        refuse_if(dtype not in DTYPES, problem, abbreviated(dtype, 40, repr), " or ".join(DTYPES))
        self.layout = ParameterLayout(parameters)
        self.dtype = dtype
        self.data = self._stored(data)
        self.log_density = log_density
        self.log_likelihood = log_likelihood
        self.generated = _table_of_functions(generated)
        self.name = name_of(log_density)
        self._taken = {"log_density": self._names_taken("log_density", log_density)}
        left_out = [name for name in self.layout.supports if name not in self._taken["log_density"]]
        refuse_if(
            left_out,
            f"log_density: the function does not take the parameter {(left_out or [''])[0]}.",
            f"{self.name}({', '.join(self._taken['log_density'])})",
            ", ".join(self.layout.supports),
        )
        if log_likelihood is not None:
            self._taken["log_likelihood"] = self._names_taken("log_likelihood", log_likelihood)
        for name, function in self.generated.items():
            key = f"generated: {name}"
            self._taken[key] = self._names_taken(key, function, beside=("seed",))
            both = "seed" in self._taken[key] and "seed" in [*self.layout.supports, *self.data]
            problem = f"{key}: seed means the random numbers, and a parameter or data as well."
            refuse_if(both, problem, expected="another name for the parameter or data")
        self._check()

    @property
    def dimension(self) -> int:
        """The number of free coordinates."""
        return self.layout.dimension

    @property
    def missing_data(self) -> list[str]:
        """The names of data that hold NaN."""
        arrays = {name: value for name, value in self.data.items() if tf.is_tensor(value)}
        return [name for name, value in arrays.items() if np.isnan(value.numpy()).any()]

    def __call__(self, position: Any) -> Any:
        """U of free coordinates.

        Args:
            position: Free coordinates, a tensor, `(walkers, dimension)`.

        Returns:
            U, `(walkers,)`.
        """
        return self.with_data_of_rows(position, {})

    def with_data_of_rows(self, position: Any, data: Mapping[str, Any]) -> Any:
        """Returns U of free coordinates, with different data for each row.

        Args:
            position: Free coordinates, a tensor, `(n, dimension)`.
            data: Tensors in place of the density's own arrays, by name, `(n, *shape)` each; an
                array without an entry is the same for all rows.

        Returns:
            U, `(n,)`.
        """
        values, log_jacobian = self.layout.constrain(position)
        if self._has_loops:
            log_density = self._of_draws("log_density", self.log_density, values, data)
        else:
            log_density = self._with_own_gradient(values, data)
        return -(tf.cast(log_density, position.dtype) + log_jacobian)

    def _with_own_gradient(self, values: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
        """The log density of draws with data of their own, `(n,)`.

        The gradient is computed draw by draw next to the value. TensorFlow's own would pass axes of
        sums from the mapped function to its gradient. XLA takes axes for constants, and with them
        all arguments of the function: it would compile again for each new data set, and after each
        window of the burn-in, which changes the scales of the coordinates. TensorFlow cannot map the
        gradient of a loop.
        """
        names = list(values)

        @tf.custom_gradient
        def log_density(*parameters: Any) -> Any:
            draws = dict(zip(names, parameters, strict=True))
            by_draw, shared = self._arguments("log_density", draws, data)
            value, slopes = self._mapped(by_draw, shared)

            def gradient(upstream: Any) -> list[Any]:
                return [_for_each_draw(upstream, slopes[name]) * slopes[name] for name in names]

            return value, gradient

        return log_density(*values.values())

    @cached_property
    def _mapped(self) -> Callable:
        """Log densities of draws and their derivatives, `(n,)` and `(n, *shape)` by parameter.

        It is traced once for each number of draws. A run takes it some ten times: for the checks,
        the descent, the first step, and each place of the steps where the gradient is needed.
        """

        def mapped(by_draw: Mapping[str, Any], shared: Mapping[str, Any]) -> Any:
            return tf.vectorized_map(lambda draw: self._value_and_slopes(**draw, **shared), by_draw)

        return tf.function(mapped, autograph=False)

    def _value_and_slopes(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """The log density of one draw and its derivatives by parameter."""
        parameters = {name: arguments[name] for name in self.layout.supports}
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = tf.convert_to_tensor(self.log_density(**arguments))
        zero = tf.UnconnectedGradients.ZERO
        return value, tape.gradient(value, parameters, unconnected_gradients=zero)

    def log_likelihoods(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns the log density of each observation for each draw.

        Args:
            values: Parameters by name, `(draws, *shape)` each.

        Returns:
            Log densities, float64, `(draws, observations)`.

        Raises:
            InputError: The density has no `log_likelihood`.
        """
        if self.log_likelihood is None:
            problem = "log_likelihood: the density was given without the terms of its observations."
            raise InputError(problem, expected="Simulation(log_density=f, log_likelihood=g, ...)")
        terms = self._in_blocks("log_likelihood", self.log_likelihood, values)
        return terms.reshape(len(terms), -1).astype(np.float64)

    def generate(self, values: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """Returns the generated quantities of each draw.

        Args:
            values: Parameters by name, `(draws, *shape)` each.
            seed: Seed of the random numbers for functions with an argument `seed`.

        Returns:
            Arrays by name, `(draws, *shape)` each.
        """
        draws = len(next(iter(values.values())))
        generated = {}
        for number, (name, function) in enumerate(self.generated.items()):
            random = seeded(seed, 0x4747, number)
            seeds = random.integers(2**31 - 1, size=(draws, 2)).astype(np.int32)
            generated[name] = self._in_blocks(
                f"generated: {name}", function, {**values, "seed": seeds}
            )
        return generated

    def with_data(self, data: Mapping[str, Any]) -> NamedDensity:
        """Returns the same density with other data.

        Args:
            data: Arrays and numbers by name.

        Returns:
            The density; this one is unchanged.
        """
        return NamedDensity(
            self.log_density,
            self.layout.supports,
            data,
            log_likelihood=self.log_likelihood,
            generated=self.generated,
            dtype=self.dtype,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Data as NumPy arrays, which other processes take, and without what is traced."""
        data = {
            name: value.numpy() if isinstance(value, tf.Variable) else value
            for name, value in self.data.items()
        }
        state = {name: value for name, value in vars(self).items() if name != "_mapped"}
        return {**state, "data": data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.data = self._stored(state["data"])

    def _stored(self, data: Mapping[str, Any] | None) -> dict[str, Any]:
        """Data as the function gets them.

        Variables are arguments of compiled programs, where constants would be a part of them.
        """
        refuse_if(
            data is not None and not isinstance(data, Mapping),
            "data: a log density needs its data by name.",
            type(data).__name__,
            'data={"x": x, "y": y}',
        )
        stored: dict[str, Any] = {}
        for name, value in (data or {}).items():
            known = isinstance(name, str) and name.isidentifier()
            refuse_if(not known, "data: this is not a name.", abbreviated(name, 40, repr), "a name")
            both = name in self.layout.supports
            refuse_if(both, f"data: {name} is also a parameter.", expected="two different names")
            stored[name] = self._stored_value(name, value)
        return stored

    def _stored_value(self, name: str, value: Any) -> Any:
        if isinstance(value, bool | int | str | np.integer | np.bool_):
            return value
        masked = masked_entries(value)
        problem = f"data: {name}: a masked array has missing numbers."
        refuse_if(masked, problem, f"{masked} masked entries", "an array without a mask")
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.asarray(None)
        refuse_if(
            array.dtype.kind not in "fiub",
            f"data: {name} is not an array of numbers.",
            abbreviated(value, 60),
            "numbers, or arrays of numbers",
        )
        if array.dtype.kind == "f":
            array = _as_type(name, array, self.dtype)
        elif array.dtype.kind in "iu":
            array = _as_type(name, array, "int64")
        return tf.Variable(array, trainable=False, name=name)

    def _names_taken(self, who: str, function: Any, beside: Sequence[str] = ()) -> tuple[str, ...]:
        """The names of the arguments of a function; refuses others than parameters and data."""
        refuse_if(
            not callable(function),
            f"{who}: this is not a function.",
            abbreviated(function, 60),
            _expected_of(who),
        )
        own = [*self.layout.supports, *self.data]
        known = [*own, *beside]
        try:
            arguments = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            problem = f"{who}: the arguments of this function have no names."
            raise InputError(problem, name_of(function), _expected_of(who)) from None
        if any(argument.kind is inspect.Parameter.VAR_KEYWORD for argument in arguments):
            written = [argument.name for argument in arguments]
            return (*own, *(name for name in beside if name in written and name not in own))
        names = []
        for argument in arguments:
            if argument.kind in _OPEN:
                raise InputError(
                    f"{who}: the argument {argument.name} cannot be given by name.",
                    name_of(function),
                    _expected_of(who),
                )
            if argument.name in known:
                names.append(argument.name)
            elif argument.default is inspect.Parameter.empty:
                problem = f"{who}: the argument {argument.name} is neither a parameter nor data."
                _refuse_other_spelling(problem, argument.name, known)
                raise InputError(
                    f"{problem}{nearest(argument.name, known)}", expected=", ".join(known)
                )
        return tuple(names)

    def _of_draws(
        self,
        who: str,
        function: Callable,
        values: Mapping[str, Any],
        data_of_rows: Mapping[str, Any] | None = None,
    ) -> Any:
        """A function of one draw for all draws, `(draws, ...)`."""
        by_draw, data = self._arguments(who, values, data_of_rows)
        if not by_draw:  # a function of data alone is the same for all draws
            count = tf.shape(next(iter(values.values())))[0]
            value = tf.convert_to_tensor(function(**data))
            return tf.repeat(value[None], count, axis=0)

        def of_one(draw: dict[str, Any]) -> Any:
            return tf.convert_to_tensor(function(**draw, **data))

        return tf.vectorized_map(of_one, by_draw)

    def _arguments(
        self, who: str, values: Mapping[str, Any], data_of_rows: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of a function that differ by draw, `(draws, ...)`, and those that do not."""
        names = self._taken[who]
        dtype = tf.as_dtype(self.dtype)
        by_row = {**values, **(data_of_rows or {})}
        by_draw = {name: tf.convert_to_tensor(by_row[name]) for name in names if name in by_row}
        data = {
            name: self._given(self.data[name], dtype)
            for name in names
            if name in self.data and name not in by_row
        }
        return by_draw, data

    def _given(self, value: Any, dtype: Any) -> Any:
        return tf.identity(value) if isinstance(value, tf.Variable) else value

    def _in_blocks(
        self, who: str, function: Callable, values: Mapping[str, np.ndarray], most: int = 500
    ) -> np.ndarray:
        """A function of all draws, so many at a time, as one array."""
        traced = tf.function(
            lambda block: self._of_draws(who, function, block),
            autograph=False,
            reduce_retracing=True,
        )
        draws = len(next(iter(values.values())))
        parts = []
        for first in range(0, draws, most):
            block = {
                name: tf.constant(self._as_given(value[first : first + most]))
                for name, value in values.items()
            }
            try:
                parts.append(traced(block).numpy())
            except Exception as error:
                raise InputError(f"{who}: the function fails.", error_text(error, 160)) from error
        return np.concatenate(parts)

    def _as_given(self, values: np.ndarray) -> np.ndarray:
        return values.astype(self.dtype) if values.dtype.kind == "f" else values

    def _check(self) -> None:
        """Calls the functions for one draw; refuses one that fails, or returns something else."""
        position = np.random.default_rng(0x4E44).standard_normal((1, self.dimension))
        values, _ = self.layout.constrain(position)
        draw = {name: tf.constant(value[0], self.dtype) for name, value in values.items()}
        density, graph = self._of_one_draw("log_density", self.log_density, draw)
        self._has_loops = has_loops(graph)
        refuse_if(
            not tf.is_tensor(density),
            "log_density: it does not return a tensor.",
            type(density).__name__,
            f"{EXPECTED}; NumPy has no gradient",
        )
        _refuse_type("log_density", density)
        shape = tuple(density.shape)
        expected = f"one number (tf.reduce_sum); {EXPECTED}"
        refuse_if(shape != (), "log_density: it returns an array.", f"shape {shape}", expected)
        if self.log_likelihood is not None:
            terms, _ = self._of_one_draw("log_likelihood", self.log_likelihood, draw)
            _refuse_type("log_likelihood", _tensor_of("log_likelihood", terms))
        draw["seed"] = tf.constant([0x4E44, 0], tf.int32)
        for name, function in self.generated.items():
            who = f"generated: {name}"
            _tensor_of(who, self._of_one_draw(who, function, draw)[0])

    def _of_one_draw(
        self, who: str, function: Callable, draw: Mapping[str, Any]
    ) -> tuple[Any, tf.Graph]:
        """What a function returns for one draw, and its graph."""
        dtype = tf.as_dtype(self.dtype)
        names = self._taken[who]
        draw_arguments = {name: draw[name] for name in names if name in draw}
        data = {name: self._given(self.data[name], dtype) for name in names if name in self.data}
        problem = f"{who}: the function fails for one draw."
        try:
            output = function(**draw_arguments, **data)
            problem = f"{who}: TensorFlow cannot compile the function."
            traced = tf.function(lambda: function(**draw_arguments, **data), autograph=False)
            return output, traced.get_concrete_function().graph
        except Exception as error:
            shapes = ", ".join(
                f"{name} {tuple(value.shape)}" for name, value in draw_arguments.items()
            )
            integer_hint = (
                "; tf.cast whole numbers, or give floats" if "int64" in str(error) else ""
            )
            received = f"{error_text(error, 160)} ({shapes})"
            raise InputError(problem, received, f"{_expected_of(who)}{integer_hint}") from error


def _expected_of(who: str) -> str:
    """What a function should be, by the option that it was given as."""
    return EXPECTED if who == "log_density" else EXPECTED_OF_OTHERS


def _tensor_of(who: str, output: Any) -> Any:
    """What a function returned as a tensor."""
    try:
        return tf.convert_to_tensor(output)
    except Exception:
        problem = f"{who}: it does not return an array."
        raise InputError(problem, abbreviated(output, 60), EXPECTED_OF_OTHERS) from None


def _refuse_type(who: str, output: Any) -> None:
    """Refuses a tensor that holds no real numbers."""
    real = output.dtype.is_floating
    refuse_if(not real, f"{who}: it does not return real numbers.", output.dtype.name, "floats")


def _refuse_other_spelling(problem: str, argument: str, known: Sequence[str]) -> None:
    """Refuses a name that Python writes with other letters in code, such as the micro sign.

    Args:
        problem: The sentence that the argument is not known.
        argument: The argument, as Python reads it.
        known: The names that were given.
    """
    for name in known:
        if name != argument and unicodedata.normalize("NFKC", name) == argument:
            received = f"the name {name} ({_code_points(name)})"
            expected = f"{argument} ({_code_points(argument)}), as Python writes it in a function"
            raise InputError(problem, received, expected)


def _code_points(name: str) -> str:
    """The letters of a name by number, such as `U+00B5`."""
    return " ".join(f"U+{ord(letter):04X}" for letter in name)


def _as_type(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """Data in another type; refuses numbers that it cannot hold."""
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    if dtype == "int64":
        lost = (converted < 0) & (array > 0)
    else:
        lost = np.isinf(converted) & np.isfinite(array)
    problem = f"data: {name} has numbers that {dtype} cannot hold."
    refuse_if(lost.any(), problem, abbreviated(array, 60), "smaller numbers, in other units")
    return converted


def _for_each_draw(values: Any, like: Any) -> Any:
    """Values `(n,)`, cast and reshaped to multiply an array `(n, ...)`."""
    shape = [-1] + [1] * (len(like.shape) - 1)
    return tf.reshape(tf.cast(values, like.dtype), shape)


def has_loops(graph: tf.Graph) -> bool:
    """Whether a graph has loops or branches, also in functions that it calls."""
    whole = graph.as_graph_def()
    nodes = [whole.node, *(function.node_def for function in whole.library.function)]
    return any(node.op in _CONTROL_FLOW for part in nodes for node in part)


def name_of(function: Any) -> str:
    """The name of a function for messages; of another object, that of its class."""
    named = inspect.isfunction(function)
    return str(function.__name__).strip("<>") if named else type(function).__name__


def _table_of_functions(generated: Mapping[str, Callable] | None) -> dict[str, Callable]:
    refuse_if(
        generated is not None and not isinstance(generated, Mapping),
        "generated: this is not a table of functions.",
        abbreviated(generated, 60),
        'generated={"y_rep": g}',
    )
    return dict(generated or {})
