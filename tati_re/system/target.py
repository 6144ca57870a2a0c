"""A system without model and data: coordinates under a potential that users gave as a function."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.data import Dataset
from tati_re.models.flat import FlatModel
from tati_re.options.make import OPTIONS, Options, make_options, options_of
from tati_re.options.user_code import imported_object
from tati_re.posterior.named_density import NamedDensity
from tati_re.posterior.target import Target, TargetPotential
from tati_re.system.system import System, assemble, check_memory

FORM = "my_file.py:my_potential or my_module:my_potential"
_ABSENT = (
    *(name for name in options_of(("data", "model")) if name != "dtype"),
    *(
        "loss",
        "from_logits",
        "noise_std",
        "noise_prior",
        "noise_prior_scale",
        "noise_prior_shape",
        "prior_scaling",
    ),
    *(
        "batch_norm",
        "control_variate",
        "stream_predictions",
        "walker_evaluation",
        "walker_batches",
        "save_model",
    ),
    "exchange_batch_size",
)
"""Options that are about data or a network."""
_OTHERWISE = {
    "potential": ("mean_loss",),
    "walker_start": ("fresh",),
    "replica_start": ("fresh", "descent"),
}
NUM_CHAINS = 4
_COLUMNS = ("step", "walker", "temperature", "replica", "rung", "weight", "loss", "potential", "")


class NoData(Dataset):
    """What stands where a system has its data: a name, and a fingerprint of the function."""

    def __init__(self, target: Target) -> None:
        self.__dict__.update(
            {"name": f"the potential {target.name}", "_fingerprint": target.fingerprint()}
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("inputs", "targets"):
            raise InputError(
                f"{name}: a potential given as a function has no data.",
                expected="a model with data",
            )
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"{self.name}: no data"

    def __iter__(self) -> Iterator[Any]:
        yield from (self.inputs, self.targets)

    @property
    def num_examples(self) -> int:
        return 1

    def prepare(self, inputs: np.ndarray) -> np.ndarray:
        raise InputError(
            "predict: a potential given as a function makes no predictions.",
            expected="a model with data",
        )

    def get_config(self) -> dict:
        return {"potential": True}


class CoordinateVector(FlatModel):
    """The coordinates of a function where a system has its model; they start at the origin.

    Args:
        dimension: Number of coordinates.
        names: Names of the coordinates; empty: one tensor `x`.
        target: The function as a potential.
    """

    def __init__(self, dimension: int, names: list[str], target: Target) -> None:
        dtype = target.dtype
        self.xla_safe = not target.numpy
        self.num_parameters = dimension
        self.dtype = dtype
        self.input_dtype = dtype
        self.tensor_names = names or ["x"]
        self.shapes = [()] * dimension if names else [(dimension,)]
        self.model = None
        self.regularizer = None
        self.num_fixed = 0
        self.parts = {}
        self.variables = []
        self.others = []
        self.auxiliary = []
        self.training_layers = []
        self.regularized = []
        self.has_training_state = False
        self.vectorizable = True

    def __reduce__(self) -> Any:
        return object.__new__, (type(self),), vars(self)

    def get(self) -> np.ndarray:
        """The origin."""
        return np.zeros(self.num_parameters, self.dtype)


class FreeCoordinates(CoordinateVector):
    """The free coordinates of named parameters, in the place of a model.

    Args:
        density: The density of the parameters.
        target: The same as a potential.
    """

    def __init__(self, density: NamedDensity, target: Target) -> None:
        super().__init__(density.dimension, [], target)
        self.tensor_names, self.shapes = density.layout.free_names()
        self.supports = density.layout.get_config()

    def described(self) -> dict[str, Any]:
        return {**super().described(), "supports": self.supports}


@dataclass
class TargetSystem(System):
    """Coordinates and their potential in place of a model and its data."""

    target: Any = None
    given: Any = None
    has_data: ClassVar[bool] = False

    def log_unit(self, loss: Any) -> float:
        return 0.0

    def with_data(
        self, options: Options, data: Any = None, objects: Mapping[str, Any] | None = None
    ) -> System:
        raise InputError(
            "dataset: a potential given as a function has no data.", expected="a model with data"
        )

    def resolved(self, options: Options) -> Options:
        return options

    def view(self, batch: Callable[[], Any]) -> Any:
        return self.dataset

    def potential(
        self, options: Options, objects: Any = None, training=False, copies=None, fitting=False
    ) -> Any:
        prior = self.prior(options, objects)
        names = self.flat.parameter_names()
        return TargetPotential(self.target, prior, names, copies or options.num_walkers)

    def check(self, options: Options, objects: Mapping[str, Any]) -> None:
        problem = "execution: XLA cannot compile a function that computes in NumPy."
        refuse_if(
            self.target.numpy and options.execution == "xla", problem, "xla", "auto, graph or eager"
        )
        if (
            objects.get(
                "potential", options.potential if self.given == options.potential else self.given
            )
            != self.given
        ):
            raise InputError(
                "potential cannot change after the Simulation is created.",
                expected="potential=f in Simulation(...)",
            )
        explicit = options.values_of(name for name in _ABSENT if name in options.explicit)
        values = {name: value for name, value in explicit.items() if value != OPTIONS[name].default}
        values |= {name: type(objects[name]).__name__ for name in _ABSENT if name in objects}
        values |= {
            name: at for name, at in options.values_of(_OTHERWISE).items() if at in _OTHERWISE[name]
        }
        if options.mass == "fan_in" and "mass" not in objects:
            values["mass"] = options.mass
        for name, value in values.items():
            expected = (
                f"no {name} = {value}"
                if name in (*_OTHERWISE, "mass")
                else f"no {name}, or no potential"
            )
            raise InputError(
                f"{name}: a potential given as a function has no data and no network.",
                value,
                expected,
            )

    def is_round(self, position: np.ndarray) -> bool:
        return self.target.is_quadratic(position)

    def check_failure(self) -> None:
        if self.target.failure is not None:
            problem = f"potential: {self.target.name} failed during the run."
            expected = "U and its gradient at every position, nan where the density is 0"
            raise InputError(problem, self.target.failure, expected)

    def check_start(self, position: np.ndarray) -> None:
        self.target.check_at(position)


def is_target(options: Options, objects: Mapping[str, Any]) -> bool:
    """Whether the potential is a function and not made of a model and its data.

    Args:
        options: Options of the run.
        objects: Objects by the names of options.
    """
    return "potential" in objects or options.is_target


def with_defaults(options: Options, objects: Mapping[str, Any], placed: bool = False) -> Options:
    """The options of a function where nothing else was given: float64, and no further prior.

    Named parameters have four chains, whatever sampler is named later; they start apart unless
    their positions were given. Options of a model and its data stay as they are.

    Args:
        options: Options of the run.
        objects: Objects by the names of options.
        placed: Whether positions were given. Default: False.
    """
    if not is_target(options, objects):
        return options
    missing: dict[str, Any] = {"dtype": "float64", "prior": "none"}
    if is_named_density(options, objects):
        missing["num_walkers"] = NUM_CHAINS
        free = not placed and options.parameters is None
        if free and "walker_start" not in options.explicit:
            missing |= {"walker_start": "jitter", "walker_jitter": 1.0}
    return make_options(
        options,
        **{n: v for n, v in missing.items() if n not in options.explicit and n not in objects},
    )


def is_named_density(options: Options, objects: Mapping[str, Any]) -> bool:
    """Whether the potential is a density of named parameters.

    Args:
        options: Options of the run.
        objects: Objects by the names of options.
    """
    return isinstance(potential_of(options, objects), NamedDensity)


def potential_of(options: Options, objects: Mapping[str, Any]) -> Any:
    """The function that is the potential.

    Args:
        options: Options of the run; `potential` names the function where it is not an object.
        objects: Objects by the names of options.
    """
    if "potential" in objects:
        return objects["potential"]
    return imported_object(
        "potential", options.potential, FORM, callable, "a function of positions"
    )


def system_of(options: Options, objects: Mapping[str, Any]) -> System:
    """The system of options and objects: model and data, or a function as the potential.

    Args:
        options: Options of the run.
        objects: Objects by the names of options.
    """
    return (target_system if is_target(options, objects) else assemble)(options, objects)


def target_system(options: Options, objects: Mapping[str, Any]) -> TargetSystem:
    """The system of a potential that is a function.

    Args:
        options: Options of the run; `potential` names the function where it is not an object.
        objects: Objects by the names of options.

    Raises:
        InputError: The dimension is missing, coordinates have invalid names, or an option does not
            fit a function.
    """
    potential = objects.get("potential", options.potential)
    function = potential_of(options, objects)
    if isinstance(function, NamedDensity):
        return _named_system(options, objects, potential, function)
    refuse_if(
        isinstance(function, type),
        "potential: this is a class, not an object of it.",
        getattr(function, "__name__", None),
        "a function of the coordinates, or an object that can be called",
    )
    problem = "layers: a potential given as a function has no layers."
    refuse_if(options.layers != "all", problem, options.layers, "a model with data")
    names = options.coordinates
    dimension = options.dimension or len(names)
    if not dimension:
        raise InputError(
            "dimension is missing: the number of coordinates of the potential is needed.",
            expected="dimension = d",
        )
    usable = {name for name in names if name.isprintable() and name not in _COLUMNS}
    if names and not len(names) == dimension == len(usable):
        problem = (
            "coordinates: one printable name for each is needed, all different, and none of "
            "a trajectory column."
        )
        raise InputError(
            problem,
            ", ".join(map(repr, names)),
            f"{dimension} names, not {', '.join(_COLUMNS[:-1])}",
        )
    check_memory(options, dimension, options.num_walkers)
    target = Target(function, dimension, options.dtype)
    flat = CoordinateVector(dimension, names, target)
    system = TargetSystem(NoData(target), None, flat, target=target, given=potential)
    system.check(options, objects)
    return system


def _named_system(
    options: Options, objects: Mapping[str, Any], potential: Any, density: NamedDensity
) -> TargetSystem:
    """The system of a density of named parameters."""
    for name, value in options.values_of(("dimension", "coordinates")).items():
        problem = f"{name}: the named parameters of the density say how many coordinates there are."
        refuse_if(value, problem, value, f"no {name}")
    refuse_if(
        options.dtype != density.dtype,
        "dtype: the density computes in another type.",
        f"{options.dtype}, and {density.dtype} of the density",
        f"dtype={density.dtype!r}, or the density made with another",
    )
    check_memory(options, density.dimension, options.num_walkers)
    target = Target(density, density.dimension, options.dtype)
    flat = FreeCoordinates(density, target)
    system = TargetSystem(NoData(target), None, flat, target=target, given=potential)
    system.check(options, objects)
    return system
