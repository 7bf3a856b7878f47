"""tiltyard in Spark: read, write and stream Lance tables by their catalog name.

    from tiltyard import spark
    session = spark.session()
    session.read.format("tiltyard").option("root", "s3://bucket/lake").load("prod.users")

Needs the extra `tiltyard[spark]`; `import tiltyard` alone never loads it.
"""

from tiltyard.spark.catalog_views import AttachedView, attach
from tiltyard.spark.dml import delete_where, merge_into, update_where
from tiltyard.spark.row_changes import RowChanges
from tiltyard.spark.session import register, session
from tiltyard.spark.sql import TableScan, explain, sql
from tiltyard.spark.table import table
from tiltyard.spark.write import write

__all__ = [
    "AttachedView",
    "RowChanges",
    "TableScan",
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
