"""The `__manifest` table: a fresh snapshot to read, one strict compare-and-swap to write.

A listing of one object shows whether there is a newer version. Names of versions sort newest first,
so this stays right after foreign commits, compactions and clean-ups of old versions, where asking
for "the next version" does not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import lance

from tiltyard.catalog import names, version_files
from tiltyard.catalog.boundary import Boundary
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.layout import is_scattered, lay_out, written_fragments
from tiltyard.catalog.manifest.rows import DIRECTORY, SCHEMA
from tiltyard.catalog.manifest.snapshot import EMPTY, FragmentRows, Snapshot, fragment_key
from tiltyard.catalog.pylance import (
    FAILURES,
    Lance,
    LostRaceError,
    Staged,
    discard,
    in_a_thread,
    is_missing,
)
from tiltyard.clock import SYSTEM_CLOCK, moment
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from tiltyard.settings import Settings
from tiltyard.store import Entry, NotThere, Retry, Store

FORMAT = 1
STAMP = "tiltyard.format"
READER_FLAGS = "lance.namespace.manifest.reader_feature_flags"
WRITER_FLAGS = "lance.namespace.manifest.writer_feature_flags"
# Versions of tables may be rows: whoever does not know must not write.
MANAGEMENT_FLAG = 1 << 48
KNOWN_FLAGS = {READER_FLAGS: 0, WRITER_FLAGS: MANAGEMENT_FLAG}
MANAGEMENT = "table_version_management"

INDEXES: dict[str, tuple[str, Literal["BTREE", "BITMAP", "LABEL_LIST"]]] = {
    "object_id_btree": ("object_id", "BTREE"),
    "object_type_bitmap": ("object_type", "BITMAP"),
    "base_objects_label_list": ("base_objects", "LABEL_LIST"),
}

log = logging.getLogger(__name__)

# After how long since it read the manifest a commit looks whether its number is still its own.
LONGEST_COMMIT_SECONDS = 900.0

BOUNDARY = f"{names.BOUNDARIES}/{DIRECTORY}"
_VERSIONS = f"{DIRECTORY}/{names.VERSIONS_DIRECTORY}"


@dataclass(frozen=True)
class _State:
    """What is known: a version, open, its rows, and the object that proved it to be the newest.

    Right after a commit of ours no object does; and a file that a killed writer left in `_versions`
    may come first for good, and proves nothing.
    """

    dataset: lance.LanceDataset | None
    snapshot: Snapshot
    newest: Entry | None
    checked_ns: int
    proven: bool
    made_at: float = field(default_factory=time.time)

    @property
    def age(self) -> float:
        """For how many seconds it may have been out of date, also if the machine was asleep."""
        return max(time.time() - self.made_at, (time.monotonic_ns() - self.checked_ns) / 1e9)


class ManifestTable:
    """The table of rows. Safe for any number of threads; commits decide between processes."""

    def __init__(
        self,
        store: Store,
        access: Lance,
        settings: Settings,
        retry: Retry,
        boundary: Boundary | None = None,
    ) -> None:
        """`boundary` refuses versions whose number was given up: ConcurrentModificationError."""
        self._store = store
        self.boundary = boundary or Boundary(store, BOUNDARY, SYSTEM_CLOCK, Retry())
        self._lance = access
        self._max_staleness_ns = int(settings.max_staleness * 1e9)
        self._indexed = settings.inline_optimization_enabled
        self._retry = retry
        self._lock = threading.Lock()
        self._state: _State | None = None

    # -- reading

    def read(self) -> Snapshot:
        """The newest rows, or rows no older than the staleness that the caller allowed. One request
        when nothing has changed."""
        state = self._state
        if state and time.monotonic_ns() - state.checked_ns < self._max_staleness_ns:
            return state.snapshot
        return self._refresh().snapshot

    def exists(self) -> bool:
        """Whether anyone has written to the catalog yet. One request."""
        return self._refresh().dataset is not None

    def metadata(self) -> dict[str, str]:
        """The metadata map of the table itself, where the properties of the root live."""
        return _metadata_of(self._refresh())

    def known(self) -> Snapshot:
        """The rows as they were read last. No request, if they ever were."""
        return (self._state or self._refresh()).snapshot

    def last_read(self) -> tuple[Snapshot, dict[str, str]]:
        """The rows and the metadata as they were read last. No request, if they ever were."""
        state = self._state or self._refresh()
        return state.snapshot, _metadata_of(state)

    def _refresh(self) -> _State:
        for attempt in range(self._retry.attempts):
            checked_ns = time.monotonic_ns()
            state = self._state
            newest = self._store.first(_VERSIONS)
            if state and state.proven and state.newest == newest:
                if self._max_staleness_ns:
                    self._renew(state, checked_ns)
                return state
            with self._lock:
                if self._state is not state:
                    continue  # what we looked at may be older than what is known now
                try:
                    return self._catch_up(newest, checked_ns)
                except FAILURES as error:
                    # A clean-up may have removed the version since: look again.
                    if attempt + 1 == self._retry.attempts:
                        raise self._lance.explain(error, "read the manifest") from error
            self._retry.pause(attempt)
        raise ConcurrentModificationError("the manifest changed again and again while it was read")

    def _renew(self, state: _State, checked_ns: int) -> None:
        with self._lock:
            if self._state is state:
                self._state = replace(state, checked_ns=checked_ns)

    def _catch_up(self, newest: Entry | None, checked_ns: int) -> _State:
        if newest is None:
            state = _State(None, EMPTY, None, checked_ns, proven=True)
        else:
            file = version_files.parse(newest)
            version = file.version if file else self._lance.open(DIRECTORY).version
            known = self._state
            if known and not known.newest and known.snapshot.version == version:
                state = replace(known, newest=newest, checked_ns=checked_ns, proven=bool(file))
            else:
                dataset = self._lance.open(DIRECTORY, version)
                _check_flags(dataset, READER_FLAGS, "read")
                state = _State(dataset, self._load(dataset), newest, checked_ns, bool(file))
        self._state = state
        return state

    def _load(self, dataset: lance.LanceDataset) -> Snapshot:
        """Read the fragments that no earlier snapshot has shown us."""
        present = self._state.snapshot.fragments if self._state else ()
        known = {fragment.key: fragment for fragment in present}
        fragments = {fragment_key(part.metadata): part for part in dataset.get_fragments()}
        unread = {key: fragment for key, fragment in fragments.items() if key not in known}
        if unread:
            scanner = dataset.scanner(fragments=list(unread.values()))
            rows = in_a_thread(scanner.to_table)
            start = 0
            for key, fragment in unread.items():
                size = fragment.count_rows()
                known[key] = FragmentRows(fragment.metadata, rows.slice(start, size))
                start += size
        managed = dataset.metadata.get(MANAGEMENT) == "true"
        return Snapshot(dataset.version, [known[key] for key in fragments], managed=managed)

    # -- writing

    def read_for_writing(self) -> Snapshot:
        """The newest rows of a catalog that we may write to. One request when nothing has changed.

        The first write of ours to a catalog of Lance's own clients stamps it with the format.
        """
        state = self._refresh()
        if state.dataset is None:
            return state.snapshot
        if _checked_stamp(state.dataset):
            return state.snapshot
        self.update_metadata({STAMP: str(FORMAT)})
        return self._refresh().snapshot

    def is_stamped(self) -> bool:
        """Whether the table has its format noted; True if there is none. One request.

        UnsupportedOperationError if it is one that we must not write to.
        """
        state = self._refresh()
        return state.dataset is None or _checked_stamp(state.dataset)

    def read_at(self, version: int) -> tuple[Snapshot, datetime]:
        """The rows of an earlier version, and when it was made."""
        try:
            entry = self._store.head(version_files.key_of(DIRECTORY, version))
            dataset = self._lance.open(DIRECTORY, version)
        except (*FAILURES, NotThere) as error:
            if isinstance(error, NotThere) or is_missing(error):
                raise TableVersionNotFoundError(
                    f"the catalog has no version {version}, or not any more"
                ) from error
            raise
        _check_flags(dataset, READER_FLAGS, "read")
        return self._load(dataset), moment(entry.modified_ms)

    def manage_versions(self) -> None:
        """Note that versions of tables are to be rows, and keep those out who do not know that."""
        flags = int(self.metadata().get(WRITER_FLAGS, "0")) | MANAGEMENT_FLAG
        self.update_metadata({MANAGEMENT: "true", WRITER_FLAGS: str(flags)})

    def create(self) -> None:
        """Make the table without a row, for the sake of its metadata. Losing the race is fine."""
        staged = Staged(DIRECTORY, SCHEMA.with_metadata({STAMP: str(FORMAT)}), [])
        with suppress(LostRaceError):
            self._lance.commit(staged, stable_row_ids=False)

    def update_metadata(self, changes: Mapping[str, str | None]) -> None:
        """Set keys of the table's own metadata map, or remove those that are None."""

        def update() -> None:
            self._lance.open(DIRECTORY).update_metadata(dict(changes))

        try:
            self._retry.on(FAILURES, update)
        except FAILURES as error:
            raise self._lance.explain(error, "update the metadata of the manifest") from error

    def fold(self) -> bool:
        """Write all rows anew if they are in more fragments than they need. Whether they were."""
        for _ in self._retry:
            draft = Draft(self.read_for_writing())
            if not is_scattered(draft.base):
                return False
            with suppress(LostRaceError):
                self.commit(draft, anew=True)
                return True
        raise ConcurrentModificationError(
            f"others changed the catalog first, {self._retry.attempts} times in a row"
        )

    def commit(self, draft: Draft, *, anew: bool = False) -> None:
        """Write the draft as the version after the one that it was based on. Three requests.

        LostRaceError if another was first; then nothing of ours is left. With `anew` no fragment
        is kept as it is.
        """
        state = self._state
        if state is None or state.snapshot is not draft.base:
            raise LostRaceError("the manifest has moved on")
        dataset = state.dataset
        schema = SCHEMA.with_metadata({STAMP: str(FORMAT)}) if dataset is None else dataset.schema
        plan, rows = lay_out(draft, schema, anew=anew)
        staged = self._lance.stage(
            DIRECTORY, rows, dataset, stable_row_ids=False, rows_per_file=plan.fragment_rows
        )
        kept = [draft.base.fragments[at] for at in plan.keep]
        try:
            committed = self._lance.commit(
                staged, dataset, keep=[fragment.metadata for fragment in kept], stable_row_ids=False
            )
        except LostRaceError:
            discard(self._store, staged)
            raise
        if state.age > LONGEST_COMMIT_SECONDS:
            self._guard_number(committed.version)
        fragments = kept + written_fragments(staged, rows)
        snapshot = Snapshot(committed.version, fragments, managed=draft.base.managed)
        with self._lock:
            self._state = _State(committed, snapshot, None, time.monotonic_ns(), proven=False)
        if self._indexed:
            self.build_indexes()

    def _guard_number(self, version: int) -> None:
        """Guard B, for a commit to what was read so long ago that its number may have been given
        up: old versions go after a day at the earliest. All others need not ask."""
        try:
            self.boundary.check(version)
        except ConcurrentModificationError as behind:
            self._store.delete(version_files.key_of(DIRECTORY, version))
            raise LostRaceError(f"version {version} of the manifest came too late") from behind

    def build_indexes(self) -> None:
        """Build the indexes that Lance's own clients look for; every commit drops them again.

        They only make others faster, so a failure is logged and changes nothing.
        """
        for name, (column, kind) in INDEXES.items():
            try:
                self._lance.open(DIRECTORY).create_scalar_index(column, kind, name=name)
            except FAILURES as error:
                log.warning("%s", self._lance.explain(error, f"build index {name} of the manifest"))


