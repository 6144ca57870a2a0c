"""The names of TATi, the Thermodynamic Analytics ToolkIt, and what stands for them here.

Each option of TATi 0.9.5 is known: most are other names of options here, a few are refused with
what to use instead. Python, TOML files and the commands all come through `translated`. TATi samples
exp(-beta L) with the mean loss L and no prior, which its own names `step_width` and
`friction_constant` therefore mean, unless `potential` is given.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tati_re.core.errors import InputError, refuse_if
from tati_re.options.table import FIRST_STEP_SIZE, OPTIONS

SAMPLERS = {
    "StochasticGradientLangevinDynamics": "SGLD",
    "GeometricLangevinAlgorithm_1stOrder": "GLA1",
    "GeometricLangevinAlgorithm_2ndOrder": "GLA2",
    "BAOAB": "BAOAB",
    "CovarianceControlledAdaptiveLangevinThermostat": "CCAdL",
    "CovarianceControlledAdaptiveLangevin": "CCAdL",
    "HamiltonianMonteCarlo_1stOrder": "HMC1",
    "HamiltonianMonteCarlo_2ndOrder": "HMC",
}
"""Samplers by TATi's name."""

OPTIMIZERS = {
    "GradientDescent": "gradient_descent",
    "BarzilaiBorweinGradientDescent": "barzilai_borwein",
}
"""Optimizers by TATi's name."""

LOSSES = {
    "mean_squared": "mean_squared_error",
    "log_loss": "binary_crossentropy",
    "hinge_loss": "hinge",
    "cosine_distance": "cosine_similarity",
    "absolute_difference": "mean_absolute_error",
    "sigmoid_cross_entropy": "binary_crossentropy",
    "softmax_cross_entropy": "softmax_cross_entropy",
}
"""Losses by TATi's name; the last one is the cross-entropy that fits the labels, sparse or
one-hot.
"""

LAWS = {"bernoulli": "binary_crossentropy", "categorical": "softmax_cross_entropy"}
"""Losses by the name of their law."""

VALUES = {"sampler": SAMPLERS, "optimizer": OPTIMIZERS, "loss": LOSSES}

MEAN_LOSS_NAMES = ("step_width", "friction_constant")
"""Options that mean TATi's distribution where `potential` is not given."""

_PRIOR_UNDER_MEAN_LOSS = "none"
_ONE_BYTE = 1e-6
_YES = ("yes", "true", "t", "y", "1")
_NO = ("no", "false", "f", "n", "0")

MARK = {"do_hessians": True}
"""An option of TATi that changes nothing: what comes with it goes by TATi's rules."""

_OF_SCRIPTS = ("batch_data_files", *MARK)
"""Options of TATi by which a call is one of its scripts: its defaults stand for those here."""

DEFAULTS = {
    "loss": "mean_squared_error",
    "output_activation": "tanh",
    "optimizer": "gradient_descent",
    "learning_rate": 0.03,
    "record_every": 1,
}
"""TATi's defaults, by the names here, where they differ."""

START = "weights from U(-0.5, 0.5), biases 0.1"
"""Where a network of TATi starts."""

Translation = Callable[[str, Any], dict[str, Any]]


def has_defaults_of_tati(tati: Mapping[str, Any]) -> bool:
    """Whether a call that gave these options under TATi's names has TATi's defaults."""
    return any(name in tati for name in _OF_SCRIPTS)


class Alias(NamedTuple):
    """An option of TATi, and the options that stand for it here: none where it is refused or has
    nothing to set. `translate` takes the name as typed and the value to options here by name, or
    raises InputError where it is refused. `instead` says in words what stands for it. Its group in
    TATi is data, prior, model, common, train, sampler, or analysis; `many` means that it takes
    several values on the command line.
    """

    group: str
    instead: str
    translate: Translation
    new: tuple[str, ...] = ()
    many: bool = False


def _unset(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.lower() in ("none", ""))


