"""The command with a catalog whose inserts wait, before their commit, for a line on stdin."""

from __future__ import annotations

import sys
from typing import Any

from tiltyard.cli import main
from tiltyard.namespace import DirectoryNamespace

_insert = DirectoryNamespace.insert_into_table


def _slowly(self: DirectoryNamespace, request: Any, data: Any) -> Any:
    sys.stderr.write("slowly\n")
    sys.stderr.flush()
    sys.stdin.readline()
    return _insert(self, request, data)


if __name__ == "__main__":
    DirectoryNamespace.insert_into_table = _slowly  # type: ignore[method-assign]
    sys.exit(main())
