"""tiltyard in Spark: read, write and stream Lance tables by their catalog name.

    from tiltyard import spark
    session = spark.session()
    session.read.format("tiltyard").option("root", "s3://bucket/lake").load("prod.users")

Needs the extra `tiltyard[spark]`; `import tiltyard` alone never loads it.
"""
