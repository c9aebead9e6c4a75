"""What the transfer protocols bring: entries, and payloads in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm.bamboo import Entry


@dataclass(frozen=True, slots=True)
class EntryReceived:
    """An entry came whole, its links put back, its signature checked. ``verified``: the request asked for such only."""

    id: int
    entry: Entry
    verified: bool


@dataclass(frozen=True, slots=True)
class PayloadReceived:
    """Bytes of an entry's payload came, from ``offset`` on. ``complete``: they are the last.

    ``checked``: and the whole payload is what the entry names. It cannot be checked here if its beginning was held
    before and nothing was said of it (``Connection.request``).
    """

    id: int
    entry: Entry
    offset: int
    data: bytes
    complete: bool
    checked: bool


@dataclass(frozen=True, slots=True)
class PayloadFailed:
    """All of a payload came, and it is not the one that its entry names: what was kept of it is worth nothing.

    ``is_theirs``: all of it came from this peer. Else its beginning was held before: nobody knows whose fault it is.
    """

    id: int
    entry: Entry
    is_theirs: bool = True
