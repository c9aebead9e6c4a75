"""Fetch the jars that lists name from a Maven repository, each checked by its SHA-256.

::

    python -m tests.lakehouse.jars FOLDER requirements/delta.jars ... [--repository URL]

The jars of each list get a folder of its name, such as FOLDER/delta. A list has lines as ``sha256sum`` prints them: a
digest and a path in the repository. It needs nothing but Python, because it runs before the environment is complete.
A jar that is there already and has its digest is not fetched again.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

UNREACHABLE = 3
"""The exit code if the repository cannot be reached: nothing is wrong, and it may work elsewhere or later."""

_CENTRAL = "https://repo1.maven.org/maven2"
_SECONDS = 120  # of silence until the repository counts as unreachable
_CHUNK = 1024 * 1024  # bytes read at once: the largest jar has some 50 MB
_MOST_BYTES = 512 * 1024 * 1024  # a jar that is larger than this is not one of ours


class Jar(NamedTuple):
    """A line of a list."""

    digest: str
    path: str


class WrongJarError(Exception):
    """What the repository sent is not the jar that the list means."""


def listed(path: Path) -> list[Jar]:
    """The jars of a list; lines that begin with ``#`` are comments."""
    lines = (line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#"))
    return [Jar(*line) for line in lines]


def fetch(jar: Jar, repository: str, folder: Path) -> Path:
    """Put a jar into a folder, unless it is there. ``OSError`` if it cannot be had, ``WrongJarError`` if it differs.

    It gets its name only when it is whole and has its digest, so an interrupted run leaves no jar that Spark loads.
    """
    target = folder / Path(jar.path).name
    if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == jar.digest:
        return target
    part, digest, size = target.with_suffix(".part"), hashlib.sha256(), 0
    with urlopen(f"{repository.rstrip('/')}/{jar.path}", timeout=_SECONDS) as answer, part.open("wb") as file:
        while chunk := answer.read(_CHUNK):
            size += len(chunk)
            if size > _MOST_BYTES:
                break
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != jar.digest:
        part.unlink()
        raise WrongJarError(f"{jar.path}: has the SHA-256 {digest.hexdigest()}, not {jar.digest}; it was not kept")
    part.replace(target)
    return target


def fetch_all(wanted: Path, repository: str, folder: Path) -> None:
    """Put the jars of a list into a folder, and nothing else; the errors are those of ``fetch``."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {fetch(jar, repository, folder) for jar in listed(wanted)}
    for path in set(folder.iterdir()) - found:  # of an earlier list: Spark would load both versions
        path.unlink()


def main(arguments: list[str]) -> int:
    """Fetch all jars of the lists; 1 if one is wrong, ``UNREACHABLE`` if one cannot be had."""
    parser = argparse.ArgumentParser(description="Fetch jars by lists of checksums.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("lists", type=Path, nargs="+")
    parser.add_argument("--repository", default=_CENTRAL, metavar="URL")
    given = parser.parse_args(arguments)
    try:
        for path in given.lists:
            fetch_all(path, given.repository, given.folder / path.stem)
    except WrongJarError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except (OSError, http.client.HTTPException) as error:
        sys.stderr.write(f"error: cannot fetch jars from {given.repository}: {error}\n")
        return UNREACHABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
