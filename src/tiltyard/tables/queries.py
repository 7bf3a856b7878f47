"""Queries of the namespace interface, as scans of pylance: filters, vector and full-text search.

Every field of the request is used or refused. Where the specification leaves a choice: without a
vector or a text it is a plain scan, and `k` limits it; a filter comes before the search, unless
`prefilter` is false; `offset` is counted in the answer, so the search looks for `offset` more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import lance
import pyarrow as pa
from lance import query as texts
from lance_namespace_urllib3_client.models.fts_query import FtsQuery
from lance_namespace_urllib3_client.models.match_query import MatchQuery
from lance_namespace_urllib3_client.models.phrase_query import PhraseQuery
from lance_namespace_urllib3_client.models.query_table_request_columns import (
    QueryTableRequestColumns,
)
from lance_namespace_urllib3_client.models.query_table_request_full_text_query import (
    QueryTableRequestFullTextQuery,
)
from lance_namespace_urllib3_client.models.query_table_request_vector import (
    QueryTableRequestVector,
)

from tiltyard.errors import InvalidInputError
from tiltyard.tables.sql import as_asked, condition, must_have

DISTANCE, SCORE = "_distance", "_score"
DISTANCES = ("l2", "euclidean", "cosine", "dot", "hamming")

# Of the request, what has a meaning for a search by a vector only.
_FOR_VECTORS = (
    "vector_column",
    "distance_type",
    "nprobes",
    "minimum_nprobes",
    "maximum_nprobes",
    "refine_factor",
    "ef",
    "lower_bound",
    "upper_bound",
    "bypass_vector_index",
)


class Query(Protocol):
    """What the requests to query, explain and analyze have in common."""

    k: int
    vector: QueryTableRequestVector
    columns: QueryTableRequestColumns | None
    filter: str | None
    prefilter: bool | None
    offset: int | None
    with_row_id: bool | None
    fast_search: bool | None
    full_text_query: QueryTableRequestFullTextQuery | None
    vector_column: str | None
    distance_type: str | None
    nprobes: int | None
    minimum_nprobes: int | None
    maximum_nprobes: int | None
    refine_factor: int | None
    ef: int | None
    lower_bound: float | None
    upper_bound: float | None
    bypass_vector_index: bool | None


def scanner(dataset: lance.LanceDataset, query: Query) -> lance.LanceScanner:
    """The scan that answers a query. What is wrong with it is found here, before any row."""
    if query.k < 0:
        raise InvalidInputError(f"k can't be negative, and {query.k} is")
    if query.offset is not None and query.offset < 0:
        raise InvalidInputError(f"an offset can't be negative, and {query.offset} is")
    nearest, text = _nearest(dataset, query), full_text(dataset, query.full_text_query)
    if nearest is not None and text is not None:
        raise InvalidInputError(
            "a query searches by a vector or by a text, not by both",
            hint="ask twice, and rank the answers together",
        )
    searches = nearest is not None or text is not None
    if searches and not query.k:
        raise InvalidInputError("a search needs k, the number of results to return")
    scored = DISTANCE if nearest is not None else SCORE if text is not None else None
    of_many = nearest is not None and _asks_many(dataset, query, nearest["column"])
    columns = _columns(query.columns, scored)
    with as_asked("search the table" if searches else "scan the table"):
        return dataset.scanner(
            columns=columns,
            filter=condition(query.filter),
            prefilter=query.prefilter is not False if searches else None,
            # Each of many vectors has k results, so there is no one limit for all of them.
            limit=None if of_many else query.k or None,
            offset=query.offset or None,
            nearest=nearest,
            full_text_query=text,
            with_row_id=bool(query.with_row_id),
            fast_search=bool(query.fast_search),
            disable_scoring_autoprojection=columns is not None,  # they name the score
            blob_handling="all_binary",
        )


def batches(scan: lance.LanceScanner) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The rows of a scan as they come."""
    reader = scan.to_reader()
    return reader.schema, iter(reader)


