"""One of the two servers of `benchmarks.rest`, until its input is closed. Prints its address."""

from __future__ import annotations

import sys

from lance.namespace import RestAdapter

import tiltyard
from benchmarks._catalogs import V2
from tests.kit.rest import serving


def main(which: str, root: str) -> None:
    if which == "ours":
        with serving(tiltyard.connect(root, **V2)) as address:
            _until_told(address)
    else:
        with RestAdapter("dir", {"root": root, **V2}, port=0) as adapter:
            _until_told(f"http://127.0.0.1:{adapter.port}")


def _until_told(address: str) -> None:
    print(address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
