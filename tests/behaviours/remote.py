"""A client that asks a server, for the same tests as one that opens the directory itself."""

from __future__ import annotations

from typing import Any

import pytest

from tiltyard.rest.client import RestCatalog

# Only for processes that can reach the files, or that share the catalog's own objects.
NOT_OVER_REST = frozenset(
    {
        "drop_tables",
        "create_empty_table",
        "open_table",
        "context",
        "services",
        "writes",
    }
)


class Remote(RestCatalog):
    """Skips what a server does not offer; anything else that is missing is an error."""

    def __getattr__(self, name: str) -> Any:
        if name in NOT_OVER_REST:
            pytest.skip(f"{name} is not offered over REST")
        return super().__getattr__(name)
