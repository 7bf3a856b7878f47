"""The same requests to pylance's own namespace, where it answers otherwise than ours."""

from __future__ import annotations

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours import data
from tests.behaviours.calls import create, refused
from tests.behaviours.data import POINTS, branch, count, delete, ids, insert, query
from tests.behaviours.modes import COMPATIBILITY

Catalog = api.LanceNamespace

pytestmark = [
    pytest.mark.parametrize("place", ["disk"], indirect=True),
    pytest.mark.parametrize("mode", [COMPATIBILITY], indirect=True, ids=str),
]


def test_pylance_reads_a_condition_only_in_part(catalog: Catalog, pylance: Catalog) -> None:
    create(catalog, "points", data=POINTS)
    with refused(ErrorCode.INVALID_INPUT):
        delete(catalog, "id = 1 AN text = 'x'")
    assert ids(catalog) == [1, 2, 3, 4]
    delete(pylance, "id = 1 AN text = 'x'")
    assert ids(catalog) == [2, 3, 4]


def test_pylance_inserts_into_the_main_branch_whatever_is_asked(
    catalog: Catalog, pylance: Catalog
) -> None:
    create(catalog, "points", data=POINTS)
    branch(catalog, "side", from_version=1)
    insert(catalog, branch="side")
    assert (count(catalog), count(catalog, branch="side")) == (4, 8)
    insert(pylance, branch="side")
    assert (count(catalog), count(catalog, branch="side")) == (8, 8)


def test_both_answer_queries_with_the_same_bytes_format(catalog: Catalog, pylance: Catalog) -> None:
    create(catalog, "points", data=POINTS)
    for asked in (
        {},
        {"k": 2, "filter": "id > 1", "columns": ["id", "inner.x"]},
        {"vector": [2.2, 0], "k": 3, "with_row_id": True},
        {"vector": [1, 0], "k": 2, "filter": "id > 2", "prefilter": True},
        {"vector": [1, 0], "k": 2, "filter": "id > 2", "prefilter": False},
    ):
        assert query(catalog, **asked) == query(pylance, **asked), asked


def test_what_one_makes_the_other_uses(catalog: Catalog, pylance: Catalog) -> None:
    create(catalog, "points", data=POINTS)
    data.index(pylance, "text", "FTS")
    data.tag(pylance, "theirs", 1)
    data.tag(catalog, "ours", 2)
    assert list(data.indexes(catalog)) == ["text_idx"]
    for each in (catalog, pylance):
        listed = each.list_table_tags(api.ListTableTagsRequest(id=["points"])).tags
        assert {name: found.version for name, found in listed.items()} == {"theirs": 1, "ours": 2}
