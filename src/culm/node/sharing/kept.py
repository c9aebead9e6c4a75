"""What a home keeps about peers over restarts: penalties, good identities, and dialects, in ``HOME/peers.json``.

Without it a node that restarts lets each offender begin anew, takes the penalty of an address out on identities that it
has known for years, and each ``culm sync`` listens for a second to find out a dialect that the last one knew.

Nothing here is worth much. A lost line costs a second, or lets an offender in once more. So the file is read and
written every few seconds and at the end, and a damaged file is replaced with a warning, instead of keeping the node
from starting. A file of a later version of Culm is left alone, so that going back to this version loses nothing.

Several processes share the file: each merges what it has noted itself into it, under a lock, and takes over what others
have noted. If two note the same peer at once, the later one wins.

Times in the file are seconds since 1970, because the clock of a node begins anew with the process. Such a clock can be
wrong. So a penalty that was read lasts at most its own length, whatever its end says, and notes of the future are kept.
"""

import asyncio
import fcntl
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from culm.bushbaby import Dialect
from culm.errors import ConfigError
from culm.node.sharing.penalties import MAX_RECORDS
from culm.node.surroundings import written
from culm.staging import replace_text

KEPT_SECONDS = 90 * 86_400.0
"""After so long without news of a peer its note is dropped: by then an address belongs to somebody else."""
_SAVE_SECONDS = 5.0  # Between two looks at the file. Writing at each connection would keep a disk busy for nothing.
_FRESH_SECONDS = 86_400.0  # So much younger a note has to be to replace an equal one: only its age would be different.
_MOST_BYTES = 16 * 1024 * 1024  # Ten times a file with ``MAX_RECORDS`` of each kind. Of a longer one no more is read.
_MOST_SECONDS = 1e12  # Since 1970, so that no number overflows; the year 33,658.
_NAMES = {
    "identities": re.compile("[0-9a-f]{64}"),
    "addresses": re.compile(r"[0-9A-Za-z.:/_-]{1,255}"),
    "dialects": re.compile(r"[0-9A-Za-z.:%_\[\]-]{1,255}:[0-9]{1,5}"),  # Not those of pipes, which have no port.
}
_DIALECTS = {"", *(dialect.value for dialect in Dialect)}
_VERSION = 1  # Of the file. The first ones had no version, and were otherwise the same.
_logger = logging.getLogger("culm.node")


class _OfLaterVersion(ValueError):
    """The file was written by a later version of Culm."""


@dataclass(frozen=True, slots=True)
class Note:
    """What is known of an identity, of an address that called, or of one that we call. Times are seconds since 1970.

    ``at``: when it was noted. ``strikes``, ``until`` and ``penalty`` are those of ``culm.node.sharing.penalties``, with
    0 strikes if all is forgiven. ``good``: the identity had a good session, and no offence since. ``dialect``: the one
    heard last, or empty.
    """

    at: float = 0.0
    strikes: int = 0
    until: float = 0.0
    penalty: float = 0.0
    good: bool = False
    dialect: str = ""


Reader = Callable[[str, str, Note], None]
_Notes = dict[tuple[str, str], Note]  # By kind (a key of ``_NAMES``) and name.


