"""The model and the data of a run, from its folder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tati_re.core.errors import InputError
from tati_re.runs import files, manifest

_OF_DATA = ("data", "test_data", "sample_weights")

if TYPE_CHECKING:
    from tati_re.data import Dataset
    from tati_re.models.flat import FlatModel
    from tati_re.runs.run import RunFiles


def model_of(run: RunFiles) -> Any:
    from tati_re.models.build import load_model

    check_model(run)
    try:
        if run.has(files.MODEL):
            return load_model(run.folder / files.MODEL)
    except InputError:
        if "model" not in run.objects:
            raise
    if "model" not in run.objects:
        how = f"the object it was made with: tati_re.load({str(run.folder)!r}, model=model)"
        raise InputError(f"The run {run.folder} holds no model.", expected=how)
    return run.objects["model"]


def check_model(run: RunFiles) -> None:
    if run.manifest.get("dataset", {}).get("potential"):
        raise InputError(
            f"The run {run.folder} sampled a potential given as a function: it has no model and no data.",
            expected="run.trajectory, run.averages",
        )


def flat_model_of(run: RunFiles, model: Any = None) -> FlatModel:
    """The model of a run, the given Keras model or the folder's, as a function of one flat vector."""
    from tati_re.models.flat import FlatModel
    from tati_re.models.precision import in_precision
    from tati_re.posterior.noise_level import with_noise

    options = run.manifest["options"]
    model = in_precision(model_of(run) if model is None else model, options.get("dtype", "float32"))
    return with_noise(FlatModel(model, options.get("fix_parameters")), options.get("noise_std", 1.0))


def names_its_data(run: RunFiles) -> bool:
    return not {"data", "test_data"} & set(run.manifest.get("objects", []))


def has_its_data(run: RunFiles) -> bool:
    """Whether `dataset_of` finds the data: it was made here, names them, or was opened with them."""
    return run.data is not None or not _missing_data(run)


def _missing_data(run: RunFiles) -> list[str]:
    return sorted((set(_OF_DATA) & set(run.manifest.get("objects", []))) - {*run.objects})


def dataset_of(run: RunFiles) -> Dataset:
    from tati_re.data import dataset_from_options
    from tati_re.options.make import make_options

    check_model(run)
    if run.data is not None:
        return run.data
    given = [run.objects.get(name) for name in _OF_DATA]
    if missing := _missing_data(run):
        how = ", ".join(f"{name}=..." for name in missing)
        raise InputError(
            f"The run's {' and '.join(missing)} were given in Python.",
            expected=f"run.predict(inputs, labels), or tati_re.load({str(run.folder)!r}, {how}) as they were then",
        )
    labels = "binary_crossentropy" if run.manifest["dataset"].get("task") == "multi_label" else None
    options = {**manifest.given_options(run.manifest), "verbose": 0} | ({"loss": labels} if labels else {})
    if run.manifest["dataset"].get("task") == "regression":
        options["num_classes"] = 0  # a model may have said so
    dataset = dataset_from_options(make_options(options), *given)
    if dataset.preparation is None and dataset.fingerprint() != run.manifest["dataset"]["fingerprint"]:
        dataset = fitted_shape(dataset, model_of(run))
    manifest.check_data(run.manifest, dataset, run.folder)
    run.data = dataset
    return dataset


def fitted_shape(dataset: Dataset, model: Any) -> Dataset:
    """The data set with inputs in the shape that the model takes: images get a channel axis where it has one."""
    from tati_re.data.packing import order_of
    from tati_re.models.inputs import fit_inputs, layout_of
    from tati_re.models.inspect import input_shape_of

    wanted, layout = input_shape_of(model)[1:], layout_of(model)
    if dataset.layout and not layout:
        raise InputError("data: the model has one input.", f"{len(dataset.layout)} inputs", "one array of inputs")
    if (order := order_of(dataset.layout, layout)) is not None:
        dataset = replace(
            dataset,
            inputs=dataset.inputs[:, order],
            test_inputs=None if dataset.test_inputs is None else dataset.test_inputs[:, order],
        )
    if layout:
        names = [name for name, _ in dataset.layout] or [""]
        dataset = replace(dataset, layout=layout if any(names) else tuple(("", shape) for _, shape in layout))
    return replace(
        dataset,
        inputs=fit_inputs(dataset.inputs, wanted),
        test_inputs=None if dataset.test_inputs is None else fit_inputs(dataset.test_inputs, wanted),
    )
