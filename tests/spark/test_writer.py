"""The writer as Spark drives it: made once, pickled, run by tasks, and ended by commit or abort,
each in a process of its own. No Spark runs here."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

import tiltyard
from tests.kit.catalogs import open_over
from tests.kit.stores import Fault, FaultyStore
from tests.spark import lake
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableSchemaValidationError,
)
from tiltyard.namespace.writes import Writes
from tiltyard.spark import target
from tiltyard.spark.options import WriteOptions
from tiltyard.spark.write import WriteMessage, Writer
from tiltyard.tables import fragments

ID = StructField("id", LongType(), True)
NAME = StructField("name", StringType(), True)
PEOPLE = StructType([ID, NAME])


class Job:
    """One write, the way Spark carries it out."""

    def __init__(
        self,
        root: Path | None,
        schema: StructType = PEOPLE,
        *,
        overwrite: bool = False,
        **options: Any,
    ):
        catalog = {} if root is None else {"root": root, "table": "people"}
        self._writer = Writer(WriteOptions.parse({**catalog, **options}), schema, overwrite)

    def task(self, *batches: dict[str, Sequence[Any]] | pa.RecordBatch) -> WriteMessage:
        return self.run(b if isinstance(b, pa.RecordBatch) else pa.record_batch(b) for b in batches)

    def run(self, batches: Iterable[pa.RecordBatch]) -> WriteMessage:
        sent: WriteMessage = pickle.loads(pickle.dumps(self._copy().write(iter(batches))))
        return sent

    def commit(self, *messages: WriteMessage | None) -> None:
        self._copy().commit(list(messages))

    def abort(self, *messages: WriteMessage | None) -> None:
        self._copy().abort(list(messages))

    def _copy(self) -> Writer:
        copy: Writer = pickle.loads(pickle.dumps(self._writer))
        return copy


def rows(root: Path, table: str = "people") -> list[tuple[Any, ...]]:
    stored = tiltyard.connect(root).open_table([table]).to_table()
    return [tuple(row.values()) for row in stored.to_pylist()]


def some(*numbers: int) -> dict[str, Sequence[Any]]:
    return {"id": list(numbers), "name": [f"n{number}" for number in numbers]}


def data_files(root: Path) -> set[str]:
    return lake.data_files(root, "people")


def owned(root: Path) -> set[str]:
    return lake.owned_files(tiltyard.connect(root).open_table(["people"]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def put(root: Path, data: pa.Table) -> None:
    writes = tiltyard.connect(root).writes
    pending = writes.begin(["people"], "overwrite")
    writes.finish(pending, fragments.write(pending, data.to_reader()), data.schema)


# -- tasks, retried and speculative


def test_a_write_is_one_version_with_a_fragment_per_task(root: Path) -> None:
    job = Job(root)
    messages = [job.task(some(1, 2), some(3)), job.task(some(4)), job.task()]

    job.commit(*messages)

    assert sorted(rows(root)) == [(number, f"n{number}") for number in range(1, 5)]
    table = tiltyard.connect(root).open_table(["people"])
    assert (table.version, len(table.get_fragments())) == (1, 2)


def test_of_a_task_that_ran_twice_only_what_was_reported_counts(root: Path) -> None:
    job = Job(root)
    job.task(some(1))  # was killed before its message arrived
    second = job.task(some(1))
    job.task(some(1))  # speculative, and too late

    job.commit(second, None)

    assert rows(root) == [(1, "n1")]
    assert data_files(root) == owned(root), "what the others wrote is gone"
    assert not list(root.glob("__writes/*/*"))


def test_a_task_that_fails_leaves_nothing(root: Path) -> None:
    job = Job(root, max_rows_per_file=1)

    def batches() -> Any:
        yield pa.record_batch(some(1, 2))
        raise ValueError("boom")

    with pytest.raises(tiltyard.TiltyardError, match="boom"):
        job.run(batches())

    job.abort()
    assert not data_files(root)


# -- ends


def test_an_aborted_job_leaves_no_row_and_no_file(root: Path) -> None:
    put(root, pa.table(some(1)))
    before = data_files(root)
    job = Job(root)
    message = job.task(some(2))
    job.task(some(3))

    job.abort(message, None)

    assert rows(root) == [(1, "n1")]
    assert data_files(root) == before
    assert job.task(some(4)) == WriteMessage(), "and a task that ends later tidies up after itself"
    assert data_files(root) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_abort_after_a_commit_that_landed_loses_nothing(root: Path, overwrite: bool) -> None:
    """Spark aborts whenever the commit raised, whatever the table says."""
    put(root, pa.table(some(1)))
    job = Job(root, overwrite=overwrite)
    messages = [job.task(some(2)), job.task(some(3))]
    job.commit(*messages)

    job.abort(*messages)

    expected = (2, 3) if overwrite else (1, 2, 3)
    assert sorted(rows(root)) == [(number, f"n{number}") for number in expected]


def test_a_commit_that_raised_after_it_landed_is_not_undone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, pa.table(some(1)))
    job = Job(root)
    message = job.task(some(2))
    catalog, store = open_over(FaultyStore, root=root)
    monkeypatch.setattr(target, "opened", lambda properties: catalog)
    store.plan(Fault.UNAVAILABLE, verb="get", key="people.deleted", after=1)

    with pytest.raises(ServiceUnavailableError):
        job.commit(message)
    assert not store.pending
    assert tiltyard.connect(root).open_table(["people"]).version == 2, "the commit is there"
    job.abort(message)

    assert sorted(rows(root)) == [(1, "n1"), (2, "n2")]


def test_what_can_not_be_tidied_up_does_not_fail_a_write(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any, **rest: Any) -> int:
        raise ServiceUnavailableError("no answer")

    monkeypatch.setattr(Writes, "sweep", broken)
    job = Job(root)

    job.commit(job.task(some(1)))

    assert rows(root) == [(1, "n1")]


def test_an_overwrite_does_not_win_over_a_newer_append(root: Path) -> None:
    put(root, pa.table(some(1)))
    late = Job(root, overwrite=True)
    message = late.task(some(9))
    early = Job(root)
    early.commit(early.task(some(2)))

    with pytest.raises(ConcurrentModificationError):
        late.commit(message)
    late.abort(message)

    assert sorted(rows(root)) == [(1, "n1"), (2, "n2")]
    assert data_files(root) == owned(root)


def test_appends_go_together(root: Path) -> None:
    put(root, pa.table(some(1)))
    one, other = Job(root), Job(root)
    messages = one.task(some(2)), other.task(some(3))

    other.commit(messages[1])
    one.commit(messages[0])

    assert sorted(number for number, _ in rows(root)) == [1, 2, 3]


# -- modes


def test_a_write_may_insist_that_there_is_no_table(root: Path) -> None:
    job = Job(root, if_exists="error")
    job.commit(job.task(some(1)))

    with pytest.raises(TableAlreadyExistsError):
        Job(root, if_exists="error")


def test_a_write_may_be_left_out_if_there_is_a_table(root: Path) -> None:
    put(root, pa.table(some(1)))
    job = Job(root, StructType([StructField("other", LongType())]), if_exists="ignore")

    def unread() -> Any:
        raise AssertionError("no row is asked for")
        yield

    message = job.run(unread())
    job.commit(message)

    assert message == WriteMessage()
    assert rows(root) == [(1, "n1")]


def test_an_append_of_nothing_makes_no_version(root: Path) -> None:
    put(root, pa.table(some(1)))
    job = Job(root)

    job.commit(job.task(), job.task())

    assert tiltyard.connect(root).open_table(["people"]).version == 1
    empty = Job(root / "other")
    empty.commit(empty.task())
    assert tiltyard.connect(root / "other").open_table(["people"]).schema.names == ["id", "name"]


@pytest.mark.parametrize(
    "options", [{"if_exists": "error", "overwrite": True}, {"storage_version": "9"}], ids=str
)
def test_a_wrong_option_is_refused(root: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        Job(root, **options)


# -- columns


def columns(*fields: StructField) -> StructType:
    return StructType(list(fields))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (columns(ID), "'name' is missing"),
        (columns(NAME), "'id' is missing, and can't be null"),
        (columns(ID, NAME, StructField("age", LongType())), "no column 'age'"),
        (
            columns(StructField("id", LongType(), False), StructField("name", DoubleType())),
            "'name' is double",
        ),
        (columns(StructField("id", DoubleType(), False), NAME), "'id' is double"),
        (columns(ID, NAME), "'id' may be null"),
        (columns(ID, StructField("ID", LongType(), False), NAME), "same name"),
        (columns(), "at least one column"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_columns_that_do_not_fit_are_refused_before_anything_is_written(
    root: Path, given: StructType, says: str
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    put(root, pa.table(some(1), schema=schema))
    before = sorted(root.rglob("*"))

    with pytest.raises(TableSchemaValidationError, match=says):
        Job(root, given)

    assert sorted(root.rglob("*")) == before


def test_columns_are_matched_by_name_in_any_order_and_case(root: Path) -> None:
    put(root, pa.table(some(1)))
    given = columns(StructField("NAME", StringType()), StructField("Id", IntegerType()))
    batch = pa.record_batch({"NAME": ["n2"], "Id": pa.array([2], pa.int32())})

    job = Job(root, given)
    job.commit(job.task(batch))

    assert rows(root) == [(1, "n1"), (2, "n2")]
    with pytest.raises(TableSchemaValidationError):
        Job(root, given, case_sensitive=True)


def test_columns_are_added_if_the_schemas_may_be_merged(root: Path) -> None:
    put(root, pa.table(some(1)))
    given = columns(StructField("age", IntegerType(), False), ID)
    job = Job(root, given, mergeSchema=True)

    batch = pa.record_batch({"age": pa.array([7], pa.int32()), "id": [2]})
    job.commit(job.task(batch))

    assert rows(root) == [(1, "n1", None), (2, None, 7)]
    assert tiltyard.connect(root).open_table(["people"]).version == 2, "one commit"
    with pytest.raises(TableSchemaValidationError):
        Job(root, columns(ID, StructField("age", StringType())), mergeSchema=True)


def test_a_vector_stays_a_vector(root: Path) -> None:
    vectors = pa.array([[1.0, 2.0]], pa.list_(pa.float16(), 2))
    put(root, pa.table({"v": vectors}))
    given = columns(StructField("v", ArrayType(FloatType())))
    batch = pa.record_batch({"v": pa.array([[3.0, 4.0]], pa.list_(pa.float32()))})

    for overwrite in (False, True):
        job = Job(root, given, overwrite=overwrite)
        job.commit(job.task(batch))
        table = tiltyard.connect(root).open_table(["people"])
        assert table.schema.field("v").type == vectors.type
        assert table.to_table()["v"].to_pylist()[-1] == [3.0, 4.0]

    job = Job(root, given)
    with pytest.raises(tiltyard.TiltyardError, match="'v'"):
        job.task(pa.record_batch({"v": pa.array([[3.0]], pa.list_(pa.float32()))}))


def test_an_overwrite_brings_its_own_columns(root: Path) -> None:
    put(root, pa.table(some(1)))
    job = Job(root, columns(StructField("id", StringType(), False)), overwrite=True)

    job.commit(job.task({"id": ["x"]}))

    table = tiltyard.connect(root).open_table(["people"])
    assert table.schema == pa.schema([("id", pa.string())]), "and nulls may come later"
    assert rows(root) == [("x",)]


def test_small_batches_are_put_together(root: Path) -> None:
    job = Job(root, batch_size=100)
    job.commit(job.task(*(some(number) for number in range(250))))

    assert [number for number, _ in rows(root)] == list(range(250))


def test_decimals_that_lie_askew_are_written(root: Path) -> None:
    """As Spark sends them: aligned to 8 bytes, and Lance panics over that."""
    prices = pa.array([Decimal("1.25"), Decimal("-2.50")], pa.decimal128(10, 2))
    memory = pa.py_buffer(bytearray(8 + 64))
    start = 8 if memory.address % 16 == 0 else 0
    memoryview(memory)[start : start + 32] = memoryview(prices.buffers()[1])[:32]
    askew = pa.Array.from_buffers(prices.type, 2, [None, memory.slice(start, 32)])
    assert askew == prices
    assert askew.buffers()[1].address % 16
    inside = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), askew)
    job = Job(
        root,
        columns(
            StructField("p", DecimalType(10, 2)), StructField("l", ArrayType(DecimalType(10, 2)))
        ),
        batch_size=1,
    )

    job.commit(job.task(pa.record_batch({"p": askew, "l": inside})))

    assert rows(root) == [(price, [price]) for price in prices.to_pylist()]


# -- a path


def test_a_directory_without_a_catalog_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x y.lance"
    job = partial(Job, None, path=path)

    first = job()
    first.commit(first.task(some(1)))
    late, early = job(overwrite=True), job()
    message = late.task(some(9))
    early.commit(early.task(some(2)))
    with pytest.raises(ConcurrentModificationError):
        late.commit(message)
    late.abort(message)
    with pytest.raises(TableAlreadyExistsError):
        job(if_exists="error")
    given_up = job()
    given_up.abort(given_up.task(some(7)))

    table = lance.dataset(str(path))
    assert sorted(table.to_table()["id"].to_pylist()) == [1, 2]
    assert {file.name for file in path.glob("data/*")} == lake.owned_files(table)
