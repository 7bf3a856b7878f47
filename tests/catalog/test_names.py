"""Names are refused or they round-trip, and no two share anything on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tiltyard.catalog import names
from tiltyard.errors import InvalidInputError

# A busy machine is no reason to fail.
patient = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

# Characters that mean something to us, to a disk, to a URI or to a listing, and any others.
LOADED = st.sampled_from(
    ["$", "/", "\\", ".", "_", "__", ".lance", ".deleted", "%", "%2F", " ", "é"]
)
PARTS = st.one_of(
    st.text(max_size=12),
    st.lists(st.one_of(LOADED, st.text(max_size=3)), max_size=6).map("".join),
    st.from_regex(r"[0-9a-f]{8}_[a-z]{1,3}(\.lance)?", fullmatch=True),
)
ANYTHING = st.lists(PARTS, min_size=1, max_size=4)
HASHES = st.text("0123456789abcdef", min_size=8, max_size=32)


def accepted(parts: list[str]) -> names.TableId:
    try:
        return names.parse_table_id(parts)
    except InvalidInputError:
        assume(False)
        raise


GOOD = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="$/\\")
GOOD_PARTS = st.one_of(
    st.text(GOOD, min_size=1, max_size=8),
    st.text(st.sampled_from("._%a0 "), min_size=1, max_size=8),
    st.from_regex(r"[0-9a-f]{8}_[a-z]{1,3}(\.lance|\.deleted)?", fullmatch=True),
)
IDENTIFIERS = (
    st.lists(GOOD_PARTS, min_size=1, max_size=3)
    .map(tuple)
    .filter(lambda parts: not {".", ".."}.intersection(parts) and not parts[0].startswith("__"))
)
ROOT_NAMES = IDENTIFIERS.map(lambda parts: parts[0])


@patient
@given(ANYTHING)
def test_a_name_is_refused_or_round_trips(parts: list[str]) -> None:
    identifier = accepted(parts)
    assert list(identifier) == parts
    assert names.split_object_id(names.object_id(identifier)) == identifier


@patient
@given(ANYTHING)
def test_an_id_is_refused_if_one_of_its_names_is(parts: list[str]) -> None:
    if any(map(names.why_refused, parts)) or parts[0].startswith(names.RESERVED_PREFIX):
        with pytest.raises(InvalidInputError):
            names.parse_table_id(parts)
    else:
        assert names.parse_table_id(parts) == tuple(parts)


@patient
@given(IDENTIFIERS, IDENTIFIERS)
def test_two_identifiers_never_share_an_object_id(one: names.TableId, other: names.TableId) -> None:
    assume(one != other)
    assert names.object_id(one) != names.object_id(other)


@patient
@given(ROOT_NAMES)
def test_a_root_table_is_found_again_by_its_directory_and_its_marker(name: str) -> None:
    assert names.table_name(names.table_directory(name)) == name
    assert names.marked_name(names.marker_key(name)) == name
    assert names.marked_name(names.table_directory(name)) is None
    assert names.table_name(names.marker_key(name)) is None


@patient
@given(ROOT_NAMES)
def test_the_directory_of_a_root_table_never_counts_as_hashed(name: str) -> None:
    assert not names.is_hashed_directory(names.table_directory(name))


@patient
@given(IDENTIFIERS, HASHES)
def test_a_hashed_directory_tells_its_table_and_is_never_that_of_a_root_table(
    identifier: names.TableId, entropy: str
) -> None:
    directory = names.hashed_directory(identifier, entropy)
    assert directory.partition("_")[2].startswith(names.object_id(identifier))
    assert names.is_hashed_directory(directory)
    assert names.table_name(directory) is None


@patient
@given(st.text(max_size=20), st.sampled_from([".lance", ".deleted", ""]))
def test_only_our_own_directories_and_markers_have_a_table(text: str, suffix: str) -> None:
    for name in (names.table_name(text + suffix), names.marked_name(text + suffix)):
        if name is not None:
            assert names.parse_table_id([name]) == (name,)


@patient
@given(IDENTIFIERS)
def test_a_uri_is_encoded_once_and_a_path_is_not(identifier: names.TableId) -> None:
    directory = names.hashed_directory(identifier, "0123abcd")
    assert unquote(names.uri("s3://bucket/root", directory)) == f"s3://bucket/root/{directory}"
    assert names.uri("/root", directory) == f"/root/{directory}"


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("", "empty"),
        (".", "directory"),
        ("..", "directory"),
        ("a$b", "'\\$'"),
        ("a/b", "'/'"),
        ("a\\b", "contains"),
        ("a\x00b", "contains"),
        ("a\nb", "contains"),
        ("a\x7fb", "contains"),
        ("a\u2028b", "contains"),
        ("a\ud800b", "contains"),
        (7, "not a string"),
        (None, "not a string"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(part: object, reason: str) -> None:
    for parse in (names.parse_table_id, names.parse_namespace_id):
        with pytest.raises(InvalidInputError, match=reason):
            parse(["good", part])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "part",
    ["a b", "ünï", "日本語", "😀", "a.lance", "x.deleted", "-", "~", "%", "'", '"', "*", "#"],
)
def test_unusual_names_are_good_names(part: str) -> None:
    assert names.parse_table_id([part]) == (part,)


def test_reserved_names_are_refused_at_the_root_only() -> None:
    for reserved in ("__manifest", "__trash", "__"):
        with pytest.raises(InvalidInputError, match="reserved"):
            names.parse_table_id([reserved])
        with pytest.raises(InvalidInputError, match="reserved"):
            names.parse_namespace_id([reserved, "x"])
        assert names.parse_table_id(["prod", reserved]) == ("prod", reserved)


def test_an_id_is_a_list_and_a_table_needs_one() -> None:
    assert names.parse_namespace_id([]) == names.ROOT
    with pytest.raises(InvalidInputError, match="required"):
        names.parse_table_id(None)
    with pytest.raises(InvalidInputError, match="required"):
        names.parse_table_id([])
    with pytest.raises(InvalidInputError, match="required"):
        names.parse_namespace_id(None)
    with pytest.raises(InvalidInputError) as refused:
        names.parse_table_id("users")
    assert refused.value.hint == "did you mean ['users']?"


@pytest.mark.parametrize("character", ["a", "é", "日", "😀"])
def test_the_longest_id_fits_on_a_disk_and_a_longer_one_is_refused(
    tmp_path: Path, character: str
) -> None:
    most = names.MAX_OBJECT_ID_BYTES // len(character.encode())
    name = character * most
    (identifier,) = names.parse_table_id([name])
    for entry in (
        names.table_directory(identifier),
        names.marker_key(identifier),
        names.hashed_directory((identifier,), "0123abcd"),
    ):
        os.mkdir(tmp_path / entry)
    with pytest.raises(InvalidInputError, match="too long"):
        names.parse_table_id([name + character])
    with pytest.raises(InvalidInputError, match="too long"):
        names.parse_table_id([name, character])
    assert names.table_name(names.table_directory(name + character)) is None


def test_people_read_dots() -> None:
    assert names.display(("prod", "users")) == "'prod.users'"
    assert names.display(()) == "the root"
