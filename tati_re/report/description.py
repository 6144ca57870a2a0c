"""Description of a run, in sentences."""

from itertools import takewhile

import numpy as np
import pandas as pd

from tati_re.runs.manifest import Manifest
from tati_re.runs.manifest_entries import MethodEntry, StageEntry, WorkersEntry
from tati_re.runs.selection import at_target

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
    """Sentences on the system, the method and the length of a run, from its manifest and the rows
    of run.csv.
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
        whole = set(sizes) == {count} and order != "replacement"
        drawn = "all at every step" if whole else drawn
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
    one = workers.worker
    device = f", on {one.device}s" if one is not None and one.device else ""
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


def step_size_text(manifest: Manifest, rows: pd.DataFrame, burnin: int | None = None) -> str:
    """The step sizes, of a fit the rates, at the target as run.csv has them: `0.0186, tuned from
    0.001`; or empty.
    """
    options = manifest.options
    tuned = {"target_acceptance", "target_bias"} & {*manifest.method.table}
    learnt = options.num_burnin_steps or 0 if tuned else 0
    rows = rows.dropna(subset="step_size") if "step_size" in rows else rows[:0]
    target = at_target(rows)
    sampled = target[target["step"] > max(learnt, burnin or 0)]
    last = target[target["step"] == target["step"].max()] if tuned else target
    text = _range_over_steps(last if sampled.empty else sampled)
    if not tuned or not text:
        return text
    first = 1.0 if options.step_size is None else options.step_size
    origin = "" if isinstance(first, str) else f" from {first:g}"
    return f"{text}, still being tuned" if sampled.empty else f"{text}, tuned{origin}"


def _range_over_steps(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    each = rows.groupby("step")["step_size"].agg(["min", "max"])
    low = each["min"].to_numpy()
    high = each["max"].to_numpy()
    both = f"{low.min():.4g} to {high.max():.4g}"
    if np.ptp(low) + np.ptp(high) <= 1e-9 * high.max():
        return f"{low[0]:.4g}" if high[0] - low[0] <= 1e-9 * high[0] else f"{both} over the walkers"
    if (low == high).all() and ((np.diff(low) <= 0).all() or (np.diff(low) >= 0).all()):
        return f"{low[0]:.4g} at step {each.index[0]:,} to {low[-1]:.4g} at step {each.index[-1]:,}"
    return f"{both}, not the same at every step"


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
