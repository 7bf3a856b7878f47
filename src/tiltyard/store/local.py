"""The store on a local disk: atomic, durable, and safe between processes.

Creating is a link, which fails if the name exists; swapping is done under a kernel lock that a
crash releases, by fsync and rename. Locks and half-written files live under `<root>/.tiltyard`,
which no listing shows.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import hashlib
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from uuid import uuid4

from tiltyard.errors import InvalidInputError, ServiceUnavailableError, translate
from tiltyard.store.base import (
    AlreadyThere,
    Blob,
    Changed,
    Entry,
    Listing,
    NotThere,
    Progress,
    Tag,
    Unchanged,
)

PRIVATE = ".tiltyard"

_LOCKS = 64
_MISSING = (errno.ENOENT, errno.ENOTDIR)
# A neighbour that prunes empty folders may take ours away between mkdir and link, or remove the
# file that a scan has just shown.
_TRIES = 100
# A directory's time moves with every change in it, but in steps of the kernel's clock (10 ms at
# most). A scan made when that time had already stood still for this long sees all of its changes:
# a later one gets a later time. Only our own monotonic clock is asked, never the disk's.
_SETTLED_NS = 100_000_000

# What tells one state of a directory from another: its inode and the time of its last change
# (the one that nobody can set back, as rsync does with the time of modification).
_State = tuple[int, int]


class LocalStore:
    """Keys are paths below `root`. The root and its folders appear with the first write."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._first: dict[str, tuple[_State, Entry | None]] = {}
        self._unsettled: dict[str, tuple[_State, int]] = {}

    @property
    def url(self) -> str:
        return self._root

    def get(self, key: str, known: Tag | None = None) -> Blob:
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                body = file.read()
        except OSError as error:
            raise self._explain(error, "read", key) from error
        tag = _tag(body)
        if tag == known:
            raise Unchanged(key)
        return Blob(body, tag)

    def head(self, key: str) -> Entry:
        try:
            status = os.stat(self._path(key))
        except OSError as error:
            raise self._explain(error, "read", key) from error
        if stat.S_ISDIR(status.st_mode):
            raise NotThere(key)
        return Entry(key, status.st_size, status.st_mtime_ns // 1_000_000)

    def list(self, prefix: str = "") -> Listing:
        objects, directories = [], []
        start = f"{prefix}/" if prefix else ""
        for item in self._scan(prefix):
            try:
                if item.is_dir():
                    if _holds_something(item):
                        directories.append(item.name)
                else:
                    status = item.stat()
                    modified_ms = status.st_mtime_ns // 1_000_000
                    objects.append(Entry(start + item.name, status.st_size, modified_ms))
            except (FileNotFoundError, NotADirectoryError):  # removed since the scan began
                continue
        objects.sort(key=attrgetter("key"))
        return Listing(tuple(objects), tuple(sorted(directories)))

    def first(self, prefix: str) -> Entry | None:
        """Free while the directory does not change: then one `stat` proves the last answer."""
        for _ in range(_TRIES):
            try:
                status = os.stat(self._path(prefix))
            except OSError as error:
                if error.errno in _MISSING:
                    return None
                raise self._explain(error, "list", prefix) from error
            state = (status.st_ino, status.st_ctime_ns)
            known = self._first.get(prefix)
            if known is not None and known[0] == state:
                return known[1]
            settled = self._has_stood_still(prefix, state)
            name = min(self._names(prefix), default="")
            key = f"{prefix}/{name}" if prefix else name
            try:
                entry = self.head(key) if name else None
            except NotThere:
                if os.path.isdir(self._path(key)):  # whose times this directory does not show
                    return min(self.walk(prefix), key=lambda entry: entry.key, default=None)
                continue  # removed since
            if settled:
                self._first[prefix] = (state, entry)
            return entry
        raise ServiceUnavailableError(
            f"could not list {prefix}: it changed {_TRIES} times meanwhile"
        )

    def _has_stood_still(self, prefix: str, state: _State) -> bool:
        now = time.monotonic_ns()
        seen, since = self._unsettled.get(prefix, (None, now))
        if seen != state:
            self._unsettled[prefix] = (state, now)
            return False
        return now - since > _SETTLED_NS

    def walk(self, prefix: str) -> Iterator[Entry]:
        listing = self.list(prefix)
        yield from listing.objects
        for directory in listing.directories:
            yield from self.walk(f"{prefix}/{directory}" if prefix else directory)

    def put_new(
        self, key: str, body: bytes, *, durable: bool = True, same_as: str | None = None
    ) -> Tag:
        if same_as is not None and not durable and self._named_too(same_as, key, len(body)):
            return _tag(body)
        with self._written(key, body, durable=durable) as temporary:
            self._into_place(os.link, temporary, key, durable=durable)
        return _tag(body)

    def _named_too(self, old: str, new: str, size: int) -> bool:
        """Give a file a second name. False if it can't have one: it may be a link, another user's,
        or lie on another disk. It counts as written now."""
        path = self._path(old)
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                return False
            os.utime(path)
            os.link(path, self._path(new))
        except FileExistsError as error:
            raise AlreadyThere(new) from error
        except OSError:
            return False
        return True

    def replace(self, key: str, body: bytes, tag: Tag) -> Tag:
        with self._locked(key):
            try:
                current = self.get(key)
            except NotThere as missing:
                raise Changed(key, "it is gone") from missing
            if current.tag != tag:
                raise Changed(key)
            return self._overwrite(key, body)

    def put(self, key: str, body: bytes, *, durable: bool = True) -> Tag:
        with self._locked(key):
            return self._overwrite(key, body, durable=durable)

    def put_many(self, bodies: Mapping[str, bytes]) -> None:
        for key, body in bodies.items():
            self._jot_down(key, body)

    def move_many(self, moves: Mapping[str, str]) -> None:
        for old, new in moves.items():
            self._move(old, new)
            if os.path.dirname(old) != os.path.dirname(new):
                self._prune(old)

    def delete(self, key: str) -> None:
        # Under the lock, or a swap that has just compared would bring the object back.
        path = self._path(key)
        if not os.path.lexists(path) or os.path.isdir(path):
            return
        with self._locked(key):
            try:
                os.unlink(path)
            except OSError as error:
                if error.errno in _MISSING:
                    return
                raise self._explain(error, "delete", key) from error
        self._prune(key)

    def delete_many(self, keys: Iterable[str], progress: Progress | None = None) -> int:
        deleted = 0
        for deleted, key in enumerate(keys, 1):
            self.delete(key)
            if progress and deleted % 1_000 == 0:
                progress(deleted)
        if progress:
            progress(deleted)
        return deleted

    def require_conditions(self) -> None:
        """Links and locks are the kernel's, so there is nothing to find out."""

    # -- how a write becomes durable

    def _overwrite(self, key: str, body: bytes, *, durable: bool = True) -> Tag:
        with self._written(key, body, durable=durable) as temporary:
            self._into_place(os.replace, temporary, key, durable=durable)
        return _tag(body)

    def _jot_down(self, key: str, body: bytes) -> None:
        """Neither atomic nor synced: a fraction of the time of a write that is."""
        path = self._path(key)
        folder = os.path.dirname(path)
        for _ in range(_TRIES):
            try:
                with suppress(FileExistsError):
                    os.mkdir(folder)
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
                try:
                    os.write(descriptor, body)
                finally:
                    os.close(descriptor)
                return
            except FileNotFoundError:
                os.makedirs(folder, exist_ok=True)
            except OSError as error:
                raise self._refused(error, key) from error
        raise self._keeps_disappearing(key)

    def _move(self, old: str, new: str) -> None:
        path = self._path(old)
        for _ in range(_TRIES):
            try:
                os.utime(path)
                os.replace(path, self._path(new))
                return
            except FileNotFoundError:
                if not os.path.lexists(path):
                    return
                with suppress(FileNotFoundError):
                    os.makedirs(os.path.dirname(self._path(new)), exist_ok=True)
            except OSError as error:
                raise self._refused(error, new) from error
        raise self._keeps_disappearing(new)

    @contextmanager
    def _written(self, key: str, body: bytes, *, durable: bool = True) -> Iterator[str]:
        """The bytes, on the disk, under a name of their own; gone again afterwards."""
        temporary = f"{self._private('staged')}/{uuid4().hex}"
        try:
            with open(temporary, "xb") as file:
                file.write(body)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            yield temporary
        except OSError as error:
            raise self._refused(error, key) from error
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def _into_place(
        self,
        move: Callable[[str, str], None],
        temporary: str,
        key: str,
        *,
        durable: bool = True,
    ) -> None:
        path = self._path(key)
        folder = os.path.dirname(path)
        is_new = False
        for _ in range(_TRIES):
            try:
                move(temporary, path)
                break
            except FileExistsError as error:
                raise AlreadyThere(key) from error
            except FileNotFoundError:
                is_new = True
                with suppress(FileNotFoundError):
                    os.makedirs(folder, exist_ok=True)
        else:
            raise self._keeps_disappearing(key)
        if not durable:
            return
        with suppress(FileNotFoundError):  # deleted by another since, and the folder pruned
            _sync(folder)
            while is_new and folder != self._root:
                folder = os.path.dirname(folder)
                _sync(folder)

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        name = f"{zlib.crc32(key.encode()) % _LOCKS:02d}"
        try:
            descriptor = os.open(f"{self._private('locks')}/{name}", os.O_CREAT | os.O_RDWR, 0o666)
        except OSError as error:
            raise self._explain(error, "lock", key) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _private(self, folder: str) -> str:
        path = f"{self._root}/{PRIVATE}/{folder}"
        if not os.path.isdir(path):
            try:
                _make_durable_folders(path)
            except OSError as error:
                raise self._refused(error, f"{PRIVATE}/{folder}") from error
        return path

    def left_behind(self) -> Sequence[Entry]:
        """Files that were being written, by processes that are at work or died over it."""
        folder = f"{PRIVATE}/staged"
        found: builtins.list[Entry] = []
        with suppress(FileNotFoundError), os.scandir(self._path(folder)) as items:
            for item in items:
                with suppress(NotThere):
                    found.append(self.head(f"{folder}/{item.name}"))
        return found

    def _prune(self, key: str) -> None:
        """Empty folders are not directories here, so none stays behind. rmdir spares the others."""
        with suppress(OSError):
            while "/" in key:
                key = key.rpartition("/")[0]
                os.rmdir(self._path(key))

    # -- reading

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root

    def _names(self, prefix: str) -> Sequence[str]:
        if prefix.partition("/")[0] == PRIVATE:
            return ()
        try:
            return os.listdir(self._path(prefix))
        except OSError as error:
            if error.errno in _MISSING:
                return ()
            raise self._explain(error, "list", prefix) from error

    def _scan(self, prefix: str) -> Sequence[os.DirEntry[str]]:
        if prefix.partition("/")[0] == PRIVATE:
            return ()
        try:
            with os.scandir(self._path(prefix)) as items:
                return [item for item in items if prefix or item.name != PRIVATE]
        except OSError as error:
            if error.errno in _MISSING:
                return ()
            raise self._explain(error, "list", prefix) from error

    def _explain(self, error: OSError, verb: str, key: str) -> Exception:
        if error.errno in _MISSING or error.errno == errno.EISDIR:
            return NotThere(key)
        return translate(error, f"{verb} {key or 'the root'} in {self._root}")

    def _keeps_disappearing(self, key: str) -> Exception:
        return ServiceUnavailableError(
            f"could not write {key}: its folder was removed {_TRIES} times meanwhile"
        )

    def _refused(self, error: OSError, key: str) -> Exception:
        problem = translate(error, f"write {key} in {self._root}")
        if isinstance(error, NotADirectoryError | IsADirectoryError | FileExistsError):
            return InvalidInputError(
                problem.message, hint="on a disk a name is either a file or a folder"
            )
        return problem


def _tag(body: bytes) -> Tag:
    """The content itself: inodes and times come back, bodies of swapped objects never do."""
    return Tag(e_tag=hashlib.blake2b(body, digest_size=16).hexdigest())


def _holds_something(item: os.DirEntry[str]) -> bool:
    """A link count above two means subfolders (where the disk counts them); else look inside."""
    if item.stat().st_nlink > 2:
        return True
    try:
        with os.scandir(item.path) as inside:
            return next(inside, None) is not None
    except PermissionError:  # not ours to look into, like lost+found
        return True


def _make_durable_folders(folder: str) -> None:
    """Make the missing folders, each durable in the one above it."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(path)
        _sync(os.path.dirname(path))


def _sync(folder: str) -> None:
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
