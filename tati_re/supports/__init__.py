"""Supports of named parameters: where their values may lie, and the maps that samplers need."""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.supports.contract import Support as Support
    from tati_re.supports.make import above as above
    from tati_re.supports.make import below as below
    from tati_re.supports.make import cholesky_corr as cholesky_corr
    from tati_re.supports.make import cholesky_cov as cholesky_cov
    from tati_re.supports.make import corr as corr
    from tati_re.supports.make import cov as cov
    from tati_re.supports.make import interval as interval
    from tati_re.supports.make import ordered as ordered
    from tati_re.supports.make import positive as positive
    from tati_re.supports.make import positive_ordered as positive_ordered
    from tati_re.supports.make import real as real
    from tati_re.supports.make import simplex as simplex
    from tati_re.supports.make import sum_to_zero as sum_to_zero
    from tati_re.supports.make import unit_vector as unit_vector

__getattr__, __all__ = lazy_names(__name__)
