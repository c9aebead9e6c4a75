"""Stores: files to import, entries in any order, cursors, record indexes from elsewhere."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from culm.bamboo import ForkProof
from culm.errors import ConfigError, EncodingError, InvalidEntry, StoreDamaged, StoreError
from culm.negentropy import ArrayStorage, Negentropy
from culm.negentropy.codec import INFINITY
from culm.spark.reading.found import Wanted
from culm.spark.reading.inputs import plan
from culm.spark.reading.scan import scan
from culm.store import Position, SQLiteStore, State, View
from culm.store.exchange import Importer, export_bundle
from culm.store.files import BundleWriter, EntryRecord, PayloadRecord, Record, read_records, read_records_from
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.manifest import BLOCK, FENCE, KEY_BYTES, MANIFEST, PAGE_BYTES, Manifest, write_manifest
from culm.store.recordindex.writer import FileWriter
from culm.testing import build_log
from fuzz import fresh
from fuzz.pool import chosen
from fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time, however many are asked for."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(7, size) if size is not None and size >= 0 else 7)


def _read(records: Iterator[Record]) -> list[tuple[int, str, object, bytes | None]]:
    """All records with their payloads."""
    found: list[tuple[int, str, object, bytes | None]] = []
    for record in records:
        payload = None
        if isinstance(record, EntryRecord | PayloadRecord) and record.payload is not None:
            payload = b"".join(record.payload)
            assert len(payload) == record.payload.size
        what = record.entry if isinstance(record, EntryRecord) else None
        found.append((record.offset, type(record).__name__, what, payload))
    return found


def export(data: bytes) -> None:
    """A file gives the same records however its stream gives its bytes, and from the middle on."""
    whole = _read(read_records(io.BytesIO(data)))
    assert _read(read_records(_Trickle(data))) == whole
    if len(whole) > 1:
        offset = whole[1][0]
        found: list[tuple[int, str, object, bytes | None]] = []
        with suppress(EncodingError):  # a bundle's checksum is of the whole
            for record in read_records_from(io.BytesIO(data), offset):
                found += _read(iter([record]))
        assert [item[1:] for item in found] == [item[1:] for item in whole[1:]]


def import_(data: bytes) -> None:
    """A file is imported as far as it can be read; the store is right then, and what it exports is all of it."""
    with fresh.store() as store:
        report = Importer(store).run(io.BytesIO(data))
        _check(store)
        held = sum(1 for log in store.logs() for _ in store.entries((log.author, log.log_id), states=State))
        assert held == report.added
        if held:
            stream = io.BytesIO()
            logs = [(log.author, log.log_id) for log in store.logs()]
            export_bundle(store, logs, stream)
            stream.seek(0)
            with fresh.store("again") as again:
                copied = Importer(again).run(stream)
                assert (copied.added, copied.refused) == (held, [])
                _check(again)


def order(data: bytes) -> None:
    """Whatever comes, in any order, with any payloads, in any batches: the store calls it what an audit calls it."""
    with fresh.store() as store:
        batch = []
        for number, item in enumerate(chosen(data[:48])):
            batch.append(item)
            if data[number] % 5:
                store.add(batch)
                batch = []
        store.add(batch)
        _check(store)


def _check(store: SQLiteStore) -> None:
    problems = store.verify().problems
    assert not problems, problems[:3]


def cursor(data: bytes) -> None:
    """A cursor is read and written as the same, and any cursor can be asked for."""
    position = Position.parse(data.decode(errors="replace"))
    assert Position.parse(str(position)) == position


# -- record indexes ------------------------------------------------------------------------------------------------

_KEYS = sorted(
    (number // 3).to_bytes(8, "big") + blake2b(bytes([number % 251, number // 251]), digest_size=32).digest()
    for number in range(300)
)
_SET = ArrayStorage.of((int.from_bytes(key[:8], "big"), key[8:]) for key in _KEYS)
_BLOCK_RECORDS = 8


@cache
def _index() -> tuple[bytes, bytes]:
    """A good index of small blocks: its manifest and its only file, which is called ``records``."""
    folder = fresh.folder() / "good"
    folder.mkdir()
    rows = np.frombuffer(b"".join(_KEYS), np.uint8).reshape(-1, KEY_BYTES)
    writer = FileWriter(folder, block_records=_BLOCK_RECORDS)
    writer.add(rows)
    made = writer.finish()
    assert made is not None
    write_manifest(folder, [made], View.ENTRIES, _BLOCK_RECORDS)
    content = (folder / made.name).read_bytes()
    document = json.loads((folder / MANIFEST).read_bytes())
    document["files"][0]["name"] = "records"
    return _sealed(document), content


def _sealed(document: dict[str, object]) -> bytes:
    """A manifest with a checksum that fits."""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return json.dumps({**rest, "checksum": blake2b(text.encode(), digest_size=32).hexdigest()}).encode()


def _patched(content: bytes, patches: bytes) -> bytes:
    """Bytes put in other places: each patch is a place of three bytes, a size below 8, and as many bytes."""
    changed = bytearray(content)
    at = 0
    while at + 4 <= len(patches):
        place, size = int.from_bytes(patches[at : at + 3], "big") % len(content), patches[at + 3] % 8
        changed[place : place + size] = patches[at + 4 : at + 4 + size]
        at += 4 + size
    return bytes(changed[: len(content)].ljust(len(content), b"\0"))


def _resealed(content: bytes, manifest: Manifest) -> tuple[bytes, str]:
    """A file whose checksums fit what is in it, and the one of its fences: what a forger would make."""
    file = manifest.files[0]
    table = bytearray(content[file.table_at : file.fences_at])
    rows = list(BLOCK.iter_unpack(bytes(table)))
    starts = [row[1] for row in rows] + [file.records]
    for number, (low, high) in enumerate(pairwise(starts)):
        data = content[low * KEY_BYTES : high * KEY_BYTES] if 0 <= low <= high <= file.records else b""
        BLOCK.pack_into(table, number * BLOCK.size, *rows[number][:3], crc32(data))
    fences = bytearray(content[file.fences_at :])
    for number, row in enumerate(FENCE.iter_unpack(bytes(fences))):
        page = table[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]
        FENCE.pack_into(fences, number * FENCE.size, *row[:2], crc32(page))
    checksum = blake2b(bytes(fences), digest_size=32).hexdigest()
    return content[: file.table_at] + bytes(table) + bytes(fences), checksum


def manifest(data: bytes) -> None:
    """A manifest is read and written as the same, or refused; half of the inputs have a checksum that fits."""
    if data[:1] < b"\x80":
        with suppress(ValueError, RecursionError):
            document = json.loads(data[1:])
            if isinstance(document, dict):
                found = Manifest.decode(_sealed(document))
                assert Manifest.decode(found.encode().encode()) == found
        return
    found = Manifest.decode(data[1:])
    assert Manifest.decode(found.encode().encode()) == found


def index(data: bytes) -> None:
    """An index with a damaged file answers like the good one, or says that it is damaged.

    Where its checksums were made to fit, it may answer otherwise, and only that.
    """
    manifest_, content = _index()
    forged = data[:1] >= b"\x80"
    changed = _patched(content, data[1:])
    if forged:
        document = json.loads(manifest_)
        changed, document["files"][0]["checksum"] = _resealed(changed, Manifest.decode(manifest_))
        manifest_ = _sealed(document)
    folder = fresh.folder() / "index"
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_bytes(manifest_)
    (folder / "records").write_bytes(changed)
    with IndexStorage(folder) as found:
        question = Negentropy(_SET).initiate()
        answer = Negentropy(found).reconcile(question)
        keys = list(found.keys(0, len(found)))
        places = [found.position(number, b"\x80", 0) for number in range(0, 110, 7)]
        if not forged:
            assert answer == Negentropy(_SET).reconcile(question)
            assert keys == _KEYS
            assert places == [_SET.position(number, b"\x80", 0) for number in range(0, 110, 7)]
            assert found.position(INFINITY, b"", 0) == len(_KEYS)


# -- damaged stores ------------------------------------------------------------------------------------------------


@cache
def _database() -> bytes:
    """A store with a whole log, one with gaps and a fork."""
    path = fresh.folder() / "good.db"
    with SQLiteStore(path) as store:
        log = build_log(14, payload_size=9)
        store.add([*log.items(), (log.make(13, b"another"), None)])
        store.add(build_log(9, seed=2).items()[4:])
    return path.read_bytes()


def damaged(data: bytes) -> None:
    """A store whose file was changed is read, or called damaged: by whoever opens, verifies, exports, scans or adds.

    An input is how it is used, and patches of its file.
    """
    path = fresh.file("damaged.db", _patched(_database(), data[1:]))
    how = data[0] % 4 if data else 0
    try:
        if how == _SCANNED:
            for split in plan([path]):
                for piece in split:
                    list(scan(piece, Wanted(payload_limit=100)))
            return
        with SQLiteStore(path, read_only=how != _ADDED_TO) as store:
            if how == _VERIFIED:
                store.verify()
            elif how == _EXPORTED:
                export_bundle(store, [(log.author, log.log_id) for log in store.logs()], io.BytesIO())
            else:
                store.add(build_log(5, seed=3).items())
    finally:
        fresh.remove("damaged.db")


_VERIFIED, _EXPORTED, _SCANNED, _ADDED_TO = range(4)

# -- seeds ---------------------------------------------------------------------------------------------------------


def files() -> tuple[bytes, bytes]:
    """The same entries in both forms, the bundle with a fork proof."""
    log = build_log(5, payload_size=9)
    proof = ForkProof.of(log.entries[4], log.make(5, b"another"))
    assert proof is not None
    bundle = io.BytesIO()
    writer = BundleWriter(bundle)
    writer.proof(proof)
    for entry in log.entries:
        writer.entry(entry)
        writer.payload(entry.place, entry.size, [log.payloads[entry.hash]])
    writer.close()
    return b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries), bundle.getvalue()


_SCRIPTS = (
    bytes(range(64, 78)),
    bytes(range(13, -1, -1)) + bytes(range(64, 78)),
    bytes(range(128, 140)) + bytes(range(64)),
    bytes([64, 65, 66, 67, 79, 17, 21, 22, 23, 24, 34, 90, 200, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50]),
)
_CURSORS = b"0", b"17", b"5.-3.-9223372036854775808.2"
_PATCHES = b"\x00", b"\x80", b"\x00\x00\x00\x08\x00", b"\x80\x00\x00\x08\x00\x00\x2f\x10\x00"
TARGETS = (
    Target("store.export", export, (EncodingError,), files()),
    Target("store.import", import_, (), files()),
    Target("store.order", order, (), _SCRIPTS, longest=64, share=1.5),
    Target("store.cursor", cursor, (ConfigError,), _CURSORS, longest=100, share=0.1),
    Target("store.manifest", manifest, (StoreDamaged,), (b"\xff" + _index()[0], b"\x00" + _index()[0])),
    Target("store.damaged", damaged, (StoreError, InvalidEntry), tuple(bytes([n]) for n in range(4)), longest=200),
    Target("store.index", index, (StoreDamaged,), _PATCHES, longest=200),
)
