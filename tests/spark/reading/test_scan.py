"""Reading pieces of inputs: rows stay small, and damage costs no more than what it hits."""

from __future__ import annotations

import sqlite3
import tracemalloc
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity, PayloadHasher, yamf_hash
from culm.errors import CulmError
from culm.spark.batches import payload as states
from culm.spark.batches.payload import PayloadFrame
from culm.spark.reading.found import EntryRow
from culm.spark.reading.inputs import Part, Piece, plan
from culm.spark.reading.scan import scan
from culm.store import SQLiteStore
from culm.store.files import BundleWriter
from culm.testing import build_log
from tests.store.damage import put

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024


def read(path: Path) -> list[EntryRow]:
    """All rows of an input."""
    return [row for split in plan([path]) for piece in split for row in scan(piece)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "bundle", "store"])
def test_large_payloads_are_never_held(kind: str, tmp_path: Path) -> None:
    """A payload of 24 MiB is hashed in a fraction of that memory."""
    path, piece, pieces = tmp_path / kind, bytes(range(256)) * 256, 24 * 16
    hasher = PayloadHasher()
    for _ in range(pieces):
        hasher.update(piece)
    entry = Identity(bytes(32)).create_entry(
        log_id=0, seq=1, backlink=None, lipmaalink=None, size=hasher.size, payload_hash=hasher.hash
    )
    if kind == "store":
        with SQLiteStore(path) as store:
            store.add([(entry, None)])
            sink = store.payload_sink(entry.place)
            for _ in range(pieces):
                sink.write(piece)
            sink.finish()
    else:
        with path.open("wb") as stream:
            if kind == "plain":
                stream.write(entry.encoded)
                for _ in range(pieces):
                    stream.write(piece)
            else:
                bundle = BundleWriter(stream)
                bundle.entry(entry)
                bundle.payload(entry.place, entry.size, [piece] * pieces)
                bundle.close()
    tracemalloc.start()
    rows = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MIB
    assert [(entry.encoded, states.HELD)] == [(row.encoded, row.payload_state) for row in rows]


def test_a_payload_that_does_not_follow_its_entry(tmp_path: Path) -> None:
    """In a bundle a payload right behind its entry is that entry's; any other travels as a frame of its own."""
    log = build_log(3)
    one, two, three = log.entries
    data = {entry: log.payloads[entry.hash] for entry in log.entries}
    with (tmp_path / "bundle").open("wb") as stream:
        bundle = BundleWriter(stream)
        bundle.payload(two.place, two.size, [data[two]])
        for entry, payload in ((one, data[one]), (two, None), (three, b"another payload")):
            bundle.entry(entry)
            if payload is not None:
                bundle.payload(entry.place, len(payload), [payload])
        bundle.close()
    found = [(row.encoded, row.payload_state, row.payload_frame) for row in read(tmp_path / "bundle")]
    frames = [
        PayloadFrame(entry.author, 0, entry.seq, yamf_hash(payload), len(payload)).encode()
        for entry, payload in ((two, data[two]), (three, b"another payload"))
    ]
    assert [
        (None, None, frames[0]),
        (one.encoded, states.HELD, None),
        (two.encoded, states.ABSENT, None),
        (three.encoded, states.ABSENT, None),
        (None, None, frames[1]),
    ] == found


@pytest.mark.parametrize("missing", [1, 3, 5])
def test_a_bundle_that_ends_inside_a_payload(tmp_path: Path, missing: int) -> None:
    """The entry in front of a payload that is cut short is one row, and the file's end a reject."""
    log = build_log(1)
    (entry,) = log.entries
    path = tmp_path / "bundle"
    with path.open("wb") as stream:
        bundle = BundleWriter(stream)
        bundle.entry(entry)
        bundle.payload(entry.place, entry.size, [log.payloads[entry.hash]])
        stream.truncate(stream.tell() - missing)
    whole, cut = read(path)
    assert (entry.encoded, states.ABSENT, None) == (whole.encoded, whole.payload_state, whole.reason)
    assert cut.reason is not None
    assert f"{missing} bytes of a payload are missing" in cut.reason


def test_damage_inside_a_store(tmp_path: Path) -> None:
    """Where pages of a store cannot be read, one reject tells which rows are lost; nothing is raised."""
    path = tmp_path / "store"
    log = build_log(2000, payload_size=0)
    with SQLiteStore(path) as store:
        store.add(log.items(), authenticated=True)
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'").fetchone()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    data[(root - 1) * page : root * page] = b"\xff" * page
    path.write_bytes(data)
    (row,) = scan(Piece(str(path), Part.ENTRIES, 1, 2000))
    assert row.encoded is None
    assert row.reason is not None
    assert row.reason.startswith("rows 1 to 2000: ")


def test_values_of_the_wrong_type_in_a_store(tmp_path: Path) -> None:
    """Text where bytes belong, a state that does not exist: rows that are judged or rejected later, no failure."""
    path = tmp_path / "store"
    with SQLiteStore(path) as store:
        store.add(build_log(3).items())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE entries SET encoded = 'text' WHERE id = 1")
        connection.execute("UPDATE payloads SET piece = 'text' WHERE entry = 2")
        connection.execute("UPDATE entries SET payload_state = 99 WHERE id = 3")
    rows = [(row.encoded == b"text", row.payload_state) for row in read(path)]
    assert [(True, states.ABSENT), (False, states.MISMATCH), (False, states.ABSENT)] == rows


def test_a_row_without_its_entry(tmp_path: Path) -> None:
    """Nothing where bytes have to be, which only damage can do, is one reject; the other rows stand."""
    path = tmp_path / "store"
    with SQLiteStore(path) as store:
        store.add(build_log(3).items())
    put(path, "entries", "encoded", "NULL", "id = 2")
    rows = [(row.offset, row.encoded is None, row.reason is None) for row in read(path)]
    assert [(1, False, True), (2, True, False), (3, False, True)] == rows


def test_a_payload_without_its_bytes(tmp_path: Path) -> None:
    """Nothing where a payload's bytes have to be is another payload than the entry's."""
    path = tmp_path / "store"
    with SQLiteStore(path) as store:
        store.add(build_log(3).items())
    put(path, "payloads", "piece", "NULL", "entry = 2")
    assert [states.HELD, states.MISMATCH, states.HELD] == [row.payload_state for row in read(path)]


def test_fork_proofs_of_a_store(tmp_path: Path) -> None:
    """The proofs that a store holds are read, too."""
    log = build_log(3)
    other = log.make(3, b"other")
    with SQLiteStore(tmp_path / "store") as store:
        store.add([*log.items(), (other, b"other")])
    *entries, first, second = read(tmp_path / "store")
    assert len(entries) == 4
    assert {log.entries[2].encoded, other.encoded} == {first.encoded, second.encoded}


def test_an_input_that_went_away(tmp_path: Path) -> None:
    """What was there when the work was planned and is not now is an error, not a reject: the results would lie."""
    for part in (Part.FILE, Part.ENTRIES, Part.FORKS):
        with pytest.raises(CulmError, match="gone"):
            list(scan(Piece(str(tmp_path / "gone"), part, 1, 10)))
