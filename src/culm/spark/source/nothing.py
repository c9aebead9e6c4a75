"""A source without entries. A stream only follows a peer, so it has nothing to show when the peer asks.

The connection of ``culm.intervals`` needs a source to answer from. This one answers every question with nothing.
"""

from __future__ import annotations

from typing import ClassVar

from culm.bamboo import Entry, ForkProof
from culm.transfer import Kept
from culm.types import Log, Run


class NoLog:
    """A log without any entry that is held."""

    is_forked = False
    disputed: ClassVar[list[Run]] = []

    def entries_around(self, seq: int) -> Run | None:
        """None: no entry of the log is held."""
        return None

    payloads_around = entries_around

    def payload_extent(self) -> Run | None:
        """None: no payload of the log is held."""
        return None


class Nothing:
    """A ``culm.transfer.Source`` without entries."""

    def held(self, log: Log) -> NoLog:
        """The same for every log."""
        return NoLog()

    def page(self, log: Log, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """No entries."""
        return []

    def payload(self, kept: Kept, offset: int, size: int) -> bytes:
        """No bytes; never called, since ``page`` gives no entries."""
        return b""

    def misfit(
        self,
        log: Log,
        low: int,
        high: int,
        least: int | None,
        greatest: int | None,
        *,
        ascending: bool,
    ) -> int | None:
        """None: no payload is of a wrong size."""
        return None

    def proofs(self, log: Log) -> list[ForkProof]:
        """No fork proofs."""
        return []

    def variants(self, log: Log, seq: int) -> list[Kept]:
        """No entries of that number."""
        return []

    def end_of_log(self, log: Log) -> Entry | None:
        """None: no log is known to have ended."""
        return None

    def expects(self, log: Log, seq: int) -> bool:
        """False: no payload is on its way from another peer."""
        return False
