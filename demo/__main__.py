"""`python -m demo [--quick]`: wipes ./demo-catalog and ./demo-files, goes through the steps, and
says where to look next."""

from __future__ import annotations

import os
import shutil
import sys

from demo.stage import CATALOG, FILES, Stage
from demo.steps import QUICK, STEPS


def main() -> int:
    for made in (CATALOG, FILES):
        shutil.rmtree(made, ignore_errors=True)
    FILES.mkdir()
    os.environ["TILTYARD_ROOT"] = str(CATALOG)
    stage = Stage()
    stage.opening()
    steps = QUICK if "--quick" in sys.argv[1:] else STEPS
    for number, step in enumerate(steps, 1):
        stage.title(number, len(steps), step.title)
        step.play(stage)
    stage.closing()
    return 0


if __name__ == "__main__":
    sys.exit(main())
