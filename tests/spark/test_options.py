"""Options arrive as texts under names in any case; a wrong one is refused by its name."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tiltyard.errors import InvalidInputError
from tiltyard.spark.options import PARTIAL, Options, refuse_partial_write


def test_a_name_means_the_same_in_any_case() -> None:
    options = Options({"Batch_Size": "10", "STORAGE.Region": "x"})

    assert options.integer("batch_size") == options.integer("BATCH_SIZE") == 10
    assert options["storage.region"] == "x"
    assert options == pickle.loads(pickle.dumps(options))


def test_what_is_missing_has_its_default() -> None:
    options = Options({})

    assert options.text("a") is options.integer("a") is options.number("a") is None
    assert options.names("a") is options.json("a") is options.time("a") is None
    assert options.boolean("a") is False
    assert options.integer("a", 3) == 3
    assert options.duration("a", 5.0) == 5.0


def test_each_kind_is_read() -> None:
    options = Options(
        {
            "count": " 7 ",
            "share": "0.5",
            "on": "TRUE",
            "list": "a, b.c ,d",
            "json": '["x,y", "z"]',
            "wait": "2m",
            "flag": True,
        }
    )

    assert options.integer("count") == 7
    assert options.number("share") == 0.5
    assert options.boolean("on")
    assert options.boolean("flag")
    assert options.names("list") == ["a", "b.c", "d"]
    assert options.names("json") == ["x,y", "z"]
    assert options.duration("wait") == 120.0


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
    assert Options({"as_of": text}).time("as_of") == meant


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "many"),
        ("integer", "1.5"),
        ("integer", "-1"),
        ("number", "half"),
        ("boolean", "yes"),
        ("names", "a,,b"),
        ("names", "a,b,a"),
        ("names", "[1, 2]"),
        ("json", "{"),
        ("duration", "soon"),
        ("time", "yesterday"),
        ("text", "  "),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_its_option(kind: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match="given"):
        getattr(Options({"given": text}), kind)("given")


def test_an_unknown_option_is_refused_with_the_one_that_may_be_meant() -> None:
    Options({"limit": "1", "storage.anything": "x"}).refuse_unknown({"limit"})

    with pytest.raises(InvalidInputError, match="did you mean 'limit'"):
        Options({"limmit": "1"}).refuse_unknown({"limit", "version"})
    with pytest.raises(InvalidInputError, match="known are limit, version"):
        Options({"colour": "red"}).refuse_unknown({"limit", "version"})


@pytest.mark.parametrize("name", sorted(PARTIAL))
def test_a_view_of_a_part_of_a_table_can_not_be_written_through(name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        refuse_partial_write(Options({"root": "/x", "table": "t", name: "1"}))


def test_a_whole_table_can_be_written_through() -> None:
    refuse_partial_write(Options({"root": "/x", "table": "t", "batch_size": "10"}))


def test_a_credential_is_not_shown() -> None:
    assert "hunter2" not in repr(Options({"storage.secret": "hunter2"}))
