"""A system from options and objects: data set, model, loss, prior, and their potentials."""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tati_re.core.backend import keras, layers_of, on_gpu, tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.process.memory import check_free
from tati_re.data import Batches, Dataset, dataset_from_options
from tati_re.data.describing import cautions
from tati_re.data.generators import GENERATORS
from tati_re.data.labels import are_integers
from tati_re.data.standardizing import (
    automatic,
    skewed_targets_notes,
    standardized,
    standardized_as,
)
from tati_re.likelihoods import rounding
from tati_re.likelihoods.contract import CLASSES, VALUES, Likelihood, Objective
from tati_re.likelihoods.extra_parameters import BY_TARGET, NAME, SAMPLED
from tati_re.likelihoods.gaussian import GaussianNoise
from tati_re.likelihoods.keras_losses import loss_name, refuse_ignored, traits_of
from tati_re.models.build import build_network, imported_model, load_model
from tati_re.models.flat import FlatModel
from tati_re.models.inputs import tensors_of
from tati_re.models.inspect import (
    one_output,
    output_activation_of,
    output_shape_of,
    squashing_of,
    work_of,
)
from tati_re.models.last_layer import flat_model
from tati_re.models.precision import in_precision
from tati_re.options.make import OPTIONS, Options, options_of, unknown
from tati_re.options.tati_names import ALIASES, check_dimensions, current_names
from tati_re.options.user_code import is_code
from tati_re.posterior.device_data import device_bytes, device_targets, is_signs, scaled
from tati_re.posterior.likelihood_option import likelihood_of_loss
from tati_re.posterior.losses import Loss, make_loss
from tati_re.posterior.noise_level import (
    check_noise,
    extended,
    is_sampled,
    resolved_noise,
    target_names,
    with_extra_priors,
)
from tati_re.posterior.potential import ModelPotential
from tati_re.posterior.priors import Prior, Tether, check_prior, make_prior
from tati_re.prediction.network import fitted_shape
from tati_re.runs import manifest
from tati_re.runs.files import MANIFEST
from tati_re.runs.parameters import read_parameters
from tati_re.system.current_batch import CurrentDataset
from tati_re.system.features import features_of, layers_notes
from tati_re.system.units import predicts_in_units


def as_trained(
    read: Dataset,
    options: Options,
    noise_std: float | str,
    is_explicit: bool,
    loss: object,
    model: Any = None,
) -> tuple[Dataset, tuple[str, ...]]:
    """The data set as `standardize` "auto" decides, and sentences about it.

    Where walkers start from a run, its standards are taken.

    Args:
        read: The data set as it was read.
        options: Options of the run.
        noise_std: The noise: a number, "sampled" or "by_target".
        is_explicit: Whether the network was given, so that it may not be made for these data.
        loss: The loss that was given as an object in place of the option; None without one.
        model: The given network where it exists already. Default: None.
    """
    if (
        options.standardize != "auto"
        or options.potential != "posterior"
        or options.tati
        or read.name in GENERATORS
    ):
        return read, ()
    before = _run_before(options)
    if before:
        stored = manifest.read(before)
        mode = stored.options.standardize
        if mode == "none":
            return read, ()
        standards = stored.dataset.preparation
        config = {} if standards is None else dict(standards.table)
        sentence = f"standardize {mode}, as in the run {before}."
        return standardized_as(read, config, mode), (sentence,)
    units = [
        name for name in sorted(options.explicit) if name in ("noise_std", "noise_prior_scale")
    ]
    traits = traits_of(options.loss)
    sampled = is_sampled(noise_std) and isinstance(options.noise_prior_scale, str)
    free = traits.predicts_noise or (sampled and not traits.own_units)
    # Of targets that do not vary the mean alone is taken off.
    free |= (
        not units
        and loss is None
        and options.loss in (None, "gaussian")
        and not np.ptp(read.targets, axis=0).any()
    )
    mode, note = automatic(
        read,
        is_explicit,
        "" if free else [*units, "the loss"][0],
        1e6 * options.memory_limit,
        lambda: predicts_in_units(model, read),
        isinstance(model, keras.Model) and _scales_bytes(model) is not None,
    )
    return standardized(read, mode), (note,) if note else ()


def _run_before(options: Options) -> str:
    """The folder of the run where walkers start; empty without one.

    Args:
        options: Options of the run.
    """
    named = options.parameters or ""
    folder = named if os.path.isdir(named) else os.path.dirname(named)
    return folder if folder and os.path.isfile(os.path.join(folder, MANIFEST)) else ""


def _likelihood_before(options: Options) -> dict[str, Any]:
    """The configuration of the likelihood of the run where walkers start; empty without one.

    Args:
        options: Options of the run.
    """
    before = _run_before(options)
    return stored_likelihood(manifest.read(before)) if before else {}


