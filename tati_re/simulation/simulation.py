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
from tati_re.core.process import forks
from tati_re.core.user_input import as_array
from tati_re.data.packing import as_packed
from tati_re.engine.limits import LIMITS
from tati_re.engine.noise import Draw, draw_numbers
from tati_re.launch.automatic_choices import prepared
from tati_re.launch.calls import Calls, alone
from tati_re.launch.checks import check_values
from tati_re.launch.description import say_unused
from tati_re.launch.goal import with_goal
from tati_re.launch.header import header
from tati_re.launch.launch import launch_finite
from tati_re.launch.opening import announce, opening
from tati_re.launch.request import inner_sampler, make_request
from tati_re.launch.resume import reopened
from tati_re.launch.run import Run
from tati_re.launch.starts import starting_walkers
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
from tati_re.simulation.equilibrium_starts import EquilibriumStarts
from tati_re.simulation.evaluations import Evaluations
from tati_re.simulation.larger import widened
from tati_re.simulation.narrowing import sample_last_layer, start_last_layer
from tati_re.simulation.notebook import simulation_html
from tati_re.system.current_batch import CurrentDataset
from tati_re.system.from_folder import from_folder
from tati_re.system.named import with_named_density
from tati_re.system.system import OBJECTS, System, is_named, refuse_fixed
from tati_re.system.target import system_of, with_defaults


