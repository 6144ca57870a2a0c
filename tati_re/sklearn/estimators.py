"""Estimators of scikit-learn whose `fit` samples a posterior and whose `predict` averages over it.
Their pickles hold a predictor of all draws, with `keep_run` the files of the run, and a model as
Keras saves it.
"""

import io
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.process import forks
from tati_re.core.user_warnings import warn_user
from tati_re.data.dataset import Dataset
from tati_re.data.labels import called
from tati_re.launch.run import Run
from tati_re.likelihoods.registry import named_loss
from tati_re.options.table import SAMPLE, options_of
from tati_re.prediction.averaging import average
from tati_re.prediction.draws import resampled
from tati_re.prediction.outputs import outputs_of_draws
from tati_re.prediction.predict import as_calibrated, warn_of_few_draws
from tati_re.prediction.sources import source_of
from tati_re.runs import files
from tati_re.runs.failed_checks import FAILED
from tati_re.runs.run_folder import free_folder
from tati_re.shipping.predictor import Predictor
from tati_re.shipping.predictor_file import archive_of, parts_of_archive


class PackedModel(NamedTuple):
    """The content of a `.keras` file."""

    content: bytes


def packed_run(run: Run) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(run.folder.rglob("*")):
            if path.is_file() and path.name != files.LOCK:
                archive.write(path, path.relative_to(run.folder))
    return content.getvalue()


def unpacked_run(content: bytes) -> Run:
    """A run in a temporary folder that goes with it."""
    from tati_re.engine.environment import TemporaryFolder

    temporary = TemporaryFolder()
    zipfile.ZipFile(io.BytesIO(content)).extractall(temporary.folder)
    return Run(temporary.folder, temporary)


def packed_predictor(run: Run) -> bytes:
    """The file of a predictor of all draws of a run."""
    return archive_of(run.compress(members=None).parts)


def unpacked_predictor(content: bytes, model: Any) -> Predictor:
    """The predictor in the content of its file.

    Args:
        content: What `packed_predictor` gave.
        model: The Keras model, for a predictor that could not hold it.
    """
    parts = parts_of_archive(io.BytesIO(content), "the pickle")
    return Predictor(parts, None if parts.model_file is not None else model)


def packed_model(model: Any) -> Any:
    """A Keras model as bytes; names and functions as they are."""
    if model is None:
        return None
    from tati_re.core.backend import keras

    if not isinstance(model, keras.Model):
        return model
    with tempfile.TemporaryDirectory() as folder:
        model.save(path := Path(folder) / files.MODEL)
        return PackedModel(path.read_bytes())


def unpacked_model(model: Any) -> Any:
    """The model that `packed_model` packed; code in it does not run."""
    if not isinstance(model, PackedModel):
        return model
    from tati_re.models.build import load_model

    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / files.MODEL).write_bytes(model.content)
        return load_model(path)


_NEW = 0x4E45
ROWS_OF_WARNING = 16
"""Training rows whose predictions tell how many independent draws there are."""
PREDICT = "predict"
MEMBERS = 4
_OF_WALKERS = ("walker_start", "num_walkers")
"""Walkers where nobody says how many."""
_SETTLED = {
    *(
        "data",
        "test_data",
        "test_fraction",
        "label_columns",
        "input_columns",
        "data_keys",
        "encoding",
        "num_classes",
    ),
    *(
        "sample_weights",
        "stream_predictions",
        "num_walkers",
        "output",
        "overwrite",
        "resume",
        "directions",
    ),
    *("potential", "dimension", "coordinates"),
}
"""Options that the estimators give themselves, or that have no use in them."""


def _numbered(count: int) -> list[str]:
    """The names of classes that have none: 0, 1, 2, ..."""
    return [str(number) for number in range(count)]


