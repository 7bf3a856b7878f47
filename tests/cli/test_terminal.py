"""What a person at a terminal sees: bars, questions, and what Ctrl-C leaves behind."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_namespace import DropTableRequest

from tests.cli.terminals import CTRL_C, terminal
from tiltyard import DirectoryNamespace, connect


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def fill(lake: Path, tables: int, *, fragments: int = 1) -> DirectoryNamespace:
    """A catalog of tables t000, t001, ... of 20 rows each."""
    catalog = connect(lake, dir_listing_enabled=False)
    rows = pa.table({"id": range(20)})
    for name in names_of(tables):
        lance.write_dataset(
            rows,
            namespace_client=catalog,
            table_id=[name],
            max_rows_per_file=rows.num_rows // fragments,
        )
    return catalog


def names_of(tables: int) -> list[str]:
    return [f"t{number:03}" for number in range(tables)]


def drop(catalog: DirectoryNamespace, names: list[str]) -> None:
    catalog.drop_tables([DropTableRequest(id=[name]) for name in names])


def state(catalog: DirectoryNamespace, name: str) -> str:
    return str(catalog.table_status([name]).state)


MANIFEST = ("--mode", "manifest")


def test_a_question_takes_the_name_and_nothing_else(lake: Path) -> None:
    catalog = fill(lake, 1)
    drop(catalog, ["t000"])
    purge = (*MANIFEST, "trash", "purge", "t000", "--apply")
    with terminal(lake, *purge) as screen:
        screen.wait_for("Type its name: ")
        screen.type("yes\n")
        assert screen.end() == 2
    assert "nothing was done" in screen.text
    assert state(catalog, "t000") == "soft_deleted"

    with terminal(lake, *purge) as screen:
        screen.wait_for("Type its name: ")
        screen.type("t000\n")
        assert screen.end() == 0
    assert state(catalog, "t000") == "not_found"


def test_ctrl_c_at_a_question_does_nothing(lake: Path) -> None:
    catalog = fill(lake, 1)
    drop(catalog, ["t000"])
    with terminal(lake, *MANIFEST, "trash", "purge", "t000", "--apply") as screen:
        screen.wait_for("Type its name: ")
        screen.type(CTRL_C)
        assert screen.end() == 130
    assert "stopped by hand" in screen.text
    assert "Traceback" not in screen.text
    assert state(catalog, "t000") == "soft_deleted"


def test_ctrl_c_in_a_purge_loses_nothing_and_the_next_run_goes_on(lake: Path) -> None:
    catalog = fill(lake, 60)
    dropped = names_of(60)[:-1]
    drop(catalog, dropped)
    purge = (*MANIFEST, "trash", "purge", "--older-than", "0s", "--apply")
    with terminal(lake, *purge, hold_after=20) as screen:
        screen.wait_for("Type how many they are: ")
        screen.type("59\n")
        screen.wait_for(r"Purging .*[1-9]\d*/59")
        screen.type(CTRL_C)
        assert screen.end() == 130
    assert "run it again to go on" in screen.text
    left = [name for name in dropped if state(catalog, name) != "not_found"]
    assert 0 < len(left) < len(dropped)

    with terminal(lake, *purge, "--yes") as screen:
        assert screen.end() == 0
    assert {state(catalog, name) for name in dropped} == {"not_found"}
    assert catalog.open_table(["t059"]).count_rows() == 20, "which nobody had dropped"


def test_ctrl_c_while_tables_are_optimized_loses_no_row_and_the_next_run_goes_on(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTYARD_MAINTENANCE_CONCURRENCY", "2")
    catalog = fill(lake, 60, fragments=4)

    def fragments() -> list[int]:
        return [len(catalog.open_table([name]).get_fragments()) for name in names_of(60)]

    with terminal(lake, *MANIFEST, "optimize", "--all", hold_after=20) as screen:
        screen.wait_for(r"Optimizing .*[1-9]\d*/60")
        screen.type(CTRL_C)
        assert screen.end() == 130
    assert set(fragments()) == {1, 4}, "some tables were done, and others not begun"

    with terminal(lake, *MANIFEST, "optimize", "--all") as screen:
        assert screen.end() == 0
    assert set(fragments()) == {1}
    rows = {tuple(catalog.open_table([name]).to_table()["id"].to_pylist()) for name in names_of(60)}
    assert rows == {tuple(range(20))}


def test_a_bar_tells_how_far_how_fast_and_how_long_still(lake: Path) -> None:
    fill(lake, 12, fragments=2)
    with terminal(lake, *MANIFEST, "optimize", "--all") as screen:
        assert screen.end() == 0
    assert re.search(r"Optimizing .*\d+/12 .*\d+/s .*\d:\d\d", screen.text), screen.text


def test_colours_are_for_terminals_only(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(lake, "table", "describe", "nothing") as screen:
        assert screen.end() == 4
    assert "\x1b[1;31m" in screen.raw
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal(lake, "table", "describe", "nothing") as screen:
        assert screen.end() == 4
    assert "\x1b[1;31m" not in screen.raw
