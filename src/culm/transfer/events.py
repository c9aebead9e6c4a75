"""What the transfer protocols bring: entries, and payloads in pieces; and the check of many entries' signatures.

To check a signature costs more than everything else that is done with an entry, and many can be checked at once on all
cores (``culm.bamboo.are_authentic``). So a connection first reads all bytes that it was handed; then it checks the
signatures of all entries in them together, before it gives the first event away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from culm.bamboo import Entry, PayloadHasher, are_authentic

EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class EntryReceived:
    """An entry came whole. The links that were left out are back in it, and its signature is checked.

    ``verified``: the request asked for entries only that the peer has verified.
    """

    id: int
    entry: Entry
    verified: bool


@dataclass(frozen=True, slots=True)
class EntriesReceived:
    """Neighbouring entries of a log came whole, each with its whole payload, which was checked: at least one.

    The same as an ``EntryReceived`` and a ``PayloadReceived`` for each, for owners that would rather not look at each.
    """

    id: int
    items: list[tuple[Entry, bytes]]

    @property
    def size(self) -> int:
        """The bytes of the entries and of their payloads."""
        return sum(len(entry.encoded) + len(payload) for entry, payload in self.items)

    def apart(self) -> Iterator[EntryReceived | PayloadReceived]:
        """The events of each entry."""
        for entry, payload in self.items:
            yield EntryReceived(self.id, entry, verified=True)
            yield PayloadReceived(self.id, entry, 0, payload, complete=True, checked=True)


@dataclass(frozen=True, slots=True)
class PayloadReceived:
    """Bytes of an entry's payload came, from ``offset`` on. ``complete``: they are the last.

    ``checked``: and the whole payload is the one that the entry names. That cannot be checked here if the beginning was
    held before and its hash was not handed in with the request; then the store has to check it. ``hasher``: it has
    taken all of a large payload, and may still be at work. The owner of the event compares its hash, because waiting
    for it here would hold up everything else that the connection has to do.
    """

    id: int
    entry: Entry
    offset: int
    data: bytes
    complete: bool
    checked: bool
    hasher: PayloadHasher | None = None


@dataclass(frozen=True, slots=True)
class PayloadFailed:
    """All of a payload came, and it is not the one that its entry names: drop whatever was kept of it.

    ``is_theirs``: all of it came from this peer, so the peer is to blame. Otherwise its beginning was held before, and
    nobody knows which part is wrong. ``is_taken_back``: the peer has said so itself, which is no offence: the payload
    counts as never sent.
    """

    id: int
    entry: Entry
    is_theirs: bool = True
    is_taken_back: bool = False


def apart(events: Iterable[EventT]) -> list[EventT | EntryReceived | PayloadReceived]:
    """The events, with those of many entries taken apart."""
    found: list[EventT | EntryReceived | PayloadReceived] = []
    for event in events:
        if isinstance(event, EntriesReceived):
            found += event.apart()
        else:
            found.append(event)
    return found


def bad_entries(events: Iterable[object], *, in_batches: bool = True) -> list[Entry]:
    """The entries among events whose signature is bad, in order; ``in_batches``: see ``culm.bamboo.are_authentic``."""
    entries: list[Entry] = []
    for event in events:
        if isinstance(event, EntryReceived):
            entries.append(event.entry)
        elif isinstance(event, EntriesReceived):
            entries += [entry for entry, _ in event.items]
    if not entries:  # In the middle of a payload. Checking nothing is not free: it counts the cores.
        return []
    verdicts = are_authentic(entries, in_batches=in_batches)
    return [entry for entry, is_good in zip(entries, verdicts, strict=True) if not is_good]
