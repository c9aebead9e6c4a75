"""Holding nothing: who only follows a peer has nothing to show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm.bamboo import Entry, ForkProof
    from culm.transfer import Kept, Run
    from culm.types import Log


class NoLog:
    """Nothing of a log."""

    is_forked = False

    def entries_around(self, seq: int) -> Run | None:
        """None."""
        return None

    payloads_around = entries_around

    def payload_extent(self) -> Run | None:
        """None."""
        return None


class Nothing:
    """A ``culm.transfer.Source`` without entries."""

    def held(self, log: Log) -> NoLog:
        """Nothing."""
        return NoLog()

    def page(self, log: Log, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """Nothing."""
        return []

    def payload(self, kept: Kept, offset: int, size: int) -> bytes:
        """Nothing."""
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
        """Nothing."""
        return None

    def proofs(self, log: Log) -> list[ForkProof]:
        """Nothing."""
        return []

    def variants(self, log: Log, seq: int) -> list[Entry]:
        """Nothing."""
        return []

    def end_of_log(self, log: Log) -> Entry | None:
        """Nothing."""
        return None

    def expects(self, log: Log, seq: int) -> bool:
        """Nothing."""
        return False
