"""Reading a store in pages."""

from __future__ import annotations

from culm.testing import build_log
from culm.transfer import Kept, Pages, entry_at
from tests.memory import MemoryStore

LOG = build_log(9, payload_size=3)
NAME = LOG.entries[0].log


class Counting(MemoryStore):
    """A store that notes which pages were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[int] = []
        for entry, payload in LOG.items():
            self.put(entry, bytes(payload or b""))

    def page(self, log: tuple[bytes, int], seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """A page, noted."""
        self.pages.append(seq)
        return super().page(log, seq, ascending=ascending, limit=limit)


def test_a_page_is_read_once() -> None:
    """The store is asked for the first entry of a page, and answers for those behind it."""
    store, pages = Counting(), Pages(NAME)
    for seq in (2, 3, 4, 5, 6):
        kept = pages.read(store, seq, limit=3)
        assert kept is not None
        assert kept.entry == LOG.entries[seq - 1]
    assert store.pages == [2, 5]
    assert pages.get(6) is not None
    assert pages.get(2) is None


def test_what_was_sent_or_has_changed_is_read_again() -> None:
    """An entry that was dropped, a page that was cleared and one read anew come from the store."""
    store, pages = Counting(), Pages(NAME)
    pages.read(store, 1)
    pages.drop(2)
    pages.read(store, 2)
    pages.clear()
    pages.read(store, 3)
    pages.read_anew(store, 3, limit=1)
    assert store.pages == [1, 2, 3, 3]
    assert pages.get(4) is None


def test_entries_that_are_not_there() -> None:
    """Neither a page nor a single look takes another entry for the one that was asked for."""
    store, pages = Counting(), Pages(NAME)
    assert pages.read(store, 10) is None
    assert entry_at(store, NAME, 10) is None
    assert entry_at(store, NAME, 9) == LOG.entries[8]
