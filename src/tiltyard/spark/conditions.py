"""Spark's conditions, as they stand in a plan, in the form that the translation takes."""

from __future__ import annotations

import pyarrow as pa

from tiltyard.spark.jvm import Java, each_of, kind_of
from tiltyard.spark.predicates import MOST_VALUES, Call, Column, Expression
from tiltyard.spark.values import Literal

_UNKNOWN = Call("", ())

_BLOB = b"lance-encoding:blob"

# Spark keeps a chain of a thousand conditions ten levels deep.
DEEPEST = 50


def read_condition(node: Java, schema: pa.Schema, depth: int = 0) -> Expression:
    """A condition of Spark as the translation takes it; what it has no use for stays unknown."""
    if depth > DEEPEST:
        return _UNKNOWN
    kind = kind_of(node)
    if kind in ("AttributeReference", "GetStructField"):
        return _column(node, schema) or _UNKNOWN
    if kind == "Literal":
        return _literal(node.value(), node.dataType().catalogString())
    if kind == "InSet":
        return _listed(node, schema)
    if kind == "Cast" and node.dataType().catalogString() == "bigint":
        return Call("Cast to bigint", (read_condition(node.child(), schema),))
    if kind == "Like" and str(node.escapeChar()) != "\\":
        return _UNKNOWN
    return Call(
        kind, tuple(read_condition(each, schema, depth + 1) for each in each_of(node.children()))
    )


def _column(node: Java, schema: pa.Schema) -> Column | None:
    path: list[str] = []
    while kind_of(node) == "GetStructField":
        path.insert(0, node.extractFieldName())
        node = node.child()
    if kind_of(node) != "AttributeReference" or node.name() not in schema.names:
        return None
    field = schema.field(node.name())
    if _is_opaque(field):
        return None
    kind = field.type
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return Column((node.name(), *path), kind)


def _is_opaque(field: pa.Field) -> bool:
    """Whether Lance sees something else in a column than its values, as it does in a blob."""
    return isinstance(field.type, pa.BaseExtensionType) or _BLOB in (field.metadata or {})


def _listed(node: Java, schema: pa.Schema) -> Expression:
    values = node.hset()
    if values.size() > MOST_VALUES:
        return _UNKNOWN
    kind = node.child().dataType().catalogString()
    if kind in ("tinyint", "smallint", "int", "bigint") and not values.contains(None):
        found = [int(each) for each in values.mkString(",").split(",")]  # in one round trip
    else:
        found = list(each_of(values.toSeq()))
    return Call(
        "InSet", (read_condition(node.child(), schema), *(_literal(each, kind) for each in found))
    )


def _literal(value: Java, kind: str) -> Expression:
    if value is None:
        return Literal(None, kind)
    if kind == "string":
        try:
            return Literal(bytes(value.getBytes()).decode(), kind)
        except UnicodeDecodeError:
            return _UNKNOWN
    if kind.startswith("decimal("):
        return Literal(value.toJavaBigDecimal(), kind)
    if kind == "binary":
        return Literal(bytes(value), kind)
    return Literal(value, kind) if isinstance(value, bool | int | float) else _UNKNOWN
