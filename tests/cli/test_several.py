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
    dropped = tiltyard("table", "drop", "a", "--yes", "-o", "csv")
    assert dropped.out == f"table,location\na,{tmp_path}/lake/a.lance\n"


def test_several_tables_are_declared_and_dropped_in_one_commit(
    tiltyard: Tiltyard, tmp_path: Path
) -> None:
    tiltyard(*MANIFEST, "ns", "create", "n")
    tiltyard(*MANIFEST, "ns", "create", "m")  # the second change notes the format, once
    before = _versions(tmp_path / "lake")
    assert tiltyard(*MANIFEST, "table", "declare", "n.a", "n.b", "c").status == 0
    assert _versions(tmp_path / "lake") == before + 1
    assert tiltyard(*MANIFEST, "table", "drop", "n.a", "n.b", "c", "--yes").status == 0
    assert _versions(tmp_path / "lake") == before + 2
    assert tiltyard(*MANIFEST, "table", "list", "--all", "-o", "csv").lines == ["table"]


def test_of_several_names_all_are_declared_or_none(tiltyard: Tiltyard) -> None:
    tiltyard(*MANIFEST, "table", "declare", "taken")
    refused = tiltyard(*MANIFEST, "table", "declare", "free", "taken")
    assert (refused.status, "'taken' already exists" in refused.err) == (5, True)
    assert tiltyard(*MANIFEST, "table", "exists", "free").status == 4


def test_of_several_tables_all_are_dropped_or_none(tiltyard: Tiltyard) -> None:
    tiltyard(*MANIFEST, "table", "declare", "here")
    refused = tiltyard(*MANIFEST, "table", "drop", "here", "nothing", "--yes")
    assert (refused.status, "'nothing' was not found" in refused.err) == (4, True)
    assert tiltyard(*MANIFEST, "table", "exists", "here").status == 0


def test_a_drop_of_several_asks_how_many_they_are(tiltyard: Tiltyard) -> None:
    tiltyard("table", "declare", "a", "b", "c")
    wrong = tiltyard("table", "drop", "a", "b", typed="a\n")
    asked, said = wrong.err.split("error: ")
    assert (wrong.status, asked) == (2, "About to drop tables a, b. Type how many they are: ")
    assert said == "that is not how many they are, so nothing was done\n"
    right = tiltyard("table", "drop", "a", "b", typed="2\n")
    assert right.status == 0
    assert tiltyard("table", "list", "-o", "csv").lines == ["table", "c"]


def test_a_script_says_yes_to_several_beforehand(tiltyard: Tiltyard) -> None:
    tiltyard("table", "declare", "a", "b")
    refused = tiltyard("table", "drop", "a", "b")
    assert (refused.status, "--yes" in refused.err) == (2, True)
    done = tiltyard("table", "drop", "a", "b", "--yes")
    assert (done.status, done.err) == (0, "Dropped table a.\nDropped table b.\n")


def test_a_drop_of_several_says_at_once_that_one_is_not_there(tiltyard: Tiltyard) -> None:
    tiltyard("table", "declare", "a")
    refused = tiltyard("table", "drop", "a", "nothing", typed="2\n")
    assert (refused.status, "Type how many" in refused.err) == (4, False)


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
        (["drop", "a", "a", "--yes"], "a is named twice"),
        (["drop", "a", '"a"', "--yes"], '"a" is named twice'),
        (["register", "a", "a.lance", "a", "b.lance"], "a is named twice"),
        (["register", "a", "a.lance", "b"], "b has no location"),
    ],
)
def test_what_can_not_be_meant_is_refused(
    tiltyard: Tiltyard, arguments: list[str], message: str
) -> None:
    refused = tiltyard("table", *arguments)
    assert (refused.status, refused.err.splitlines()[0]) == (2, f"error: {message}")
