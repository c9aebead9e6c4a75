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


def provenance(command: str, inputs: Iterable[str | os.PathLike[str]], mode: Mapping[str, object]) -> dict[str, Any]:
    """How a job that begins now makes its results, found without reading more than some megabytes of its inputs.

    ``mode`` has what decides about the results, such as which signatures are checked. Of each input, as it is now,
    there is how many files and bytes it has, and a digest. ``digest_of`` says of what: the ``content`` of a small file,
    or the ``listing`` of name, size and time of change of each file; of files on other machines only name and size. It
    does not prove anything about the content.
    """
    facts = {"command": command, "mode": dict(mode), "inputs": list(_looked_at(inputs))}
    return {**facts, "version": culm.__version__, "format": FORMAT, "started": _now()}


def ended(made: Mapping[str, Any]) -> dict[str, Any]:
    """All of it, with the time at which the job ends: now."""
    return {**made, "ended": _now()}


@contextmanager
def stating(made: Mapping[str, Any]) -> Iterator[None]:
    """Have the Parquet files that are written in this block state how they were made.

    Instead of the inputs they state how many there are, and a digest of the list.
    """
    inputs = {"count": len(made["inputs"]), "digest": _digest(json.dumps(made["inputs"]).encode())}
    token = _stated.set(json.dumps({**made, "inputs": inputs}))
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


def _looked_at(places: Iterable[str | os.PathLike[str]]) -> Iterator[dict[str, Any]]:
    left = _ALL_BYTES
    for place in located(places):
        try:
            files = list(place.listed())
        except ConfigError:
            continue  # it is to be made, as a new state is
        size = sum(file.size or 0 for file in files)
        if place.is_local and [file.location for file in files] == [place] and size <= min(left, _FILE_BYTES):
            left -= size
            of, data = "content", Path(place.uri).read_bytes()
        else:
            listed = [(file.location.uri, file.size, _changed(file.location)) for file in files]
            of, data = "listing", json.dumps(listed).encode()
        yield {"path": place.uri, "files": len(files), "bytes": size, "digest_of": of, "digest": _digest(data)}


def _changed(place: Location) -> int | None:
    return Path(place.uri).stat().st_mtime_ns if place.is_local else None


def _digest(data: bytes) -> str:
    return "blake2b:" + blake2b(data, digest_size=32).hexdigest()
