"""What the transfer protocols bring: entries, and payloads in pieces."""

from dataclasses import dataclass

from culm.bamboo import Entry


@dataclass(frozen=True, slots=True)
class EntryReceived:
    """An entry came whole. The links that were left out are back in it, and its signature is checked.

    ``verified``: the request asked for entries only that the peer has verified.
    """

    id: int
    entry: Entry
    verified: bool


@dataclass(frozen=True, slots=True)
class PayloadReceived:
    """Bytes of an entry's payload came, from ``offset`` on. ``complete``: they are the last.

    ``checked``: and the whole payload is the one that the entry names. That cannot be checked here if the beginning was
    held before and its hash was not handed in with the request; then the store has to check it.
    """

    id: int
    entry: Entry
    offset: int
    data: bytes
    complete: bool
    checked: bool


@dataclass(frozen=True, slots=True)
class PayloadFailed:
    """All of a payload came, and it is not the one that its entry names: drop whatever was kept of it.

    ``is_theirs``: all of it came from this peer, so the peer is to blame. Otherwise its beginning was held before, and
    nobody knows which part is wrong.
    """

    id: int
    entry: Entry
    is_theirs: bool = True
