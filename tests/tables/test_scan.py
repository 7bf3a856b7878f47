"""How a table is cut into pieces: every row in exactly one, about as many in each."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.tables import scan
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Extent, Piece, Snapshot, Wanted, cut

fragments = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(
        lambda drawn: (drawn[0], drawn[0] + drawn[1])
    ),
    max_size=8,
)


def _extents(drawn: list[tuple[int, int]]) -> list[Extent]:
    return [Extent(at, rows, written) for at, (rows, written) in enumerate(drawn)]


@given(fragments, st.integers(1, 20))
def test_ranges_cover_every_row_once_and_evenly(drawn: list[tuple[int, int]], count: int) -> None:
    extents = _extents(drawn)
    rows = {extent.id: [(extent.id, row) for row in range(extent.rows)] for extent in extents}

    pieces = cut(extents, count, filtered=False)

    read = [_rows_of(piece, rows) for piece in pieces]
    assert [row for each in read for row in each] == [row for each in rows.values() for row in each]
    assert not read or max(map(len, read)) - min(map(len, read)) <= 1


def _rows_of(piece: Piece, rows: dict[int, list[tuple[int, int]]]) -> list[tuple[int, int]]:
    joined = [row for fragment in piece.fragments for row in rows[fragment]]
    start = piece.offset or 0
    return joined[start : None if piece.limit is None else start + piece.limit]


@given(fragments, st.integers(1, 20))
def test_addresses_cover_every_row_once(drawn: list[tuple[int, int]], count: int) -> None:
    extents = _extents(drawn)
    written = [
        extent.id << 32 | row for extent in extents for row in range(extent.written) if extent.rows
    ]

    pieces = cut(extents, count, filtered=True)

    read = [
        address
        for piece in pieces
        for address in written
        if address >> 32 in piece.fragments
        and not any(low <= address < high for low, high in piece.without)
    ]
    assert sorted(read) == written


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Three fragments out of order: the middle one was compacted, and rows of each are deleted."""
    uri = str(tmp_path / "t.lance")
    for start in range(0, 40, 10):
        rows = pa.table({"id": range(start, start + 10), "x": [0.5] * 10})
        dataset = lance.write_dataset(rows, uri, mode="append")
    dataset.delete("id % 4 = 1")
    dataset.optimize.compact_files(target_rows_per_fragment=20, materialize_deletions_threshold=0.9)
    return scan.snapshot_of_path(uri, At(), {})


@pytest.mark.parametrize("condition", [None, "id >= 0 OR x > 1"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 100])
def test_pieces_read_every_row_once(snapshot: Snapshot, count: int, condition: str | None) -> None:
    wanted = Wanted(columns=("id",), filter=condition)

    pieces = scan.pieces_of(snapshot, wanted, count)

    read = [
        row
        for piece in pieces
        for batch in scan.read(snapshot, wanted, piece)
        for row in batch["id"].to_pylist()
    ]
    assert sorted(read) == [at for at in range(40) if at % 4 != 1]


@pytest.mark.parametrize("limit", [1, 7, 100])
@pytest.mark.parametrize("condition", [None, "id > 3"])
def test_a_limit_takes_one_piece(snapshot: Snapshot, limit: int, condition: str | None) -> None:
    wanted = Wanted(limit=limit, filter=condition)

    (piece,) = scan.pieces_of(snapshot, wanted, 8)

    count = 30 if condition is None else 27
    read = sum(batch.num_rows for batch in scan.read(snapshot, wanted, piece))
    assert read == min(limit, count)


def test_a_limit_reads_no_more_fragments_than_it_needs(snapshot: Snapshot) -> None:
    everything = scan.pieces_of(snapshot, Wanted(), 1)[0].fragments

    (piece,) = scan.pieces_of(snapshot, Wanted(limit=2), 4)

    assert piece.fragments == everything[:1]


def test_a_snapshot_travels_and_stays(snapshot: Snapshot) -> None:
    lance.write_dataset(pa.table({"id": [99], "x": [0.1]}), snapshot.uri, mode="append")

    assert scan.count(snapshot) == 30
    assert snapshot.at.version == lance.dataset(snapshot.uri).version - 1


def test_a_wrong_request_is_ours_to_tell(snapshot: Snapshot) -> None:
    with pytest.raises(InvalidInputError, match="no_such"):
        scan.schema_of(snapshot, Wanted(columns=("no_such",)))
    with pytest.raises(TiltyardError):
        scan.schema_of(snapshot, Wanted(filter="id >"))


def test_a_credential_is_not_told(tmp_path: Path) -> None:
    snapshot = Snapshot("s3://bucket/x", At(1), {"secret_access_key": "hunter22"})

    assert "hunter22" not in str(snapshot.explain(OSError("hunter22 is wrong")))
    assert "hunter22" not in repr(snapshot)
