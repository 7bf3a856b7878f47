"""`tiltyard jobs`, with the session of the other tests in place of one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


def _rows(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert main(["-o", "json", "jobs", *arguments]) == status
    return json.loads(capsys.readouterr().out)


def test_tables_are_optimized_and_a_plan_changes_nothing(
    shop: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = _rows(capsys, "optimize", "--in", "prod", "--dry-run")
    assert [(row["table"], row["fragments_removed"]) for row in planned] == [("prod.users", 5)]

    done = _rows(capsys, "optimize", "--split-above", "1", "--target-rows", "10")
    assert {row["table"]: row["fragments_added"] for row in done} == {"orders": 0, "prod.users": 2}
    assert main(["jobs", "optimize"]) == 0
    assert "Optimized 1 table: 2 files became 1; 1 had nothing to do." in capsys.readouterr().err


def test_what_deletes_is_a_dry_run_until_told_otherwise(
    shop: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    drop(shop.catalog, "orders", ttl=0)
    (planned,) = _rows(capsys, "purge")
    assert (planned["outcome"], planned["table"]) == ("planned", "orders")
    assert main(["jobs", "purge", "--apply", "--no-input"]) == 2
    assert "pass --yes if you are" in capsys.readouterr().err
    assert [each.id for each in shop.catalog.list_trash()] == [("orders",)]

    (done,) = _rows(capsys, "purge", "--apply", "--yes")
    assert (done["outcome"], done["objects"]) == ("purged", planned["objects"])
    assert shop.catalog.list_trash() == []
    assert _rows(capsys, "cleanup", "--retain-last", "3", "--apply")[0]["versions_removed"] == 0


def test_an_index_is_built(shop: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    built = _rows(capsys, "index", "prod.users", "id", "--type", "btree")
    assert (built["index_name"], built["committed"], built["rows_indexed"]) == ("id_idx", True, 20)
    missing = _rows(capsys, "index", "prod.users", "name", status=1)
    assert "name" in missing["error"]


def test_a_round_is_told_in_a_few_lines(
    shop: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "tiltyard.toml"
    policy.write_text("[defaults.cleanup]\nkeep_versions = 3\n")

    assert main(["jobs", "maintain", "--policy", str(policy)]) == 0
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()[2:]] == [
        *("recover", "optimize", "index", "cleanup", "purge", "orphans")
    ]
    assert printed.err.startswith("Would do in")
    steps = _rows(capsys, "maintain", "--policy", str(policy), "--apply", "--yes")
    assert [step["step"] for step in steps if step["changed"]] == ["optimize"]


REFUSED = {
    ("optimize", "a..b"): "a..b",
    ("optimize", "users", "--in", "prod"): "and not both",
    ("cleanup", "--retain-last", "1"): "with less than 3 versions",
    ("purge", "users", "--older-than", "7d"): "no table can be named",
    ("maintain", "--policy", "missing.toml"): "there is no policy file",
}


def test_bad_input_is_refused_before_spark_starts(tmp_path: Path) -> None:
    script = (
        "import json, sys; from tiltyard.cli import main; "
        "every = json.loads(sys.argv[1]); print([int(main(each)) for each in every]); "
        "from pyspark import SparkContext; assert SparkContext._active_spark_context is None"
    )
    every = [["--root", str(tmp_path), "jobs", *each] for each in REFUSED]
    ended = subprocess.run(
        [sys.executable, "-c", script, json.dumps(every)],
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
