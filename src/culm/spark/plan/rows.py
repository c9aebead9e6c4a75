"""The planner's rows: the columns that pass between its steps, and what the workers do with them.

``check`` reads the inputs; rows that cannot be read become rejects. Then all rows of a *bucket* of logs come to one
task, sorted by log. They are passed over twice: ``count`` finds how many bytes each class has, and after
the driver has shared these out, ``split`` finds who fetches what. Both passes sweep the logs anew, so that none of
the first one has to be kept but its counts.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from hashlib import blake2b
from itertools import groupby
from math import ceil
from operator import attrgetter
from typing import NamedTuple

from culm.bamboo import encode_varu64
from culm.ranges import Range
from culm.ranges.runs import Runs
from culm.spark.plan.given import HAVE, SIZES, Given, checked, needed, read_ranges
from culm.spark.plan.split import Arcs, Key, Line, Splitter
from culm.spark.plan.sweep import ANY_SIZE, METADATA, PAYLOAD, Need, Sizes, held_runs, sweep
from culm.spark.runtime.columns import Short, Sum, Unsigned
from culm.store.schema import from_sql, to_sql
from culm.types import Log

_SEPARATOR = "\n"  # between the members of a class; ``check`` refuses names of peers that have it
MOST_BYTES = 10**15  # Mean bytes of an item of a log. With 2^64 entries a log's bytes still fit into a DECIMAL(38,0).


_Binary = bytes  # A table with a column ``bytes`` cannot call the type by this name.


class Transfer(NamedTuple):
    """Who fetches what from whom. ``round`` is 1, or 2: once round 1 is over. ``range`` encodes just these items."""

    requester: str
    source: str
    author: _Binary
    log_id: Unsigned
    round: Short
    range: _Binary
    entries: Unsigned
    bytes: Sum


class Unserved(NamedTuple):
    """What is wanted and nobody can give, and why."""

    requester: str
    author: bytes
    log_id: Unsigned
    range: bytes
    entries: Unsigned
    reason: str


class Refused(NamedTuple):
    """A row of the table ``given`` that could not be read, as text, and why."""

    given: str
    peer: str | None
    author: str | None
    log_id: str | None
    ranges: str | None
    reason: str


class Checked(NamedTuple):
    """A row that could be read, of the table ``given``. ``ranges``: an encoded set of ranges."""

    bucket: int
    author: bytes
    log: int
    given: str
    peer: str | None
    ranges: bytes | None
    metadata_bytes: int | None
    payload_bytes: int | None


class Counted(NamedTuple):
    """A class and its bytes in a bucket. ``amount`` is text: it may be larger than any number that Spark has."""

    bucket: int
    digest: bytes
    members: str
    is_whole: bool
    amount: str

    def read(self) -> tuple[int, Key, int]:
        """The same as ``culm.spark.plan.split.arcs_by_bucket`` takes it."""
        return self.bucket, Key(self.digest, tuple(self.members.split(_SEPARATOR)), self.is_whole), int(self.amount)


# -- reading --------------------------------------------------------------------------------------------------------


def check(rows: Iterable[Given], buckets: int) -> Iterator[Checked | Refused]:
    """Rows as they are read."""
    return checked(rows, partial(_checked, buckets=buckets), Refused)


def _checked(row: Given, buckets: int) -> list[Checked]:
    author, log_id = row.log()
    digest = blake2b(author + log_id.to_bytes(8), digest_size=8).digest()
    place = int.from_bytes(digest) % buckets, author, to_sql(log_id), row.given
    if row.given == SIZES:
        sizes = (read_number(size, "a size", MOST_BYTES) for size in (row.metadata_bytes, row.payload_bytes))
        return [Checked(*place, None, None, *sizes)]
    if not row.peer or _SEPARATOR in row.peer:
        raise ValueError("a peer's name must be one line" if row.peer else "a row without a peer's name")
    found = row.read_ranges()
    if row.given == HAVE:
        held_runs(found)
    encoded = encode_varu64(len(found)) + b"".join(item.encode() for item in found)
    return [Checked(*place, row.peer, encoded, None, None)]


def read_number(text: str | None, name: str, most: int) -> int:
    """A number from 0 to ``most`` as text; a fraction is rounded up. ``ValueError``, naming ``name``, for others.

    Tables hold means of sizes, so fractions are common; rounding up keeps a size above 0 where it is.
    """
    text = needed(text, name)
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
        raise ValueError(f"{text!r} is not {name}")
    number = Decimal(text)
    if number > most:
        raise ValueError(f"{text} is too large for {name}")
    return ceil(number)


def exact_range(first: int, last: int, content: int, sizes: Sizes = ANY_SIZE) -> Range:
    """A closed range that denotes exactly these items and no certificates.

    ``head`` and ``tail`` of the range are set to its ends, which leaves no room for certificates: their numbers are
    wanted, too, but stand in ranges of their own.
    """
    metadata, payloads = bool(content & METADATA), bool(content & PAYLOAD)
    limits = *(sizes if payloads else ANY_SIZE), (), *((first, last) if metadata else (0, 0))
    return Range.trusted(first, last, first == last, metadata, payloads, *limits)


# -- log by log -----------------------------------------------------------------------------------------------------


def count(rows: Iterable[Checked], splitter: Splitter) -> Iterator[Counted]:
    """The first pass, over rows sorted by bucket and log."""
    for bucket, of_bucket in groupby(rows, key=attrgetter("bucket")):
        served = (need for _, needs in _logs(of_bucket, splitter) for need in needs if not need.reason)
        for key, amount in splitter.classes(served):
            yield Counted(bucket, key.digest, _SEPARATOR.join(key.members), key.is_whole, str(amount))


def split(
    rows: Iterable[Checked], splitter: Splitter, arcs: Mapping[int, dict[bytes, Arcs]]
) -> Iterator[Transfer | Unserved]:
    """The second pass, over rows in the same order. ``arcs``: the shares in each bucket, sent along with the job."""
    for bucket, of_bucket in groupby(rows, key=attrgetter("bucket")):
        lines = {digest: Line(of_class) for digest, of_class in arcs.get(bucket, {}).items()}
        for log, needs in _logs(of_bucket, splitter):
            yield from _served(log, needs, splitter, lines)


def _logs(rows: Iterable[Checked], splitter: Splitter) -> Iterator[tuple[Log, list[Need]]]:
    for (author, log), of_log in groupby(rows, key=attrgetter("author", "log")):
        sizes = splitter.sizes
        held, wanted = defaultdict[str, list[Range]](list), defaultdict[str, list[Range]](list)
        for row in of_log:
            if row.peer is None or row.ranges is None:
                sizes = row.metadata_bytes or 0, row.payload_bytes or 0
            else:
                (held if row.given == HAVE else wanted)[row.peer] += read_ranges(row.ranges)
        if wanted:
            yield (author, from_sql(log)), sweep(held, wanted, splitter.serves, sizes)


def _served(
    log: Log, needs: list[Need], splitter: Splitter, lines: Mapping[bytes, Line]
) -> Iterator[Transfer | Unserved]:
    """The rows of a log. Neighbouring transfers that differ in nothing else are put together into one row."""
    runs: defaultdict[tuple[str, str, int, int, Sizes, int], Runs] = defaultdict(Runs)
    for need in needs:
        if need.reason:
            piece = exact_range(need.first, need.last, need.content, need.sizes).encode()
            yield from (Unserved(peer, *log, piece, need.entries, need.reason) for peer in need.wanters)
            continue
        for requester, source, round_, first, last in splitter.transfers(need, lines):
            runs[requester, source, round_, need.content, need.sizes, need.size].add(first, last)
    for (requester, source, round_, content, sizes, size), of_way in sorted(runs.items()):
        for first, last in of_way:
            piece, entries = exact_range(first, last, content, sizes).encode(), last - first + 1
            yield Transfer(requester, source, *log, round_, piece, entries, entries * size)
