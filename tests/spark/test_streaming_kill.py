"""A stream whose driver is killed at any point, again and again, or only thought dead: afterwards
every row of the source is in the sink, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO

import lance
import pytest

import tiltyard
from tests.behaviours.calls import create
from tests.spark.streams import numbers
from tiltyard.namespace import DirectoryNamespace

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 600.0


class Feed:
    """A table that rows come into, one version after another, and the table they are to reach."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog: DirectoryNamespace = tiltyard.connect(root)
        self.sent = 10
        create(self.catalog, "source", data=numbers(*range(self.sent)))
        self.checkpoint = root.parent / "checkpoint"
        for log in ("offsets", "commits"):
            (self.checkpoint / log).mkdir(parents=True)

    def grow(self, versions: int) -> None:
        dataset = self.catalog.open_table(["source"])
        for _ in range(versions):
            rows = numbers(self.sent, self.sent + 1)
            dataset = lance.write_dataset(rows, dataset, mode="append", max_rows_per_file=1)
            self.sent += 2

    def arrived(self) -> Counter[int]:
        return Counter(self.catalog.open_table(["sink"]).to_table().column("id").to_pylist())

    def commits(self) -> int:
        """How many there are in the sink, as quickly as it can be seen."""
        with suppress(FileNotFoundError):
            return len(os.listdir(self.root / "sink.lance" / "_versions"))
        return 0


class Driver:
    """A process that streams, with everything that it starts in a group of its own."""

    def __init__(self, module: str, feed: Feed, *more: str) -> None:
        command = [sys.executable, "-m", module, str(feed.root), "source", "sink"]
        self._log = feed.root.parent / "driver.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, str(feed.checkpoint), *more],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )

    def wait_until_it_runs(self) -> None:
        assert self._output.readline() == "running\n", self.log()

    def finish(self) -> None:
        assert self.process.wait(timeout=DEADLINE) == 0, self.log()

    def send(self, what: signal.Signals) -> None:
        self.process.send_signal(what)

    def kill(self) -> None:
        """With all that it started. What is dead already is not missed."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._output.close()

    @property
    def _output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def log(self) -> str:
        return self._log.read_text()[-5000:]


def wait_for_commits(feed: Feed, number: int, driver: Driver) -> None:
    """Return at once when they are there: then the driver has not written down that they are."""
    wanted = feed.commits() + number
    deadline = time.monotonic() + DEADLINE
    while feed.commits() < wanted:
        assert driver.process.poll() is None, driver.log()
        assert time.monotonic() < deadline, f"no batch was committed: {driver.log()}"
        time.sleep(0.001)


def check(feed: Feed) -> None:
    assert feed.arrived() == Counter(range(feed.sent))


# -- without a JVM: many kills


def pump_and_kill(feed: Feed, rounds: int, chosen: random.Random) -> None:
    for _ in range(rounds):
        feed.grow(12)
        driver = Driver("tests.spark.pump", feed)
        driver.wait_until_it_runs()
        if chosen.random() < 0.5:
            wait_for_commits(feed, chosen.randint(1, 5), driver)
        else:
            time.sleep(chosen.uniform(0, 0.4))
        successor = None
        if chosen.random() < 0.4:  # it only stalls, and goes on when another has taken over
            driver.send(signal.SIGSTOP)
            successor = Driver("tests.spark.pump", feed)
            successor.wait_until_it_runs()
            time.sleep(chosen.uniform(0, 0.3))
            driver.send(signal.SIGCONT)
            time.sleep(chosen.uniform(0, 0.3))
            successor.kill()
        driver.kill()
    last = Driver("tests.spark.pump", feed, "finish")
    try:
        last.finish()
    finally:
        last.kill()
    check(feed)


def test_rows_arrive_once_though_drivers_are_killed_or_stall(tmp_path: Path) -> None:
    pump_and_kill(Feed(tmp_path / "lake"), 5, random.Random(5))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_rows_arrive_once_though_many_drivers_are_killed_or_stall(
    tmp_path: Path, seed: int
) -> None:
    pump_and_kill(Feed(tmp_path / "lake"), 40, random.Random(seed))


# -- with Spark


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_rows_arrive_once_though_spark_is_killed_thirty_times(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "lake")
    feed.checkpoint = tmp_path / "spark-checkpoint"
    chosen = random.Random(30)
    for number in range(30):
        feed.grow(8)
        driver = Driver("tests.spark.stream", feed)
        try:
            driver.wait_until_it_runs()
            if number % 5:  # else while it starts
                wait_for_commits(feed, chosen.randint(1, 4), driver)
            if number % 2:
                time.sleep(chosen.uniform(0, 1.5))
        finally:
            driver.kill()
    last = Driver("tests.spark.stream", feed, "finish")
    try:
        last.finish()
    finally:
        last.kill()
    check(feed)
