"""A likelihood of the registry as the loss that a potential sums over its examples."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.likelihoods.contract import CLASSES, Likelihood
from tati_re.likelihoods.registry import is_likelihood, likelihood_class, likelihoods
from tati_re.options.user_code import found, is_code
from tati_re.posterior.losses import Loss


class LikelihoodLoss(Loss):
    """Minus the log density of each example under a likelihood; see `tati_re.posterior.losses.Loss`.

    Args:
        likelihood: A likelihood that was fitted to the training targets.
    """

    def __init__(self, likelihood: Likelihood) -> None:
        super().__init__(likelihood.name, from_logits=False)
        self.target_law = likelihood
        self.likelihood = True
        self.words = likelihood.describe()
        self.has_accuracy = likelihood.kind == CLASSES

    def per_example(self, targets: tf.Tensor, outputs: tf.Tensor, log_noise=None) -> tf.Tensor:
        """Minus the log density of each example, shape (n,).

        Args:
            targets: Labels, shape (n, columns).
            outputs: Outputs of the network, shape (n, outputs).
            log_noise: Not used: a likelihood has no noise outside of its outputs.
        """
        return -self.target_law.log_prob(targets, outputs)

    def accuracy(self, targets: tf.Tensor, outputs: tf.Tensor, signs: bool) -> tf.Tensor:
        """1 where the most probable class is the label, shape (n,), float32."""
        del signs
        chosen = tf.argmax(self.target_law.class_log_probs(outputs), axis=-1, output_type=tf.int32)
        return tf.cast(tf.equal(chosen, tf.cast(targets[:, 0], tf.int32)), tf.float32)

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Class probabilities of the outputs; outputs of values are returned as they are."""
        if not self.has_accuracy:
            return outputs
        return np.exp(self.target_law.log_probabilities(outputs))

    def check(self, targets: tf.TensorSpec, outputs: tf.TensorSpec) -> None:
        """Traces the density once, so that a wrong one is refused before any work starts.

        Raises:
            InputError: A density that is not one number an example.
        """
        function = tf.function(self.per_example, autograph=False)
        shape = function.get_concrete_function(targets, outputs).output_shapes
        what = f"loss: log_prob of {self.name} must give one number an example."
        refuse_if(not shape.is_compatible_with(outputs.shape[:1]), what, shape, "(n,)")

    def check_outputs(self, outputs: tuple, columns: int) -> None:
        """Refuses a model whose outputs are not those that the likelihood needs.

        Args:
            outputs: Shape of the outputs of one example.
            columns: Columns of the labels.

        Raises:
            InputError: Another number of outputs.
        """
        needed = self.target_law.num_outputs(columns)
        if tuple(outputs) != (needed,):
            what = f"loss: {self.name} needs {needed} outputs for these labels."
            raise InputError(
                what, f"outputs of shape {tuple(outputs)}", f"a last layer of {needed} units"
            )

    def get_config(self) -> dict[str, Any]:
        return {
            "loss": self.name,
            "from_logits": self.from_logits,
            "noise_std": self.noise_std,
            "likelihood": self.target_law.get_config(),
        }


def likelihood_given(loss: Any, options: Any) -> Likelihood | None:
    """The likelihood that the option `loss` means, not fitted; None for other losses.

    Args:
        loss: A likelihood, its name, `my_file.py:MyLikelihood`, or another loss.
        options: Where settings are looked up whose names are options.

    Raises:
        InputError: A file or module that has no such class.
    """
    if isinstance(loss, Likelihood):
        return loss
    if isinstance(loss, type) and issubclass(loss, Likelihood):
        what = "loss is a class, not an object of it."
        raise InputError(what, loss.__name__, f"{loss.__name__}()")
    if is_likelihood(loss):
        return _with_options(likelihood_class(loss), options)
    if isinstance(loss, str) and is_code(loss):
        return _with_options(_of_users(loss), options)
    return None


def _of_users(name: str) -> type[Likelihood]:
    form = "my_module:MyLikelihood or my_file.py:MyLikelihood"

    def is_class(value: Any) -> bool:
        return inspect.isclass(value) and issubclass(value, Likelihood) and bool(value.name)

    made = found("loss", name, form, is_class, "a likelihood class")
    expected = (
        f"a class that derives from tati_re.likelihoods.Likelihood, or {', '.join(likelihoods())}"
    )
    refuse_if(not is_class(made), "loss: this is not a likelihood.", name, expected)
    return made


def _with_options(kind: type[Likelihood], options: Any) -> Likelihood:
    """A likelihood whose settings that are options have their values."""
    return kind(**options.values_of(key for key in kind.settings if key in options.explicit))
