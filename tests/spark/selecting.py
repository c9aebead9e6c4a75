"""Selecting: its steps in this process and without Spark, random ranges, and what the store says they denote."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from culm.bamboo import path, spine
from culm.ranges import Range
from culm.spark import pack
from culm.spark.select import gaps as select_gaps
from culm.spark.select import held as select_held
from culm.spark.select import items as select_items
from culm.spark.select import pages as select_pages
from culm.spark.select import pieces as select_pieces
from culm.spark.select import places as select_places
from culm.spark.select import requests as select_requests
from culm.spark.steps import SEGMENTS, mapped
from culm.store import SQLiteStore, State
from culm.store.schema import from_sql
from tests.spark import local

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from culm.bamboo import Entry
    from culm.spark.columns import Columns

Row = tuple[Any, ...]
Request = tuple[str, bytes, int, Range]
Wanted = dict[tuple[str, bytes, int, int], tuple[bool, bool, bool]]
"""By requester, author, log and number: metadata, payload, certificate."""

MODULES = (pack, select_gaps, select_held, select_items, select_pieces, select_places)
"""Those that hold the size of a block."""

PAGED = (select_pages, select_pieces, select_places)
"""Those that hold the size of a page."""

Missing = dict[tuple[str, bytes, int], set[int]]


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


def given(requests: Iterable[Request]) -> list[Row]:
    """Requests as rows of ``GIVEN``."""
    return [
        (requester, author, None, str(log_id), item.encode(), None, None)
        for requester, author, log_id, item in requests
    ]


# -- what they denote, says the store ---------------------------------------------------------------------------


def expected(store: SQLiteStore, requests: Iterable[Request]) -> tuple[Wanted, Missing, Missing]:
    """Who gets what; what is not held; what closed ranges name beyond the newest entry."""
    wanted: dict[tuple[str, bytes, int, int], list[bool]] = {}
    missing: Missing = defaultdict(set)
    beyond: Missing = defaultdict(set)
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


def _some(found: Missing) -> Missing:
    return {key: numbers for key, numbers in found.items() if numbers}


def numbers_of(runs: Iterable[tuple[str, bytes, int, int, int]]) -> Missing:
    """Runs as sets of numbers; no two runs of a log may touch."""
    found: Missing = defaultdict(set)
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
    """What the steps make of entries and requests, the joins between them written out."""

    def __init__(self, found: Iterable[Row], requests: Iterable[Row], shares: int = 1) -> None:
        segments = local.segments(local.packed(found), keep=True)
        outcome = {row[:3]: row[3] for row in local.outcomes(segments)}
        self._segments = [dict(zip(SEGMENTS.names, row, strict=True)) for row in segments]
        for row in self._segments:
            row["outcome"] = outcome[row["author"], row["log"], row["low"]]
        self._shares = shares
        asked = _step(given_rows(requests), select_requests.GIVEN, select_requests.check, select_requests.ASKED)
        self.rejects = [row for row in asked if row["reason"] is not None]
        blocks = _step(self._segments, select_held.SEGMENT, select_held.present, select_held.BLOCKS)
        self._blocks = {(row["author"], row["log"], row["block"]): row for row in blocks}
        self._pages = self._paged()
        pieces = self._pieces([row for row in asked if row["reason"] is None])
        self.items = self._items([row for row in pieces if row["form"] == select_places.PIECE])
        self.gaps = self._missing(pieces)

    def _paged(self) -> dict[Row, list[dict[str, Any]]]:
        rows = [{**row, "page": row["block"] >> select_pages.PAGE_BITS} for row in self._blocks.values()]
        rows.sort(key=lambda row: (row["author"], row["log"], row["block"]))
        pages: dict[Row, list[dict[str, Any]]] = defaultdict(list)
        for row in _step(rows, select_pages.UNPAGED, select_pages.paged, select_pages.PAGES):
            of_log = pages[row["author"], row["log"]]
            if of_log:
                of_log[-1]["next"] = row["page"]
            of_log.append({**row, "next": None})
        return pages

    def _pieces(self, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = []
        for row in asked:
            pages = self._pages.get((row["author"], row["log"]))
            there = (pages[-1]["newest"], pages[0]["blocks"]) if pages else (None, None)
            rows.append({**row, "newest": there[0], "blocks": there[1]})
        pieces = _batches(rows, select_pieces.REQUESTS, select_pieces.cut)
        far = []
        bits = pack.BLOCK_BITS + select_pages.PAGE_BITS
        for row in pieces:
            pages = self._pages.get((row["author"], row["log"]), [])
            if row["form"] == select_places.FAR and row["block"] is not None:
                found = {page["page"]: page["blocks"] for page in pages}.get(row["block"])
                far.append({**row, "page": row["block"], "next": None, "blocks": found})
            elif row["form"] == select_places.FAR:
                low, high = from_sql(row["first"]) >> bits, from_sql(row["last"]) >> bits
                far += [
                    {**row, **page}
                    for page in pages
                    if page["page"] <= high and (page["next"] or page["page"] + 1) > low
                ]
        return pieces + _batches(far, select_pieces.FAR_SPANS, select_pieces.spread)

    def _items(self, pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
        wanted = {(row["author"], row["log"], row["block"]) for row in pieces}
        segments = [
            {**row, "shares": self._shares}
            for row in self._segments
            if (row["author"], row["log"], row["block"]) in wanted
        ]
        held = _step(segments, select_held.HELD, select_held.held, select_items.TOGETHER)
        together = [*held, *({**row, "share": hash(row["requester"]) % self._shares} for row in pieces)]
        order = ("author", "log", "block", "share")
        together.sort(key=lambda row: (*(row[name] for name in order), row["requester"] is not None, row["requester"]))
        return _batches(together, select_items.TOGETHER, select_items.chosen())

    def _missing(self, pieces: list[dict[str, Any]]) -> list[tuple[str, bytes, int, int, int, int]]:
        wanting = []
        for row in pieces:
            if row["form"] == select_places.PIECE:
                there = self._blocks.get((row["author"], row["log"], row["block"]), {"newest": None, "bits": None})
                wanting.append({**row, "newest": there["newest"], "bits": there["bits"]})
        gaps = _step(wanting, select_gaps.WANTING, select_gaps.lacking, select_gaps.GAPS)
        gaps += [{**row, "reason": row["wants"]} for row in pieces if row["form"] == select_places.GAP]
        gaps.sort(key=lambda row: tuple(row[name] for name in select_gaps.GAPS.names))
        merged = _step(gaps, select_gaps.GAPS, select_gaps.merged, select_gaps.GAPS)
        return [
            (row["requester"], row["author"], from_sql(row["log"]), row["reason"], from_sql(row["first"]),
             from_sql(row["last"]))
            for row in merged
        ]  # fmt: skip

    def wanted(self) -> Wanted:
        """The items as the store would tell them."""
        return wanted_of(self.items)

    def missing(self, reason: int) -> Missing:
        """The numbers in the gaps of that reason."""
        return numbers_of((*row[:3], *row[4:]) for row in self.gaps if row[3] == reason)


def given_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of ``GIVEN`` by name."""
    return [dict(zip(select_requests.GIVEN.names, row, strict=True)) for row in rows]


def _step(rows: list[dict[str, Any]], given: Columns, step: Any, result: Columns) -> list[dict[str, Any]]:
    return _batches(rows, given, mapped(given, step, result))


def _batches(rows: list[dict[str, Any]], given: Columns, step: Any) -> list[dict[str, Any]]:
    batches = given.batches(tuple(row[name] for name in given.names) for row in rows)
    return [row for batch in step(batches) for row in batch.to_pylist()]
