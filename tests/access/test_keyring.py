"""Keys: made once, kept as hashes, refused as soon as they are revoked."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tiltyard.access import Keyring, Principal, Role
from tiltyard.errors import InvalidInputError, PermissionDeniedError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_tells_who_has_it_and_what_they_may_do(path: Path) -> None:
    keyring = Keyring(str(path))

    text = keyring.add("ann", Role.WRITER, ["prod"]).text

    assert keyring.principal(text) == Principal("ann", Role.WRITER, ("prod",))


def test_another_process_sees_a_new_key_at_once(path: Path) -> None:
    running = Keyring(str(path))

    text = Keyring(str(path)).add("ann", Role.READER).text

    assert running.principal(text) == Principal("ann", Role.READER)


def test_a_revoked_key_is_refused_at_once(path: Path) -> None:
    running = Keyring(str(path))
    text = running.add("ann", Role.ADMIN).text
    assert running.principal(text) is not None

    Keyring(str(path)).revoke("ann")

    assert running.principal(text) is None
    assert running.listed() == []


def test_what_is_kept_opens_nothing(path: Path) -> None:
    keyring = Keyring(str(path))
    made = keyring.add("ann", Role.ADMIN)

    kept = path.read_text()
    assert made.text not in kept
    assert made.text.rpartition("_")[2] not in kept
    [entry] = json.loads(kept)["keys"]
    assert keyring.principal(entry["hash"]) is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("change", [lambda key: key[:-1], lambda key: key + "A", str.upper])
def test_a_text_that_is_nearly_a_key_is_none(path: Path, change: object) -> None:
    assert callable(change)
    keyring = Keyring(str(path))
    text = keyring.add("ann", Role.READER).text

    assert keyring.principal(change(text)) is None


def test_two_keys_can_not_have_one_name(path: Path) -> None:
    keyring = Keyring(str(path))
    keyring.add("ann", Role.READER)

    with pytest.raises(InvalidInputError, match="called 'ann'"):
        keyring.add("ann", Role.ADMIN)


def test_a_name_that_is_none_is_refused_and_nothing_is_kept(path: Path) -> None:
    with pytest.raises(InvalidInputError):
        Keyring(str(path)).add("a\nb", Role.READER)

    assert not path.exists()


@pytest.mark.parametrize(
    "body", ["", "[]", '{"format": 1}', '{"format": 2, "keys": []}', '{"format": 1, "keys": [1]}']
)
def test_a_file_that_is_none_is_told_when_a_server_starts(path: Path, body: str) -> None:
    path.write_text(body)

    with pytest.raises(InvalidInputError):
        Keyring(str(path))


def test_without_a_file_there_are_no_keys_and_everybody_is_let_in() -> None:
    keyring = Keyring()

    assert keyring.is_open
    assert keyring.principal("ty_000000000000_" + "A" * 43) is None
    with pytest.raises(InvalidInputError):
        keyring.add("ann", Role.READER)


def test_roles_contain_each_other() -> None:
    assert [[has.allows(needed) for needed in Role] for has in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_a_prefix_ends_at_a_whole_part() -> None:
    ann = Principal("ann", Role.READER, ("prod", "eu"))

    assert ann.sees(["prod", "eu"])
    assert ann.sees(["prod", "eu", "users"])
    for outside in ([], ["prod"], ["prod", "europe"], ["eu", "prod"]):
        with pytest.raises(PermissionDeniedError, match=r"prod\.eu"):
            ann.require_visible(outside)
