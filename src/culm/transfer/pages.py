"""Entries of a log as they are read from the store for sending: a page at a time.

A response goes along a log, and to ask the store for each entry alone would cost more than everything else. So a whole
page is read when its first entry is needed, and forgotten when the log changes, because payloads may have come or gone.
"""

from culm.transfer.source import Kept, Source
from culm.types import Log

PAGE_ENTRIES = 128  # Many enough that reading them costs little for each, few enough that hundreds of readers may wait.


def kept_at(source: Source, log: Log, seq: int) -> Kept | None:
    """The entry of a number as the store has it now; None if it has none."""
    found = source.page(log, seq, ascending=True, limit=1)
    return found[0] if found and found[0].entry.seq == seq else None


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