def _yes(name: str, value: Any) -> bool:
    text = str(value).lower()
    refuse_if(text not in (*_YES, *_NO), f"{name} has the wrong type.", value, "true or false")
    return text in _YES


def _refused(reason: str, instead: str) -> Translation:
    def refuse(name: str, value: Any) -> dict[str, Any]:
        if _unset(value):
            return {}
        raise InputError(f"{name}: {reason}.", value, instead)

    return refuse


def _refused_if(wrong: bool, reason: str, instead: str) -> Translation:
    """A switch of which one side is what is done here anyway."""

    def switch(name: str, value: Any) -> dict[str, Any]:
        refuse_if(_yes(name, value) == wrong, f"{name}: {reason}.", value, instead)
        return {}

    return switch


def _switch(name: str, value: Any) -> dict[str, Any]:
    """A switch that turns on, or off, what costs nothing until it is asked for."""
    _yes(name, value)
    return {}


def _file_type(name: str, value: Any) -> dict[str, Any]:
    if value not in ("csv", "tfrecord"):
        raise InputError(
            f"{name} has an unknown value.",
            value,
            "csv or tfrecord; the ending of a file says it here",
        )
    return {}


def _dimension(name: str, value: Any) -> dict[str, Any]:
    """Kept for `check_dimensions`: the data say how many columns there are."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or isinstance(value, bool | float):
        raise InputError(f"{name} has the wrong type.", value, "an integer at least 1")
    return {}


def _hidden(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list | tuple):
        listed = value
    else:
        listed = [] if value is None else str(value).split()
    return {"hidden": [units for units in listed if str(units) != "0"]}


def _one_step(name: str, value: Any) -> dict[str, Any]:
    listed = list(value) if isinstance(value, list | tuple) else [value]
    if len(listed) > 1:
        raise InputError(
            f"{name}: walkers start at one step.",
            listed,
            "one of them; a run for each of the others",
        )
    return {"parameters_step": listed[0]} if listed and not _unset(listed[0]) else {}


def _threads(name: str, value: Any) -> dict[str, Any]:
    if str(value) not in ("1", "None", "none"):
        raise InputError(
            f"{name}: sums are the same in every run here.",
            value,
            "threads for all of TensorFlow's",
        )
    return {}


def _checkpoint(_: str, value: Any) -> dict[str, Any]:
    """The file written by `save_model`: `model.ckpt.meta` is `model.ckpt.meta.keras`."""
    if _unset(value):
        return {"parameters": None}
    return {"parameters": str(value) if str(value).endswith(".keras") else f"{value}.keras"}


def _in_memory(name: str, value: Any) -> dict[str, Any]:
    """Off: from the disk, however small the data are."""
    return {} if _yes(name, value) else {"memory_limit": _ONE_BYTE}


def _analysis(instead: str) -> Translation:
    return _refused("it belongs to the analysis of a run", instead)


_MAP = "tati-analyse RUN --modules diffusion_map"
_DROPOUT = "a Keras model with keras.layers.Dropout(rate), as model; it acts in fit and is off while sampling"
_ROWS = "norms and energies are computed for recorded rows only"
_AT_ONE = "walkers at one place have no covariance"

_SAME = {
    "prior": ("prior_factor", "prior_power", "prior_lower_boundary", "prior_upper_boundary"),
    "model": ("batch_size", "fix_parameters", "output_activation", "loss", "seed"),
    "common": ("averages_file", "run_file", "trajectory_file", "save_model", "verbose"),
    "train": ("learning_rate", "optimizer"),
    "sampler": ("sampler", "inverse_temperature", "covariance_blending", "covariance_after_steps"),
}
"""Options of the same name here, by their group."""


def _table() -> dict[str, Alias]:
    def renamed(group: str, *new: str, many: bool = False) -> Alias:
        return Alias(
            group, " and ".join(new), lambda _, value: dict.fromkeys(new, value), new, many
        )

    timings = "timing.csv and manifest.toml"
    return {
        **{name: renamed(group, name) for group, names in _SAME.items() for name in names},
        "batch_data_files": renamed("data", "data", many=True),
        "batch_data_file_type": Alias("data", "the ending of the file decides", _file_type),
        "input_dimension": Alias("data", "the data say it; checked", _dimension),
        "output_dimension": Alias("data", "the data say it; checked", _dimension),
        "directions_file": renamed("model", "directions"),
        "do_hessians": Alias("model", "always there: hessians(), suggest_step_size()", _switch),
        "dropout": Alias(
            "model", "a Keras model with Dropout", _refused("dropout is a layer here", _DROPOUT)
        ),
        "hidden_activation": renamed("model", "activation"),
        "hidden_dimension": Alias("model", "hidden", _hidden, ("hidden",), many=True),
        "in_memory_pipeline": Alias("model", "memory_limit", _in_memory, ("memory_limit",)),
        "input_columns": renamed("model", "input_columns", many=True),
        "parse_parameters_file": renamed("model", "parameters"),
        "parse_steps": Alias(
            "model", "parameters_step", _one_step, ("parameters_step",), many=True
        ),
        "summaries_path": renamed("model", "tensorboard"),
        "burn_in_steps": renamed("common", "num_burnin_steps"),
        "do_accumulates": Alias(
            "common", "record_every", _refused_if(False, _ROWS, "a larger record_every")
        ),
        "every_nth": renamed("common", "record_every", "trajectory_every"),
        "thinning": renamed("common", "record_every", "trajectory_every"),
        "inter_ops_threads": Alias("common", "threads", _threads),
        "intra_ops_threads": renamed("common", "threads"),
        "max_steps": renamed("common", "num_steps"),
        "number_walkers": renamed("common", "num_walkers"),
        "progress": Alias("common", "verbose", _switch),
        "restore_model": Alias("common", "parameters, a .keras file", _checkpoint, ("parameters",)),
        "sql_db": Alias(
            "common",
            timings,
            _refused("timings are not written to a data base", f"{timings} of the run folder"),
        ),
        "step_width": renamed("sampler", "step_size"),
        "friction_constant": renamed("sampler", "friction"),
        "hamiltonian_dynamics_time": Alias("sampler", "num_leapfrog_steps times step_size", _time),
        "collapse_walkers": Alias(
            "sampler",
            "walker_start",
            _refused_if(True, _AT_ONE, "walker_start same, to start them at one"),
        ),
        "sigma": Alias("sampler", "covariance_window of CCAdL", _refused_noise),
        "sigmaA": Alias("sampler", "covariance_window of CCAdL", _refused_noise),
        "diffusion_map_method": Alias("analysis", _MAP, _analysis(_MAP)),
        "number_of_eigenvalues": Alias(
            "analysis", vectors := f"{_MAP} --num-eigenvectors", _analysis(vectors)
        ),
        "use_reweighting": Alias(
            "analysis", f"{_MAP} --target-measure", _analysis(f"{_MAP} --target-measure")
        ),
    }


def _time(name: str, value: Any) -> dict[str, Any]:
    """Kept for `completed`, which knows the step size."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    refuse_if(
        not 0 < number < float("inf"), f"{name} is out of range.", value, "a number greater than 0"
    )
    return {}


