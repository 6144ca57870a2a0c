"""What a run says at its start: a list of rules, each of which looks at the run and may say
something.

A new message is one function and one entry in `RULES`.
"""

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import abbreviated
from tati_re.core.facets import temperatures_of
from tati_re.data.categories import categories_note
from tati_re.data.dataset import Dataset, class_weights_note, weights_by_class
from tati_re.data.generators import GENERATORS
from tati_re.data.labels import are_integers, doubts
from tati_re.exchange.choosing import ladder_sentences
from tati_re.launch.description import unused
from tati_re.launch.loops import RunLoops
from tati_re.launch.request import Request, is_cheap
from tati_re.launch.starts import TOGETHER
from tati_re.likelihoods.gaussian import GaussianNoise
from tati_re.likelihoods.rounding import rounding_of, spike_of
from tati_re.options.make import Options
from tati_re.options.tati_names import sentences as tati_sentences
from tati_re.posterior.priors.choosing import too_hot, unused_prior_options
from tati_re.runs import files, manifest
from tati_re.samplers.schedules import temperature_factor
from tati_re.system import batch_norm
from tati_re.system.system import System


@dataclass(frozen=True)
class StartFacts:
    """What the rules look at.

    Attributes:
        run: The loops of the run before their first step.
        start: How the walkers start, in words; None for a run that goes on.
    """

    run: RunLoops
    start: str | None

    @property
    def request(self) -> Request:
        return self.run.request

    @property
    def options(self) -> Options:
        return self.run.request.options

    @property
    def system(self) -> System:
        return self.run.request.system

    @property
    def dataset(self) -> Dataset:
        return self.run.request.system.dataset

    @property
    def method(self) -> Any:
        return self.run.request.method

    @property
    def potential(self) -> Any:
        return self.run.potential

    @property
    def num_tests(self) -> int:
        """The number of examples in the test set."""
        return 0 if self.dataset.test_inputs is None else len(self.dataset.test_inputs)

    @property
    def loss_is_given(self) -> bool:
        """Whether the loss was chosen by the user."""
        return "loss" in {*self.request.objects, *self.options.explicit}


Rule = Callable[[StartFacts], Iterable[str]]


def start_messages(run: RunLoops, start: str | None, details: bool = True) -> Iterator[str]:
    """The messages of all rules, in their order.

    Args:
        run: The loops of the run before their first step.
        start: How the walkers start, in words; None for a run that continues.
        details: Whether the rules in `DETAILS` are among them. Default: yes.

    Yields:
        Sentences about method, data, U, ladder, and options that are not used.
    """
    facts = StartFacts(run, start)
    for rule in RULES:
        if details or rule not in DETAILS:
            yield from rule(facts)


def of_method(facts: StartFacts) -> Iterator[str]:
    """What is sampled, and by which method."""
    flat = facts.system.flat
    fixed = f" ({flat.num_fixed} more are fixed)" if flat.num_fixed else ""
    target = f"temperature {facts.options.kT:g}" if facts.request.samples else "to its minimum"
    yield (
        f"{facts.method.name} on {facts.dataset.name}: {flat.num_parameters} parameters{fixed}, "
        f"{facts.options.num_walkers} walker(s), {target}."
    )


def of_potential(facts: StartFacts) -> Iterator[str]:
    """The potential, and the worker processes that share it."""
    yield f"{facts.run.meaning}."
    if facts.run.workers is not None:
        yield f"{facts.run.workers}."


def of_test_part(facts: StartFacts) -> Iterator[str]:
    """A test set of another size than asked for, or none at all."""
    if not facts.system.has_data:
        return

    options = facts.options
    tests = facts.num_tests
    expected_rows = (options.test_fraction or 0.0) * (facts.dataset.num_examples + tests)
    expects_none = "test_fraction" in options.explicit or facts.dataset.name in GENERATORS

    if expected_rows and abs(tests - expected_rows) > 1:
        yield f"Not used by these data, which come with {tests or 'no'} test rows: test_fraction."
    elif not tests and not expects_none:
        yield (
            f"No test rows: the run trains on all {facts.dataset.num_examples:,} rows. Set test_fraction=0.2 to hold out "
            "a fifth of them for scores."
        )


def cautions_on_data(facts: StartFacts) -> Iterator[str]:
    """What the data may do to the run."""
    if facts.system.has_data:
        yield from facts.system.cautions


