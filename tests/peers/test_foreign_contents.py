"""What others keep in the manifest beside our rows: deletions, columns, metadata, configuration."""

from __future__ import annotations

import lance_namespace as api
import pytest

from tests.behaviours.calls import declare, drop, exists, make_namespace, tables
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_manifest
from tests.behaviours.places import Place
from tests.peers.manifest import append_rows, open_manifest

Catalog = api.LanceNamespace

FOREIGN = [f"t{number:02d}" for number in range(1, 11)]

pytestmark = with_manifest


@pytest.fixture
def lake(catalog: Catalog, reopen: Reopen) -> Catalog:
    """A warm client: it holds a version that another client of ours wrote."""
    other = reopen()
    make_namespace(other, "lake")
    declare(other, "lake", "t00")
    assert tables(catalog, "lake") == ["t00"]
    return catalog


def test_a_foreign_delete_is_read_and_survives_our_next_write(
    lake: Catalog, pylance: Catalog, place: Place
) -> None:
    append_rows(place, *FOREIGN)
    open_manifest(place).delete("object_id IN ('lake$t03', 'lake$t00')")
    left = [name for name in FOREIGN if name != "t03"]

    assert tables(lake, "lake") == left
    assert not exists(lake, "lake", "t03")
    declare(lake, "lake", "after")

    assert tables(lake, "lake") == ["after", *left]
    assert sorted(tables(pylance, "lake")) == ["after", *left]
    declare(lake, "lake", "t03")
    assert tables(lake, "lake") == ["after", *sorted([*left, "t03"])]


def test_columns_that_others_added_keep_their_values(lake: Catalog, place: Place) -> None:
    append_rows(place, *FOREIGN)
    open_manifest(place).add_columns({"note": "concat('about ', object_id)"})

    declare(lake, "lake", "after")
    drop(lake, "lake", "t05")

    rows = open_manifest(place).to_table(columns=["object_id", "note"]).sort_by("object_id")
    expected = [f"about lake${name}" for name in ("t00", *FOREIGN) if name != "t05"]
    notes = dict(zip(*rows.to_pydict().values(), strict=True))
    assert notes.pop("lake$after") is None
    dropped = next(note for note in notes if note.startswith("__trash$"))
    assert notes.pop(dropped) == "about lake$t05"
    assert list(notes.values()) == ["about lake", *expected]


def test_metadata_and_configuration_of_others_survive_our_writes(
    lake: Catalog, place: Place
) -> None:
    manifest = open_manifest(place)
    manifest.update_metadata({"owner": "ada"})
    manifest.update_config({"colour": "blue"})
    schema = open_manifest(place).schema

    declare(lake, "lake", "after")
    drop(lake, "lake", "t00")

    after = open_manifest(place)
    assert after.metadata["owner"] == "ada"
    assert after.config()["colour"] == "blue"
    assert after.schema.equals(schema, check_metadata=True)