@front_doors
class Simulation(Evaluations):
    """A Keras model and its data as a physical system with positions θ and potential U.

    U = N * mean loss - log prior, with N the number of training examples.

    Args:
        model: A Keras 3 model, the path of a `.keras` file, or a function that builds a model. The
            function may also be named by its file, as `my_net.py:build`. Default: None, a network
            of dense layers with the units in `hidden`.
        data: `(inputs, labels)`, `((inputs, labels), (test inputs, test labels))`, the name of a
            built-in data set, or a data file.
        loss: The name of a loss, or a Keras loss. Default: cross-entropy for integer labels,
            `gaussian` for regression.
        prior: "gaussian", "box", "none", or an object from `tati_re.priors`. Default: gaussian with
            standard deviation `prior_std`.
        potential: U = -log density, in place of model and data. A function of positions, `(walkers,
            dimension)` or `(dimension,)`, written in TensorFlow, or a pair of the function and its
            gradient in NumPy. With it, the defaults are float64 and no prior.
        log_density: The log density of named parameters, in place of model and loss: a function of
            one draw. `parameters` then maps the name of each parameter to its support, and `data`
            is a table of arrays; see `tati_re.NamedDensity`.
        log_likelihood: With `log_density`: the log density of each observation, for `run.loo()`.
        generated: With `log_density`: functions of a draw, by name, for `run.generated`.
        inits: With `log_density`: the starting point of the chains. Parameters by name, `(*shape)`
            or `(walkers, *shape)`. Default: drawn from N(0, 1) in the free coordinates.
        **options: Any other option; `Simulation.help()` lists them. `parameters` may also be an
            array of positions, `(parameters,)` or `(walkers, parameters)`.

    Raises:
        InputError: An option, the data or the model is invalid. Nothing has been computed yet.

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
        values = {
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
        values = _own_names({name: value for name, value in values.items() if value is not None})
        values, start = with_named_density(values)
        objects = _pop_objects(values)
        if not is_named(values.get("parameters")):
            start = values.pop("parameters")
        self._start(
            make_options(({"dtype": "float64"} if "potential" in objects else {}) | values),
            objects,
            start,
        )

    @classmethod
    def from_options(cls, options: Options, objects: dict[str, Any] | None = None) -> "Simulation":
        """Creates a simulation from checked options, as the commands do.

        Args:
            options: Checked options.
            objects: Options that are Python objects, such as a model, by name. Default: none.

        Returns:
            The simulation.
        """
        self = cls.__new__(cls)
        self._start(options, objects or {})
        return self

    @classmethod
    def from_folder(cls, folder: AnyPath, trust: bool = False, **objects: Any) -> "Simulation":
        """Recreates the simulation of a run: its model, data, loss, prior and options.

        Args:
            folder: The run folder, or the run. A run keeps its Python objects in the process that
                made it.
            trust: Whether to run code that the folder names (`sampler="own.py:Own"`) and to write
                files outside it (`run_file`). Objects that you pass yourself need no trust.
                Default: False.
            **objects: Python objects that the run used (`data`, `model`, `loss`, `prior`), and
                options that replace those of the run.

        Returns:
            A simulation at the parameters in the run's model file. Pass `parameters=folder` to
            start at the positions of its walkers.

        Raises:
            InputError: The folder holds no run, an object is missing, or the data differ.
        """
        return from_folder(cls, folder, trust, objects)

    @classmethod
    def resume(
        cls, folder: AnyPath, num_steps: int | None = None, trust: bool = False, **objects: Any
    ) -> Run:
        """Resumes a run from its last checkpoint, as if it had never stopped.

        Args:
            folder: The run folder.
            num_steps: The new last step, to extend the run. Default: the last step of the run's
                options.
            trust: Whether to run code, and to write files, that the folder names. Default: False.
            **objects: Objects that the folder cannot hold: `data` passed as arrays, a `model` that
                could not be saved, and any `sampler`, `observables` or `callbacks` passed as
                objects. Also `max_time`, `verbose`, and options that must be given again on resume.

        Returns:
            The run, with all its steps.

        Raises:
            InputError: The folder holds no run, the data differ, or both checkpoints are damaged.
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
        built = options.model is None and "model" not in objects
        if options.layers == "last" and (built or options.parameters or start is not None):
            start_last_layer(self, start)
            return
        self._take(system_of(options, objects))
        self.options = aliases.capped(options, self.system.dataset.num_examples)
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
        """Positions, `(parameters,)` for one walker or `(walkers, parameters)` for several.

        Assign to it to move the walkers.
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
        """Momenta, in the shape of `parameters`, drawn from N(0, T) on first use.

        They are for your own loops: `sample` draws its own momenta.

        Raises:
            InputError: The sampler in the options has no momenta.
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
        sampler = inner_sampler(self.options, self.objects)
        problem = f"momenta: {sampler.name} has none; it moves positions only."
        refuse_if(
            not sampler.has_momentum,
            problem,
            expected="sampler BAOAB or another with momenta, by set_options",
        )

    def init_momenta(
        self,
        *unnamed: Any,
        temperature: float | None = None,
        inverse_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        """Draws new momenta from N(0, T); each call draws different ones.

        Args:
            *unnamed: Refused, because the argument of TATi's function was the inverse temperature.
            temperature: T, above 0. Default: the temperature in the options.
            inverse_temperature: 1/T, in place of `temperature`.
            seed: Seed that gives the same momenta at each call. Default: the seed in the options,
                with new random numbers at each call.

        Raises:
            InputError: The sampler in the options has no momenta, or an argument is passed without
                its name.
        """
        self._check_momentum()
        if unnamed:
            problem = (
                "init_momenta: pass the argument by name (in TATi the positional argument "
                "was the inverse temperature)."
            )
            raise InputError(problem, unnamed[0], "temperature=T or inverse_temperature=1/T")
        overrides = {
            "temperature": temperature,
            "inverse_temperature": inverse_temperature,
            "seed": seed,
        }
        overrides = {name: value for name, value in overrides.items() if value is not None}
        chosen = self.calls.next("init_momenta", make_options(self.options, **overrides), overrides)
        draw = Draw("normal", self.walkers.position.shape, tf.as_dtype(self.walkers.position.dtype))
        normal = draw_numbers([draw], chosen.run_seed, "init_momenta", 0, 1)[0][0].numpy()
        self.walkers.momentum = normal * np.sqrt(chosen.kT).astype(normal.dtype)

    def num_parameters(self) -> int:
        """P, the number of parameters of one walker.

        Returns:
            The number, at least 1.
        """
        return self.system.flat.num_parameters

    def num_walkers(self) -> int:
        """W, the number of walkers.

        Returns:
            The number, at least 1.
        """
        return self.options.num_walkers

    def parameter_names(self) -> list[str]:
        """Names of the parameters by their position in the model, such as `dense/kernel[0,3]`."""
        return self.system.flat.parameter_names()

    @property
    def dataset(self) -> CurrentDataset:
        """The data set, with inputs in the shape that the model expects.

        `inputs, labels = sim.dataset` unpacks the current batch. Assign `(inputs, labels)`, a file
        name, a list of file names, or the name of a built-in set to replace the data. The model and
        the walkers stay as they are.
        """
        return self._dataset

    @dataset.setter
    def dataset(self, value) -> None:
        data = {"data": value}
        of_data = ("data", "test_data", "sample_weights")
        objects = {name: value for name, value in self.objects.items() if name not in of_data}
        new_objects = _pop_objects(data)
        options = make_options(self.options, data=data.get("data"), test_data=None)
        self._take(self.system.with_data(options, new_objects.get("data"), self.objects))
        self.options = aliases.capped(options, self.system.dataset.num_examples)
        self.objects = objects | new_objects

    def take(self, system: Any) -> None:
        """Replaces the system; the walkers must fit the new one.

        Args:
            system: The model and its data, or the potential.

        Raises:
            InputError: `system` is not the system of a simulation.
        """
        problem = "system has the wrong type or value."
        expected = "the system of a tati_re.Simulation"
        refuse_if(not isinstance(system, System), problem, system, expected)
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
        """Returns the outputs of the model at the positions of the walkers.

        Args:
            inputs: Inputs as in the data set, before scaling, `(n, ...)`. Pass several inputs by
                name or in their order.
            parameters: A parameter vector, `(parameters,)`. Default: the positions of the walkers.
            walker_index: One walker, counted from 0. Default: None, all walkers.

        Returns:
            Outputs, `(n, ...)`, or `(walkers, n, ...)` for several walkers.
        """
        if parameters is None and walker_index is None and self.num_walkers() > 1:
            return np.stack(
                [self.predict(inputs, walker_index=walker) for walker in range(self.num_walkers())]
            )
        walker_index = self._checked_walker(walker_index or 0)
        position = self.walkers.position[walker_index]
        parameters = (
            position if parameters is None else as_array(parameters, "parameters", numbers=True)
        )
        refuse_if(
            parameters.shape != position.shape,
            "parameters: wrong shape.",
            parameters.shape,
            position.shape,
        )
        parameters = parameters.astype(position.dtype)
        data = self._dataset
        scales = data.layout_scales or (data.input_scale,)
        packed = as_packed(inputs, data.layout, data.feature_names, scales, data.input_categories)
        inputs = data.prepare(packed)
        inputs = fit_inputs(inputs, input_shape_of(self.system.model)[1:])
        potential: Any = self._engine().potential
        if self._outputs is None:
            self._outputs = Outputs(self.system.flat, self.system.prepared)
        auxiliary = [value[walker_index] for value in self.walkers.auxiliary]
        return data.restore(
            self._outputs.of_one(parameters, auxiliary, inputs), potential.loss.predicts_noise
        )

    def predict_probabilities(
        self, inputs, parameters=None, walker_index: int | None = None
    ) -> np.ndarray:
        """Returns the outputs of the model, with logits converted to probabilities.

        Args:
            inputs: Inputs as in the data set, before scaling, `(n, ...)`.
            parameters: A parameter vector, `(parameters,)`. Default: the positions of the walkers.
            walker_index: One walker, counted from 0. Default: None, all walkers.

        Returns:
            Probabilities, `(n, ...)`, or `(walkers, n, ...)` for several walkers.
        """
        outputs = self.predict(inputs, parameters, walker_index)
        potential = cast(Any, self._engine().potential)
        return potential.loss.probabilities(outputs)

    def widened(self, hidden: Sequence[int], seed: int | None = None) -> "Simulation":
        """Returns a simulation of a wider network that computes the same function.

        The weights and biases of the existing units are copied for each walker. The weights of new
        units are drawn from the prior, or as `walker_start="fresh"` does if there is no prior.
        Weights from new units to existing units and to the outputs are 0. The noise of a regression
        is copied too.

        Args:
            hidden: Units of each hidden layer. As many layers as now, and at least as many units in
                each.
            seed: Seed for the weights of the new units. Default: the seed in the options.

        Returns:
            A new simulation with the same data and options, except `hidden`.

        Raises:
            InputError: The network was not built from `hidden`, has fixed parameters, or `hidden`
                does not describe a wider network with the same number of layers.

        Examples:
            >>> sim = tati_re.Simulation(data="two_clusters", hidden=[2], verbose=0)
            >>> sim.widened(hidden=[5]).num_parameters()
            21
        """
        return widened(self, hidden, seed)

    # Runs

    def fit(self, **overrides: Any) -> Run:
        """Minimizes U with every walker; the walkers stay where they arrive.

        Args:
            **overrides: Options for this call, such as `optimizer`, `learning_rate`, `num_steps`,
                `batch_size` or `output`. A Keras object as `optimizer` uses its own learning rate.
                `stages` changes learning rate and batch size during the fit. `observables` and
                `callbacks` work as in `sample`.

        Returns:
            The run, whose tables are pandas DataFrames.

        Raises:
            InputError: An option is invalid. Nothing has been computed yet.
            SamplingError: The fit diverged. Everything before that is on disk.
        """
        refuse_if(
            overrides.get("workers"),
            "workers: a fit uses a single process.",
            overrides.get("workers"),
            "none",
        )
        return self._launched("fit", overrides)

    def sample(self, **overrides: Any) -> Run:
        """Samples exp(-U/T); the walkers stay where they arrive.

        Each further call of `fit` or `sample` uses new noise and new mini-batches. `call=2` repeats
        the random numbers of the second call.

        Args:
            **overrides: Options for this call. Four of them can be Python objects. `sampler`: an
                object that follows `tati_re.samplers.Sampler`. `observables={"name": function}`:
                functions of the positions `(walkers, parameters)` that return `(walkers,)`; each
                adds a column to run.csv. `callbacks=[function(folder, step)]`: called at each
                flush. `starts`: the starting point of each replica, `(rungs, walkers, parameters)`,
                or `(rungs, parameters)` for one walker. Default of `starts`: the positions of the
                walkers. `layers="last"`: only the last layer moves in this call; the layers before
                it keep the weights that they have here.

        Returns:
            The run, whose tables are pandas DataFrames.

        Raises:
            InputError: An option is invalid. Nothing has been computed yet.
            SamplingError: The run diverged. Everything before that is on disk.

        Warns:
            CertificateWarning: The run failed checks of its certificate.
        """
        layers = overrides.pop("layers", None) or self.options.layers
        if layers != self.options.layers:
            return sample_last_layer(self, layers, overrides)
        run = self._launched("sample", overrides)
        warn_of_failed_checks(run, ended=True)
        return run

    def _launched(self, kind: str, overrides: dict[str, Any]) -> Run:
        forks.refuse()
        with alone(self), opening():
            limits = replace(self.limits, began=time.monotonic())
            placed = self.walkers.placed
            options, objects = self._for_call(overrides, kind)
            given = options
            before = replace(self.walkers, position=self.walkers.position.copy())
            if kind == "sample":
                options = with_goal(options, objects, self.system, placed)
            header_text = self._introduce(options, objects)
            if kind == "fit":
                options = make_options(options, num_steps=check_num_steps(options))
            else:
                options, limits = prepared(self, options, objects, limits)
            request = make_request(kind, options, objects, self.system, limits)
            if kind == "sample" and options.certify == "teacher":
                comparison = EquilibriumStarts(self, before, given, options, objects)
                request = replace(request, at_end=comparison.compared)
            say_unused(request, overrides, fitted=options.walker_start == "fit" and not placed)
            run = launch_finite(request, self.walkers, self.calls)
            self._header = header_text
            self._forget()
            return run

    def _introduce(self, options: Options, objects: dict[str, Any]) -> str:
        """Announces version, data and model, unless they stand on the screen already.

        Returns:
            The text that then stands there.
        """
        lines = "\n".join(header(self.system, options, objects))
        if options.verbose <= 0 or lines == self._header:
            return self._header
        announce(options.verbose, lines)
        return lines

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
        remaining = {name: value for name, value in self.objects.items() if name not in overrides}
        return self.calls.numbered(
            kind, make_options(self.options, **overrides), overrides
        ), remaining | objects | extra

    # Options

    def set_options(self, **options: Any) -> None:
        """Changes options that do not shape the system, such as step size, sampler, batch size or
        prior.

        Args:
            **options: New values by name.

        Raises:
            InputError: An option is unknown, has an invalid value, or shapes the data or the model.
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
        """Returns all options, or the value of one.

        Args:
            name: The name of an option, here or in TATi. Default: None, all options.

        Returns:
            A dict of all options, or one value.

        Raises:
            InputError: There is no such option.
        """
        if name is None:
            return self.options
        names = [new for new in aliases.current_names(name) if new in OPTIONS]
        if not names:
            describe(name)
            raise InputError(f"{name} has no value here.", expected=aliases.ALIASES[name].instead)
        return getattr(self.options, names[0])

    @staticmethod
    def get_losses() -> list[str]:
        """Returns the names of losses: likelihoods first, then other losses, then those of TATi.

        Any other Keras loss can be used too.
        """
        return list(dict.fromkeys([*LOSSES, *aliases.LOSSES.values(), *aliases.LOSSES]))

    @staticmethod
    def get_activations() -> list[str]:
        """Returns the names of the available activations: all activations of Keras."""
        return list(activation_names())

    @staticmethod
    def help(name: str | None = None) -> None:
        """Prints one line for every option, or everything about one, as `tati_re.help` does.

        Args:
            name: The name of an option. Default: None, all options.
        """
        print(describe(name))


def changed(
    options: Options, objects: dict[str, Any], overrides: dict[str, Any]
) -> tuple[Options, dict[str, Any]]:
    """Options and objects of a Simulation after changes.

    Args:
        options: The options before.
        objects: Options that are Python objects, by name, before.
        overrides: The new values, options and objects, by name. Names of TATi are allowed.

    Returns:
        The changed options, and the changed objects by name.

    Raises:
        InputError: A name is unknown, or a value is wrong.
    """
    overrides = _own_names(overrides)
    remaining = {name: value for name, value in objects.items() if name not in overrides}
    new_objects = _pop_objects(overrides)
    return make_options(options, **overrides), remaining | new_objects


def _own_names(values: dict[str, Any]) -> dict[str, Any]:
    """`data` for TATi's `dataset`, whose list of two arrays is a pair; names that a call has in
    TATi alone refused.
    """
    if "walker_index" in values:
        problem = "walker_index: a run moves all walkers."
        raise InputError(
            problem, values["walker_index"], "run.run_info, whose column walker tells them apart"
        )
    return {"data" if name == "dataset" else name: value for name, value in values.items()}


def _pop_objects(values: dict[str, Any]) -> dict[str, Any]:
    """Takes out what is an object rather than a name, a path or a list of paths: a Keras model,
    arrays, a sampler.
    """
    flat = flattened(values)
    values.clear()
    values.update(flat)
    names = {name for name in OBJECTS if name in values and not is_named(values[name])}
    for name in names & {"data", "test_data"}:
        if isinstance(values[name], list) and len(values[name]) == 2:
            values[name] = tuple(values[name])
    return {name: values.pop(name) for name in OBJECTS if name in names}
