"""Description of a run, in sentences."""

from itertools import takewhile

import pandas as pd

from tati_re.runs.manifest import Manifest
from tati_re.runs.manifest_entries import MethodEntry, StageEntry, WorkersEntry
from tati_re.summary.step_sizes import step_size_text

_LADDERS = ("num_replicas", "simulated_tempering")
"""The first entry of a method's configuration that is about a ladder; those before are the
sampler's.
"""

_ORDERS = {
    "epochs": " in epochs",
    "symmetric": " in symmetric sweeps",
    "replacement": " drawn with replacement",
}


def sampling_sentences(
    manifest: Manifest, rows: pd.DataFrame, burnin: int | None = None
) -> list[str]:
    """Sentences on the system, the method and the length of a run.

    Args:
        manifest: The manifest of the run.
        rows: Rows of `run.csv`.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
    """
    options = manifest.options
    parameters = manifest.parameters
    data = manifest.dataset
    sentences = []
    if manifest.meaning:
        sentences.append(f"{manifest.meaning}.")
    if number := parameters.num:
        tensors = ", ".join(
            f"{name} {'×'.join(map(str, shape))}"
            for name, shape in list(zip(parameters.names, parameters.shapes, strict=True))[:8]
        )
        more = ", ..." if len(parameters.names) > 8 else ""
        sentences.append(f"The system has {number:,} parameters: {tensors}{more}.")
    if data.table and not data.potential:
        stages = options.stages if manifest.is_fit else ()
        sizes = [stage.batch_size or options.batch_size for stage in stages or [StageEntry()]]
        count = data.num_examples or 0
        sizes = [count if size in (None, "all") else size for size in sizes]
        order = options.batch_sampling or ""
        drawn = f"in mini-batches of {', then '.join(f'{size:,}' for size in sizes)}{_ORDERS.get(order, '')}"
        uses_all_data = set(sizes) == {count} and order != "replacement"
        drawn = "all at every step" if uses_all_data else drawn
        sentences.append(f"The data are {data.name}, {count:,} examples, {drawn}.")
    sentences.append(_method(manifest, rows, burnin))
    walkers = options.num_walkers
    steps = "steps" if options.num_steps is None else f"{options.num_steps:,} steps"
    burnin = options.num_burnin_steps if burnin is None else burnin
    seed = options.seed if manifest.seed is None else manifest.seed
    sentences.append(
        f"{walkers} walker{'s' if walkers != 1 else ''} for {steps}"
        + (f", the first {burnin:,} left out as burn-in" if burnin else "")
        + f"; seed {seed}"
        + (f", call {manifest.call}." if manifest.call > 1 else ".")
    )
    if manifest.workers is not None:
        sentences.append(_where(manifest.workers))
    return sentences


def _where(workers: WorkersEntry) -> str:
    """Who made the steps: the workers of a run, their blocks and machines."""

    def counted(number: int, noun: str) -> str:
        return f"{number} {noun}{'s' if number != 1 else ''}"

    machines = [
        f"{counted(number, 'worker')} on {name}"
        for name, number in (workers.machines or {}).items()
    ]
    held = f"{counted(workers.blocks, 'block')} of {counted(workers.block_size, 'walker')}"
    made = f"{counted(workers.number, 'worker')}, with {counted(workers.threads, 'thread')} each"
    worker = workers.worker
    device = f", on {worker.device}s" if worker is not None and worker.device else ""
    differ = f". They differ in {', '.join(workers.differ)}" if workers.differ else ""
    return (
        f"Its {held} were advanced by "
        f"{made}{device}{': ' if machines else ''}{', '.join(machines)}{differ}."
    )


def name_of_method(manifest: Manifest) -> str:
    """The sampler or optimizer that ran; a sampler object has a name that no option knows."""
    method = manifest.method
    options = manifest.options
    if manifest.is_fit:
        return method.optimizer or options.optimizer or "not named"
    return method.sampler or options.sampler or "not named"


def _settings(manifest: Manifest) -> str:
    """The parameters that a sampler has, and no others: `friction 1, thermal mass 40`."""
    parts = []
    for name, value in takewhile(
        lambda item: item[0] not in _LADDERS, manifest.method.table.items()
    ):
        unused = name == "sampler" or value is False or isinstance(value, list | dict)
        if unused or (name == "walls" and not manifest.prior_walled):
            continue
        text = name.removeprefix("num_").replace("_", " ")
        if value is not True:
            text += f" {value:g}" if isinstance(value, float) else f" {value}"
        parts.append(text)
    return ", ".join(parts)


def _method(manifest: Manifest, rows: pd.DataFrame, burnin: int | None) -> str:
    options = manifest.options
    size = step_size_text(manifest, rows, burnin)
    if manifest.is_fit:
        return f"It was fitted by {name_of_method(manifest)}{size and f' with learning rate {size}'}, not sampled."
    temperature = 1.0 if manifest.temperature is None else manifest.temperature
    parts = [f"step size {size}" if size else "", _settings(manifest)]
    text = f"The sampler is {name_of_method(manifest)}"
    text += f" with {'; '.join(filter(None, parts))}" if any(parts) else ""
    text += f"; the target is exp(-U/T) at T = {temperature:g}"
    if options.potential != "mean_loss" and temperature == 1:
        text += ", the Bayesian posterior"
    method = manifest.method
    if method.num_replicas > 1:
        text += f". It is the lowest rung of a ladder of {_ladder(method)}"
        if method.exchange != "none":
            rule = method.swap_rule or "infinite swapping"
            text += f", between which replicas are exchanged ({rule})"
    elif method.simulated_tempering is not None:
        count = len(method.simulated_tempering)
        text += f". It moves along a ladder of {count} rungs by simulated tempering"
    if options.bias not in (None, "none"):
        text += f". A {options.bias.replace('_', '-')} bias acts on the energies; rows have weights"
    return text + "."


def _ladder(method: MethodEntry) -> str:
    temperatures = method.temperatures
    weights = method.likelihood_weights
    name, ends = (
        ("likelihood weights", weights) if len(set(weights)) > 1 else ("temperatures", temperatures)
    )
    start = " at the start" if method.adapt_ladder else ""
    return f"{method.num_replicas} rungs at {name} {ends[0]:g} to {ends[-1]:g}{start}"
