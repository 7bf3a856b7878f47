"""`tiltyard sql`, with the session of the other tests in place of one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.lake import Lake
from tiltyard.cli import main


@pytest.fixture
def shop(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("TILTYARD_ROOT", lake.root)
    monkeypatch.setenv("NO_COLOR", "1")
    lake.put("prod.users", {"id": [1, 2, 3], "name": ["ann", "bob", None]})
    return lake


def test_a_query_is_answered_in_every_format(
    shop: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT id, name, id FROM prod.users WHERE id >= :least ORDER BY id"

    def ask(*options: str) -> str:
        assert main(["sql", query, "--arg", "least=2", *options]) == 0
        return capsys.readouterr().out

    assert json.loads(ask("-o", "json")) == [
        {"id": 2, "name": "bob", "id_2": 2},
        {"id": 3, "name": None, "id_2": 3},
    ]
    assert ask("-o", "csv") == "id,name,id_2\n2,bob,2\n3,,3\n"
    assert ask().splitlines()[0].split() == ["id", "name", "id"]


def test_what_would_be_read_is_told(shop: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT name FROM prod.users WHERE id = 1"
    assert main(["-o", "json", "sql", "--explain", query]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "table": "prod.users",
            "version": 1,
            "columns": ["id", "name"],
            "filter": "`id` = 1",
            "limit": None,
        }
    ]


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("SELEC 1", 2, "Syntax error"),
        ("SELECT nothing FROM prod.users", 2, "`nothing` cannot be resolved"),
        ("SELECT * FROM prod.user", 4, "did you mean 'users'?"),
        ("DROP TABLE prod.users", 2, "sql() answers queries"),
        ("SELECT 1 / (id - id) FROM prod.users", 1, "could not answer the query"),
    ],
)
def test_an_error_is_two_lines_and_a_status(
    shop: Lake, capsys: pytest.CaptureFixture[str], query: str, status: int, told: str
) -> None:
    assert main(["sql", query]) == status
    printed = capsys.readouterr()
    first, *rest = printed.err.splitlines()
    assert (printed.out, first[:7], len(rest) <= 1) == ("", "error: ", True)
    assert told in printed.err


@pytest.mark.slow
def test_the_command_starts_its_own_spark_and_hides_its_log(tmp_path: Path) -> None:
    home = Path(__file__).resolve().parents[2]
    script = "import sys; from tiltyard.cli import main; sys.exit(main(sys.argv[1:]))"
    ended = subprocess.run(
        [sys.executable, "-c", script, "--root", "lake", "sql", "-o", "jsonl", "SELECT 1 AS one"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{home / 'src'}{os.pathsep}{home}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, '{"one": 1}\n', "")
