"""A `DirectoryNamespace`: how it is opened, what it is equal to, and what it never shows."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import lance
import lance_namespace as api
import pytest

import tiltyard
from tests.behaviours.calls import (
    NAMESPACE_READS,
    PEOPLE,
    TABLE_CALLS,
    create,
    declare,
    describe,
    refused,
    tables,
)
from tests.behaviours.places import Bucket
from tests.kit.buckets import S3Server
from tests.kit.process import free_port

SECRET = "never-to-be-seen-0123456789"


def _storage(options: Mapping[str, str]) -> dict[str, str]:
    return {f"storage.{name}": value for name, value in options.items()}


# -- opening


def test_the_front_is_small_and_every_name_of_it_is_there() -> None:
    assert tiltyard.__all__ == [
        "DirectoryNamespace",
        "Migrated",
        "Settings",
        "TiltyardError",
        "connect",
    ]
    for name in tiltyard.__all__:
        assert getattr(tiltyard, name).__name__ == name


def _methods(kind: type) -> set[str]:
    return {
        name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    }


def test_methods_are_those_of_the_specification_the_trash_and_batches() -> None:
    ours = _methods(tiltyard.DirectoryNamespace) - _methods(api.LanceNamespace)

    trash = {"undrop_table", "list_trash", "table_status", "hold_table", "release_table"}
    purge = {"purge_table", "purge_tables", "list_purgable_tables", "plan_purge", "apply_purge"}
    batches = {"declare_tables", "register_tables", "drop_tables"}
    flags = {"protect_table", "unprotect_table", "keep_receipts"}
    others = {"open_table", "query_table_to", "as_properties", "acting_as"}
    assert ours == trash | purge | batches | flags | others


def test_all_other_operations_are_in_groups(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path)

    assert "optimize_table" in _methods(type(catalog.maintenance))
    assert "snapshot" in _methods(type(catalog.versions))
    assert "begin" in _methods(type(catalog.writes))
    assert "doctor" in _methods(type(catalog.health))


def test_another_actor_has_the_same_catalog_and_groups_of_its_own(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path)
    create(catalog, "people")

    ada = catalog.acting_as("ada")

    assert ada.context.catalog is catalog.context.catalog
    assert ada.services.recovery is catalog.services.recovery
    assert ada.health.services is ada.services
    ada.drop_table(api.DropTableRequest(id=["people"]))
    assert [dropped.dropped_by for dropped in catalog.list_trash()] == ["ada"]
    assert ada.purge_table(["people"]).by == "ada"


def test_lance_namespace_opens_it_by_its_full_name(tmp_path: Path) -> None:
    opened = api.connect("tiltyard.DirectoryNamespace", {"root": str(tmp_path)})

    assert isinstance(opened, tiltyard.DirectoryNamespace)
    create(opened, "people")
    assert tables(tiltyard.connect(tmp_path)) == ["people"]


def test_a_relative_root_is_meant_from_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = tiltyard.connect("catalog")
    monkeypatch.chdir("/")

    location = create(opened, "people").location

    assert location is not None
    assert location.startswith(str(tmp_path / "catalog"))


def test_opening_writes_nothing_and_asks_nobody(tmp_path: Path) -> None:
    tiltyard.connect(tmp_path / "root")
    tiltyard.connect("s3://nowhere/root", **_storage({"aws_endpoint": "http://127.0.0.1:1"}))

    assert list(tmp_path.iterdir()) == []


def test_opening_writes_nothing_into_a_bucket(ministack: S3Server) -> None:
    bucket = Bucket(ministack, ministack.new_root())

    tiltyard.connect(bucket.root, **_storage(bucket.storage_options))

    assert bucket.files() == {}


def test_it_pickles_with_all_of_its_settings(ministack: S3Server) -> None:
    bucket = Bucket(ministack, ministack.new_root())
    catalog = tiltyard.connect(
        bucket.root, manifest_enabled=False, **_storage(bucket.storage_options)
    )
    create(catalog, "people")

    copy = pickle.loads(pickle.dumps(catalog))

    assert tables(copy) == ["people"]
    assert copy.namespace_id() == catalog.namespace_id()
    with refused(api.ErrorCode.UNSUPPORTED):
        tables(copy, "child")


# -- pylance as a client


def test_pylance_writes_and_reads_through_it(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path)

    lance.write_dataset(PEOPLE, namespace_client=catalog, table_id=["people"])

    assert tables(catalog) == ["people"]
    read = lance.dataset(namespace_client=catalog, table_id=["people"])
    assert read.to_table() == PEOPLE


# -- storage options

ANSWERS: dict[str, Callable[[api.LanceNamespace], dict[str, str] | None]] = {
    "declare": lambda catalog: declare(catalog, "declared").storage_options,
    "create": lambda catalog: create(catalog, "created").storage_options,
    "describe": lambda catalog: describe(catalog, "there").storage_options,
}


def _open(ministack: S3Server, **properties: str) -> tiltyard.DirectoryNamespace:
    catalog = tiltyard.connect(
        ministack.new_root(), **properties, **_storage(ministack.storage_options())
    )
    create(catalog, "there")
    return catalog


@pytest.mark.parametrize("answer", ANSWERS)
def test_storage_options_are_kept_to_itself(ministack: S3Server, answer: str) -> None:
    assert ANSWERS[answer](_open(ministack)) is None


@pytest.mark.parametrize("answer", ANSWERS)
def test_storage_options_are_handed_out_on_request(ministack: S3Server, answer: str) -> None:
    catalog = _open(ministack, vend_input_storage_options="true")

    assert ANSWERS[answer](catalog) == ministack.storage_options()


def test_a_caller_may_go_without_storage_options(ministack: S3Server) -> None:
    catalog = _open(ministack, vend_input_storage_options="true")

    assert describe(catalog, "there", vend_credentials=False).storage_options is None
    assert declare(catalog, "declared", vend_credentials=False).storage_options is None


def test_handed_out_options_may_have_an_end(ministack: S3Server) -> None:
    catalog = _open(
        ministack,
        vend_input_storage_options="true",
        vend_input_storage_options_refresh_interval_millis="60000",
    )
    before = time.time_ns() // 1_000_000

    options = describe(catalog, "there").storage_options

    assert options is not None
    ends = int(options.pop("expires_at_millis"))
    assert before + 60_000 <= ends <= time.time_ns() // 1_000_000 + 60_000
    assert options == ministack.storage_options()


# -- what it never tells


def _errors(catalog: tiltyard.DirectoryNamespace) -> list[tiltyard.TiltyardError]:
    """What becomes of every operation on a store that can't be used."""
    errors = []
    for name, call in (TABLE_CALLS | NAMESPACE_READS).items():
        try:
            call(catalog, ["people"] if name in TABLE_CALLS else [])
        except tiltyard.TiltyardError as error:
            errors.append(error)
    return errors


