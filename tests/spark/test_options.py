"""Options arrive as texts under names in any case; a wrong one is refused by its name."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tiltyard.errors import InvalidInputError
from tiltyard.spark.options import (
    ChangeOptions,
    Options,
    ReadOptions,
    StreamReadOptions,
    StreamWriteOptions,
    VersionOptions,
    WriteOptions,
)

TABLE = {"root": "/lake", "table": "t"}


def read(**given: Any) -> ReadOptions:
    return ReadOptions.parse({**TABLE, **given})


def test_a_name_means_the_same_in_any_case() -> None:
    options = ReadOptions.parse({"ROOT": "/lake", "Batch_Size": "10", "STORAGE.Region": "x"})

    assert options.batch_size == 10
    assert options.properties == {"root": "/lake", "storage.region": "x"}
    assert options == pickle.loads(pickle.dumps(options))


def test_what_is_missing_has_its_default() -> None:
    options = read()

    assert options.path is options.version is options.columns is options.nearest is None
    assert (options.with_row_id, WriteOptions.parse(TABLE).mergeschema) == (False, False)
    assert StreamReadOptions.parse(TABLE).starting_version == "earliest"
    assert StreamReadOptions.parse(TABLE).fail_on_data_loss


def test_each_kind_is_read() -> None:
    assert read(limit=" 7 ").limit == 7
    assert read(with_row_id="TRUE").with_row_id
    assert read(with_row_id=True).with_row_id
    assert read(columns="a, b.c ,d").columns == ("a", "b.c", "d")
    assert read(columns='["x,y", "z"]').columns == ("x,y", "z")
    assert read(nearest='{"column": "v", "q": [1.0]}').nearest == {"column": "v", "q": [1.0]}
    assert read(full_text="two words").full_text == "two words"
    assert read(full_text='{"query": "word"}').full_text == {"query": "word"}
    assert WriteOptions.parse({**TABLE, "mergeSchema": True, "if_exists": " Ignore"}) == (
        WriteOptions.parse({**TABLE, "mergeschema": "true", "if_exists": "ignore"})
    )
    assert StreamReadOptions.parse({**TABLE, "starting_version": "3"}).starting_version == 3


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-05-04T12:00:00Z", datetime(2026, 5, 4, 12, tzinfo=UTC)),
        ("2026-05-04 12:00:00", datetime(2026, 5, 4, 12, tzinfo=UTC)),
        ("2026-05-04", datetime(2026, 5, 4, tzinfo=UTC)),
        (
            "2026-05-04T12:00:00+02:00",
            datetime(2026, 5, 4, 12, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_a_time_without_a_zone_is_in_utc(text: str, meant: datetime) -> None:
    assert VersionOptions.parse({"as_of": text}).as_of == meant


@pytest.mark.parametrize(
    ("model", "name", "text", "message"),
    [
        (ReadOptions, "limit", "many", "'limit' must be a whole number, not 'many'"),
        (ReadOptions, "limit", "1.5", "'limit' must be a whole number, not '1.5'"),
        (ReadOptions, "limit", "0", "'limit' must be at least 1, not 0"),
        (ReadOptions, "with_row_id", "yes", "'with_row_id' must be true or false, not 'yes'"),
        (ReadOptions, "columns", "a,,b", "'columns' has an empty name"),
        (ReadOptions, "columns", "a,b,a", "'columns' names something twice"),
        (ReadOptions, "columns", "[1, 2]", "'columns' must be a list of names"),
        (ReadOptions, "nearest", "{", "'nearest' is not JSON"),
        (ReadOptions, "nearest", "{}", "'nearest' needs a column and a vector"),
        (ReadOptions, "full_text", "{}", "'full_text' needs a query"),
        (ReadOptions, "as_of", "yesterday", "'as_of' must be a time like"),
        (ReadOptions, "tag", "  ", "'tag' is empty"),
        (WriteOptions, "mergeSchema", "perhaps", "'mergeschema' must be true or false"),
        (WriteOptions, "if_exists", "x", "'if_exists' must be one of append, error, ignore"),
        (StreamReadOptions, "starting_version", "0", "'starting_version' can't be '0'"),
        (StreamReadOptions, "start_version", "1", "did you mean 'starting_version'"),
        (StreamReadOptions, "filter", "id > 1", "'filter' has no meaning in a stream"),
        (StreamWriteOptions, "if_exists", "error", "'if_exists' has no meaning in a stream"),
        (ReadOptions, "limmit", "1", "unknown option 'limmit' .did you mean 'limit'"),
        (VersionOptions, "colour", "red", "known are as_of, branch, tag, version"),
        (ChangeOptions, "storage.", "x", "unknown option 'storage.'"),
        (ReadOptions, "option.table", "t", "CREATE TEMPORARY VIEW"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(
    model: type[Options], name: str, text: str, message: str
) -> None:
    table = {} if model is VersionOptions else TABLE
    with pytest.raises(InvalidInputError, match=message):
        model.parse({**table, name: text})


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="can't both be given"):
        read(num_partitions=2, fragments_per_partition=2)
    with pytest.raises(InvalidInputError, match="choose one of them"):
        StreamReadOptions.parse({**TABLE, "change_kinds": True, "skip_changes": True})


@pytest.mark.parametrize("name", ["as_of", "columns", "filter", "limit", "tag", "with_row_id"])
def test_a_view_of_a_part_of_a_table_can_not_be_written_through(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"written through the option '{name}'"):
        WriteOptions.parse({**TABLE, name: "1"})


def test_options_of_spark_for_a_stream_are_left_to_it() -> None:
    given = {**TABLE, "checkpointLocation": "/c", "queryName": "q", "batch_size": "10"}
    assert StreamWriteOptions.parse(given).batch_size == 10


def test_a_credential_is_not_shown() -> None:
    assert "hunter2" not in repr(read(**{"storage.secret": "hunter2"}))
