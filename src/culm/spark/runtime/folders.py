"""Folders of results that are complete or not there at all.

A job fills a folder under another name beside the final one, and renames it when it is complete. A reader therefore
never sees half a result. A process that is killed leaves a hidden folder behind. It no longer holds the folder locked,
so the next run that writes beside it removes it (``culm.staging``).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from culm.errors import ConfigError
from culm.spark.storage import Location, located
from culm.spark.storage.publishing import check_target, published
from culm.staging import staged_folder

SUMMARY = "summary.json"
"""The file that every complete folder of results has."""


def check_output(output: Path | Location, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if results cannot be written to this folder.

    Even with ``overwrite`` a folder is replaced only if it is empty or holds earlier results (``SUMMARY`` is in it), so
    that a wrong path does not delete somebody's data.
    """
    if isinstance(output, Location):
        check_target(output, overwrite=overwrite)
        return
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: there is no folder {output.parent}")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{output}: no permission to write to {output.parent}")
    if not (output.exists() or output.is_symlink()):
        return
    if not overwrite:
        raise ConfigError(f"{output}: is there already; name another folder, or use --overwrite to replace it")
    if output.is_symlink() or not output.is_dir() or not ((output / SUMMARY).is_file() or not any(output.iterdir())):
        raise ConfigError(f"{output}: holds something else than earlier results, so it is not overwritten")


def check_not_inside(source: str | Path, output: Path | Location, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if the output cannot be written, or if replacing it would delete the source."""
    check_output(output.absolute(), overwrite=overwrite)
    if overwrite and is_inside(source, output):
        raise ConfigError(f"{source}: is inside the output {output}, which would be replaced; name another output")


def is_inside(source: str | Path, output: Path | Location) -> bool:
    """Whether a file or folder is in another one, or that itself."""
    (place,) = located([re.sub(r"^([a-z0-9+.-]{2,}):/(?!/)", r"\1://", str(source))])  # Path makes one slash of two
    if place.is_local or isinstance(output, Path):
        return (
            isinstance(output, Path) and place.is_local and Path(place.uri).resolve().is_relative_to(output.resolve())
        )
    return f"{_spelled(place)}/".startswith(f"{_spelled(output)}/")


def _spelled(location: Location) -> str:
    """The URI without what schemes that mean the same differ in."""
    return re.sub(r"^(s3|gs|abfs)[acns]*://", r"\1://", location.uri)


@contextmanager
def whole_folder(output: Path | Location) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``output`` at the end of the block. It is removed on an exception.

    Earlier results at ``output`` stay until then. They are moved aside first, because a folder cannot be renamed onto
    one that is not empty, and moved back if renaming fails. What a killed run left beside ``output`` is removed, but
    earlier results that it had moved aside are moved back. Of a location elsewhere, ``culm.spark.storage.publishing``
    tells the rules.
    """
    if isinstance(output, Location):
        with published(output) as made:
            yield made
        return
    aside = output.with_name(f".{output.name}.old")
    if aside.exists():
        if output.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(output)
    with staged_folder(output) as staged:
        folder = staged / output.name  # a folder of its own, because only this process may read the staged one
        folder.mkdir()
        yield folder
        replaces = output.exists()
        if replaces:
            output.rename(aside)
        try:
            folder.rename(output)
        except OSError:
            if replaces:
                aside.rename(output)
            raise
        if replaces:
            shutil.rmtree(aside, ignore_errors=True)
