"""A stream whose driver is killed at every step of a batch, again and again, or only thought dead:
afterwards every row of the source is in the sink, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
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
STEPS = ("planned", "written", "committed", "noted")


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

    def reached(self, step: str) -> int:
        """How often drivers have come to a step of a batch: each leaves a file."""
        folder = {
            "planned": self.checkpoint / "offsets",
            "written": self.root / "sink.lance" / "data",
            "committed": self.root / "sink.lance" / "_versions",
            "noted": self.checkpoint / "commits",
        }[step]
        with suppress(FileNotFoundError):
            return sum(not name.startswith(".") for name in os.listdir(folder))
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


class Wait:
    """Waits until drivers have come to a step so often since it was made, or one has ended."""

    def __init__(self, feed: Feed, step: str, times: int) -> None:
        self._feed, self._step = feed, step
        self._wanted = feed.reached(step) + times

    def for_any(self, *drivers: Driver) -> None:
        waiting = threading.Event()
        while self._feed.reached(self._step) < self._wanted:
            if any(driver.process.poll() is not None for driver in drivers):
                return
            waiting.wait(0.001)


def finish(feed: Feed, module: str) -> None:
    """Stream what is left, undisturbed, and look at the rows."""
    last = Driver(module, feed, "finish")
    try:
        last.finish()
    finally:
        last.kill()
    assert feed.arrived() == Counter(range(feed.sent))


# -- without a JVM: many kills


def pump_and_kill(feed: Feed, rounds: int, chosen: random.Random) -> None:
    for _ in range(rounds):
        feed.grow(12)
        step = Wait(feed, chosen.choice(STEPS), chosen.randint(1, 5))
        driver = Driver("tests.spark.pump", feed)
        driver.wait_until_it_runs()
        step.for_any(driver)
        if chosen.random() < 0.4:  # it only stalls, and goes on when another has taken over
            driver.send(signal.SIGSTOP)
            step = Wait(feed, chosen.choice(STEPS), chosen.randint(0, 2))
            successor = Driver("tests.spark.pump", feed)
            successor.wait_until_it_runs()
            step.for_any(successor)
            step = Wait(feed, chosen.choice(STEPS), chosen.randint(0, 2))
            driver.send(signal.SIGCONT)
            step.for_any(driver, successor)
            successor.kill()
        driver.kill()
    finish(feed, "tests.spark.pump")


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
        step = Wait(feed, chosen.choice(STEPS), chosen.randint(1, 4))
        driver = Driver("tests.spark.stream", feed)
        try:
            driver.wait_until_it_runs()
            if number % 5:  # else while it starts
                step.for_any(driver)
        finally:
            driver.kill()
    finish(feed, "tests.spark.stream")
