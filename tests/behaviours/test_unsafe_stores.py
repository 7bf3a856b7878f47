"""A bucket that ignores the conditions of writes: it may be read, and is never written."""

from __future__ import annotations

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    NAMESPACE_WRITES,
    TABLE_WRITES,
    namespaces,
    refused,
    tables,
    write_lance,
)
from tests.behaviours.conftest import open_catalog
from tests.behaviours.modes import Mode, with_directory_listing
from tests.behaviours.places import Bucket
from tests.kit.buckets import S3Server


@pytest.fixture
def bucket(rclone_s3: S3Server) -> Bucket:
    return Bucket(rclone_s3, rclone_s3.new_root())


@pytest.fixture
def catalog(mode: Mode, bucket: Bucket) -> api.LanceNamespace:
    return open_catalog(mode, bucket)


@pytest.mark.parametrize("call", ["declare_table", "create_table", "create_namespace"])
def test_the_first_write_is_refused_and_leaves_nothing(
    catalog: api.LanceNamespace, bucket: Bucket, call: str
) -> None:
    with refused(ErrorCode.UNSUPPORTED):
        (TABLE_WRITES | NAMESPACE_WRITES)[call](catalog, ["people"])

    assert bucket.files() == {}


@with_directory_listing
@pytest.mark.parametrize("call", ["drop_table", "deregister_table", "rename_table"])
def test_a_table_that_is_there_is_not_touched(
    catalog: api.LanceNamespace, bucket: Bucket, call: str
) -> None:
    write_lance(bucket, "people.lance")
    before = bucket.files()

    with refused(ErrorCode.UNSUPPORTED):
        TABLE_WRITES[call](catalog, ["people"])

    assert bucket.files() == before


@with_directory_listing
def test_reading_works(catalog: api.LanceNamespace, bucket: Bucket) -> None:
    write_lance(bucket, "people.lance")

    assert tables(catalog) == ["people"]
    assert namespaces(catalog) == []