def _columns(
    asked: QueryTableRequestColumns | None, scored: str | None
) -> list[str] | dict[str, str] | None:
    """Which columns to bring: by names, or new names for them. A search brings its score too."""
    if asked is None or (asked.column_names is None and asked.column_aliases is None):
        return None
    if asked.column_names is not None and asked.column_aliases is not None:
        raise InvalidInputError("columns are given by names or by aliases, not by both")
    if asked.column_aliases is not None:
        aliases = dict(asked.column_aliases)
        if "" in aliases:
            raise InvalidInputError("a column needs a name")
        return aliases | {scored: scored} if scored and scored not in aliases else aliases
    named = list(asked.column_names or ())
    if len(set(named)) < len(named):
        raise InvalidInputError("a column is named twice")
    return [*named, scored] if scored and scored not in named else named


def _nearest(dataset: lance.LanceDataset, query: Query) -> dict[str, Any] | None:
    """What `LanceDataset.scanner` takes for `nearest`; None if no vector is given."""
    single, several = query.vector.single_vector, query.vector.multi_vector
    if single and several:
        raise InvalidInputError("give one vector or several, not both")
    if not single and not several:
        given = [name for name in _FOR_VECTORS if getattr(query, name) is not None]
        if given:
            raise InvalidInputError(f"{given[0]} is given, and no vector to search for")
        return None
    column = query.vector_column or _only_vector(dataset)
    must_have(dataset, column)
    _must_fit(dataset, column, [single] if single else several or [])
    chosen: dict[str, Any] = {
        "column": column,
        "q": single or several,
        "k": query.k + (query.offset or 0),
        "metric": _metric(query.distance_type),
        "refine_factor": query.refine_factor,
        "use_index": not query.bypass_vector_index,
        "ef": query.ef,
        "minimum_nprobes": query.minimum_nprobes,
        "maximum_nprobes": query.maximum_nprobes,
    }
    if query.minimum_nprobes is None and query.maximum_nprobes is None:
        chosen["nprobes"] = query.nprobes
    if query.lower_bound is not None or query.upper_bound is not None:
        chosen["distance_range"] = (query.lower_bound, query.upper_bound)
    return {name: value for name, value in chosen.items() if value is not None}


def _must_fit(dataset: lance.LanceDataset, column: str, vectors: Sequence[Sequence[float]]) -> None:
    kind = _type_of(dataset, column)
    of_one = kind.value_type if _is_list_of_vectors(kind) else kind
    if not _is_vector(of_one):
        raise InvalidInputError(f"column '{column}' holds {kind}, and no vectors")
    wrong = next((len(vector) for vector in vectors if len(vector) != of_one.list_size), None)
    if wrong is not None:
        raise InvalidInputError(
            f"a vector of column '{column}' has {of_one.list_size} dimensions, not {wrong}"
        )


def _metric(asked: str | None) -> str | None:
    if asked is not None and asked.lower() not in DISTANCES:
        raise InvalidInputError(
            f"unknown distance type {asked!r}", hint=f"one of {', '.join(DISTANCES)}"
        )
    return asked


def _asks_many(dataset: lance.LanceDataset, query: Query, column: str) -> bool:
    """Whether each given vector is a search of its own. In a column of lists of vectors all of
    them together are one."""
    if not query.vector.multi_vector or _is_list_of_vectors(_type_of(dataset, column)):
        return False
    if query.offset:
        raise InvalidInputError("an offset has no meaning for several vectors at once")
    return True


def _only_vector(dataset: lance.LanceDataset) -> str:
    vectors = [
        column.name
        for column in dataset.schema
        if _is_vector(_stored(column.type)) or _is_list_of_vectors(_stored(column.type))
    ]
    if "vector" in vectors:
        return "vector"
    if len(vectors) == 1:
        return str(vectors[0])
    what = f"several vector columns: {', '.join(vectors)}" if vectors else "no vector column"
    raise InvalidInputError(f"the table has {what}", hint="name one as vector_column")


def _type_of(dataset: lance.LanceDataset, column: str) -> pa.DataType:
    field: Any = dataset.lance_schema.field_case_insensitive(column)
    return _stored(field.to_arrow().type)


