"""The planner's rows: the columns that pass between its steps, and what the workers do with them.

``check`` reads the inputs; rows that cannot be read become rejects. Then all rows of a *bucket* of logs come to one
task, sorted by log. They are passed over twice: ``count`` finds how many bytes each class has, and after
the driver has shared these out, ``split`` finds who fetches what. Both passes sweep the logs anew, so that none of
the first one has to be kept but its counts.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from culm.bamboo import MAX_U64, encode_varu64
from culm.errors import ConfigError, EncodingError
from culm.spark.columns import Columns
from culm.spark.plan.ranges import METADATA, PAYLOAD, exact_range, held_runs, pack, read_ranges, unpack
from culm.spark.plan.split import Key, Splitter
from culm.spark.plan.sweep import sweep
from culm.store.schema import to_sql
from culm.wire.places import parse_author

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from culm.ranges import Range
    from culm.spark.plan.ranges import Held, Sizes
    from culm.spark.plan.split import Arcs, Lines
    from culm.spark.plan.sweep import Demand, Unserved

    Row = tuple[Any, ...]

SIZES, HAVE, WANT = "sizes", "have", "want"  # the tables
_KINDS = (SIZES, HAVE, WANT)  # by their numbers in the column ``kind``
MOST_BYTES = 10**15  # Mean bytes of an item of a log. With 2^64 entries a log's bytes still fit into a DECIMAL(38,0).
AUTHOR_BYTES = 32

# Rows as they are given. Columns whose type can differ have two forms, and one of the two is null. Numbers come as
# text, because no type of Spark holds all of them.
GIVEN = Columns(
    given="STRING",
    peer="STRING",
    author="BINARY",
    author_text="STRING",
    log_id="STRING",
    ranges="BINARY",
    ranges_text="STRING",
    metadata_bytes="STRING",
    payload_bytes="STRING",
)
# A checked row, or a reject, which has ``reason`` and the texts. ``ranges``: packed runs of what is held, or the
# encoded ranges that are wanted.
CHECKED = Columns(
    kind="TINYINT",
    peer="STRING",
    author="BINARY",
    log="BIGINT",
    ranges="BINARY",
    metadata_bytes="BIGINT",
    payload_bytes="BIGINT",
    reason="STRING",
    author_text="STRING",
    log_text="STRING",
    ranges_text="STRING",
)
GROUPED = Columns(
    bucket="BIGINT",
    author="BINARY",
    log="BIGINT",
    kind="TINYINT",
    peer="STRING",
    ranges="BINARY",
    metadata_bytes="BIGINT",
    payload_bytes="BIGINT",
)
# A class and its bytes in a bucket. ``amount`` is text, because it may be larger than any number that Spark has.
COUNTED = Columns(bucket="BIGINT", digest="BINARY", members="STRING", is_whole="BOOLEAN", amount="STRING")
# A transfer, or something unserved: then ``source`` is null, and ``reason`` is not. ``unit``: bytes of an entry.
SPLIT = Columns(
    requester="STRING",
    source="STRING",
    author="BINARY",
    log="BIGINT",
    round="TINYINT",
    range="BINARY",
    entries="BIGINT",
    unit="BIGINT",
    reason="STRING",
)

_SEPARATOR = "\n"  # between the members of a class; ``check`` refuses names of peers that have it


# -- reading --------------------------------------------------------------------------------------------------------


def check(rows: Iterable[Row]) -> Iterator[Row]:
    """``GIVEN`` to ``CHECKED``. Never raises: a row that cannot be read becomes a reject with the reason."""
    for row in rows:
        given, peer, author, author_text, log_text, ranges, ranges_text, metadata, payload = row
        try:
            yield _checked(given, peer, author, author_text, log_text, ranges, ranges_text, metadata, payload)
        except (ConfigError, EncodingError, ValueError) as error:
            as_text = ranges.hex() if ranges is not None else ranges_text
            whose = author.hex() if author is not None else author_text
            kind = _KINDS.index(given)
            yield kind, peer, None, None, None, None, None, str(error), whose, log_text, as_text


def _checked(
    given: str,
    peer: str | None,
    author: bytes | None,
    author_text: str | None,
    log_text: str | None,
    ranges: bytes | None,
    ranges_text: str | None,
    metadata: str | None,
    payload: str | None,
) -> Row:
    if author is None and author_text is None:
        raise ValueError("a row without an author")
    key = author if author is not None else parse_author(author_text or "")
    if len(key) != AUTHOR_BYTES:
        raise ValueError(f"an author has {AUTHOR_BYTES} bytes, not {len(key)}")
    log = to_sql(read_number(log_text, "a log id", MAX_U64))
    kind = _KINDS.index(given)
    if given == SIZES:
        sizes = (read_number(metadata, "a size", MOST_BYTES), read_number(payload, "a size", MOST_BYTES))
        return (kind, None, key, log, None, *sizes, None, None, None, None)
    if not peer or _SEPARATOR in peer:
        raise ValueError("a row without a peer's name" if not peer else "a peer's name must be one line")
    value = ranges if ranges is not None else ranges_text
    if value is None:
        raise ValueError("a row without ranges")
    found = read_ranges(value)
    kept = pack(held_runs(found)) if given == HAVE else _encoded(found)
    return kind, peer, key, log, kept, None, None, None, None, None, None


def _encoded(ranges: list[Range]) -> bytes:
    return encode_varu64(len(ranges)) + b"".join(item.encode() for item in ranges)


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


class Pass:
    """One of the two passes over the buckets, with the settings that are not in the rows.

    ``rounds``: 1 or 2 (``culm.spark.plan.split``). ``serving``: the peers that upload; None: all do. ``sizes``: bytes
    of an entry's metadata and of its payload, for logs without sizes. ``arcs``: for the second pass, the shares in each
    bucket; they are sent to the workers with the job.
    """

    def __init__(
        self,
        rounds: int,
        serving: Collection[str] | None,
        sizes: tuple[int, int],
        arcs: Mapping[int, dict[bytes, Arcs]] | None = None,
    ) -> None:
        self._rounds = rounds
        self._serving = serving
        self._sizes = sizes
        self._arcs = arcs or {}

    def _splitter(self) -> Splitter:
        return Splitter(self._rounds, self._serves)

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The first pass: ``GROUPED``, sorted by bucket and log, to ``COUNTED``."""
        splitter = self._splitter()
        for bucket, of_bucket in groupby(rows, key=itemgetter(0)):
            demands = ((demand, log.size(demand.content)) for log in self._logs(of_bucket) for demand in log.demands)
            for key, amount in splitter.count(demands):
                yield bucket, key.digest, _SEPARATOR.join(key.members), key.is_whole, str(amount)

    def split(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The second pass: ``GROUPED``, in the same order, to ``SPLIT``."""
        splitter = self._splitter()
        for bucket, of_bucket in groupby(rows, key=itemgetter(0)):
            lines = splitter.lines(self._arcs.get(bucket, {}))
            for log in self._logs(of_bucket):
                yield from _transfer_rows(log, splitter, lines)
                for item in log.unserved:
                    piece = exact_range(item.first, item.last, item.content, item.sizes).encode()
                    entries = to_sql(item.last - item.first + 1)
                    yield item.peer, None, log.author, log.id, None, piece, entries, None, item.reason

    def _logs(self, rows: Iterable[Row]) -> Iterator[_Log]:
        for (author, log), of_log in groupby(rows, key=itemgetter(1, 2)):
            sizes = self._sizes
            held: dict[str, list[Held]] = {}
            wanted: dict[str, list[Range]] = {}
            for _, _, _, kind, peer, ranges, metadata, payload in of_log:
                if _KINDS[kind] == SIZES:
                    sizes = metadata, payload
                elif _KINDS[kind] == HAVE:
                    held.setdefault(peer, []).extend(unpack(ranges))
                else:
                    wanted.setdefault(peer, []).extend(read_ranges(ranges))
            if wanted:
                yield _Log(author, log, sizes, *sweep(held, wanted, self._serves))

    def _serves(self, peer: str) -> bool:
        return self._serving is None or peer in self._serving


class _Log(NamedTuple):
    """One swept log. ``sizes``: bytes of an entry's metadata and of its payload."""

    author: bytes
    id: int
    sizes: tuple[int, int]
    demands: list[Demand]
    unserved: list[Unserved]

    def size(self, content: int) -> int:
        """Bytes of an entry if only ``content`` is moved: its metadata, its payload, or both."""
        metadata, payload = self.sizes
        return (metadata if content & METADATA else 0) + (payload if content & PAYLOAD else 0)


def _transfer_rows(log: _Log, splitter: Splitter, lines: Lines) -> Iterator[Row]:
    """The transfers of a log. Neighbouring ones that differ in nothing else are put together into one row."""
    pieces = sorted(
        (transfer.requester, transfer.source, transfer.round, demand.content, demand.sizes, *transfer[3:])
        for demand in log.demands
        for transfer in splitter.transfers(demand, log.size(demand.content), lines)
    )
    begun: tuple[Any, ...] = ()
    for piece in pieces:
        if begun and piece[:5] == begun[:5] and piece[5] == begun[6] + 1:
            begun = *begun[:6], piece[6]
            continue
        if begun:
            yield _transfer_row(log, *begun)
        begun = piece
    if begun:
        yield _transfer_row(log, *begun)


def _transfer_row(
    log: _Log, requester: str, source: str, round_: int, content: int, sizes: Sizes, first: int, last: int
) -> Row:
    piece = exact_range(first, last, content, sizes).encode()
    entries, unit = to_sql(last - first + 1), log.size(content)
    return requester, source, log.author, log.id, round_, piece, entries, unit, None


def read_counted(rows: Iterable[Row]) -> list[tuple[int, Key, int]]:
    """``COUNTED`` rows as ``culm.spark.plan.split.arcs_by_bucket`` takes them, in its order."""
    return sorted(
        (bucket, Key(digest, tuple(members.split(_SEPARATOR)), is_whole), int(amount))
        for bucket, digest, members, is_whole, amount in rows
    )
