"""Description of a run, in sentences."""

from __future__ import annotations

from typing import Any


def what_was_sampled(manifest: dict[str, Any], burnin: int | None = None) -> list[str]:
    """Sentences on the system, the method and the length of a run, from its manifest."""
    options, parameters = manifest.get("options", {}), manifest.get("parameters", {})
    data = manifest.get("dataset", {})
    sentences = []
    if meaning := manifest.get("meaning"):
        sentences.append(f"{meaning}.")
    if number := parameters.get("num"):
        tensors = ", ".join(
            f"{name} {'×'.join(map(str, shape))}"
            for name, shape in list(zip(parameters.get("names", []), parameters.get("shapes", []), strict=False))[:8]
        )
        more = ", ..." if len(parameters.get("names", [])) > 8 else ""
        sentences.append(f"The system has {number:,} parameters: {tensors}{more}.")
    if data:
        batch = options.get("batch_size")
        drawn = f"in mini-batches of {batch:,}" if batch and batch != data.get("num_examples") else "all at every step"
        sentences.append(
            f"The data are {data.get('name', 'given')}, {data.get('num_examples', 0):,} examples, {drawn}."
        )
    sentences.append(_method(manifest, options))
    walkers = options.get("num_walkers", 1)
    steps = f"{options['num_steps']:,} steps" if "num_steps" in options else "steps"
    burnin = options.get("num_burnin_steps") if burnin is None else burnin
    sentences.append(
        f"{walkers} walker{'s' if walkers != 1 else ''} for {steps}"
        + (f", the first {burnin:,} left out as burn-in" if burnin else "")
        + f"; seed {manifest.get('seed', options.get('seed', 0))}."
    )
    return sentences


def _method(manifest: dict[str, Any], options: dict[str, Any]) -> str:
    if manifest.get("kind") == "fit":
        return f"It was fitted by {options.get('optimizer', 'an optimizer')}, not sampled."
    temperature = manifest.get("temperature", 1.0)
    text = f"The sampler is {options.get('sampler', 'not named')}"
    if "step_size" in options:
        text += f" with step size {options['step_size']:g}"
    if options.get("friction") is not None:
        text += f" and friction {options['friction']:g}"
    text += f"; the target is exp(-U/T) at T = {temperature:g}"
    if manifest.get("potential", options.get("potential")) != "mean_loss" and temperature == 1:
        text += ", the Bayesian posterior"
    method = manifest.get("method", {})
    if "num_replicas" in method:
        text += f". It stands at the foot of a ladder of {_ladder(method)}"
        if method.get("exchange") != "none":
            text += f", between which replicas are exchanged ({method.get('swap_rule', 'infinite swapping')})"
    elif "simulated_tempering" in method:
        text += f". It moves along a ladder of {len(method['simulated_tempering'])} rungs by simulated tempering"
    if options.get("bias") not in (None, "none"):
        text += f". A {options['bias'].replace('_', '-')} bias acts on the energies, and rows have weights"
    return text + "."


def _ladder(method: dict[str, Any]) -> str:
    temperatures, weights = method["temperatures"], method["likelihood_weights"]
    tempered = len(set(weights)) > 1
    name, ends = ("likelihood weights", weights) if tempered else ("temperatures", temperatures)
    start = " at the start" if method.get("adapt_ladder") else ""
    return f"{method['num_replicas']} rungs at {name} {ends[0]:g} to {ends[-1]:g}{start}"
