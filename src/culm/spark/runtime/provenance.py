"""How results were made: the program, the inputs, the mode, and the time.

A verdict is only as good as what one knows of its origin: which files were read, by which version, and whether every
signature was checked. So a job writes that into ``summary.json``, as ``made``, and a short form of it into the metadata
of each Parquet file, as ``culm``, since files are copied without their folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import culm
from culm.errors import ConfigError
from culm.spark.storage import Location, located

_stated: ContextVar[str] = ContextVar("stated", default="")

FORMAT = 1
"""The number of the format of results. It grows when the meaning of a table or of one of its columns changes."""

KEY = "culm"
"""The key in the metadata of Parquet files."""

# Inputs are told apart by a digest of their content up to this many bytes a file, and of all files together. Reading
# more would cost as much as the work itself; of larger ones size and time of change stand for the content.
_FILE_BYTES, _ALL_BYTES = 1024 * 1024, 64 * 1024 * 1024


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Input:
    """A file or folder as it was when the job began: how many files and bytes it has, and a digest.

    ``digest_of`` says of what: the ``content`` of a small file, or the ``listing`` of name, size and time of change of
    each file; of files on other machines only name and size. It does not prove anything about the content.
    """

    path: str
    files: int
    bytes: int
    digest_of: str
    digest: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """How results are made. ``mode`` has what decided about the results, such as which signatures were checked."""

    command: str
    mode: Mapping[str, object]
    inputs: tuple[Input, ...]
    version: str = culm.__version__
    format: int = FORMAT
    started: str = field(default_factory=_now)

    @classmethod
    def of(cls, command: str, inputs: Iterable[str | os.PathLike[str]], mode: Mapping[str, object]) -> Provenance:
        """That of a job that begins now, without reading more than some megabytes of its inputs."""
        return cls(command, mode, tuple(_looked_at(inputs)))

    def complete(self) -> dict[str, Any]:
        """All of it, with the time at which the job ends: now."""
        return {**asdict(self), "ended": _now()}

    def short(self) -> str:
        """All but the list of the inputs, as JSON: how many there are, and a digest of the list stand for it."""
        listed = json.dumps([asdict(one) for one in self.inputs])
        inputs = {"count": len(self.inputs), "digest": _digest(listed.encode())}
        return json.dumps({**asdict(self), "inputs": inputs})


@contextmanager
def stating(made: Provenance) -> Iterator[None]:
    """Have the Parquet files that are written in this block state how they were made."""
    token = _stated.set(made.short())
    try:
        yield
    finally:
        _stated.reset(token)


def stated() -> str:
    """What a Parquet file that is written now has to state; empty outside of a job."""
    return _stated.get()


def other_version(said: Mapping[str, object]) -> str | None:
    """A sentence about results of another version of Culm, from their summary; None if this version made them."""
    made = said.get("made")
    by = made.get("version") if isinstance(made, dict) else None
    if by == culm.__version__:
        return None
    whose = f"version {by} of Culm" if isinstance(by, str) else "a version of Culm that did not say which it is"
    return f"the results were made by {whose}; this is version {culm.__version__}"


def _looked_at(places: Iterable[str | os.PathLike[str]]) -> Iterator[Input]:
    left = _ALL_BYTES
    for place in located(places):
        try:
            files = list(place.listed())
        except ConfigError:
            continue  # it is to be made, as a new state is
        size = sum(file.size or 0 for file in files)
        if place.is_local and [file.location for file in files] == [place] and size <= min(left, _FILE_BYTES):
            left -= size
            yield Input(place.uri, 1, size, "content", _digest(Path(place.uri).read_bytes()))
            continue
        listed = [(file.location.uri, file.size, _changed(file.location)) for file in files]
        yield Input(place.uri, len(files), size, "listing", _digest(json.dumps(listed).encode()))


def _changed(place: Location) -> int | None:
    return Path(place.uri).stat().st_mtime_ns if place.is_local else None


def _digest(data: bytes) -> str:
    return "blake2b:" + blake2b(data, digest_size=32).hexdigest()
