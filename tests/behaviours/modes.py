"""The ways to keep a catalog, and which of them the suite runs over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest


@dataclass(frozen=True)
class Mode:
    """The properties that choose one way, and what it can do."""

    name: str
    properties: Mapping[str, str]
    has_manifest: bool
    lists_directories: bool
    manages_versions: bool = False

    def __str__(self) -> str:
        return self.name


V1 = Mode("v1", {"manifest_enabled": "false"}, has_manifest=False, lists_directories=True)
V2 = Mode("v2", {"dir_listing_enabled": "false"}, has_manifest=True, lists_directories=False)
COMPATIBILITY = Mode("compatibility", {}, has_manifest=True, lists_directories=True)
MANAGED = replace(V2, name="managed", manages_versions=True)
MANAGED_COMPATIBILITY = replace(COMPATIBILITY, name="managed compatibility", manages_versions=True)

MODES: tuple[Mode, ...] = (V1, V2, COMPATIBILITY)


def _only(modes: list[Mode]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mode", modes, indirect=True, ids=str)


with_managed_versions = _only([MANAGED, MANAGED_COMPATIBILITY])
every_mode = _only(list(MODES))
in_directory_mode = _only([mode for mode in MODES if not mode.has_manifest])
with_manifest = _only([mode for mode in MODES if mode.has_manifest])
with_manifest_only = _only([mode for mode in MODES if not mode.lists_directories])
with_directory_listing = _only([mode for mode in MODES if mode.lists_directories])
