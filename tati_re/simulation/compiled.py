"""The posterior of a compiled and trained Keras model, in one call or at the end of its
training.
"""

from typing import Any

from tati_re.core.backend import keras
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.engine.progress import make_progress
from tati_re.launch.run import Run
from tati_re.likelihoods.keras_losses import loss_name
from tati_re.simulation.simulation import Simulation

_OF_THE_CALL = ("observables", "callbacks", "starts")
_DEFAULTS = {"num_walkers": 4, "walker_start": "jitter"}


@front_door
def sample(
    model: Any,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    loss: Any = None,
    **options: Any,
) -> Run:
    """Samples the posterior of a compiled Keras model around the weights that it was trained to.

    Targets p(θ | x, y) ∝ exp(-Σ loss) p(θ), with the loss the model was compiled with: a
    cross-entropy is a likelihood as it is. The mean squared error says nothing of the noise, so it
    is taken as Gaussian noise whose standard deviation is sampled too; of any other loss, exp(-Σ
    loss) is taken as it stands, and predictions know no noise. The weights of the model stay as
    they are. Four walkers start there, displaced by 0.01: they see the posterior around this
    minimum first, and R-hat near 1 says little of others (`walker_start="fit"` begins at four).

    Args:
        model: A Keras model, compiled unless there is a `loss`.
        x: Inputs, as in `model.fit`; or, without y, a `tf.data.Dataset` or what else `Simulation`
            takes as `data`.
        y: Targets, likewise.
        sample_weight: What each example counts, `(n,)`. Default: 1.
        loss: In place of the compiled one.
        **options: Options of a run (`tati_re.help()`), and what `Simulation.sample` takes. Default:
            the run chooses.

    Returns:
        The run.

    Raises:
        InputError: A model without a compiled loss or with several, or what `Simulation` refuses.
        SamplingError: The run diverged.

    Examples:
        >>> import keras, numpy as np
        >>> x = np.linspace(-1, 1, 50)[:, None]
        >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> _ = model.fit(x, 2 * x, epochs=5, verbose=0)
        >>> run = tati_re.sample(model, x, 2 * x, sampler="BAOAB", step_size=0.01, num_steps=200, verbose=0)
        >>> run.parameters("mean").shape
        (3,)
    """
    refuse_if(
        not isinstance(model, keras.Model),
        "model is not a Keras model.",
        type(model).__name__,
        "a keras.Model",
    )
    settings = {**_DEFAULTS, "dtype": model.dtype_policy.variable_dtype, **options}
    if "parameters" in settings:
        settings = {**settings, "walker_start": options.get("walker_start", "same")}
    if loss is None:
        loss = model.loss if model.compiled else None
        if loss is None or isinstance(loss, (list, tuple, dict)):
            received = "no compiled loss" if loss is None else "several losses"
            problem = "model: its compiled loss is the likelihood."
            raise InputError(problem, received, "model.compile(loss=...), or loss")
        weights = (model.get_compile_config() or {}).get("loss_weights")
        problem = "model: the compiled loss has loss_weights."
        refuse_if(
            weights not in (None, 1, [1]), problem, weights, "a loss that contains the weights"
        )
        if loss_name(loss) == "mean_squared_error":
            loss = "gaussian"
            make_progress(settings.get("verbose", 1)).message(
                "The compiled mean squared error does not set a noise level. Using "
                "Gaussian noise with a sampled standard deviation (loss, noise_std)."
            )
    of_call = {name: settings.pop(name) for name in _OF_THE_CALL if name in settings}
    refuse_if(
        y is None and sample_weight is not None,
        "sample_weight needs y.",
        "no y",
        "x, y and sample_weight",
    )
    if y is None:
        data = x
    else:
        data = (x, y) if sample_weight is None else (x, y, sample_weight)
    return Simulation(model, data, loss=loss, **settings).sample(**of_call)


@front_doors
class SamplePosterior(keras.callbacks.Callback):
    """A callback of Keras that samples the posterior when `model.fit` ends. It calls
    `tati_re.sample` with the trained model; what it gives is the attribute `run`. As the last of
    the callbacks it sees the weights that others restore.

    Args:
        x: Inputs, as of `tati_re.sample`.
        y: Targets, as of `tati_re.sample`.
        sample_weight: The weight of each example, `(n,)`. Default: 1.
        **options: Options of the run, as of `tati_re.sample`.

    Attributes:
        run: The run; None before the end of the training.
    """

    def __init__(self, x: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> None:
        super().__init__()
        self._given = (x, y, sample_weight)
        self._options = options
        self.run: Run | None = None

    def on_train_end(self, logs: Any = None) -> None:
        """Samples from the trained weights; Keras calls it at the end of `fit`.

        Args:
            logs: The metrics of the last epoch, which are not used. Default: None.
        """
        self.run = sample(self.model, *self._given, **self._options)
