"""The scales and the test part of data where options leave them open, and what a run says of them at its start."""

import os

from tati_re.data import Dataset
from tati_re.data.generators import GENERATORS
from tati_re.data.preparation import automatic, standardized
from tati_re.options.make import Options
from tati_re.posterior.noise_level import SAMPLED
from tati_re.posterior.predictive import HETEROSCEDASTIC
from tati_re.runs import manifest
from tati_re.runs.files import MANIFEST


def as_trained(read: Dataset, options: Options, noise_std: float | str, given: bool) -> tuple[Dataset, tuple[str, ...]]:
    """The data set as `standardize` "auto" has it, and what is said of it. Data of TATi and built-in ones keep their
    numbers, walkers that start where a run was the standardization of that run."""
    if options.standardize != "auto" or options.potential != "posterior" or options.tati or read.name in GENERATORS:
        return read, ()
    before = options.parameters or ""
    before = before if os.path.isdir(before) else os.path.dirname(before)
    if before and not given and os.path.isfile(os.path.join(before, MANIFEST)):
        mode = manifest.read(before)["options"].get("standardize", "none")
        return standardized(read, mode), () if mode == "none" else (f"standardize {mode}, as in the run {before}.",)
    units = [name for name in sorted(options.explicit) if name in ("noise_std", "noise_prior_scale")]
    free = options.loss == HETEROSCEDASTIC or (noise_std == SAMPLED and options.noise_prior_scale is None)
    mode, said = automatic(read, given, "" if free else [*units, "the loss"][0])
    return standardized(read, mode), (said,) if said else ()


def without_test_part(read: Dataset, options: Options) -> tuple[str, ...]:
    """A sentence where predictions will have nothing to be compared with and nobody asked for that."""
    if read.test_inputs is not None or "test_fraction" in options.explicit or read.name in GENERATORS:
        return ()
    return (
        f"No test part: all {read.num_examples} examples are trained on. test_fraction=0.2 keeps a fifth of them apart "
        "for scores of predictions.",
    )
