"""A Simulation in notebooks."""

from collections.abc import Mapping
from typing import Any

from tati_re.core.views import html_table
from tati_re.options.make import Options
from tati_re.system.system import System


def simulation_html(system: System, options: Options, objects: Mapping[str, Any]) -> str:
    """A table in HTML of the parts of a Simulation, without evaluating anything.

    Args:
        system: Its model and data, or its potential.
        options: Its options.
        objects: Options that are Python objects, by name.
    """
    flat = system.flat
    dataset = system.dataset
    shapes = zip(flat.tensor_names, flat.shapes, strict=True)
    tensors = [f"{name} {'×'.join(map(str, shape)) or '1'}" for name, shape in shapes]
    listed = tensors if len(tensors) <= 8 else [*tensors[:4], "...", *tensors[-3:]]
    batch = (
        "all examples" if options.batch_size is None else f"mini-batches of {options.batch_size}"
    )
    sampler = "an object" if "sampler" in objects else options.sampler
    lines = [
        ("parameters", f"{flat.num_parameters:,}: {', '.join(listed)}"),
        ("walkers", str(options.num_walkers)),
        ("data", f"{dataset.name}, {dataset.num_examples:,} examples ({dataset.task}), {batch}")
        if system.has_data
        else ("target", dataset.name),
        (
            "potential",
            f"{options.potential}, temperature {options.kT:g}" if system.has_data else "",
        ),
        ("sampler", f"{sampler}, step_size {options.step_size}"),
    ]
    return html_table("Simulation", lines)
