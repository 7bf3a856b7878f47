"""One suite for every backend: any name goes through every verb, and roots keep to themselves."""

from __future__ import annotations

import pytest

from tests.store.conftest import Backend, keys
from tiltyard.store import Store

NAMES = [
    "with space",
    " leading",
    "ünïcödé",
    "日本語",
    "😀",
    "quo'te",
    'double"quote',
    ".hidden",
    "a.b..c",
    "100%",
    "percent%20encoded",
    "%2F",
    "ha#sh",
    "ques?tion",
    "st*r",
    "a+b&c=d",
    "<tag>",
    "[brackets]{braces}",
    "~back`tick^|",
    "$dollar;semi,comma:colon@at",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_survives_every_verb(store: Store, name: str) -> None:
    key = f"dir {name}/{name}"
    tag = store.put_new(key, b"1")
    tag = store.replace(key, b"2", tag)
    assert store.get(key).body == b"2"
    assert store.head(key).key == key
    assert store.list().directories == (f"dir {name}",)
    assert [entry.key for entry in store.list(f"dir {name}").objects] == [key]
    assert store.first(f"dir {name}") is not None
    assert keys(store, f"dir {name}") == [key]
    store.delete(key)
    store.put(key, b"3")
    store.delete_many([key])
    assert keys(store) == []


def test_a_bucket_needs_no_prefix(backend: Backend) -> None:
    store = backend.new_without_prefix()
    tag = store.put_new("top", b"1")
    store.replace("top", b"2", tag)
    store.put("folder/object", b"3")
    assert store.get("top").body == b"2"
    assert store.list().directories == ("folder",)
    assert [entry.key for entry in store.list().objects] == ["top"]
    assert keys(store) == ["folder/object", "top"]
    store.delete_many(["top", "folder/object"])
    assert keys(store) == []


def test_equal_keys_in_two_roots_are_two_objects(backend: Backend) -> None:
    one, other = backend.new(), backend.new()
    one.put("same/key", b"one")
    other.put_new("same/key", b"other")
    one.delete("same/key")
    assert keys(one) == []
    assert other.get("same/key").body == b"other"
