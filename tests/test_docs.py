"""Every page of documentation does what it says: its Python and its commands are run, in order.

A page runs in an empty directory. ```python blocks share their variables; ```sh blocks are run by a
shell; in ```console blocks the lines after a `$ ` command are what it prints, where a line `...`
stands for any lines. A ```toml block that opens with the comment `# NAME.toml` becomes that file.
```text blocks are only for reading.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from codeop import compile_command
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.cli.verbs import verbs
from tiltyard.cli import main

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "sh", "console")
READ = ("text", "json", "toml")

_PLAIN = re.compile(r"tiltyard [^|&;<>]*")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.toml)\n")
_TEST = re.compile(r"`((?:tests|benchmarks)/[\w/]+(?:\.py)?)(?:::(\w+))?")
_LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_SPOKEN = re.compile(r"`tiltyard ([a-z][a-z -]*)")
NOUNS = {verb.partition(" ")[0] for verb in verbs() if " " in verb}
# Rows of the comparison about others, or about what is no behaviour.
_NOT_SHOWN = {"Partition statistics, hidden partitioning", "Who has run it at what size"}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page and the line that it starts on."""

    language: str
    text: str
    line: int


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in _FENCE.finditer(text):
        yield Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _shown(page: Path) -> ParameterSet:
    """A page with Spark starts one of its own, which takes a while."""
    marks = [pytest.mark.slow] if _has_spark(page) else []
    return pytest.param(page, id=_name(page), marks=marks)


def _has_spark(page: Path) -> bool:
    runs = (block.text for block in _blocks(page) if block.language in RUN)
    return page.stem.startswith("spark") or any("tiltyard.spark" in run for run in runs)


@pytest.mark.parametrize(
    "page",
    [_shown(page) for page in PAGES if any(block.language in RUN for block in _blocks(page))],
)
def test_what_a_page_shows_works(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("TILTYARD_ROOT", raising=False)
    if _has_spark(page):  # Spark's processes stay in the directory in which it was started
        monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
        _shell(f"exec {shlex.join([sys.executable, '-m', 'tests.test_docs', str(page)])}")
    else:
        _run(page)


def _run(page: Path) -> None:
    variables: dict[str, object] = {"__name__": "__main__"}
    for block in _blocks(page):
        if block.language == "python":
            # Blank lines before it give an error the line that it has on the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), variables)
        elif block.language == "sh":
            _shell(block.text)
        elif block.language == "toml" and (name := _FILE.match(block.text)):
            Path(name[1]).write_text(block.text)
        elif block.language == "console":
            for command, expected in _exchanges(block.text):
                printed = _tiltyard(command) if _PLAIN.fullmatch(command) else _shell(command)
                assert re.fullmatch(expected, printed, re.DOTALL), f"{command}\n{printed}"


def _tiltyard(command: str) -> str:
    """Run one command inside this process, because starting another takes a second or two."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        status = main(shlex.split(command)[1:])
    return _checked(command, status, printed.getvalue())


def _shell(script: str) -> str:
    ended = subprocess.run(
        ["sh", "-ec", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return _checked(script, ended.returncode, ended.stdout)


def _checked(command: str, status: int, printed: str) -> str:
    """What was printed; a page may show a refusal, but nothing else that fails."""
    assert status == 0 or "error: " in printed, f"{command}\n{printed}"
    return "\n".join(line.rstrip() for line in printed.splitlines())


def _exchanges(text: str) -> Iterator[tuple[str, str]]:
    for exchange in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = exchange.partition("\n")
        lines = expected.rstrip().splitlines()
        yield command, "\n".join(".*" if line == "..." else re.escape(line) for line in lines)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_can_be_pasted_into_a_python_that_runs(page: Path) -> None:
    """Which needs an empty line after what is indented, and none within."""
    for block in _blocks(page):
        typed: list[str] = []
        for line in [*block.text.splitlines(), ""] if block.language == "python" else []:
            typed.append(line)
            if compile_command("\n".join(typed), str(page)) is not None:
                typed = []
        assert typed == [], f"line {block.line}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_page_names_the_language_of_its_blocks_and_links_to_files_that_exist(page: Path) -> None:
    assert [block.line for block in _blocks(page) if block.language not in RUN + READ] == []
    links = _LINK.findall(page.read_text())
    assert [file for file, _ in links if not (page.parent / file).exists()] == []
    anchors = [(page.parent / file if file else page, anchor) for file, anchor in links if anchor]
    assert [anchor for there, anchor in anchors if anchor not in _anchors(there)] == []


def _anchors(page: Path) -> set[str]:
    """What a link can point to: headings as GitHub writes them."""
    titles = _HEADING.findall(_FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_page_is_linked_from_the_readme(page: Path) -> None:
    """Design notes have an index of their own."""
    index = (page.parent if page.parent.name == "design" else ROOT) / "README.md"
    index = ROOT / "README.md" if page == index else index
    linked = {index.parent / file for file, _ in _LINK.findall(index.read_text()) if file}
    assert page in {ROOT / "README.md", *linked}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_page_names_tests_that_exist(page: Path) -> None:
    for path, name in _TEST.findall(page.read_text()):
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(), name


def test_every_command_that_a_page_speaks_of_exists() -> None:
    known = {each for verb in verbs() for each in (verb, verb.partition(" ")[0])}
    spoken = {
        " ".join(words[:2] if words[0] in NOUNS else words[:1])
        for page in PAGES
        for words in map(str.split, _SPOKEN.findall(page.read_text()))
    }
    assert len(spoken) > 20
    assert sorted(spoken - known) == []


@pytest.mark.parametrize("name", ["comparison", "guarantees"])
def test_every_claim_names_the_test_or_the_benchmark_that_shows_it(name: str) -> None:
    lines = (ROOT / "docs" / f"{name}.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    claims = [
        row for row in rows if row[-1] != "shown by" and set(row[-1]) != {"-"} and row[1] and row[0]
    ]
    assert len(claims) > 30
    shown = re.compile(r"`(tests|benchmarks)/[\w/]+\.py")
    lacking = [row[0] for row in claims if not shown.match(row[-1])]
    assert sorted(lacking) == (sorted(_NOT_SHOWN) if name == "comparison" else [])


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--quick",), id="quick"),
        pytest.param((), id="whole", marks=[pytest.mark.slow]),
    ],
)
def test_the_demo_runs_and_fits_into_80_columns(tmp_path: Path, options: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "demo", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    # Only a path of this machine may be longer.
    long = [line for line in ended.stdout.splitlines() if len(line) > 80 and "/" not in line]
    assert long == []
    printed = {line.rstrip() for line in ended.stdout.splitlines()}
    [piece] = [block for block in _blocks(ROOT / "README.md") if "old_prices" in block.text]
    assert [line for line in piece.text.splitlines() if line not in printed] == []


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