@front_doors
class Posterior(BaseEstimator):
    """Base of both estimators: parameters, sampling, and files.

    Args:
        model: A Keras model, the path of a `.keras` file, or a function that builds a model.
            Default: None, dense layers.
        hidden: Units of each hidden layer. Default: None, chosen by a run for prediction, otherwise
            (32,).
        members: Number of independent walkers, at least 1. Default: None, 8 in a run for
            prediction, otherwise 4.
        sampler: A name or a sampler object. Default: None, chosen by the run.
        num_steps: The last step. Default: None, chosen by the run.
        until: Condition that ends the run. Default: None, chosen by the run.
        seed: Seed of all random numbers. Default: 0.
        random_state: An integer or a `RandomState` in place of `seed`. Default: None.
        folder: Folder in which each fit creates a run folder, fit-1, fit-2, ... Default: None,
            temporary folders.
        keep_run: Whether a pickle contains the run folder, rather than a predictor of all draws.
            Default: False.
        verbose: 0: quiet; 1: progress and summary. Default: 0.
        **options: Any other option of a run by its name. An option that is not given is None.

    Raises:
        InputError: An option is unknown.
    """

    run_: Run
    predictor_: Predictor

    def __init__(
        self,
        model: Any = None,
        *,
        hidden: Any = None,
        members: int | None = None,
        sampler: Any = None,
        num_steps: int | None = None,
        until: str | None = None,
        seed: int = 0,
        random_state: Any = None,
        folder: Any = None,
        keep_run: bool = False,
        verbose: int = 0,
        **options: Any,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.members = members
        self.sampler = sampler
        self.num_steps = num_steps
        self.until = until
        self.seed = seed
        self.folder = folder
        self.keep_run = keep_run
        self.verbose = verbose
        self.random_state = random_state
        for name in OPTIONS:
            setattr(self, name, options.pop(name, None))
        for name in options:
            near = nearest(
                {"num_walkers": "members", "output": "folder"}.get(name, name), [*OPTIONS, *_OWN]
            )
            raise InputError(f"{name} is not a parameter of {type(self).__name__}.{near}")

    def _sample(self, x: np.ndarray, y: np.ndarray, classes: Any, sample_weight: Any) -> None:
        """Samples the posterior of the model given examples; there are no `classes` in a
        regression.
        """
        forks.refuse()
        from tati_re.core.backend import keras
        from tati_re.models.inspect import output_shape_of
        from tati_re.simulation.simulation import Simulation

        settings = {
            name: value for name, value in self.get_params(deep=False).items() if value is not None
        }
        settings.pop("keep_run")
        model, hidden, folder, members = (
            settings.pop(name, None) for name in ("model", "hidden", "folder", "members")
        )
        predicts = self._predicts
        if predicts:
            settings["goal"] = PREDICT
        if not predicts:
            settings = {"walker_start": "fit", "num_walkers": members or MEMBERS} | settings
        elif members is not None:
            settings = {"num_walkers": members} | settings
        if (state := settings.pop("random_state", None)) is not None:
            settings["seed"] = int(check_random_state(state).randint(2**31))
        if model is None and not predicts:
            hidden = (32,) if hidden is None else hidden
            units = "noise_prior_scale" in settings or not isinstance(
                settings.get("noise_std", "sampled"), str
            )
            loss = named_loss(settings.get("loss", "gaussian"))
            units |= loss is None or not loss.scale_free
            settings = {"standardize": "inputs" if units else "all", "dtype": "float64"} | settings
        if hidden is not None:
            settings["hidden"] = list(hidden)
        if isinstance(model, keras.Model):
            settings = {"dtype": model.dtype_policy.variable_dtype} | settings
            if len(classes) == 2 and output_shape_of(model)[-1] == 1:
                settings = {"loss": "binary_crossentropy"} | settings
        x = np.array(x)
        y = np.array(y)  # in memory, also where they were mapped from a file
        if (weights := sample_weight) is not None:
            weights = _check_sample_weight(weights, x, dtype=np.float64, ensure_non_negative=True)
            x = x[weights > 0]
            y = y[weights > 0]
            weights = weights[weights > 0]
        settings["test_fraction"] = 0.0
        settings["num_classes"] = len(classes)
        names = tuple(map(called, classes))
        data = Dataset.from_arrays(x, y, num_classes=len(classes), weights=weights)
        if list(names) != _numbered(len(names)):
            data = replace(data, class_names=names)
        if folder is not None:
            settings["output"] = str(free_folder("fit", folder))
        sim = Simulation(model, data, **settings)
        if members is None and "goal" not in settings and _is_for_predictions(settings, model, sim):
            settings = {name: value for name, value in settings.items() if name not in _OF_WALKERS}
            sim = Simulation(model, data, **settings)
        last = output_shape_of(sim.system.model)[-1]
        count = len(classes)
        refuse_if(
            count and last not in (1, count),
            f"The model does not match {count} classes.",
            f"{last} outputs",
        )
        if "predictor_" in vars(self):
            del self.predictor_
        self.run_ = sim.sample()
        self.source_ = source_of(self.run_)
        self._warn_of_few_draws(x)

    def _warn_of_few_draws(self, x: np.ndarray) -> None:
        """Warns, once for each fit, that its predictions are rough; a run whose certificate failed
        has already warned.
        """
        manifest = self.run_.manifest
        if manifest.get(FAILED) or manifest.chose_fits:
            return
        prediction = average([self.source_], x[:ROWS_OF_WARNING], None, 0.9)
        warn_of_few_draws(prediction, self.run_)

    @property
    def _predicts(self) -> bool:
        """Whether `fit` is a run for prediction, which chooses its model."""
        from tati_re.launch.goal import names_posterior

        params = self.get_params(deep=False)
        if params["goal"] is not None:
            return params["goal"] == PREDICT
        return not names_posterior(name for name, value in params.items() if value is not None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The clock decides how many steps a run for prediction takes.
        tags.non_deterministic = self._predicts
        return tags

    def _inputs(self, x: Any) -> np.ndarray:
        forks.refuse()
        check_is_fitted(self)
        return validate_data(self, x, reset=False, allow_nd=self.model is not None)

    def _predicted(self, x: Any, level: float = 0.9) -> Any:
        refuse_if(not 0 < level < 1, "level is out of range.", level, "a number between 0 and 1")
        inputs = self._inputs(x)
        if "predictor_" in vars(self):
            return self.predictor_.averaged(inputs, interval=level)
        prediction = average([self.source_], inputs, None, level)
        return as_calibrated(self.run_, prediction, [self.source_], inputs)

    def _drawn(self, x: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """What outputs predict, outputs `(draws, n, outputs)`, and the extra parameters of each
        draw, where there are some.
        """
        inputs = self._inputs(x)
        network, draws = self.source_
        outputs, noise = outputs_of_draws(network, draws, network.prepared(inputs))
        chosen = resampled(draws.weight)
        noise = noise if noise is None else noise[chosen]
        return network.predictive, outputs[chosen], noise

    def sample_predictive(self, X: Any, num: int = 100, seed: int = 0) -> np.ndarray:
        """Draws new observations from the predictive distribution.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.
            num: Number of observations for each input, at least 1. Default: 100.
            seed: Seed of the random numbers. Default: 0.

        Returns:
            Values in the units of y, `(num, n)` or `(num, n, outputs)`; of a classifier labels,
            `(num, n)`.

        Raises:
            InputError: `num` is too small, or the loss does not describe the noise.
        """
        return self._as_targets(self._predictor_of_draws().sample(self._inputs(X), num, seed))

    def log_prob(self, X: Any, y: Any) -> np.ndarray:
        """Returns the log predictive density, or the log probability, of each row.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.
            y: Targets or labels, as for `fit`.

        Returns:
            Logarithms in nats, `(n,)`, jointly over the outputs of a row, in the units of y.

        Raises:
            InputError: y does not fit X, a label is unknown, or the loss does not describe the
                noise.
        """
        return self._predictor_of_draws().log_prob(self._inputs(X), self._as_known(y))

    def _predictor_of_draws(self) -> Predictor:
        """The predictor of all draws of the run, made once."""
        check_is_fitted(self)
        if "predictor_" in vars(self):
            return self.predictor_
        made: Predictor = self.run_.cached_result(
            "predictor of an estimator", lambda: self.run_.compress(members=None)
        )
        return made

    def _as_targets(self, values: np.ndarray) -> np.ndarray:
        """Values of a predictor in the form of y."""
        return values

    def _as_known(self, y: Any) -> np.ndarray:
        """Targets as a predictor takes them."""
        return np.asarray(y)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a run: a fit that failed leaves other attributes."""
        return bool({"run_", "predictor_"} & {*vars(self)})

    def __getattr__(self, name: str) -> Any:
        if name == "run_" and "predictor_" in vars(self):
            reason = "this estimator was pickled without its run"
            raise AttributeError(f"{reason}; keep_run=True before pickling keeps it")
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    def _seed_of_run(self) -> int:
        source = self.predictor_ if "predictor_" in vars(self) else self.run_
        return source.manifest.seed or 0

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__() | {"model": packed_model(self.model)}
        state.pop("source_", None)
        predictor = state.pop("predictor_", None)
        if predictor is not None:
            return state | {"predictor_": archive_of(predictor.parts)}
        run = state.pop("run_", None)
        if run is None:
            return state
        if self.keep_run:
            return state | {"run_": packed_run(run)}
        return state | {"predictor_": packed_predictor(run)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {"model": unpacked_model(state["model"])})
        if "run_" in state:
            self.run_ = unpacked_run(state["run_"])
            self.source_ = source_of(self.run_)
        if "predictor_" in state:
            self.predictor_ = unpacked_predictor(state["predictor_"], self.model)
            self.source_ = (self.predictor_.network, self.predictor_.members)


def _is_for_predictions(settings: Mapping[str, Any], model: Any, sim: Any) -> bool:
    """Whether the data are so many that a named model is fitted and sampled for predictions."""
    from tati_re.launch.goal import is_for_predictions

    named = {*settings} - {*_OF_WALKERS} | ({"model"} if model is not None else set())
    return is_for_predictions(named, sim.system)


@front_doors
class BayesianRegressor(RegressorMixin, Posterior):
    """A regressor that averages the predictions of a network over its posterior.

    `fit` samples p(θ | X, y) ∝ p(y | X, θ) p(θ) of a Keras network with `tati_re.Simulation`.

    Without arguments it is a run for prediction (`goal="predict"`). It chooses likelihood, hidden
    layers and prior width on held-out rows, fits eight members, samples a chain from each, and ends
    within 60 seconds (`max_time`). Pass a model, `hidden`, a loss, a prior, a sampler or
    `goal="posterior"` to sample the posterior of that model instead. Its default noise is Gaussian,
    with a sampled standard deviation. A model of very many rows is fitted and sampled for
    predictions as well, unless `members`, a sampler or `goal` is given.

    Args:
        model: A Keras model, which is left unchanged; the path of a `.keras` file; or a function
            that builds a model. The function is called with those of `input_shape`, `num_outputs`
            and the options that its signature names. Default: None, dense layers.
        hidden: Units of each hidden layer. Default: None, chosen by a run for prediction, otherwise
            (32,).
        members: Number of independent walkers, at least 1. Default: None, 8 in a run for
            prediction, otherwise 4.
        sampler: A name or a sampler object. Default: None, chosen by the run.
        num_steps: The last step. Default: None, 100,000, or up to 2,000,000 if `until` needs them.
        until: Condition that ends the run. Default: None, `"rhat<1.01, ess>400, rhat(weights)<1.1"`
            if the run chooses its sampler.
        seed: Seed of all random numbers. The same seed gives the same posterior, unless `max_time`
            ends the run. Default: 0.
        random_state: An integer or a `RandomState` in place of `seed`, as bagging sets it for each
            member. Default: None.
        folder: Folder in which each fit creates a run folder, fit-1, fit-2, ... Default: None,
            temporary folders.
        keep_run: Whether a pickle contains the run folder with its tables and certificate.
            Otherwise it contains a `tati_re.Predictor` of all draws, with the same predictions.
            Default: False.
        verbose: 0: quiet; 1: progress and summary. Default: 0.
        **options: Any other option of a run by its name (`tati_re.help()`), such as `prior_std`,
            `step_size`, `batch_size` or `loss`. `set_params` and parameter searches accept them
            too. Networks of dense layers use `standardize="all"` and `dtype="float64"` by default.

    Attributes:
        run_: The `tati_re.Run`, with `run_.summary()` and `run_.certificate`. Absent after
            unpickling without `keep_run`.
        n_features_in_: Number of columns of X.

    Raises:
        InputError: A `ValueError`: an option, the model or the data are invalid.

    Examples:
        >>> from sklearn.datasets import load_diabetes
        >>> x, y = load_diabetes(return_X_y=True)
        >>> short = {"hidden": (8,), "sampler": "BAOAB", "step_size": 0.01, "walker_start": "fresh", "num_steps": 200}
        >>> regressor = BayesianRegressor(**short).fit(x[:300], y[:300])
        >>> mean, std = regressor.predict(x[300:], return_std=True)
        >>> mean.shape, bool((std > 0).all())
        ((142,), True)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Samples the posterior given the training data.

        Args:
            X: Inputs, `(n, features)`, n at least 2; any shape `(n, ...)` if `model` is set.
            y: Targets, `(n,)` or `(n, outputs)`.
            sample_weight: Weight of each example in the likelihood, `(n,)`, at least 0. A weight of
                2 counts an example twice. Default: None, equal weights.

        Returns:
            The estimator.

        Raises:
            InputError: An option, the model or the data are invalid.
        """
        nd = self.model is not None
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, allow_nd=nd, ensure_min_samples=2
        )
        self._sample(X, np.asarray(y, np.float64), (), sample_weight)
        self.n_outputs_ = 0 if y.ndim == 1 else y.shape[1]
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicts the mean over the posterior draws, or over the fits if they predict better.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.
            return_std: Whether to return the standard deviation too. Default: False.

        Returns:
            The mean, `(n,)` or `(n, outputs)`, in the units of y. With `return_std`, a pair of the
            mean and the standard deviation of a new observation, from noise and parameters. If the
            loss does not describe the noise, it is the standard deviation of the mean, and a
            warning says so.
        """
        prediction = self._predicted(X)
        if not return_std:
            return self._shaped(prediction.mean)
        std = prediction.std
        if std is None:
            self._warn_of_the_mean("return_std: the standard deviation")
            std = prediction.parameter_std
        return self._shaped(prediction.mean), self._shaped(std)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Returns a central interval for a new observation.

        If the loss does not describe the noise, the interval is for the mean, and a warning says
        so.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.
            level: Probability inside the interval, between 0 and 1. Default: 0.9.

        Returns:
            Lower and upper ends, `(n,)` or `(n, outputs)` each, in the units of y.
        """
        prediction = self._predicted(X, level)
        if prediction.lower is None:
            self._warn_of_the_mean("predict_interval: the interval")
            return self._shaped(prediction.mean_lower), self._shaped(prediction.mean_upper)
        return self._shaped(prediction.lower), self._shaped(prediction.upper)

    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Returns quantiles of a new observation.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.
            levels: Cumulative probabilities, between 0 and 1. Default: 0.05, 0.5, 0.95.

        Returns:
            Quantiles in the units of y, `(levels, n)` or `(levels, n, outputs)`.

        Raises:
            InputError: A level is not between 0 and 1, or the loss does not describe the noise.
        """
        return self._as_targets(self._predictor_of_draws().quantiles(self._inputs(X), levels))

    def _as_targets(self, values: np.ndarray) -> np.ndarray:
        return self._shaped(values)

    def _warn_of_the_mean(self, subject: str) -> None:
        loss = self.source_[0].predictive.name
        sentence = f"{subject} is for the mean, not for a new observation"
        warn_user(f"{sentence}: the loss {loss} says nothing of the noise.")

    def sample_posterior(self, X: Any, noise: bool = False) -> np.ndarray:
        """Returns the predictions of the network for each stored draw of its parameters.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.
            noise: Whether to add noise, so that each draw is a new observation. The noise is the
                same at each call. Default: False.

        Returns:
            Values in the units of y, `(draws, n)` or `(draws, n, outputs)`.

        Raises:
            InputError: `noise` is set, but the loss does not describe the noise.
        """
        predictive, outputs, extra = self._drawn(X)
        if noise and not predictive.has_noise:
            raise InputError("noise: the loss does not model it.", predictive.name, "gaussian")
        random = np.random.default_rng([self._seed_of_run(), _NEW])
        return self._shaped(
            predictive.drawn(outputs, extra, random)
            if noise
            else predictive.restored(outputs, extra)
        )

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values if self.n_outputs_ else values[..., 0]


@front_doors
class BayesianClassifier(ClassifierMixin, Posterior):
    """A classifier that averages the class probabilities of a network over its posterior.

    `fit` samples p(θ | X, y) ∝ p(y | X, θ) p(θ) with the cross-entropy as loss; labels may have any
    type. Without arguments it is a run for prediction, like `BayesianRegressor`. A network with one
    output for two classes uses the binary cross-entropy.

    Args:
        model: A Keras model, which is left unchanged; a function that builds a model; or the path
            of a `.keras` file. See `BayesianRegressor`. Default: None, dense layers.
        hidden: Units of each hidden layer. Default: None, chosen by a run for prediction, otherwise
            (32,).
        members: Number of independent walkers, at least 1. Default: None, 8 in a run for
            prediction, otherwise 4.
        sampler: A name or a sampler object. Default: None, chosen by the run.
        num_steps: The last step. Default: None, as for `BayesianRegressor`.
        until: Condition that ends the run. Default: None, as for `BayesianRegressor`.
        seed: Seed of all random numbers. The same seed gives the same posterior, unless `max_time`
            ends the run. Default: 0.
        random_state: An integer or a `RandomState` in place of `seed`. Default: None.
        folder: Folder in which each fit creates a run folder, fit-1, fit-2, ... Default: None,
            temporary folders.
        keep_run: Whether a pickle contains the run folder with its tables and certificate.
            Otherwise it contains a `tati_re.Predictor` of all draws, with the same predictions.
            Default: False.
        verbose: 0: quiet; 1: progress and summary. Default: 0.
        **options: Any other option of a run by its name (`tati_re.help()`), as for
            `BayesianRegressor`.

    Attributes:
        classes_: The sorted labels.
        run_: The `tati_re.Run`, with the names of the classes.
        n_features_in_: Number of columns of X.

    Raises:
        InputError: A `ValueError`: an option, the model or the data are invalid.
    """

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Samples the posterior given the training data.

        Args:
            X: Inputs, `(n, features)`, n at least 2; any shape `(n, ...)` if `model` is set.
            y: Labels of at least two classes, `(n,)`.
            sample_weight: Weight of each example in the likelihood, `(n,)`, at least 0. Default:
                None, equal weights.

        Returns:
            The estimator.

        Raises:
            InputError: An option, the model or the data are invalid, or y has a single class.
        """
        X, y = validate_data(self, X, y, allow_nd=self.model is not None, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        refuse_if(
            len(self.classes_) < 2,
            "y contains only one class.",
            self.classes_[0],
            "labels of at least two classes",
        )
        self._sample(X, numbers.astype(np.int32), self.classes_, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predicts the class with the largest posterior probability.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.

        Returns:
            Labels, `(n,)`.
        """
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns class probabilities averaged over the posterior.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.

        Returns:
            Probabilities, `(n, classes)`, in the order of `classes_`.
        """
        return self._predicted(X).probabilities

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Returns central posterior intervals of the class probabilities.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.
            level: Posterior probability inside the interval, between 0 and 1. Default: 0.9.

        Returns:
            Lower and upper ends, `(n, classes)` each.
        """
        prediction = self._predicted(X, level)
        return prediction.lower, prediction.upper

    def sample_posterior(self, X: Any) -> np.ndarray:
        """Returns the class probabilities for each stored draw of the parameters.

        Args:
            X: Inputs, `(n, features)`, or `(n, ...)` if `model` is set.

        Returns:
            Probabilities, `(draws, n, classes)`.
        """
        predictive, outputs, _ = self._drawn(X)
        return np.exp(predictive.log_probabilities(outputs))

    @property
    def _names(self) -> list[str]:
        """What the classes are called in the run."""
        return [called(label) for label in self.classes_]

    def _as_targets(self, values: np.ndarray) -> np.ndarray:
        names = self._names
        classes, indices = np.unique(values, return_inverse=True)
        numbers = np.array([names.index(called(label)) for label in classes])
        return self.classes_[numbers[indices.reshape(values.shape)]]

    def _as_known(self, y: Any) -> np.ndarray:
        labels = np.asarray(y)
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise InputError("y has a class that fit did not see.", labels[~known][0])
        numbers = np.searchsorted(self.classes_, labels)
        names = self._names
        # Numbers could be taken for names, where classes are called by other numbers.
        return numbers if names == _numbered(len(names)) else np.array(names)[numbers]


_OWN = [
    name for name in signature(Posterior.__init__).parameters if name not in ("self", "options")
]
OPTIONS = [name for name in options_of((*SAMPLE, "training")) if name not in {*_OWN, *_SETTLED}]
"""Options of a run that are parameters of both estimators, None where they are left open."""
# scikit-learn reads its parameters off the signature.
_shown = [
    parameter
    for name, parameter in signature(Posterior.__init__).parameters.items()
    if name != "options"
]
_shown += [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in OPTIONS]
vars(Posterior)["__init__"].__signature__ = Signature(_shown)
