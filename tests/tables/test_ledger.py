"""What was loaded into a table stays known whatever becomes of its rows and versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance_namespace as api
import pyarrow as pa
import pytest

import tiltyard
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import KINDS, Kind
from tiltyard import DirectoryNamespace
from tiltyard.errors import InvalidTableStateError
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.tables import fragments, ledger
from tiltyard.tables.ledger import Loaded

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture(params=KINDS, ids=str)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    kind: Kind = request.param
    found = tiltyard.connect(tmp_path / "lake", **kind.properties)
    if kind.managed:
        found.versions.manage()
    pending = found.writes.begin(["t"], "create")
    found.writes.finish(pending, [], ROWS.schema)
    return found


def _file(number: int) -> Loaded:
    return Loaded(f"/in/{number}.parquet", number, f"tag {number}")


def _load(catalog: DirectoryNamespace, *files: Loaded) -> int | None:
    pending = catalog.writes.begin(["t"], "append")
    written = fragments.write(pending, ROWS.to_reader())
    created = catalog.writes.finish_load(pending, written, ROWS.schema, files)
    return None if created is None else created.version


def test_a_file_is_loaded_once_and_one_that_changed_is_another(catalog: DirectoryNamespace) -> None:
    assert _load(catalog, _file(1), _file(2)) == 2
    assert _load(catalog, _file(3), _file(2)) is None
    assert _load(catalog, _file(1)._replace(tag="new")) == 3

    assert catalog.writes.loaded_files(["t"]).files == {
        _file(1),
        _file(2),
        _file(1)._replace(tag="new"),
    }
    assert catalog.open_table(["t"]).count_rows() == 6


def _compact(catalog: DirectoryNamespace) -> None:
    catalog.maintenance.optimize_table(["t"])


def _clean_up(catalog: DirectoryNamespace) -> None:
    policy = CleanupPolicy(1, min_age=0, allow_young=True, allow_below_recovery_floor=True)
    catalog.maintenance.optimize_table(["t"])
    assert catalog.maintenance.cleanup_table(["t"], policy).versions_removed


def _delete(catalog: DirectoryNamespace) -> None:
    to_change(catalog, "t").delete("true")


def _append(catalog: DirectoryNamespace) -> None:
    to_change(catalog, "t").insert(ROWS)


def _add_column(catalog: DirectoryNamespace) -> None:
    to_change(catalog, "t").add_columns({"twice": "id * 2"})


def _rename(catalog: DirectoryNamespace) -> None:
    to_change(catalog, "t").alter_columns({"path": "id", "name": "number"})


@pytest.mark.parametrize(
    "change",
    [_compact, _clean_up, _delete, _append, _add_column, _rename],
    ids=lambda e: e.__name__,
)
def test_whatever_happens_to_the_rows_a_loaded_file_stays_loaded(
    catalog: DirectoryNamespace, change: Callable[[DirectoryNamespace], None]
) -> None:
    _load(catalog, _file(1))
    _load(catalog, _file(2))

    change(catalog)

    assert catalog.writes.loaded_files(["t"]).files == {_file(1), _file(2)}


def test_a_restored_version_has_the_files_of_its_own_rows(catalog: DirectoryNamespace) -> None:
    _load(catalog, _file(1))
    _load(catalog, _file(2))

    catalog.restore_table(api.RestoreTableRequest(id=["t"], version=2))

    assert catalog.writes.loaded_files(["t"]).files == {_file(1)}
    assert _load(catalog, _file(2)) is not None


def test_many_loads_are_folded_into_one_object(catalog: DirectoryNamespace) -> None:
    for number in range(ledger.MOST_PARTS + 3):
        _load(catalog, _file(number))

    found = catalog.writes.loaded_files(["t"])

    assert len(found.files) == ledger.MOST_PARTS + 3
    assert len(found.parts) < 3


def test_a_commit_of_another_is_waited_for(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = catalog.writes.finish
    others = iter([True, False])

    def late(*args: object, **kwargs: object) -> object:
        if next(others):
            _append(catalog)
        return finish(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog.writes, "finish", late)

    assert _load(catalog, _file(1)) == 3
    assert catalog.open_table(["t"]).count_rows() == 6


def test_a_ledger_that_lost_an_object_is_refused_and_not_taken_for_empty(
    catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    _load(catalog, _file(1))
    (head,) = (tmp_path / "lake").glob(f"*/{ledger.FOLDER}/*")
    head.unlink()

    with pytest.raises(InvalidTableStateError, match="is gone"):
        catalog.writes.loaded_files(["t"])
