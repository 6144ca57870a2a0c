"""The model and the data of a run, from its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tati_re.core.errors import InputError
from tati_re.runs import files, manifest

if TYPE_CHECKING:
    from tati_re.data import Dataset
    from tati_re.models.flat import FlatModel
    from tati_re.runs.run import RunFiles


def model_of(run: RunFiles) -> Any:
    from tati_re.models.build import load_model

    check_model(run)
    if not run.has(files.MODEL):
        raise InputError(f"The run {run.folder} holds no model.", expected="model=..., the object it was made with")
    return load_model(run.folder / files.MODEL)


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


def dataset_of(run: RunFiles) -> Dataset:
    from tati_re.data import dataset_from_options
    from tati_re.options.make import make_options

    check_model(run)
    if not names_its_data(run):
        raise InputError("The run's data were given in Python.", expected="the inputs to predict")
    labels = "binary_crossentropy" if run.manifest["dataset"].get("task") == "multi_label" else None
    given = {**manifest.given_options(run.manifest), "verbose": 0} | ({"loss": labels} if labels else {})
    dataset = dataset_from_options(make_options(given))
    manifest.check_data(run.manifest, dataset, run.folder)
    return dataset
