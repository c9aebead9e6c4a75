"""The planner's rows: the columns that pass between its steps, and what the workers do with them.

``check`` reads the inputs; rows that cannot be read become rejects. Then all rows of a *bucket* of logs come to one
task, sorted by log. They are passed over twice: ``count`` finds how many bytes each class has, and after
the driver has shared these out, ``split`` finds who fetches what. Both passes sweep the logs anew, so that none of
the first one has to be kept but its counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from culm.bamboo import MAX_U64, encode_varu64
from culm.errors import ConfigError, EncodingError
from culm.ranges import Range
from culm.ranges.runs import Runs
from culm.spark.columns import Columns
from culm.spark.plan.ranges import METADATA, PAYLOAD, Held, Sizes, exact_range, held_runs, pack, read_ranges, unpack
from culm.spark.plan.split import Arcs, Key, Lines, Splitter
from culm.spark.plan.sweep import Demand, Unserved, sweep
from culm.store.schema import to_sql
from culm.wire.places import parse_author

Row = tuple[Any, ...]

SIZES, HAVE, WANT = "sizes", "have", "want"  # the tables
_KINDS = (SIZES, HAVE, WANT)  # by their numbers in the column ``kind``
MOST_BYTES = 10**15  # Mean bytes of an item of a log. With 2^64 entries a log's bytes still fit into a DECIMAL(38,0).
AUTHOR_BYTES = 32

# Rows as they are given. Columns whose type can differ have two forms, and one of the two is null. Numbers come as
# text, because no type of Spark holds all of them.
GIVEN = Columns.in_sql(
    "given STRING, peer STRING, author BINARY, author_text STRING, log_id STRING, ranges BINARY, ranges_text STRING, "
    "metadata_bytes STRING, payload_bytes STRING"
)
# A checked row, or a reject, which has ``reason`` and the texts. ``ranges``: packed runs of what is held, or the
# encoded ranges that are wanted.
CHECKED = Columns.in_sql(
    "kind TINYINT, peer STRING, author BINARY, log BIGINT, ranges BINARY, metadata_bytes BIGINT, payload_bytes BIGINT, "
    "reason STRING, author_text STRING, log_text STRING, ranges_text STRING"
)
GROUPED = Columns.in_sql(
    "bucket BIGINT, author BINARY, log BIGINT, kind TINYINT, peer STRING, ranges BINARY, metadata_bytes BIGINT, "
    "payload_bytes BIGINT"
)
# A class and its bytes in a bucket. ``amount`` is text, because it may be larger than any number that Spark has.
COUNTED = Columns.in_sql("bucket BIGINT, digest BINARY, members STRING, is_whole BOOLEAN, amount STRING")
# A transfer, or something unserved: then ``source`` is null, and ``reason`` is not. ``unit``: bytes of an entry.
SPLIT = Columns.in_sql(
    "requester STRING, source STRING, author BINARY, log BIGINT, round TINYINT, range BINARY, entries BIGINT, "
    "unit BIGINT, reason STRING"
)

_SEPARATOR = "\n"  # between the members of a class; ``check`` refuses names of peers that have it


# -- reading --------------------------------------------------------------------------------------------------------


def check(rows: Iterable[Row]) -> Iterator[Row]:
    """``GIVEN`` to ``CHECKED``. Never raises: a row that cannot be read becomes a reject with the reason."""
    for row in rows:
        given, peer, author, author_text, log_text, ranges, ranges_text, _, _ = row
        try:
            yield *_checked(row), None, None, None, None
        except (ConfigError, EncodingError, ValueError) as error:
            whose = author_text if author is None else author.hex()
            what = ranges_text if ranges is None else ranges.hex()
            yield _KINDS.index(given), peer, *[None] * 5, str(error), whose, log_text, what


def _checked(row: Row) -> Row:
    """A row of ``CHECKED``, without what only rejects have."""
    given, peer, author, author_text, log_text, ranges, ranges_text, *sizes = row
    if author is None and author_text is None:
        raise ValueError("a row without an author")
    key = parse_author(author_text) if author is None else author
    if len(key) != AUTHOR_BYTES:
        raise ValueError(f"an author has {AUTHOR_BYTES} bytes, not {len(key)}")
    place = key, to_sql(read_number(log_text, "a log id", MAX_U64))
    if given == SIZES:
        return _KINDS.index(given), None, *place, None, *(read_number(size, "a size", MOST_BYTES) for size in sizes)
    if not peer or _SEPARATOR in peer:
        raise ValueError("a peer's name must be one line" if peer else "a row without a peer's name")
    if ranges is None and ranges_text is None:
        raise ValueError("a row without ranges")
    found = read_ranges(ranges_text if ranges is None else ranges)
    encoded = encode_varu64(len(found)) + b"".join(item.encode() for item in found)
    return _KINDS.index(given), peer, *place, pack(held_runs(found)) if given == HAVE else encoded, None, None


def read_number(text: str | None, name: str, most: int) -> int:
    """A number from 0 to ``most`` as text; a fraction is rounded up. ``ValueError``, naming ``name``, for others.

    Tables hold means of sizes, so fractions are common; rounding up keeps a size above 0 where it is.
    """
    whole, _, fraction = (text or "").partition(".")
    if not (whole.isascii() and whole.isdigit()) or (fraction and not (fraction.isascii() and fraction.isdigit())):
        raise ValueError(f"{text!r} is not {name}" if text is not None else f"a row without {name}")
    number = int(whole) + (int(fraction or "0") > 0)
    if number > most:
        raise ValueError(f"{text} is too large for {name}")
    return number


# -- log by log -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pass:
    """One of the two passes over the buckets, with the settings that are not in the rows.

    ``rounds``: 1 or 2 (``culm.spark.plan.split``). ``serving``: the peers that upload; None: all do. ``sizes``: bytes
    of an entry's metadata and of its payload, for logs without sizes. ``arcs``: for the second pass, the shares in each
    bucket; they are sent to the workers with the job.
    """

    rounds: int
    serving: Collection[str] | None
    sizes: tuple[int, int]
    arcs: Mapping[int, dict[bytes, Arcs]] = field(default_factory=dict)

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The first pass: ``GROUPED``, sorted by bucket and log, to ``COUNTED``."""
        splitter = Splitter(self.rounds, self._serves)
        for bucket, of_bucket in groupby(rows, key=itemgetter(0)):
            demands = ((demand, log.size(demand.content)) for log in self._logs(of_bucket) for demand in log.demands)
            for key, amount in splitter.count(demands):
                yield bucket, key.digest, _SEPARATOR.join(key.members), key.is_whole, str(amount)

    def split(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The second pass: ``GROUPED``, in the same order, to ``SPLIT``."""
        splitter = Splitter(self.rounds, self._serves)
        for bucket, of_bucket in groupby(rows, key=itemgetter(0)):
            lines = splitter.lines(self.arcs.get(bucket, {}))
            for log in self._logs(of_bucket):
                yield from log.transfer_rows(splitter, lines)
                for item in log.unserved:
                    yield item.peer, None, *log.place, None, *_range(*item[1:5]), None, item.reason

    def _logs(self, rows: Iterable[Row]) -> Iterator[_Log]:
        for place, of_log in groupby(rows, key=itemgetter(1, 2)):
            sizes = self.sizes
            held: defaultdict[str, list[Held]] = defaultdict(list)
            wanted: defaultdict[str, list[Range]] = defaultdict(list)
            for *_, kind, peer, ranges, metadata, payload in of_log:
                match _KINDS[kind]:
                    case "sizes":
                        sizes = metadata, payload
                    case "have":
                        held[peer] += unpack(ranges)
                    case _:
                        wanted[peer] += read_ranges(ranges)
            if wanted:
                yield _Log(place, sizes, *sweep(held, wanted, self._serves))

    def _serves(self, peer: str) -> bool:
        return self.serving is None or peer in self.serving


class _Log(NamedTuple):
    """One swept log. ``place``: author and log id; ``sizes``: bytes of an entry's metadata and of its payload."""

    place: tuple[bytes, int]
    sizes: tuple[int, int]
    demands: list[Demand]
    unserved: list[Unserved]

    def size(self, content: int) -> int:
        """Bytes of an entry if only ``content`` is moved: its metadata, its payload, or both."""
        metadata, payload = self.sizes
        return (metadata if content & METADATA else 0) + (payload if content & PAYLOAD else 0)

    def transfer_rows(self, splitter: Splitter, lines: Lines) -> Iterator[Row]:
        """The transfers. Neighbouring ones that differ in nothing else are put together into one row."""
        runs: defaultdict[tuple[Any, ...], Runs] = defaultdict(Runs)
        for demand in self.demands:
            for *way, first, last in splitter.transfers(demand, self.size(demand.content), lines):
                runs[*way, demand.content, demand.sizes].add(first, last)
        for requester, source, round_, content, sizes in sorted(runs):
            for first, last in runs[requester, source, round_, content, sizes]:
                piece = _range(first, last, content, sizes)
                yield requester, source, *self.place, round_, *piece, self.size(content), None


def _range(first: int, last: int, content: int, sizes: Sizes) -> tuple[bytes, int]:
    return exact_range(first, last, content, sizes).encode(), to_sql(last - first + 1)


def read_counted(rows: Iterable[Row]) -> list[tuple[int, Key, int]]:
    """``COUNTED`` rows as ``culm.spark.plan.split.arcs_by_bucket`` takes them, in its order."""
    return sorted(
        (bucket, Key(digest, tuple(members.split(_SEPARATOR)), is_whole), int(amount))
        for bucket, digest, members, is_whole, amount in rows
    )
