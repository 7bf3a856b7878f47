"""Catalogs of every kind, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiltyard
from tests.behaviours.calls import create, make_namespace
from tests.maintenance.batch import Lake, Tries, lake
from tests.maintenance.catalogs import KINDS, LAKE, Kind, ManualClock
from tiltyard import DirectoryNamespace
from tiltyard.clock import SYSTEM_CLOCK, Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clock of the catalogs that the test opens from here on: ahead of the real one."""
    clock = ManualClock()
    monkeypatch.setattr("tiltyard.clock.SYSTEM_CLOCK", Clock(clock.now_ms, SYSTEM_CLOCK.token))
    return clock


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def reopen(kind: Kind, tmp_path: Path, clock: ManualClock) -> Callable[[], DirectoryNamespace]:
    """Open the catalog of the test, as another process would."""

    def opened() -> DirectoryNamespace:
        return tiltyard.connect(tmp_path / LAKE, **kind.properties)

    if kind.managed:
        opened().versions.manage()
    return opened


@pytest.fixture
def catalog(reopen: Callable[[], DirectoryNamespace]) -> DirectoryNamespace:
    return reopen()


@pytest.fixture
def by_rows(tmp_path: Path) -> DirectoryNamespace:
    """A catalog whose tables are rows, with one in a namespace."""
    opened = tiltyard.connect(tmp_path / LAKE, dir_listing_enabled=False)
    make_namespace(opened, "shop")
    create(opened, "shop", "users")
    return opened


@pytest.fixture
def both(tmp_path: Path) -> DirectoryNamespace:
    """A catalog of rows and directories, with a table at the root."""
    opened = tiltyard.connect(tmp_path / LAKE)
    create(opened, "people")
    return opened


# -- batches

MODES: dict[str, dict[str, Any]] = {
    "directory": {"manifest_enabled": False},
    "manifest": {"dir_listing_enabled": False},
}


@pytest.fixture(scope="module", params=MODES.values(), ids=MODES)
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake(tmp_path_factory.mktemp("template") / LAKE, **request.param)


@pytest.fixture
def fresh(template: Lake, tmp_path: Path) -> Lake:
    return template.copy(tmp_path / LAKE)


@pytest.fixture
def another(template: Lake, tmp_path: Path) -> Tries:
    """A catalog for one more try."""
    count = iter(range(10_000))
    return lambda: template.copy(tmp_path / f"lake {next(count)}")
