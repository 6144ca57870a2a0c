"""The model and the data of a run folder, its network for predictions with any parameters, and
likelihoods under it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.process import forks
from tati_re.core.user_warnings import warn_user
from tati_re.data import dataset_from_options
from tati_re.data.categories import stored_categories
from tati_re.data.dataset import class_weights_note
from tati_re.data.packing import as_packed, order_of
from tati_re.data.preparation import Preparation
from tati_re.options.make import make_options
from tati_re.posterior.likelihood_predictive import predictive_of
from tati_re.posterior.outputs import Outputs
from tati_re.posterior.predictive import CLASSES, VALUES
from tati_re.runs import checkpoint, files, manifest
from tati_re.runs.positions import Block, stores_projections

if TYPE_CHECKING:
    from tati_re.data import Dataset
    from tati_re.models.flat import FlatModel
    from tati_re.runs.manifest_entries import LossEntry
from tati_re.runs.run import RunFiles

_OF_DATA = ("data", "test_data", "sample_weights")


def model_of(run: RunFiles) -> Any:
    from tati_re.models.build import load_model

    check_model(run)
    expected = f"the object used to create the run: tati_re.load({str(run.folder)!r}, model=model)"
    try:
        if run.has(files.MODEL):
            return load_model(run.folder / files.MODEL)
    except InputError as error:
        if "model" not in run.objects:
            raise InputError(str(error), expected=expected) from None
    refuse_if(
        "model" not in run.objects, f"The run {run.folder} contains no model.", expected=expected
    )
    return run.objects["model"]


def check_model(run: RunFiles) -> None:
    problem = f"The run {run.folder} sampled a potential given as a function: it has no model and no data."
    refuse_if(
        run.manifest.dataset.potential,
        problem,
        expected="run.trajectory, run.averages",
    )


def flat_model_of(run: RunFiles, model: Any = None) -> FlatModel:
    """The model of a run as a function of one flat vector of parameters.

    Args:
        run: The run.
        model: A Keras model. Default: None, the model in the folder.

    Raises:
        InputError: `model` is not a Keras model.
    """
    from tati_re.core.backend import keras
    from tati_re.models.last_layer import flat_model
    from tati_re.models.precision import in_precision
    from tati_re.posterior.noise_level import ExtendedModel

    options = run.manifest.options
    if model is None:
        model = model_of(run)
    problem = "model is not a Keras model."
    refuse_if(not isinstance(model, keras.Model), problem, type(model).__name__, "a keras.Model")
    model = in_precision(model, options.dtype)
    flat = flat_model(model, options.fix_parameters, options.layers)
    names = run.manifest.parameters.names[len(flat.tensor_names) :]
    if not names and options.noise_std == "sampled":
        names = ("log_noise_std",)
    extended: Any = ExtendedModel(flat, names) if names else flat
    return extended


def has_its_data(run: RunFiles) -> bool:
    """Whether `dataset_of` finds the data: it was made here, names them, or was opened with
    them.
    """
    return run.data is not None or not _missing_data(run)


def _missing_data(run: RunFiles) -> list[str]:
    return sorted((set(_OF_DATA) & set(run.manifest.objects)) - {*run.objects})


def dataset_of(run: RunFiles) -> Dataset:
    check_model(run)
    if run.data is not None:
        return run.data
    objects = [run.objects.get(name) for name in _OF_DATA]
    if missing := _missing_data(run):
        how = ", ".join(f"{name}=..." for name in missing)
        expected = (
            f"run.predict(inputs, labels), or tati_re.load({str(run.folder)!r}, {how}) with "
            "the same objects"
        )
        raise InputError(
            f"The run's {' and '.join(missing)} were given in Python.", expected=expected
        )
    stored = run.manifest.dataset
    labels = "binary_crossentropy" if stored.task == "multi_label" else None
    options = {**manifest.explicit_options(run.manifest), "verbose": 0} | (
        {"loss": labels} if labels else {}
    )
    if stored.task in ("regression", "classification"):
        options["num_classes"] = stored.num_classes or 0  # a model may have said so
    places = stored.places or ()
    dataset = dataset_from_options(make_options(options), *objects, places=places)
    if dataset.preparation is None and dataset.fingerprint() != stored.fingerprint:
        dataset = fitted_shape(dataset, model_of(run))
    manifest.check_data(run.manifest, dataset, run.folder)
    run.data = dataset
    return dataset


def fitted_shape(dataset: Dataset, model: Any) -> Dataset:
    """The data set with inputs in the shape that the model takes.

    Images get a channel axis where the model has one. Several inputs are sorted in the order of the
    model's inputs.

    Args:
        dataset: The data set.
        model: The Keras model.

    Raises:
        InputError: The inputs do not fit the inputs of the model.
    """
    from tati_re.models.inputs import checked_indices, fit_inputs, layout_of
    from tati_re.models.inspect import input_shape_of

    model_shape = input_shape_of(model)[1:]
    layout = layout_of(model)
    if dataset.layout and not layout:
        raise InputError(
            "data: the model has one input.", f"{len(dataset.layout)} inputs", "one array of inputs"
        )
    if (order := order_of(dataset.layout, layout)) is not None:
        dataset = _changed(dataset, lambda inputs: inputs[:, order])
    if layout:
        names = [name for name, _ in dataset.layout] or [""]
        dataset = replace(
            dataset, layout=layout if any(names) else tuple(("", shape) for _, shape in layout)
        )
    return _changed(dataset, lambda inputs: checked_indices(model, fit_inputs(inputs, model_shape)))


def _changed(dataset: Dataset, change: Callable[[np.ndarray], np.ndarray]) -> Dataset:
    test = dataset.test_inputs
    return replace(
        dataset, inputs=change(dataset.inputs), test_inputs=None if test is None else change(test)
    )


class Network:
    """A run's model as a function of parameters and inputs.

    It prepares inputs and targets as the run did. `predictive` is the distribution that the outputs
    predict.

    Args:
        run: The run.
        model: The Keras model, if the folder cannot contain it. Default: None, the model in the
            folder.
        auxiliary: Variables that are not trained, shape (vectors, *shape) each. Default: None, for
            each walker the variables in the checkpoint of the run.

    Raises:
        InputError: The run has no model, or the model differs from the run's.
    """

    def __init__(
        self, run: RunFiles, model: Any = None, auxiliary: Sequence[np.ndarray] | None = None
    ) -> None:
        forks.refuse()
        manifest = run.manifest
        check_model(run)
        data = manifest.dataset
        if data.task is None:
            raise InputError(
                f"The manifest of {run.folder} does not say what its data are.",
                expected="a newer run",
            )
        self._run = run
        self.flat = flat_model_of(run, model)
        self.num_parameters = self.flat.num_parameters
        if self.num_parameters != manifest.parameters.num:
            expected = f"{manifest.parameters.num} parameters"
            raise InputError(
                "The model differs from the run's.", f"{self.num_parameters} parameters", expected
            )
        self._outputs = Outputs(self.flat)
        self._converted: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._scale = float(data.input_scale)
        self._scales = data.layout_scales or (self._scale,)
        stored = data.preparation
        self.preparation = None if stored is None else Preparation.from_config(stored.table)
        standard = None if self.preparation is None else self.preparation.target_standard
        deviation, mean = (1.0, 0.0) if standard is None else (standard.deviation, standard.mean)
        self._layout = tuple((part.name, part.shape) for part in data.layout)
        self.class_names = data.class_names or ()
        self.target_names = tuple(data.label_names)
        self._names = data.feature_names
        self.categories = stored_categories(data.input_categories)
        loss = manifest.loss
        outputs = self._outputs
        per_example, has_users_loss = None, False
        if loss.likelihood is None:
            per_example, has_users_loss = _loss_by_example(loss, run.objects.get("loss"), self.flat)
        self.predictive = predictive_of(
            loss.table,
            data.task,
            data.num_classes,
            outputs.num_outputs,
            deviation=deviation,
            mean=mean,
            likelihood=run.objects.get("loss"),
            per_example=per_example,
            places=outputs.places,
            own_loss=has_users_loss,
        )
        weights = data.class_weights
        if weights and self.predictive.kind == CLASSES:
            self.predictive.class_weights = weights
            self.predictive.notes += (class_weights_note(weights),)
        self._normalizes_by_draw = auxiliary is None
        self.auxiliary: list[np.ndarray] = list(auxiliary or ())
        if self.flat.auxiliary and auxiliary is None:
            arrays, _, _ = checkpoint.load(run.folder)
            self.auxiliary = [
                arrays.of_shape(f"auxiliary/{k}", (None, *np.shape(value)))
                for k, value in enumerate(self.flat.auxiliary)
            ]

    @property
    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and shape of each input; empty if there is one."""
        return self._layout

    @property
    def scale(self) -> float:
        """Factor of the inputs, such as 1/255 of bytes."""
        return self._scale

    @property
    def input_shape(self) -> tuple[int | None, ...]:
        """Shape of an input as the model takes it; None where it takes any length."""
        return self._outputs.input_shape

    @property
    def places(self) -> int:
        """Places of an example that have outputs each."""
        return self._outputs.places

    @cached_property
    def _own_statistics(self) -> Any:
        """Statistics of each draw where the run normalized by batches, see `BatchNormStatistics`; None
        else.
        """
        from tati_re.posterior.batch_norm_statistics import BatchNormStatistics

        run = self._run
        options = self._run.manifest.options
        by_draw = self._normalizes_by_draw and not run.manifest.is_fit
        if not by_draw or options.batch_norm != "batch":
            return None
        if has_its_data(run):
            return BatchNormStatistics(
                self.flat, dataset_of(run).inputs, options.batch_size, self.prepared
            )
        notice = "All draws use the batch normalization statistics from the end of the run"
        warn_user(f"{notice}: pass its training data, data=..., to give each draw its own.")
        return None

    def packed(self, inputs: Any) -> np.ndarray:
        values = as_packed(inputs, self._layout, self._names, self._scales, self.categories)
        refuse_if(
            not values.ndim,
            "The inputs to predict are a single number.",
            values,
            "(n, ...), one row an example",
        )
        refuse_if(
            not len(values),
            "There are no inputs to predict.",
            values.shape,
            "(n, ...)",
        )
        return values

    def prepared(self, inputs: np.ndarray) -> np.ndarray:
        return self.prepared_rows(self.packed(inputs))

    def prepared_rows(self, packed: np.ndarray) -> np.ndarray:
        """Inputs as the model takes them.

        Args:
            packed: Inputs as `packed` returns them, shape (n, ...).

        Raises:
            InputError: They are not finite, or do not fit the model.
        """
        from tati_re.models.inputs import checked_indices, fit_inputs

        values = packed[:, None] if packed.ndim == 1 else packed
        if values.dtype.kind not in "buif" or not np.isfinite(values).all():
            raise InputError(
                "The inputs for prediction are not finite numbers.",
                _not_finite(values),
                "finite numbers",
            )
        if self.preparation is not None:
            values = self.preparation.inputs(values, self._scale)
        elif self._scale != 1.0:
            values = values.astype(self.flat.input_dtype) * np.dtype(self.flat.input_dtype).type(
                self._scale
            )
        values = checked_indices(self.flat.model, fit_inputs(values, self._outputs.input_shape))
        with np.errstate(over="ignore"):
            values = values.astype(self.flat.input_dtype)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise InputError(
                f"An input to predict is too large for {values.dtype}.",
                f"{np.max(np.abs(packed)):g}",
                f"numbers in the range of the training inputs, at most {np.finfo(values.dtype).max:.1e}",
            )
        return values

    def prepared_targets(self, targets: np.ndarray) -> np.ndarray:
        return (
            targets if self.preparation is None else self.preparation.targets(np.asarray(targets))
        )

    def outputs(
        self, parameters: np.ndarray, walkers: np.ndarray, inputs: np.ndarray
    ) -> np.ndarray:
        """Outputs of the network for several draws, in the model's number type.

        Args:
            parameters: Parameters of the draws, shape (draws, P).
            walkers: Walker of each draw, shape (draws,), whose moving statistics it has if draws do
                not have their own.
            inputs: Inputs as `prepared` returns them, shape (n, ...).

        Returns:
            Shape (draws, n, outputs); for classes at several places (draws, n * places, outputs).
        """
        extra = self.auxiliary_of(parameters, walkers)
        outputs = self._outputs(parameters, extra, inputs)
        return outputs.reshape(len(outputs), len(inputs) * self.predictive.rows, -1)

    def outputs_of_all(self, draws: Any, inputs: np.ndarray) -> np.ndarray:
        """Outputs of draws that are in memory, as of `outputs`, whose parameters are converted once.

        Args:
            draws: `Draws` or `Members` of few enough parameters.
            inputs: Inputs as `prepared` gives them, shape (n, ...).
        """
        if draws not in self._converted:
            vectors = next(draws.blocks(len(draws)))[1]
            self._converted[draws] = self._outputs.converted(vectors)
        return self.outputs(self._converted[draws], draws.walker, inputs)

    def auxiliary_of(self, parameters: np.ndarray, walkers: np.ndarray) -> list[np.ndarray]:
        """The variables that are not trained, shape (draws, *shape) each.

        Args:
            parameters: Parameters of the draws, shape (draws, P).
            walkers: Walker of each draw, shape (draws,).
        """
        extra = [values[np.asarray(walkers) % len(values)] for values in self.auxiliary]
        if (statistics_of := self._own_statistics) is None:
            return extra
        by_draw = [
            statistics_of(vector, [values[i] for values in extra])
            for i, vector in enumerate(parameters)
        ]
        return [np.stack(values) for values in zip(*by_draw, strict=True)]

    def extra(self, parameters: np.ndarray) -> np.ndarray | None:
        """The extra parameters of each parameter vector, `(draws, numbers)`; None without any."""
        count = self.predictive.num_extra
        return np.asarray(parameters[:, -count:], np.float64) if count else None


