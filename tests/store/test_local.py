"""The store on a disk, shared with other processes: some are killed, some look, none is lost."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.store import workers
from tiltyard.errors import InvalidInputError
from tiltyard.store import AlreadyThere, Changed, Listing, LocalStore, Tag, local


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "catalog"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(str(root))


def drain(receiver: Connection, at_most: int | None = None) -> list[int]:
    """What a process has reported, up to its end or the given number of reports."""
    reports: list[int] = []
    while at_most is None or len(reports) < at_most:
        try:
            reports.append(receiver.recv())
        except (EOFError, OSError):  # killed, perhaps in the middle of a report
            break
    return reports


@pytest.mark.parametrize("kills", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_no_acknowledged_swap_is_lost_when_processes_are_killed(
    store: LocalStore, root: Path, kills: int
) -> None:
    store.put_new(workers.COUNTER, workers.body(0))
    dice = random.Random(1)
    running = [workers.start_counting(str(root)) for _ in range(3)]
    acknowledged: list[int] = []
    for round_number in range(kills):
        process, receiver = running.pop(0)
        acknowledged += drain(receiver, dice.randint(1, 6))
        process.kill()
        acknowledged += drain(receiver)
        process.join()
        if round_number < kills - 3:
            running.append(workers.start_counting(str(root)))
        workers.number(store.get(workers.COUNTER).body)
        listing = store.list()
        assert [entry.key for entry in listing.objects] == [workers.COUNTER]
        assert listing.directories == ()

    reached = workers.number(store.get(workers.COUNTER).body)
    assert running == []
    assert len(acknowledged) >= kills
    assert len(set(acknowledged)) == len(acknowledged), "two swaps of the same state succeeded"
    # A killed process may have swapped without reporting it, but only once.
    assert len(acknowledged) <= reached <= len(acknowledged) + kills


# -- first, which remembers


class _CoarseKernel:
    """The operating system with a clock that ticks every 10 ms, as many file systems have it."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def stat(self, path: str) -> os.stat_result:
        fine = os.stat(path)
        fields = {name: getattr(fine, name) for name in dir(fine) if name.startswith("st_")}
        fields["st_ctime_ns"] = fine.st_ctime_ns // 10_000_000 * 10_000_000
        fields["st_mtime_ns"] = fine.st_mtime_ns // 10_000_000 * 10_000_000
        return os.stat_result(tuple(fine), fields)


@pytest.mark.parametrize("kernel", ["coarse clock", "this clock"])
@pytest.mark.parametrize("remembering", [False, True])
def test_first_is_never_stale(
    store: LocalStore,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernel: str,
    remembering: bool,
) -> None:
    if kernel == "coarse clock":
        monkeypatch.setattr(local, "os", _CoarseKernel())
    (root / "folder").mkdir(parents=True)
    process, writer = workers.start_changing(str(root), "folder")
    scans = _count_scans(store, monkeypatch)
    dice = random.Random(3)
    for _ in range(12 if remembering else 400):
        if remembering:
            until_remembered(store, scans)
        writer.send(dice.choice(["add", "add", "add and remove", "remove", "swap"]))
        expected = writer.recv()
        found = store.first("folder")
        assert (found.name if found else None) == expected
    writer.close()
    process.join()


def until_remembered(store: LocalStore, scans: Callable[[], int]) -> None:
    """Ask until the answer comes without a scan: then it is remembered."""
    before = -1
    while before != scans():
        before = scans()
        store.first("folder")


