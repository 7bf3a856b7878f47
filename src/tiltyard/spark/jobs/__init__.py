"""Catalog-sized work as Spark jobs: planned on the driver, done on executors, answered as rows.

    from tiltyard.spark import jobs
    jobs.optimize("s3://bucket/lake").show()

A job takes a catalog, its properties or its root, and a session, or starts an embedded one. Its
answer is a DataFrame with one row for each table, or for each file. An error is a row, and a second
run does the rest.
"""

from tiltyard.spark.jobs.cleanup import cleanup
from tiltyard.spark.jobs.export import export
from tiltyard.spark.jobs.indexes import build_index
from tiltyard.spark.jobs.ingest import ingest
from tiltyard.spark.jobs.ingest_plan import Frame, Source
from tiltyard.spark.jobs.inventory import inventory
from tiltyard.spark.jobs.maintain import maintain
from tiltyard.spark.jobs.migrate import migrate
from tiltyard.spark.jobs.optimize import optimize
from tiltyard.spark.jobs.orphans import orphans
from tiltyard.spark.jobs.policy import Policy
from tiltyard.spark.jobs.purge import purge

__all__ = [
    "Frame",
    "Policy",
    "Source",
    "build_index",
    "cleanup",
    "export",
    "ingest",
    "inventory",
    "maintain",
    "migrate",
    "optimize",
    "orphans",
    "purge",
]