def stored_likelihood(stored: manifest.Manifest) -> dict[str, Any]:
    """The configuration of the likelihood of a run; empty for a loss without constants.

    Args:
        stored: The manifest of the run.
    """
    likelihood = stored.loss.likelihood
    return dict(likelihood) if isinstance(likelihood, Mapping) else {}


_FEW_STEPS = 4_000
"""Steps times walkers up to which a compilation by XLA costs more than it saves. Seconds in a graph
and under XLA on 2 cores: 8-50-1, 2,000 steps of one walker 1.2 and 1.5, of four 2.9 and 2.2;
784-100-10, batch 100, 500 steps of four 3.7 and 4.1, 2,000 of them 14 and 9.
"""
FIXED = {*options_of(("data", "model", "walkers")), "dimension", "coordinates", "threads"} - {
    *("batch_size", "batch_sampling", "walker_batches", "walker_evaluation", "fit_steps")
}
"""Options that shape the system: set once, when a Simulation is made."""

OBJECTS = (
    *(
        "data",
        "test_data",
        "sample_weights",
        "model",
        "loss",
        "potential",
        "prior",
        "optimizer",
        "sampler",
        "simulate",
    ),
    *("directions", "mass", "step_schedule", "temperature_schedule"),
)
"""Options that may also be objects in Python."""

OF_LAYERS = ("activation", "output_activation", "use_bias")
"""Options of the layers of a network that is built."""

_COPIES = ("num_walkers", "num_replicas", "evidence_nodes", "num_populations", "num_particles")
"""Options whose product walkers are."""
_NUMBERS = 40
"""Measured, graph and XLA: 42 to 101 for networks of 7,510 to 16,304,010 parameters and 1 to 3,000
walkers.
"""


def is_named(value: Any) -> bool:
    """Whether an option is a name, a path, a list of them or a table of names, which the manifest
    can hold.
    """
    if isinstance(value, dict) and value:
        return all(isinstance(part, str) for part in value.values())
    listed = value if isinstance(value, list) and value else [value]
    return all(isinstance(part, str | os.PathLike | None) for part in listed)


def refuse_fixed(names: Iterable[str]) -> None:
    """Refuses options that shape the system, by their names here or in TATi, and names that are no
    options.
    """
    for name in names:
        if any(new in FIXED for new in current_names(name)):
            raise InputError(
                f"{name} cannot change after the Simulation is created.",
                expected=f"{name} in Simulation(...)",
            )
        if name not in OPTIONS and name not in ALIASES:
            raise unknown(name)


