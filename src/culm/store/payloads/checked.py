"""The bytes of complete payloads, compared on their way out.

*The problem.* A payload was compared with its hash when it came. Since then it has lain on a disk, and disks change
bits, return other sectors, or cannot read them any more. Handed out as they are, such bytes count as genuine: a person
believes them, and a peer takes us for a liar. The hash tells, but it covers the whole payload, and a peer that asks for
64 KiB out of 2 GB must not make us read 2 GB.

*The way chosen* has two parts.

- Whole reads compare the hash, and hold back the last piece until the hash is known to be right. So no reader ever has
  a complete payload that is wrong.
- Reads from the middle compare checksums: CRC-32 of each ``SUMMED_BYTES`` of the payload, stored when the payload was
  verified. Such a read costs at most one such stretch more than was asked for. A payload that is no longer than a
  stretch is read whole, and compared with its hash.

*Why is CRC-32 enough?* It guards against a broken disk. It finds every damage within 32 neighbouring bits, and leaves
one other in four billion unnoticed. Somebody who can change the file on purpose can change the checksums beside it too,
so that a cryptographic hash there would protect nobody; and it is several times as slow. The receiver of the whole
payload still compares the hash that the author has signed.

Readers follow each other: a payload is sent in slices much shorter than a stretch. The stretches compared last are
therefore kept in memory, under the hash of their payload, until a reader comes to their end.

Stores of versions before 6 have no checksums. They are computed when such a payload is read whole for the first time:
by a node soon after its start (``culm.node.storage.healing``), by ``culm doctor --repair``, or here at its first slice.
The migration does not compute them, because nobody can use the store while it runs.
"""

from collections.abc import Iterator

from culm.bamboo import Entry, PayloadHasher, yamf_hash
from culm.errors import InvalidEntry, NotHeld, PayloadDamaged
from culm.store.database import Database
from culm.store.payloads.pieces import (
    LARGE_BYTES,
    PIECE_BYTES,
    SUM_BYTES,
    SUMMED_BYTES,
    PieceSums,
    crc32,
    file_of,
    hash_held,
    read_pieces,
    read_slice,
)
from culm.store.rows import BYTES, COUNT, PAYLOAD_STATE, ROW, entry_of
from culm.store.schema import PayloadState
from culm.types import Buffer

_KEPT = 8  # Stretches in memory, each of up to 1 MiB: enough for so many readers at a time to read each byte once.


def read_checked(database: Database, entry_id: int, entry: Entry, offset: int = 0) -> Iterator[bytes]:
    """The bytes of a complete payload from ``offset`` on, in pieces of at most ``PIECE_BYTES``.

    ``PayloadDamaged`` in place of the last piece, or of an earlier one, if the bytes are wrong. ``NotHeld`` if the
    payload was deleted since it was looked up.
    """
    if not offset:
        yield from read_rest(database, entry_id, entry, b"")
        return
    while piece := read_part(database, entry_id, offset, PIECE_BYTES):
        offset += len(piece)
        yield bytes(piece)
    if offset < entry.size:
        raise _gone(database, entry)


def read_rest(database: Database, entry_id: int, entry: Entry, start: bytes) -> Iterator[bytes]:
    """The bytes of a complete payload behind its ``start``, as ``read_checked`` gives them; the start is checked, too.

    A caller that has all of a payload as its start must not hand out that start before this function has returned.
    """
    file = file_of(database, entry_id)
    hasher, last = PayloadHasher(), b""
    hasher.update(start)
    for piece in read_pieces(database, entry_id, len(start)):
        if last:
            yield last
        hasher.update(piece)
        last = piece
        if hasher.size > entry.size:  # in a damaged database there may be any number of pieces
            break
    try:
        hasher.check(entry)
    except InvalidEntry:
        _raise_damage(database, entry_id, entry, file, hasher.size)
        raise _gone(database, entry) from None
    if last:
        yield last


