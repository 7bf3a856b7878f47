"""`python -m tiltyard.spark.jobs optimize --root ...`: the jobs as a program for spark-submit.

The same as `tiltyard jobs`, in the session that spark-submit has prepared.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from tiltyard.cli import main
from tiltyard.spark.session import register

# Set by spark-submit, whose --master and --conf count then.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"

if __name__ == "__main__":
    if _SUBMITTED in os.environ:
        register(SparkSession.builder.getOrCreate())
    sys.exit(main(["jobs", *sys.argv[1:]]))
