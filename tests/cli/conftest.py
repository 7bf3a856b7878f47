"""The command, run inside the test process: what it printed, and how it ended."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tiltyard.cli import main
from tiltyard.clock import Clock


@dataclass(frozen=True)
class Ended:
    """One finished run. Lines lose the blanks with which a table fills its last column."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]


Tiltyard = Callable[..., Ended]

PRODUCTS = "sku,name,price\nL-1,Lamp,19.5\nC-2,Chair,89.0\n"


class Terminal(io.StringIO):
    """A keyboard with somebody at it."""

    def isatty(self) -> bool:
        return True


class ManualClock:
    """A clock that stands still until it is set, and dice that count."""

    def __init__(self) -> None:
        # Never ahead of the clock that ages are told by.
        self._ms = int(datetime.now(UTC).timestamp() - 1) * 1000
        self._thrown = 0

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self._ms / 1000, UTC)

    def turn_back(self, **time: int) -> None:
        self._ms -= round(timedelta(**time).total_seconds() * 1000)

    def now_ms(self) -> int:
        return self._ms

    def token(self, digits: int) -> str:
        self._thrown += 1
        return f"{self._thrown:0{digits}x}"


@pytest.fixture
def tiltyard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tiltyard:
    """`tiltyard(*arguments, typed=...)` in an empty directory, in directory mode by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILTYARD_ROOT", "lake")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str, typed: str | None = None) -> Ended:
        monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else Terminal(typed))
        capsys.readouterr()
        status = main(["--mode", "directory", *arguments])
        printed = capsys.readouterr()
        return Ended(status, printed.out, printed.err)

    return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clock and the dice of the catalogs that the test opens from here on."""
    clock = ManualClock()
    monkeypatch.setattr("tiltyard.clock.SYSTEM_CLOCK", Clock(clock.now_ms, clock.token))
    return clock


@pytest.fixture
def products(tiltyard: Tiltyard, tmp_path: Path) -> Tiltyard:
    """The same, with a table `products` of two rows."""
    (tmp_path / "products.csv").write_text(PRODUCTS)
    created = tiltyard("table", "create", "products", "products.csv")
    assert created.status == 0, created.err
    return tiltyard
