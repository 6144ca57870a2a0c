"""One plain Keras model of all members: raw inputs in, predictions in the units of the data out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.core.backend import keras
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.data.columns import IS
from tati_re.models.chain import chain_of
from tati_re.models.custom_objects import custom_objects
from tati_re.models.inspect import input_shape_of
from tati_re.posterior.predictive import CLASSES, LABELS
from tati_re.shipping.exportable import Exportable
from tati_re.shipping.keras_predictions import of_classes, of_labels, of_values

if TYPE_CHECKING:
    from tati_re.prediction.network import Network

ops = keras.ops

_SINGLE = ("Activation", "ReLU", "LeakyReLU", "ELU", "Dropout", "GaussianNoise", "Identity")
"""Layers that treat each number by itself, so that they may stand between the members' products."""


@front_door
def to_keras(predictor: Exportable, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> Any:
    """Converts a predictor to a plain Keras model with the same predictions.

    The model needs no custom code: `keras.models.load_model` opens its file without this package,
    in safe mode and without custom objects. Keras can export it as a SavedModel. Inputs are raw, as
    in the data set. Members that are chains of dense layers become batched products; other networks
    are copied once per member.

    Args:
        predictor: The predictor.
        quantiles: Levels of the predicted quantiles, between 0 and 1; empty for none. Default:
            0.05, 0.5, 0.95.

    Returns:
        A `keras.Model` whose outputs are a dictionary. For values: `mean`, `std` and
        `parameter_std`, each of shape (n, targets), and `quantiles`, (n, targets, levels). For
        classes and labels: `probabilities`, (n, classes), and `entropy`, (n,).

    Raises:
        InputError: Keras alone cannot compute the network or the loss. Not supported are several
            inputs, outputs at several positions, custom layers, and losses other than the
            cross-entropies, Gaussian, Laplace and Student's t noise.
    """
    for level in quantiles:
        problem = "quantiles: a level is out of range."
        refuse_if(not 0 < level < 1, problem, level, "numbers between 0 and 1")
    network = predictor.network
    _refuse_other_networks(network)
    start = keras.Input(_raw_shape(network), dtype="float64", name="inputs")
    prepared = _prepared(network, start)
    outputs = _members(predictor, prepared)
    kind = network.predictive.kind
    if kind == CLASSES:
        predictions = of_classes(predictor, outputs)
    elif kind == LABELS:
        predictions = of_labels(predictor, outputs)
    else:
        predictions = of_values(predictor, outputs, tuple(quantiles))
    return keras.Model(start, predictions, name="predictor")


def _refuse_other_networks(network: Network) -> None:
    """Refuses networks that cannot be one Keras model without code."""
    model = network.flat.model
    layout = network.layout
    problem = "to_keras: a network with several inputs is not exported."
    refuse_if(layout, problem, f"{len(layout)} inputs", "a network with one input")
    problem = "to_keras: outputs at several places are not exported."
    num_places = network.predictive.rows * network.places
    refuse_if(num_places > 1, problem, f"{num_places} places", "a network with one row of outputs")
    with custom_objects(model) as users_objects:
        problem = "to_keras: the model has layers or functions of your own."
        names = ", ".join(sorted(users_objects))
        refuse_if(users_objects, problem, names, "layers and functions of Keras")


def _raw_shape(network: Network) -> tuple[int | None, ...]:
    """Shape of an example in the data set; images have their channels."""
    preparation = network.preparation
    if preparation is not None and preparation.columns is not None:
        return (len(preparation.columns.names),)
    return tuple(input_shape_of(network.flat.model)[1:])


def _prepared(network: Network, raw: Any) -> Any:
    """Inputs of the network from raw ones: scaled, with derived columns, standardized."""
    values = raw
    if network.scale != 1.0:
        values = ops.multiply(values, network.scale)
    preparation = network.preparation
    if preparation is not None and preparation.columns is not None:
        columns = [_column(column, values) for column in preparation.columns.columns]
        values = ops.stack(columns, axis=-1)
    if preparation is not None and preparation.input_standard is not None:
        standard = preparation.input_standard
        fits = standard.mean.ndim == 0 or standard.mean.shape[-1] == values.shape[-1]
        problem = "to_keras: the standardization of these inputs is not exported."
        refuse_if(not fits, problem, standard.mean.shape, f"({values.shape[-1]},)")
        values = ops.subtract(values, standard.mean)
        values = ops.divide(values, standard.deviation)
    return ops.cast(values, network.flat.input_dtype)


def _column(column: Any, values: Any) -> Any:
    """One derived input, shape (n,)."""
    source = values[:, column.source]
    if column.function == "sin":
        return ops.sin(source)
    if column.function == "cos":
        return ops.cos(source)
    if column.function == IS:
        return ops.cast(ops.equal(source, float(column.power)), source.dtype)
    return ops.power(source, float(column.power))


def _members(predictor: Exportable, prepared: Any) -> Any:
    """Outputs of all members, shape (n, members, outputs)."""
    flat: Any = predictor.network.flat
    member_weights = [_weights_of(predictor, number) for number in range(predictor.num_members)]
    if flat.head is not None:
        prepared = _copy(flat.trunk, flat.frozen_values(), prepared, "trunk")
        flat = flat.head
    layers = _dense_layers(flat.model)
    if layers is not None:
        return _batched(layers, member_weights, prepared)
    copies = [
        _copy(flat.model, weights_by_variable, prepared, f"member_{k}")
        for k, weights_by_variable in enumerate(member_weights)
    ]
    return ops.stack(copies, axis=1)


def _weights_of(predictor: Exportable, number: int) -> dict[int, np.ndarray]:
    """The values of all variables of the model for one member, by the identity of the variable."""
    flat = predictor.network.flat
    vector = np.asarray(predictor.members.vectors[number], flat.dtype)
    # Behind the tensors of the model come the extra parameters of the likelihood.
    tensors = flat.split_one(ops.convert_to_tensor(vector))[: len(flat.variables)]
    known = {id(v): np.asarray(t) for v, t in zip(flat.variables, tensors, strict=True)}
    others = zip(flat.others, predictor.network.auxiliary, strict=True)
    return known | {id(variable): values[number] for variable, values in others}


def _dense_layers(model: Any) -> list[Any] | None:
    """The layers of a chain of dense layers, whose members can be one batched product; else None."""
    chain = chain_of(model, model.trainable_variables, model.non_trainable_variables)
    if chain is None:
        return None
    met = False
    for layer in chain.layers:
        is_dense = type(layer) is keras.layers.Dense
        if not is_dense and layer.weights:
            return None
        if met and not is_dense and type(layer).__name__ not in _SINGLE:
            return None
        met = met or is_dense
    return chain.layers if met else None


def _batched(layers: list[Any], member_weights: list[dict[int, np.ndarray]], values: Any) -> Any:
    """The outputs of dense layers, all members in one product, shape (n, members, outputs)."""
    shared = True
    for number, layer in enumerate(layers):
        if type(layer) is not keras.layers.Dense:
            values = _again(layer, f"layer_{number}")(values)
            continue
        kernels = np.stack(
            [weights_by_variable[id(layer.kernel)] for weights_by_variable in member_weights]
        )
        product = keras.layers.EinsumDense(
            "bi,kio->bko" if shared else "bki,kio->bko",
            output_shape=(len(member_weights), kernels.shape[2]),
            bias_axes="ko" if layer.use_bias else None,
            activation=layer.activation,
            dtype=layer.dtype_policy.name,
            name=f"members_{number}",
        )
        values = product(values)
        biases = (
            [
                np.stack(
                    [weights_by_variable[id(layer.bias)] for weights_by_variable in member_weights]
                )
            ]
            if layer.use_bias
            else []
        )
        product.set_weights([kernels, *biases])
        shared = False
    return values


def _again(layer: Any, name: str) -> Any:
    """The same layer under another name."""
    return type(layer).from_config({**layer.get_config(), "name": name})


def _copy(model: Any, weights_by_variable: dict[int, np.ndarray], values: Any, name: str) -> Any:
    """The outputs of a copy of the model with weights of its own, shape (n, outputs)."""
    try:
        config = model.get_config()
        copy = type(model).from_config({**config, "name": name})
    except (NotImplementedError, TypeError, ValueError) as error:
        problem = "to_keras: the model cannot be copied by its configuration."
        reason = str(error).split("\n")[0][:100] or type(model).__name__
        raise InputError(problem, reason, "a Sequential or functional model") from None
    if not copy.built:
        copy.build(model.input_shape)
    copy.set_weights([weights_by_variable[id(variable)] for variable in model.weights])
    outputs = copy(values, training=False)
    return outputs if len(outputs.shape) > 1 else outputs[:, None]
