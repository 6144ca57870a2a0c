"""`python -m tati_re`: the command `tati`, which lists all commands if called without one."""

import sys

from tati_re.cli.tati import main

if __name__ == "__main__":
    sys.exit(main())
