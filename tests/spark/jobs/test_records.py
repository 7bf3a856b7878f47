"""Records of every format as rows of a table, and those that can't be, told apart one by one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tiltyard.errors import InvalidInputError, TableSchemaValidationError
from tiltyard.job_options import SourceOptions
from tiltyard.spark.jobs.records import Records, Reject, TooManyRejects, schema_of
from tiltyard.spark.jobs.sources import find

SCHEMA = pa.schema([("id", pa.int32()), ("text", pa.string()), ("at", pa.timestamp("us"))])


def _read(
    path: Path, schema: pa.Schema = SCHEMA, **options: Any
) -> tuple[list[dict[str, Any]], list[Reject]]:
    (file,) = find(str(path), {})
    records = Records(file, {}, schema, SourceOptions(**options))
    rows = [row for batch in records.batches() for row in batch.to_pylist()]
    assert records.rows == len(rows)
    return rows, records.rejects


def test_csv_with_bad_values_and_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(
        "ID,text,at\n1,a,2026-05-04\n2,b\nx,c,2026-05-04\n4,NA,\n5,e,yesterday\n6,f,2026-05-04\n"
    )

    rows, rejects = _read(path)

    assert [(row["id"], row["text"]) for row in rows] == [(1, "a"), (4, "NA"), (6, "f")]
    assert rows[1]["at"] is None
    assert sorted(reject.number for reject in rejects) == [2, 3, 5]
    by_number = {reject.number: reject for reject in rejects}
    assert by_number[2].record == "2,b"
    assert by_number[3].reason.startswith("id: ")
    assert json.loads(by_number[5].record) == {"ID": "5", "text": "e", "at": "yesterday"}


def test_lines_of_json_with_bad_ones_among_them(tmp_path: Path) -> None:
    lines = [json.dumps({"id": number, "text": str(number)}) for number in range(1000)]
    lines[10] = "{"
    lines[500] = json.dumps({"id": "no number"})
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))

    rows, rejects = _read(path)

    assert len(rows) == 998
    assert [(reject.number, reject.record) for reject in rejects] == [(11, "{"), (501, lines[500])]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_numbers_that_do_not_fit_are_rejected_by_record(tmp_path: Path, ending: str) -> None:
    rows = pa.table({"id": [1, 2**40, 3], "text": ["a", "b", "c"], "at": [None, None, None]})
    path = tmp_path / f"in.{ending}"
    if ending == "parquet":
        pq.write_table(rows, path)
    else:
        with pa.ipc.new_file(str(path), rows.schema) as writer:
            writer.write_table(rows)

    read, rejects = _read(path)

    assert [row["id"] for row in read] == [1, 3]
    assert [reject.number for reject in rejects] == [2]
    assert json.loads(rejects[0].record)["id"] == 2**40


def test_columns_are_renamed_left_out_and_left_null_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"number": [1], "other": [2]}), path)

    rows, _ = _read(path, columns={"number": "id"}, extra="ignore")
    assert rows == [{"id": 1, "text": None, "at": None}]
    with pytest.raises(TableSchemaValidationError, match="no column 'other'"):
        _read(path, columns={"number": "id"})
    with pytest.raises(TableSchemaValidationError, match="no column 'text'"):
        _read(path, columns={"number": "id"}, extra="ignore", missing="error")


def test_lines_of_json_may_have_the_old_name_of_a_column_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text('{"number": 1}\n{"id": 2}\n{"text": "c"}\n')

    rows, rejects = _read(path, columns={"number": "id"})

    assert [row["id"] for row in rows] == [1, 2, None]
    assert rejects == []


def test_a_null_where_none_may_be_is_a_reject(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": pa.array([1, None], pa.int32())}), path)

    rows, rejects = _read(path, pa.schema([pa.field("id", pa.int32(), nullable=False)]))

    assert rows == [{"id": 1}]
    assert [(reject.number, reject.reason) for reject in rejects] == [(2, "id: it can't be null")]


def test_too_many_bad_records_and_a_broken_file_are_errors(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("id\n" + "x\n" * 5)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"not parquet")

    with pytest.raises(TooManyRejects, match="more than 4"):
        _read(bad, pa.schema([("id", pa.int32())]), max_rejects=4)
    with pytest.raises(InvalidInputError, match="can't be read as parquet"):
        _read(broken)


def test_a_vector_comes_from_a_list_and_one_of_another_length_does_not(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text('{"v": [1, 2]}\n{"v": [1, 2, 3]}\n{"v": null}\n')

    rows, rejects = _read(path, pa.schema([("v", pa.list_(pa.float32(), 2))]))

    assert [row["v"] for row in rows] == [[1.0, 2.0], None]
    assert [reject.number for reject in rejects] == [2]


def test_a_new_table_gets_the_columns_of_its_first_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n")
    (tmp_path / "b.json").write_text('{"id": 1, "deep": {"a": [1.5]}, "none": null}\n')
    csv, lines = find(str(tmp_path), {})

    assert schema_of(csv, {}, SourceOptions(columns={"name": "called"})) == pa.schema(
        [("id", pa.int64()), ("called", pa.string())]
    )
    assert schema_of(lines, {}, SourceOptions()).field("none").type == pa.string()
