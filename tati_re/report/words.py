"""What a run reports about itself, by name: `core.views.words_about` looks here."""

from tati_re.report.certificate import certificate as certificate
from tati_re.report.certificate import failed_checks as failed_checks
from tati_re.report.screen import end_screen as end_screen
from tati_re.report.summary import details as details
from tati_re.report.summary import summarize as summarize
from tati_re.report.summary import summary_lines as summary_lines
