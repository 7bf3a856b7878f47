"""Where Spark looks for the data source by itself: packages whose name begins with pyspark_."""

from tiltyard.spark.scan import TiltyardSource as DefaultSource

__all__ = ["DefaultSource"]
