"""tiltyard in Spark: read, write and stream Lance tables by their catalog name.

    from tiltyard import spark
    session = spark.session()
    session.read.format("tiltyard").option("root", "s3://bucket/lake").load("prod.users")

Needs the extra `tiltyard[spark]`; `import tiltyard` alone never loads it.
"""

from tiltyard.spark.session import register, session
from tiltyard.spark.sql import Scanned, explain, sql
from tiltyard.spark.table import table
from tiltyard.spark.views import Attached, attach

__all__ = ["Attached", "Scanned", "attach", "explain", "register", "session", "sql", "table"]
