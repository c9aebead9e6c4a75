"""Which Java is used, and the wrapper in front of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from culm.errors import ConfigError
from culm.spark.runtime import java

pytestmark = pytest.mark.subprocess  # what is tested asks each Java it finds for its version


def fake_java(folder: Path, says: str) -> Path:
    """A home whose ``java`` prints a version, or its arguments."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'{says}\' >&2; else printf "%s\\n" "$@"; fi\n'
    )
    executable.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_431"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("no java here", None),
    ],
)
def test_versions(tmp_path: Path, says: str, version: int | None) -> None:
    """The major version is read from what Java prints, old style and new."""
    assert java.java_version(str(fake_java(tmp_path, says) / "bin" / "java")) == version


def test_a_missing_java_has_no_version() -> None:
    """What cannot be run has no version."""
    assert java.java_version("/no/such/java") is None


def test_java_home_comes_before_the_path_and_old_ones_are_passed_over(tmp_path: Path) -> None:
    """``JAVA_HOME`` wins if it is new enough; else what is on the path, else none."""
    new = fake_java(tmp_path / "new", 'openjdk version "21.0.1"')
    newer = fake_java(tmp_path / "newer", 'openjdk version "25"')
    old = fake_java(tmp_path / "old", 'openjdk version "11.0.1"')
    on_path = str(newer / "bin" / "java")
    assert java.find_java({"JAVA_HOME": str(new)}, lambda _: on_path) == new
    assert java.find_java({"JAVA_HOME": str(old)}, lambda _: on_path) == newer
    assert java.find_java({}, lambda _: str(old / "bin" / "java")) is None
    assert java.find_java({"JAVA_HOME": str(tmp_path / "none")}, lambda _: None) is None


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--add-modules=jdk.incubator.vector", "-Xmx1g", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "java.sql", "a b", ""], ["--add-modules", "java.sql", "a b", ""]),
        (["--add-modules=java.sql", "*", "$HOME"], ["--add-modules=java.sql", "*", "$HOME"]),
    ],
)
def test_the_wrapper_drops_one_argument(tmp_path: Path, given: list[str], passed: list[str]) -> None:
    """The wrapper leaves out the argument with which Spark asks for the module, and passes the rest on as it is."""
    home = fake_java(tmp_path / "java", "x")
    wrapped = java.wrap_java(home / "bin" / "java", tmp_path / "cache")
    result = subprocess.run([wrapped / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert result.stdout == "".join(f"{argument}\n" for argument in passed)


def test_the_wrapper_is_made_once_and_mended(tmp_path: Path) -> None:
    """A wrapper that is right is left alone; another text is replaced."""
    home = fake_java(tmp_path / "java", "x")
    wrapper = java.wrap_java(home / "bin" / "java", tmp_path / "cache") / "bin" / "java"
    before = wrapper.stat().st_mtime_ns
    java.wrap_java(home / "bin" / "java", tmp_path / "cache")
    assert wrapper.stat().st_mtime_ns == before
    wrapper.write_text("#!/bin/sh\n")
    java.wrap_java(home / "bin" / "java", tmp_path / "cache")
    assert "exec" in wrapper.read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"):
        java.wrap_java(home / "bin" / "java", tmp_path / "file" / "cache")


def test_where_the_cache_is(tmp_path: Path) -> None:
    """``CULM_CACHE`` names it, else it is below ``XDG_CACHE_HOME``, else below the home directory."""
    assert java.cache_folder({"CULM_CACHE": str(tmp_path), "XDG_CACHE_HOME": "/x"}) == tmp_path
    assert java.cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/culm")
    assert java.cache_folder({}) == Path.home() / ".cache" / "culm"


def test_without_a_java_the_packages_own_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without Java the runtime from PyPI starts behind the wrapper, asked for the module it lacks."""
    monkeypatch.setattr(java, "find_java", lambda _: None)
    home = java.java_home({"CULM_CACHE": str(tmp_path)})
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "version" in result.stderr
