"""`python -m demo [--spark]`: wipes ./demo-catalog, goes through the steps, and says where to look
next."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from demo.stage import CATALOG, Stage
from demo.steps import STEPS, WITH_SPARK


def main() -> int:
    shutil.rmtree(CATALOG, ignore_errors=True)
    os.environ["TILTYARD_ROOT"] = str(CATALOG)
    with tempfile.TemporaryDirectory(prefix="tiltyard-demo-") as files:
        stage = Stage(Path(files))
        stage.opening()
        steps = WITH_SPARK if "--spark" in sys.argv[1:] else STEPS
        for number, step in enumerate(steps, 1):
            stage.title(number, len(steps), step.title)
            step.play(stage)
        stage.closing()
    return 0


if __name__ == "__main__":
    sys.exit(main())
