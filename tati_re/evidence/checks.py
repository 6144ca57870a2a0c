"""Checks that a simulation has an evidence."""

from tati_re.core.errors import InputError
from tati_re.models.inspect import output_shape_of
from tati_re.options.make import Options

_LADDER = ("num_replicas", "temperature_ratio", "max_temperature", "temperatures", "step_sizes", "tempering", "bias")


def check(sim, options: Options, potential) -> None:
    loss, prior = potential.loss, potential.prior
    if options.potential == "mean_loss":
        raise InputError("potential: the mean loss is not a log likelihood.", options.potential, "potential posterior")
    if not loss.likelihood:
        advice = (
            "loss gaussian with noise_std" if "error" in loss.name else "a cross-entropy, or gaussian with noise_std"
        )
        raise InputError(f"loss: {loss.name} is not a likelihood with its constant.", loss.name, advice)
    if sim.system.has_data and len(output_shape_of(sim.system.model)) > 2:
        raise InputError("model: the loss is a mean over outputs of several axes.", expected="outputs in one axis")
    if sim.dataset.weights is not None:
        raise InputError(
            "sample_weights: a loss with weights is not a log likelihood.", "weights of examples or classes", "none"
        )
    if not prior.proper:
        raise InputError("prior: the evidence needs a proper prior.", f"{prior}", "gaussian, laplace, student_t or box")
    if sim.system.flat.regularizer is not None:
        raise InputError(
            "model: its weight regularizers are priors without a normalization.", expected="prior and prior_std instead"
        )
    if options.batch_norm == "batch":
        raise InputError("batch_norm: its statistics would change from step to step.", "batch", "batch_norm frozen")
    if options.batch_size not in (None, sim.dataset.num_examples):
        raise InputError("batch_size: the evidence needs energies of all data.", options.batch_size, "no batch_size")
    if options.kT != 1.0:
        raise InputError("temperature: the evidence is that of the posterior.", options.kT, "no temperature, or 1")
    if given := [name for name in _LADDER if name in options.explicit]:
        raise InputError(
            f"{given[0]}: the points of the path are those of evidence_grid.",
            expected="evidence_nodes, evidence_sampling",
        )
