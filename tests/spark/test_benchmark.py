"""The benchmark runs: both sides of each comparison give answers of the same size."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from benchmarks import measure
from benchmarks import spark as benchmark


@pytest.mark.slow
def test_every_comparison_of_the_benchmark_runs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "MOST_ROUNDS", 1)
    lines = 8 + 4 + 3 + 1
    behind = benchmark.compare(spark, benchmark.Sizes(mixed=12_000, vectors=500))
    printed = capsys.readouterr().out
    assert 0 <= behind <= lines
    assert printed.count("PASS") + printed.count("behind") == lines
