"""Streams a table into another by Spark, until killed, or until all is there.

python -m tests.spark.stream ROOT FROM INTO CHECKPOINT [finish]
"""

from __future__ import annotations

import sys
import tempfile

from tiltyard.spark.session import session

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(root: str, source: str, into: str, checkpoint: str, *finish: str) -> None:
    settings = {
        "spark.driver.extraJavaOptions": QUICK,
        "spark.local.dir": tempfile.mkdtemp(prefix="tiltyard-stream-"),
    }
    spark = session("local[2]", memory="600m", settings=settings)
    rows = (
        spark.readStream.format("tiltyard")
        .options(root=root, starting_version=1, max_versions_per_batch=1)
        .load(source)
    )
    writer = rows.writeStream.format("tiltyard").options(root=root, checkpointLocation=checkpoint)
    trigger = {"availableNow": True} if finish else {"processingTime": "0 seconds"}
    query = writer.trigger(**trigger).start(into)  # type: ignore[arg-type]
    sys.stdout.write("running\n")
    sys.stdout.flush()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
