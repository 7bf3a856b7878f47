"""Lance rebases a delete or an update over the versions that it finds, and does not notice that
some are gone. Whoever changed rows on a version from before a clean-up is refused all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import tiltyard
from tests.maintenance.catalogs import rows
from tiltyard import DirectoryNamespace
from tiltyard.catalog.pylance import FAILURES
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.versions.lance_format import transaction_of

LATEST_ONLY = CleanupPolicy(1, min_age=0, allow_young=True, allow_below_recovery_floor=True)

KEEPING: dict[str, dict[str, Any]] = {
    "rows": {"dir_listing_enabled": False},
    "files": {"manifest_enabled": False},
}

Change = Callable[[lance.LanceDataset], object]


class _Stop(RuntimeError):
    """Lance tries for half a minute. The first refusal is enough here."""


class Once(DirectoryNamespace):
    """A catalog that lets its user try once."""

    tries = 0

    def create_table_version(self, request: Any) -> Any:
        self.tries += 1
        if self.tries > 1:
            raise _Stop("once is enough")
        return super().create_table_version(request)


@pytest.fixture(params=KEEPING.values(), ids=KEEPING)
def properties(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A table of one fragment with three rows, and three of one row."""
    chosen = {"root": str(tmp_path / "lake"), "table_version_tracking_enabled": True}
    chosen |= request.param
    catalog = tiltyard.DirectoryNamespace(**chosen)
    if "dir_listing_enabled" in chosen:
        catalog.versions.manage()
    lance.write_dataset(rows(1, 2, 3), namespace_client=catalog, table_id=["t"])
    for number in (10, 11, 12):
        _append(catalog, number)
    return chosen


def _open(catalog: DirectoryNamespace) -> lance.LanceDataset:
    return lance.dataset(namespace_client=catalog, table_id=["t"])


def _append(catalog: DirectoryNamespace, number: int) -> None:
    lance.write_dataset(rows(number), mode="append", namespace_client=catalog, table_id=["t"])


def _delete_3(catalog: DirectoryNamespace) -> None:
    _open(catalog).delete("id = 3")


def _compact(catalog: DirectoryNamespace) -> None:
    """A tag keeps the old files, so that who has them open can read them."""
    _open(catalog).tags.create("before", 4)
    catalog.maintenance.optimize_table(["t"])


CHANGES: dict[str, Change] = {
    "delete": lambda it: it.delete("id = 2"),
    "update": lambda it: it.update({"id": "77"}, where="id = 2"),
    "delete of all": lambda it: it.delete("id = 10"),
    "update of all": lambda it: it.update({"id": "77"}, where="id = 10"),
}


@pytest.mark.parametrize("meanwhile", [_delete_3, _compact])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_acknowledged_change_is_lost(
    properties: dict[str, Any],
    change: Change,
    meanwhile: Callable[[DirectoryNamespace], None],
) -> None:
    writer, other = Once(**properties), tiltyard.DirectoryNamespace(**properties)
    dataset = _open(writer)
    meanwhile(other)
    for number in (100, 101):
        _append(other, number)
    before = _ids(other)
    assert other.maintenance.cleanup_table(["t"], LATEST_ONLY).versions_removed
    try:
        change(dataset)
    except FAILURES:
        assert _ids(other) == before, "what was refused has changed nothing"
    else:
        assert _ids(other) == _changed(before, change), "what was acknowledged is done, and no more"


def _ids(catalog: DirectoryNamespace) -> Counter[int]:
    return Counter(catalog.open_table(["t"]).to_table()["id"].to_pylist())


def _changed(before: Counter[int], change: Change) -> Counter[int]:
    name = next(name for name, known in CHANGES.items() if known is change)
    gone = 10 if name.endswith("all") else 2
    return before - Counter([gone]) + Counter([77] if name.startswith("update") else [])


def test_a_change_that_has_seen_everything_goes_on(properties: dict[str, Any]) -> None:
    """Also where versions are gone, rows were deleted long ago, and whole fragments go."""
    catalog = tiltyard.DirectoryNamespace(**properties)
    _open(catalog).delete("id = 1")
    for number in (100, 101):
        _append(catalog, number)
    catalog.maintenance.cleanup_table(["t"], LATEST_ONLY)
    _open(catalog).merge_insert("id").when_matched_update_all().execute(rows(11))
    _open(catalog).delete("id = 2")
    _open(catalog).update({"id": "77"}, where="id = 3")
    _open(catalog).delete("id = 10")
    _open(catalog).update({"id": "78"}, where="id = 12")
    assert _ids(catalog) == Counter([11, 77, 78, 100, 101])


def test_a_version_tells_on_which_one_it_was_carried_out(properties: dict[str, Any]) -> None:
    catalog = tiltyard.DirectoryNamespace(**properties)
    dataset = _open(catalog)
    _append(catalog, 100)
    dataset.delete("id = 2")
    newest = catalog.services.versions.latest(("t",))
    assert newest is not None
    assert newest.version == 6
    assert transaction_of(catalog.context.store.get(newest.key).body, newest.key)[0] == 4
