"""The pipeline: entries as arrays, files as rows, tables of requests; and verdicts on whatever stands in its inputs."""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from culm.bamboo import Entry, are_authentic, contradiction, lipmaa, yamf_hash
from culm.errors import ConfigError, EncodingError
from culm.ranges import Range, RangeSet
from culm.spark.batches import payload as states
from culm.spark.batches.fields import Fields, padded, why_not
from culm.spark.batches.payload import PayloadFrame
from culm.spark.plan import rows as plan_rows
from culm.spark.plan.given import HAVE, SIZES, WANT, Given
from culm.spark.plan.split import Splitter
from culm.spark.reading.found import EntryRow, Wanted
from culm.spark.reading.inputs import Part, Piece
from culm.spark.reading.scan import scan
from culm.spark.runtime.columns import batches, schema
from culm.spark.runtime.engine import Engine, Table
from culm.spark.select import requests
from culm.spark.source.rows import ENTRIES, Options
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow, Reject, gather
from culm.spark.verification.verdicts import Verdict, pronounced
from culm.spark.verification.verify import Verification
from culm.store.files import EntryRecord, ProofRecord, read_records
from culm.testing import build_log
from fuzz import fresh
from fuzz.pool import chosen
from fuzz.script import recorded, records
from fuzz.target import Target
from fuzz.topics import store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Row = tuple[Any, ...]


# -- decoding ------------------------------------------------------------------------------------------------------


def fields(data: bytes) -> None:
    """Of many records at once the arrays say what ``Entry.decode`` says of each, field by field."""
    encoded = list(records(data))
    end = np.cumsum([len(record) for record in encoded], dtype=np.int64)
    start = np.concatenate([np.zeros(1, np.int64), end[:-1]]) if encoded else end
    found = Fields.decode(padded(*encoded), start, end)
    for row, record in enumerate(encoded):
        try:
            entry = Entry.decode(record)
        except EncodingError:
            assert not found.good[row]
            assert why_not(record)
            continue
        assert found.good[row]
        assert _as_entry(found, row) == (
            entry.is_end,
            entry.log_id,
            entry.seq,
            lipmaa(entry.seq),
            entry.lipmaalink,
            entry.backlink,
            entry.size,
            entry.payload_hash,
        )


def _as_entry(found: Fields, row: int) -> Row:
    """The fields of a row as an entry has them."""
    numbers = found.is_end, found.log_id, found.seq, found.target
    places = found.lipmaalink, found.backlink
    links = [_hash(found, int(place[row])) for place in places]
    payload_hash = _hash(found, int(found.payload_hash[row]))
    return (*(column[row].item() for column in numbers), *links, found.size[row].item(), payload_hash)


def _hash(found: Fields, at: int) -> bytes | None:
    return None if at < 0 else b"\x00\x40" + found.data[at : at + 64].tobytes()


def frame(data: bytes) -> None:
    """A payload's frame has one form, and is no entry."""
    found = PayloadFrame.decode(data)
    assert found.encode() == data


def file(data: bytes) -> None:
    """A file gives the rows of the records that the store reads in it, and one reject where it stops."""
    found = list(scan(Piece(str(fresh.file("input", data)), Part.FILE, 0, 0), Wanted(payload_limit=100)))
    rejects = [row for row in found if row.reason is not None]
    expected: list[bytes] = []
    fault = None
    with (fresh.folder() / "input").open("rb") as stream:
        try:
            for record in read_records(stream):
                if isinstance(record, EntryRecord):
                    expected.append(record.entry.encoded)
                elif isinstance(record, ProofRecord):
                    expected += [record.proof.first.encoded, record.proof.second.encoded]
        except EncodingError as error:
            fault = error.offset, str(error)
    assert sorted(row.encoded for row in found if row.encoded is not None) == sorted(expected)
    assert [(row.offset, row.reason) for row in rejects] == ([fault] if fault else [])
    assert all(len(row.payload) <= 100 for row in found if row.payload is not None)


# -- verdicts ------------------------------------------------------------------------------------------------------

_APART = 0x40  # payloads come apart from their entries, as frames


