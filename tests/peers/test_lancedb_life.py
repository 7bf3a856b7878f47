"""A table lives its whole life in lancedb over a catalog of ours, in every mode."""

from __future__ import annotations

import lance_namespace as api
import pytest

from tests.behaviours.data import query
from tests.behaviours.modes import COMPATIBILITY, MANAGED, V1, V2, Mode
from tests.behaviours.places import Place
from tests.kit.rest import serving
from tests.peers.clients import properties
from tests.peers.lancedb_life import life
from tiltyard.namespace import DirectoryNamespace

STEPS = "create, add, search, index, update, merge, delete, columns, time travel, drop"

modes = pytest.mark.parametrize("mode", [V1, V2, COMPATIBILITY, MANAGED], indirect=True, ids=str)


@modes
def test_a_table_lives_in_lancedb(mode: Mode, place: Place, catalog: api.LanceNamespace) -> None:
    assert ", ".join(life(properties(mode, place), place.storage_options)) == STEPS
    catalog.undrop_table(["points"])  # type: ignore[attr-defined]
    assert query(catalog, "points", k=0).num_rows == 350, "what lancedb dropped comes back"


@modes
@pytest.mark.parametrize("place", ["disk"], indirect=True)
def test_it_lives_as_well_if_every_commit_goes_through_the_catalog(
    mode: Mode, place: Place, catalog: api.LanceNamespace
) -> None:
    tracked = {
        **properties(mode, place),
        "table_version_tracking_enabled": "true",
        "vend_input_storage_options": "true",
    }
    assert ", ".join(life(tracked, place.storage_options)) == STEPS


@modes
def test_it_lives_as_well_behind_a_server(
    mode: Mode, place: Place, catalog: api.LanceNamespace
) -> None:
    assert isinstance(catalog, DirectoryNamespace)
    with serving(catalog) as address:
        lived = life({"uri": address}, place.storage_options, namespace="rest")

    assert ", ".join(lived) == STEPS
    catalog.undrop_table(["points"])
    assert query(catalog, "points", k=0).num_rows == 350
