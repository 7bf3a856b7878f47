"""The body of a marker by itself: what a rewrite keeps."""

from __future__ import annotations

import json
from dataclasses import replace

from tiltyard.catalog import marker
from tiltyard.catalog.marker import State
from tiltyard.clock import SYSTEM_CLOCK
from tiltyard.store import MemoryStore

MARKER = "people.deleted"


def test_fields_of_other_writers_survive_a_change_of_state() -> None:
    store = MemoryStore()
    body = {"format": 1, "state": "deregistered", "nonce": "n", "colour": {"of": "later"}}
    store.put(MARKER, json.dumps(body).encode().ljust(256))

    present = marker.read(store, "people")
    marker.swap(store, "people", present, replace(present, generation="g"), SYSTEM_CLOCK)

    written = json.loads(store.get(MARKER).body)
    assert written["colour"] == {"of": "later"}
    assert written["nonce"] != "n"


def test_a_protected_table_stays_protected_when_it_is_hidden_and_shown() -> None:
    store = MemoryStore()
    store.put(MARKER, b'{"format":1,"state":"live","nonce":"n","protected":1}'.ljust(64))

    for state in (State.DEREGISTERED, State.LIVE):
        present = marker.read(store, "people")
        marker.swap(store, "people", present, replace(present.cleared(), state=state), SYSTEM_CLOCK)

    assert marker.read(store, "people").protected
    assert len(store.get(MARKER).body) == 64
