"""Prints the userguide's page of all options: `python -m tati_re.options`."""

from tati_re.options.make import reference_page

print(reference_page(), end="")
