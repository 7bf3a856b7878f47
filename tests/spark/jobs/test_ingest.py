"""Files into tables: each once, whatever crashes, and bad records once too."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.lake import Lake
from tiltyard.errors import InternalError
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.namespace.writes import Writes
from tiltyard.spark.jobs import Frame, Source, ingest

IDS = pa.schema([("id", pa.int64())])


class Inbox:
    """A folder of source files, and a job that loads them."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self.lake = lake
        self.folder = folder
        folder.mkdir()

    def put(self, name: str, *ids: int) -> None:
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), self.folder / name)

    def load(self, **options: Any) -> Counter[str]:
        """Load everything into the table `t`, and count what became of the files."""
        sources = options.pop("sources", {"t": Source(str(self.folder), schema=IDS)})
        rows = ingest(self.lake.catalog, sources, spark=self.lake.spark, **options).collect()
        self.rows = rows
        return Counter(row.action for row in rows)

    def ids(self, table: str = "t") -> list[int]:
        return sorted(self.lake.open(table).to_table()["id"].to_pylist())


@pytest.fixture
def inbox(lake: Lake, tmp_path: Path) -> Inbox:
    return Inbox(lake, tmp_path / "inbox")


def test_a_second_run_loads_only_new_files_even_after_a_clean_up(inbox: Inbox) -> None:
    inbox.put("a.parquet", 1, 2)
    inbox.put("b.parquet", 3)
    (inbox.folder / "c.csv").write_text("id\n4\n")
    assert inbox.load() == {"loaded": 3}
    assert {row.version for row in inbox.rows} == {2}  # many small files share one commit

    inbox.lake.catalog.maintenance.optimize_table(["t"])
    inbox.lake.append("t", {"id": [100]})
    policy = CleanupPolicy(1, min_age=0, allow_young=True, allow_below_recovery_floor=True)
    inbox.lake.catalog.maintenance.cleanup_table(["t"], policy)
    inbox.put("d.parquet", 5)

    assert inbox.load() == {"present": 3, "loaded": 1}
    assert inbox.ids() == [1, 2, 3, 4, 5, 100]
    assert inbox.load() == {"present": 4}


def test_bad_records_broken_files_and_many_tables_in_one_job(inbox: Inbox) -> None:
    (inbox.folder / "a.csv").write_text("id\n1\nx\n")
    (inbox.folder / "b.parquet").write_bytes(b"no parquet")
    inbox.put("c.parquet", 3)
    folder = inbox.folder
    sources = {
        "t": Source(f"{folder}/*", schema=IDS),
        "strict": Source(f"{folder}/*.csv", schema=IDS, max_rejects=0),
        "u": Source(f"{folder}/c.parquet", columns={"id": "number"}),
        "v": "/nowhere/at/all",
    }

    for run in ("loaded", "present"):
        inbox.load(sources=sources)
        rows = {(row.table, Path(row.source).name): row for row in inbox.rows}
        assert {key: row.action for key, row in rows.items()} == {
            ("t", "a.csv"): run,
            ("t", "b.parquet"): "failed",
            ("t", "c.parquet"): run,
            ("strict", "a.csv"): "failed",
            ("u", "c.parquet"): run,
            ("v", "all"): "failed",
        }
        assert "can't be read as parquet" in rows["t", "b.parquet"].error
        assert "there is no file" in rows["v", "all"].error
    assert inbox.ids() == [1, 3]
    assert inbox.lake.open("u").to_table().to_pydict() == {"number": [3]}
    (reject,) = inbox.lake.open("t_rejects").to_table().to_pylist()
    assert (reject["table"], reject["number"]) == ("t", 2)
    assert reject["record"] == '{"id": "x"}'


@pytest.mark.parametrize("moment", ["before", "after rejects", "after"])
def test_a_crash_at_a_commit_neither_loses_nor_doubles(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    (inbox.folder / "a.csv").write_text("id\n1\nx\n")
    inbox.put("b.parquet", 2)
    finish = Writes.finish
    tables = {"before": "t_rejects", "after rejects": "t", "after": "t"}

    def crash(writes: Any, pending: Any, fragments: Any, *args: Any, **kwargs: Any) -> Any:
        is_it = pending.id == (tables[moment],) and fragments
        if is_it and moment in ("before", "after rejects"):
            raise InternalError("crashed")
        finished = finish(writes, pending, fragments, *args, **kwargs)
        if is_it:
            raise InternalError("crashed")
        return finished

    with monkeypatch.context() as patch:
        patch.setattr(Writes, "finish", crash)
        assert inbox.load() == {"failed": 2}
    shutil.rmtree(Path(inbox.lake.root) / "__writes", ignore_errors=True)

    for _ in range(2):
        inbox.load()
        assert inbox.ids() == [1, 2]
        assert inbox.lake.open("t_rejects").count_rows() == 1


def test_files_that_another_job_loads_meanwhile_are_left_to_it(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        inbox.put(f"{number}.parquet", number)
    finish = Writes.finish_load
    first = [True]

    def overtaken(writes: Any, *args: Any) -> Any:
        if first:
            first.clear()
            ingest(inbox.lake.catalog, {"t": f"{inbox.folder}/1.parquet"}, spark=inbox.lake.spark)
        return finish(writes, *args)

    monkeypatch.setattr(Writes, "finish_load", overtaken)

    assert inbox.load() == {"loaded": 2, "present": 1}
    assert inbox.ids() == [0, 1, 2]


def test_limits_a_dry_run_and_loading_again(inbox: Inbox) -> None:
    for number in range(4):
        inbox.put(f"{number}.parquet", number)
    size = (inbox.folder / "0.parquet").stat().st_size

    assert inbox.load(dry_run=True) == {"planned": 4}
    assert inbox.load(max_bytes=2 * size) == {"loaded": 2, "left": 2}
    assert inbox.load(files_per_commit=1) == {"present": 2, "loaded": 2}
    assert len({row.version for row in inbox.rows if row.action == "loaded"}) == 2
    assert inbox.load(again=True) == {"loaded": 4}
    assert inbox.ids() == sorted([*range(4), *range(4)])


def test_a_dataframe_is_loaded_once_by_the_name_of_its_batch(inbox: Inbox) -> None:
    spark = inbox.lake.spark
    rows = spark.range(5).repartition(2)

    assert inbox.load(sources={"t": Frame(rows, "monday")}) == {"loaded": 1}
    assert (inbox.rows[0].rows, inbox.rows[0].version) == (5, 2)
    assert inbox.load(sources={"t": Frame(rows, "monday")}) == {"present": 1}
    assert inbox.load(sources={"t": Frame(spark.range(5, 7), "tuesday")}) == {"loaded": 1}
    assert inbox.ids() == list(range(7))
    wrong = spark.sql("SELECT 'x' AS other")
    assert inbox.load(sources={"t": Frame(wrong, "wednesday")}) == {"failed": 1}
