"""`python -m tiltyard` is the `tiltyard` command."""

import sys

from tiltyard.cli import main

if __name__ == "__main__":
    sys.exit(main())
