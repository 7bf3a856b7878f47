"""Full-text queries of a request, as pylance's own."""

from __future__ import annotations

from typing import Any

import lance
from lance import query as texts
from lance_namespace_urllib3_client.models.fts_query import FtsQuery
from lance_namespace_urllib3_client.models.match_query import MatchQuery
from lance_namespace_urllib3_client.models.phrase_query import PhraseQuery
from lance_namespace_urllib3_client.models.query_table_request_full_text_query import (
    QueryTableRequestFullTextQuery,
)

from tiltyard.errors import InvalidInputError
from tiltyard.tables.sql import must_have

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
