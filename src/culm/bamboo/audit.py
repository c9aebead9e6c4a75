"""Auditing one log in ascending order, in one pass and little memory.

The auditor answers two questions. For each entry: does a path of links lead from it to entry 1? For the log: what is
the lowest position at which authentic entries contradict each other? Together they are the verdict. Every entry at or
above that position is invalid. An entry below it is verified if it has a path, and unverified otherwise.

The simple way keeps the hash of every entry, which is too much for a log of a hundred million. But links never cross
(see ``culm.bamboo.lipmaa``): after entry 14, later entries link to 14 and 13 only, because the link from 40 to 13
passes over all that is below. So the auditor forgets numbers that no later entry can link to. Of a log held in full it
remembers O(log n) hashes.

The hash that a missing entry *should* have is remembered as well, because two entries that expect different hashes at
the same number prove a fork even though the entry itself is not held.

The store reaches the same verdicts incrementally. The two implementations share no code, so that the tests can compare
them with each other.

Specification: docs/specs/bamboo.md, "Verification", "Forks", "End of log".
"""

from collections.abc import Iterable
from typing import NamedTuple

from culm.bamboo.entry import Entry
from culm.bamboo.lipmaa import links_across, lipmaa

# Numbers to gather before pruning. Finding the useful ones takes O(log^2) steps, so it must not run for every entry;
# a larger number would only cost memory.
_PRUNE_FROM = 256


class _Passed:
    """What is known of a sequence number: its hash, as found (``held``) or as a later entry's link expects it."""

    __slots__ = ("by", "connected", "hash", "held")

    def __init__(self, entry_hash: bytes, held: bool, connected: bool, by: int) -> None:
        self.hash, self.held = entry_hash, held
        self.connected = connected  # a path of links leads from it to entry 1
        self.by = by  # the entry that the hash comes from: half of the proof if another entry disagrees


class ForkFinding(NamedTuple):
    """A contradiction: its position, and the sequence numbers of the two entries that prove it."""

    position: int
    first: int
    second: int


class LogAuditor:
    """Audits the entries of one log, given in ascending order of sequence number.

    Entries must be authentic and of one log; equal entries must be given once.
    """

    def __init__(self) -> None:
        self._passed: dict[int, _Passed] = {}
        self._prune_at = _PRUNE_FROM
        self._last = 0
        self._end: int | None = None
        self.fork: ForkFinding | None = None

    def add(self, entry: Entry) -> bool:
        """Feed the next entry; whether a path of links leads from it to entry 1 on entries fed so far."""
        return self.add_fields(entry.seq, entry.hash, entry.backlink, entry.lipmaalink, is_end=entry.is_end)

    def add_fields(
        self, seq: int, entry_hash: bytes, backlink: bytes | None, lipmaalink: bytes | None, *, is_end: bool
    ) -> bool:
        """``add`` for an entry whose fields are at hand without the object. Hashes are 66 bytes."""
        if seq < self._last:
            raise ValueError(f"entries must come in ascending order, but {seq} follows {self._last}")
        if seq == self._last:
            self._found(seq, seq, seq)
        elif len(self._passed) > self._prune_at:
            # Only when a number is done: of a fork, several entries share it, and the links of each must be compared.
            self._prune(self._last)
        if self._end is not None and self._end < seq:
            self._found(self._end, self._end, seq)
        elif is_end:
            self._end = seq
        self._last = seq
        connected = seq == 1
        if backlink is not None:
            connected = self._follow(seq, seq - 1, backlink)
        if lipmaalink is not None:
            connected = self._follow(seq, lipmaa(seq), lipmaalink) or connected
        self._passed[seq] = _Passed(entry_hash, held=True, connected=connected, by=seq)
        return connected

    def _follow(self, seq: int, target: int, expected: bytes) -> bool:
        known = self._passed.get(target)
        if known is None:
            self._passed[target] = _Passed(expected, held=False, connected=False, by=seq)
            return False
        if known.hash != expected:
            self._found(target, known.by, seq)
            return False
        return known.connected

    def _found(self, position: int, first: int, second: int) -> None:
        if self.fork is None or position < self.fork.position:
            self.fork = ForkFinding(position, first, second)

    def _prune(self, seq: int) -> None:
        passed = self._passed
        self._passed = {target: passed[target] for target in links_across(seq) if target in passed}
        self._prune_at = len(self._passed) + _PRUNE_FROM

    @property
    def invalid_from(self) -> int | None:
        """The lowest position of a fork found so far, None without a fork. Later entries can still lower it."""
        return None if self.fork is None else self.fork.position


def audit(entries: Iterable[Entry]) -> tuple[list[tuple[Entry, bool]], ForkFinding | None]:
    """Audit a log that fits in memory: each entry with whether it is verified, and the lowest fork or None.

    The entries must be authentic and of one log; order and duplicates do not matter.
    """
    auditor = LogAuditor()
    ordered = sorted(set(entries), key=lambda entry: (entry.seq, entry.encoded))
    connected = [auditor.add(entry) for entry in ordered]
    limit = auditor.invalid_from
    verdicts = [
        (entry, path and (limit is None or entry.seq < limit)) for entry, path in zip(ordered, connected, strict=True)
    ]
    return verdicts, auditor.fork
