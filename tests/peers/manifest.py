"""The manifest as a plain Lance table, which anybody may read, append to, compact and clean up."""

from __future__ import annotations

import shutil
from datetime import timedelta

import lance
import obstore
import pyarrow as pa

from tests.behaviours.places import Bucket, Disk, Place


def open_manifest(place: Place) -> lance.LanceDataset:
    return lance.dataset(place.uri("__manifest"), storage_options=place.storage_options or None)


def append_rows(place: Place, *names: str) -> None:
    """Rows as a program writes them that knows Lance and nothing of a namespace."""
    manifest = open_manifest(place)
    rows = pa.table(
        {
            "object_id": [f"lake${name}" for name in names],
            "object_type": ["table"] * len(names),
            "location": [f"cafe0123_lake${name}" for name in names],
        }
    )
    for column in manifest.schema:
        if column.name not in rows.schema.names:
            rows = rows.append_column(column, pa.nulls(len(names), column.type))
    lance.write_dataset(
        rows.select(manifest.schema.names).cast(manifest.schema), manifest, mode="append"
    )


def clean_up(place: Place) -> None:
    """Remove every version but the newest and those that have a tag."""
    open_manifest(place).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )


def delete_manifest(place: Place) -> None:
    if isinstance(place, Disk):
        shutil.rmtree(f"{place.root}/__manifest")
    if isinstance(place, Bucket):
        prefix = place.root.removeprefix(f"s3://{place.server.bucket}/")
        keys = [f"{prefix}/{key}" for key in place.files() if key.startswith("__manifest/")]
        obstore.delete(place.server.store(), keys)
