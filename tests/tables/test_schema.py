"""The schema that describe_table answers is, for every type, the one that pylance's own answers."""

from __future__ import annotations

from pathlib import Path

import lance
import lance.blob
import lance.namespace
import lance_namespace as api
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import describe

UNITS = ("s", "ms", "us", "ns")
PLAIN = (
    *(pa.null(), pa.bool_()),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(7)),
    *(pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in UNITS),
    *(pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin")),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal128(5, -2), pa.decimal256(50, 10)),
)
NESTED = (
    pa.list_(pa.int32()),
    pa.large_list(pa.string()),
    pa.list_(pa.float32(), 4),
    pa.list_(pa.field("x", pa.int8(), nullable=False)),
    pa.list_(pa.list_(pa.timestamp("us"))),
    pa.struct([("a", pa.int32()), pa.field("b", pa.string(), nullable=False)]),
    pa.struct([("s", pa.struct([("t", pa.list_(pa.int64()))]))]),
    pa.list_(pa.struct([("a", pa.decimal128(5, 1))])),
    pa.map_(pa.string(), pa.int32()),
    pa.map_(pa.string(), pa.struct([("a", pa.list_(pa.int8()))])),
)
DICTIONARIES = (
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int32(), pa.int64()),
)
EXTENSIONS = (
    pa.uuid(),
    pa.json_(),
    pa.bool8(),
    pa.fixed_shape_tensor(pa.float32(), [2, 2]),
    pa.opaque(pa.int32(), "type", "vendor"),
    pa.struct([("u", pa.uuid()), pa.field("j", pa.json_(), metadata={"k": "v"})]),
    pa.list_(pa.uuid()),
    pa.large_list(pa.struct([("u", pa.uuid())])),
    pa.map_(pa.string(), pa.uuid()),
)


def _both(root: Path, schema: pa.Schema) -> tuple[object, object]:
    """The schema as we describe it, and as pylance does."""
    empty = pa.RecordBatchReader.from_batches(schema, [])
    lance.write_dataset(empty, root / "t.lance", schema=schema, data_storage_version="2.2")
    ours = tiltyard.connect(root, manifest_enabled=False)
    peer = lance.namespace.DirectoryNamespace(root=str(root), manifest_enabled="false")
    return _described(ours), _described(peer)


def _described(catalog: api.LanceNamespace) -> object:
    return describe(catalog, "t", load_detailed_metadata=True).var_schema


@pytest.mark.parametrize("kind", [*PLAIN, *NESTED, *DICTIONARIES, *EXTENSIONS], ids=str)
def test_every_type_is_described_as_pylance_does(tmp_path: Path, kind: pa.DataType) -> None:
    ours, peers = _both(tmp_path, pa.schema([pa.field("column", kind)]))

    assert ours is not None
    assert ours == peers


def test_blobs_are_described_as_pylance_does(tmp_path: Path) -> None:
    ours, peers = _both(tmp_path, pa.schema([lance.blob.blob_field("blob")]))

    assert ours == peers


def test_metadata_and_nullability_are_described_as_pylance_does(tmp_path: Path) -> None:
    inner = pa.field("inner", pa.int8(), nullable=False, metadata={"deep": "yes"})
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False, metadata={"unit": "pieces", "ключ": "✓"}),
            pa.field("b", pa.struct([inner]), metadata={"outer": "yes"}),
            pa.field("c", pa.list_(inner)),
        ],
        metadata={"made": "by hand"},
    )

    ours, peers = _both(tmp_path, schema)

    assert ours == peers
