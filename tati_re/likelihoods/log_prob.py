"""Log densities and log probabilities for models that users write, in TensorFlow.

Every function works entry by entry and includes the constants, unless it says otherwise; arguments
broadcast, and whole numbers are taken as floats. A list may hold tensors of the same shape.
`total` adds everything up.

Examples:
    >>> from tati_re.likelihoods import log_prob
    >>> float(log_prob.normal(0.0, 0.0, 1.0))  # doctest: +ELLIPSIS
    -0.91893...
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tati_re.likelihoods.outputs import tensorflow

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def total(*terms: Any) -> Any:
    """Returns the sum of all entries of all terms.

    Args:
        *terms: Log densities, tensors of any shapes.

    Returns:
        One number.
    """
    tf = tensorflow()
    return tf.add_n([tf.reduce_sum(term) for term in _floats(*terms)])


def normal(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Returns the log density of the normal distribution.

    Args:
        x: Values.
        loc: Mean. Default: 0.
        scale: Standard deviation, above 0. Default: 1.
    """
    tf = tensorflow()
    x, loc, scale = _floats(x, loc, scale)
    return -0.5 * tf.square((x - loc) / scale) - tf.math.log(scale) - _HALF_LOG_2PI


def student_t(x: Any, degrees: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Returns the log density of Student's t distribution.

    Args:
        x: Values.
        degrees: Degrees of freedom, above 0.
        loc: Center. Default: 0.
        scale: Width, above 0. Default: 1.
    """
    tf = tensorflow()
    x, degrees, loc, scale = _floats(x, degrees, loc, scale)
    z = (x - loc) / scale
    constant = tf.math.lgamma(0.5 * (degrees + 1)) - tf.math.lgamma(0.5 * degrees)
    width = 0.5 * tf.math.log(degrees * math.pi) + tf.math.log(scale)
    return constant - width - 0.5 * (degrees + 1) * tf.math.log1p(tf.square(z) / degrees)


def cauchy(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Returns the log density of the Cauchy distribution.

    Args:
        x: Values.
        loc: Center. Default: 0.
        scale: Half width at half maximum, above 0. Default: 1.
    """
    tf = tensorflow()
    x, loc, scale = _floats(x, loc, scale)
    z = (x - loc) / scale
    return -tf.math.log1p(tf.square(z)) - tf.math.log(scale) - math.log(math.pi)


def half_normal(x: Any, scale: Any = 1.0) -> Any:
    """Returns the log density of the absolute value of a centered normal variable.

    Args:
        x: Values above 0.
        scale: Standard deviation of the normal number, above 0. Default: 1.
    """
    return normal(x, 0.0, scale) + math.log(2.0)


def half_cauchy(x: Any, scale: Any = 1.0) -> Any:
    """Returns the log density of the absolute value of a centered Cauchy variable.

    Args:
        x: Values above 0.
        scale: Its scale, above 0. Default: 1.
    """
    return cauchy(x, 0.0, scale) + math.log(2.0)


def half_student_t(x: Any, degrees: Any, scale: Any = 1.0) -> Any:
    """Returns the log density of the absolute value of a centered Student's t variable.

    Args:
        x: Values above 0.
        degrees: Degrees of freedom, above 0.
        scale: Its width, above 0. Default: 1.
    """
    return student_t(x, degrees, 0.0, scale) + math.log(2.0)


def exponential(x: Any, rate: Any = 1.0) -> Any:
    """Returns the log density of the exponential distribution.

    Args:
        x: Values above 0.
        rate: The inverse of the mean, above 0. Default: 1.
    """
    tf = tensorflow()
    x, rate = _floats(x, rate)
    return tf.math.log(rate) - rate * x


def laplace(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Returns the log density of the Laplace distribution.

    Args:
        x: Values.
        loc: Center. Default: 0.
        scale: Mean distance from the center, above 0. Default: 1.
    """
    tf = tensorflow()
    x, loc, scale = _floats(x, loc, scale)
    return -tf.abs(x - loc) / scale - tf.math.log(2 * scale)


def logistic(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Returns the log density of the logistic distribution.

    Args:
        x: Values.
        loc: Center. Default: 0.
        scale: Scale, above 0. Default: 1.

    Returns:
        Logarithms, in the common shape of the arguments.
    """
    tf = tensorflow()
    x, loc, scale = _floats(x, loc, scale)
    z = (x - loc) / scale
    return tf.math.log_sigmoid(z) + tf.math.log_sigmoid(-z) - tf.math.log(scale)


def gamma(x: Any, shape: Any, rate: Any = 1.0) -> Any:
    """Returns the log density of the Gamma distribution.

    Args:
        x: Values above 0.
        shape: Shape, above 0.
        rate: Inverse scale, above 0. Default: 1.
    """
    tf = tensorflow()
    x, shape, rate = _floats(x, shape, rate)
    power = (shape - 1) * tf.math.log(x) - rate * x
    return shape * tf.math.log(rate) - tf.math.lgamma(shape) + power


def inverse_gamma(x: Any, shape: Any, scale: Any = 1.0) -> Any:
    """Returns the log density of the inverse Gamma distribution.

    Args:
        x: Values above 0.
        shape: Shape, above 0.
        scale: Scale, above 0. Default: 1.
    """
    tf = tensorflow()
    x, shape, scale = _floats(x, shape, scale)
    power = -(shape + 1) * tf.math.log(x) - scale / x
    return shape * tf.math.log(scale) - tf.math.lgamma(shape) + power


def log_normal(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Returns the log density of the log-normal distribution.

    Args:
        x: Values above 0.
        loc: Mean of the logarithm. Default: 0.
        scale: Standard deviation of the logarithm, above 0. Default: 1.
    """
    tf = tensorflow()
    log_x = tf.math.log(_floats(x, loc, scale)[0])
    return normal(log_x, loc, scale) - log_x


def beta(x: Any, first: Any, second: Any) -> Any:
    """Returns the log density of the Beta distribution.

    Args:
        x: Values between 0 and 1.
        first: Power of x plus 1, above 0.
        second: Power of 1 - x plus 1, above 0.
    """
    tf = tensorflow()
    x, first, second = _floats(x, first, second)
    constant = tf.math.lgamma(first + second) - tf.math.lgamma(first) - tf.math.lgamma(second)
    return constant + (first - 1) * tf.math.log(x) + (second - 1) * tf.math.log1p(-x)


def uniform(x: Any, lower: Any = 0.0, upper: Any = 1.0) -> Any:
    """Returns the log density of the uniform distribution, for values inside the bounds.

    Args:
        x: Values between the bounds; others are not checked.
        lower: Lower bound. Default: 0.
        upper: Upper bound. Default: 1.
    """
    tf = tensorflow()
    x, lower, upper = _floats(x, lower, upper)
    return tf.zeros_like(x) - tf.math.log(upper - lower)


def poisson(count: Any, rate: Any) -> Any:
    """Returns the log probability of the Poisson distribution.

    Args:
        count: Integers, at least 0.
        rate: Mean, above 0.
    """
    tf = tensorflow()
    count, rate = _floats(count, rate)
    return count * tf.math.log(rate) - rate - tf.math.lgamma(count + 1)


def poisson_log(count: Any, log_rate: Any) -> Any:
    """Returns the log probability of the Poisson distribution from the log of its mean.

    Args:
        count: Integers, at least 0.
        log_rate: Logarithm of the mean.
    """
    tf = tensorflow()
    count, log_rate = _floats(count, log_rate)
    return count * log_rate - tf.exp(log_rate) - tf.math.lgamma(count + 1)


def negative_binomial(count: Any, mean: Any, shape: Any) -> Any:
    """Returns the log probability of the negative binomial distribution.

    It is a Poisson distribution with a Gamma-distributed rate.

    Args:
        count: Integers, at least 0.
        mean: Mean, above 0.
        shape: Shape of the Gamma distribution, above 0; the variance is mean + mean²/shape.
    """
    tf = tensorflow()
    count, mean, shape = _floats(count, mean, shape)
    ways = tf.math.lgamma(count + shape) - tf.math.lgamma(shape) - tf.math.lgamma(count + 1)
    share = tf.math.log(shape + mean)
    return ways + shape * (tf.math.log(shape) - share) + count * (tf.math.log(mean) - share)


def bernoulli_logit(success: Any, logit: Any) -> Any:
    """Returns the log probability of 0 or 1.

    Args:
        success: 0 or 1; numbers outside have no probability.
        logit: log(p / (1 - p)) of 1.
    """
    tf = tensorflow()
    success, logit = _floats(success, logit)
    logs = success * logit - tf.nn.softplus(logit)
    return tf.where((success >= 0) & (success <= 1), logs, _nothing(logs))


def binomial_logit(successes: Any, trials: Any, logit: Any) -> Any:
    """Returns the log probability of the binomial distribution.

    Args:
        successes: Integers from 0 to `trials`.
        trials: Numbers of trials.
        logit: log(p / (1 - p)) of a success.
    """
    tf = tensorflow()
    successes, trials, logit = _floats(successes, trials, logit)
    ways = tf.math.lgamma(trials + 1) - tf.math.lgamma(successes + 1)
    ways = ways - tf.math.lgamma(trials - successes + 1)
    return ways + successes * logit - trials * tf.nn.softplus(logit)


def categorical_logit(category: Any, logits: Any) -> Any:
    """Returns the log probability of a category.

    Args:
        category: Integers from 0 to K - 1, `(...)`; others have no probability.
        logits: Log probabilities up to a constant, `(..., K)`.
    """
    tf = tensorflow()
    (logits,) = _floats(logits)
    return _chosen(category, tf.nn.log_softmax(logits, axis=-1))


def ordered_logit(category: Any, location: Any, cuts: Any) -> Any:
    """Returns the log probability of an ordered category, with logistic noise around a location.

    Args:
        category: Integers from 0 to K - 1, `(...)`; others have no probability.
        location: Locations, `(...)`.
        cuts: Rising cut points, `(K - 1,)`.
    """
    tf = tensorflow()
    location, cuts = _floats(location, cuts)
    below = cuts - location[..., None]
    last = tf.zeros_like(below[..., :1])
    above_lower = tf.concat([last, tf.math.log_sigmoid(-below)], axis=-1)
    below_upper = tf.concat([tf.math.log_sigmoid(below), last], axis=-1)
    # log(σ(b) - σ(a)) = log σ(b) + log σ(-a) + log(1 - exp(a - b)) of neighboring cuts a < b.
    between = tf.math.log(-tf.math.expm1(cuts[:-1] - cuts[1:]))
    between = tf.concat([tf.zeros_like(cuts[:1]), between, tf.zeros_like(cuts[:1])], axis=-1)
    return _chosen(category, above_lower + below_upper + between)


def dirichlet(shares: Any, concentration: Any) -> Any:
    """Returns the log density of the Dirichlet distribution along the last axis.

    Args:
        shares: Fractions that sum to 1, `(..., K)`.
        concentration: Numbers above 0, `(K,)` or `(..., K)`.
    """
    tf = tensorflow()
    shares, concentration = _floats(shares, concentration)
    concentration = concentration + tf.zeros_like(shares)
    constant = tf.math.lgamma(tf.reduce_sum(concentration, axis=-1))
    constant = constant - tf.reduce_sum(tf.math.lgamma(concentration), axis=-1)
    return constant + tf.reduce_sum((concentration - 1) * tf.math.log(shares), axis=-1)


def normal_cholesky(x: Any, loc: Any, factor: Any) -> Any:
    """Returns the log density of the multivariate normal distribution along the last axis.

    Args:
        x: Values, `(..., K)`.
        loc: Means, `(..., K)`.
        factor: Lower triangular Cholesky factor of the covariance, `(K, K)`.
    """
    tf = tensorflow()
    x, loc, factor = _floats(x, loc, factor)
    away = x - loc
    flat = tf.reshape(away, (-1, factor.shape[-1]))
    z = tf.linalg.triangular_solve(factor, tf.transpose(flat), lower=True)
    squares = tf.reshape(tf.reduce_sum(tf.square(z), axis=0), tf.shape(away)[:-1])
    log_det = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
    return -0.5 * squares - log_det - factor.shape[-1] * _HALF_LOG_2PI


def lkj_cholesky(factor: Any, shape: Any = 1.0) -> Any:
    """Returns the LKJ log density of Cholesky factors of correlation matrices, up to a constant.

    Args:
        factor: Cholesky factors, `(..., K, K)`.
        shape: η above 0; 1 is uniform over correlation matrices. Default: 1.
    """
    tf = tensorflow()
    factor, shape = _floats(factor, shape)
    size = int(factor.shape[-1])
    row = tf.range(size, dtype=factor.dtype)[1:]
    powers = size - 1 - row + 2 * (shape - 1)
    logs = tf.math.log(tf.linalg.diag_part(factor)[..., 1:])
    return tf.reduce_sum(powers * logs, axis=-1)


def mixture(log_weights: Any, log_densities: Any) -> Any:
    """Returns the log density of a mixture, log Σ exp(log weight + log density).

    Args:
        log_weights: Logarithms of the weights, `(K,)`.
        log_densities: Log density of each component, `(..., K)`.
    """
    tf = tensorflow()
    log_weights, log_densities = _floats(log_weights, log_densities)
    return tf.reduce_logsumexp(log_weights + log_densities, axis=-1)


def _chosen(category: Any, logs: Any) -> Any:
    """The logarithms of categories, of all `(..., K)`; -inf where there is no such category."""
    tf = tensorflow()
    category = tf.convert_to_tensor(category)
    number = tf.cast(category, tf.int32)
    size = logs.shape[-1]
    is_chosen = tf.one_hot(number, size, on_value=True, off_value=False)
    of_category = tf.reduce_sum(tf.where(is_chosen, logs, tf.zeros_like(logs)), axis=-1)
    is_known = (number >= 0) & (number < size) & (tf.cast(number, category.dtype) == category)
    return tf.where(is_known, of_category, _nothing(of_category))


def _nothing(like: Any) -> Any:
    """The logarithm of 0, in the type of a tensor."""
    return tensorflow().constant(-math.inf, like.dtype)


def _floats(*values: Any) -> list[Any]:
    """All values as tensors of one floating type: that of the first which has one."""
    tf = tensorflow()
    joined = [_joined(value) for value in values]
    types = [value.dtype for value in joined if tf.is_tensor(value) and value.dtype.is_floating]
    dtype = types[0] if types else tf.float64
    return [tf.cast(value if tf.is_tensor(value) else np.asarray(value), dtype) for value in joined]


def _joined(value: Any) -> Any:
    """A list with tensors among its entries as one tensor; any other value as it is."""
    tf = tensorflow()
    if not isinstance(value, list | tuple):
        return value
    entries = [_joined(entry) for entry in value]
    return tf.stack(_floats(*entries)) if any(map(tf.is_tensor, entries)) else value
