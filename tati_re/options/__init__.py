"""Options: names and values from Python, flags and TOML become one checked object; no TensorFlow
and no model.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.options.make import describe as describe
    from tati_re.options.make import make_options as make_options

__getattr__, __all__ = lazy_names(__name__)
