"""`tiltyard jobs`, with the session of the other tests in place of one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.behaviours.calls import drop
from tests.spark.lake import Lake
from tiltyard.cli import main
from tiltyard.spark.jobs import __path__ as jobs_path

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def shop(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("TILTYARD_ROOT", lake.root)
    monkeypatch.setenv("NO_COLOR", "1")
    lake.put("prod.users", {"id": list(range(20))}, files=5)
    lake.put("orders", {"id": [1]})
    return lake


Run = Callable[..., Any]


@pytest.fixture
def run(lake: Lake, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a job as a command, and returns what it prints as JSON."""

    def run(*arguments: str, status: int = 0) -> Any:
        ended = main(["--root", lake.root, "-o", "json", "jobs", *arguments])
        printed = capsys.readouterr()
        assert ended == status, printed.err
        return json.loads(printed.out) if printed.out else []

    return run


def test_tables_are_optimized_and_a_plan_changes_nothing(
    shop: Lake, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = run("optimize", "--in", "prod", "--dry-run")
    assert [(row["table"], row["fragments_removed"]) for row in planned] == [("prod.users", 5)]

    done = run("optimize", "--split-above", "1", "--target-rows", "10")
    assert {row["table"]: row["fragments_added"] for row in done} == {"orders": 0, "prod.users": 2}
    assert main(["jobs", "optimize"]) == 0
    assert "Optimized 1 table: 2 files became 1; 1 had nothing to do." in capsys.readouterr().err


def test_what_deletes_is_a_dry_run_until_told_otherwise(
    shop: Lake, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    drop(shop.catalog, "orders", ttl=0)
    (planned,) = run("purge")
    assert (planned["outcome"], planned["table"]) == ("planned", "orders")
    assert main(["jobs", "purge", "--apply", "--no-input"]) == 2
    assert "pass --yes if you are" in capsys.readouterr().err
    assert [row.id for row in shop.catalog.list_trash()] == [("orders",)]

    (done,) = run("purge", "--apply", "--yes")
    assert (done["outcome"], done["objects"]) == ("purged", planned["objects"])
    assert shop.catalog.list_trash() == []
    assert run("cleanup", "--keep-versions", "3", "--apply")[0]["versions_removed"] == 0


def test_an_index_is_built(shop: Lake, run: Run) -> None:
    built = run("index", "prod.users", "id", "--type", "btree")
    assert (built["index_name"], built["committed"], built["rows_indexed"]) == ("id_idx", True, 20)
    missing = run("index", "prod.users", "name", status=1)
    assert "name" in missing["error"]


def test_maintain_reports_a_row_for_each_step(
    shop: Lake, tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "tiltyard.toml"
    policy.write_text("[defaults.cleanup]\nkeep_versions = 3\n")

    assert main(["jobs", "maintain", "--policy", str(policy)]) == 0
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()[2:]] == [
        *("recover", "optimize", "index", "cleanup", "purge", "orphans")
    ]
    assert printed.err.startswith("Would do in")
    steps = run("maintain", "--policy", str(policy), "--apply", "--yes")
    assert [step["step"] for step in steps if step["changed"]] == ["optimize"]


def test_files_are_loaded_counted_and_exported(lake: Lake, tmp_path: Path, run: Run) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.csv").write_text("Number;name\n1;ann\n2;bob\n")
    (inbox / "b.json").write_text('{"id": 3, "name": "cid"}\n{"id": "x"}\n')
    sources = [f"people={inbox}/a.csv", f"people={inbox}/b.json"]
    options = ["--column", "Number=id", "--delimiter", ";"]

    rows = run("ingest", *sources, *options)
    assert [(row["action"], row["rows"], row["rejected"]) for row in rows] == [
        ("loaded", 2, 0),
        ("loaded", 1, 1),
    ]
    assert {row["action"] for row in run("ingest", *sources, *options)} == {"present"}
    (row,) = run("inventory", "people")
    assert (row["table"], row["rows"], row["state"]) == ("people", 3, "live")
    assert [row["version"] for row in run("inventory", "people", "--versions")] == [1, 2]

    out = str(tmp_path / "out")
    (row,) = run("export", out, "people", "--format", "csv", "--version", "people=2")
    assert (row["action"], row["rows"]) == ("exported", 3)
    (row,) = run("export", out, "people", "--format", "json", status=1)
    assert (row["action"], "another export" in row["error"]) == ("failed", True)

    run("ingest", f"people={inbox}/none", status=1)
    run("ingest", "people", status=2)
    run("export", out, "--version", "people=new", status=2)


def test_orphans_go_only_if_it_is_meant(lake: Lake, run: Run) -> None:
    lake.put("t", {"id": [1]})
    stray = Path(lake.root) / "t.lance" / "data" / "stray.lance"
    stray.write_bytes(b"bytes")
    os.utime(stray, (time.time() - 30 * 86400,) * 2)

    (row,) = run("orphans")
    assert (row["path"], row["action"]) == ("t.lance/data/stray.lance", "found")
    run("orphans", "--apply", status=2)  # nobody is there to be asked
    assert stray.exists()
    (row,) = run("orphans", "--apply", "--yes")
    assert (row["action"], stray.exists()) == ("removed", False)

    (row,) = run("migrate", "--dry-run")
    assert (row["table"], row["action"]) == ("t", "present")


REFUSED = {
    ("optimize", "a..b"): "a..b",
    ("optimize", "users", "--in", "prod"): "and not both",
    ("cleanup", "--keep-versions", "1"): "with less than 3 versions",
    ("purge", "users", "--older-than", "7d"): "no table can be named",
    ("maintain", "--policy", "missing.toml"): "there is no policy file",
}


def test_bad_input_is_refused_before_spark_starts(tmp_path: Path) -> None:
    script = (
        "import json, sys; from tiltyard.cli import main; "
        "commands = json.loads(sys.argv[1]); print([int(main(command)) for command in commands]); "
        "from pyspark.sql import SparkSession; assert SparkSession.getActiveSession() is None"
    )
    commands = [["--root", str(tmp_path), "jobs", *command] for command in REFUSED]
    ended = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == str([2] * len(REFUSED))
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == len(REFUSED)
    for said in REFUSED.values():
        assert said in ended.stderr


@pytest.mark.slow
def test_spark_submit_takes_the_jobs(lake: Lake) -> None:
    lake.put("users", {"id": list(range(20))}, files=5)
    ended = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"),
            *("--conf", "spark.ui.enabled=false", f"{next(iter(jobs_path))}/__main__.py"),
            *("optimize", "--root", lake.root, "-o", "json", "--quiet"),
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (row,) = json.loads(ended.stdout)
    assert (row["table"], row["fragments_removed"]) == ("users", 5)
