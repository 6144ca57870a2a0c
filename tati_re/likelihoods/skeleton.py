"""A likelihood to copy: Gumbel noise, complete and working.

To have a likelihood of your own:

1. Copy this file to any place, `my_file.py`, rename the class, and write both forms of the law.
2. Run `tati_re.testing.check_likelihood(MyLikelihood(), targets)` with some labels: it compares the
   density with differences, the draws and quantiles with the density, and says what is wrong.
3. Sample: `tati_re.Simulation(data="own.csv", hidden=[20], loss=MyLikelihood())`, or
   `tati sample --loss my_file.py:MyLikelihood`.

To add it to the package:

1. Move it to `likelihoods/<name>.py` and add one line to `LIKELIHOODS` in `registry.py`.
2. Give sample labels in `tests/likelihoods/test_likelihoods.py`, which then runs the same checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.likelihoods.laws import ScipyLaw
from tati_re.likelihoods.location_scale import LocationScale
from tati_re.likelihoods.outputs import tensorflow


class Gumbel(LocationScale):
    """A largest value, such as the flood of a year; the network predicts its mode and its width.

    Source: E. J. Gumbel, Statistics of Extremes (1958).
    """

    # What users type as `loss`. Of a value with two parameters, center and width, `LocationScale`
    # takes location and scale from the training targets; other laws derive from `Likelihood`.
    name = "gumbel"

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        # TensorFlow, shape (n,): summed over the targets of an example, with all constants.
        tf = tensorflow()
        z, log_width = self.standardized(targets, outputs)
        return tf.reduce_sum(-log_width - z - tf.exp(-z), axis=-1)

    def law(self, outputs: np.ndarray) -> ScipyLaw:
        # NumPy, shape (draws, n, targets): the same law for predictions.
        from scipy import stats

        center, width = self.center_and_width(outputs)
        return ScipyLaw(stats.gumbel_r, {"loc": center, "scale": width})

    def describe(self) -> str:
        return "Gumbel noise whose width the network predicts"
