"""Real processes append to, update and delete from one table, while others optimize it and clean it
up as fast as they may, and are killed again and again. What was acknowledged is there, once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.processes import context
from tests.maintenance.catalogs import DIRECTORY, MANAGED, Kind
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.maintenance.policy import CleanupPolicy

SCHEMA = pa.schema([("id", pa.int64()), ("owner", pa.int64()), ("value", pa.int64())])
SECONDS_TO_END = 240
TRIES = 50
WORKS_BEFORE_DEATH = 4
# A version may go as soon as it is not among the newest few: harder than anybody should be.
POLICY = CleanupPolicy(keep_versions=5, min_age=0, allow_young=True)


@dataclass
class Owned:
    """What one writer knows of its rows. Those in doubt may be there or not, changed or not."""

    values: dict[int, int] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)
    done: int = 0


@pytest.mark.parametrize(
    "kind", [pytest.param(DIRECTORY, marks=pytest.mark.slow), MANAGED], ids=str
)
@pytest.mark.parametrize(
    ("writers", "keepers", "seconds"),
    [(2, 2, 10), pytest.param(6, 2, 300, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_the_rows_are_those_of_the_model(
    kind: Kind, tmp_path: Path, writers: int, keepers: int, seconds: int
) -> None:
    properties = {
        "root": str(tmp_path / "lake"),
        "table_version_tracking_enabled": "true",
        **kind.properties,
    }
    catalog = tiltyard.DirectoryNamespace(**properties)
    if kind.managed:
        catalog.versions.manage()
    lance.write_dataset(SCHEMA.empty_table(), namespace_client=catalog, table_id=["t"])

    working = [_start(write, properties, number, seconds) for number in range(writers)]
    deaths, removed = _keep(properties, keepers, [connection for _, connection in working])
    owned = [_answer(connection) for _, connection in working]
    for process, _ in working:
        process.join()

    catalog = tiltyard.DirectoryNamespace(**properties)
    assert catalog.maintenance.optimize_table(["t"]).error is None
    removed += catalog.maintenance.cleanup_table(["t"], POLICY).versions_removed
    assert catalog.maintenance.cleanup_table(["t"], POLICY).is_nothing

    rows = catalog.open_table(["t"]).to_table().to_pylist()
    doubtful = set().union(*(writer.doubtful for writer in owned))
    counts = Counter(row["id"] for row in rows)
    assert set(counts.values()) <= {1}, "no row came twice"
    present = {row["id"]: row["value"] for row in rows if row["id"] not in doubtful}
    expected = {key: value for writer in owned for key, value in writer.values.items()}
    assert present == {key: value for key, value in expected.items() if key not in doubtful}
    assert sum(writer.done for writer in owned) > 10 * writers
    assert deaths > 0
    assert removed > 0


# -- writers


def write(answers: Connection, opened: Mapping[str, str], number: int, seconds: float) -> None:
    catalog = tiltyard.DirectoryNamespace(**opened)
    until = time.monotonic() + seconds
    dice, owned, fresh = random.Random(number), Owned(), number * 1_000_000
    while time.monotonic() < until:
        mine = sorted(owned.values)
        verb = dice.choice(("append", "append", "update", "delete")) if len(mine) > 4 else "append"
        if verb == "append":
            chosen = list(range(fresh, fresh + 3))
            fresh += 3
        else:
            chosen = dice.sample(mine, 2)
        value = dice.randrange(1_000_000)
        outcome = _persist(catalog, verb, number, chosen, value)
        if outcome is None:
            owned.doubtful.update(chosen)
        elif outcome:
            owned.done += 1
            for id in chosen:
                owned.values[id] = value
                if verb == "delete":
                    del owned.values[id]
    answers.send(owned)


def _persist(
    catalog: tiltyard.DirectoryNamespace, verb: str, owner: int, chosen: list[int], value: int
) -> bool | None:
    """Whether a change was made; None if nobody can tell.

    Only what was refused for sure is tried again. Any other error may come after the commit: a
    clean-up as hard as this one deletes a version while Lance, which has just made it, reads it.
    """
    for _ in range(TRIES):
        try:
            _change(catalog, verb, owner, chosen, value)
            return True
        except (OSError, ValueError, RuntimeError, TiltyardError) as error:
            if not _is_refusal(error):
                return None
    return False


def _is_refusal(error: Exception) -> bool:
    text = str(error).lower()
    is_conflict = isinstance(error, ConcurrentModificationError) or "conflict" in text
    return is_conflict and "unknown" not in text


def _change(
    catalog: tiltyard.DirectoryNamespace, verb: str, owner: int, chosen: list[int], value: int
) -> None:
    table = {"namespace_client": catalog, "table_id": ["t"]}
    these = f"id IN ({', '.join(map(str, chosen))})"
    if verb == "append":
        columns = [chosen, [owner] * len(chosen), [value] * len(chosen)]
        data = pa.table([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)
        lance.write_dataset(data, mode="append", **table)
    elif verb == "update":
        lance.dataset(**table).update({"value": str(value)}, where=these)
    else:
        lance.dataset(**table).delete(these)


# -- who looks after the table


def _keep(
    opened: Mapping[str, str], keepers: int, working: Sequence[Connection]
) -> tuple[int, int]:
    """While others work, let processes look after the table, kill each in the middle of whatever
    it does, and start another in its place.

    How many died, and how many versions were removed, as far as the dead had told.
    """
    dice, deaths, removed = random.Random(0), 0, 0
    living = [_start(keep, opened, number) for number in range(keepers)]
    while not all(connection.poll() for connection in working):
        for number, (process, connection) in enumerate(living):
            for _ in range(WORKS_BEFORE_DEATH):
                assert connection.poll(SECONDS_TO_END), "nobody looks after the table"
                removed += connection.recv()
            connection.poll(dice.random() / 5)  # until it is somewhere in the next one
            process.kill()
            process.join()
            deaths += 1
            living[number] = _start(keep, opened, number)
    for process, _ in living:
        process.kill()
        process.join()
    return deaths, removed


def keep(answers: Connection, opened: Mapping[str, str], number: int) -> None:
    catalog = tiltyard.DirectoryNamespace(**opened)
    while True:
        for work in (_optimize, _clean_up)[:: 1 if number else -1]:
            try:
                answers.send(work(catalog))
            except TiltyardError as error:
                if not error.retryable:
                    raise


def _optimize(catalog: tiltyard.DirectoryNamespace) -> int:
    catalog.maintenance.optimize_table(["t"])
    return 0


def _clean_up(catalog: tiltyard.DirectoryNamespace) -> int:
    return catalog.maintenance.cleanup_table(["t"], POLICY).versions_removed


def _start(work: object, *given: object) -> tuple[BaseProcess, Connection]:
    near, far = context().Pipe()
    process = context().Process(target=work, args=(far, *given), daemon=True)
    process.start()
    far.close()
    return process, near


def _answer(connection: Connection) -> Owned:
    assert connection.poll(SECONDS_TO_END), "a writer hangs"
    answer: Owned = connection.recv()
    return answer
