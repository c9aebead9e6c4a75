"""What the transfer protocols ask of the store behind them.

A protocol does no I/O, but it answers requests for entries, and those lie in a store. So it is handed a ``Source``: the
few questions that its answers depend on. The store's answers may differ from peer to peer, because a node does not
show every log to everybody. The answers for a log that must not be shown are those for a log without entries.

A response goes along a log, and to ask the store for each entry alone would cost more than everything else. So entries
for sending are read in ``Pages``: a whole page when its first entry is needed. It is forgotten when the log changes,
because payloads may have come or gone.
"""

from typing import NamedTuple, Protocol

from culm.bamboo import Entry, ForkProof
from culm.types import Buffer, Log, Run

PAGE_ENTRIES = 128  # Many enough that reading them costs little for each, few enough that hundreds of readers may wait.


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


class Held(Protocol):
    """What is held of a log: verified entries, and those of them whose payload is complete."""

    def entries_around(self, seq: int) -> Run | None:
        """The run of neighbouring entries around this number; None if its entry is not held."""

    def payloads_around(self, seq: int) -> Run | None:
        """The same for payloads."""

    def payload_extent(self) -> Run | None:
        """The least and the greatest number whose payload is held; None if there is none."""


class HeldLog(Held, Protocol):
    """What is held of one log, and whether it is known to be forked."""

    @property
    def is_forked(self) -> bool:
        """Whether there is a fork proof."""

    @property
    def disputed(self) -> list[Run]:
        """The numbers at or above a fork whose payload is complete, of any branch, as runs: at least the newest."""

    def end(self) -> Entry | None:
        """The verified entry that ends the log, if there is one."""


class Source(Protocol):
    """The entries that may be shown to one peer. Each call may read from a disk."""

    def held(self, log: Log) -> HeldLog:
        """What is held of a log at this moment."""

    def page(self, log: Log, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """The first ``limit`` verified entries from ``seq`` on, in either direction."""

    def payload(self, kept: Kept, offset: int, size: int) -> Buffer:
        """Some bytes of a payload from ``offset`` on, at most ``size``; ``b""`` only if the store has none there."""

    def misfit(
        self, log: Log, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool
    ) -> int | None:
        """The first entry from ``low`` to ``high`` (or back) whose payload's size is out of bounds; None if none is."""

    def proofs(self, log: Log) -> list[ForkProof]:
        """The fork proofs of a log."""

    def variants(self, log: Log, seq: int) -> list[Kept]:
        """All entries of a number with a good signature that are held, verified or not: of a forked log, several."""

    def expects(self, log: Log, seq: int) -> bool:
        """Whether the payload of an entry is being fetched from another peer just now, so it will be there soon."""


def entry_at(source: Source, log: Log, seq: int) -> Entry | None:
    """The verified entry of a number as the store has it now; None if it has none."""
    found = source.page(log, seq, ascending=True, limit=1)
    return found[0].entry if found and found[0].entry.seq == seq else None


class Pages:
    """The page of a log that was read last."""

    __slots__ = ("_log", "_page")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._page: dict[int, Kept] = {}

    def get(self, seq: int) -> Kept | None:
        """An entry of the page, without asking the store."""
        return self._page.get(seq)

    def read(self, source: Source, seq: int, *, ascending: bool = True, limit: int = PAGE_ENTRIES) -> Kept | None:
        """An entry: of the page, or read with those that follow it. None if the store has it not."""
        kept = self._page.get(seq)
        return kept if kept is not None else self.read_anew(source, seq, ascending=ascending, limit=limit)

    def read_anew(self, source: Source, seq: int, *, ascending: bool = True, limit: int = PAGE_ENTRIES) -> Kept | None:
        """An entry as the store has it at this moment; the page from before is forgotten."""
        page = source.page(self._log, seq, ascending=ascending, limit=limit)
        self._page = {kept.entry.seq: kept for kept in page}
        return self._page.get(seq)

    def drop(self, seq: int) -> None:
        """An entry was sent and is not needed any more."""
        self._page.pop(seq, None)

    def clear(self) -> None:
        """The log has changed, or there is nothing to send for a while."""
        self._page.clear()
