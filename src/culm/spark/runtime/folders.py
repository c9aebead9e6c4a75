"""Folders of results that are complete or not there at all, on this machine (``culm.results``) and elsewhere.

Object stores have no rename: "renaming" a folder there copies its files one by one, and may fail between any two of
them. So a folder elsewhere counts as complete when it has ``summary.json``, which is one object and appears at once.
Results are made on this machine, and then published in three steps::

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

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir

from pyarrow import fs
from pyarrow.fs import FileSystem

from culm import results
from culm.errors import ConfigError
from culm.results import SUMMARY
from culm.spark.storage.filesystems import check_bucket, said
from culm.spark.storage.location import Location, located
from culm.staging import staged_folder

_PARTIAL = re.compile(r"_partial-[0-9a-f]{16}/")


def check_output(output: Path | Location, *, overwrite: bool, reads: Iterable[str | Path] = ()) -> None:
    """Raise ``ConfigError`` if results cannot be written to this folder, or if that would delete what a job ``reads``.

    Only earlier results are ever overwritten.
    """
    if isinstance(output, Location):
        _check_elsewhere(output, overwrite=overwrite)
    else:
        results.check_output(output, overwrite=overwrite)
    for source in reads if overwrite else ():
        if _is_inside(source, output):
            raise ConfigError(f"{source}: is inside the output {output}, which would be replaced; name another output")


def _is_inside(source: str | Path, output: Path | Location) -> bool:
    """Whether a file or folder is in another one, or that itself."""
    (place,) = located([re.sub(r"^([a-z0-9+.-]{2,}):/(?!/)", r"\1://", str(source))])  # Path makes one slash of two
    if isinstance(output, Path):
        return place.is_local and Path(place.uri).resolve().is_relative_to(output.resolve())
    # Several schemes mean the same storage.
    inner, outer = (re.sub(r"^(s3|gs|abfs)[acns]*://", r"\1://", f"{one.uri}/") for one in (place, output))
    return not place.is_local and inner.startswith(outer)


@contextmanager
def whole_folder(output: Path | Location) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``output`` at the end of the block. It is removed on an exception.

    If ``output`` is elsewhere, the folder is on this machine, and its files are published at the end of the block. On a
    cluster all machines must see the folder for temporary files (``TMPDIR``), since workers write there.
    """
    made = results.whole_folder(output) if isinstance(output, Path) else staged_folder(Path(gettempdir(), "results"))
    with made as folder:
        yield folder
        if isinstance(output, Location):
            with said(output.uri, "be written"):
                _publish(str(folder), *output.filesystem(), output)


# -- elsewhere ------------------------------------------------------------------------------------------------------


def _check_elsewhere(output: Location, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if results cannot be published there."""
    with said(output.uri, "be written"):
        system, path = output.filesystem()
        check_bucket(output.uri, system, path)
        if system.get_file_info(path).type.name == "File":
            raise ConfigError(f"{output}: a file is there already; name a folder")
        names = _files(system, path)
        if not names or overwrite:
            _probe(system, path)
    if names and SUMMARY not in names and not any(map(_PARTIAL.match, names)):
        raise ConfigError(f"{output}: holds something else than earlier results, so it is not overwritten")
    if names and not overwrite:
        state = "is there already" if SUMMARY in names else "an earlier run failed there and left files"
        raise ConfigError(f"{output}: {state}; name another folder, or use --overwrite to replace it")


def _publish(folder: str, system: FileSystem, path: str, output: Location) -> None:
    made = [name for name in _files(fs.LocalFileSystem(), folder) if name != SUMMARY]
    token = f"_partial-{secrets.token_hex(8)}"
    staged = f"{path}/{token}"
    before = _files(system, path)
    system.create_dir(staged, recursive=True)
    fs.copy_files(folder, staged, destination_filesystem=system)
    for name in sorted(before, key=lambda name: name != SUMMARY):
        system.delete_file(f"{path}/{name}")
    for parent in {f"{path}/{name}".rpartition("/")[0] for name in made}:
        system.create_dir(parent, recursive=True)
    for name in made:
        system.move(f"{staged}/{name}", f"{path}/{name}")
    if others := set(_files(system, path)) - {*made, f"{token}/{SUMMARY}"}:
        raise ConfigError(f"{output}: another run writes there ({min(others)}); name another folder")
    system.move(f"{staged}/{SUMMARY}", f"{path}/{SUMMARY}")
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
