"""`python -m benchmarks [--quick]` runs every module of this package that has a `main`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks.measure import quick_from


def run(arguments: list[str]) -> int:
    quick = quick_from(arguments)
    behind = 0
    for found in pkgutil.iter_modules(benchmarks.__path__):
        if found.name.startswith("_"):
            continue
        main = getattr(importlib.import_module(f"benchmarks.{found.name}"), "main", None)
        if main is not None:
            behind += main(quick=quick)
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
