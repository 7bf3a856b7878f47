"""What every job prints, to people and as JSON, line by line: as in `tests/cli/test_golden.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.scenes import BY_SPARK
from tests.cli.test_golden import compare, template

__all__ = ["template"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", BY_SPARK)
def test_a_job_prints_what_it_printed_before(
    spark: SparkSession,
    template: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    verb: str,
) -> None:
    compare(verb, BY_SPARK[verb], template, tmp_path, capfd)
