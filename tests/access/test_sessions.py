"""Sessions: they stand for a key, for a while, and for no longer than the key is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiltyard.access import LOCAL, Keyring, Principal, Role, Sessions


class ManualClock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(str(tmp_path / "keys.json"))


def test_a_session_stands_for_the_key_that_began_it(keyring: Keyring) -> None:
    keyring.add("bob", Role.ADMIN)
    keyring.add("ann", Role.READER)
    sessions = Sessions(keyring)

    text = sessions.issue(Principal("ann", Role.READER))

    assert sessions.verify(text) == Principal("ann", Role.READER)


def test_a_session_ends(keyring: Keyring) -> None:
    keyring.add("ann", Role.READER)
    clock = ManualClock()
    sessions = Sessions(keyring, seconds=60, clock=clock)
    text = sessions.issue(Principal("ann", Role.READER))

    clock.now += 59
    assert sessions.verify(text) is not None
    clock.now += 1
    assert sessions.verify(text) is None


def test_the_sessions_of_a_revoked_key_are_over(keyring: Keyring) -> None:
    keyring.add("ann", Role.READER)
    sessions = Sessions(keyring)
    text = sessions.issue(Principal("ann", Role.READER))

    keyring.revoke("ann")

    assert sessions.verify(text) is None


def test_a_session_of_another_server_is_none(keyring: Keyring) -> None:
    keyring.add("ann", Role.READER)
    text = Sessions(keyring).issue(Principal("ann", Role.READER))

    assert Sessions(keyring).verify(text) is None


def test_no_part_of_a_session_can_be_changed(keyring: Keyring) -> None:
    keyring.add("ann", Role.READER)
    keyring.add("root", Role.ADMIN)
    sessions = Sessions(keyring)
    text = sessions.issue(Principal("ann", Role.READER))
    admin = sessions.issue(Principal("root", Role.ADMIN))

    grafted = ".".join([*admin.split(".")[:3], text.split(".")[3]])

    assert sessions.verify(grafted) is None
    for at in range(len(text)):
        changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
        assert sessions.verify(changed) is None, f"changed at {at}"


@pytest.mark.parametrize("text", ["", "tys_", "tys_...", "tys_local.9999999999.00.AAAA", "é"])
def test_what_looks_like_a_session_is_none(keyring: Keyring, text: str) -> None:
    assert Sessions(keyring).verify(text) is None


def test_without_keys_a_session_is_that_of_this_machine(tmp_path: Path) -> None:
    sessions = Sessions(Keyring())

    assert sessions.verify(sessions.issue(LOCAL)) == LOCAL
