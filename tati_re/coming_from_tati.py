"""The imports of TATi scripts in one module: change their import lines to it and they run.

    import tati_re.coming_from_tati as tati                     # for TATi.simulation as tati
    from tati_re.coming_from_tati import Simulation as tati     # for its Simulation as tati
    from tati_re.coming_from_tati import ClassificationDatasets, data_numpy_to_csv

Options keep their names (`tati_re.options.tati_names`); what differs is on the userguide's page on
coming from TATi.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tati_re.core.errors import AnyPath, InputError
from tati_re.core.user_input import seeded
from tati_re.data import Dataset
from tati_re.data.generators import GENERATORS
from tati_re.data.writing import write_dataset
from tati_re.options.make import OPTIONS, Options
from tati_re.options.tati_names import ALIASES, MARK
from tati_re.simulation.simulation import Simulation as _Simulation
from tati_re.simulation.simulation import changed
from tati_re.system.current_batch import CurrentDataset

__all__ = ["ClassificationDatasets", "Simulation", "data_numpy_to_csv", "split_into_files"]


class SimulationOfTati(_Simulation):
    """A Simulation whose mini-batch moves on by itself, as in TATi: all answers refer to one until
    one is asked a second time or the parameters change.

    Unless `potential` says otherwise, U is the mean loss without a prior, data stay as they are,
    noise is 1, and mini-batches above the data set are all of it.

    Args:
        *args: As of `tati_re.Simulation`.
        **options: Options by their names in TATi or here.
    """

    follows_tati = True
    _awaited_start: Any = None
    _awaits_data = False

    def __init__(self, *args: Any, **options: Any) -> None:
        options = _with_files(options)
        if options.get("potential") is None:
            options = (
                MARK
                | {"standardize": "none", "noise_std": 1.0}
                | options
                | {"potential": "mean_loss"}
            )
        super().__init__(*args, **options)

    def _start(self, options: Options, objects: dict[str, Any], start: Any = None) -> None:
        self._awaits_data = options.data is None and not {"data", "potential"} & {*objects}
        if not self._awaits_data:
            super()._start(options, objects, start)
            return
        self.options = options
        self.objects = objects
        self._awaited_start = start

    def __getattr__(self, name: str) -> Any:
        """What belongs to the system is there once the data are."""
        if name in _OF_SYSTEM and self._awaits_data:
            problem = "The Simulation has no data yet."
            raise InputError(problem, expected="nn.dataset = [features, labels], or file names")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return "Simulation without data" if self._awaits_data else super().__repr__()

    def _repr_html_(self) -> str:
        return repr(self) if self._awaits_data else super()._repr_html_()

    @property
    def dataset(self) -> CurrentDataset:
        """The data set and, as a pair, the current mini-batch as it is when asked: features `(batch,
        inputs)`, labels `(batch, outputs)`. Asked again it is the next one, as in TATi. Setting it
        makes the network if there were no data.
        """
        self._batch_for("dataset")
        features, labels = self._dataset
        if labels.ndim < features.ndim:
            labels = labels[..., None]
        return self._dataset.with_pair(features, labels)

    @dataset.setter
    def dataset(self, value: Any) -> None:
        if not self._awaits_data:
            _Simulation.dataset.fset(self, value)  # type: ignore[attr-defined]
            return
        overrides = _with_files({"dataset": value})
        options, objects = changed(self.options, self.objects, overrides)
        self._start(options, objects, self._awaited_start)

    def set_options(self, **options: Any) -> None:
        """Changes options; before there are data also those of the network."""
        if not self._awaits_data:
            super().set_options(**options)
            return
        merged, objects = changed(self.options, self.objects, _with_files(options))
        self._start(merged, objects, self._awaited_start)

    def get_options(self, name: str | None = None) -> Any:
        """The value of an option, or all of them as attributes, by their names here and in TATi."""
        if name is None:
            return SimpleNamespace(
                **{option: self.get_options(option) for option in (*OPTIONS, *ALIASES)}
            )
        return (
            self.options.tati.get(name)
            if name in ALIASES and not ALIASES[name].new
            else super().get_options(name)
        )

    def predict(self, *unnamed: Any, **named: Any) -> np.ndarray:
        """Returns the outputs of the model; a number after the features is a walker, as in TATi.

        Args:
            *unnamed: The features, `(n, ...)`; then a walker, or as of `Simulation.predict`.
            **named: `features` and `walker_index`, or as of `Simulation.predict`.

        Returns:
            Outputs, `(n, ...)`, or `(walkers, n, ...)` for several walkers.
        """
        if "features" in named:
            named["inputs"] = named.pop("features")
        if len(unnamed) == 2 and isinstance(unnamed[1], int | np.integer):
            features, walker = unnamed
            return super().predict(features, walker_index=walker, **named)
        return super().predict(*unnamed, **named)

    def init_momenta(self, *unnamed: Any, **named: Any) -> None:
        """Draws all momenta again; the inverse temperature needs no name, as in TATi.

        Args:
            *unnamed: The inverse temperature, at most one number.
            **named: `temperature`, `inverse_temperature` or `seed`, see `Simulation.init_momenta`.

        Raises:
            InputError: The sampler in the options has no momenta, or there are several numbers.
        """
        temperature = {"inverse_temperature": unnamed[0]} if unnamed else {}
        super().init_momenta(*unnamed[1:], **temperature | named)


Simulation = SimulationOfTati

_OF_SYSTEM = ("system", "walkers", "calls", "_dataset", "_first_batch", "_header")
"""Attributes that a Simulation has once it has data."""


def _with_files(options: dict[str, Any]) -> dict[str, Any]:
    """The options with `batch_data_files` in place of a `dataset` of file names: all their rows."""
    value = options.get("dataset")
    listed = value if isinstance(value, list) else [value]
    names = [os.fspath(entry) for entry in listed if isinstance(entry, str | os.PathLike)]
    if not names or len(names) < len(listed):
        return options
    others = {name: value for name, value in options.items() if name != "dataset"}
    return others | {"batch_data_files": names}


class ClassificationDatasets:
    """TATi's generator of two classes of points in the plane, labeled -1 and +1.

    Args:
        seed: Seed of the points. Default: drawn from `numpy.random`, as the script seeded it.
    """

    TWOCIRCLES, SQUARES, TWOCLUSTERS, SPIRAL = range(4)
    _NAMES = ("two_circles", "squares", "two_clusters", "spirals")

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed

    def generate(
        self, dimension: int, noise: float = 0.0, data_type: int = SPIRAL
    ) -> tuple[np.ndarray, np.ndarray]:
        """Generates shuffled points of both classes.

        Args:
            dimension: Number of points in both classes together.
            noise: Displacement, in [0, 1]. Default: 0.
            data_type: One of the four attributes of the class.

        Returns:
            Inputs `(dimension, 2)` and labels `(dimension, 1)`.
        """
        if data_type not in range(len(self._NAMES)):
            kinds = ", ".join(f"{k} {name}" for k, name in enumerate(self._NAMES))
            raise InputError("data_type: there is none of this number.", data_type, kinds)
        seed = int(np.random.randint(2**31)) if self.seed is None else self.seed
        made = GENERATORS[self._NAMES[data_type]](
            num_examples=dimension, noise=noise, seed=seed, test_fraction=0.0
        )
        order = seeded(seed, 0x5454).permutation(len(made.inputs))
        return made.inputs[order], made.targets[order].astype(int)[:, None]


def data_numpy_to_csv(features, labels, filename: AnyPath) -> None:
    """Writes features and labels to a CSV file with a header line.

    Args:
        features: The points, `(n, k)`, finite.
        labels: Their labels, `(n,)` or `(n, 1)`.
        filename: The file.

    Raises:
        InputError: Unequal lengths, numbers that are not finite, or a file that cannot be written.
    """
    write_dataset(Dataset.from_arrays(features, labels, by_value=True), Path(filename))


def split_into_files(features: np.ndarray, labels: np.ndarray, files: list[str]) -> None:
    """Writes equal parts of the points, in their order, to CSV files.

    Args:
        features: The points, `(n, k)`, finite.
        labels: Their labels, `(n,)` or `(n, 1)`.
        files: The CSV files.
    """
    for part, file in zip(np.array_split(np.arange(len(features)), len(files)), files, strict=True):
        data_numpy_to_csv(features[part], labels[part], file)
