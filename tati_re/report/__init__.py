"""Reports on runs: text, tables with figures, and one HTML page."""

from tati_re.report.page import write_report

__all__ = ["write_report"]
