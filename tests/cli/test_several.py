"""Commands that take several tables: one commit, one line or one row for each of them."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pytest

from tests.cli.conftest import Tiltyard

MANIFEST = ("--mode", "manifest")


def _versions(catalog: Path) -> int:
    """How many versions the manifest has."""
    return lance.dataset(str(catalog / "__manifest")).version


def test_several_names_are_declared_with_a_line_for_each(
    tiltyard: Tiltyard, tmp_path: Path
) -> None:
    done = tiltyard("table", "declare", "a", "b")
    assert (done.status, done.out) == (0, "")
    assert done.err.replace(str(tmp_path), "").splitlines() == [
        "Declared table a at /lake/a.lance.",
        "Declared table b at /lake/b.lance.",
    ]


def test_several_changes_are_rows_for_programs(tiltyard: Tiltyard, tmp_path: Path) -> None:
    done = tiltyard("table", "declare", "a", "b", "-o", "jsonl")
    assert (done.err, [json.loads(line) for line in done.lines]) == (
        "",
        [
            {"table": "a", "location": f"{tmp_path}/lake/a.lance"},
            {"table": "b", "location": f"{tmp_path}/lake/b.lance"},
        ],
    )


def test_one_change_has_the_same_form_as_several(tiltyard: Tiltyard, tmp_path: Path) -> None:
    done = tiltyard("table", "declare", "a", "-o", "json")
    assert json.loads(done.out) == [{"table": "a", "location": f"{tmp_path}/lake/a.lance"}]
    header, row = tiltyard("table", "drop", "a", "-o", "csv").lines
    assert header == "table,location,generation,expires_at"
    assert row.startswith(f"a,{tmp_path}/lake/a.lance,")


def test_several_tables_are_declared_and_dropped_in_one_commit(
    tiltyard: Tiltyard, tmp_path: Path
) -> None:
    tiltyard(*MANIFEST, "ns", "create", "n")
    tiltyard(*MANIFEST, "ns", "create", "m")  # the second change notes the format, once
    before = _versions(tmp_path / "lake")
    assert tiltyard(*MANIFEST, "table", "declare", "n.a", "n.b", "c").status == 0
    assert _versions(tmp_path / "lake") == before + 1
    assert tiltyard(*MANIFEST, "table", "drop", "n.a", "n.b", "c").status == 0
    assert _versions(tmp_path / "lake") == before + 2
    assert tiltyard(*MANIFEST, "table", "list", "--all", "-o", "csv").lines == ["table"]


def test_of_several_names_all_are_declared_or_none(tiltyard: Tiltyard) -> None:
    tiltyard(*MANIFEST, "table", "declare", "taken")
    refused = tiltyard(*MANIFEST, "table", "declare", "free", "taken")
    assert (refused.status, "'taken' already exists" in refused.err) == (5, True)
    assert tiltyard(*MANIFEST, "table", "exists", "free").status == 4


def test_of_several_tables_all_are_dropped_or_none(tiltyard: Tiltyard) -> None:
    tiltyard(*MANIFEST, "table", "declare", "here")
    refused = tiltyard(*MANIFEST, "table", "drop", "here", "nothing")
    assert (refused.status, "'nothing' was not found" in refused.err) == (4, True)
    assert tiltyard(*MANIFEST, "table", "exists", "here").status == 0


def test_several_tables_are_registered_with_their_locations(
    tiltyard: Tiltyard, tmp_path: Path
) -> None:
    tiltyard("table", "declare", "a", "b")
    tiltyard("table", "deregister", "a")
    tiltyard("table", "deregister", "b")
    done = tiltyard("table", "register", "a", "a.lance", "b", "b.lance")
    assert done.err.replace(str(tmp_path), "").splitlines() == [
        "Registered table a at /lake/a.lance.",
        "Registered table b at /lake/b.lance.",
    ]
    assert tiltyard("table", "list", "-o", "csv").lines == ["table", "a", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["declare", "a", "b", "a"], "a is named twice"),
        (["drop", "a", "a"], "a is named twice"),
        (["drop", "a", '"a"'], '"a" is named twice'),
        (["register", "a", "a.lance", "a", "b.lance"], "a is named twice"),
        (["register", "a", "a.lance", "b"], "b has no location"),
    ],
)
def test_what_can_not_be_meant_is_refused(
    tiltyard: Tiltyard, arguments: list[str], message: str
) -> None:
    refused = tiltyard("table", *arguments)
    assert (refused.status, refused.err.splitlines()[0]) == (2, f"error: {message}")