def of_compiled_loss(facts: StartFacts) -> Iterator[str]:
    """A compiled loss that the run does not use."""
    compiled = facts.system.compiled
    used = facts.potential.loss.name
    loss = facts.request.objects.get("loss", facts.options.loss)
    if compiled and loss is None and compiled != used:
        yield f"Using the loss {used}, not the model's compiled loss {compiled}. Set loss=model.loss to use that one."


def of_noise(facts: StartFacts) -> Iterator[str]:
    """Observation noise larger than the spread of the targets."""
    noise_std = facts.options.noise_std
    if isinstance(noise_std, str) or "noise_std" not in facts.options.explicit:
        return
    if not facts.system.has_data or facts.potential.loss.name != GaussianNoise.name:
        return

    spread = float(np.std(facts.system.examples.targets, axis=0).min())
    if 0 < spread < noise_std:
        yield f"noise_std {noise_std:g} exceeds the standard deviation of the targets, {spread:.3g}."


def unused_by_loss(facts: StartFacts) -> Iterator[str]:
    """Given options of other losses."""
    options = facts.options
    if not facts.system.has_data or options.tati:
        return

    used = facts.potential.loss.name
    objective = facts.potential.loss.objective
    idle = []
    if "noise_std" not in objective.settings:
        idle.append("noise_std")
    if "quantile_level" not in objective.settings:
        idle.append("quantile_level")
    if "degrees_of_freedom" not in objective.settings:
        idle.append("degrees_of_freedom")
    if not {"rounding", "least_std"} & {*objective.settings}:
        idle.append("rounding")
    if not objective.takes_logits and options.from_logits != "auto":
        idle.append("from_logits")

    if unused := [name for name in idle if name in options.explicit]:
        yield f"Not used by the loss {used}: {', '.join(unused)}."


def of_spikes(facts: StartFacts) -> Iterator[str]:
    """Targets of which many have one value, where the network predicts a spread."""
    if not facts.system.has_data:
        return
    objective = facts.potential.loss.objective
    if not {"rounding", "least_std"} & {*objective.settings}:
        return
    for values in _targets_in_columns(facts, objective).T:
        if (spike := spike_of(values)) is not None:
            value, share = spike
            yield (
                f"{100 * share:.0f} % of the targets are {value:g}, which no density describes: judge predictions "
                "by CRPS and coverage, not by NLL."
            )


