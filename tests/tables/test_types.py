"""Types of columns, to the JSON form of the specification and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tiltyard.errors import InvalidInputError
from tiltyard.tables.schema import to_json, type_from_json

KINDS = [
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.uint64(),
    pa.float16(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.decimal128(10, 2),
    pa.decimal256(50, 3),
    pa.binary(16),
    pa.list_(pa.int32()),
    pa.large_list(pa.string()),
    pa.list_(pa.float32(), 8),
    pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.string()))]),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_type_comes_back_as_it_went(kind: pa.DataType) -> None:
    (field,) = to_json(pa.schema([pa.field("c", kind)])).fields
    assert type_from_json(field.type.to_dict()) == kind


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"type": "Int32"}, pa.int32()),
        ({"type": "timestamp[ms]"}, pa.timestamp("ms")),
        ({"type": "string"}, pa.string()),
    ],
)
def test_other_spellings_are_understood(asked: dict[str, str], kind: pa.DataType) -> None:
    assert type_from_json(asked) == kind


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"type": 7},
        {"type": "wood"},
        {"type": "list"},
        {"type": "struct", "fields": [{"name": "a"}]},
        {"type": "fixed_size_list", "fields": [{"name": "a", "type": {"type": "int8"}}]},
        {"type": "decimal128", "length": 99_000_000},
        {"type": "utf8", "unit": "s"},
    ],
    ids=str,
)
def test_what_is_no_type_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        type_from_json(asked)
