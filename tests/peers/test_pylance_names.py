"""Names that go away, move or hold others: what pylance makes of ours, and we of its."""

from __future__ import annotations

import lance_namespace as api
import pytest
from lance_namespace import errors as lance_errors

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    declare,
    deregister,
    describe,
    drop,
    drop_namespace,
    exists,
    make_namespace,
    namespace_exists,
    namespaces,
    properties_of,
    register,
    rename,
    tables,
)
from tests.behaviours.modes import (
    COMPATIBILITY,
    with_directory_listing,
    with_manifest,
    with_manifest_only,
)
from tests.behaviours.places import Place

Catalog = api.LanceNamespace

in_compatibility_mode = pytest.mark.parametrize("mode", [COMPATIBILITY], indirect=True, ids=str)


# -- names that go away


def test_a_table_that_we_deregister_disappears_for_pylance_and_comes_back(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(pylance, "people", data=PEOPLE)

    location = deregister(catalog, "people").location
    assert location is not None
    hidden = tables(pylance), exists(pylance, "people")
    register(catalog, "people", at=location)

    assert hidden == ([], False)
    assert contents(pylance, place, "people") == PEOPLE


@with_directory_listing
def test_a_table_that_we_deregistered_is_not_overwritten_by_pylance(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(catalog, "people", data=PEOPLE)
    deregister(catalog, "people")

    with pytest.raises(lance_errors.LanceNamespaceError):
        create(pylance, "people", data=PLANTS)

    register(catalog, "people", at="people.lance")
    assert contents(catalog, place, "people") == PEOPLE


@with_manifest_only
def test_a_table_that_pylance_deregisters_is_gone_for_us(
    catalog: Catalog, pylance: Catalog
) -> None:
    create(catalog, "people")

    deregister(pylance, "people")

    assert tables(catalog) == []


@with_directory_listing
def test_the_marker_that_pylance_leaves_in_a_directory_hides_its_table_from_us(
    catalog: Catalog, place: Place
) -> None:
    create(catalog, "people")
    place.write("people.lance/.lance-deregistered", b"reserved")

    assert not exists(catalog, "people")


@with_manifest_only
def test_a_table_of_pylance_that_we_rename_has_its_new_name_there(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(pylance, "people", data=PEOPLE)

    rename(catalog, "people", to="folk")

    assert tables(pylance) == ["folk"]
    assert contents(pylance, place, "folk") == PEOPLE
    drop(pylance, "folk")
    assert tables(catalog) == []


@in_compatibility_mode
def test_a_renamed_root_table_disappears_under_its_old_name_for_pylance(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(pylance, "people", data=PEOPLE)

    rename(catalog, "people", to="folk")

    # It looks for root tables in the listing alone, and the directory keeps its name.
    assert tables(pylance) == []
    assert not exists(pylance, "people")
    assert contents(catalog, place, "folk") == PEOPLE


@in_compatibility_mode
def test_a_root_table_that_we_move_into_a_namespace_is_there_for_pylance(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(pylance, "people", data=PEOPLE)
    make_namespace(catalog, "lake")

    rename(catalog, "people", to="folk", into=["lake"])

    assert (tables(pylance), tables(pylance, "lake")) == ([], ["folk"])
    assert contents(pylance, place, "lake", "folk") == PEOPLE
    drop(pylance, "lake", "folk")
    assert tables(catalog, "lake") == []
    create(catalog, "people", data=PLANTS)
    assert contents(catalog, place, "people") == PLANTS


# -- namespaces


@with_manifest
def test_namespaces_of_ours_and_their_tables_are_there_for_pylance(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    make_namespace(catalog, "lake", properties={"owner": "ada"})
    make_namespace(catalog, "lake", "deep")
    create(catalog, "lake", "deep", "people", data=PEOPLE)

    assert namespaces(pylance) == ["lake"]
    assert (properties_of(pylance, "lake") or {})["owner"] == "ada"
    assert tables(pylance, "lake", "deep") == ["people"]
    assert contents(pylance, place, "lake", "deep", "people") == PEOPLE


@with_manifest
def test_namespaces_of_pylance_and_their_tables_are_there_for_us(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    make_namespace(pylance, "lake", properties={"owner": "ada"})
    make_namespace(pylance, "lake", "deep")
    create(pylance, "lake", "deep", "people", data=PEOPLE)

    assert properties_of(catalog, "lake") == {"owner": "ada"}
    assert namespaces(catalog, "lake") == ["deep"]
    assert contents(catalog, place, "lake", "deep", "people") == PEOPLE
    rename(catalog, "lake", "deep", "people", to="folk", into=["lake"])
    assert contents(pylance, place, "lake", "folk") == PEOPLE


@with_manifest
def test_properties_survive_the_other_clients_writes(catalog: Catalog, pylance: Catalog) -> None:
    make_namespace(catalog, "ours", properties={"owner": "ada"})
    declare(catalog, "ours", "people", properties={"colour": "blue"})
    make_namespace(pylance, "theirs", properties={"owner": "bo"})
    declare(pylance, "theirs", "people")

    assert properties_of(catalog, "ours") == {"owner": "ada"}
    assert describe(catalog, "ours", "people").properties == {"colour": "blue"}
    assert properties_of(pylance, "theirs") == {"owner": "bo"}


@with_manifest
def test_a_namespace_that_we_drop_with_all_it_holds_is_gone_for_pylance(
    catalog: Catalog, pylance: Catalog
) -> None:
    make_namespace(pylance, "lake")
    create(pylance, "lake", "people")

    drop_namespace(catalog, "lake", behavior="Cascade")

    assert namespaces(pylance) == []
    assert not exists(pylance, "lake", "people")


@with_manifest
def test_a_namespace_that_pylance_drops_is_gone_for_us(catalog: Catalog, pylance: Catalog) -> None:
    make_namespace(catalog, "lake")

    drop_namespace(pylance, "lake")

    assert not namespace_exists(catalog, "lake")
