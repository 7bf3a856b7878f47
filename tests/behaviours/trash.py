"""The trash in the words of a test, and what it takes to see that nothing was touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import lance
import pyarrow as pa
import pytest

from tests.behaviours.calls import PLANTS
from tests.behaviours.places import Place
from tiltyard import DirectoryNamespace
from tiltyard.clock import SYSTEM_CLOCK

# By which Lance's own clients know that a table at a V1 location is hidden.
NESTED = ".lance-deregistered"

DAY = timedelta(days=1)

on_disk = pytest.mark.parametrize("place", ["disk"], indirect=True)


@contextmanager
def clocks_ahead(by: timedelta) -> Iterator[None]:
    """Whatever catalog is opened inside lives so much later than we do."""
    ms = round(by / timedelta(milliseconds=1))
    later = replace(SYSTEM_CLOCK, now_ms=lambda: SYSTEM_CLOCK.now_ms() + ms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tiltyard.clock.SYSTEM_CLOCK", later)
        yield


def trash(catalog: DirectoryNamespace) -> list[tuple[str, ...]]:
    """The ids in the trash, oldest drop first."""
    return [dropped.id for dropped in catalog.list_trash()]


def status(catalog: DirectoryNamespace, *table: str) -> str:
    return catalog.table_status(list(table)).state.value


def bytes_below(place: Place, location: str) -> dict[str, bytes]:
    """Every file of a table; not the one that tells other clients that it is hidden."""
    return {
        key: place.read(key)
        for key, state in place.files().items()
        if key.startswith(f"{location}/") and state and not key.endswith(f"/{NESTED}")
    }


def write_unaware(place: Place, location: str, data: pa.Table = PLANTS) -> int:
    """What a writer does that knows the directory and no catalog; returns the version it made."""
    return lance.write_dataset(
        data,
        place.uri(location),
        mode="overwrite",
        storage_options=place.storage_options or None,
    ).version
