"""Rows that are taken out of a table, and others that come instead, for one commit.

Each fragment is one process's alone: it marks rows as deleted in a file of its own, which nothing
refers to until the commit. A row that is updated is deleted, and comes again in a new fragment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import lance
from lance.fragment import FragmentMetadata

from tiltyard.catalog.pylance import FAILURES, Lance
from tiltyard.errors import translate
from tiltyard.settings import Settings
from tiltyard.tables.fragments import Place, as_text, must_still_fit


class Kind(StrEnum):
    """What else may be committed between the look at a table and its rewrite.

    A delete and an update go well with new rows, which they have not seen. A merge does not: one
    of them might have a key that it inserts.
    """

    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"


@dataclass(frozen=True)
class Rewrite:
    """The fragments that lost rows, as JSON texts, and those that are new."""

    kind: Kind
    touched: Sequence[str]
    new: Sequence[str] = ()
    predicate: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.touched and not self.new


def delete_rows(place: Place, fragment: int, offsets: Iterable[int]) -> str:
    """Mark rows of a fragment as deleted; the fragment as it is then.

    One without rows says so by its numbers, and the commit leaves it out.
    """
    options = dict(place.storage_options) or None
    try:
        dataset = lance.dataset(place.uri, version=place.base_version, storage_options=options)
        present = dataset.get_fragment(fragment)
        assert present is not None
        left = present.delete_rows(offsets)
    except FAILURES as error:
        secrets = Settings(place.uri, storage=place.storage_options).secrets
        raise translate(error, "delete rows", secrets) from error
    return as_text(left) if left is not None else _emptied(present.metadata, place.base_version)


def _emptied(fragment: FragmentMetadata, version: int) -> str:
    """Lance has no deletion file for a fragment without rows; it drops those when it commits."""
    body = fragment.to_json()
    body["deletion_file"] = {
        "read_version": version,
        "id": 0,
        "file_type": "array",
        "num_deleted_rows": body["physical_rows"],
        "base_id": None,
    }
    return json.dumps(body)


def commit(
    access: Lance, location: str, onto: lance.LanceDataset, rewrite: Rewrite, nonce: dict[str, str]
) -> int:
    """Make a rewrite the next version: LostRaceError if another changed the same rows first."""
    touched = [FragmentMetadata.from_json(text) for text in rewrite.touched]
    new = [FragmentMetadata.from_json(text) for text in rewrite.new]
    transaction = lance.Transaction(
        onto.version,
        _operation(onto, rewrite, touched, new),
        transaction_properties={**rewrite.properties, **nonce},
    )
    strictly = rewrite.kind is Kind.MERGE
    landed = access.commit_change(location, onto, transaction, retries=not strictly)
    must_still_fit(onto, landed)
    return landed.version


def _operation(
    onto: lance.LanceDataset,
    rewrite: Rewrite,
    touched: Sequence[FragmentMetadata],
    new: Sequence[FragmentMetadata],
) -> lance.LanceOperation.BaseOperation:
    if rewrite.kind is Kind.MERGE:
        # It names every fragment of its version, so that nothing that touches a row comes between.
        changed = {fragment.id: fragment for fragment in touched}
        present = [fragment.metadata for fragment in onto.get_fragments()]
        every = [changed.get(fragment.id, fragment) for fragment in present]
        return lance.LanceOperation.Merge([*every, *new], onto.lance_schema)
    emptied = [fragment.id for fragment in touched if not fragment.num_rows]
    left = [fragment for fragment in touched if fragment.num_rows]
    if rewrite.kind is Kind.DELETE:
        return lance.LanceOperation.Delete(left, emptied, rewrite.predicate)
    return lance.LanceOperation.Update(
        removed_fragment_ids=emptied,
        updated_fragments=left,
        new_fragments=list(new),
        update_mode="rewrite_rows",
    )