class NoManifestTable(ManifestTable):
    """The manifest of a catalog in directory mode: always empty. It makes no request.

    A commit without changes is none. Every other is refused with UnsupportedOperationError.
    """

    def _refresh(self) -> _State:
        return _State(None, EMPTY, None, 0, proven=True)

    def create(self) -> None:
        raise needs_manifest("the catalog has no manifest to write to")

    def commit(self, draft: Draft, *, anew: bool = False) -> None:
        self.create()

    def update_metadata(self, changes: Mapping[str, str | None]) -> None:
        self.create()


def needs_manifest(refusal: str) -> UnsupportedOperationError:
    """The error for what directory mode can't do."""
    return UnsupportedOperationError(refusal, hint="open the catalog with manifest_enabled=true")


def _metadata_of(state: _State) -> dict[str, str]:
    return {} if state.dataset is None else dict(state.dataset.metadata)


def _checked_stamp(dataset: lance.LanceDataset) -> bool:
    """Whether a manifest that we may write to has our stamp."""
    _check_flags(dataset, WRITER_FLAGS, "write to")
    # The first commit can only stamp the schema, which clients of Lance forget in theirs.
    schema = dataset.schema.metadata or {}
    stamp = dataset.metadata.get(STAMP) or schema.get(STAMP.encode(), b"").decode()
    if stamp not in ("", str(FORMAT)):
        raise UnsupportedOperationError(
            f"this catalog has format {stamp}, and this version of tiltyard writes {FORMAT}",
            hint="upgrade tiltyard first; reading goes on working",
        )
    return bool(stamp)


def _check_flags(dataset: lance.LanceDataset, key: str, verb: str) -> None:
    """Refuse a catalog that uses features we do not know, as pylance does."""
    text = dataset.metadata.get(key, "0")
    if not text.isdigit():
        raise InvalidTableStateError(f"the manifest's {key} is not a number: {text!r}")
    unknown = int(text) & ~KNOWN_FLAGS[key]
    if unknown:
        raise UnsupportedOperationError(
            f"this catalog uses features that tiltyard does not know ({key}: {unknown:#x})",
            hint=f"upgrade tiltyard to {verb} it",
        )