def verdicts(data: bytes) -> None:
    """The steps of the verification say of each entry what comparing all entries of its log with each other says.

    An input is how payloads come, the length of a script for ``fuzz.pool``, the script, and records of any bytes.
    """
    head, rest = data[:2].ljust(2, b"\0"), data[2:]
    items = list(chosen(rest[: head[1] % 48]))
    rows: list[EntryRow] = [_row(entry, payload, apart=bool(head[0] & _APART)) for entry, payload in items]
    rows += [_frame(entry, payload) for entry, payload in items if payload is not None and head[0] & _APART]
    rows += [EntryRow("bytes", at, record, None, None, None) for at, record in enumerate(records(rest[head[1] % 48 :]))]
    found, rejected = _verdicts(rows, Signatures.STRICT)
    expected, malformed = _expected(rows)
    assert rejected == malformed
    assert found == expected
    if "bad signature" not in found.values():
        assert _verdicts(rows, Signatures.HEADS)[0] == expected


def _row(entry: Entry, payload: bytes | None, *, apart: bool) -> EntryRow:
    state = states.without_bytes(entry)
    if payload is not None and not apart:
        state = states.judged(entry, yamf_hash(payload), len(payload))
    return EntryRow("pool", 0, entry.encoded, state, None, None)


def _frame(entry: Entry, payload: bytes) -> EntryRow:
    made = PayloadFrame(*entry.log, entry.seq, yamf_hash(payload), len(payload))
    return EntryRow("pool", 0, None, None, made.encode(), None)


def _verdicts(rows: list[EntryRow], signatures: Signatures) -> tuple[dict[bytes, str], int]:
    """What the pipeline says of each entry, by hash; and how many rows it could not read."""
    found = list(gather(batches(EntryRow, rows)))
    verification = Verification(Engine(), signatures)
    verification.take(Table(PackRow, list(batches(PackRow, found)).copy))
    table = verification.judged().map(pronounced, Verdict).first(Verdict, len(rows))
    said = {row.entry_hash: row.reason if row.reason == "bad signature" else row.verdict for row in table}
    assert len(said) == len(table)
    return said, sum(isinstance(row, Reject) for row in found)


def _expected(rows: Iterable[Row]) -> tuple[dict[bytes, str], int]:
    """The same, from all pairs of entries of each log."""
    logs: dict[tuple[bytes, int], dict[bytes, Entry]] = defaultdict(dict)
    lied: set[bytes] = set()
    frames: list[PayloadFrame] = []
    malformed = 0
    for _, _, encoded, state, framed, *_ in rows:
        if encoded is None:
            frames.append(PayloadFrame.decode(framed))
            continue
        try:
            entry = Entry.decode(encoded)
        except EncodingError:
            malformed += 1
            continue
        logs[entry.log][entry.hash] = entry
        if state == states.SIZE_MISMATCH:
            lied.add(entry.hash)
    for made in frames:
        for entry in logs[made.author, made.log_id].values():
            if (entry.seq, entry.payload_hash) == (made.seq, made.payload_hash) and entry.size != made.size:
                lied.add(entry.hash)
    said: dict[bytes, str] = {}
    for entries in logs.values():
        said |= _judged(list(entries.values()), lied)
    return said, malformed


def _judged(entries: Sequence[Entry], lied: set[bytes]) -> dict[bytes, str]:
    """What holds of the entries of one log."""
    good = [entry for entry, right in zip(entries, are_authentic(list(entries)), strict=True) if right]
    pairs = (contradiction(one, other) for at, one in enumerate(good) for other in good[:at])
    limits = [found[0] for found in pairs if found is not None]
    limits += [entry.seq for entry in good if entry.hash in lied]
    limit = min(limits, default=1 << 64)
    connected: set[bytes] = set()
    for entry in sorted(good, key=lambda entry: entry.seq):
        if entry.seq == 1 or any(expected in connected for _, expected in entry.links):
            connected.add(entry.hash)
    said = {entry.hash: "bad signature" for entry in entries}
    for entry in good:
        said[entry.hash] = "invalid" if entry.seq >= limit else "verified" if entry.hash in connected else "unverified"
    return said


# -- tables --------------------------------------------------------------------------------------------------------

_NEXT = b"\x1f"  # between the columns of a row, which stand on lines


def _tables(data: bytes) -> Iterator[Row]:
    """Rows of text, bytes and nothing: a column that begins with ``-`` is null."""
    kinds = schema(Given).types
    for line in data.split(b"\n")[:20]:
        columns = line.split(_NEXT)
        row: list[Any] = []
        for kind, column in zip(kinds, [*columns, *[b"-"] * len(kinds)], strict=False):
            null = column.startswith(b"-")
            row.append(None if null else column if pa.types.is_binary(kind) else column.decode(errors="replace"))
        yield tuple(row)


