"""Namespaces in directory mode: there is the root, and nothing else."""

from __future__ import annotations

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    NAMESPACE_CALLS,
    TABLE_CALLS,
    namespace_exists,
    namespaces,
    properties_of,
    refused,
)
from tests.behaviours.modes import in_directory_mode
from tests.behaviours.places import Place

pytestmark = in_directory_mode


def test_the_root_exists_and_holds_no_namespaces(catalog: api.LanceNamespace) -> None:
    assert namespace_exists(catalog)
    assert namespaces(catalog) == []
    assert properties_of(catalog) == {}


@pytest.mark.parametrize("call", NAMESPACE_CALLS)
def test_child_namespaces_are_not_supported(
    catalog: api.LanceNamespace, place: Place, call: str
) -> None:
    with refused(ErrorCode.UNSUPPORTED):
        NAMESPACE_CALLS[call](catalog, ["prod"])

    assert place.files() == {}


@pytest.mark.parametrize("call", TABLE_CALLS)
def test_tables_of_child_namespaces_are_not_supported(
    catalog: api.LanceNamespace, place: Place, call: str
) -> None:
    with refused(ErrorCode.UNSUPPORTED):
        TABLE_CALLS[call](catalog, ["prod", "people"])

    assert place.files() == {}