@dataclass
class System:
    """A model, in the precision asked for, and its data. `dataset` are the data as they were read,
    inputs in the shape that the model takes unless columns are derived or standardized; `flat` is
    the model as a function of a flat vector. `memory_limit` are the bytes of inputs that are kept
    in memory; those of a larger set are streamed. `notes` are sentences for the start of a run;
    `num_classes` what the outputs of the model say of the labels, None where the data say it;
    `compiled` the name of the loss that the model was compiled with. The targets of `units_from`
    give a likelihood its constants and scale the prior of a sampled noise; None: its own ones.
    `likelihood` is a configuration whose constants stay whatever the targets are; empty without one.
    """

    dataset: Dataset
    model: Any
    flat: FlatModel
    ready: Dataset | None = None
    memory_limit: float | None = None
    notes: tuple[str, ...] = ()
    num_classes: int | None = None
    compiled: str | None = None
    units_from: Dataset | None = None
    likelihood: Mapping[str, Any] = field(default_factory=dict)
    has_data: ClassVar[bool] = True

    @property
    def examples(self) -> Dataset:
        """The model's training data: derived, standardized, in the model's shape."""
        return self.dataset if self.ready is None else self.ready

    def log_unit(self, loss: Loss) -> float:
        """How much larger the log density of an example is in the network's units than in the data's.

        Args:
            loss: The loss of the examples.

        Returns:
            A number in nats; 0 if the targets are not standardized, or the loss is not a likelihood.
        """
        preparation = self.dataset.preparation
        if preparation is None:
            preparation = self.examples.preparation
        if preparation is None or not loss.likelihood:
            return 0.0
        return preparation.log_unit(self.examples.targets.shape[1:])

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """What is to be said of the data after a pass over them, which many short runs make
        once.
        """
        return () if self.dataset.name in GENERATORS else tuple(cautions(self.dataset))

    @cached_property
    def sampled(self) -> "System":
        """The part of the model that is sampled, and its inputs.

        That is the system itself, or the last layer and the features of all examples.
        """
        if self.flat.head is None:
            return self
        examples = features_of(self.flat, self.examples)
        head = self.flat.head
        return replace(self, dataset=examples, model=head.model, flat=head, ready=examples)

    def prepared(self, x: Any) -> Any:
        """Inputs as they are stored, `(n, ...)`, as the model takes them."""
        return scaled(x, self.flat.input_dtype, self.examples.input_scale)

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or what a pickle holds, splits its own copy of the model."""
        return {name: value for name, value in vars(self).items() if name != "sampled"}

    @cached_property
    def work(self) -> float:
        """What a pass of the network over all examples costs, by `work_of` one of them."""
        if self.flat.head is not None:
            return self.sampled.work
        return self.examples.num_examples * work_of(
            self.flat.model, self.examples.inputs[:1], self.flat.input_dtype
        )

    @cached_property
    def _activation(self) -> str | None:
        """The last activation of the model, as its layers say."""
        return output_activation_of(self.model)

    @cached_property
    def _squashing(self) -> str | None:
        """The last activation of the model, as its outputs say."""
        return squashing_of(self.model)

    @property
    def streamed(self) -> bool:
        """Whether the inputs are larger than the memory they may take."""
        if self.memory_limit is None:
            return False
        if self.flat.head is not None:
            return self.sampled.streamed
        data = self.examples
        return (
            device_bytes(data.inputs, data.input_scale, self.flat.input_dtype) > self.memory_limit
        )

    def resolved(self, options: Options) -> Options:
        """The options with what follows from data and network where nothing was given."""
        noise = self.noise_std(options)
        how: str = options.standardize
        if how == "auto":
            how = (
                "none" if self.dataset.preparation is None else self.dataset.preparation.standardize
            )
        classes = {} if self.num_classes is None else {"num_classes": self.num_classes}
        return options.resolved(standardize=how, noise_std=noise, **classes)

    def noise_std(self, options: Options) -> float | str:
        """The noise under these options: as given, else as it was when the parameters were
        counted.
        """
        if "noise_std" in options.explicit:
            return options.noise_std
        if not self.flat.samples_noise:
            return 1.0
        return SAMPLED if self.flat.extra_names[0] == NAME else BY_TARGET

    def view(self, batch: Callable[[], Any]) -> Any:
        """The data set as users see it, whose pair is the current batch."""
        return CurrentDataset.of(self.dataset, batch)

    def check(self, options: Options, objects: Mapping[str, Any]) -> None:
        """Refuses options of a call for which this system has no use.

        Args:
            options: Options of the call.
            objects: Objects of the call, by the names of options.

        Raises:
            InputError: An option or object cannot be used.
        """
        problem = "potential: a function cannot be set after the Simulation is created."
        refuse_if(
            "potential" in objects or options.is_target,
            problem,
            None,
            "potential=f in Simulation(...)",
        )

    def check_failure(self) -> None:
        """Says what failed in code of users while a run went on, if that is why it stopped."""

    def check_start(self, position: np.ndarray) -> None:
        """Refuses a system that cannot be right at the positions where a run starts, `(walkers,
        parameters)`.
        """

    def is_round(self, position: np.ndarray) -> bool:
        """Whether a mass of all directions makes the target round around a position
        `(parameters,)`, as far as can be told: a network of one layer has nearly a Gaussian
        posterior.
        """
        return True

    def with_data(
        self, options: Options, data: Any = None, objects: Mapping[str, Any] | None = None
    ) -> "System":
        """The same model with other data.

        Its inputs and outputs keep their meaning.

        Args:
            options: Options of the run.
            data: Arrays, a Dataset, or a name. Default: None, the data of the options.
            objects: A loss in place of the option. Default: None, the option.
        """
        read = dataset_from_options(
            self.resolved(options).resolved(standardize="none"),
            data,
            places=output_shape_of(self.model)[1:-1],
        )
        preparation = self.dataset.preparation
        if preparation is not None:
            read = replace(read, preparation=preparation)
        law = likelihood_of_loss((objects or {}).get("loss", options.loss), options)
        likelihood = {} if law is None else self._fitted(law).get_config()
        return replace(self.of(read), likelihood=likelihood)

    def _fitted(self, law: Likelihood) -> Likelihood:
        """The likelihood with the constants that stay, or else with those of the training targets."""
        return fitted_to(law, self.units_from or self.examples).with_constants_of(self.likelihood)

    def of(self, read: Dataset) -> "System":
        """The same model with another data set."""
        dataset = read.prepared()
        ready = fitted_shape(dataset, self.model)
        return replace(self, dataset=ready if dataset is read else read, ready=ready)

    def potential(
        self,
        options: Options,
        objects: Mapping[str, Any] | None = None,
        training: bool = False,
        copies: int | None = None,
        fitting: bool = False,
    ) -> ModelPotential:
        """The potential under these options.

        Args:
            options: Options of the run.
            objects: A loss and a prior in place of the options of these names. Default: None,
                neither.
            training: Whether layers act as in Keras' training on the examples of a step. Default:
                False.
            copies: Number of walkers at all temperatures. Default: None, the option `num_walkers`.
            fitting: Whether layers act as in training on all data too. Default: False.

        Raises:
            InputError: Loss, prior, data and model do not fit each other.
        """
        if self.flat.head is not None:
            return self.sampled.potential(options, objects, training, copies, fitting)
        objects = objects or {}
        under_xla = self.execution(options, copies, fitting) == "xla"
        copies = copies or options.num_walkers
        check_memory(options, self.flat.num_parameters, copies)
        dataset = self.examples
        signs = is_signs(self.examples)
        one_hot = dataset.task == "one_hot" and dataset.targets.shape[1] > 1
        loss_option = objects.get("loss", options.loss)
        outputs = output_shape_of(self.model)[1:]
        of_signs = not options.tati and self._activation == "sigmoid"
        one_of_two = dataset.num_classes == 2 and dataset.targets.ndim == 1 and outputs == (1,)
        one_of_two = one_of_two and (not signs or of_signs)
        name = (
            "binary_crossentropy"
            if loss_option is None and (dataset.multi_label or one_of_two)
            else loss_option
        )
        targets = tuple(dataset.targets.shape[1:])
        law = likelihood_of_loss(loss_option, options)
        if law is None:
            activation = self._activation
            if activation is None and (dataset.num_classes is not None or dataset.multi_label):
                activation = self._squashing
            loss = make_loss(
                name,
                dataset.num_classes,
                one_hot=one_hot,
                signs=signs,
                noise_std=self.noise_std(options),
                from_logits=options.from_logits,
                activation=activation,
                target_names=self._names_of_noise(options),
                quantile_level=options.quantile_level,
                least_std=self._least_std(options),
            )
        else:
            loss = Loss(self._fitted(law), from_logits=False)
        objective = loss.objective
        other = (
            dataset.task == "classification"
            and law is None
            and targets
            and not objective.one_output_a_class
        )
        problem = "loss: class numbers at several positions work with one loss only."
        expected = "sparse_categorical_crossentropy"
        refuse_if(other, problem, loss.name, f"{expected}, or num_classes = 0 for labels or values")
        if targets == () and not objective.one_output_a_class:
            targets = (1,)
        objective.check_fit(outputs, targets, dataset.num_classes)
        if dataset.multi_label and objective.takes_labels:
            loss.words += f", a Bernoulli likelihood for each of {math.prod(targets)} labels, their logarithms added"
        check_noise(
            self.noise_std(options), loss, dataset, self.flat, "noise_std" in options.explicit
        )
        batches = self.batches(options, options.batch_size, copies=copies)
        label = device_targets(dataset.targets[:1], loss, tf.as_dtype(self.flat.dtype))
        dtype = self.flat.dtype
        rows = batches.batch_size
        loss.check(
            tf.TensorSpec([rows, *label.shape[1:]], label.dtype),
            tf.TensorSpec([rows, *outputs], dtype),
        )
        prior = self.prior(options, objects)

        return ModelPotential(
            self.flat,
            loss,
            prior,
            dataset,
            batches,
            num_walkers=copies,
            convention=options.potential,
            walker_evaluation=options.walker_evaluation,
            training=training,
            under_xla=under_xla,
            fitting=fitting,
            memory_limit=self.memory_limit,
        )

    def _names_of_noise(self, options: Options) -> tuple[str, ...]:
        """Names of the targets where each has a noise of its own; else ()."""
        by_target = self.noise_std(options) == BY_TARGET
        return target_names(self.examples) if by_target else ()

    def _least_std(self, options: Options) -> tuple[float, ...]:
        """Standard deviations of the rounding of the targets, as they are stored; () without it."""
        examples = self.units_from or self.examples
        if options.rounding == rounding.NONE or examples.task != "regression":
            return ()
        targets = examples.targets
        columns = targets.shape[-1] if targets.ndim > 1 else 1
        deviations = rounding.least_std(targets.reshape(-1, columns))
        return tuple(deviations.tolist()) if deviations.any() else ()

    def prior(self, options: Options, objects: Mapping[str, Any] | None = None) -> Prior:
        """The prior of the parameters.

        Args:
            options: Options of the run, which name the prior.
            objects: `prior` is an object in place of the options. Default: None.

        Raises:
            InputError: The prior does not fit the model.
        """
        full_flat: Any = self.flat
        has_extra = full_flat.num_extra > 0
        flat = full_flat.inside if has_extra else full_flat
        prior = (objects or {}).get("prior")
        if prior is None and options.tether is not None:
            prior = self._tether(options)
        if isinstance(prior, Tether) and prior.num_parameters == self.flat.num_parameters:
            return prior
        if prior is None:
            prior = make_prior(options, flat.tensor_names, flat.shapes)
        check_prior(prior, flat.num_parameters, flat.dtype)
        if not has_extra:
            return prior
        return with_extra_priors(prior, options, full_flat, self.units_from or self.examples)

    def _tether(self, options: Options) -> Prior:
        if not isinstance(options.prior_factor, float):
            raise InputError(
                "prior_factor: a tether has a single strength.", options.prior_factor, "a number"
            )
        names = self.flat.parameter_names()
        return Tether(
            read_parameters(str(options.tether), None, names=names).positions[0],
            options.prior_factor,
        )

    def batches(
        self, options: Options, batch_size: int | None, stage: int = 0, copies: int | None = None
    ) -> Batches:
        """The mini-batches of a stage under these options.

        "auto" sampling that no sampler has settled means epochs.

        Args:
            options: Options of the run.
            batch_size: Examples of a mini-batch; None: all.
            stage: Number of the stage; stages share no random numbers. Default: 0.
            copies: Number of walkers at all temperatures. Default: None, the option `num_walkers`.
        """
        sampling = "epochs" if options.batch_sampling == "auto" else options.batch_sampling

        return Batches(
            num_examples=self.dataset.num_examples,
            batch_size=batch_size,
            num_walkers=copies or options.num_walkers,
            seed=options.run_seed,
            sampling=sampling,
            shared=options.walker_batches == "shared",
            stage=stage,
            shuffle=options.shuffle,
        )

    def execution(self, options: Options, copies: int | None = None, fitting: bool = False) -> str:
        """The execution of a run, or of single evaluations: "xla", "graph" or "eager".

        "auto" means XLA if it compiles all layers, no layer is 3 times faster in a graph, and there
        is enough to do. Measured on 2 cores, 28 x 28 images, 8 filters, batch 100: a step takes 3.6
        ms in a graph, 11.4 under XLA. Adam with 4 walkers of 784-100-1, batch 128: 5.4 and 3.8 ms,
        for which XLA compiles 2.5 s longer.

        Args:
            options: Options of the run.
            copies: Number of walkers at all temperatures. Default: None, single evaluations.
            fitting: Whether the run is a fit. Default: False.

        Raises:
            InputError: XLA is asked for, but the inputs are streamed.
        """
        if self.flat.head is not None:
            return self.sampled.execution(options, copies, fitting)
        if self.streamed:
            problem = "execution: XLA cannot read data larger than memory_limit from the host."
            refuse_if(
                options.execution == "xla",
                problem,
                "xla",
                "auto or graph, or a larger memory_limit",
            )
            return "eager" if options.execution == "eager" else "graph"
        if options.execution != "auto":
            return options.execution
        slow = (
            self.has_data
            and not on_gpu()
            and any("Conv" in type(layer).__name__ for layer in layers_of(self.model))
        )
        few = (
            copies is not None and copies * options.num_steps <= (3 if fitting else 1) * _FEW_STEPS
        )
        return "xla" if self.flat.xla_safe and not slow and not few else "graph"


def assemble(options: Options, objects: Mapping[str, Any]) -> System:
    """The system of options and objects.

    Args:
        options: The options of the run.
        objects: `model`, `data` (arrays or a Dataset), `test_data`, `sample_weights` and `loss` in
            place of the options of these names. The option `model` is a file, a function in one, or
            absent: then layers of `options.hidden`.

    Returns:
        The data, the model and what was noted about them.

    Raises:
        InputError: Options, data and model do not fit each other.
    """
    given_loss = objects.get("loss", options.loss)
    given_loss = likelihood_of_loss(given_loss, options) or given_loss
    _refuse_unfit(options, objects, given_loss)
    name = loss_name(given_loss)
    traits = traits_of(given_loss if isinstance(given_loss, Likelihood) else name)
    of_values = traits.numbers_are_values and traits.kind == VALUES
    if of_values and options.num_classes is None:
        return _with_classes(options, objects, 0)

    model = objects.get("model")
    if model is None and options.model is not None and not is_code(options.model):
        model = load_model(options.model)
        objects = {**objects, "model": model}
    one_output(model)  # before labels that are several are taken for an array

    several = traits.one_output_a_class and options.num_classes is None
    shape = _shape_of_outputs(model, several)
    if several and len(shape) > 2 and (count := shape[-1] or 0) > 1:
        return _with_classes(options, objects, count)

    read = dataset_from_options(
        options,
        objects.get("data"),
        objects.get("test_data"),
        objects.get("sample_weights"),
        objects.get("loss"),
        places=shape[1:-1],
    )
    noise_std = resolved_noise(options, objects.get("loss"), read)

    builder = model if callable(model) and not isinstance(model, keras.Model) else None
    code = builder is not None or (model is None and is_code(options.model))
    if code:
        model = _imported(builder or options.model, options, read, given_loss)
    network = model is not None or options.model is not None
    if isinstance(model, keras.Model) and not model.built and not read.layout:
        model(read.prepared().inputs[:1] * 1)

    read, notes = as_trained(read, options, noise_std, network, objects.get("loss"), model)
    notes += skewed_targets_notes(read.targets) if is_sampled(noise_std) else ()
    dataset = read.prepared()
    _refuse_other_models(model)

    compiled = model.loss if isinstance(model, keras.Model) and model.compiled else None
    if model is None:
        model = _built(options, dataset, given_loss)
    else:
        _refuse_beside_model(options, model, read, code)
        model, rebuilt = _in_its_precision(model, options)
        notes += rebuilt
    ready = fitted_shape(dataset, model)

    count, why = _classes_of_model(options, given_loss, read, model)
    if count is not None:
        return _with_classes(options, objects, count, why)
    notes += why

    check_dimensions(
        options.tati,
        int(np.prod(dataset.inputs.shape[1:])),
        int(np.prod(output_shape_of(model)[1:])),
    )
    flat = flat_model(model, options.fix_parameters, options.layers)
    notes += layers_notes(flat, options)
    objective = _with_extra_parameters(given_loss, noise_std, ready)
    flat = extended(flat, options, objective, ready)
    check_memory(options, flat.num_parameters, options.num_walkers)

    single = compiled is not None and not isinstance(compiled, (list, tuple, dict))
    named = loss_name(compiled) if single else None
    data = ready if dataset is read else read
    limit = 1e6 * options.memory_limit
    return System(
        data,
        model,
        flat,
        ready,
        limit,
        notes,
        compiled=named,
        likelihood=_likelihood_before(options),
    )


def _with_extra_parameters(loss: Any, noise_std: float | str, dataset: Dataset) -> Objective | None:
    """The objective whose extra parameters are sampled; None where there are none.

    Args:
        loss: A likelihood that was given, or another loss.
        noise_std: The noise of a Gaussian likelihood.
        dataset: The training data.
    """
    if isinstance(loss, Likelihood):
        return fitted_to(loss, dataset)
    if is_sampled(noise_std) and (loss is None or loss_name(loss) == GaussianNoise.name):
        return GaussianNoise(noise_std).named(target_names(dataset))
    return None


def _refuse_unfit(options: Options, objects: Mapping[str, Any], given_loss: Any) -> None:
    """Refuses options of a potential, and units that the loss does not allow."""
    for name, value in options.values_of(("dimension", "coordinates")).items():
        refuse_if(
            value, f"{name} applies only to a potential given as a function.", value, "potential=f"
        )

    refuse_ignored(objects.get("loss"))  # before its labels are
    name = loss_name(given_loss)
    in_units = isinstance(given_loss, Likelihood) or traits_of(name).own_units
    refuse_if(
        in_units and options.standardize in ("targets", "all"),
        "standardize: targets keep their units under a loss that is not a function of differences.",
        f"{options.standardize} with {name}",
        "inputs, none or auto",
    )


def _with_classes(
    options: Options, objects: Mapping[str, Any], count: int, notes: tuple[str, ...] = ()
) -> System:
    """The system of labels that are so many classes; 0: of a regression."""
    system = assemble(options.resolved(num_classes=count), objects)
    return replace(system, num_classes=count, notes=(*system.notes, *notes))


def _shape_of_outputs(model: Any, several: bool) -> tuple:
    """The shape of the outputs, where it decides what labels are; else ().

    What the call of a model of one's own class gives is asked where it matters: one that was read
    may have two types.
    """
    if not isinstance(model, keras.Model) or not model.built:
        return ()
    return output_shape_of(model) if several or tensors_of(model, "outputs") else ()


def _imported(source: Any, options: Options, read: Dataset, loss: Any) -> Any:
    """The model that a function builds for these data."""
    plain = read.prepared()
    outputs = _outputs_needed(plain, loss, sigmoid=False)
    return imported_model(source, options, plain.inputs.shape[1:], outputs)


def _refuse_other_models(model: Any) -> None:
    """Refuses an object that is not a Keras model."""
    if model is not None and not isinstance(model, keras.Model):
        raise InputError(
            "model is not a Keras model.",
            type(model).__name__,
            "a keras.Model, a function that builds one, a path to a .keras file, or my_net.py:build",
        )


def _built(options: Options, dataset: Dataset, loss: Any) -> Any:
    """The layers of `options.hidden`."""
    shape = dataset.inputs.shape[1:]
    sigmoid = options.output_activation == "sigmoid" and not (options.tati or options.model)
    outputs = _outputs_needed(dataset, loss, sigmoid)
    units = [int(np.prod(shape)), *options.hidden, outputs]
    check_memory(options, sum((a + options.use_bias) * b for a, b in pairwise(units)), 1)

    return build_network(
        shape,
        outputs,
        hidden=options.hidden,
        activation=options.activation,
        output_activation=options.output_activation,
        dtype=options.dtype,
        seed=options.seed,
        use_bias=options.use_bias,
    )


def _outputs_needed(dataset: Dataset, loss: Any, sigmoid: bool) -> int:
    """Outputs that a network needs for these data under a loss, or a likelihood."""
    if isinstance(loss, Likelihood):
        return fitted_to(loss, dataset).num_outputs(columns_of(dataset))
    return num_outputs(dataset, loss, sigmoid)


def _refuse_beside_model(options: Options, model: Any, read: Dataset, code: bool) -> None:
    """Refuses options of layers next to a model, and bytes that are scaled twice."""
    if options.hidden and not code:
        raise InputError(
            "model and hidden exclude each other.",
            f"hidden = {options.hidden}",
            "one of the two",
        )

    beside = [
        name
        for name, value in options.values_of(OF_LAYERS).items()
        if value != OPTIONS[name].default
    ]
    refuse_if(
        beside and not (code or options.tati),
        "The options of layers do not apply to a given model.",
        ", ".join(beside),
        "hidden, or a function that builds the model",
    )

    twice = _scales_bytes(model) if read.input_scale < 1.0 else None
    refuse_if(
        twice,
        f"model: its layer {twice} rescales bytes, but they are already multiplied by 1/255.",
        expected="floats from 0 to 255 as the inputs, or a model for inputs from 0 to 1",
    )


def _in_its_precision(model: Any, options: Options) -> tuple[Any, tuple[str, ...]]:
    """The model in the precision of the run, and a sentence if it was rebuilt unasked."""
    rebuilt = in_precision(model, options.dtype)
    if rebuilt is model:
        return model, ()

    unasked = "mixed" in model.dtype_policy.name or "dtype" not in options.explicit
    sentence = f"The model is rebuilt and sampled in {options.dtype} (dtype)."
    return rebuilt, (sentence,) if unasked else ()


def _classes_of_model(
    options: Options, loss: Any, read: Dataset, model: Any
) -> tuple[int | None, tuple[str, ...]]:
    """The number of classes if the outputs of the model say another one than the labels, and why;
    0: values of a regression.
    """
    if options.num_classes is not None or isinstance(loss, Likelihood):
        return None, ()
    if loss is not None:
        return _count_of_outputs(read, model), ()

    count, why = _classes_by_outputs(read, model)
    return count, (why,) if why else ()


def _scales_bytes(model: keras.Model) -> str | None:
    """The kind of a layer for inputs up to 255: one that divides, or a first one with a mean that
    is none of 0 to 1.
    """
    layers = [
        layer
        for layer in layers_of(model)
        if type(layer).__name__ not in ("InputLayer", "Flatten", "Reshape")
    ]
    if any(type(layer).__name__ == "Rescaling" and np.max(layer.scale) < 0.1 for layer in layers):
        return "Rescaling"
    means = [
        layer.mean
        for layer in layers[:1]
        if isinstance(layer, keras.layers.Normalization) and not layer.invert
    ]
    return "Normalization" if any(mean is not None and np.max(mean) > 1 for mean in means) else None


def _classes_by_outputs(read: Dataset, model: Any) -> tuple[int | None, str]:
    """The number of classes, 0 for a regression, where the outputs of the model say other than the
    values of labels in one column, or one at each place, do, and a sentence on it; else None.
    """
    parts = [read.targets, *([] if read.test_targets is None else [read.test_targets])]
    labels = np.concatenate(parts)
    shape = output_shape_of(model)[1:]
    class_numbers_fit = (
        bool(shape) and labels.shape[1:] == shape[:-1] and (labels == np.floor(labels)).all()
    )
    named = bool(read.class_names) and not are_integers(read.class_names)
    if named or not class_numbers_fit or is_signs(read):
        return None, ""
    if (outputs := _count_of_outputs(read, model)) is not None:
        return outputs, _told_of_outputs(outputs, len(read.class_names))
    labels = read.as_labels(labels)
    low = labels.min()
    high = labels.max()
    count = shape[-1] or 0
    if count == 1 and labels.ndim == 1 and read.num_classes is not None:
        two = read.num_classes == 2
        if two and output_activation_of(model) == "sigmoid":
            return None, ""
        otherwise = ", or loss='binary_crossentropy' for a logit" if two else ""
        return 0, (
            f"The labels, integers from {low:g} to {high:g}, are regression targets, "
            f"because the model has one output. Classes need one output each{otherwise}."
        )
    if count > 1 and read.num_classes is None and low >= 0 and high < count:
        return count, _told_of_outputs(count, len(np.unique(labels)))
    return None, ""


def _told_of_outputs(count: int, occurring: int) -> str:
    return f"The labels are {count} classes, one for each output of the model; {occurring} of them occur."


def _count_of_outputs(read: Dataset, model: Any) -> int | None:
    """The number of outputs of a model that has one for each integer from 0 to the largest label,
    so that labels are the numbers of its outputs; None for other models and other labels.
    """
    if not are_integers(read.class_names):
        return None
    shape = output_shape_of(model)[1:]
    count = shape[-1] if len(shape) == 1 else None
    if count in (None, 1, read.num_classes):
        return None
    low = int(read.class_names[0])
    high = int(read.class_names[-1])
    if low >= 0 and high < count:
        return count
    raise InputError(
        "The outputs of the model do not match the labels.",
        f"{count} outputs and {read.num_classes} labels from {low} to {high}",
        f"{read.num_classes} outputs, one for each label that occurs, or at least {high + 1}",
    )


def check_memory(options: Options, num_parameters: int, copies: int) -> None:
    """Refuses walkers for which too little memory is free: about 40 numbers per parameter.

    Args:
        options: Options of the run, which the message names.
        num_parameters: Number of parameters of a walker.
        copies: Number of walkers at all temperatures.

    Raises:
        InputError: Too little memory is free for one walker, or for all.
    """
    bytes_per_walker = _NUMBERS * num_parameters * (4.0 if options.dtype == "float32" else 8.0)
    sizes = options.values_of(("data", "num_classes", "hidden", "model", "dimension"))
    name = [name for name, value in sizes.items() if value or name == "data"][-1]
    contents = (
        f"{'positions' if name == 'dimension' else 'networks'} of {num_parameters:,} parameters"
    )
    check_free(name, sizes[name] or "as given", bytes_per_walker, contents)
    numbers = options.values_of(name for name in _COPIES if name in options.explicit) or {
        "num_walkers": 1
    }
    name = max(numbers, key=lambda name: numbers[name] or 0)
    check_free(
        name,
        numbers[name],
        copies * bytes_per_walker,
        f"{copies:,} walkers of {num_parameters:,} parameters each",
    )


def columns_of(dataset: Dataset) -> int:
    """Columns of the labels of a data set, 1 where each example has a number."""
    return math.prod(dataset.targets.shape[1:])


def fitted_to(law: Likelihood, dataset: Dataset) -> Likelihood:
    """A likelihood with its constants from the training targets of a data set.

    Args:
        law: The likelihood.
        dataset: The data set.

    Raises:
        InputError: Labels are names of classes without an order, or lie outside of the support.
    """
    names = [name for name in dataset.class_names if isinstance(name, str)]
    problem = f"loss: {law.name} needs numbers, but the labels are names."
    expected = "integers in the order of the classes" if law.kind == CLASSES else "numbers"
    refuse_if(names, problem, ", ".join(names[:4]), expected)
    targets = np.asarray(dataset.targets, np.float64).reshape(dataset.num_examples, -1)
    if law.kind == CLASSES and dataset.num_classes:
        law = law.of_classes(dataset.num_classes)
    return law.named(target_names(dataset)).fitted(targets, dataset.weights)


def num_outputs(dataset: Dataset, loss: Any, sigmoid: bool) -> int:
    """Number of outputs of a network that is built for these data.

    Args:
        dataset: The data set.
        loss: The loss: a name, a Keras loss or a function. None: the default.
        sigmoid: Whether the last activation is a sigmoid. Two classes then have one output, unless
            a loss is given.

    Raises:
        InputError: The activation is a sigmoid, but there are more than two classes and no loss.
    """
    traits = traits_of(None if loss is None else loss_name(loss))
    if dataset.targets.ndim > 1 or traits.outputs_per_target > 1:
        return int(np.prod(dataset.targets.shape[1:])) * traits.outputs_per_target
    classes = dataset.num_classes
    if classes is None or is_signs(dataset) or traits.one_output:
        return 1
    problem = "output_activation: numbers between 0 and 1 are not class logits."
    refuse_if(
        sigmoid and loss is None and classes > 2,
        problem,
        "sigmoid",
        "linear, softmax, or a loss that accepts such outputs",
    )
    return 1 if sigmoid and loss is None else classes
