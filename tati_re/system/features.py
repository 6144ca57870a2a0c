"""The features of all examples of a model whose last layer alone is sampled."""

from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core.backend import deterministic
from tati_re.core.errors import refuse_if
from tati_re.core.process.memory import check_free
from tati_re.data import Dataset
from tati_re.options.make import Options
from tati_re.posterior.device_data import scaled
from tati_re.posterior.outputs import Features


def layers_notes(flat: Any, options: Options) -> tuple[str, ...]:
    """What is sampled and what is frozen, in a sentence, if the options ask for the last layer.

    Args:
        flat: The model as a function of its parameters.
        options: The options of the run.
    """
    if options.layers == "all":
        return ()
    if flat.head is not None:
        return (flat.described_in_words(),)
    return ("The model has one layer with weights, so nothing is frozen (layers).",)


def features_of(flat: Any, dataset: Dataset) -> Dataset:
    """The data set whose inputs are what the last layer takes; computed once, in blocks of rows.

    Args:
        flat: A model whose last layer alone is sampled, see `LastLayer`.
        dataset: The examples, in the shape that the model takes.

    Returns:
        The same examples with features in place of inputs.

    Raises:
        InputError: Features are not finite, or too little memory is free for them.
    """
    parts = [dataset.inputs, *([] if dataset.test_inputs is None else [dataset.test_inputs])]
    rows = sum(len(part) for part in parts)
    size = rows * flat.num_features * np.dtype(flat.dtype).itemsize
    contents = f"{flat.num_features:,} features of {rows:,} rows"
    check_free("layers", "last", 2.0 * size, contents)

    scale = dataset.input_scale

    def prepared(x: Any) -> Any:
        return scaled(x, flat.input_dtype, scale)

    compute = Features(flat, prepared)
    with deterministic():
        features = [compute.computed(part) for part in parts]
    finite = all(np.isfinite(part).all() for part in features)
    problem = "layers: the frozen layers have outputs that are not finite."
    refuse_if(not finite, problem, flat.model.name, "a trained model, and inputs that it takes")
    tests = features[1] if len(features) > 1 else None
    return replace(
        dataset,
        inputs=features[0],
        test_inputs=tests,
        input_scale=1.0,
        layout=(),
        layout_scales=(),
        feature_names=(),
        input_categories=(),
    )
