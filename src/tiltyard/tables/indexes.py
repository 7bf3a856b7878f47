"""Indexes: building those that pylance can build, and telling about those that are there.

A request has one set of fields for all types of index. A field that has no meaning for the type
asked for is refused, not ignored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import lance
import lance_namespace as api
from lance_namespace_urllib3_client.models.index_content import IndexContent

from tiltyard.errors import (
    InvalidInputError,
    TableIndexAlreadyExistsError,
    TableIndexNotFoundError,
)
from tiltyard.tables.queries import DISTANCES
from tiltyard.tables.sql import as_asked, must_have

VECTOR_TYPES = (
    "IVF_FLAT",
    "IVF_PQ",
    "IVF_SQ",
    "IVF_RQ",
    "IVF_HNSW_FLAT",
    "IVF_HNSW_PQ",
    "IVF_HNSW_SQ",
)
TEXT_TYPES = ("FTS", "INVERTED")
SCALAR_TYPES = (
    "BTREE",
    "BITMAP",
    "LABEL_LIST",
    "NGRAM",
    "ZONEMAP",
    "BLOOMFILTER",
    "RTREE",
    "MINHASHLSH",
    *TEXT_TYPES,
)

# Fields of a request, and what pylance calls them. They apply to types of which a part is named.
_FOR_VECTORS = {
    "num_partitions": ("num_partitions", "IVF"),
    "target_partition_size": ("target_partition_size", "IVF"),
    "sample_rate": ("sample_rate", "IVF"),
    "max_iterations": ("max_iters", "IVF"),
    "distance_type": ("metric", "IVF"),
    "num_sub_vectors": ("num_sub_vectors", "PQ"),
    "num_bits": ("num_bits", "Q"),
    "m": ("m", "HNSW"),
    "ef_construction": ("ef_construction", "HNSW"),
}
_FOR_TEXTS = (
    "with_position",
    "base_tokenizer",
    "language",
    "max_token_length",
    "lower_case",
    "stem",
    "remove_stop_words",
    "ascii_folding",
)
_SUCCEEDED = "SUCCEEDED"


def build(
    dataset: lance.LanceDataset,
    asked: api.CreateTableIndexRequest,
    types: Sequence[str] = (*VECTOR_TYPES, *SCALAR_TYPES),
) -> None:
    """Build an index over all rows, in one commit. TableIndexAlreadyExistsError."""
    kind, column, options = checked(dataset, asked, types)
    if asked.name is not None:
        _refuse_taken(dataset, asked.name)
    with as_asked(f"build an index of type {kind} on column '{column}'"):
        if kind in VECTOR_TYPES:
            dataset.create_index(column, kind, name=asked.name, replace=False, **options)
        else:
            dataset.create_scalar_index(
                column,
                kind,  # type: ignore[arg-type]
                name=asked.name,
                replace=False,
                **options,
            )


def checked(
    dataset: lance.LanceDataset,
    asked: api.CreateTableIndexRequest,
    types: Sequence[str] = (*VECTOR_TYPES, *SCALAR_TYPES),
) -> tuple[str, str, dict[str, Any]]:
    """The type, the column, and the parameters by pylance's names. InvalidInputError."""
    kind = asked.index_type.upper()
    if kind not in types:
        raise InvalidInputError(
            f"unknown index type {asked.index_type!r}", hint=f"one of {', '.join(types)}"
        )
    column = must_have(dataset, asked.column)
    options = _options(asked, kind)
    if "PQ" in kind and "num_sub_vectors" not in options:
        options["num_sub_vectors"] = _sub_vectors(dataset, column)
    return kind, column, options


def _options(asked: api.CreateTableIndexRequest, kind: str) -> dict[str, Any]:
    """The parameters of a request, by pylance's names."""
    options: dict[str, Any] = {}
    for field, (name, part) in _FOR_VECTORS.items():
        value = getattr(asked, field)
        if value is None:
            continue
        if kind not in VECTOR_TYPES or part not in kind:
            raise InvalidInputError(f"{field} has no meaning for an index of type {kind}")
        options[name] = value
    if options.get("metric", "l2").lower() not in DISTANCES:
        raise InvalidInputError(
            f"unknown distance type {asked.distance_type!r}", hint=f"one of {', '.join(DISTANCES)}"
        )
    for field in _FOR_TEXTS:
        value = getattr(asked, field)
        if value is None:
            continue
        if kind not in TEXT_TYPES:
            raise InvalidInputError(f"{field} has no meaning for an index of type {kind}")
        options[field] = value
    return options


def _sub_vectors(dataset: lance.LanceDataset, column: str) -> int:
    """As lancedb chooses: 16 dimensions for each, or 8, or all of them in one."""
    field: Any = dataset.lance_schema.field_case_insensitive(column)
    kind = field.to_arrow().type
    while not hasattr(kind, "list_size") and hasattr(kind, "value_type"):
        kind = kind.value_type
    dimensions = getattr(kind, "list_size", 0)
    for size in (16, 8):
        if dimensions and dimensions % size == 0:
            return int(dimensions // size)
    return 1


def _refuse_taken(dataset: lance.LanceDataset, name: str) -> None:
    if not name:
        raise InvalidInputError("an index needs a name")
    if any(index.name == name for index in dataset.describe_indices()):
        raise TableIndexAlreadyExistsError(
            f"the table has an index '{name}'", hint="drop it first, or choose another name"
        )


def drop(dataset: lance.LanceDataset, name: str | None) -> None:
    """Take an index away. TableIndexNotFoundError."""
    dataset.drop_index(_existing(dataset, name).name)


def describe(dataset: lance.LanceDataset) -> list[IndexContent]:
    """Every index, in the order of their names."""
    rows = dataset.count_rows()
    return [
        _content(index, rows) for index in sorted(dataset.describe_indices(), key=lambda i: i.name)
    ]


def statistics(
    dataset: lance.LanceDataset, name: str | None
) -> api.DescribeTableIndexStatsResponse:
    """What Lance counts for one index. TableIndexNotFoundError."""
    index = _existing(dataset, name)
    details = index.details or {}
    metric = details.get("metric_type") if isinstance(details, dict) else None
    rows = dataset.count_rows()
    return api.DescribeTableIndexStatsResponse(
        distance_type=None if metric is None else str(metric).lower(),
        index_type=index.index_type,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=max(0, rows - index.num_rows_indexed),
        num_indices=len(index.segments),
    )


def _existing(dataset: lance.LanceDataset, name: str | None) -> Any:
    if not name:
        raise InvalidInputError("no index is named")
    known = {index.name: index for index in dataset.describe_indices()}
    if name not in known:
        there = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise TableIndexNotFoundError(f"the table has no index '{name}'", hint=there)
    return known[name]


def _content(index: Any, rows: int) -> IndexContent:
    newest = index.segments[0] if index.segments else None
    return IndexContent(
        index_name=index.name,
        index_uuid=newest.uuid if newest else "",
        columns=list(index.field_names),
        status=_SUCCEEDED,
        index_type=index.index_type,
        type_url=index.type_url,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=max(0, rows - index.num_rows_indexed),
        size_bytes=index.total_size_bytes,
        num_segments=len(index.segments),
        created_at=newest.created_at if newest else None,
        index_version=newest.index_version if newest else None,
        index_details=json.dumps(index.details, default=str),
    )
