"""A table's schema in the JSON form of the namespace specification, written and read.

It is written as pylance does: an extension type is its storage type, with its name in the field's
metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from lance import LanceDataset
from lance_namespace_urllib3_client.models.json_arrow_data_type import JsonArrowDataType
from lance_namespace_urllib3_client.models.json_arrow_field import JsonArrowField
from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema

from tiltyard.errors import InvalidInputError

_NAMES = {
    pa.string(): "utf8",
    pa.large_string(): "large_utf8",
    pa.binary(): "binary",
    pa.large_binary(): "large_binary",
    pa.bool_(): "bool",
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.date32(): "date32",
    pa.date64(): "date64",
    pa.string_view(): "utf8",
    pa.binary_view(): "binary",
}
_FAMILIES = (
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_time32, "time32"),
    (pa.types.is_time64, "time64"),
    (pa.types.is_duration, "duration"),
)


def as_stored(dataset: LanceDataset) -> pa.Schema:
    """The schema without extension types, which pyarrow would take out of the metadata."""
    fields = [_stored(field) for field in dataset.lance_schema.fields()]
    return pa.schema(fields, metadata=dataset.schema.metadata)


def _stored(field: Any) -> pa.Field:  # a LanceField, whose types are not published
    arrow = field.to_arrow()
    kind = arrow.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    children = [_stored(child) for child in field.children()]
    if children:
        if pa.types.is_struct(kind):
            kind = pa.struct(children)
        elif pa.types.is_map(kind):
            key, item = children[0].type.fields
            kind = pa.map_(key, item)
        elif pa.types.is_large_list(kind):
            kind = pa.large_list(children[0])
        elif pa.types.is_fixed_size_list(kind):
            kind = pa.list_(children[0], kind.list_size)
        elif pa.types.is_list(kind):
            kind = pa.list_(children[0])
    return pa.field(arrow.name, kind, arrow.nullable, field.metadata)


def to_json(schema: pa.Schema) -> JsonArrowSchema:
    """The whole schema. Units and time zones have no place in that form, as in pylance's own."""
    return JsonArrowSchema(
        fields=[_field(field) for field in schema], metadata=_texts(schema.metadata)
    )


def _field(field: pa.Field) -> JsonArrowField:
    return JsonArrowField(
        name=field.name,
        nullable=field.nullable,
        type=_type(field.type),
        metadata=_texts(field.metadata),
    )


def _type(kind: pa.DataType) -> JsonArrowDataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_decimal(kind):
        # The form has one number for a decimal; pylance packs precision and scale into it.
        return JsonArrowDataType(
            type=f"decimal{kind.bit_width}", length=kind.precision * 1000 + kind.scale
        )
    if pa.types.is_fixed_size_binary(kind):
        return JsonArrowDataType(type="fixed_size_binary", length=kind.byte_width)
    if pa.types.is_fixed_size_list(kind):
        return JsonArrowDataType(
            type="fixed_size_list", length=kind.list_size, fields=[_field(kind.value_field)]
        )
    if pa.types.is_map(kind):
        entries = pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
        return JsonArrowDataType(type="map", fields=[_field(entries)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        name = "list" if pa.types.is_list(kind) else "large_list"
        return JsonArrowDataType(type=name, fields=[_field(kind.value_field)])
    if pa.types.is_struct(kind):
        return JsonArrowDataType(type="struct", fields=[_field(field) for field in kind.fields])
    for belongs, name in _FAMILIES:
        if belongs(kind):
            return JsonArrowDataType(type=name)
    return JsonArrowDataType(type=_NAMES.get(kind, str(kind)))


def _texts(metadata: dict[bytes, bytes] | None) -> dict[str, str] | None:
    if not metadata:
        return None
    return {key.decode(): value.decode(errors="replace") for key, value in metadata.items()}


# -- read back

_PLAIN = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "utf8": pa.string(),
    "string": pa.string(),
    "large_utf8": pa.large_string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    # The form has no place for a unit; these are Lance's own.
    "timestamp": pa.timestamp("us"),
    "time32": pa.time32("ms"),
    "time64": pa.time64("us"),
    "duration": pa.duration("us"),
    **{
        str(kind): kind
        for kind in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
            *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        )
    },
}


def type_from_json(asked: Mapping[str, Any]) -> pa.DataType:
    """The type that `{"type": ...}` means; `timestamp[ms]` and the like have their unit."""
    name = asked.get("type")
    if not isinstance(name, str):
        raise InvalidInputError(f"{dict(asked)!r} is not a type", hint='like {"type": "int64"}')
    lowered = name.lower()
    length, fields = asked.get("length"), asked.get("fields") or []
    unknown = set(asked) - {"type", "length", "fields"}
    if unknown:
        raise InvalidInputError(f"a type has no {min(unknown)!r}")
    if lowered in _PLAIN:
        return _PLAIN[lowered]
    if lowered.startswith("decimal") and length is not None:
        # As pylance packs them: one number for precision and scale.
        make = pa.decimal256 if lowered == "decimal256" else pa.decimal128
        return _made(name, lambda: make(*divmod(int(length), 1000)))
    if lowered == "fixed_size_binary" and length is not None:
        return _made(name, lambda: pa.binary(int(length)))
    if lowered == "struct" and fields:
        return pa.struct([_field_from_json(column_field) for column_field in fields])
    if lowered in ("list", "large_list", "fixed_size_list") and len(fields) == 1:
        item = _field_from_json(fields[0])
        if lowered == "list":
            return pa.list_(item)
        if lowered == "large_list":
            return pa.large_list(item)
        if length is not None:
            return _made(name, lambda: pa.list_(item, int(length)))
    return _made(name, lambda: pa.type_for_alias(name))


def _field_from_json(asked: Any) -> pa.Field:
    if not isinstance(asked, Mapping) or not asked.get("name") or "type" not in asked:
        raise InvalidInputError(f"{asked!r} is not a field", hint="it has a name and a type")
    return pa.field(asked["name"], type_from_json(asked["type"]), asked.get("nullable", True))


def _made(name: str, make: Callable[[], pa.DataType]) -> pa.DataType:
    try:
        return make()
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise InvalidInputError(f"{name!r} is not a type that a column can have") from error