def plan(data: bytes) -> None:
    """Rows for the planner become rows or rejects, each of them one; and what can be asked for adds up."""
    given = []
    for number, row in enumerate(_tables(data)):
        name = (SIZES, HAVE, WANT)[number % 3]
        given.append(Given(name, *row[1:]))
    checked = list(plan_rows.check(given, 1))
    assert len(checked) == len(given)
    for table in (plan_rows.Checked, plan_rows.Refused):
        list(batches(table, checked))
    kept = [row for row in checked if isinstance(row, plan_rows.Checked)]
    grouped = sorted(kept, key=attrgetter("bucket", "author", "log", "given"))
    counted = list(plan_rows.count(grouped, Splitter(2, lambda _: True, (300, 100))))
    assert all(int(row.amount) >= 0 for row in counted)


def select(data: bytes) -> None:
    """Requests become ranges or rejects, whatever stands in them."""
    given = map(Given._make, _tables(data))
    checked = list(requests.check(given))
    for table in (requests.Asked, requests.Refused):
        list(batches(table, checked))


def options(data: bytes) -> None:
    """The options of ``format("culm")`` are taken, or refused."""
    lines = (line.partition("=") for line in data.decode(errors="replace").split("\n"))
    found = Options.parse({name: value for name, _, value in lines})
    assert set(found.columns) <= set(ENTRIES)
    assert 0 < found.wait <= 600


# -- seeds ---------------------------------------------------------------------------------------------------------


def _shapes() -> bytes:
    log = build_log(14, payload_size=9)
    log.append(b"", is_end=True)
    return recorded([log.entries[number].encoded for number in (0, 1, 3, 12, 14)])


def _frames() -> bytes:
    return PayloadFrame(bytes(32), 300, 5, yamf_hash(b""), 1 << 40).encode()


_SCRIPT = bytes(range(64, 78)) + bytes([14, 15, 21, 200, 34, 100])
_VERDICTS = (
    bytes([0, 14]) + bytes(range(64, 78)),
    bytes([_APART, 20]) + _SCRIPT,
    bytes([0, 20]) + _SCRIPT[::-1] + _shapes(),
    bytes([0, 47]) + bytes(range(17, 64)),
    bytes([0, 14]) + bytes([*range(64, 77), 35]),
)
_AUTHOR = bytes(range(32)).hex().encode()
_SET = RangeSet([Range(1, 9), Range(20, 40, sparse=True)]).encode()
_PLANS = (
    _NEXT.join([b"", b"-", _AUTHOR, b"5", b"-", b"-", b"-", b"300.5", b"100"]),
    b"\n".join(
        [
            b"-",
            _NEXT.join([b"", b"alice", _AUTHOR, b"5", b"-", b"-", b"1..40; 50..60 sparse"]),
            _NEXT.join([b"", b"bob", _AUTHOR, b"5", b"-", b"-", b"30.."]),
            b"-",
            _NEXT.join([b"", b"carol", _AUTHOR, b"5", b"-", _SET]),
        ]
    ),
)
_REQUESTS = (
    _NEXT.join([b"", b"alice", _AUTHOR, b"5", b"-", b"-", b"1..40; 50.. sparse"]),
    _NEXT.join([b"", b"bob", _AUTHOR, b"18446744073709551615", Range(3, 9).encode(), b"-", b"-"]),
    _NEXT.join([b"", b"bob", _AUTHOR, b"7", b"-", _SET]),
)
_OPTIONS = b"authors=%s\nlogs=%s/5\nfromSeqnum=3\npayloads=true\nmaxPayload=10\nrejects=only\nwait=2.5" % (
    _AUTHOR,
    _AUTHOR,
)
_FILES = store.files()
TARGETS = (
    Target("spark.fields", fields, (), (_shapes(),)),
    Target("spark.frame", frame, (EncodingError,), (_frames(),), longest=200, share=0.2),
    Target("spark.file", file, (), _FILES),
    Target("spark.verdicts", verdicts, (), _VERDICTS, longest=600, share=2.0),
    Target("spark.plan", plan, (), _PLANS, longest=1000),
    Target("spark.select", select, (), _REQUESTS, longest=1000, share=0.5),
    Target("spark.options", options, (ConfigError,), (_OPTIONS,), longest=600, share=0.3),
)
