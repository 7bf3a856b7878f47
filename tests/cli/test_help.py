"""Help: quick, complete, and readable on a narrow terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Tiltyard

HEAVY = ("lance", "lance_namespace", "pyarrow", "obstore", "pydantic", "numpy", "rich")

VERBS = {
    "table": "list describe exists count head create declare rename register deregister drop "
    "undrop status hold release protect unprotect versions hide-version show-version",
    "trash": "list purge restore",
    "ns": "create list describe drop",
    "config": "show",
    "jobs": "optimize cleanup purge index maintain orphans inventory migrate ingest export",
    "keys": "add list revoke",
}


def _pages() -> Iterator[tuple[str, ...]]:
    yield ()
    for alone in (
        "migrate",
        "manage",
        "snapshot",
        "doctor",
        "recover",
        "repair",
        "orphans",
        "serve",
        "sql",
    ):
        yield (alone,)
    for noun, verbs in VERBS.items():
        yield (noun,)
        for verb in verbs.split():
            yield noun, verb


@pytest.mark.parametrize("page", [*_pages()], ids=lambda page: " ".join(page) or "tiltyard")
def test_every_page_of_help_fits_into_80_columns(tiltyard: Tiltyard, page: tuple[str, ...]) -> None:
    shown = tiltyard(*page, "--help")
    assert shown.status == 0
    assert max(map(len, shown.lines)) <= 80
    usage, *described = shown.lines
    assert usage.startswith("Usage: tiltyard")
    assert not [line for line in described if "..." in line]  # no description is cut off


def test_help_lists_the_nouns_and_the_exit_statuses(tiltyard: Tiltyard) -> None:
    shown = tiltyard("--help").out
    assert all(f"  {noun} " in shown for noun in VERBS)
    assert "4 not found" in " ".join(shown.split())


def test_a_command_without_arguments_shows_its_help(tiltyard: Tiltyard) -> None:
    assert tiltyard("table").out.startswith("Usage: tiltyard table ")


def test_version_is_printed_as_data(tiltyard: Tiltyard) -> None:
    shown = tiltyard("--version")
    assert (shown.status, shown.out.startswith("tiltyard ")) == (0, True)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from tiltyard.cli import main; status = main(['--help']); "
        f"loaded = [each for each in {HEAVY!r} if each in sys.modules]; "
        "sys.exit(f'loaded: {loaded}' if loaded else status)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_reader_that_stops_early_is_no_error(tiltyard: Tiltyard) -> None:
    script = "import sys; from tiltyard.cli import main; sys.exit(main(['--help']))"
    command = f'{sys.executable} -c "{script}" | head -c 1'
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("U", "")
