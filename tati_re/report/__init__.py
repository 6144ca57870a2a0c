"""Reports on runs: text, tables with figures, and one HTML page."""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.report.page import write_report as write_report

__getattr__, __all__ = lazy_names(__name__)