def _count_scans(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    made: list[str] = []
    scan = store._scan

    def counting(prefix: str) -> object:
        made.append(prefix)
        return scan(prefix)

    monkeypatch.setattr(store, "_scan", counting)
    return lambda: len(made)


def test_first_notices_a_change_whose_time_was_set_back(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("folder/b", b"")
    before = os.stat(root / "folder")
    until_remembered(store, _count_scans(store, monkeypatch))
    (root / "folder" / "a").write_bytes(b"")
    os.utime(root / "folder", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.first("folder") == store.head("folder/a")


# -- neighbours in one folder


def test_pruning_never_takes_a_neighbours_file(store: LocalStore) -> None:
    start = threading.Barrier(4)

    def come_and_go(number: int) -> None:
        start.wait()
        for turn in range(40):
            key = f"shared/deep/{number}-{turn}"
            (store.put_new if turn % 2 else store.put)(key, b"mine")
            assert store.get(key).body == b"mine"
            store.delete(key)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert store.list().directories == ()


def test_a_create_succeeds_even_if_it_is_deleted_at_once(store: LocalStore) -> None:
    finished = threading.Event()

    def delete_for_ever() -> None:
        while not finished.is_set():
            store.delete("shared/object")

    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(delete_for_ever)
        try:
            for _ in range(60):
                try:
                    store.put_new("shared/object", b"mine")
                except AlreadyThere:
                    continue
        finally:
            finished.set()
        deleting.result()


class _NeighbourWhoDeletes:
    """The operating system, with a neighbour who deletes an object as soon as it is linked."""

    def __init__(self, neighbour: LocalStore, key: str) -> None:
        self._neighbour = neighbour
        self._key = key

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)
        self._neighbour.delete(self._key)


def test_a_create_counts_even_if_its_folder_is_gone_when_it_returns(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    neighbour = _NeighbourWhoDeletes(LocalStore(store.url), "shared/object")
    monkeypatch.setattr(local, "os", neighbour)
    assert store.put_new("shared/object", b"mine")
    assert store.list().directories == ()


def test_a_swap_does_not_bring_back_what_was_deleted(store: LocalStore) -> None:
    for turn in range(30):
        key = f"object-{turn}"
        tag = store.put_new(key, b"before")
        start = threading.Barrier(2)

        def swap(key: str = key, tag: Tag = tag, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                store.replace(key, b"after", tag)
            except Changed:
                return

        with ThreadPoolExecutor(1) as pool:
            swapping = pool.submit(swap)
            start.wait()
            store.delete(key)
            swapping.result()
        assert store.first("") is None


# -- what lies on the disk


def test_opening_and_reading_write_nothing(store: LocalStore, root: Path) -> None:
    assert store.list().objects == ()
    assert store.first("folder") is None
    assert list(store.walk("")) == []
    store.require_conditions()
    store.delete("nothing/here")
    assert not root.exists()


def test_private_files_are_in_no_listing(store: LocalStore, root: Path) -> None:
    tag = store.put_new("object", b"1")
    store.replace("object", b"2", tag)
    assert (root / local.PRIVATE).is_dir()
    (root / local.PRIVATE / "staged" / "left by a crash").write_bytes(b"half")
    assert store.list().directories == ()
    assert [entry.key for entry in store.walk("")] == ["object"]
    for prefix in (local.PRIVATE, f"{local.PRIVATE}/staged"):
        assert store.list(prefix) == Listing((), ())
        assert store.first(prefix) is None
        assert list(store.walk(prefix)) == []


def test_writes_leave_nothing_staged(store: LocalStore, root: Path) -> None:
    tag = store.put_new("object", b"1")
    with pytest.raises(AlreadyThere):
        store.put_new("object", b"2")
    with pytest.raises(Changed):
        store.replace("object", b"3", Tag("another"))
    store.replace("object", b"4", tag)
    assert list((root / local.PRIVATE / "staged").iterdir()) == []


def test_empty_folders_of_others_do_not_exist(store: LocalStore, root: Path) -> None:
    (root / "empty").mkdir(parents=True)
    store.put("full/object", b"")
    assert store.list().directories == ("full",)
    assert store.first("empty") is None


@pytest.mark.parametrize("write", ["put", "put_new"])
def test_a_name_is_a_file_or_a_folder(store: LocalStore, write: str) -> None:
    store.put("file", b"1")
    with pytest.raises(InvalidInputError, match="file/below"):
        getattr(store, write)("file/below", b"2")
    assert store.get("file").body == b"1"


def test_a_folder_is_not_overwritten(store: LocalStore) -> None:
    store.put("folder/object", b"1")
    with pytest.raises(InvalidInputError, match="folder"):
        store.put("folder", b"2")
    assert store.get("folder/object").body == b"1"


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = LocalStore(str(tmp_path / "file"))
    assert store.list().objects == ()
    with pytest.raises(InvalidInputError):
        store.put_new("object", b"1")


def test_what_is_moved_counts_as_written_now(store: LocalStore, root: Path) -> None:
    store.put("old", b"body")
    os.utime(root / "old", (1, 1))
    store.put("before", b"body")
    store.move_many({"old": "new"})
    assert store.head("new").modified_ms >= store.head("before").modified_ms


def test_nothing_is_moved_onto_a_folder(store: LocalStore) -> None:
    store.put("old", b"body")
    store.put("folder/object", b"body")
    with pytest.raises(InvalidInputError):
        store.move_many({"old": "folder"})
    assert store.get("old").body == b"body"


def test_a_second_name_is_a_write_of_now_and_copies_nothing(store: LocalStore, root: Path) -> None:
    store.put("staged", b"body")
    os.utime(root / "staged", (1, 1))

    store.put_new("object", b"body", durable=False, same_as="staged")

    assert os.path.samefile(root / "staged", root / "object")
    assert store.head("object").modified_ms > 1_000_000


@pytest.mark.parametrize("why", ["a link", "another size", "gone", "refused"])
def test_what_can_not_have_a_second_name_is_copied(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    store.put("other", b"body")
    if why == "a link":
        (root / "staged").symlink_to(root / "other")
    elif why != "gone":
        (root / "staged").write_bytes(b"body" if why == "refused" else b"longer")
    if why == "refused":  # as for a file of another user
        link = os.link
        first = iter([PermissionError(1, "not yours")])

        def refusing(old: str, new: str) -> None:
            if (error := next(first, None)) is not None:
                raise error
            link(old, new)

        monkeypatch.setattr(local.os, "link", refusing)

    store.put_new("object", b"body", durable=False, same_as="staged")

    assert (root / "object").read_bytes() == b"body"
    assert not (root / "object").is_symlink()
    assert (root / "object").stat().st_nlink == 1
