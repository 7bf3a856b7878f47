"""Help: quick, complete, and readable on a narrow terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Tiltyard
from tests.cli.verbs import pages
from tiltyard.cli.call import ORDER

HEAVY = (
    *("lance", "lance_namespace", "pyarrow", "obstore", "pydantic", "numpy", "rich"),
    *("pyspark", "starlette", "uvicorn", "jinja2"),
)
SERVERS = ("pyspark", "starlette", "uvicorn", "jinja2")

PAGES = [pytest.param(*page, id=" ".join(page[0]) or "tiltyard") for page in pages()]


@pytest.mark.parametrize(("path", "command"), PAGES)
def test_every_page_of_help_fits_into_80_columns(
    tiltyard: Tiltyard, path: tuple[str, ...], command: Any
) -> None:
    shown = tiltyard(*path, "--help")
    assert shown.status == 0
    assert max(map(len, shown.lines)) <= 80
    usage, *described = shown.lines
    assert usage.startswith("Usage: tiltyard")
    assert not [line for line in described if "..." in line], "no description is cut off"
    assert not [line for line in described if line.endswith("-")], "no option is broken in two"
    python = re.compile(r"<(str|int|float|path|list|int range)|[{]|\[\[|x>=")
    assert not [line for line in shown.lines if python.search(line)], "no types of Python"


@pytest.mark.parametrize(("path", "command"), PAGES)
def test_every_command_and_option_is_explained_by_a_sentence(
    path: tuple[str, ...], command: Any
) -> None:
    assert command.help.rstrip().endswith(".")
    assert command.get_short_help_str(limit=100).endswith(".")
    told = {
        param.name: (param.help or "").partition("  [")[0]
        for param in command.params
        if not getattr(param, "hidden", False)
    }
    assert [name for name, text in told.items() if not text.endswith(".")] == []


@pytest.mark.parametrize("flag", ["--root", "--profile", "-p", "-o", "-q", "-v", "--no-input"])
def test_every_verb_takes_the_shared_options(flag: str) -> None:
    lacking = [
        " ".join(path)
        for path, command in pages()
        if path and not hasattr(command, "commands")
        if not any(flag in param.opts for param in command.params)
    ]
    assert lacking == []


def test_help_lists_the_nouns_and_the_exit_statuses(tiltyard: Tiltyard) -> None:
    shown = tiltyard("--help").out
    assert re.findall(r"^  ([a-z]+) +[A-Z]", shown, re.MULTILINE) == list(ORDER)
    assert "4 not found" in " ".join(shown.split())


def test_a_command_without_arguments_shows_its_help(tiltyard: Tiltyard) -> None:
    assert tiltyard("table").out.startswith("Usage: tiltyard table ")


def test_version_is_printed_as_data(tiltyard: Tiltyard) -> None:
    shown = tiltyard("--version")
    assert (shown.status, shown.out.startswith("tiltyard ")) == (0, True)


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [(["--help"], HEAVY), (["table", "list"], SERVERS)],
    ids=" ".join,
)
def test_a_command_imports_only_what_it_needs(
    tmp_path: Path, command: list[str], unwanted: tuple[str, ...]
) -> None:
    script = (
        f"import sys; from tiltyard.cli import main; status = main({command!r}); "
        f"loaded = [each for each in {unwanted!r} if each in sys.modules]; "
        "sys.exit(f'loaded: {loaded}' if loaded else status)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TILTYARD_ROOT": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr.replace("(none)\n", "")) == (0, "")


def test_a_reader_that_stops_early_is_no_error(tiltyard: Tiltyard) -> None:
    script = "import sys; from tiltyard.cli import main; sys.exit(main(['--help']))"
    command = f'{sys.executable} -c "{script}" | head -c 1'
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("U", "")
