"""The explorer's command line."""

import sys

from tests.simulation.report import main

sys.exit(main())
