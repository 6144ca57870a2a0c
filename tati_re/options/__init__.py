"""Options: names and values from Python, flags and TOML become one checked object; no TensorFlow and no model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.options.make import describe, make_options

__all__ = ["describe", "make_options"]

__getattr__ = lazy_names(__name__)
