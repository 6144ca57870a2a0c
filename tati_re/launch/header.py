"""The first lines on the screen of a run: version, data, model, and what the run has chosen."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from tati_re._version import __version__
from tati_re.core.errors import abbreviated
from tati_re.core.printable import SCREEN_WIDTH
from tati_re.data.dataset import Dataset
from tati_re.launch.candidates import names_model
from tati_re.launch.goal import PREDICT
from tati_re.models.chain import chain_of
from tati_re.options.make import Options
from tati_re.system.system import System

_LABEL = 15


def block(label: str, sentences: Iterable[str]) -> list[str]:
    """Lines below a label in the left margin, one sentence each, wrapped to the screen.

    Args:
        label: The label of the first line.
        sentences: What stands beside it.
    """
    fill = textwrap.TextWrapper(
        SCREEN_WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent=" " * _LABEL
    )
    lines = []
    for number, sentence in enumerate(sentences):
        fill.initial_indent = (label if number == 0 else "").ljust(_LABEL)
        lines.extend(fill.wrap(sentence))
    return lines


def header(
    system: System, options: Options, objects: Mapping[str, Any], resumes: bool = False
) -> list[str]:
    """The lines on version, data and model, and the notes on them, before any fit.

    What a run chooses may change the notes, and whether targets are standardized. So they are left
    out until it has chosen (`notes_on`).

    Args:
        system: The system.
        options: The options of the run.
        objects: What was given as objects, by name.
        resumes: Whether the run goes on, with the model that it has chosen. Default: False.

    Returns:
        Lines of at most 100 characters.
    """
    if not system.has_data:
        words = f"{system.dataset.name}: {_count(system.flat.num_parameters, 'dimension')}"
        return block(f"tati_re {__version__}", [words])
    chooses = options.goal == PREDICT and not (resumes or names_model(options, objects))
    about = block(f"tati_re {__version__}", [_data(system.dataset, says_units=not chooses)])
    if chooses:
        model = 'chosen by the run, for predictions (goal="posterior" samples one model)'
        return about + block("model", [model])
    return about + block("model", [_model(system, options, objects)]) + notes_on(system)


def notes_on(system: System) -> list[str]:
    """The lines of what was noted about data and model.

    Args:
        system: The system.

    Returns:
        Lines of at most 100 characters; none without a note.
    """
    return block("notes", system.notes)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _data(dataset: Dataset, says_units: bool) -> str:
    """Rows, inputs and target of a data set, and whether the target is standardized."""
    tests = 0 if dataset.test_inputs is None else len(dataset.test_inputs)
    rows = f"{dataset.num_examples:,} training rows, {tests:,} test rows"
    if not tests:
        rows = f"{dataset.num_examples:,} training rows, no test rows"
    shape = dataset.inputs.shape[1:]
    size = "×".join(map(str, shape))
    inputs = _count(shape[0], "input") if len(shape) == 1 else f"inputs {size}"
    return f"{abbreviated(dataset.name, 60, str)}: {rows}, {inputs}, {_target(dataset, says_units)}"


def _target(dataset: Dataset, says_units: bool) -> str:
    """What is predicted, such as `target "strength" (standardized)` or `10 classes`."""
    if dataset.multi_label:
        return f"{dataset.targets.shape[1]} labels"
    if dataset.num_classes is not None:
        return f"{dataset.num_classes} classes"
    if dataset.task != "regression":
        return str(dataset.task)
    names = ", ".join(f'"{name}"' for name in dataset.label_names[:3])
    count = 1 if dataset.targets.ndim == 1 else dataset.targets.shape[-1]
    text = f"target {names}" if names else _count(count, "target")
    preparation = dataset.preparation
    scaled = preparation is not None and preparation.target_standard is not None
    return f"{text} (standardized)" if scaled and says_units else text


def _model(system: System, options: Options, objects: Mapping[str, Any]) -> str:
    """Layers, parameters, loss and prior."""
    flat = system.flat
    parts = []
    if flat.head is not None:
        name = abbreviated(str(system.model.name), 40, str)
        parts.append(f"last layer of {type(system.model).__name__} {name}")
    elif _is_built(system, options, objects):
        kernels = [shape for shape in flat.shapes if len(shape) == 2]
        if kernels:
            layers = "-".join(str(size) for size in [kernels[0][0], *(k[1] for k in kernels)])
            parts.append(f"{layers}, {options.activation}" if options.hidden else layers)
    else:
        parts.append(
            f"{type(system.model).__name__} {abbreviated(str(system.model.name), 40, str)}"
        )
    fixed = f" ({flat.num_fixed:,} more are fixed)" if flat.num_fixed else ""
    parts.append(f"{_count(flat.num_parameters, 'parameter')}{fixed}")
    words = [", ".join(parts)]
    if "loss" in objects:
        words.append(f"loss {type(objects['loss']).__name__}")
    elif options.loss:
        words.append(f"loss {options.loss}")
    words.append(_prior(options, objects))
    return "; ".join(words)


def _is_built(system: System, options: Options, objects: Mapping[str, Any]) -> bool:
    """Whether the network follows from options; a resumed run has the model of its folder."""
    has_model = options.model is not None or "model" in objects
    return not has_model and chain_of(system.model) is not None


def _prior(options: Options, objects: Mapping[str, Any]) -> str:
    """The prior in a few words."""
    if "prior" in objects:
        return f"prior {type(objects['prior']).__name__}"
    if options.tether is not None:
        return f"prior around {abbreviated(options.tether, 40, str)}"
    if options.potential == "mean_loss" and "prior" not in options.explicit:
        return "no prior"
    if not isinstance(options.prior, str):
        return "priors by name of the parameters"
    if options.prior == "none":
        return "no prior"
    if options.prior != "gaussian":
        return f"{options.prior} prior"
    if options.prior_scaling == "fan_in" or not isinstance(options.prior_std, float):
        return "Gaussian prior"
    return f"prior N(0, {'1' if options.prior_std == 1 else f'{options.prior_std:g}²'})"
