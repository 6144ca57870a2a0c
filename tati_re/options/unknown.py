"""What is said of a name that is no option: what other libraries' words are called here, else the nearest name."""

from tati_re.core.errors import InputError, nearest
from tati_re.options.table import OPTIONS

ELSEWHERE = {
    "epochs": "num_steps counts steps; an epoch is N / batch_size of them.",
    "lr": "It is learning_rate of an optimizer, step_size of a sampler.",
    "batch": "It is batch_size.",
    "chains": "It is num_walkers.",
    "num_chains": "It is num_walkers.",
    "n_chains": "It is num_walkers.",
    "draws": "num_steps counts all steps, trajectory_every says which of them are kept.",
    "num_samples": "num_steps counts all steps, trajectory_every says which of them are kept.",
    "tune": "It is num_burnin_steps.",
    "warmup": "It is num_burnin_steps.",
    "num_warmup": "It is num_burnin_steps.",
    "thin": "record_every thins the rows, trajectory_every the positions.",
    "validation_split": "It is test_fraction.",
    "random_seed": "It is seed.",
    "target_accept": "It is target_acceptance.",
    "weight_decay": "It is the prior: prior_std = sqrt(1 / weight_decay) for a loss that is summed.",
}
"""Words of Keras, PyMC, NumPyro, Stan and others, and what they are here."""


def unknown(name: str, spelled: str | None = None) -> InputError:
    """The error for a name that is no option, written as it was typed."""
    said = f" {ELSEWHERE[name]}" if name in ELSEWHERE else nearest(name, OPTIONS)
    return InputError(f"{spelled or name} is not a known option.{said}")