_instead = "sampler CCAdL or mCCAdL, and covariance_window"
_refused_noise = _refused("CCAdL measures the noise of the gradient here", _instead)

ALIASES = _table()
"""All options of TATi by name."""

EXPLORER = {
    "max_steps": "leg_steps",
    "number_of_parallel_trajectories": "num_legs",
    "max_exploration_steps": "max_rounds",
    "number_processes": "num_processes",
    "parse_parameters_file": "parameters",
}
"""Flags of TATi's explorer, and those of `tati-explore`."""

LEG_OF_TATI = ("every_nth", "number_walkers", "do_accumulates")
"""Flags of which 1 is what a leg is here."""
NOT_OF_EXPLORER = {
    **dict.fromkeys(
        (*LEG_OF_TATI, "burn_in_steps", "progress"), "nothing: a leg is one walker, written whole"
    ),
    **dict.fromkeys(("save_model", "sql_db"), "--output"),
    **dict.fromkeys(("learning_rate", "optimizer"), "nothing: a descent finds its own steps"),
    **dict.fromkeys(("run_file", "averages_file"), "--trajectory_file, or --output"),
    **dict.fromkeys(
        ("number_pruning", "use_reweighting", "number_of_eigenvalues"), "0, or --directions WORD"
    ),
}

EXPLORER_FILES = ("minima_file", "cornerpoints_file", "trajectory_file")


