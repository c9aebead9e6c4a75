"""Auditing one log in ascending order, in one pass and little memory.

A whole log is fed entry by entry; the auditor says of each whether a path of verified entries leads from it to entry 1,
and finds the lowest position at which authentic entries contradict each other. The two together are the verdict:
everything at or after that position is invalid, what comes before is verified if it has a path, else unverified.

Links never cross (see ``culm.bamboo.lipmaa``), so few of the entries passed can still be linked to by later ones. Only
those are remembered: O(log n) of them for a log held in full.

The store reaches the same verdicts incrementally. The two are written apart and tested against each other.

Specification: docs/specs/bamboo.md, "Verification", "Forks", "End of log".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm.bamboo.lipmaa import links_across, lipmaa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.bamboo.entry import Entry

_PRUNE_FROM = 256  # numbers passed before it is worth finding out which of them are still of use


@dataclass(slots=True)
class _Passed:
    """What is known of a number that was passed: the hash expected or found there."""

    hash: bytes
    held: bool
    connected: bool
    by: int  # the sequence number of the entry that this hash was learnt from


@dataclass(frozen=True, slots=True)
class ForkFinding:
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
            msg = f"entries must come in ascending order, but {seq} follows {self._last}"
            raise ValueError(msg)
        if seq == self._last:
            self._found(seq, seq, seq)
        elif len(self._passed) > self._prune_at:
            self._prune(self._last)  # not before the last entry of a number: the links of each are compared
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
        """The lowest position of a fork found so far; final once all entries are fed."""
        return None if self.fork is None else self.fork.position


def audit(entries: Iterable[Entry]) -> tuple[list[tuple[Entry, bool]], ForkFinding | None]:
    """Audit a log that fits in memory: each entry with whether it is verified, and the lowest fork if there is one."""
    auditor = LogAuditor()
    ordered = sorted(set(entries), key=lambda entry: (entry.seq, entry.encoded))
    connected = [auditor.add(entry) for entry in ordered]
    limit = auditor.invalid_from
    verdicts = [
        (entry, path and (limit is None or entry.seq < limit)) for entry, path in zip(ordered, connected, strict=True)
    ]
    return verdicts, auditor.fork
