"""A Keras model and its data as a physical system."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tati_re.core.backend import set_threads, tf
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.given import as_array
from tati_re.core.process import forks
from tati_re.data.packing import as_packed
from tati_re.engine.limits import LIMITS
from tati_re.engine.noise import Draw, draw_numbers
from tati_re.engine.progress import make_progress
from tati_re.launch.calls import Calls, alone
from tati_re.launch.checks import check_values
from tati_re.launch.description import say_unused
from tati_re.launch.goal import with_goal
from tati_re.launch.header import header
from tati_re.launch.launch import launch_finite
from tati_re.launch.request import make_request, own_sampler
from tati_re.launch.resume import reopened
from tati_re.launch.run import Run
from tati_re.launch.starts import starting_walkers
from tati_re.launch.unattended import prepared
from tati_re.likelihoods.registry import LOSSES
from tati_re.models.build import activation_names
from tati_re.models.inputs import fit_inputs
from tati_re.models.inspect import input_shape_of
from tati_re.options import tati_names as aliases
from tati_re.options.make import OPTIONS, Options, describe, make_options
from tati_re.options.methods import flattened
from tati_re.options.stages import check_num_steps
from tati_re.posterior.outputs import Outputs
from tati_re.runs.failed_checks import warn_of_failed_checks
from tati_re.simulation.evaluations import Evaluations
from tati_re.simulation.larger import widened
from tati_re.simulation.notebook import simulation_html
from tati_re.system.current_batch import CurrentDataset
from tati_re.system.from_folder import from_folder
from tati_re.system.named import with_named_density
from tati_re.system.system import OBJECTS, is_named, refuse_fixed
from tati_re.system.target import system_of, with_defaults


@front_doors
class Simulation(Evaluations):
    """A Keras model and its data as a physical system of positions θ and potential U = N * mean
    loss - log prior.

    Args:
        model: A Keras 3 model, the path of a `.keras` file, a function that builds one or is in a
            file (`my_net.py:build`), or `None` for a network of dense layers built from `hidden`.
        data: `(inputs, labels)`, `((inputs, labels), (test inputs, test labels))`, a built-in name,
            or a data file.
        loss: A name or a Keras loss. Default: cross-entropy for integer labels, `gaussian` for
            regression.
        prior: "gaussian", "box", "none", or an object of `tati_re.priors`. Default: gaussian with
            `prior_std`.
        potential: U = -log density in place of model and data, a function of positions `(walkers,
            dimension)` or `(dimension,)`, in TensorFlow, or in NumPy with its gradient as a pair;
            float64, and no prior, by default.
        log_density: The log density of named parameters in place of model and loss, a function of
            one draw. `parameters` is then the support of each parameter by its name, and `data` a
            table of arrays; see `tati_re.NamedDensity`.
        log_likelihood: With `log_density`, the log density of each observation, for `run.loo()`.
        generated: With `log_density`, functions of a draw by name, for `run.generated`.
        inits: With `log_density`, where chains start, parameters by name, `(*shape)` or `(walkers,
            *shape)`. Default: drawn from N(0, 1) in the free coordinates.
        **options: Every other option, see `Simulation.help()`; `parameters` may also be positions,
            `(parameters,)` or `(walkers, parameters)`.

    Raises:
        InputError: An option, the data or the model is not right; nothing was computed yet.

    Examples:
        >>> sim = tati_re.Simulation(data="two_clusters", hidden=[4], loss="binary_crossentropy", seed=1, verbose=0)
        >>> run = sim.sample(step_size=0.02, num_steps=1000, num_burnin_steps=200)
        >>> float(run.run_info["accuracy"].iloc[-1]) > 0.95
        True
    """

    limits = LIMITS
    """On the chunks of steps of its runs; their numbers do not depend on it."""

    def __init__(
        self,
        model: Any = None,
        data: Any = None,
        *,
        loss: Any = None,
        potential: Any = None,
        prior: Any = None,
        log_density: Any = None,
        log_likelihood: Any = None,
        generated: Any = None,
        inits: Any = None,
        **options: Any,
    ) -> None:
        given = {
            "model": model,
            "data": data,
            "loss": loss,
            "potential": potential,
            "prior": prior,
            "log_density": log_density,
            "log_likelihood": log_likelihood,
            "generated": generated,
            "inits": inits,
            **options,
        }
        given = _own_names({name: value for name, value in given.items() if value is not None})
        given, start = with_named_density(given)
        objects = _pop_objects(given)
        if not is_named(given.get("parameters")):
            start = given.pop("parameters")
        self._start(
            make_options(({"dtype": "float64"} if "potential" in objects else {}) | given),
            objects,
            start,
        )

    @classmethod
    def from_options(cls, options: Options, objects: dict[str, Any] | None = None) -> "Simulation":
        """A simulation from checked options, as the commands make it. `objects` are those that are
        objects, by name.
        """
        self = cls.__new__(cls)
        self._start(options, objects or {})
        return self

    @classmethod
    def from_folder(cls, folder: AnyPath, trust: bool = False, **objects: Any) -> "Simulation":
        """The simulation that a run was made with: its model, data, loss, prior and options.

        Args:
            folder: The run folder, or the run, which keeps its objects in the process that made it.
            trust: Whether code that the folder names (`sampler="own.py:Own"`) may run, and files
                that it names elsewhere (`run_file`) be written. Default: no; what is among
                `objects` is the caller's own.
            **objects: What the run was given as objects in Python (`data`, `model`, `loss`,
                `prior`), and options in place of the run's.

        Returns:
            A simulation at the parameters of the run's model file; `parameters=folder` takes its
            walkers'.

        Raises:
            InputError: No run there, objects that are missing, or data that are not the same.
        """
        return from_folder(cls, folder, trust, objects)

    @classmethod
    def resume(
        cls, folder: AnyPath, num_steps: int | None = None, trust: bool = False, **objects: Any
    ) -> Run:
        """Goes on with a run from its last checkpoint, as if it had never stopped.

        Args:
            folder: The folder of the run.
            num_steps: The last step, if the run is to be longer than planned. Default: as planned.
            trust: Whether code and files that the folder names may run and be written. Default:
                False.
            **objects: What the folder does not hold: `data` where it came as arrays, `model` where
                it could not be written, `sampler`, `observables`, `callbacks` where they were
                given; what is named again; and `max_time`, `verbose`.

        Raises:
            InputError: No run there, data that are not the same, or both checkpoints damaged.
        """
        limits = replace(cls.limits, began=time.monotonic())
        with ExitStack() as stack:
            running, carry = reopened(stack, folder, num_steps, trust, objects, limits)
            run = running.finish(carry)
        warn_of_failed_checks(run, ended=True)
        return run

    def _start(self, options: Options, objects: dict[str, Any], start: Any = None) -> None:
        set_threads(options.threads)
        self.options = options = with_defaults(options, objects, placed=start is not None)
        self.objects = objects
        self.calls = Calls()
        self._take(system_of(options, objects))
        self.options = aliases.capped(options, self.system.dataset.num_examples)
        built = options.model is None and "model" not in objects
        self.walkers = starting_walkers(options, self.system.flat, start, built)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle holds; what is compiled is made anew."""
        first = self._first_batch if self._evaluator is None else self._batch.number
        return {n: v for n, v in vars(self).items() if not n.startswith("_")} | {
            "_first_batch": first
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._take(state["system"])
        vars(self).update(state)

    def __repr__(self) -> str:
        size = f"{self.num_parameters():,} parameters, {self.num_walkers()} walker(s)"
        return f"Simulation of {self._dataset.name}: {size}"

    def _repr_html_(self) -> str:
        return simulation_html(self.system, self.options, self.objects)

    # Parameters and momenta

    @property
    def parameters(self) -> np.ndarray:
        """Positions: `(parameters,)` for one walker, `(walkers, parameters)` for several; writing
        moves the walkers.
        """
        return self.walkers.position[0] if self.num_walkers() == 1 else self.walkers.position

    @parameters.setter
    def parameters(self, value) -> None:
        self.walkers.position = self.walkers.fitting(value, "parameters")
        self.walkers.sentence = None
        self.walkers.drawn = None
        self.walkers.fits = None

    @property
    def momenta(self) -> np.ndarray:
        """Momenta, shaped as `parameters`; drawn from N(0, T) when first asked for. They are for
        loops of your own: `sample` draws its own ones. An `InputError` where the sampler of the
        options has none.
        """
        self._check_momentum()
        if self.walkers.momentum is None:
            self.init_momenta()
        momentum = np.asarray(self.walkers.momentum)
        return momentum[0] if self.num_walkers() == 1 else momentum

    @momenta.setter
    def momenta(self, value) -> None:
        self._check_momentum()
        self.walkers.momentum = self.walkers.fitting(value, "momenta")

    def _check_momentum(self) -> None:
        sampler = own_sampler(self.options, self.objects)
        what = f"momenta: {sampler.name} has none; it moves positions only."
        refuse_if(
            not sampler.has_momentum,
            what,
            expected="sampler BAOAB or another with momenta, by set_options",
        )

    def init_momenta(
        self,
        *unnamed: Any,
        temperature: float | None = None,
        inverse_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        """Draws all momenta anew from N(0, T), other ones at each call.

        Args:
            *unnamed: Refused, for the argument of TATi's function is the inverse temperature.
            temperature: T. Default: that of the options.
            inverse_temperature: 1/T, in place of `temperature`.
            seed: The same momenta at each call with it. Default: that of the options, with further
                numbers each time.

        Raises:
            InputError: The sampler of the options has no momenta, or an argument without its name.
        """
        self._check_momentum()
        if unnamed:
            what = (
                "init_momenta: pass the argument by name (in TATi the positional argument "
                "was the inverse temperature)."
            )
            raise InputError(what, unnamed[0], "temperature=T or inverse_temperature=1/T")
        given = {
            "temperature": temperature,
            "inverse_temperature": inverse_temperature,
            "seed": seed,
        }
        given = {name: value for name, value in given.items() if value is not None}
        chosen = self.calls.next("init_momenta", make_options(self.options, **given), given)
        draw = Draw("normal", self.walkers.position.shape, tf.as_dtype(self.walkers.position.dtype))
        normal = draw_numbers([draw], chosen.run_seed, "init_momenta", 0, 1)[0][0].numpy()
        self.walkers.momentum = normal * np.sqrt(chosen.kT).astype(normal.dtype)

    def num_parameters(self) -> int:
        """P, the number of parameters of one walker."""
        return self.system.flat.num_parameters

    def num_walkers(self) -> int:
        """W, the number of walkers."""
        return self.options.num_walkers

    def parameter_names(self) -> list[str]:
        """Names of the parameters by their place in the model, such as `dense/kernel[0,3]`."""
        return self.system.flat.parameter_names()

    @property
    def dataset(self) -> CurrentDataset:
        """The data set, inputs in the shape that the model takes; `inputs, labels = sim.dataset` is
        the current batch. It may be set: to `(inputs, labels)`, a file name, a list of file names,
        or the name of a built-in set. The model and the walkers stay as they are.
        """
        return self._dataset

    @dataset.setter
    def dataset(self, value) -> None:
        data = {"data": value}
        of_data = ("data", "test_data", "sample_weights")
        objects = {name: given for name, given in self.objects.items() if name not in of_data}
        found = _pop_objects(data)
        options = make_options(self.options, data=data.get("data"), test_data=None)
        self._take(self.system.with_data(options, found.get("data")))
        self.options = aliases.capped(options, self.system.dataset.num_examples)
        self.objects = objects | found

    def take(self, system: Any) -> None:
        """Takes another system; the walkers have to fit it."""
        self._take(system)

    def _take(self, system: Any) -> None:
        self.system = system
        self._outputs: Outputs | None = None
        self._forget()
        self._first_batch = 0
        self._dataset = self.system.view(lambda: self.batch)
        self._header = ""

    # Predictions

    def predict(self, inputs, parameters=None, walker_index: int | None = None) -> np.ndarray:
        """The model's outputs, `(n, ...)`, or `(walkers, n, ...)` for several walkers. Inputs are
        as in the data set, before scaling, `(n, ...)`, several by name or in their order;
        `parameters`, `(parameters,)`, are by default those of the walkers, all of them without a
        `walker_index`.
        """
        if parameters is None and walker_index is None and self.num_walkers() > 1:
            return np.stack(
                [self.predict(inputs, walker_index=walker) for walker in range(self.num_walkers())]
            )
        walker_index = self._checked_walker(walker_index or 0)
        here = self.walkers.position[walker_index]
        parameters = (
            here if parameters is None else as_array(parameters, "parameters", numbers=True)
        )
        refuse_if(
            parameters.shape != here.shape, "parameters: wrong shape.", parameters.shape, here.shape
        )
        parameters = parameters.astype(here.dtype)
        data = self._dataset
        scales = data.layout_scales or (data.input_scale,)
        inputs = data.prepare(as_packed(inputs, data.layout, data.feature_names, scales))
        inputs = fit_inputs(inputs, input_shape_of(self.system.model)[1:])
        potential: Any = self._engine().potential
        if self._outputs is None:
            self._outputs = Outputs(self.system.flat, potential.prepared)
        auxiliary = [value[walker_index] for value in self.walkers.auxiliary]
        return data.restore(
            self._outputs.of_one(parameters, auxiliary, inputs), potential.loss.predicts_noise
        )

    def predict_probabilities(
        self, inputs, parameters=None, walker_index: int | None = None
    ) -> np.ndarray:
        """As `predict`, with logits turned into probabilities."""
        outputs = self.predict(inputs, parameters, walker_index)
        potential = cast(Any, self._engine().potential)
        return potential.loss.probabilities(outputs)

    def widened(self, hidden: Sequence[int], seed: int | None = None) -> "Simulation":
        """A simulation of a wider network that is the same function of its inputs.

        Weights and biases of the units are carried over, for each walker. New units draw theirs
        from the prior (without one, as `walker_start="fresh"` does), and their weights towards the
        old units and the outputs are 0. The noise of a regression is carried over too.

        Args:
            hidden: Units of each hidden layer, as many layers as here, nowhere fewer units.
            seed: Seed of the new units' weights. Default: that of the options.

        Returns:
            A new simulation with the same data and options but `hidden`.

        Raises:
            InputError: The network is not built from `hidden`, has fixed parameters, or `hidden` is
                not a wider network of as many layers.

        Examples:
            >>> sim = tati_re.Simulation(data="two_clusters", hidden=[2], verbose=0)
            >>> sim.widened(hidden=[5]).num_parameters()
            21
        """
        return widened(self, hidden, seed)

    # Runs

    def fit(self, **overrides: Any) -> Run:
        """Descends to a minimum of U with every walker; the walkers stay where they arrive.

        Args:
            **overrides: Options for this call, such as `optimizer` (a name, or a Keras object,
                whose own rate counts), `learning_rate`, `num_steps`, `batch_size`, `output`;
                `stages`, in each of which rate and batch size are others; and `observables`,
                `callbacks` as in `sample`.
        """
        refuse_if(
            overrides.get("workers"),
            "workers: a fit uses a single process.",
            overrides.get("workers"),
            "none",
        )
        return self._launched("fit", overrides)

    def sample(self, **overrides: Any) -> Run:
        """Samples exp(-U/T); the walkers stay where they arrive. The run's tables are pandas
        DataFrames, as of `fit`. Each further call of either has noise and mini-batches of its own;
        `call=2` repeats those of the second.

        Args:
            **overrides: Options for this call; `sampler` may be an object that follows
                `tati_re.samplers.Sampler`; `observables={"name": function}`: functions of the
                parameters `(walkers, parameters)` that give `(walkers,)`, a column of run.csv each;
                `callbacks=[function(folder, step)]`, called at each flush; `starts`: where each
                replica starts, `(rungs, walkers, parameters)`, for one walker also `(rungs,
                parameters)`, in place of where the walkers are.

        Raises:
            SamplingError: The run diverged; what came before is on the disk.

        Warns:
            CertificateWarning: The run failed checks of its certificate.
        """
        run = self._launched("sample", overrides)
        warn_of_failed_checks(run, ended=True)
        return run

    def _launched(self, kind: str, overrides: dict[str, Any]) -> Run:
        forks.refuse()
        with alone(self):
            limits = replace(self.limits, began=time.monotonic())
            placed = self.walkers.placed
            options, objects = self._for_call(overrides, kind)
            if kind == "sample":
                options = with_goal(options, objects, self.system, placed)
            self._introduce(options, objects)
            if kind == "fit":
                options = make_options(options, num_steps=check_num_steps(options))
            else:
                options, limits = prepared(self, options, objects, limits)
            request = make_request(kind, options, objects, self.system, limits)
            say_unused(request, overrides, fitted=options.walker_start == "fit" and not placed)
            run = launch_finite(request, self.walkers, self.calls)
            self._forget()
            return run

    def _introduce(self, options: Options, objects: dict[str, Any]) -> None:
        """Prints version, data and model, unless they stand on the screen already."""
        lines = "\n".join(header(self.system, options, objects))
        if options.verbose > 0 and lines != self._header:
            self._header = lines
            make_progress(options.verbose).message(lines)

    def _for_call(
        self, overrides: dict[str, Any], kind: str = "sample"
    ) -> tuple[Options, dict[str, Any]]:
        overrides = _own_names(overrides)
        extra = {
            n: v
            for n in ("observables", "callbacks", "starts")
            if (v := overrides.pop(n, None)) is not None
        }
        objects = _pop_objects(overrides)
        refuse_fixed((*overrides, *objects))
        kept = {name: value for name, value in self.objects.items() if name not in overrides}
        return self.calls.numbered(
            kind, make_options(self.options, **overrides), overrides
        ), kept | objects | extra

    # Options

    def set_options(self, **options: Any) -> None:
        """Changes options that do not shape the system (step size, sampler, batch size, prior,
        ...); an `InputError` for an unknown option, a bad value, or an option that shapes data or
        model.
        """
        options = _own_names(options)
        refuse_fixed(options)
        names = {*options}
        merged, objects = changed(self.options, self.objects, options)
        merged = aliases.capped(merged, self.system.dataset.num_examples)
        self.system.check(merged, objects)
        check_values(names, merged, objects, self.system)
        self.options = merged
        self.objects = objects
        if "call" in names:
            self.calls = Calls()
        self._forget()

    def get_options(self, name: str | None = None) -> Any:
        """All options as they are, or the value of the one called `name`, here or in TATi; an
        `InputError` where there is no such option.
        """
        if name is None:
            return self.options
        found = [new for new in aliases.names_here(name) if new in OPTIONS]
        if not found:
            describe(name)
            raise InputError(f"{name} has no value here.", expected=aliases.ALIASES[name].instead)
        return getattr(self.options, found[0])

    @staticmethod
    def get_losses() -> list[str]:
        """Names of losses: likelihoods first, then others, then those of TATi; any other Keras loss
        will do too.
        """
        return list(dict.fromkeys([*LOSSES, *aliases.LOSSES.values(), *aliases.LOSSES]))

    @staticmethod
    def get_activations() -> list[str]:
        """Names of activations that options may have: all of Keras."""
        return list(activation_names())

    @staticmethod
    def help(name: str | None = None) -> None:
        """Prints one line for every option, or all about one, as `tati_re.help` does."""
        print(describe(name))


def changed(
    options: Options, objects: dict[str, Any], given: dict[str, Any]
) -> tuple[Options, dict[str, Any]]:
    """Options and objects with those that are given in place of theirs, by all names of users."""
    given = _own_names(given)
    kept = {name: value for name, value in objects.items() if name not in given}
    found = _pop_objects(given)
    return make_options(options, **given), kept | found


def _own_names(given: dict[str, Any]) -> dict[str, Any]:
    """`data` for TATi's `dataset`, whose list of two arrays is a pair; names that a call has in
    TATi alone refused.
    """
    if "walker_index" in given:
        what = "walker_index: a run moves all walkers."
        raise InputError(
            what, given["walker_index"], "run.run_info, whose column walker tells them apart"
        )
    return {"data" if name == "dataset" else name: value for name, value in given.items()}


def _pop_objects(given: dict[str, Any]) -> dict[str, Any]:
    """Takes out what is an object rather than a name, a path or a list of paths: a Keras model,
    arrays, a sampler.
    """
    flat = flattened(given)
    given.clear()
    given.update(flat)
    found = {name for name in OBJECTS if name in given and not is_named(given[name])}
    for name in found & {"data", "test_data"}:
        if isinstance(given[name], list) and len(given[name]) == 2:
            given[name] = tuple(given[name])
    return {name: given.pop(name) for name in OBJECTS if name in found}