def current_names(name: str) -> tuple[str, ...]:
    return ALIASES[name].new if name in ALIASES and name not in OPTIONS else (name,)


def describe(name: str) -> str:
    """One line on the options that replace one of TATi.

    Args:
        name: TATi's name of an option.

    Returns:
        One line of text.
    """
    return f"{name}: TATi's name; here {ALIASES[name].instead}"


class Translated(NamedTuple):
    """Options in the names of the table. `tati` has what was given under TATi's names, those that
    are ours too among them; `typed` the name that was typed, by the name here.
    """

    values: dict[str, Any]
    tati: dict[str, Any]
    typed: dict[str, str]


def translated(values: Mapping[str, Any], spell: Callable[[str], str] = str) -> Translated:
    """Replaces options of TATi by the options here; unknown names stay.

    Args:
        values: Values by the names that were given, here or in TATi.
        spell: Writes a name as the user typed it, for messages. Default: unchanged.

    Raises:
        InputError: Two names for the same quantity are given, or a value of TATi is wrong.
    """
    result: dict[str, Any] = {}
    tati: dict[str, Any] = {}
    typed: dict[str, str] = {}
    for name, value in values.items():
        alias = ALIASES.get(name)
        if alias is None or name in OPTIONS:
            new_options = {name: value}
        else:
            tati[name] = value
            new_options = alias.translate(spell(name), value)
            typed |= dict.fromkeys(new_options, name)
        for new in new_options:
            if new in result or (new != name and values.get(new) is not None):
                both = f"{spell(typed.get(new, name))} and {spell(new)} are two names for the same quantity."
                raise InputError(both, expected="one of the two")
        result |= new_options
    if isinstance(law := result.get("loss"), str) and law in LAWS:
        result["loss"] = LAWS[law]
    for name, names in VALUES.items():
        value = result.get(name)
        if not isinstance(value, str) or value not in names:
            continue
        result[name] = names[value]
        if names[value] != value:
            tati[name] = value
        if value == "log_loss":
            result.setdefault("from_logits", False)
    if (
        "progress" in tati
        and _yes("progress", tati["progress"])
        and str(result.get("verbose")) == "0"
    ):
        result["verbose"] = 1
    return Translated(result, tati, typed)


_OF_A_PRIOR = {"prior_std", "prior_scale", "prior_degrees", "prior_bound", "prior_scaling"}
"""Options that imply a prior; TATi's own walls need none."""


def completed(values: Mapping[str, Any], tati: Mapping[str, Any]) -> dict[str, Any]:
    """The options that TATi's names imply.

    These are its distribution, files that are used whole, and the leapfrog steps of a time.

    Args:
        values: Values by the names here.
        tati: Values under TATi's names.

    Returns:
        Further options by name.
    """
    more: dict[str, Any] = {}
    defaults_of_tati = has_defaults_of_tati(tati)
    if defaults_of_tati:
        more |= {name: value for name, value in DEFAULTS.items() if values.get(name) is None}
        if isinstance(values.get("data"), str) and "." not in values["data"]:
            more.pop("output_activation", None)  # a built-in system, which TATi does not have
        if values.get("trajectory_file") and values.get("trajectory_every") is None:
            more["trajectory_every"] = 1
    if values.get("potential") is None and (
        defaults_of_tati or any(name in tati for name in MEAN_LOSS_NAMES)
    ):
        more["potential"] = "mean_loss"
    unnamed = values.get("prior") is None and not values.keys() & _OF_A_PRIOR
    if unnamed and {**values, **more}.get("potential") == "mean_loss":
        more["prior"] = _PRIOR_UNDER_MEAN_LOSS
    if "batch_data_files" in tati and not any(
        values.get(name) is not None for name in ("test_data", "test_fraction")
    ):
        more["test_fraction"] = 0.0
    if "hamiltonian_dynamics_time" in tati and "num_leapfrog_steps" not in values:
        size = values.get("step_size", FIRST_STEP_SIZE)
        if isinstance(size, int | float) and size > 0:
            more |= {} if "step_size" in values else {"step_size": size}
            more["num_leapfrog_steps"] = max(
                1, round(float(tati["hamiltonian_dynamics_time"]) / size)
            )
    return more