def _targets_in_columns(facts: StartFacts, objective: Any) -> np.ndarray:
    """The targets in the units of the data, without columns that say what is censored, `(n, k)`."""
    targets = np.asarray(facts.dataset.targets, np.float64)
    columns = targets.shape[-1] if targets.ndim > 1 else 1
    return targets.reshape(-1, columns)[:, : columns // objective.target_columns]


def of_rounding(facts: StartFacts) -> Iterator[str]:
    """Targets that are rounded, whose rounding is a part of the predicted spread."""
    if not facts.system.has_data:
        return
    objective = facts.potential.loss.objective
    if not objective.includes_rounding:
        return
    values = _targets_in_columns(facts, objective)
    units = ", ".join(f"{unit:.4g}" for unit in rounding_of(values) if unit > 0)
    yield (
        f"The targets are rounded to {units}: the predicted spread includes the rounding "
        "(rounding none leaves it out)."
    )


def notices_of_potential(facts: StartFacts) -> Iterator[str]:
    """What the potential says about itself."""
    yield from facts.potential.notices()


def of_class_weights(facts: StartFacts) -> Iterator[str]:
    """Weights of classes, under which probabilities are those of the weighted classes."""
    if facts.system.has_data and (weights := weights_by_class(facts.dataset)):
        yield class_weights_note(weights)


def of_label_columns(facts: StartFacts) -> Iterator[str]:
    """The columns that were taken as labels, if their names do not say so."""
    names = facts.dataset.label_names
    options = facts.options
    if options.data is not None and names not in ((), ("label",)) and not options.label_columns:
        columns = "column" if len(names) == 1 else "columns"
        yield f"The labels are in the {columns} {', '.join(names)} (label_columns)."


def of_input_categories(facts: StartFacts) -> Iterator[str]:
    """The columns of text among the inputs, and how many categories each has."""
    known = facts.dataset.input_categories if facts.system.has_data else ()
    if known:
        yield categories_note(known)


def of_classes(facts: StartFacts) -> Iterator[str]:
    """What the labels were taken for: classes with names, or doubts about numbers."""
    names = facts.dataset.class_names
    if are_integers(names):
        yield (
            f"The labels {abbreviated(', '.join(map(str, names)), 77, str)} are {len(names)} classes, in "
            "this order. Set num_classes=0 for a regression."
        )
    elif names:
        listed = abbreviated(", ".join(map(str, names)), 77, str)
        yield f"The labels {listed} are the classes 0 to {len(names) - 1}, in this order."
    elif facts.system.has_data and facts.options.num_classes is None:
        yield from _doubts_about_labels(facts)


def _doubts_about_labels(facts: StartFacts) -> Iterator[str]:
    dataset = facts.dataset
    built = "model" not in {*facts.request.objects, *facts.options.explicit}
    yield from doubts(dataset.targets, dataset.test_targets, dataset.num_classes, built)

    at_places = dataset.targets.ndim > 2 and facts.potential.loss.name == "gaussian"
    if not at_places or facts.loss_is_given:
        return
    if ((dataset.targets == 0) | (dataset.targets == 1)).all():
        yield (
            "Labels 0 and 1 in several columns are treated as regression targets. Set loss='binary_crossentropy' "
            "for labels, or 'categorical_crossentropy' for one-hot classes."
        )


def of_tensorboard(facts: StartFacts) -> Iterator[str]:
    """The package that shows TensorBoard's files is missing."""
    writes_events = facts.options.tensorboard is not None
    if writes_events and importlib.util.find_spec("tensorboard") is None:
        yield "TensorBoard files will be written. To view them: pip install 'tati_re[tensorboard]'."


def of_options_of_tati(facts: StartFacts) -> Iterator[str]:
    """What options of TATi mean here."""
    yield from tati_sentences(facts.options, "prior" in facts.request.objects)


def _start(facts: StartFacts) -> str:
    """The sentence on the start; empty if the call gave the starts."""
    if facts.start is None or "starts" in facts.request.objects:
        return ""
    return facts.start


def of_start(facts: StartFacts) -> Iterator[str]:
    """Where the walkers start, if they are apart."""
    start = _start(facts)
    if start and TOGETHER not in start:
        yield start


def of_common_start(facts: StartFacts) -> Iterator[str]:
    """Walkers that start at the same place."""
    start = _start(facts)
    if TOGETHER in start:
        yield start


def of_records(facts: StartFacts) -> Iterator[str]:
    """Rows or positions that will never be recorded."""
    request = facts.request
    num_steps = facts.options.num_steps
    if request.record_every > num_steps:
        yield f"record_every {request.record_every} exceeds num_steps {num_steps}: no row will be recorded."

    is_explicit = "trajectory_every" in facts.options.explicit
    if is_explicit and request.trajectory_every > num_steps:
        yield f"trajectory_every {request.trajectory_every} exceeds num_steps: no position will be stored."


def of_call(facts: StartFacts) -> Iterator[str]:
    """The random numbers of a call other than the first."""
    options = facts.options
    if options.call not in (None, 1):
        yield f"Using the random numbers of call {options.call} of seed {options.seed}."


def of_repeated_noise(facts: StartFacts) -> Iterator[str]:
    """A run that starts where another one ended, with the same random numbers."""
    options = facts.options
    folder = Path(options.parameters or "").expanduser()
    begins_there = facts.start is not None and options.parameters and facts.request.samples
    if not begins_there or not (folder / files.MANIFEST).is_file():
        return

    call = options.call or 1
    known = manifest.read(folder)
    repeated = known.seed == options.seed and known.call == call
    if not known.is_fit and repeated:
        yield f"This run repeats the random numbers of {folder}. Set call={call + 1} or another seed for new ones."


def of_full_batch(facts: StartFacts) -> Iterator[str]:
    """Steps on all examples where mini-batches would cost less."""
    if not facts.system.has_data or facts.options.batch_size is not None:
        return
    if not (facts.method.full_batch or is_cheap(facts.system)):
        count = facts.dataset.num_examples
        yield f"Each step uses all {count:,} rows; mini-batches would cost less (batch_size=128)."


def of_stages(facts: StartFacts) -> Iterator[str]:
    """The stages of a fit, if there are several."""
    run = facts.run
    if len(run.stages) <= 1:
        return

    for number, (stage, loop) in enumerate(zip(run.stages, run.loops, strict=True), 1):
        full = loop.potential.batches.full
        batch = "all examples" if full else f"mini-batches of {stage.batch_size}"
        rate = f"learning rate {run.rate(stage):g}"
        yield f"Stage {number}: steps {stage.first_step + 1} to {stage.last_step}, {rate}, {batch}."


def of_replacement(facts: StartFacts) -> Iterator[str]:
    """Mini-batches with replacement, which a method chose."""
    chosen = "batch_sampling" not in facts.options.explicit
    if facts.method.subtracts_noise and not facts.request.full_batch and chosen:
        yield (
            f"Mini-batches are drawn with replacement: {facts.method.name} corrects for noise that is independent "
            "between steps."
        )


def of_ladder(facts: StartFacts) -> Iterator[str]:
    """The ladder of temperatures."""
    yield from ladder_sentences(facts.method, facts.potential)


def of_hot_prior(facts: StartFacts) -> Iterator[str]:
    """A prior that cannot be normalized at the highest temperature."""
    if not facts.request.samples:
        return

    rungs = temperatures_of(facts.method).rungs
    betas = [facts.options.beta] if rungs is None else rungs[0]
    if sentence := too_hot(facts.potential.prior, 1 / float(np.min(betas))):
        yield sentence


def unused_by_prior(facts: StartFacts) -> Iterator[str]:
    """Given options of other priors."""
    if "prior" not in facts.request.objects and (names := unused_prior_options(facts.options)):
        yield f"Not used by this prior: {', '.join(names)}."


def of_swap_bias(facts: StartFacts) -> Iterator[str]:
    """A swap rule that does not keep the distribution."""
    if sentence := temperatures_of(facts.method).swap_bias:
        yield sentence


def of_bias_energies(facts: StartFacts) -> Iterator[str]:
    """The energies at which a bias on U is evaluated."""
    ladder = temperatures_of(facts.method)
    if ladder.exact_energies:
        yield (
            f"bias_energies full: each step also evaluates the loss of all {facts.potential.num_examples:,} rows."
        )
    elif ladder.bias is not None and not facts.potential.batches.full:
        yield (
            "bias_energies batch: the bias acts on noisy mini-batch energies, so the run "
            "samples a distribution close to the requested one."
        )


def of_mixed_temperatures(facts: StartFacts) -> Iterator[str]:
    """A schedule of temperatures that goes on after the burn-in, or that draws nothing at all."""
    options = facts.options
    if not facts.request.samples:
        return

    first = facts.run.loops[-1].timeline.num_burnin_steps + 1
    factor = temperature_factor(options, facts.request.objects.get("temperature_schedule"))
    if factor is None or first > options.num_steps:
        return

    steps = np.unique(np.linspace(first, options.num_steps, 10_000).astype(int))
    temperatures = options.kT * factor(steps)
    drawn = temperatures[temperatures > 0]
    if not len(drawn):
        yield (
            "All steps after the burn-in explore at temperature 0, so there are no draws "
            "(cycle_steps, num_steps)."
        )
    elif np.ptp(drawn) > 1e-9 * drawn[-1]:
        yield (
            f"temperature_schedule continues after the burn-in, from {drawn[0]:g} to {drawn[-1]:g}. Averages and "
            "predictions mix these temperatures; increase num_burnin_steps to exclude them."
        )


def of_refresh(facts: StartFacts) -> Iterator[str]:
    """How often an ensemble's metric is measured again."""
    if note := facts.method.dynamics.note:
        yield note


def unused_by_method(facts: StartFacts) -> Iterator[str]:
    """Given options of other methods."""
    if facts.request.samples and (names := unused(facts.request)):
        yield f"Not used by {facts.method.name} with these settings: {', '.join(names)}."


def of_batch_norm(facts: StartFacts) -> Iterator[str]:
    """What batch normalization does to the posterior."""
    if not facts.request.samples:
        return
    if sentence := batch_norm.sentence(facts.options, facts.system.flat):
        yield sentence


RULES: tuple[Rule, ...] = (
    of_method,
    of_potential,
    of_test_part,
    cautions_on_data,
    of_compiled_loss,
    of_noise,
    of_spikes,
    of_rounding,
    unused_by_loss,
    notices_of_potential,
    of_class_weights,
    of_label_columns,
    of_input_categories,
    of_classes,
    of_tensorboard,
    of_options_of_tati,
    of_start,
    of_common_start,
    of_records,
    of_call,
    of_repeated_noise,
    of_full_batch,
    of_stages,
    of_replacement,
    of_ladder,
    of_hot_prior,
    unused_by_prior,
    of_swap_bias,
    of_bias_energies,
    of_mixed_temperatures,
    of_refresh,
    unused_by_method,
    of_batch_norm,
)
"""The rules, in the order of their messages on the screen."""

DETAILS: frozenset[Rule] = frozenset(
    {
        of_method,
        of_potential,
        of_label_columns,
        of_start,
        of_call,
        of_stages,
        of_replacement,
        of_refresh,
    }
)
"""Rules whose messages are shown with `verbose=2` only."""
