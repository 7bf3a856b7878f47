"""Properties become settings or are refused with a hint; settings become properties again."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tiltyard.errors import InvalidInputError
from tiltyard.settings import Settings

SECRETS = {
    "aws_access_key_id": "AKIAEXAMPLE",
    "aws_secret_access_key": "wJalrXUtn",
    "aws_session_token": "FwoGZXIvYXdz",
    "azure_storage_account_key": "Eby8vdM02x",
    "azure_storage_sas_key": "sv=2024&sig=abc",
    "google_service_account_key": '{"private_key": "-----BEGIN"}',
}


def settings(**properties: object) -> Settings:
    return Settings.from_properties({"root": "/catalog", **properties})


def refusal(properties: dict[str, object]) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as refused:
        Settings.from_properties(properties)
    return refused.value


def test_the_defaults_are_those_of_lances_own_namespace() -> None:
    made = settings()
    assert (made.manifest_enabled, made.dir_listing_enabled) == (True, True)
    assert made.vend_input_storage_options is False
    assert made.vend_input_storage_options_refresh_interval_millis is None
    assert made.storage == {}


@pytest.mark.parametrize("yes", [True, "true", "True", " TRUE ", "1", 1, "yes", "on"])
@pytest.mark.parametrize("no", [False, "false", "False", " FALSE ", "0", 0, "no", "off"])
def test_flags_are_taken_as_strings_too(yes: object, no: object) -> None:
    made = settings(manifest_enabled=no, vend_input_storage_options=yes)
    assert (made.manifest_enabled, made.vend_input_storage_options) == (False, True)


@pytest.mark.parametrize("value", ["maybe", "", "2", None, [], 0.5])
def test_a_flag_is_true_or_false(value: object) -> None:
    assert "manifest_enabled" in refusal({"root": "/c", "manifest_enabled": value}).message


@pytest.mark.parametrize("value", ["-1", "1.5", 1.5, "", "x", "\u0661", True, None])
def test_a_count_is_a_whole_number(value: object) -> None:
    name = "vend_input_storage_options_refresh_interval_millis"
    assert settings(**{name: "60000"}) == settings(**{name: 60_000})
    assert name in refusal({"root": "/c", name: value}).message


def test_something_has_to_tell_which_tables_there_are() -> None:
    refused = refusal({"root": "/c", "manifest_enabled": "false", "dir_listing_enabled": "false"})
    assert "both be false" in refused.message


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("rot", "root"),
        ("manifest_enable", "manifest_enabled"),
        ("dir_listing", "dir_listing_enabled"),
        ("endpoint", "storage.endpoint"),
        ("secret_access_key", "storage.secret_access_key"),
    ],
)
def test_an_unknown_property_gets_a_suggestion(typed: str, meant: str) -> None:
    refused = refusal({"root": "/c", typed: "x"})
    assert repr(typed) in refused.message
    assert refused.hint == f"did you mean {meant!r}?"


def test_a_property_like_no_other_gets_the_list() -> None:
    assert "manifest_enabled" in (refusal({"root": "/c", "zzz": "x"}).hint or "")
    assert refusal({"root": "/c", "storage.": "x"}).message


def test_storage_options_are_strings() -> None:
    made = settings(**{"storage.allow_http": True, "storage.timeout": 5, "storage.region": "x"})
    assert made.storage == {"allow_http": "true", "timeout": "5", "region": "x"}
    assert "storage.x" in refusal({"root": "/c", "storage.x": None}).message


# -- roots


@pytest.mark.parametrize(
    ("given_root", "expected"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/a b/100%/#x", "/a b/100%/#x"),
        ("file:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:///a%20b/%C3%A9", "/a b/é"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket//a//b/", "s3://bucket/a/b"),
        ("s3://bucket/a b/é", "s3://bucket/a%20b/%C3%A9"),
        ("s3://bucket/a%20b/%C3%A9", "s3://bucket/a%20b/%C3%A9"),
        ("s3://bucket/100%25", "s3://bucket/100%25"),
        ("S3://Bucket/Path", "s3://Bucket/Path"),
        ("gs://bucket/x", "gs://bucket/x"),
        ("az://container/x", "az://container/x"),
    ],
)
def test_a_root_has_one_form(given_root: str, expected: str) -> None:
    made = Settings.from_properties({"root": given_root})
    assert made.root == expected
    assert made.is_local == expected.startswith("/")
    assert Settings.from_properties({"root": made.root}) == made


def test_a_relative_root_is_taken_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.from_properties({"root": "here"}).root == os.path.join(os.getcwd(), "here")
    assert Settings.from_properties({"root": Path("here")}).root.endswith("/here")


@pytest.mark.parametrize(
    "root",
    [
        "",
        "  ",
        None,
        7,
        b"/bytes",
        "memory://x",
        "ftp://host/x",
        "https://bucket.host/x",
        "s3://",
        "s3:///no/bucket",
        "s3://user:hunter2@bucket/x",
        "s3://bucket/x?region=y",
        "s3://bucket/x#y",
        "s3://bucket/../other",
        "s3://bucket/a/%2E%2E/b",
        "file://",
        "file://relative/path",
        "file:///a?b",
        "file:///a#b",
    ],
)
def test_a_root_that_means_nothing_is_refused(root: object) -> None:
    refused = refusal({"root": root})
    assert "hunter2" not in str(refused)


def test_a_root_is_required_and_in_memory_there_is_none() -> None:
    assert "'root' is required" in refusal({}).message
    assert refusal({"root": "memory://x"}).hint == "use a temporary directory"


@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/?#"), min_size=1)
)
def test_any_prefix_of_a_bucket_is_encoded_once(name: str) -> None:
    if name in (".", "..") or "%" in name:
        return
    made = Settings.from_properties({"root": f"s3://bucket/{name}"})
    assert unquote(urlsplit(made.root).path) == f"/{name}"
    assert Settings.from_properties(made.as_properties()) == made


# -- there and back


def test_settings_become_properties_again() -> None:
    made = settings(
        root="s3://bucket/a b",
        manifest_enabled=False,
        vend_input_storage_options=True,
        vend_input_storage_options_refresh_interval_millis=5,
        **{f"storage.{name}": value for name, value in SECRETS.items()},
    )
    properties = made.as_properties()
    assert all(isinstance(value, str) for value in properties.values())
    assert Settings.from_properties(properties) == made
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_known_as_one_and_not_shown(name: str) -> None:
    made = settings(**{f"storage.{name}": SECRETS[name], "storage.aws_region": "us-east-1"})
    assert made.secrets == (SECRETS[name],)
    assert SECRETS[name] not in repr(made)
    assert SECRETS[name] not in str(made)


def test_settings_can_be_replaced_one_by_one() -> None:
    made = Settings.from_properties({"root": "/data", "default_ttl": "never"})

    assert replace(replace(made, actor="ann"), actor=made.actor) == made
