"""Folders of results that are complete or not there at all.

A job fills a folder under another name beside the final one, and renames it when it is complete. A reader therefore
never sees half a result. A process that is killed leaves a hidden folder behind. It no longer holds the folder locked,
so the next run that writes beside it removes it (``culm.staging``).
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.staging import staged_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUMMARY = "summary.json"
"""The file that every complete folder of results has."""


def check_output(output: Path, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if results cannot be written to this folder.

    Even with ``overwrite`` a folder is replaced only if it is empty or holds earlier results (``SUMMARY`` is in it), so
    that a wrong path does not delete somebody's data.
    """
    output = output.absolute()
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: there is no folder {output.parent}")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{output}: no permission to write to {output.parent}")
    is_there = output.exists() or output.is_symlink()
    if is_there and not overwrite:
        raise ConfigError(f"{output}: is there already; name another folder, or use --overwrite to replace it")
    ours = output.is_dir() and not output.is_symlink() and ((output / SUMMARY).is_file() or not any(output.iterdir()))
    if is_there and not ours:
        raise ConfigError(f"{output}: holds something else than earlier results, so it is not overwritten")


@contextmanager
def whole_folder(output: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``output`` at the end of the block. It is removed on an exception.

    Earlier results at ``output`` stay until then. They are moved aside first, because a folder cannot be renamed onto
    one that is not empty, and moved back if renaming fails. What a killed run left beside ``output`` is removed, but
    earlier results that it had moved aside are moved back.
    """
    output = output.absolute()
    aside = output.with_name(f".{output.name}.old")
    _settle(output, aside)
    with staged_folder(output) as staged:
        folder = staged / output.name  # a folder of its own, because only this process may read the staged one
        folder.mkdir()
        yield folder
        if output.exists():
            output.rename(aside)
        try:
            folder.rename(output)
        finally:
            _settle(output, aside)


def _settle(output: Path, aside: Path) -> None:
    """Move earlier results back, or remove them if the new ones have taken their place."""
    if output.exists():
        shutil.rmtree(aside, ignore_errors=True)
    elif aside.exists():
        aside.rename(output)