def _stored(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _is_vector(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_fixed_size_list(kind)
        and (pa.types.is_floating(kind.value_type) or pa.types.is_uint8(kind.value_type))
    )


def _is_list_of_vectors(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and _is_vector(kind.value_type))


# -- full-text queries

# Lance's name for the type in the description of an index.
INVERTED = "Inverted"


def full_text(
    dataset: lance.LanceDataset, asked: QueryTableRequestFullTextQuery | None
) -> texts.FullTextQuery | dict[str, Any] | None:
    """What `LanceDataset.scanner` takes for `full_text_query`."""
    if asked is None:
        return None
    if (asked.string_query is None) == (asked.structured_query is None):
        raise InvalidInputError("a full-text query is either a string or structured")
    if asked.structured_query is not None:
        return _Translation(dataset).query(asked.structured_query.query)
    assert asked.string_query is not None
    columns = asked.string_query.columns or None
    for column in columns or ():
        must_have(dataset, column)
    return {"query": asked.string_query.query, "columns": columns}


class _Translation:
    """One structured query; a part that names no column means the one that has an index."""

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self._dataset = dataset
        self._default: str | None = None

    def query(self, asked: FtsQuery) -> texts.FullTextQuery:
        given = [name for name in _KINDS if getattr(asked, name) is not None]
        if len(given) != 1:
            raise InvalidInputError(
                f"a part of a full-text query is one of {', '.join(_KINDS)}, not {given or 'none'}"
            )
        if asked.match is not None:
            return self._match(asked.match)
        if asked.phrase is not None:
            return self._phrase(asked.phrase)
        if asked.multi_match is not None:
            return self._any_of([self._match(query) for query in asked.multi_match.match_queries])
        if asked.boost is not None:
            weight = asked.boost.negative_boost
            return texts.BoostQuery(
                self.query(asked.boost.positive),
                self.query(asked.boost.negative),
                negative_boost=0.5 if weight is None else weight,
            )
        assert asked.boolean is not None
        return self._combined(
            [
                (occur, self.query(part))
                for occur, parts in (
                    (texts.Occur.MUST, asked.boolean.must),
                    (texts.Occur.SHOULD, asked.boolean.should),
                    (texts.Occur.MUST_NOT, asked.boolean.must_not),
                )
                for part in parts
            ]
        )

    def _match(self, asked: MatchQuery) -> texts.FullTextQuery:
        return texts.MatchQuery(
            asked.terms,
            self._column(asked.column),
            boost=1.0 if asked.boost is None else asked.boost,
            fuzziness=0 if asked.fuzziness is None else asked.fuzziness,
            max_expansions=50 if asked.max_expansions is None else asked.max_expansions,
            operator=_operator(asked.operator),
            prefix_length=asked.prefix_length or 0,
        )

    def _phrase(self, asked: PhraseQuery) -> texts.FullTextQuery:
        return texts.PhraseQuery(asked.terms, self._column(asked.column), slop=asked.slop or 0)

    def _any_of(self, parts: list[texts.FullTextQuery]) -> texts.FullTextQuery:
        return self._combined([(texts.Occur.SHOULD, part) for part in parts])

    def _combined(
        self, parts: list[tuple[texts.Occur, texts.FullTextQuery]]
    ) -> texts.FullTextQuery:
        if not any(occur is not texts.Occur.MUST_NOT for occur, _ in parts):
            raise InvalidInputError("a full-text query needs something that must or should match")
        return texts.BooleanQuery(parts)

    def _column(self, named: str | None) -> str:
        if named is not None:
            must_have(self._dataset, named)
            return named
        if self._default is None:
            self._default = self._only_indexed()
        return self._default

    def _only_indexed(self) -> str:
        indexed = sorted(
            {
                index.field_names[0]
                for index in self._dataset.describe_indices()
                if index.index_type == INVERTED
            }
        )
        if len(indexed) == 1:
            return indexed[0]
        choice = f"there are several: {', '.join(indexed)}" if indexed else "there is none"
        raise InvalidInputError(
            f"the full-text query names no column, and of columns with a full-text index {choice}",
            hint="name the column in the query",
        )


_KINDS = ("match", "phrase", "boost", "multi_match", "boolean")


def _operator(asked: str | None) -> texts.FullTextOperator:
    if asked is None:
        return texts.FullTextOperator.OR
    try:
        return texts.FullTextOperator(asked.upper())
    except ValueError:
        raise InvalidInputError(f"unknown operator {asked!r}", hint="one of And, Or") from None