class KeptPeers:
    """The notes of one process, and the file that it shares with others. Without a path nothing is kept.

    ``wall`` is a clock that gives seconds since 1970. ``readers`` are called with kind, name and note of what the file
    has that this process has not seen.
    """

    def __init__(self, path: Path | None = None, wall: Callable[[], float] = time.time) -> None:
        self.readers: list[Reader] = []
        self.wall = wall
        self._path = path
        self._notes: _Notes = {}  # As the file had them last.
        self._changes: _Notes = {}  # Not in the file yet.
        self._seen: object = None
        self._told: set[str] = set()  # The problems that are in the log.

    def note(self, kind: str, name: str, note: Note) -> None:
        """Keep a note, with the time of now, unless it is as before."""
        if self._path is None or not _NAMES[kind].fullmatch(name):
            return
        note = replace(note, at=round(self.wall()), until=max(0.0, round(note.until, 3)))
        before = self._changes.get((kind, name)) or self._notes.get((kind, name)) or Note()
        if replace(note, at=before.at) != before or (before.at and abs(note.at - before.at) > _FRESH_SECONDS):
            self._changes[kind, name] = note

    def exchange(self) -> None:
        """Write what is new to the file, and tell the readers what others have written."""
        self._tell(self._merge(self._taken()))

    async def run(self) -> None:
        """Exchange with the file every few seconds if there is something new, until cancelled."""
        while self._path is not None:
            await asyncio.sleep(_SAVE_SECONDS)
            changes = self._taken()
            if changes or written(self._path) != self._seen:
                self._tell(await asyncio.to_thread(self._merge, changes))

    def _taken(self) -> _Notes:
        changes, self._changes = self._changes, {}
        return changes

    def _tell(self, news: _Notes) -> None:
        for (kind, name), note in news.items():
            if (kind, name) not in self._changes:
                for reader in self.readers:
                    reader(kind, name, note)

    def _merge(self, changes: _Notes) -> _Notes:
        """Put changes into the file; what others have changed there."""
        if self._path is None:
            return {}
        news: _Notes = {}
        try:
            with _locked(self._path.parent):
                found = self._read(self._path)
                news = {place: note for place, note in found.items() if note != self._notes.get(place)}
                self._notes = _bounded({**found, **changes}, self.wall())
                if changes:
                    replace_text(self._path, _text(self._notes), 0o600)
                self._seen = written(self._path)
        except (OSError, _OfLaterVersion) as error:  # The changes are dropped, or they would pile up on a full disk.
            reason = error.strerror if isinstance(error, OSError) else error
            self._warn("cannot keep what is known of peers", f"{self._path}: {reason}")
        return {place: note for place, note in news.items() if place not in changes}

    def _read(self, path: Path) -> _Notes:
        try:
            return _bounded(_parsed(path), self.wall())
        except _OfLaterVersion:
            raise
        except ValueError as error:
            self._warn("what was known of peers is lost", f"{path} is damaged, and is begun anew: {error}")
            return {}

    def _warn(self, event: str, reason: str) -> None:
        if event not in self._told:
            self._told.add(event)
            _logger.warning(event, extra={"reason": reason})


def examined(path: Path) -> dict[str, int]:
    """How many notes of each kind the file has; ``ConfigError`` if it is damaged, or of a later version of Culm.

    ``OSError`` if it cannot be read. It is only read.
    """
    try:
        notes = _parsed(path)
    except _OfLaterVersion as error:
        raise ConfigError(f"{path}: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is damaged: {error}") from None
    return {kind: sum(place[0] == kind for place in notes) for kind in _NAMES}


def _parsed(path: Path) -> _Notes:
    """The notes of the file, however old, none if there is no file; ``ValueError`` if it is damaged."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES} bytes")
    try:
        document = json.loads(data)
        version = document.get("version", _VERSION)
        if type(version) is not int or version < 1:
            raise ValueError(f"{version!r} is no version")
        if version > _VERSION:
            raise _OfLaterVersion(f"it has version {version}, of a later Culm; this one reads version {_VERSION}")
        return {
            (kind, name): _note(kind, name, fields)
            for kind in _NAMES
            for name, fields in document.get(kind, {}).items()
        }
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold off other processes. The lock is on the folder, because the file is another one after each writing."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # Some network file systems have no locks: then a note may get lost, but not the file.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _bounded(notes: _Notes, now: float) -> _Notes:
    """Without old ones, and at most ``MAX_RECORDS`` of each kind: the latest, and good identities before others.

    A flood of invented identities would otherwise make the node forget those that it knows.
    """
    kept: _Notes = {}
    for kind in _NAMES:
        some = [place for place, note in notes.items() if place[0] == kind and now - note.at <= KEPT_SECONDS]
        some.sort(key=lambda place: (notes[place].good, notes[place].at), reverse=True)
        kept.update((place, notes[place]) for place in some[:MAX_RECORDS])
    return kept


def _text(notes: _Notes) -> str:
    kinds: dict[str, dict[str, dict[str, object]]] = {}
    for (kind, name), note in sorted(notes.items()):
        fields = {field: value for field, value in asdict(note).items() if value}
        kinds.setdefault(kind, {})[name] = fields
    return json.dumps({"version": _VERSION, **kinds}, indent=1) + "\n"


def _note(kind: str, name: str, fields: dict[str, Any]) -> Note:
    """A note from the file; ``ValueError`` or ``TypeError`` if it is none."""
    note = Note(**fields)
    numbers: list[Any] = [note.at, note.strikes, note.until, note.penalty]
    if not _NAMES[kind].fullmatch(name) or type(note.strikes) is not int or note.dialect not in _DIALECTS:
        raise ValueError(f"{name!r} in {kind} is no note")
    if not all(isinstance(number, int | float) and 0 <= number <= _MOST_SECONDS for number in numbers):
        raise ValueError(f"{name!r} in {kind} has no possible time")
    return replace(note, good=bool(note.good))
