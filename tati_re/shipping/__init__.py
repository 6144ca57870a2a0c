"""Shipping: a posterior as one small file, or as a plain Keras model, that predicts without its run."""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.shipping.compressing import compress as compress
    from tati_re.shipping.distilling import distil as distil
    from tati_re.shipping.keras_export import to_keras as to_keras
    from tati_re.shipping.outside_inputs import inputs_outside as inputs_outside

__getattr__, __all__ = lazy_names(__name__)
