"""A Spark session that fits: an embedded one by default, or a cluster's, or a Spark Connect server.

Nothing in tiltyard insists on it: `register` makes any session know the data source.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from tiltyard.spark import batches
from tiltyard.spark.functions import register_functions
from tiltyard.spark.java import java_home
from tiltyard.spark.jvm import knows_source, shows_plans
from tiltyard.spark.source import TiltyardSource

LOCAL = "127.0.0.1"

# Arrow's Java checks each access to each value, which is a sixth of the time of a scan of vectors.
# Prepended by Spark to what else is said for the JVM.
UNCHECKED_ARROW = "-Darrow.enable_unsafe_memory_access=true"

# A worker keeps the memory of a batch for the next one. By itself it would give it back, and the
# system would clear every page of it again: a fifth of the time of a scan of vectors.
KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": 1,
    "MALLOC_MMAP_THRESHOLD_": 64 * 1024 * 1024,
    "MALLOC_TRIM_THRESHOLD_": 256 * 1024 * 1024,
}

# Bytes that go through the socket between Python and the JVM at once.
SOCKET_BYTES = 1024 * 1024


def session(
    master: str | None = None,
    *,
    name: str = "tiltyard",
    memory: str | None = None,
    ui: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> SparkSession:
    """Start or find a session, with the data source and the table functions registered.

    `master` is local[n] (by default all cores of this machine), local-cluster[...],
    spark://host:port, or sc://host:port for Spark Connect. `settings` are Spark's own and win. If
    a session runs already it is the answer, with those of its settings that can't change.
    """
    builder: SparkSession.Builder = SparkSession.builder
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
        chosen: dict[str, Any] = {}
    else:
        master = master or "local[*]"
        _prepare_environment(master)
        builder = builder.master(master).appName(name)
        chosen = _settings(master, memory, ui)
    chosen.update(settings or {})
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # Spark's launcher forks only to become Java at once.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        return register(builder.getOrCreate())


def register(spark: SparkSession) -> SparkSession:
    """Make a session, of whatever kind, know the data source and the table functions."""
    if not (shows_plans(spark) and knows_source(spark, TiltyardSource.name())):
        spark.dataSource.register(TiltyardSource)
    register_functions(spark)
    return spark


def _prepare_environment(master: str) -> None:
    """What Spark takes from the environment and from nowhere else, unless it is there already."""
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOCAL)


def _settings(master: str, memory: str | None, ui: bool) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "spark.ui.enabled": ui,
        "spark.ui.showConsoleProgress": False,
        "spark.sql.execution.arrow.pyspark.enabled": True,
        "spark.driver.defaultJavaOptions": UNCHECKED_ARROW,
        "spark.executor.defaultJavaOptions": UNCHECKED_ARROW,
        **{f"spark.executorEnv.{name}": value for name, value in KEPT_MEMORY.items()},
        **batches.SETTINGS,
    }
    if memory is not None:
        chosen["spark.driver.memory"] = memory
    if master.startswith("local"):
        # Nobody else calls, so nobody has to be able to.
        chosen |= {"spark.driver.host": LOCAL, "spark.driver.bindAddress": LOCAL}
        chosen.setdefault("spark.driver.memory", _half_of_memory())
        chosen["spark.sql.shuffle.partitions"] = max(2, os.cpu_count() or 2)
        # Every row crosses from Python to the JVM, so this is a tenth of the time of a scan.
        chosen["spark.buffer.size"] = SOCKET_BYTES
        chosen["spark.python.unix.domain.socket.enabled"] = os.name == "posix"
    return chosen


def _half_of_memory() -> str:
    """The other half is for the Python workers, where Lance reads and writes."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{max(1024, pages * size // 2 // 2**20)}m"
