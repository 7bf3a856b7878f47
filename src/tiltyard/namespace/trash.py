"""Operations on what is dropped: the trash, and the way into it and out of it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import lance_namespace as api

from tiltyard.catalog import names
from tiltyard.catalog.base import DropTerms, Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.errors import InvalidInputError
from tiltyard.lifecycle.purge import PurgePlan, Receipt, TableProgress
from tiltyard.lifecycle.tables import TermsOf
from tiltyard.lifecycle.trash import DroppedTable, TableStatus
from tiltyard.namespace.base import CatalogBase, operation, properties_of
from tiltyard.settings import duration

DEFAULT_TTL = "default_ttl"

Duration = str | int | float | timedelta | None


class TrashOperations(CatalogBase):
    """Dropping tables, bringing them back, and deleting them for good."""

    @operation("drop table")
    def drop_table(
        self, request: api.DropTableRequest, *, ttl: Duration = None, reason: str | None = None
    ) -> api.DropTableResponse:
        """Put a table into the trash: small writes only, whatever its size; its data stays.

        `ttl` is how long it can be brought back ("7d", seconds, a timedelta, "never"); without it
        the namespace's property `default_ttl` counts, and then the catalog's.
        """
        identifier = names.parse_table_id(request.id)
        return self._dropped(
            self.services.lifecycle.drop(identifier, drop_terms(self.context, ttl, reason))
        )

    @operation("drop tables")
    def drop_tables(
        self,
        requests: Sequence[api.DropTableRequest],
        *,
        ttl: Duration = None,
        reason: str | None = None,
    ) -> list[api.DropTableResponse]:
        """Drop any number of tables; their rows go in one commit, all of them or none."""
        identifiers = [names.parse_table_id(request.id) for request in requests]
        if len(set(identifiers)) < len(identifiers):
            raise InvalidInputError("a table is named twice")
        terms = drop_terms(self.context, ttl, reason)
        return [
            self._dropped(table) for table in self.services.lifecycle.drop_all(identifiers, terms)
        ]

    def _dropped(self, table: Table) -> api.DropTableResponse:
        return api.DropTableResponse(
            id=list(table.id),
            location=self.services.access.uri(table),
            properties=properties_of(table),
        )

    @operation("undrop table")
    def undrop_table(
        self,
        id: Sequence[str],
        *,
        generation: str | None = None,
        as_id: Sequence[str] | None = None,
        keep_newer: bool = False,
    ) -> api.RegisterTableResponse:
        """Bring a dropped table back, the one dropped last or a given generation of it.

        `as_id` gives it another name without copying a byte; `keep_newer` accepts what somebody
        wrote to it after it was dropped.
        """
        table = self.services.lifecycle.undrop(
            names.parse_table_id(id),
            generation=generation,
            target=None if as_id is None else names.parse_table_id(as_id),
            keep_newer=keep_newer,
        )
        return api.RegisterTableResponse(
            location=self.services.access.uri(table), properties=properties_of(table)
        )

    @operation("tell the status of table")
    def table_status(self, id: Sequence[str]) -> TableStatus:
        """Whether a table exists, is in the trash, or is not found (purged, or never was)."""
        return self.services.lifecycle.status(names.parse_table_id(id))

    @operation("list the trash of")
    def list_trash(self, *, with_bytes: bool = False) -> list[DroppedTable]:
        """Every dropped table, oldest drop first. Its size costs a listing of each."""
        return self.services.trash.list_tables(with_bytes=with_bytes)

    @operation("list what can be purged from")
    def list_purgable_tables(self, deleted_before: datetime | None = None) -> list[DroppedTable]:
        """Dropped tables that are not held and whose time has run out.

        With a cutoff, those dropped before it instead, whatever their own time.
        """
        return self.services.purge.purgable(_aware(deleted_before))

    @operation("purge table")
    def purge_table(self, id: Sequence[str], *, generation: str | None = None) -> Receipt:
        """Delete a dropped table for good, whether or not its time has come."""
        return self.services.purge.purge(names.parse_table_id(id), generation)

    @operation("purge tables of")
    def purge_tables(
        self,
        ids: Sequence[Sequence[str]] | None = None,
        *,
        dry_run: bool = False,
        progress: TableProgress | None = None,
    ) -> list[Receipt]:
        """Delete everything whose time has come, or exactly the given dropped tables."""
        plan = self.plan_purge(ids)
        return self.services.purge.as_planned(plan) if dry_run else self.apply_purge(plan, progress)

    @operation("plan a purge of")
    def plan_purge(
        self,
        ids: Sequence[Sequence[str]] | None = None,
        *,
        deleted_before: datetime | None = None,
        with_bytes: bool = True,
    ) -> PurgePlan:
        """What a purge would delete, bound to the very drops that are in the trash now.

        Sizes cost a listing of each table.
        """
        tables = None if ids is None else [names.parse_table_id(id) for id in ids]
        return self.services.purge.plan(tables, _aware(deleted_before), with_bytes=with_bytes)

    @operation("apply a purge to")
    def apply_purge(self, plan: PurgePlan, progress: TableProgress | None = None) -> list[Receipt]:
        """Purge what was planned; whatever moved since is skipped, and its receipt says so."""
        return self.services.purge.apply(plan, progress)

    @operation("keep the receipts of")
    def keep_receipts(self, receipts: Sequence[Receipt]) -> str | None:
        """Write receipts into a file of the catalog, one line each, and tell where it is."""
        return self.services.purge.keep_receipts(receipts)

    @operation("hold table")
    def hold_table(self, id: Sequence[str], *, generation: str | None = None) -> DroppedTable:
        """Keep a dropped table from being purged until it is released."""
        return self.services.lifecycle.hold(names.parse_table_id(id), True, generation)

    @operation("release table")
    def release_table(self, id: Sequence[str], *, generation: str | None = None) -> DroppedTable:
        """Let a held table go again, when its time has come."""
        return self.services.lifecycle.hold(names.parse_table_id(id), False, generation)

    @operation("protect table")
    def protect_table(self, id: Sequence[str]) -> None:
        """Keep a table from being dropped until it is unprotected."""
        self.services.lifecycle.protect(names.parse_table_id(id), True)

    @operation("unprotect table")
    def unprotect_table(self, id: Sequence[str]) -> None:
        """Allow a protected table to be dropped."""
        self.services.lifecycle.protect(names.parse_table_id(id), False)


def drop_terms(context: CatalogContext, ttl: Duration = None, reason: str | None = None) -> TermsOf:
    """The terms of a drop, by namespace: what the caller says, else the namespace, else the
    catalog. Each namespace is looked up once."""

    def terms(namespace: names.NamespaceId) -> DropTerms:
        seconds = _default_ttl(context, namespace) if ttl is None else duration(ttl)
        ttl_ms = None if seconds is None else round(seconds * 1000)
        return DropTerms(ttl_ms, context.settings.actor, reason)

    return functools.cache(terms)


def _default_ttl(context: CatalogContext, namespace: names.NamespaceId) -> float | None:
    """The nearest namespace upwards that has the property `default_ttl`, the root included."""
    for depth in range(len(namespace), -1, -1):
        kept = context.catalog.known_properties(namespace[:depth]).get(DEFAULT_TTL)
        if kept is not None:
            return duration(kept, DEFAULT_TTL)
    return context.settings.default_ttl


def _aware(when: datetime | None) -> datetime | None:
    """A time without a zone is meant in the caller's own."""
    return None if when is None else when.astimezone(UTC)