def _log(errors: list[tiltyard.TiltyardError]) -> str:
    """The errors with all of their causes, as a log shows them."""
    return "\n".join("".join(traceback.format_exception(error)) for error in errors)


@pytest.mark.parametrize("key", ["aws_secret_access_key", "aws_access_key_id"])
def test_wrong_keys_are_refused_and_not_told(seaweedfs: S3Server, key: str) -> None:
    catalog = tiltyard.connect(
        seaweedfs.new_root(),
        manifest_enabled=False,
        **_storage({**seaweedfs.storage_options(), key: SECRET}),
    )

    errors = _errors(catalog)

    assert api.ErrorCode.UNAUTHENTICATED in {error.code for error in errors}
    assert SECRET not in _log(errors)
    assert SECRET not in repr([catalog, catalog.context.settings, errors])


def test_a_store_that_does_not_answer_is_told_without_its_keys(ministack: S3Server) -> None:
    secrets = (SECRET, SECRET[::-1], SECRET.upper())
    keys = ("aws_secret_access_key", "aws_access_key_id", "aws_session_token")
    nowhere = ministack.through(f"http://127.0.0.1:{free_port()}").storage_options()
    catalog = tiltyard.connect(
        ministack.new_root(),
        manifest_enabled=False,
        **_storage({**nowhere, **dict(zip(keys, secrets, strict=True))}),
    )

    errors = _errors(catalog)

    assert api.ErrorCode.SERVICE_UNAVAILABLE in {error.code for error in errors}
    assert not [secret for secret in secrets if secret in _log(errors)]
    assert not [secret for secret in secrets if secret in repr([catalog, catalog.context.settings])]


def test_a_password_in_an_endpoint_is_not_told(ministack: S3Server) -> None:
    endpoint = f"http://user:{SECRET}@127.0.0.1:{free_port()}"
    catalog = tiltyard.connect(
        ministack.new_root(),
        manifest_enabled=False,
        **_storage(ministack.through(endpoint).storage_options()),
    )

    with refused(api.ErrorCode.SERVICE_UNAVAILABLE) as caught:
        tables(catalog)

    assert SECRET not in str(caught.value)
    assert SECRET not in repr(catalog)


def test_a_bucket_that_is_missing_is_told_as_such(ministack: S3Server) -> None:
    catalog = tiltyard.connect(
        "s3://no-such-bucket/root", manifest_enabled=False, **_storage(ministack.storage_options())
    )

    with refused(api.ErrorCode.INVALID_INPUT):
        tables(catalog)
    with refused(api.ErrorCode.INVALID_INPUT):
        create(catalog, "people")
