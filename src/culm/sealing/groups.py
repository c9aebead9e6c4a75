"""Groups: lists of readers, in a log of their own (docs/specs/sealed.md, "A group list").

Each entry of such a log is a whole list, and the newest one counts. So a new list is all that it takes to let somebody
in or out, and a sender needs one entry to seal for the group. The simple way, entries that add and remove, would
make the result depend on all of them, and a node that follows only the newest entries would seal for the wrong people.

A list is only used if it is certainly the newest that the store knows: an old one could name a reader who was taken
out. So a log that is forked has no list, and a list whose payload has not arrived is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from culm.errors import ConfigError, NotHeld, Place
from culm.sealing.header import MAX_READERS
from culm.sealing.mark import is_sealed
from culm.sealing.readers import reader_of
from culm.store import ReadableStore
from culm.types import Log
from culm.wire.places import log_text, parse_log, place_text

_FIRST_LINE = "culm-group 1"
_LINE_BYTES = 64  # An age key has 62 characters, and the end of the line follows.
MAX_LIST_BYTES = _LINE_BYTES * (MAX_READERS + 1)
"""Bytes of a list. A payload that is larger is none, and is not read."""


@dataclass(frozen=True, slots=True)
class Group:
    """A list of readers: its log, the number of its entry (0: the log has no entry yet), and the readers on it."""

    log: Log
    seq: int
    readers: tuple[str, ...]

    def encode(self) -> bytes:
        """The list as a payload. ``ConfigError`` if it is longer than ``MAX_READERS``."""
        if len(self.readers) > MAX_READERS:
            raise ConfigError(f"a group has up to {MAX_READERS:,} readers, and this would be {len(self.readers):,}")
        return "".join(f"{line}\n" for line in (_FIRST_LINE, *self.readers)).encode()


def parse_list(payload: bytes, place: Place) -> tuple[str, ...]:
    """The readers on a list; ``ConfigError`` if a payload is none."""
    where = place_text(place)
    if is_sealed(payload):
        raise ConfigError(f"{where} is sealed, so it is no list of a group")
    try:
        first, *readers, last = payload.decode("ascii").split("\n")
    except (UnicodeDecodeError, ValueError):
        first, readers, last = "", [], ""
    if first != _FIRST_LINE or last:
        raise ConfigError(f"{where} is no list of a group: expected lines of text, first {_FIRST_LINE!r}")
    if len(readers) > MAX_READERS:
        raise ConfigError(f"the list {where} has {len(readers):,} readers; accepted: up to {MAX_READERS:,}")
    seen: set[str] = set()
    for number, reader in enumerate(readers, 2):
        try:
            is_right = reader_of(reader) == reader
        except ConfigError as error:
            raise ConfigError(f"line {number} of the list {where} names no reader: {error}") from None
        if not is_right or reader in seen:
            raise ConfigError(f"line {number} of the list {where} is no reader in the form of a list, or comes twice")
        seen.add(reader)
    return tuple(readers)


def newest_group(store: ReadableStore, log: Log, *, may_be_new: bool = False) -> Group:
    """The newest list of a group.

    ``NotHeld`` if the store does not have it, or only its entry; with ``may_be_new`` a log without entries is an empty
    list. ``ConfigError`` if the log is forked, or its newest entry is no list.
    """
    name = log_text(log)
    lookup = store.lookup(log)
    if lookup.is_forked:
        raise ConfigError(
            f"the group {name} is forked: its author has published two lists of one number, for two sets of readers."
            " Ask the author for a list in another log"
        )
    extent = lookup.entry_extent()
    if extent is None:
        if may_be_new:
            return Group(log, 0, ())
        raise NotHeld(f"the store has no list of the group {name}: follow it and sync, or check the name")
    place = Place(*log, extent[1])
    stored = store.get(place)
    if stored is None or not stored.payload_complete:
        raise NotHeld(f"the newest list of the group, {place_text(place)}, has not arrived: sync first")
    if stored.entry.size > MAX_LIST_BYTES:
        raise ConfigError(
            f"{place_text(place)} has {stored.entry.size:,} bytes, and a list of a group up to {MAX_LIST_BYTES:,}"
        )
    return Group(log, place.seq, parse_list(b"".join(store.payload(stored)), place))


def readers_of(store: ReadableStore, names: Iterable[str | bytes]) -> list[str]:
    """Everybody whom some names mean: readers, and those on the newest list of groups (``AUTHOR/LOG``), each once.

    Errors are those of ``reader_of`` and ``newest_group``; ``ConfigError`` if there are too many.
    """
    found: dict[str, None] = {}
    for name in names:
        if isinstance(name, str) and "/" in name:
            found |= dict.fromkeys(newest_group(store, parse_log(name)).readers)
        else:
            found[reader_of(name)] = None
    if len(found) > MAX_READERS:
        raise ConfigError(f"{len(found):,} readers are too many: accepted are up to {MAX_READERS:,}")
    return list(found)
