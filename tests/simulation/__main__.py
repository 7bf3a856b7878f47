"""The explorer's command line."""

import sys

from tests.simulation.report import main

if __name__ == "__main__":  # workers import it too
    sys.exit(main())
