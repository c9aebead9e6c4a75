"""One branch of a forked log, for responses that go along it.

By default a fork proof ends a response before anything else, and nothing at or above a fork counts as held. But a
requester may ask for local forks, or name an entry that it trusts. Then the seed allows no proof in some places, and
the entries of one branch are what is left to send there. All of them have to lie on one path (D34), so the first one
decides: it leads to the anchor or is led to by it; without an anchor, any entry of its number will do.

Below the fork there is one branch only, and what is held there is asked of the log itself.

Specification: docs/specs/intervals.md, "One branch in a response".
"""

from culm.bamboo import Entry, lipmaa
from culm.intervals.interval import Request
from culm.ranges.runs import Runs
from culm.transfer import HeldLog, Kept, Source
from culm.types import Run

_CHOSEN = 64  # Entries remembered, so that a look ahead and the sending that follows choose the same ones.


def leads_to(entry: Entry, seq: int, value: bytes, source: Source) -> bool:
    """Whether links that are held lead from an entry down to the one of number ``seq`` and hash ``value``."""
    while entry.seq > seq:
        jump = lipmaa(entry.seq)
        target = jump if jump >= seq else entry.seq - 1
        expected = dict(entry.links)[target]
        if target == seq:
            return expected == value
        following = [kept.entry for kept in source.variants(entry.log, target) if kept.entry.hash == expected]
        if not following:
            return False
        entry = following[0]
    return entry.seq == seq and entry.hash == value


class Branch:
    """What is held along one branch: a ``culm.transfer.Held``, as of the last ``look``."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._chosen: dict[int, Entry] = {}

    def look(self, source: Source, held: HeldLog, fork: int, expected: dict[int, bytes]) -> None:
        """See what is held now of a log that is forked at number ``fork``."""
        self._source, self._held, self._fork, self._expected = source, held, fork, expected
        self._found: Kept | None = None

    def kept(self, seq: int) -> Kept | None:
        """The entry of a number at or above the fork; None if none is held that is on the branch."""
        if self._found is None or self._found.entry.seq != seq:
            self._found = self._choose(seq)
            if self._found is not None:
                self._chosen.pop(seq, None)
                self._chosen[seq] = self._found.entry
                if len(self._chosen) > _CHOSEN:
                    del self._chosen[next(iter(self._chosen))]
        return self._found

    def _choose(self, seq: int) -> Kept | None:
        if seq < self._fork:
            return None
        log, anchor = self._request.log, self._request.anchor
        copies = self._source.variants(log, seq)
        if seq in self._chosen:
            return next((kept for kept in copies if kept.entry == self._chosen[seq]), None)
        last = next(reversed(self._chosen.values()), None)
        if anchor is not None and (last is None or seq < anchor[0] or last.seq < anchor[0]):
            tops = [kept.entry for kept in self._source.variants(log, anchor[0]) if kept.entry.hash == anchor[1]]
            return next((kept for kept in copies if self._agrees(kept.entry, *anchor, tops)), None)
        if last is not None:
            return next((kept for kept in copies if self._agrees(kept.entry, last.seq, last.hash, [last])), None)
        wanted = self._expected.get(seq)
        return next((kept for kept in copies if kept.entry.hash == wanted), copies[0] if copies else None)

    def _agrees(self, entry: Entry, seq: int, value: bytes, known: list[Entry]) -> bool:
        """Whether an entry is on one path with another one, which ``known`` holds if it is held."""
        if entry.seq >= seq:
            return leads_to(entry, seq, value, self._source)
        return any(leads_to(other, entry.seq, entry.hash, self._source) for other in known)

    def is_elsewhere(self, seq: int) -> bool:
        """Whether entries of a number are held, and all of them are on other branches."""
        return seq >= self._fork and self.kept(seq) is None and bool(self._source.variants(self._request.log, seq))

    # -- what is held ------------------------------------------------------------------------------------------

    def entries_around(self, seq: int) -> Run | None:
        """The run of entries around a number, below the fork; above it the entry alone."""
        if seq < self._fork:
            return self._held.entries_around(seq)
        return None if self.kept(seq) is None else (seq, seq)

    def payloads_around(self, seq: int) -> Run | None:
        """The same for payloads of a size that the request wants."""
        if seq < self._fork:
            return self._held.payloads_around(seq)
        kept = self.kept(seq)
        return (seq, seq) if kept is not None and kept.complete and self._request.fits(kept.entry.size) else None

    def payload_extent(self) -> Run | None:
        """Not asked of one branch: see ``Available``."""
        return self._held.payload_extent()


class Available:
    """The payloads that are held of a forked log, of whatever branch: what relative bounds refer to."""

    def __init__(self, held: HeldLog) -> None:
        self._held, self._above = held, Runs(held.disputed)
        self.entries_around = held.entries_around

    def payloads_around(self, seq: int) -> Run | None:
        """The run of payloads around a number."""
        run = self._held.payloads_around(seq) or self._above.around(seq)
        if run is None:
            return None
        below = self._held.payloads_around(run[0] - 1) if run[0] > 1 else None
        return (below or run)[0], (self._above.around(run[1] + 1) or run)[1]

    def payload_extent(self) -> Run | None:
        """The least and the greatest payload."""
        found = [run for run in (self._held.payload_extent(), self._above.extent) if run is not None]
        return (min(low for low, _ in found), max(high for _, high in found)) if found else None
