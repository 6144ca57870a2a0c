"""A run as one page of HTML: what was sampled, what is wrong, and how it went."""

from tati_re.report.page import write_report

__all__ = ["write_report"]
