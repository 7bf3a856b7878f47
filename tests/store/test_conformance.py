"""One suite for every backend: what each verb of the seam does, as `store/base.py` says it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kit.servers import S3Server
from tests.store.conftest import Backend, keys, open_on
from tiltyard.errors import StoreCannotCompareAndSwapError
from tiltyard.store import AlreadyThere, Changed, NotThere, Store, Unchanged

# -- reading


def test_get_returns_the_bytes_that_were_written(store: Store) -> None:
    body = bytes(range(256)) * 40
    store.put("folder/object", body)
    assert store.get("folder/object").body == body


def test_what_is_known_already_is_not_read_again(store: Store) -> None:
    store.put("object", b"1")
    first = store.get("object")
    with pytest.raises(Unchanged):
        store.get("object", first.tag)
    store.put("object", b"2")
    second = store.get("object", first.tag)
    assert (second.body, second.tag == first.tag) == (b"2", False)
    with pytest.raises(NotThere):
        store.get("nothing", first.tag)


def test_an_empty_object_exists(store: Store) -> None:
    store.put_new("empty", b"")
    assert store.get("empty").body == b""
    assert store.head("empty").size == 0


def test_head_tells_key_size_and_time(store: Store) -> None:
    store.put("folder/object", b"12345")
    entry = store.head("folder/object")
    assert (entry.key, entry.name, entry.size) == ("folder/object", "object", 5)
    listed = store.list("folder").objects[0]
    # Some servers show full seconds in one answer and fractions in another.
    assert entry.modified_ms // 1_000 == listed.modified_ms // 1_000 > 1_600_000_000


def test_a_missing_object_is_not_there(store: Store) -> None:
    store.put("folder/object", b"1")
    for key in ("nothing", "folder/nothing", "nowhere/nothing", "folder/object/below"):
        with pytest.raises(NotThere):
            store.get(key)
        with pytest.raises(NotThere):
            store.head(key)


def test_a_directory_is_not_an_object(store: Store) -> None:
    store.put("folder/object", b"1")
    with pytest.raises(NotThere):
        store.get("folder")
    with pytest.raises(NotThere):
        store.head("folder")


# -- listing


def test_a_store_begins_empty(store: Store) -> None:
    listing = store.list()
    assert (listing.objects, listing.directories) == ((), ())
    assert store.first("") is None
    assert keys(store) == []


def test_list_shows_one_level_sorted(store: Store) -> None:
    for key in ("b", "a", "C", "d/x", "a.lance/v/1", "a.lance/v/2", "a.lance/d"):
        store.put(key, key.encode())
    root = store.list()
    assert [entry.key for entry in root.objects] == ["C", "a", "b"]
    assert [entry.size for entry in root.objects] == [1, 1, 1]
    assert root.directories == ("a.lance", "d")
    below = store.list("a.lance")
    assert [entry.key for entry in below.objects] == ["a.lance/d"]
    assert below.directories == ("v",)


def test_a_prefix_ends_at_a_slash(store: Store) -> None:
    for key in ("a/b/1", "a/bc/2", "a/b.txt", "ab/3"):
        store.put(key, b"")
    assert [entry.key for entry in store.list("a/b").objects] == ["a/b/1"]
    assert keys(store, "a/b") == ["a/b/1"]
    assert keys(store, "a") == ["a/b.txt", "a/b/1", "a/bc/2"]
    assert store.first("a/bc") == next(store.walk("a/bc"))


def test_a_prefix_that_is_missing_or_an_object_lists_nothing(store: Store) -> None:
    store.put("object", b"1")
    for prefix in ("nothing", "object", "object/below"):
        listing = store.list(prefix)
        assert (listing.objects, listing.directories) == ((), ())
        assert keys(store, prefix) == []
        assert store.first(prefix) is None


def test_a_directory_goes_with_its_last_object(backend: Backend) -> None:
    store = backend.new()
    store.put("kept/object", b"1")
    store.put("gone/deep/er/object", b"1")
    assert store.list().directories == ("gone", "kept")
    store.delete("gone/deep/er/object")
    assert keys(store) == ["kept/object"]
    assert store.first("gone") is None
    if not backend.folders_linger:
        assert store.list().directories == ("kept",)
        assert store.list("gone").directories == ()


def test_first_is_the_smallest_key_at_any_depth(store: Store) -> None:
    for key in ("t/9", "t/sub/1", "t/0/late", "t/00.json", "t/000", "other/0"):
        store.put(key, b"12")
    store.delete("t/0/late")
    found = store.first("t")
    assert found is not None
    assert (found.key, found.size) == ("t/00.json", 2)
    store.put("t/0/late", b"")
    found = store.first("t")
    assert found is not None
    assert found.key == "t/0/late"


def test_first_of_the_root_is_the_smallest_key_of_all(store: Store) -> None:
    store.put("b", b"")
    store.put("a", b"")
    found = store.first("")
    assert found is not None
    assert found.key == "a"


def test_long_listings_are_complete_and_bulk_deletes_thorough(backend: Backend) -> None:
    store = backend.new()
    wanted = [f"many/{number:05d}" for number in range(backend.many)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b"1"), wanted))
    store.put("many/sub/one", b"1")
    store.put("neighbour", b"1")

    listing = store.list("many")
    assert [entry.key for entry in listing.objects] == wanted
    assert listing.directories == ("sub",)
    assert keys(store, "many") == [*wanted, "many/sub/one"]
    first = store.first("many")
    assert first is not None
    assert first.key == wanted[0]

    seen: list[int] = []
    deleted = store.delete_many((key for key in wanted), seen.append)
    assert deleted == len(wanted)
    assert seen == sorted(seen)
    assert seen[-1] == len(wanted)
    assert keys(store) == ["many/sub/one", "neighbour"]


# -- writing


def test_put_new_leaves_what_is_there_alone(store: Store) -> None:
    store.put_new("object", b"first")
    with pytest.raises(AlreadyThere) as refused:
        store.put_new("object", b"second")
    assert refused.value.key == "object"
    assert store.get("object").body == b"first"


def test_put_new_takes_what_is_there_already_under_another_name(store: Store) -> None:
    store.put("staged/object", b"body")

    tag = store.put_new("object", b"body", durable=False, same_as="staged/object")
    store.delete("staged/object")

    assert store.get("object").body == b"body"
    assert store.replace("object", b"other", tag)
    with pytest.raises(AlreadyThere):
        store.put_new("object", b"body", durable=False, same_as="staged/object")
    store.put("staged/object", b"third")
    with pytest.raises(AlreadyThere):
        store.put_new("object", b"third", durable=False, same_as="staged/object")
    assert store.get("object").body == b"other"


def test_a_deleted_name_can_be_created_again(store: Store) -> None:
    store.put_new("folder/object", b"first")
    store.delete("folder/object")
    store.put_new("folder/object", b"second")
    assert store.get("folder/object").body == b"second"


def test_put_overwrites(store: Store) -> None:
    store.put("object", b"first")
    tag = store.put("object", b"second, and longer", durable=False)
    assert store.get("object").body == b"second, and longer"
    store.replace("object", b"third", tag)
    assert store.get("object").body == b"third"


def test_many_are_written_whatever_was_there(store: Store) -> None:
    store.put("folder/7", b"before")
    bodies = {f"folder/{number}": b"%d" % number for number in range(40)}
    store.put_many({})
    store.put_many(bodies)
    assert {key: store.get(key).body for key in bodies} == bodies


def test_many_are_moved_whatever_was_there(store: Store) -> None:
    for number in range(40):
        store.put(f"folder/{number}", b"%d" % number)
    store.put("elsewhere/7", b"before")
    store.move_many({})
    store.move_many({f"folder/{number}": f"elsewhere/{number}" for number in range(40)})
    for number in range(40):
        assert store.get(f"elsewhere/{number}").body == b"%d" % number
    assert list(store.walk("folder")) == []


def test_what_is_missing_is_not_moved(store: Store) -> None:
    store.put("new", b"as it was")
    store.move_many({"never/was": "new"})
    store.move_many({"never/was": "new", "nor/this": "other"})
    assert store.get("new").body == b"as it was"
    assert [entry.key for entry in store.walk("")] == ["new"]


def test_every_tag_serves_the_next_swap(store: Store) -> None:
    tag = store.put_new("object", b"1")
    tag = store.replace("object", b"2", tag)
    store.replace("object", b"3", tag)
    store.replace("object", b"4", store.get("object").tag)
    store.replace("object", b"5", store.put("object", b"4b"))
    seen = store.head("object").tag
    if seen is not None:  # a local HEAD reads no bytes and so has no tag
        store.replace("object", b"6", seen)
    listed = store.list().objects[0].tag
    if listed is not None:
        store.replace("object", b"7", listed)
    expected = b"5" if seen is None and listed is None else b"7"
    assert store.get("object").body == expected


def test_an_old_tag_swaps_nothing(store: Store) -> None:
    old = store.put_new("object", b"1")
    store.replace("object", b"2", old)
    with pytest.raises(Changed) as refused:
        store.replace("object", b"3", old)
    assert refused.value.key == "object"
    assert store.get("object").body == b"2"


def test_a_missing_object_counts_as_changed(store: Store) -> None:
    tag = store.put_new("object", b"1")
    store.delete("object")
    with pytest.raises(Changed):
        store.replace("object", b"2", tag)
    with pytest.raises(Changed):
        store.replace("never/was", b"2", tag)
    assert keys(store) == []


def test_deleting_what_is_missing_is_fine(store: Store) -> None:
    store.put("kept", b"1")
    store.put("folder/kept", b"1")
    store.delete("nothing")
    store.delete("folder")
    store.delete("nowhere/nothing")
    assert store.delete_many(["nothing", "folder/kept", "nowhere/nothing"]) == 3
    assert store.delete_many([]) == 0
    assert keys(store) == ["kept"]


def test_clients_see_each_other_at_once(backend: Backend) -> None:
    one = backend.new()
    other = backend.another_client(one)
    tag = one.put_new("object", b"1")
    with pytest.raises(AlreadyThere):
        other.put_new("object", b"2")
    other.replace("object", b"3", tag)
    with pytest.raises(Changed):
        one.replace("object", b"4", tag)
    assert one.get("object").body == b"3"


# -- conditions


def test_a_store_with_conditions_passes_the_probe_and_keeps_nothing_of_it(store: Store) -> None:
    store.require_conditions()
    store.require_conditions()
    assert keys(store) == []


@pytest.mark.servers
def test_a_store_that_ignores_conditions_is_refused(rclone_s3: S3Server) -> None:
    store = open_on(rclone_s3, rclone_s3.new_root())
    with pytest.raises(StoreCannotCompareAndSwapError, match="silently ignores"):
        store.require_conditions()
    assert keys(store) == []


@pytest.mark.servers
def test_a_store_told_not_to_use_conditions_is_refused(ministack: S3Server) -> None:
    store = open_on(ministack, ministack.new_root(), aws_conditional_put="disabled")
    with pytest.raises(StoreCannotCompareAndSwapError):
        store.require_conditions()