def sentences(options: Any, own_prior: bool = False) -> list[str]:
    """Sentences at the start of a run about TATi's names and rules.

    Args:
        options: The options of the run.
        own_prior: Whether the prior is an object. Default: False.
    """
    tati = options.tati
    derived = options.derived
    lines = []
    if tati.get("batch_size") and options.batch_size is None:
        lines.append(
            f"batch_size {tati['batch_size']} is larger than the data set: all examples, as in TATi."
        )
    if "prior" in derived and "potential" not in derived and not own_prior:
        lines.append("potential mean_loss has no prior where none is named, as in TATi.")
    if "potential" in derived:
        name = next(name for name in (*MEAN_LOSS_NAMES, *_OF_SCRIPTS) if name in tati)
        prior = " and no prior" if "prior" in derived and not own_prior else ""
        lines.append(
            f"{name} is TATi's name, so that potential is mean_loss{prior}: exp(-beta * mean loss) is sampled, as in "
            "TATi; potential posterior samples the Bayesian posterior, with the sum of the losses and a prior."
        )
    defaults = [name for name in ("loss", "output_activation", "record_every") if name in derived]
    if defaults and "batch_data_files" in tati:
        values = ", ".join(f"{name} {value}" for name, value in options.values_of(defaults).items())
        lines.append(f"batch_data_files is TATi's name, so that its defaults hold: {values}.")
    other = [name for name in tati if name not in ("inverse_temperature", *MARK)]
    is_tempered = options.inverse_temperature is not None and "potential" in options.explicit
    if other and is_tempered and options.potential == "posterior":
        lines.append(
            f"inverse_temperature {options.inverse_temperature:g} with TATi's {other[0]}: under potential posterior "
            "it acts N times harder than in TATi (N examples), as U sums losses that TATi averages."
        )
    if "num_leapfrog_steps" in derived:
        lines.append(
            f"hamiltonian_dynamics_time {float(tati['hamiltonian_dynamics_time']):g} stands for num_leapfrog_steps "
            f"{options.num_leapfrog_steps} at step_size {options.first_step_size:g}."
        )
    return lines


def capped(options: Any, num_examples: int) -> Any:
    """The options with all examples if `batch_size` is above their number, as in TATi.

    This applies only if the user has given TATi's names.

    Args:
        options: The options.
        num_examples: Number of examples.
    """
    if not options.tati or options.batch_size is None or not 0 < num_examples < options.batch_size:
        return options
    fitting = options.resolved(batch_size=None)
    fitting._tati = {**options.tati, "batch_size": options.batch_size}
    return fitting


def check_dimensions(tati: Mapping[str, Any], num_inputs: int, num_outputs: int) -> None:
    """Compares TATi's `input_dimension` and `output_dimension` with the system.

    Args:
        tati: Values under TATi's names.
        num_inputs: Number of inputs of an example.
        num_outputs: Number of outputs of the network.

    Raises:
        InputError: A dimension differs.
    """
    for name, size in (("input_dimension", num_inputs), ("output_dimension", num_outputs)):
        if name in tati and int(tati[name]) != size:
            raise InputError(
                f"{name}: not the system of data and network.",
                tati[name],
                f"{size}, or to leave it out",
            )
