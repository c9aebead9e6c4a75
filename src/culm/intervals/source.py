"""What a connection asks of the store behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from culm.intervals.planner import Held

if TYPE_CHECKING:
    from culm.bamboo import Entry, ForkProof

Log = tuple[bytes, int]


class Kept(NamedTuple):
    """A verified entry as the store has it.

    ``payload_held`` counts the payload's bytes there are, from its start; ``complete`` says that these are all of it.
    ``small`` is the whole payload, if it is complete and short. ``handle`` is the store's own name for the entry.
    """

    entry: Entry
    payload_held: int
    complete: bool
    small: bytes | None
    handle: int


class HeldLog(Held, Protocol):
    """What is held of one log, and whether it is known to be forked."""

    @property
    def is_forked(self) -> bool:
        """Whether there is a fork proof."""


class Source(Protocol):
    """The entries that may be shown to a peer. A log that may not is one of which nothing is held."""

    def held(self, log: Log) -> HeldLog:
        """What is held of a log at this moment."""

    def page(self, log: Log, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """The first ``limit`` verified entries from ``seq`` on, in either direction."""

    def payload(self, kept: Kept, offset: int, size: int) -> bytes:
        """Some bytes of a payload from ``offset`` on: at most ``size``, and none only if there are none."""

    def misfit(
        self, log: Log, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool
    ) -> int | None:
        """The first entry from ``low`` to ``high`` (or back) whose payload's size is out of bounds; None if none is."""

    def proofs(self, log: Log) -> list[ForkProof]:
        """The fork proofs of a log."""

    def variants(self, log: Log, seq: int) -> list[Entry]:
        """All authentic entries of a number that are held, whatever is thought of them."""

    def end_of_log(self, log: Log) -> Entry | None:
        """The verified entry that ends a log, if there is one."""
