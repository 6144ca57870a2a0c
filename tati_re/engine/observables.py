"""Observables of a state: the columns of run.csv."""

from collections.abc import Callable, Mapping, Sequence

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, abbreviated, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.method import Method
from tati_re.core.protocol import fields_of, step_size_of
from tati_re.core.user_input import users_code

_NORMS = ("gradient_norm", "momentum_norm")
ALWAYS = (
    "temperature",
    "step_size",
    "loss",
    "potential",
    "log_prior",
    "kinetic_energy",
    "virial",
    *_NORMS,
)
FULL = ("full_loss", "full_potential")
AVERAGED = ("loss", "potential", "kinetic_energy", "virial")
OF_GROUPS = ("kinetic_energy", "virial")
_READ = ("step", "walker", "rung", "replica", "weight")
"""Columns by which averages choose and weigh the rows of any run."""


@front_doors
class Observables:
    """Computes a row of run.csv for every walker.

    Args:
        method: The sampler or optimizer, which says whether there are momenta and a Metropolis
            test.
        metric_name: "accuracy" for classifiers, else None.
        extra: Functions of the parameters `(walkers, parameters)` that return `(walkers,)`, by
            name. Default: none.
        full_every: Steps between loss and potential on all data; 0: never. Default: 0.
        groups: Sizes of the tensors, by name and in order, that have their own energies and
            virials. Default: none.
    """

    def __init__(
        self,
        method: Method,
        metric_name: str | None,
        extra: Mapping[str, Callable] | None = None,
        full_every: int = 0,
        groups: Mapping[str, int] | None = None,
    ) -> None:
        self.method = method
        self.full_every = full_every
        self.metric_name = metric_name
        extra = {} if extra is None else extra
        named = isinstance(extra, Mapping) and all(
            isinstance(n, str) and n and callable(extra[n]) for n in extra
        )
        refuse_if(
            not named,
            "observables is not a table of functions.",
            abbreviated(extra, 77, repr),
            '{"name": function}',
        )
        odd = [name for name in extra if not name.isprintable()]
        refuse_if(
            odd,
            "observables: a name cannot be a column header.",
            repr(odd[:1]),
            "a name without line breaks and tabs",
        )
        self.extra = dict(extra)
        self.groups = dict(groups or {})
        conditional = [metric_name] if metric_name else []
        if method.metropolis:
            conditional.append("acceptance")
        conditional += method.shown
        conditional += FULL if full_every else ()
        of_groups = [f"{name}({group})" for name in OF_GROUPS for group in self.groups]
        self.columns = [*ALWAYS, *conditional, *self.extra, *of_groups, *method.label_names]
        self.averaged = [*AVERAGED, *(["acceptance"] if method.metropolis else [])]
        clash = set(self.extra) & {*ALWAYS, *conditional, *of_groups, *method.label_names, *_READ}
        problem = "observables: a column of run.csv already has this name."
        refuse_if(clash, problem, ", ".join(sorted(clash)), "other names")

    def __call__(self, state, evaluate, acceptance, labels: Sequence = ()) -> tf.Tensor:
        """The row of every walker, `(walkers, columns)`, float64; entries without a meaning are
        nan. `acceptance` is that of the last Metropolis test, `labels` are the last columns.
        """
        position = tf.cast(state.position, tf.float64)
        gradient = tf.cast(state.gradient, tf.float64)
        undefined = tf.fill(tf.shape(state.potential), tf.constant(float("nan"), tf.float64))
        if self.method.has_momentum:
            squares = tf.square(tf.cast(state.momentum, tf.float64))
            momentum_square = tf.reduce_sum(squares, axis=-1)
            kinetic = 0.5 * momentum_square
            momentum_norm = tf.sqrt(momentum_square)
        else:
            squares = None
            kinetic = undefined
            momentum_norm = undefined
        temperature = (
            state.temperature if "temperature" in state._fields else state.rung.temperature
        )
        step_size = (
            state.step_size if "step_size" in state._fields else step_size_of(state, state.rung)
        )
        values = [temperature, step_size, state.loss, state.potential, state.log_prior, kinetic]
        values += [0.5 * tf.reduce_sum(position * gradient, axis=-1)]
        values += [tf.sqrt(tf.reduce_sum(tf.square(gradient), axis=-1)), momentum_norm]
        if self.metric_name:
            values.append(evaluate.metric(state.position))
        if self.method.metropolis:
            values.append(acceptance)
        values += fields_of(state, self.method.shown).values()
        if self.full_every:
            values += self._full(state.position, evaluate, undefined)
        values.extend(
            self._own(name, function, state.position) for name, function in self.extra.items()
        )
        values += self._of_groups(squares, undefined) + self._of_groups(
            position * gradient, undefined
        )
        values.extend(labels)
        return tf.stack([tf.cast(value, tf.float64) for value in values], axis=-1)

    def _full(self, position, evaluate, undefined) -> list:
        """Loss and potential on all data where this step is due for them."""

        def computed():
            loss = evaluate.mean_loss(position)
            weight = tf.cast(evaluate.rung.likelihood_weight, tf.float64)
            return [
                loss,
                tf.math.multiply_no_nan(loss, weight * evaluate.scale)
                - evaluate.log_prior(position),
            ]

        return tf.cond(
            tf.equal(evaluate.clock.step % self.full_every, 0),
            computed,
            lambda: [undefined, undefined],
        )

    def _of_groups(self, products, undefined) -> list:
        """Half the sum of the products of each group; nan where there are none."""
        if products is None or not self.groups:
            return [undefined] * len(self.groups)
        return [
            0.5 * tf.reduce_sum(part, axis=-1)
            for part in tf.split(products, list(self.groups.values()), axis=-1)
        ]

    def check(self, position: tf.TensorSpec) -> None:
        """Traces the user's functions once, so that a wrong one is refused before any work starts.

        Args:
            position: Shape and type of positions.

        Raises:
            InputError: A function fails, or does not return one number per walker.
        """

        def observable(value):
            return [self._own(name, function, value) for name, function in self.extra.items()]

        if self.extra:
            tf.function(observable, autograph=False).get_concrete_function(position)

    @staticmethod
    def _own(name: str, function: Callable, position) -> tf.Tensor:
        expected = (
            "arithmetic, keras.ops or TensorFlow functions of the parameters (walkers, parameters)"
        )
        with users_code(f"observables: {name!r}", expected):
            value = tf.convert_to_tensor(function(position))
        real = value.dtype.is_floating or value.dtype.is_integer or value.dtype.is_bool
        if not real or value.shape.rank is None or value.shape != position.shape[:1]:
            problem = f"observables: {name!r} must return one number per walker."
            raise InputError(
                problem,
                f"shape {value.shape}" if real else value.dtype.name,
                f"({position.shape[0]},)",
            )
        return value