def _not_finite(values: np.ndarray) -> str:
    """The first number that is not finite, and its place; of other things their type."""
    if values.dtype.kind != "f":
        return f"type {values.dtype}"
    place = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
    return f"inputs[{', '.join(map(str, place))}] = {values[place]}"


def network_of(run: RunFiles, model: Any = None) -> Network:
    """The network of a run, traced once and held by the run until one of its files changes.

    Args:
        run: The run.
        model: The Keras model if the folder holds none. Default: the model in the folder.
    """
    objects = (model, run.objects.get("model"), run.objects.get("loss"))
    # The objects stay with the network, so that no other object gets the identity of one of them.
    key = ("network", *map(id, objects))
    return run.cached_result(key, lambda: (Network(run, model), objects))[0]


def _loss_by_example(
    loss: LossEntry, loss_object: Any, flat: FlatModel
) -> tuple[Callable | None, bool]:
    """The loss of each example as a function of arrays, for losses that NumPy does not compute.

    Args:
        loss: As the manifest has it.
        loss_object: The loss object or function of the run; None where it is not known.
        flat: The model, whose shape of outputs and number type the loss takes.

    Returns:
        The function, None where it is not needed or not known, and whether the loss is one of
        users.
    """
    from tati_re.core.backend import keras, tf
    from tati_re.likelihoods.keras_losses import KerasLoss, function_of_keras, function_of_object
    from tati_re.likelihoods.registry import LOSSES
    from tati_re.models.inspect import output_shape_of
    from tati_re.posterior.losses import Loss

    name = loss.loss or ""
    is_users = False
    if name in LOSSES:
        return None, False
    try:
        function = function_of_keras(name, loss.from_logits)
    except ValueError:
        function = None
        is_users = not name.startswith("keras.losses.")
    if loss_object is not None:
        is_object = isinstance(loss_object, keras.losses.Loss)
        function = function_of_object(loss_object, loss.from_logits) if is_object else loss_object
    if function is None:
        return None, is_users
    keras_loss = Loss(KerasLoss(name, function))
    shape = output_shape_of(flat.model)[1:]

    def per_example(targets: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        output_shape = [length or -1 for length in shape]
        outputs = tf.constant(np.reshape(outputs, (-1, *output_shape)), flat.dtype)
        return keras_loss.per_example(tf.constant(targets, flat.dtype), outputs).numpy()

    return per_example, is_users


_BLOCK_DRAWS = 64


def likelihood_of(run: RunFiles, data: Any = None, model: Any = None) -> tuple[Any, Network]:
    """The data of a run and its network, if the loss is a likelihood.

    Args:
        run: A run that sampled a posterior and stored parameters.
        data: The data set. Default: None, the data of the run.
        model: The Keras model. Default: None, the model in the folder.

    Raises:
        InputError: The loss is not a likelihood, or the run has no draws of a posterior.
    """
    check_model(run)
    stored = run.manifest
    if stores_projections(run) or stored.is_fit or stored.dataset.task is None:
        raise InputError("The run has no draws of its parameters, or does not describe its data.")
    data = data or dataset_of(run)
    network = Network(run, model)
    manifest.check_data(stored, data, run.folder)
    predictive = network.predictive
    shares = predictive.kind == VALUES and predictive.objective.predicts_shares
    several = (
        "Sequences of classes" if data.targets.ndim > 2 else "Labels that are class proportions"
    )
    refuse_if(
        shares, f"{several} are not draws from a likelihood.", expected="one class per example"
    )
    problem = "The run sampled exp(-mean loss), not a posterior."
    refuse_if(
        stored.options.potential == "mean_loss",
        problem,
        "potential mean_loss",
        "potential posterior",
    )
    if not network.predictive.likelihood:
        raise InputError(
            "The run's loss is not a likelihood.",
            network.predictive.name,
            "gaussian, a cross-entropy, or another likelihood",
        )
    return data, network


def likelihood_blocks(
    network: Network,
    data: Any,
    stored: Block,
    draws: np.ndarray,
    examples: np.ndarray | slice = slice(None),
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yields log likelihoods of examples under draws, up to 64 draws at a time.

    Args:
        network: The network of the run.
        data: The data set.
        stored: Stored positions of the run.
        draws: Numbers of the rows of `stored`, in the order of the result, shape (draws,).
        examples: Numbers of the examples, or a slice. Default: all.

    Yields:
        Log p(y | θ) of the examples, times their weights, shape (draws, n). Outputs, shape (draws,
        n, outputs). Extra parameters of each draw, or None.
    """
    inputs = network.prepared(data.inputs[examples])
    labels = data.targets[examples]
    targets = network.prepared_targets(data.targets)[examples]
    weights = 1.0 if data.weights is None else data.weights[examples]
    for first in range(0, len(draws), _BLOCK_DRAWS):
        block = draws[first : first + _BLOCK_DRAWS]
        outputs = network.outputs(stored.values[block], stored.walker[block], inputs)
        extra = network.extra(stored.values[block])
        yield (
            weights * network.predictive.log_likelihoods(outputs, targets, labels, extra),
            outputs,
            extra,
        )