def read_part(database: Database, entry_id: int, offset: int, size: int) -> Buffer:
    """At most ``size`` bytes held of an entry's payload from ``offset`` on; none only if there are none.

    They are not copied out of a stretch that was compared, because most are only copied on into a message.

    ``PayloadDamaged`` if the payload is complete and these bytes are wrong. The bytes of a payload that is still coming
    are not compared, because only all of them together have a hash.
    """
    query = "SELECT encoded, payload_state FROM entries WHERE id = ?"
    rows = database.read(query, (entry_id,), BYTES, PAYLOAD_STATE)
    if not rows or rows[0][1] != PayloadState.COMPLETE:
        return read_slice(database, entry_id, offset, size) if rows else b""
    entry = entry_of(rows[0][0])
    parts: list[Buffer] = []
    end = min(offset + size, entry.size)
    while offset < end:
        number, start = divmod(offset, SUMMED_BYTES)
        stretch = _stretch(database, entry_id, entry, number)
        part = memoryview(stretch)[start : start + end - offset]
        if not part:  # the payload was forgotten meanwhile
            break
        parts.append(part)
        offset += len(part)
        if start + len(part) == len(stretch):
            database.stretches.pop((entry.payload_hash, number), None)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def check_complete(database: Database, entry_id: int, entry: Entry) -> bytes | None:
    """Read a complete payload whole; its checksums, or None if it is small. ``PayloadDamaged`` if it is wrong."""
    file = file_of(database, entry_id)
    sums = PieceSums()
    hasher = hash_held(database, entry_id, sums=sums)
    try:
        hasher.check(entry)
    except InvalidEntry:
        _raise_damage(database, entry_id, entry, file, hasher.size)
    return None if file is None else sums.encoded


def right_in_one_piece(database: Database, entries: dict[int, Entry]) -> set[int]:
    """The entries, by row id, whose payload lies in a single row and is right: one query for many small payloads.

    Of the others nothing is known; ``check_complete`` finds out.
    """
    places = ", ".join("?" * len(entries))
    rows = database.read(
        f"SELECT entry, at, CAST(piece AS BLOB) FROM payloads WHERE entry IN ({places})"
        " AND NOT EXISTS (SELECT 1 FROM payload_files WHERE payload_files.entry = payloads.entry)"
        " GROUP BY entry HAVING count(*) = 1",
        list(entries),
        ROW,
        COUNT,
        BYTES.or_null(),
    )
    return {row for row, at, piece in rows if not at and piece is not None and _fits(piece, entries[row])}


def _fits(payload: bytes, entry: Entry) -> bool:
    return len(payload) == entry.size and yamf_hash(payload) == entry.payload_hash


def _stretch(database: Database, entry_id: int, entry: Entry, number: int) -> bytes:
    """``SUMMED_BYTES`` of a payload, compared; fewer at its end, none if the payload was forgotten meanwhile."""
    kept = database.stretches
    key = entry.payload_hash, number
    stretch = kept.get(key)
    if stretch is None:
        stretch = _compared(database, entry_id, entry, number)
        if not stretch:
            return stretch
        kept[key] = stretch
        if len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return stretch


def _compared(database: Database, entry_id: int, entry: Entry, number: int) -> bytes:
    file = file_of(database, entry_id)
    if entry.size <= LARGE_BYTES:
        try:
            return b"".join(read_checked(database, entry_id, entry))
        except NotHeld:
            return b""
    expected = _sum(database, entry_id, entry, number)
    begin = number * SUMMED_BYTES
    stretch = read_slice(database, entry_id, begin, SUMMED_BYTES)
    if crc32(stretch, 0, 0, len(stretch)).to_bytes(SUM_BYTES) == expected:
        return stretch
    reached = begin + len(stretch) if len(stretch) < SUMMED_BYTES else entry.size
    _raise_damage(database, entry_id, entry, file, reached)
    return b""


def _sum(database: Database, entry_id: int, entry: Entry, number: int) -> bytes:
    """The checksum of a stretch, computed from the whole payload if the store has none yet."""
    at = number * SUM_BYTES
    query = "SELECT substr(sums, ?, ?) FROM payload_files WHERE entry = ?"
    rows = database.read(query, (at + 1, SUM_BYTES, entry_id), BYTES.or_null())
    if rows and rows[0][0] is not None:
        return bytes(rows[0][0])
    sums = database.sums.get(entry.payload_hash)
    if sums is None:
        sums = database.sums[entry.payload_hash] = check_complete(database, entry_id, entry) or b""
    return sums[at : at + SUM_BYTES]


def _gone(database: Database, entry: Entry) -> NotHeld:
    return NotHeld(f"{database.path}: the payload of entry {entry.seq} was deleted while it was read")


def _raise_damage(database: Database, entry_id: int, entry: Entry, file: str | None, reached: int) -> None:
    """Raise ``PayloadDamaged`` unless the payload was deleted or replaced while it was read up to ``reached``."""
    rows = database.read("SELECT payload_state FROM entries WHERE id = ?", (entry_id,), PAYLOAD_STATE)
    if rows and rows[0][0] == PayloadState.COMPLETE and file_of(database, entry_id) == file:
        reason = f"it ends after {reached} of {entry.size} bytes" if reached < entry.size else "its bytes have changed"
        raise PayloadDamaged(reason, entry.place, entry.hash, file) from None
