"""Jars come from a repository only with the digest that the list says."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.lakehouse.jars import UNREACHABLE, listed, main

ROOT = Path(__file__).parents[2]
CONTENT = b"PK\x03\x04 a jar"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one jar, as a folder."""
    jar = tmp_path / "repository" / "org" / "one" / "one-1.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(CONTENT)
    return tmp_path / "repository"


def fetched(repository: Path, digest: str, folder: Path, path: str = "org/one/one-1.jar") -> int:
    """Fetch a list of one jar; the exit code."""
    wanted = folder.with_suffix(".list")
    wanted.write_text(f"# a comment\n{digest}  {path}\n")
    return main([str(folder.parent), str(wanted), "--repository", repository.as_uri()])


def test_a_jar_is_fetched_once(repository: Path, tmp_path: Path) -> None:
    """A jar with its digest is kept, and needs no repository any more; jars of an earlier list are removed."""
    folder, digest = tmp_path / "jars", hashlib.sha256(CONTENT).hexdigest()
    folder.mkdir()
    (folder / "one-0.jar").touch()
    assert 0 == fetched(repository, digest, folder)
    (repository / "org" / "one" / "one-1.jar").unlink()
    assert 0 == fetched(repository, digest, folder)
    assert {"one-1.jar": CONTENT} == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_wrong_jar_is_not_kept(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A jar with another digest leaves no file, whether it is fetched or was there, and the error has both digests."""
    folder = tmp_path / "jars"
    assert 1 == fetched(repository, "0" * 64, folder)
    assert [] == list(folder.iterdir())
    error = capsys.readouterr().err
    assert "0" * 64 in error
    assert hashlib.sha256(CONTENT).hexdigest() in error

    (folder / "one-1.jar").write_bytes(b"damaged")
    assert 0 == fetched(repository, hashlib.sha256(CONTENT).hexdigest(), folder)
    assert CONTENT == (folder / "one-1.jar").read_bytes()


def test_no_repository(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A repository that does not answer has an exit code of its own, so that CI can tell it from a wrong jar."""
    assert UNREACHABLE == fetched(repository, "0" * 64, tmp_path / "jars", "org/two/two-1.jar")
    assert "cannot fetch jars from" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_lists_name_jars_of_the_locked_spark(kind: str) -> None:
    """Each line has a SHA-256 and a path, and one jar is for the minor version of PySpark in the format's lock."""
    jars = listed(ROOT / "requirements" / f"{kind}.jars")
    lock = (ROOT / "requirements" / f"{kind}.lock").read_text()
    (version,) = (line.split("==")[1].split()[0] for line in lock.splitlines() if line.startswith("pyspark=="))
    minor = ".".join(version.split(".")[:2])

    assert all(len(bytes.fromhex(jar.digest)) == 32 and jar.path.endswith(".jar") for jar in jars)
    assert [jar for jar in jars if f"{minor}_2.13" in jar.path]
