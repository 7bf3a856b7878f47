"""`tiltyard optimize` and `tiltyard cleanup`: what people see, what scripts get, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiltyard as package
from tests.behaviours.calls import create
from tests.cli.conftest import Tiltyard
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import ManualClock, fragments, rows, scattered
from tests.maintenance.test_optimize_catalog import grow_old, scatter
from tiltyard import DirectoryNamespace
from tiltyard.clock import SYSTEM_CLOCK, Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr("tiltyard.clock.SYSTEM_CLOCK", Clock(clock.now_ms, SYSTEM_CLOCK.token))
    return clock


@pytest.fixture
def lake(tiltyard: Tiltyard, tmp_path: Path) -> DirectoryNamespace:
    """Two tables of six fragments and versions."""
    catalog = package.connect(tmp_path / "lake", manifest_enabled=False)
    for name in ("people", "plants"):
        scattered(catalog, name, 6)
    return catalog


def versions(tiltyard: Tiltyard, table: str) -> int:
    return len(json.loads(tiltyard("table", "versions", table, "-o", "json").out))


def test_a_table_is_optimized(tiltyard: Tiltyard, lake: DirectoryNamespace) -> None:
    ended = tiltyard("optimize", "people")
    assert ended.status == 0, ended.err
    assert "people" in ended.out
    assert "6 files became 1" in ended.err
    assert (fragments(lake, "people"), fragments(lake, "plants")) == (1, 6)
    again = tiltyard("optimize", "people")
    assert (again.status, again.out) == (0, "")
    assert "Optimized 0 tables; 1 had nothing to do." in again.err


def test_programs_see_every_table(tiltyard: Tiltyard, lake: DirectoryNamespace) -> None:
    ended = tiltyard("optimize", "--all", "-o", "json")
    assert ended.status == 0, ended.err
    rows = json.loads(ended.out)
    assert [row["table"] for row in rows] == ["people", "plants"]
    assert [row["fragments_removed"] for row in rows] == [6, 6]
    assert set(rows[0]) == {
        *("table", "fragments_removed", "fragments_added", "files_before", "files_after"),
        *("bytes_before", "bytes_after", "bytes_rewritten", "version", "committed"),
        *("skipped", "warning", "error"),
    }


def test_one_broken_table_is_a_run_that_failed_in_part(
    tiltyard: Tiltyard, lake: DirectoryNamespace, tmp_path: Path
) -> None:
    min((tmp_path / "lake" / "plants.lance" / "data").iterdir()).write_bytes(b"rubbish")
    ended = tiltyard("optimize", "--all")
    assert ended.status == 3
    assert "1 failed" in ended.err
    assert "plants" in ended.out
    assert tiltyard("optimize", "plants").status == 1


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_a_fragment_that_can_not_be_read_stops_only_its_own_table(
    clock: ManualClock, tiltyard: Tiltyard, tmp_path: Path, count: int
) -> None:
    catalog = package.connect(tmp_path / "lake", manifest_enabled=False)
    every = [f"t{number:02}" for number in range(count)]
    for name in every:
        scattered(catalog, name, 5)
    broken, *others = every
    min((tmp_path / "lake" / f"{broken}.lance" / "data").iterdir()).write_bytes(b"rubbish")
    ended = tiltyard("optimize", "--all", "-o", "json")
    assert ended.status == 3
    found = {row["table"]: row for row in json.loads(ended.out)}
    assert [name for name, row in found.items() if row["error"]] == [broken]
    assert {name for name, row in found.items() if row["files_after"] == 1} == set(others)
    assert [fragments(catalog, name) for name in others] == [1] * len(others)

    manifests = (tmp_path / "lake" / f"{broken}.lance" / "_versions").glob("*.manifest")
    min(manifests).write_bytes(b"rubbish")
    clock.pass_days(8)
    ended = tiltyard("cleanup", "--all", "--keep-versions", "3", "--apply", "--yes", "-o", "json")
    assert ended.status == 3
    found = {row["table"]: row for row in json.loads(ended.out)}
    assert [name for name, row in found.items() if row["error"]] == [broken]
    assert [found[name]["versions_removed"] for name in others] == [3] * len(others)


def test_the_catalog_itself_is_optimized(tiltyard: Tiltyard, tmp_path: Path) -> None:
    mode = ("--mode", "manifest")
    catalog = package.connect(tmp_path / "lake", dir_listing_enabled=False)
    for name in ("people", "plants", "stones"):
        create(catalog, name)
    scatter(tmp_path / "lake")
    grow_old(catalog, tmp_path / "lake", 8, but=3)
    ended = tiltyard(*mode, "optimize", "--catalog")
    assert ended.status == 0, ended.err
    assert "fragments became 1; removed" in ended.err
    again = tiltyard(*mode, "optimize", "--catalog", "-o", "json")
    row = json.loads(again.out)
    assert (row["committed"], row["versions_removed"], row["fragments_after"]) == (False, 0, 1)
    assert tiltyard(*mode, "optimize", "--catalog").err == "There was nothing to join.\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--catalog", "--all"),
        ("--catalog", "people"),
        ("--catalog", "--target-rows", "9"),
        ("people", "--min-age", "7d"),
        ("--catalog", "--min-age", "soon"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_with_the_catalog_is_refused(
    tiltyard: Tiltyard, lake: DirectoryNamespace, words: tuple[str, ...]
) -> None:
    assert tiltyard("optimize", *words).status == 2


def test_tables_have_to_be_named_or_all_be_meant(
    tiltyard: Tiltyard, lake: DirectoryNamespace
) -> None:
    for verb in ("optimize", "cleanup"):
        assert tiltyard(verb).status == 2
        assert tiltyard(verb, "people", "--all").status == 2
        assert tiltyard(verb, "people", "--in", "prod").status == 2


def test_a_clean_up_only_tells_unless_it_is_to_be_done(
    clock: ManualClock, tiltyard: Tiltyard, lake: DirectoryNamespace
) -> None:
    clock.pass_days(8)
    ended = tiltyard("cleanup", "people", "--keep-versions", "4", "--older-than", "7d")
    assert ended.status == 0, ended.err
    assert "Would remove 2 versions" in ended.err
    assert "4 among the newest 4" in ended.out or "3 among the newest 4" in ended.out
    assert versions(tiltyard, "people") == 6


def test_the_default_keeps_ten(
    clock: ManualClock, tiltyard: Tiltyard, lake: DirectoryNamespace
) -> None:
    clock.pass_days(8)
    ended = tiltyard("cleanup", "--all")
    assert "nothing to clean up" in ended.err


def test_it_is_done_once_the_name_is_typed(
    clock: ManualClock, tiltyard: Tiltyard, lake: DirectoryNamespace
) -> None:
    clock.pass_days(8)
    asked = ("cleanup", "people", "--keep-versions", "3", "--apply")
    assert tiltyard(*asked).status == 2
    assert tiltyard(*asked, typed="plants\n").status == 2
    assert versions(tiltyard, "people") == 6
    ended = tiltyard(*asked, typed="people\n")
    assert ended.status == 0, ended.err
    assert "Removed 3 versions" in ended.err
    assert versions(tiltyard, "people") == 3


def test_of_several_their_number_is_typed(
    clock: ManualClock, tiltyard: Tiltyard, lake: DirectoryNamespace
) -> None:
    clock.pass_days(8)
    ended = tiltyard("cleanup", "--all", "--keep-versions", "3", "--apply", typed="2\n")
    assert ended.status == 0, ended.err
    assert (versions(tiltyard, "people"), versions(tiltyard, "plants")) == (3, 3)
    again = tiltyard("cleanup", "--all", "--keep-versions", "3", "--apply")
    assert (again.status, again.out) == (0, ""), "nothing to do, so nothing is asked"


def test_less_than_the_recovery_floor_has_to_be_allowed(
    clock: ManualClock, tiltyard: Tiltyard, lake: DirectoryNamespace
) -> None:
    clock.pass_days(8)
    refused = tiltyard("cleanup", "people", "--keep-versions", "1")
    assert refused.status == 2
    assert "--allow-below-recovery-floor" in refused.err
    allowed = tiltyard("cleanup", "people", "--keep-versions", "1", "--allow-below-recovery-floor")
    assert "Would remove 5 versions" in allowed.err


def test_so_has_a_lower_age(
    clock: ManualClock, tiltyard: Tiltyard, lake: DirectoryNamespace
) -> None:
    young = ("cleanup", "people", "--keep-versions", "3", "--min-age", "0s")
    refused = tiltyard(*young)
    assert refused.status == 2
    assert "--allow-young" in refused.err
    assert "Would remove 3 versions" in tiltyard(*young, "--allow-young").err


def test_scripts_get_a_row_for_each_table(
    clock: ManualClock, tiltyard: Tiltyard, lake: DirectoryNamespace, tmp_path: Path
) -> None:
    clock.pass_days(8)
    manifests = (tmp_path / "lake" / "plants.lance" / "_versions").glob("*.manifest")
    min(manifests).write_bytes(b"rubbish")
    ended = tiltyard("cleanup", "--all", "--keep-versions", "3", "--apply", "--yes", "-o", "json")
    assert ended.status == 3
    people, plants = json.loads(ended.out)
    assert (people["table"], people["versions_removed"], people["error"]) == ("people", 3, None)
    assert (plants["table"], plants["versions_removed"]) == ("plants", 0)
    assert plants["error"]


def test_versions_of_branches_go_only_if_they_are_meant(
    clock: ManualClock, tiltyard: Tiltyard, lake: DirectoryNamespace
) -> None:
    branch = to_change(lake, "people").create_branch("dev")
    for number in range(5):
        branch.insert(rows(number))
    clock.pass_days(8)
    asked = ("cleanup", "people", "--keep-versions", "4")
    spared = tiltyard(*asked)
    assert "old versions of branches: 2 on 'dev'" in spared.out
    assert "Would remove 2 versions" in spared.err
    meant = tiltyard(*asked, "--branches", "--apply", "--yes")
    assert meant.status == 0, meant.err
    assert "Removed 4 versions" in meant.err
    assert to_change(lake, "people").checkout_version(("dev", None)).count_rows() == 65
