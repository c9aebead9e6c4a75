"""Folders of results on other machines: complete, or recognised as not complete.

On this machine a folder appears by one rename. Object stores have none: "renaming" a folder there copies its files one
by one, and may fail between any two of them. So a folder counts as complete when it has ``summary.json``, which is one
object and appears at once. Results are made on this machine, and then published in three steps::

    1  upload all files below OUTPUT/_partial-TOKEN/     earlier results stay complete; readers pass over ``_`` names
    2  delete the earlier summary.json, then its files   from here on nothing is complete
    3  move the new files to their places, summary.json last

A run that fails in step 1 leaves earlier results as they were; one that fails later leaves a folder without
``summary.json``. The next run with ``overwrite`` removes whatever is left. Two runs that publish to one folder at once
cannot be kept apart, as few object stores have conditional writes that all file systems here offer. The last step looks
whether anybody else's files are there, and fails rather than mixing two results.

States (``verification.state``) stay on this machine or a shared disk: two runs that add to one state must exclude each
other, which takes a lock, and a lock must end with its process.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyarrow import fs
from pyarrow.fs import FileSystem

from culm.errors import ConfigError
from culm.spark.storage.filesystems import bucket_of, said
from culm.spark.storage.location import Location, located

_LAST = "summary.json"
_PARTIAL = re.compile(r"_partial-[0-9a-f]{16}/")


def target(place: str | os.PathLike[str]) -> Path | Location:
    """Where results go: a path of this machine, or the location of a URI."""
    (found,) = located([place])
    return Path(found.uri) if found.is_local else found


def check_target(output: Location, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if results cannot be published there. Only earlier results are ever overwritten."""
    with said(output.uri, "be written"):
        system, path = output.filesystem()
        bucket = bucket_of(output.uri, path)
        if bucket and system.get_file_info(bucket).type.name == "NotFound":
            raise ConfigError(f"{output}: there is no such bucket")
        if system.get_file_info(path).type.name == "File":
            raise ConfigError(f"{output}: a file is there already; name a folder")
        names = _files(system, path)
        if not names or overwrite:
            _probe(system, path)
    if not names:
        return
    ours = _LAST in names or any(map(_PARTIAL.match, names))
    if not ours:
        raise ConfigError(f"{output}: holds something else than earlier results, so it is not overwritten")
    if not overwrite:
        state = "is there already" if _LAST in names else "an earlier run failed there and left files"
        raise ConfigError(f"{output}: {state}; name another folder, or use --overwrite to replace it")


@contextmanager
def published(output: Location) -> Iterator[Path]:
    """A new folder on this machine to fill; its files are published at the end of the block, unless that raises.

    On a cluster all machines must see the folder for temporary files (``TMPDIR``), since workers write there.
    """
    with tempfile.TemporaryDirectory(prefix="culm-results-") as base:
        folder = Path(base, "results")
        folder.mkdir()
        yield folder
        with said(output.uri, "be written"):
            _publish(folder, *output.filesystem(), output)


def _publish(folder: Path, system: FileSystem, path: str, output: Location) -> None:
    made = [name for name in _files(fs.LocalFileSystem(), str(folder)) if name != _LAST]
    token = f"_partial-{secrets.token_hex(8)}"
    staged = f"{path}/{token}"
    before = _files(system, path)
    system.create_dir(staged, recursive=True)
    fs.copy_files(str(folder), staged, destination_filesystem=system)
    for name in sorted(before, key=lambda name: name != _LAST):
        system.delete_file(f"{path}/{name}")
    for parent in {f"{path}/{name}".rpartition("/")[0] for name in made}:
        system.create_dir(parent, recursive=True)
    for name in made:
        system.move(f"{staged}/{name}", f"{path}/{name}")
    others = set(_files(system, path)) - {*made, f"{token}/{_LAST}"}
    if others:
        raise ConfigError(f"{output}: another run writes there ({min(others)}); name another folder")
    system.move(f"{staged}/{_LAST}", f"{path}/{_LAST}")
    with suppress(OSError):  # the results are complete, and an empty folder in the way of nobody
        system.delete_dir(staged)


def _probe(system: FileSystem, path: str) -> None:
    """Write and delete a file, so that missing rights are told before hours of work."""
    folder = f"{path}/_partial-{secrets.token_hex(8)}"
    system.create_dir(folder, recursive=True)
    with system.open_output_stream(f"{folder}/probe") as stream:
        stream.write(b"x")
    system.delete_dir(folder)


def _files(system: FileSystem, path: str) -> list[str]:
    """The files below a folder, by their names relative to it; none if it is not there."""
    found = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return sorted(one.path[len(path.rstrip("/")) + 1 :] for one in found if one.type == fs.FileType.File)
