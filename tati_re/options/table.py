"""The table of options: name, type, range, default, one line of help, each once."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from tati_re.options.patterns import BY_PATTERN
from tati_re.options.stages import ALL, FORM, Stage

GROUPS = {
    "data": "the examples and how they are drawn",
    "model": "the network",
    "posterior": "the potential U = N * mean loss - log prior",
    "sampler": "the dynamics and its temperature",
    "walkers": "independent copies of the system, advanced together",
    "replicas": "copies at several temperatures that swap",
    "workers": "processes that share the walkers of a run",
    "training": "the optimizer of fit",
    "evidence": "log Z of a model, by tati-evidence and tati_re.evidence",
    "run": "length, recording, output",
}
SAMPLE = ("data", "model", "posterior", "sampler", "walkers", "replicas", "workers", "run")
OPTIMIZE = ("data", "model", "posterior", "training", "walkers", "run")
NOT_OF_FITS = (
    "resume",
    "goal",
    "candidates",
    "until",
    "require_certificate",
    "certify",
    "simulate",
    "stream_predictions",
    "num_burnin_steps",
    "weights",
    "calibrate",
)
"""Options of these groups that a fit has no use for."""
EVIDENCE = ("data", "model", "posterior", "sampler", "walkers", "workers", "evidence", "run")
NOT_OF_EVIDENCE = (
    *(
        "resume",
        "goal",
        "candidates",
        "until",
        "require_certificate",
        "certify",
        "simulate",
        "record_every",
        "trajectory_every",
        "trajectory_format",
        "directions",
        "max_time",
    ),
    *(
        "checkpoint_seconds",
        "temperature",
        "inverse_temperature",
        "step_schedule",
        "schedule_delay",
        "schedule_power",
    ),
    *(
        "cycle_steps",
        "exploration_fraction",
        "temperature_schedule",
        "temperature_start",
        "control_variate",
    ),
    *(
        "control_variate_every",
        "covariance_blending",
        "covariance_after_steps",
        "ensemble_scheme",
        "batch_size",
    ),
    *("batch_sampling", "walker_batches", "step_size_tuning", "block_size", "cluster"),
    *(
        "target_bias",
        "target_bias_of",
        "full_every",
        "group_temperatures",
        "stream_predictions",
        "weights",
        "calibrate",
        "run_file",
        "averages_file",
    ),
    *("trajectory_file", "save_model", "tensorboard"),
)

CodeName = Annotated[str, Field(pattern=r".:\w+$", description="my_file.py:my_function")]
Units = Annotated[int, Field(ge=1)]
Weight = Annotated[float, Field(ge=0)]


def _by_class(weights: Any) -> Any:
    """`{0: 1.0, 2: 5.0}`, as Keras takes weights of classes, by texts; anything else as it is."""
    return (
        {str(key): weight for key, weight in weights.items()}
        if isinstance(weights, Mapping)
        else weights
    )


Weights = Annotated[list[Weight] | dict[str, Weight], BeforeValidator(_by_class), BY_PATTERN]
Temperature = Annotated[float, Field(gt=0)]
Positive = Annotated[Temperature | dict[str, Temperature], BY_PATTERN]
NotNegative = Annotated[Weight | dict[str, Weight], BY_PATTERN]
Wall = Annotated[float | dict[str, float] | None, BY_PATTERN]
EvidenceMethod = Literal[
    "thermodynamic_integration", "frenkel_ladd", "stepping_stone", "mbar", "smc"
]
Mass = (
    Literal["unit", "fan_in", "fisher", "variance", "gradient_rms"]
    | Annotated[
        str,
        Field(
            pattern=r"^fisher:[1-9][0-9]{0,3}$",
            description="'fisher:N' with a number N such as 'fisher:32'",
        ),
    ]
)
FIRST_STEP_SIZE = 0.001
Preset = Literal[
    "auto",
    "RENHD",
    "renhd_euler",
    "RELD",
    "reSGLD",
    "reSGHMC",
    "RE-HMC",
    "MILE",
    "SMS-UBU",
    "simulated_tempering",
    "EQN",
    "WTE",
]
PriorName = Literal["gaussian", "laplace", "student_t", "hierarchical", "box", "none"]
PriorNames = Annotated[PriorName | dict[str, PriorName], BY_PATTERN]


def _of(group: str) -> Callable[..., Any]:
    def option(default: Any, help: str, **limits: Any) -> Any:
        return Field(default, description=help, json_schema_extra={"group": group}, **limits)

    return option


_data, _model, _posterior, _sampler, _walkers, _replicas, _workers, _training, _evidence, _run = (
    map(_of, GROUPS)
)


class Options(BaseModel):
    """All options of a run, checked and frozen; `make_options` makes them and says what is wrong in
    one sentence.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    _tati: dict[str, Any] = PrivateAttr(default_factory=dict)
    _derived: frozenset[str] = PrivateAttr(default=frozenset())

    data: str | list[str] | None = _data(
        None,
        "built-in data (digits, two_clusters, two_circles, squares, spirals, harmonic, "
        "gaussian); images that Keras downloads (mnist, fashion_mnist, cifar10); or files, "
        "joined if several: .csv, .txt, .npz, .parquet, .tfrecord",
    )
    test_data: str | list[str] | None = _data(
        None,
        "files of the test set, in the format of data; none: the test set of the data, "
        "otherwise test_fraction of the rows",
    )
    test_fraction: float | None = _data(
        None,
        "fraction of the data held out for testing if they have no test set; none: 0.2, and 0 for arrays",
        ge=0,
        lt=1,
    )
    label_columns: list[str] = _data(
        [],
        "label columns of a table; if empty: all named label*, else target, else the last column",
    )
    input_columns: list[str] = _data(
        [],
        "inputs of the network: columns by name or as x1, x2, ..., powers x1^2, sin(x1), cos(x1); if empty: all "
        "columns except labels",
    )
    data_keys: list[str] = _data(
        [],
        "names of the arrays in an NPZ file (inputs, labels, optionally test inputs and test labels); of the "
        "features in a TFRecord file (inputs, labels)",
    )
    encoding: str | None = _data(
        None,
        "character encoding of text tables, such as latin-1, cp1252 or utf-16; none: UTF-8",
    )
    num_classes: int | None = _data(
        None,
        "number of classes, used to check labels; 0: regression; none: inferred from the "
        "labels (classes for text and for up to 20 different integers below 100)",
        ge=0,
    )
    standardize: Literal["auto", "none", "inputs", "targets", "all", "pixels"] = _data(
        "auto",
        "inputs, targets (of a regression), all: scale to mean 0 and standard deviation 1 on the training set; pixels: "
        "divide inputs by their maximum; auto: data far from order 1, for a given model only targets if it does not "
        "scale its outputs; predictions are in the units of the data",
    )
    shuffle: bool = _data(
        True, "random batches and a random test set; false keeps the order of the data for both"
    )
    sample_weights: str | None = _data(
        None,
        "column of a table, or array of an NPZ file, with the weight of each example in the loss; none: 1",
    )
    class_weights: Weights = _data(
        [], "weight of each class in the loss, one per class or by name (spam=5); if empty: 1"
    )
    memory_limit: float = _data(
        2000.0,
        "memory for inputs in megabytes; a larger data set stays on disk, and each step "
        "reads the examples of its batch",
        gt=0,
    )
    batch_size: int | None = _data(
        None, "examples per mini-batch; none: all examples at every step", ge=1
    )
    batch_sampling: Literal["auto", "epochs", "symmetric", "replacement"] = _data(
        "auto",
        "shuffled epochs; symmetric: fixed batches in random order, then backwards, then "
        "in a new order; replacement: examples drawn with replacement; auto: epochs, or "
        "replacement for samplers that subtract the noise of mini-batches (SGHMC with "
        "gradient_noise, CCAdL, words with C)",
    )

    model: str | None = _model(
        None,
        "a .keras file, or a function that builds the model, my_net.py:build or my_module:build; none: a dense network "
        "built from the options below",
    )
    hidden: list[Units] = _model([], "units of each hidden layer when no model is given")
    activation: str = _model("relu", "activation of the hidden layers, any Keras name")
    output_activation: str = _model("linear", "activation of the last layer, a Keras name")
    use_bias: bool = _model(
        True, "whether layers have biases; the physical systems harmonic and gaussian have none"
    )
    fix_parameters: str | list[str] | None = _model(
        None,
        "parameters held fixed, by pattern: dense/bias, dense_1/*, dense/kernel[0,3], optionally with values: "
        "output/bias=0,0.5",
    )
    layers: Literal["all", "last"] = _model(
        "all",
        "last: sample the last layer with weights only; the layers before it keep their weights, and their "
        "outputs are computed once",
    )
    dtype: Literal["float32", "float64"] = _model(
        "float32", "floating-point precision of parameters and arithmetic"
    )

    loss: str | None = _posterior(
        None,
        "sparse_categorical_crossentropy, categorical_crossentropy, binary_crossentropy, gaussian, "
        "heteroscedastic_gaussian (the network predicts mean and log standard deviation), mean_squared_error, "
        "mean_absolute_error, pinball (a quantile) or another Keras loss; bernoulli, categorical: the cross-entropy for "
        "the labels; a likelihood: student_t, laplace, log_normal, gamma, beta, "
        "poisson_count, negative_binomial, zero_inflated_poisson, zero_inflated_negative_binomial, ordinal, "
        "censored_normal, censored_log_normal, censored_weibull, or my_file.py:MyLikelihood; none: a cross-entropy for "
        "labels, gaussian for regression",
    )
    degrees_of_freedom: Annotated[float, Field(gt=2)] | Literal["sampled"] = _posterior(
        10.0,
        "degrees of freedom of the noise under loss student_t; sampled: one more parameter, its logarithm above 2",
    )
    from_logits: Literal["auto"] | bool = _posterior(
        "auto", "outputs are logits; auto: by the last activation"
    )
    noise_std: Annotated[float, Field(gt=0)] | Literal["sampled", "by_target", "predicted"] = (
        _posterior(
            "sampled",
            "standard deviation of the noise under loss gaussian, width under student_t "
            "and laplace; sampled: its logarithm is one more parameter (default in a "
            "Gaussian regression, else 1); by_target: one for each target (default with "
            "several targets); predicted: by the network (default of student_t and "
            "laplace)",
        )
    )
    quantile_level: float = _posterior(
        0.5, "probability below the quantile that loss pinball predicts", gt=0, lt=1
    )
    rounding: Literal["auto", "none"] = _posterior(
        "auto",
        "whether a predicted spread includes the rounding of the targets, variance (unit^2)/12; auto: "
        "where at least half of them occur more than once; none: the spread may come down to 0",
    )
    noise_prior: Literal["half_normal", "inverse_gamma", "log_normal"] = _posterior(
        "inverse_gamma",
        "prior of a sampled noise_std: half-normal, Gamma distribution of 1/noise_std^2 (inverse_gamma), log-normal",
    )
    noise_prior_scale: Annotated[float, Field(gt=0)] | Literal["auto", "deviation"] = _posterior(
        "auto",
        "scale of that prior, in units of the targets; deviation: the standard deviation "
        "of the training targets; auto: 0.3 times it for inverse_gamma, else equal to it",
    )
    noise_prior_shape: float = _posterior(
        1.0,
        "shape of that Gamma distribution, or standard deviation of log(noise_std) for log_normal",
        gt=0,
    )
    potential: Literal["posterior", "mean_loss"] | CodeName = _posterior(
        "posterior",
        "posterior: U = N * mean loss - log prior; mean_loss: the same without the "
        "factor N; or a function that replaces model and data, U = -log density: "
        "my_file.py:my_potential or my_module:my_potential",
    )
    dimension: int | None = _posterior(
        None,
        "number of coordinates of a potential that is a function; none: as many as "
        "coordinates has names",
        ge=1,
    )
    coordinates: list[str] = _posterior(
        [], "names of the coordinates of such a potential; if empty: x[0], x[1], ..."
    )
    prior: PriorNames = _posterior(
        "gaussian",
        "prior of the parameters; hierarchical: unknown widths; under potential mean_loss none",
    )
    prior_std: Positive = _posterior(1.0, "standard deviation of the Gaussian prior")
    prior_scale: Positive = _posterior(
        1.0,
        "scale of Laplace, Student-t and hierarchical priors",
    )
    prior_degrees: Positive = _posterior(
        3.0,
        "degrees of freedom of the Student-t (1: Cauchy) and hierarchical prior",
    )
    prior_bound: Positive = _posterior(1.0, "half-width of the box prior")
    prior_scaling: Literal["none", "fan_in"] = _posterior(
        "none",
        "fan_in: divide widths, scales and bounds by sqrt(k), k = fan-in + 1 of the parameter's layer",
    )
    lower_wall: Wall = _posterior(
        None,
        "hard wall: U is infinite below it, and Langevin methods are reflected; the "
        "prior is normalized above it",
    )
    upper_wall: Wall = _posterior(None, "hard wall above the parameters")
    prior_factor: NotNegative = _posterior(
        1.0, "strength of soft walls and tethers, a term of U without the factor N"
    )
    prior_power: NotNegative = _posterior(
        1.0, "exponent of the distance in the force of soft walls and tethers"
    )
    prior_lower_boundary: Wall = _posterior(
        None,
        "soft wall: U rises in a layer before it and beyond; if equal to "
        "prior_upper_boundary: a tether to that value",
    )
    prior_upper_boundary: Wall = _posterior(None, "soft wall above the parameters")
    tether: str | None = _posterior(
        None,
        "run folder or file of parameters w0: V = prior_factor |w - w0|^2/2, normalized, "
        "replaces the prior",
    )

    sampler: str = _sampler(
        "auto",
        "a splitting word over A, B, O, U, C, D (BAOAB, UBU, BADODAB, ...); a method by "
        "name: {samplers}; your own: my_module:MySampler or my_file.py:MySampler; or a "
        "preset, a set of options: {presets}; auto: BAOAB, or chosen from data and model "
        "if step size and ladder are open too",
    )
    preset: Preset | None = _sampler(None, "a set of options by name; may also be given as sampler")
    step_size: Annotated[float, Field(gt=0)] | Literal["auto"] = _sampler(
        "auto",
        "time step h of the scheme; for SGLD the coefficient of the gradient; auto: "
        "tuned in the burn-in to target_acceptance or target_bias, then frozen",
    )
    friction: Annotated[float, Field(ge=0)] | Literal["auto"] = _sampler(
        1.0,
        "friction coefficient gamma, the rate of the O step, in 1/time; MCLMC: rate at "
        "which directions are refreshed; auto: tuned in the burn-in (MCLMC, and words "
        "without D)",
    )
    temperature: float | None = _sampler(
        None, "temperature T of the target distribution exp(-U/T); none: 1", gt=0
    )
    inverse_temperature: float | None = _sampler(
        None, "beta of the target exp(-beta U), instead of temperature", gt=0
    )
    thermal_mass: float | None = _sampler(
        None,
        "mass of the thermostat of SGNHT, CCAdL and words with D; none: the number of parameters",
        gt=0,
    )
    thermostat_bath: Literal["friction", "noise"] = _sampler(
        "friction",
        "words with D on a ladder: all rungs have the same friction, or the same noise, as in RENHD",
    )
    gradient_noise: Literal["estimate"] | float = _sampler(
        0.0, "SGHMC: variance of the mini-batch gradient; estimate: measured during the burn-in"
    )
    covariance_window: int | None = _sampler(
        None,
        "CCAdL: steps over which the gradient variance is averaged; none: all, as published",
        ge=1,
    )
    preconditioner: Literal["frozen", "adaptive"] = _sampler(
        "frozen",
        "pSGLD: frozen after the burn-in, or adaptive throughout, as published (biased)",
    )
    preconditioner_decay: float = _sampler(
        0.99, "pSGLD: decay per step of the mean squared gradient", ge=0, lt=1
    )
    preconditioner_offset: float = _sampler(
        1e-5, "pSGLD: lambda in 1 / (lambda + rms of the mean gradient)", gt=0
    )
    preconditioner_correction: bool = _sampler(
        True, "pSGLD, adaptive: include the term Gamma, at twice the cost"
    )
    num_leapfrog_steps: Annotated[int, Field(ge=1, le=10**6)] | Literal["auto"] = _sampler(
        10,
        "leapfrog steps per Metropolis test of HMC, HMC1, GHMC and MAMS; auto: tuned in "
        "the burn-in (not for GHMC)",
    )
    leapfrog_jitter: float = _sampler(
        0.5, "HMC, HMC1, MAMS: relative spread of the random length", ge=0, le=1
    )
    integrator: Literal["leapfrog", "mclachlan", "isotropic"] = _sampler(
        "leapfrog",
        "MCLMC and MAMS: leapfrog; mclachlan: two gradients per step, smaller error; "
        "isotropic: two gradients per step, least error if a mass has made all "
        "directions alike",
    )
    walls: Literal["reject", "reflect"] = _sampler(
        "reject",
        "HMC, HMC1 and MAMS at the walls of the box prior: reject the trajectory, or reflect it; both are exact",
    )
    target_bias: float = _sampler(
        0.02,
        "step_size auto without a Metropolis test: allowed relative error of variances",
        gt=0,
        le=1,
    )
    target_bias_of: Literal["mean", "worst"] = _sampler(
        "mean",
        "what target_bias bounds: the mean over all directions, or each one (smaller steps)",
    )
    target_acceptance: float | None = _sampler(
        None,
        "tune the step size to this acceptance in the burn-in (HMC, HMC1, GHMC, MAMS, "
        "MALA, RWMH); none: no tuning, or with step_size auto 0.8 (MAMS 0.9, MALA 0.574, "
        "RWMH 0.234)",
        gt=0,
        lt=1,
    )
    step_size_tuning: Literal["dual_averaging", "baldock"] = _sampler(
        "dual_averaging",
        "rule of target_acceptance: dual averaging, or factors of 0.9 outside a window of +- 0.05",
    )
    step_schedule: str = _sampler(
        "constant",
        "constant, polynomial, cyclical, or a CSV file of step sizes with the columns step and value",
    )
    schedule_delay: float = _sampler(
        1000.0, "polynomial: b in the factor (1 + t/b)^-a, in steps", gt=0
    )
    schedule_power: float = _sampler(
        0.55, "polynomial: exponent a in the factor (1 + t/b)^-a", ge=0, le=1
    )
    cycle_steps: int = _sampler(1000, "cyclical: steps per cycle", ge=2)
    exploration_fraction: float = _sampler(
        0.0,
        "cyclical: initial fraction of each cycle, run at temperature 0 and excluded from averages",
        ge=0,
        lt=1,
    )
    temperature_schedule: str = _sampler(
        "constant",
        "constant, annealing (during the burn-in), or a CSV file with the columns step and value",
    )
    temperature_start: float | None = _sampler(None, "annealing: initial temperature", gt=0)
    mass: Mass = _sampler(
        "unit",
        "mass of each parameter: 1, fan-in + 1 of its layer, or measured in the burn-in: sqrt(Var g / Var position) "
        "(fisher; fisher:32 with 32 directions in addition to the diagonal), T / Var position, or rms of the gradient g",
    )
    tempering_plateau: float = _sampler(
        0.1,
        "TACT-HMC: fraction of the range of the tempering variable at the target temperature",
        gt=0,
        lt=1,
    )
    tempering_steps: float = _sampler(
        100.0,
        "TACT-HMC: steps the tempering variable needs, at thermal speed, to travel a distance of 1",
        gt=0,
    )
    tempering_nodes: int = _sampler(
        25, "TACT-HMC: grid points where the mean potential is estimated", ge=2, le=10_000
    )
    batch_norm: Literal["frozen", "batch"] = _sampler(
        "frozen",
        "batch normalization with its moving statistics, learned by fit, or with the "
        "statistics of each mini-batch, as in training",
    )
    control_variate: bool = _sampler(
        False, "correct mini-batch gradients by the gradient of all data at a center"
    )
    control_variate_every: int = _sampler(
        0, "steps after which that center moves to the walker; 0: never", ge=0
    )
    covariance_blending: float = _sampler(
        0.0,
        "eta of ensemble quasi-Newton: walkers precondition each other by 1 + eta cov; 0: off",
        ge=0,
    )
    covariance_after_steps: int = _sampler(
        100,
        "ensemble quasi-Newton: steps between refreshes of the covariance of the other walkers",
        ge=1,
    )
    ensemble_scheme: Literal["halves", "simultaneous"] = _sampler(
        "halves",
        "halves take turns, which preserves the target; simultaneous is biased and meant "
        "for comparison",
    )

    num_walkers: int = _walkers(
        1, "copies of the system, each with independent random numbers", ge=1
    )
    parameters: str | None = _walkers(
        None,
        "initial positions of walkers: a trajectory of tati_re (.csv, .h5) or of TATi, an .npz or .keras file, or a "
        "run folder; none: the weights of the model",
    )
    parameters_step: int | None = _walkers(
        None, "row of that trajectory, by its column step; none: the last", ge=0
    )
    walker_start: Literal["same", "jitter", "fresh", "fit"] = _walkers(
        "same",
        "same: at the model's weights, or at rows of parameters; jitter: displaced from "
        "there by walker_jitter; fresh: each drawn from U(-1/sqrt(k), 1/sqrt(k)), k = "
        "fan-in + 1; fit: fresh, then fitted before sampling",
    )
    fit_steps: int = _walkers(
        2000,
        "walker_start fit: steps of the fit, the last quarter at a tenth of the learning rate; if the run chooses "
        "its sampler, enough for ten epochs, from the default to 20,000",
        ge=1,
    )
    walker_jitter: float = _walkers(
        0.01, "jitter: standard deviation of the displacement of each parameter", gt=0
    )
    walker_batches: Literal["own", "shared"] = _walkers(
        "own", "separate mini-batches for each walker, or the same for all"
    )
    walker_evaluation: Literal["auto", "vectorized", "unrolled", "looped"] = _walkers(
        "auto",
        "how gradients of several walkers are computed; auto chooses from the model and the number of walkers",
    )

    num_replicas: int | None = _replicas(
        None,
        "rungs of a temperature ladder, num_walkers copies at each; with temperature_ratio, max_temperature or "
        "tempering likelihood; none: one temperature",
        ge=2,
    )
    temperature_ratio: float | None = _replicas(
        None, "ratio of neighboring temperatures, above 1", gt=1
    )
    max_temperature: float | None = _replicas(
        None,
        "highest temperature of a geometric ladder, or of TACT-HMC (default there: 6 "
        "times the target's)",
        gt=0,
    )
    temperatures: list[Temperature] = _replicas(
        [], "all temperatures of the ladder, ascending, the target's first"
    )
    tempering: Literal["posterior", "likelihood"] = _replicas(
        "posterior", "what the ladder tempers: all of U, or the likelihood alone, down to the prior"
    )
    step_sizes: list[Temperature] = _replicas(
        [], "step size of each rung; if empty: step_size for all"
    )
    adapt_ladder: bool = _replicas(
        False,
        "move the inner rungs during the burn-in until all neighboring pairs have the same rejection rate",
    )
    exchange: Literal["pairs", "infinite", "tempering", "none"] = _replicas(
        "pairs",
        "pairs: pairs of rungs swap; infinite: all assignments by their exact weights, up to 6 rungs; tempering: each "
        "walker moves on the ladder independently; none: no swaps",
    )
    swap_rule: Literal[
        "auto", "metropolis", "barker", "penalty", "barker_compensated", "corrected", "naive"
    ] = _replicas(
        "auto",
        "acceptance rule for swaps; auto: metropolis on all data, penalty on mini-batches",
    )
    swap_schedule: Literal["even_odd", "random_neighbours", "all_pairs"] = _replicas(
        "even_odd",
        "pairs that try: even and odd neighbors in turn, one of the two at random, or any two rungs",
    )
    exchange_every: int | None = _replicas(
        None,
        "steps between rounds of swaps; none: 20, or 1 with a Metropolis test, or 10 "
        "with exchange tempering",
        ge=1,
    )
    exchange_batch_size: int | None = _replicas(
        None, "examples per energy estimate of a swap; none: batch_size", ge=2
    )
    swap_variance: float = _replicas(
        1.0,
        "noise variance of a swap (barker_compensated; others if set); the batch grows "
        "until the variance is smaller",
        gt=0,
    )
    correction_factor: float = _replicas(
        1.0, "corrected: divisor of the correction; above 1: more swaps, but a bias", ge=1
    )
    correction_decay: float = _replicas(
        1.0,
        "corrected: correction_factor is multiplied by this at each accepted swap of a ladder",
        gt=0,
        le=1,
    )
    correction_growth: float = _replicas(
        1.0, "corrected: growth of correction_factor in 1,000 steps", ge=1
    )
    variance_gain: float | None = _replicas(
        None,
        "corrected: weight of a new variance estimate; none: 1/m for the m-th, the mean of all",
        gt=0,
        le=1,
    )
    variance_every: int = _replicas(
        1, "corrected: swap attempts per pair between two variance estimates", ge=1
    )
    replica_start: Literal["same", "fresh", "descent"] = _replicas(
        "same",
        "start of the replicas; same: the positions of the walkers; fresh: each drawn "
        "from U(-1/sqrt(k), 1/sqrt(k)), k = fan-in + 1; descent: fresh, followed by a "
        "descent on all data",
    )
    descent_steps: int = _replicas(
        1000, "replica_start descent: number of steps, each with a gradient on all data", ge=1
    )
    bias: Literal["none", "well_tempered", "WTE"] = _replicas(
        "none",
        "well_tempered: a bias on the energies, grown in the burn-in, that makes the "
        "energies of neighboring rungs overlap; WTE: the same, on a ladder of four "
        "temperatures if no ladder is set",
    )
    bias_factor: float = _replicas(
        10.0, "gamma: factor by which the bias increases the variance of U", gt=1
    )
    bias_rate: float = _replicas(
        0.5, "height of a deposit of the bias, in units of the rung's temperature", gt=0
    )
    bias_width: float = _replicas(
        0.25, "width of a deposit, in standard deviations of the rung's energies", gt=0
    )
    bias_energies: Literal["full", "batch"] = _replicas(
        "full",
        "energies the bias acts on; with mini-batches, full costs a forward pass over "
        "all data at each step, and batch smooths the bias by the noise of their energies",
    )
    trajectory_rungs: Literal["target", "all"] = _replicas(
        "target", "rungs whose positions are stored and averaged"
    )

    optimizer: str = _training(
        "adam", "Keras' optimizers by name, gradient_descent, barzilai_borwein, fire, annealing"
    )
    learning_rate: float = _training(
        0.01, "learning rate; for barzilai_borwein and fire the first one", gt=0
    )
    momentum: float = _training(
        0.0,
        "momentum of sgd, rmsprop or annealing, the fraction of a step that is kept; 0: "
        "default of Keras",
        ge=0,
        lt=1,
    )
    stages: list[Stage] = _training(
        [],
        f"stages of fit, {FORM} each, such as 3000:0.5:550 3000:0.05:{ALL}: steps, learning rate, batch size "
        f"({ALL}: all examples); missing parts as for the run; num_steps is their sum",
    )
    barzilai_borwein_step: Literal["long", "short"] = _training(
        "short", "step of barzilai_borwein; long: s's/s'y; short: s'y/y'y"
    )
    annealing_start_temperature: float = _training(
        1.0, "temperature of the first stage of annealing", gt=0
    )
    annealing_cooling: float = _training(
        0.8, "ratio of the temperatures of successive stages of annealing", gt=0, lt=1
    )
    annealing_stage_steps: int = _training(100, "steps per stage of annealing", ge=1)
    annealing_validations: int = _training(
        10, "number of evaluations of the test loss per stage of annealing (at least)", ge=1
    )

    method: list[EvidenceMethod] = _evidence(
        ["thermodynamic_integration"],
        "estimators of log Z, tabulated if several: thermodynamic_integration, frenkel_ladd, stepping_stone, mbar, smc",
    )
    evidence_grid: Literal["gauss_legendre", "trapezoid", "corrected_trapezoid", "simpson"] = (
        _evidence(
            "gauss_legendre",
            "points between the prior (or springs at a minimum) and the posterior, and the quadrature rule; simpson is "
            "evenly spaced, as published for frenkel_ladd",
        )
    )
    evidence_nodes: int = _evidence(16, "quadrature points along the path", ge=2, le=1000)
    evidence_power: float = _evidence(
        5.0,
        "p of the path t^p; points or Gauss-Legendre nodes are evenly spaced in t",
        ge=1,
        le=100,
    )
    evidence_sampling: Literal["ladder", "sequential"] = _evidence(
        "ladder",
        "ladder: all points at once, neighbors swap; sequential: one by one, starting at the reference",
    )
    num_particles: int = _evidence(
        128, "smc: chains per population; every move of a chain adds a member", ge=2
    )
    num_populations: int = _evidence(
        8, "smc: independent populations, whose spread gives the error", ge=2
    )
    num_moves: int = _evidence(
        5, "smc: sampler steps after each resampling; all enter the estimate", ge=1
    )
    particle_fraction: float = _evidence(
        0.7,
        "smc: the next lambda is chosen so that the effective sample size is this fraction of the population",
        gt=0,
        lt=1,
    )

    num_steps: int = _run(
        1000,
        "number of steps including burn-in; the upper limit if until is set (default then 100000)",
        ge=1,
    )
    goal: Literal["posterior", "predict"] | None = _run(
        None,
        "posterior: sample the posterior of the model as given; predict: choose likelihood, hidden layers and prior "
        "width on held-out training rows; fit 8 members and sample a chain from each; stop when predictions no longer "
        "improve or after max_time (60 seconds if not set); none: predict if no model, hidden layers, loss, prior or "
        "sampler is named, or if steps cannot see all rows of a named model; else posterior",
    )
    candidates: str | list[str] | None = _run(
        None,
        "goal predict: models to compare, LOSS:UNITS:WIDTH each, such as gaussian:16-16:0.5; none: a list that "
        "follows from the labels",
    )
    until: str | None = _run(
        None,
        "conditions that end sampling before num_steps, joined by commas: rhat<1.01 (worst R-hat), ess>400 (least "
        "effective sample size; both of U, predictions and coordinates), rhat(weights)<1.1 (no chain of a network still "
        "drifts); ess(sigma)>400 (ESS of a named "
        "parameter); mcse(potential)<0.1 (standard error of the mean of a column of run.csv); gain<0.005 (change of the "
        "leave-one-out log density of a row in the last doubling of the draws)",
    )
    require_certificate: bool = _run(
        False,
        "report the certificate in the exit status of a completed run: 0 passed, 4 failed, 5 not measured",
    )
    certify: Literal["none", "teacher"] = _run(
        "none",
        "teacher: compare with chains from exact equilibrium draws, one or two more runs",
    )
    simulate: CodeName | None = _run(
        None,
        "certify teacher, for densities: a function of a NumPy generator that returns an exact draw",
    )
    num_burnin_steps: Annotated[int, Field(ge=0)] | None = _run(
        None,
        "initial steps, excluded from averages and trajectory; none: until the tuning has settled, at most half "
        "of num_steps; 0 if nothing adapts",
    )
    record_every: Annotated[int, Field(ge=1)] | Literal["auto"] = _run(
        "auto",
        "steps between rows of run.csv and averages.csv; auto: 1 for samplers with a Metropolis test, else 10",
    )
    full_every: int = _run(
        0,
        "steps between evaluations of full_loss and full_potential on all data, a multiple of record_every; 0: never",
        ge=0,
    )
    trajectory_every: Annotated[int, Field(ge=0)] | Literal["auto"] = _run(
        "auto",
        "steps between rows of the trajectory; 0: no trajectory; auto: store about 1,000 "
        "draws in total (20,000 with until), at most 512 MB; 100 for a fit",
    )
    group_temperatures: bool = _run(
        False,
        "columns of run.csv with the kinetic energy and the virial of each tensor, for tati-analyse",
    )
    trajectory_format: Literal["auto", "csv", "h5"] = _run(
        "auto", "auto: h5 for more than 1,000 parameters, else csv"
    )
    stream_predictions: int = _run(
        0,
        "steps between test set predictions that are averaged during the run, without "
        "storing positions; 0: never",
        ge=0,
    )
    weights: Literal["equal", "stacking"] = _run(
        "equal",
        "weights of the chains in predictions; stacking: by their leave-one-out "
        "predictive density, which excludes a stuck chain",
    )
    calibrate: Literal["none", "loo"] = _run(
        "none",
        "loo: fit one temperature of class probabilities, or one scale of predictive "
        "distributions, to training rows left out one by one",
    )
    directions: str | None = _run(
        None,
        "a .npy, .npz or .csv file of row vectors; the trajectory stores the projections c0, c1, ... on them",
    )
    output: str | None = _run(
        None, "run folder; a command without it takes the next free of runs/sample-1, ..."
    )
    run_file: str | None = _run(None, "file that run.csv is copied to during the run")
    averages_file: str | None = _run(None, "file that averages.csv is copied to during the run")
    trajectory_file: str | None = _run(
        None, "file that the trajectory is copied to during the run, .csv or .h5"
    )
    save_model: str | None = _run(
        None,
        "a .keras file for the model at the end of the run, with the parameters of the first walker",
    )
    overwrite: bool = _run(False, "replace the files of an earlier run in the run folder")
    resume: str | None = _run(
        None,
        "run folder to resume; may be combined only with num_steps (the new total), max_time, requeue_signal, "
        "require_certificate, verbose, options of workers, and data, code and files that the folder names",
    )
    seed: int = _run(0, "seed of all random numbers", ge=0)
    call: int | None = _run(
        None,
        "index of this run among runs with the same seed; each index has its own random numbers; none: counted by a "
        "Simulation, 1 in a command",
        ge=1,
    )
    execution: Literal["auto", "xla", "graph", "eager"] = _run(
        "auto",
        "how steps are compiled; the sampled distribution is the same; auto: XLA, or a "
        "graph if that is faster or num_steps times num_walkers is at most 4,000 (fit: "
        "12,000)",
    )
    threads: int | None = _run(None, "number of TensorFlow threads; none: TensorFlow decides", ge=1)
    workers: Annotated[int, Field(ge=1)] | None = _workers(
        None,
        "processes that hold the walkers in blocks, each with the number of threads set "
        "by `threads` (default 1); may change on resume; none: one loop for all walkers "
        "in this process",
    )
    block_size: Annotated[int, Field(ge=1)] | Literal["auto"] = _workers(
        "auto",
        "walkers per block, with workers; results depend on it, not on the number of "
        "workers; auto: 1 if the run chooses the sampler or has at most 4 walkers, else up to 4; on a "
        "ladder one replica of every walker",
    )
    cluster: str | None = _workers(
        None,
        "Ray cluster that runs the workers; auto: the cluster of this job; host:port: a running cluster; "
        "must be given again on resume; none: this machine, without Ray",
    )
    worker_gpus: float | None = _workers(
        None,
        "fraction of a GPU per worker, at most 1; must be given again on resume; none: CPUs",
        gt=0,
        le=1,
    )
    checkpoint_seconds: float = _run(10.0, "seconds between checkpoints", gt=0)
    tensorboard: str | None = _run(
        None,
        "folder for TensorBoard event files: the columns of run.csv for each walker, at each checkpoint",
    )
    max_time: float | None = _run(
        None, "seconds from the call to a stop with a checkpoint; exit status 75", gt=0
    )
    requeue_signal: Literal["SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGURG"] | None = _run(
        None,
        "signal of a batch queue that stops the run with a checkpoint; exit status 128 "
        "plus its number",
    )
    verbose: int = _run(
        1,
        "0: quiet; 1: choices, progress, certificate; 2: details too; --quiet is the same as --verbose 0",
        ge=0,
        le=2,
    )

    @model_validator(mode="after")
    def _one_temperature(self) -> "Options":
        if self.temperature is not None and self.inverse_temperature is not None:
            raise PydanticCustomError("two_temperatures", "temperature and inverse_temperature")
        return self

    @property
    def beta(self) -> float:
        """The inverse temperature of the target exp(-beta U); that of the first of several, 1.0
        where none is given.
        """
        if self.temperature is None and self.inverse_temperature is not None:
            return self.inverse_temperature
        return 1.0 / self.kT

    @property
    def kT(self) -> float:
        """The temperature of the target, 1 / beta; 1.0 where none is given."""
        if self.temperature is None and self.inverse_temperature is not None:
            return 1.0 / self.inverse_temperature
        return self.temperature or (self.temperatures[0] if self.temperatures else 1.0)

    @property
    def first_step_size(self) -> float:
        """The target's step size as a number: where it is "auto", the unit of the factor that the
        run finds.
        """
        step_size = self.step_sizes[0] if self.step_sizes else self.step_size
        return FIRST_STEP_SIZE if isinstance(step_size, str) else step_size

    @property
    def burnin(self) -> int:
        """`num_burnin_steps` as a number: 0 where it is left to the run."""
        return self.num_burnin_steps or 0

    @property
    def run_seed(self) -> int:
        """The seed of what a run draws, its noise, mini-batches and fresh starts: `seed` in the
        first call, and in each further one another number below 2**63.
        """
        if self.call in (None, 1):
            return self.seed
        return (
            int.from_bytes(
                sha256(f"tati_re/{self.seed}/call {self.call}".encode()).digest()[:8], "little"
            )
            >> 1
        )

    @property
    def is_target(self) -> bool:
        """Whether the potential names a function, in place of model and data."""
        return ":" in self.potential

    @property
    def num_rungs(self) -> int:
        """The temperatures of a run: 1 without a ladder."""
        return self.num_replicas or len(self.temperatures) or 1

    @property
    def tati(self) -> Mapping[str, Any]:
        """The values given under names of TATi, by those names (`tati_re.options.tati_names`)."""
        return self._tati

    def values_of(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    @property
    def derived(self) -> frozenset[str]:
        """The explicit options that nobody gave: they follow from names of TATi."""
        return self._derived

    def resolved(self, **values: Any) -> "Options":
        """The same options with values that follow from a run; they do not count as given."""
        copied = self.model_copy(update=values)
        copied.model_fields_set.intersection_update(self.explicit)
        return copied

    @property
    def explicit(self) -> frozenset[str]:
        """The names of the options that were given, by whatever door; all others have their
        defaults.
        """
        return frozenset(self.model_fields_set)


OPTIONS: Mapping[str, FieldInfo] = Options.model_fields
COMMANDS_ONLY = ("resume",)


def options_of(groups: Iterable[str]) -> dict[str, FieldInfo]:
    """Returns the entries of the table that belong to these groups, in the order of the table."""
    chosen_groups = set(groups)
    return {name: field for name, field in OPTIONS.items() if group_of(field) in chosen_groups}


def group_of(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["group"])
