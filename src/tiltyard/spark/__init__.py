"""tiltyard in Spark: read, write and stream Lance tables by their catalog name.

    from tiltyard import spark
    session = spark.session()
    session.read.format("tiltyard").option("root", "s3://bucket/lake").load("prod.users")

Needs the extra `tiltyard[spark]`; `import tiltyard` alone never loads it.
"""

from tiltyard.spark.merge import delete_where, merge_into, update_where
from tiltyard.spark.rewrite import Changed
from tiltyard.spark.session import register, session
from tiltyard.spark.sql import Scanned, explain, sql
from tiltyard.spark.table import table
from tiltyard.spark.views import Attached, attach
from tiltyard.spark.write import write

__all__ = [
    "Attached",
    "Changed",
    "Scanned",
    "attach",
    "delete_where",
    "explain",
    "merge_into",
    "register",
    "session",
    "sql",
    "table",
    "update_where",
    "write",
]
