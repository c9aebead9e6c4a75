"""Quotas: how much the logs of others may take in a clump, of one author and of all together.

*The problem.* A node that carries logs for others takes what it cannot judge: the payloads may be sealed. Without a
limit, one member of the clump fills the disk, and nobody's logs are carried any more.

*The simple way*, to sum up the store before each entry, costs a look at everything for every entry. To count only what
peers claim to send is as bad: claims cost nothing, and some large ones would use up the room of the others.

*The way chosen* is a tally, as at a left-luggage office: each piece is weighed when it is handed in, and what does not
fit any more is refused. So the tally counts bytes that have come, and no claims. An entry whose payload cannot fit is
refused at once, because half of a payload serves nobody, and its log counts as *full*: the node asks for nothing more
of the log, because what follows hangs on the refused entry. An author with no room left is full in all logs. What is
held stays, and is served.

The tally can be too high: several peers may send the same entry at the same time, and a payload may be deleted. So
while anything is full, the store is summed up again from time to time, and the tally begins anew from there. A peer
that sends an entry again, unasked, is not listened to: it could make another author full in this way
(``BushbabySession``; the other protocols bring only what was asked for).

Our own logs count nothing and are never refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from culm.bamboo import Entry
from culm.bamboo.decimal import size_text
from culm.types import Log

ENTRY_BYTES = 512
"""What an entry counts for besides its own bytes and those of its payload: its rows in tables and indexes."""
AUTHOR_BYTES = 16 * 1024
"""What an author counts for. Keys cost nothing to make, and each author takes rows, and memory of the node."""

_MOST_FULL = 10_000
"""Full logs that are remembered, because somebody can name any number of them. Beyond that all are asked for again."""


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Bytes that the logs of others may take in the clump, and those of each author; 0: no limit."""

    total: int = 0
    author: int = 0

    def __bool__(self) -> bool:
        return bool(self.total or self.author)


class Quotas:
    """The tally of a clump. ``changed`` is called when a log, an author or the whole clump has become full.

    All of it belongs to the event loop.
    """

    def __init__(self, limits: QuotaLimits, own: Collection[bytes], changed: Callable[[], None]) -> None:
        self.limits = limits
        self._own = own
        self._changed = changed
        self.refused: Log | None = None
        self.mark()
        self.begin({})

    def mark(self) -> None:
        """A sum of the store will be taken soon: what comes from now on is perhaps not in it, and is added to it."""
        self._since = Counter[bytes]()

    def begin(self, sizes: Mapping[bytes, int]) -> None:
        """Begin with what the store has of each author, as ``weight_of`` counts it, and the bytes since ``mark``.

        Bytes since ``mark`` that are in the store count twice until the next sum, so the tally is never too low. If
        somebody has no room for that reason, the tally is *doubtful*: nothing more is asked for, so nothing would be
        refused and call for another sum.
        """
        self._of = Counter({author: size + AUTHOR_BYTES for author, size in sizes.items() if author not in self._own})
        for author, size in self._since.items():
            self._of[author] += size if author in self._of else size + AUTHOR_BYTES
        self.total = self._of.total()
        self._full: set[Log] = set()  # An entry of these was refused although their author had room for less.
        self.is_tight = False  # Whether anything was refused since, so that it is worth summing up the store again.
        self.is_doubtful = bool(self._since) and any(not self._has_room(author, 1) for author in self._of)

    def explained(self) -> str:
        """How much of each quota is used, for the log that an entry was refused of last."""
        parts = [
            f"{whose} {size_text(used)} of {size_text(limit)}"
            for whose, used, limit in (
                ("its author has", self._of.get(self.refused[0], 0) if self.refused else 0, self.limits.author),
                ("the logs of others together have", self.total, self.limits.total),
            )
            if limit
        ]
        return f"no room for an entry; {', '.join(parts)}"

    def is_full(self, log: Log) -> bool:
        """Whether to ask for nothing more of a log."""
        return log[0] not in self._own and (log in self._full or not self._has_room(log[0], 1))

    def takes(self, entry: Entry, payload: int, *, wanted: bool = True) -> bool:
        """Weigh an entry that came, with so many bytes of its payload; whether to keep it.

        ``wanted``: whether the rest of the payload is asked for, and so needs room, too.
        """
        size = weight_of(entry)
        return self._takes(entry.log, size + payload, size + max(payload, entry.size * wanted))

    def takes_piece(self, entry: Entry, size: int) -> bool:
        """Weigh a piece of a large payload; whether to keep it."""
        return self._takes(entry.log, size, size)

    def takes_proof(self, entries: Sequence[Entry]) -> bool:
        """Weigh the entries of a fork proof; whether to keep them."""
        size = sum(map(weight_of, entries))
        return self._takes(entries[0].log, size, size)

    def add_proof(self, entries: Sequence[Entry]) -> None:
        """Weigh a fork proof that the store has made of entries which it holds, and keeps beside these.

        It cannot be refused, because it was not known before. So an author who forks can go over a quota, by the proofs
        of one group of entries that are stored together.
        """
        if (author := entries[0].author) not in self._own:
            self._add(author, sum(map(weight_of, entries)))
            if not self._has_room(author, 1):
                self._refuse(entries[0].log)

    def _takes(self, log: Log, size: int, expected: int) -> bool:
        author = log[0]
        if author in self._own:
            return True
        if log in self._full:
            return False
        if not self._has_room(author, expected):
            self._refuse(log)
            return False
        self._add(author, size)
        return True

    def _add(self, author: bytes, size: int) -> None:
        self._since[author] += size
        size += 0 if author in self._of else AUTHOR_BYTES
        self._of[author] += size
        self.total += size

    def _refuse(self, log: Log) -> None:
        is_new = not self.is_tight
        self.refused = log
        self.is_tight = True
        if self._has_room(log[0], 1):  # Otherwise the tally says so.
            if len(self._full) >= _MOST_FULL:
                self._full.clear()
            self._full.add(log)
            is_new = True
        if is_new:
            self._changed()

    def _has_room(self, author: bytes, size: int) -> bool:
        size += 0 if author in self._of else AUTHOR_BYTES
        mine, everybody = self.limits.author, self.limits.total
        return (not mine or self._of.get(author, 0) + size <= mine) and (
            not everybody or self.total + size <= everybody
        )


def weight_of(entry: Entry) -> int:
    """What an entry counts for, without its payload."""
    return len(entry.encoded) + ENTRY_BYTES
