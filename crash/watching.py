"""What happens to the files of some folders, as it happens: Linux's inotify.

So that a program can be killed at its n-th change of a file, which hits short work, and steps of it that take no time.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MODIFY, _OPEN, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x20, 0x40, 0x80, 0x100, 0x200
_MASK = _MODIFY | _OPEN | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_IS_FOLDER, _LOST = 0x4000_0000, 0x4000
_HEAD = struct.Struct("iIII")  # watch, what, cookie, bytes of the name
_READ = 64 * 1024


class Watch:
    """Watches folders, and those that are made in them; ``fileno`` is readable when there is something."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "inotify is not there: crash tests need Linux")
        self._folders: dict[int, Path] = {}
        for folder in folders:
            self._add(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def fileno(self) -> int:
        """What to wait for."""
        return int(self._file)

    def _add(self, folder: Path) -> None:
        for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            watch = self._libc.inotify_add_watch(self._file, os.fsencode(path), ctypes.c_uint32(_MASK))
            if watch >= 0:  # else it is gone already
                self._folders[watch] = path

    def take(self) -> int:
        """How many changes there were since the last call, the opening of files among them."""
        count = 0
        while True:
            try:
                data = os.read(self._file, _READ)
            except BlockingIOError:
                return count
            at = 0
            while at < len(data):
                watch, what, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size
                name = data[at : at + length].rstrip(b"\0")
                at += length
                if what & _IS_FOLDER:
                    if what & _CREATE and watch in self._folders:
                        self._made(self._folders[watch] / os.fsdecode(name))
                    elif what & _OPEN:  # somebody lists it
                        continue
                count += not what & _LOST

    def _made(self, folder: Path) -> None:
        try:
            self._add(folder)
        except OSError:
            return  # gone already
