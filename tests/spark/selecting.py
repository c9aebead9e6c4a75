"""Selecting: its steps in this process and without Spark, random ranges, and what the store says they denote."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from culm.bamboo import path, spine
from culm.ranges import Range
from culm.spark.batches import pack
from culm.spark.plan.given import REQUESTS, Given
from culm.spark.select import items as select_items
from culm.spark.select import job as select_job
from culm.spark.select import pieces as select_pieces
from culm.spark.select.items import Item, chosen
from culm.spark.select.job import Selecting
from culm.spark.select.pieces import Gap, Missing, merged
from culm.store import SQLiteStore, State
from tests.spark import local

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from culm.bamboo import Entry
    from culm.spark.reading.found import EntryRow

Request = tuple[str, bytes, int, Range]
Wanted = dict[tuple[str, bytes, int, int], tuple[bool, bool, bool]]
"""By requester, author, log and number: metadata, payload, certificate."""

MODULES = (pack, select_items, select_pieces, select_job)
"""Those that hold the size of a block."""

Numbers = dict[tuple[str, bytes, int], set[int]]


# -- what is asked --------------------------------------------------------------------------------------------------


def random_range(draw: random.Random, newest: int) -> Range:
    """Any range near a log of so many entries, with every kind of restriction."""
    start = draw.randint(1, newest + 2)
    end = draw.choice([None, start, draw.randint(start, newest + 5)])
    metadata, payloads = draw.choice([(True, True), (True, True), (True, False), (False, True)])
    least, limit = draw.choice([(0, 0), (0, 0), (2, 0), (0, 2), (2, 8), (1, 3)])
    forbidden = tuple(draw.randint(1, newest + 3) for _ in range(draw.choice([0, 0, 0, 1, 5])))
    head = draw.choice(path(start, 1)) if draw.random() < 0.3 else 0
    tail = draw.choice(path(spine(end), end)) if end is not None and draw.random() < 0.3 else 0
    return Range(start, end, draw.random() < 0.4, metadata, payloads, least, limit, forbidden, head, tail)


def given(requests: Iterable[Request]) -> list[Given]:
    """Requests as they are given."""
    return [
        request(requester, author, log=str(log_id), one=item.encode()) for requester, author, log_id, item in requests
    ]


def request(
    requester: str | None,
    author: bytes | str,
    text: str | None = None,
    *,
    log: str | None = "0",
    one: bytes | None = None,
    several: bytes | None = None,
) -> Given:
    """A row of a table of requests: an author as bytes or text, ranges as text, bytes of one range, or of a set."""
    name = author.hex() if isinstance(author, bytes) else author
    return Given(REQUESTS, requester, name, log, one, several, text, None, None)


# -- what they denote, says the store ---------------------------------------------------------------------------


def expected(store: SQLiteStore, requests: Iterable[Request]) -> tuple[Wanted, Numbers, Numbers]:
    """Who gets what; what is not held; what closed ranges name beyond the newest entry."""
    wanted: dict[tuple[str, bytes, int, int], list[bool]] = {}
    missing: Numbers = defaultdict(set)
    beyond: Numbers = defaultdict(set)
    for requester, author, log_id, item in requests:
        verified = {found.entry.seq: found.entry for found in store.entries((author, log_id), states=[State.VERIFIED])}
        newest = max(verified, default=0)

        def size(seq: int, verified: dict[int, Entry] = verified, item: Range = item) -> int:
            return verified[seq].size if seq in verified else item.least_size

        items = {found.seq: found for found in item.items(newest, size)}
        for found in item.wanted(newest, size):
            if found.seq not in verified:
                missing[requester, author, log_id].add(found.seq)
                continue
            row = wanted.setdefault((requester, author, log_id, found.seq), [False, False, False])
            row[0] |= found.seq in items and found.metadata
            row[1] |= found.payload
            row[2] |= found.seq not in items
        if item.end is not None and item.end > newest:
            beyond[requester, author, log_id].update(seq for seq in item.numbers(item.end) if seq > newest)
    flags = {key: (item or certificate, payload, certificate and not item)
             for key, (item, payload, certificate) in wanted.items()}  # fmt: skip
    return flags, _some(missing), _some(beyond)


def _some(found: Numbers) -> Numbers:
    return {key: numbers for key, numbers in found.items() if numbers}


def numbers_of(runs: Iterable[tuple[str, bytes, int, int, int]]) -> Numbers:
    """Runs as sets of numbers; no two runs of a log may touch."""
    found: Numbers = defaultdict(set)
    for requester, author, log_id, first, last in runs:
        numbers = found[requester, author, log_id]
        assert not numbers & set(range(first - 1, last + 2))
        numbers.update(range(first, last + 1))
    return dict(found)


def wanted_of(items: list[dict[str, Any]]) -> Wanted:
    """Rows of items as ``expected`` tells them; no entry may be there twice for a requester."""
    found = {
        (row["requester"], row["author"], int(row["log_id"]), int(row["seqnum"])): (
            row["metadata"],
            row["payload"],
            row["certificate"],
        )
        for row in items
    }
    assert len(found) == len(items)
    return found


# -- the steps ------------------------------------------------------------------------------------------------------


class Selected:
    """What the steps make of entries and requests, in this process."""

    def __init__(self, found: Sequence[EntryRow], requests: Iterable[Given]) -> None:
        self._selecting = Selecting(local.verified(found, keep=True), local.table_of(Given, requests), {})
        self.rejects = list(local.rows_of(self._selecting.refused))
        items = self._selecting.together().map(chosen, Item, columnar=True)
        self.items = [row._asdict() for row in local.rows_of(items)]
        gaps = self._selecting.together().map(chosen, Gap, columnar=True)
        self.gaps = list(local.rows_of(self._selecting.missing(gaps).map(merged, Missing)))

    def wanted(self) -> Wanted:
        """The items as the store would tell them."""
        return wanted_of(self.items)

    def missing(self, reason: str) -> Numbers:
        """The numbers in the gaps of that reason."""
        return numbers_of(
            (row.requester, row.author, row.log_id, row.first, row.last) for row in self.gaps if row.reason == reason
        )
