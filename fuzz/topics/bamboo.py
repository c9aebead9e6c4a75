"""The log itself: numbers, hashes, entries, fork proofs, audits, identities."""

from __future__ import annotations

import json
from contextlib import suppress

from culm.bamboo import (
    Entry,
    ForkProof,
    Identity,
    check_payload,
    contradiction,
    decode_varu64,
    decode_yamf,
    encode_varu64,
    is_authentic,
    yamf_hash,
)
from culm.bamboo.audit import audit
from culm.bamboo.entryproof import MAX_PROOF_BYTES, EntryProof, numbers_of
from culm.bamboo.keyfile import dump_identity, is_sealed, load_identity, public_key
from culm.bamboo.linked import Framing, entries_linked, links_before
from culm.bamboo.many import entries_followed
from culm.bamboo.varu64 import decode_any_varu64
from culm.errors import ConfigError, EncodingError, InvalidProof, MalformedEntry
from culm.testing import build_log
from fuzz.target import Target


def varu64(data: bytes) -> None:
    """A number has one form; whoever takes longer ones reads the same from it."""
    number, end = decode_varu64(data)
    assert encode_varu64(number) == data[:end]
    assert decode_any_varu64(data) == (number, end)


def yamf(data: bytes) -> None:
    """A hash is its own bytes."""
    found, end = decode_yamf(data)
    assert found == data[:end]


def entry(data: bytes) -> None:
    """An entry keeps its bytes, and its fields make the same ones."""
    found, end = Entry.decode_prefix(data)
    assert found.encoded == data[:end]
    assert found.seq > 0
    links = found.lipmaalink, found.backlink
    again = Entry.assemble(found.log, found.seq, found.is_end, *links, found.size, found.payload_hash, found.signature)
    assert again == found


def entry_proof(data: bytes) -> None:
    """A proof is written as it was read; what is checked is authentic, and in one log."""
    found, end = EntryProof.decode_prefix(data)
    assert found.encode() == data[:end]
    assert end <= MAX_PROOF_BYTES
    with suppress(InvalidProof):
        found.check()
        assert {entry.log for entry in found.entries} == {found.top.log}
        assert all(is_authentic(entry) for entry in found.entries)


def proof(data: bytes) -> None:
    """A proof is what two entries in order are that contradict each other, and nothing else is."""
    first, end = Entry.decode_prefix(data)
    second, _ = Entry.decode_prefix(data, end)
    found = contradiction(first, second)
    assert found == contradiction(second, first)
    made = ForkProof.of(first, second)
    assert (made is None) == (found is None)
    if made is not None:
        assert ForkProof.decode(made.encode()) == made
        assert (made.position, made.case) == found
    assert ForkProof.decode(data).encode() == data


def log(data: bytes) -> None:
    """Entries of a log in any order: the audit finds the lowest position at which any two contradict each other."""
    entries: list[Entry] = []
    at = 0
    while at < len(data) and len(entries) < 12:
        found, at = Entry.decode_prefix(data, at)
        entries.append(found)
    of_first = [item for item in entries if item.log == entries[0].log]
    _, fork = audit(of_first)
    pairs = [contradiction(one, other) for at, one in enumerate(of_first) for other in of_first[:at]]
    lowest = min((found[0] for found in pairs if found is not None), default=None)
    assert (None if fork is None else fork.position) == lowest


def followed(data: bytes) -> None:
    """Entries with their payloads behind them: the native core finds those that ``Entry.decode_prefix`` finds."""
    at = 0
    for begin, found in entries_followed(data):
        expected, end = Entry.decode_prefix(data, at)
        assert begin == at
        assert _fields(found) == _fields(expected)
        at = end + found.size
        assert at <= len(data)
    if at < len(data):
        with suppress(EncodingError):
            left, end = Entry.decode_prefix(data, at)
            assert end + left.size > len(data)


def linked(data: bytes) -> None:
    """Entries without what their reader knows: what the native core makes of them are entries, with their payloads.

    The first byte is the number of the first entry; its link is known, those farther back are where it is odd.
    """
    first = (data[0] if data else 0) + 1
    known = {seq: yamf_hash(bytes([seq % 256])) for seq in links_before(first) if first % 2 or seq == first - 1}
    rest = memoryview(data)[1:]
    found, end = entries_linked(rest, Framing(0), (bytes(32), 300), first, known, 5)
    assert len(found) <= 5
    assert sum(1 + len(encode_varu64(entry.size)) + 130 + entry.size for entry, _ in found) == end <= len(rest)
    for seq, (entry, payload) in enumerate(found, first):
        assert _fields(Entry.decode(entry.encoded)) == _fields(entry)
        assert (entry.log, entry.seq, entry.is_end) == ((bytes(32), 300), seq, False)
        assert all(known[target] == value for target, value in entry.links)
        check_payload(entry, payload)
        known[seq] = entry.hash


def _fields(item: Entry) -> tuple[object, ...]:
    links = item.lipmaalink, item.backlink, item.payload_hash
    return item.is_end, *item.log, item.seq, *links, item.size, item.signature, item.encoded, item.hash


def identity(data: bytes) -> None:
    """An identity's file is read, or refused; what is read can be written again."""
    text = data.decode("ascii", errors="replace")
    sealed = is_sealed(text)
    found = load_identity(text, "x" if _is_cheap(text) else None)
    assert public_key(text) == found.public
    assert sealed == is_sealed(text)
    assert load_identity(dump_identity(found)).seed == found.seed


def _is_cheap(text: str) -> bool:
    """Whether opening a sealed identity takes no time: costs up to the bound are taken, and would take seconds."""
    with suppress(ValueError, RecursionError, TypeError, KeyError, OverflowError):
        costs = json.loads(text)["sealed"]
        return int(costs["opslimit"]) <= 2 and int(costs["memlimit"]) <= 1 << 16
    return False


def _shapes() -> tuple[bytes, ...]:
    """Entries of every shape: first, usual, with a lipmaalink of its own, last, with the greatest numbers."""
    of = build_log(14, payload_size=9)
    last = of.append(b"", is_end=True)
    huge = Identity(bytes(32)).create_entry(
        log_id=2**64 - 1,
        seq=2**64 - 1,
        backlink=last.hash,
        lipmaalink=last.hash,
        size=2**64 - 1,
        payload_hash=last.payload_hash,
        is_end=True,
    )
    return tuple(item.encoded for item in (of.entries[0], of.entries[1], of.entries[3], last, huge))


def _forks() -> tuple[bytes, ...]:
    """A proof of each case."""
    of = build_log(14, payload_size=9)
    other = build_log(14, payload_size=8).entries
    ended = of.make(5, b"the end", is_end=True)
    pairs = (of.entries[4], of.make(5, b"another")), (of.entries[5], other[6]), (of.entries[3], other[4])
    proofs = [ForkProof.of(*pair) for pair in (*pairs, (ended, of.entries[8]))]
    return tuple(found.encode() for found in proofs if found is not None)


def _logs() -> tuple[bytes, ...]:
    of = build_log(9, payload_size=9)
    whole = b"".join(item.encoded for item in of.entries)
    return whole, whole + of.make(5, b"another").encoded, of.make(4, b"", is_end=True).encoded + whole


def _followed() -> tuple[bytes, ...]:
    of = build_log(9, payload_size=9)
    return b"".join(item.encoded + of.payloads[item.hash] for item in of.entries), *_shapes()


def _linked() -> tuple[bytes, ...]:
    of = build_log(9, payload_size=9)
    sent = b"".join(b"\x00\x09" + item.encoded[-130:] + of.payloads[item.hash] for item in of.entries)
    return tuple(bytes([first]) + sent for first in (0, 1, 6, 39, 255))


def _entry_proofs() -> tuple[bytes, ...]:
    """Proofs without and with a payload, a fork and an end."""
    of = build_log(14, payload_size=9)
    plain, short = (EntryProof(tuple(of.entries[seq - 1] for seq in numbers_of(5, top)), 5) for top in (14, 6))
    last = of.append(b"", is_end=True)
    fork = ForkProof.of(of.entries[13], of.make(14, b"another"))
    ended = EntryProof(tuple(of.entries[seq - 1] for seq in numbers_of(13, last.seq)), 13)
    with_all = short._replace(fork=fork, has_payload=True)
    return plain.encode(), short.encode(), ended.encode(), with_all.encode() + of.payloads[short.entry.hash]


_NUMBERS = (0, 1, 247, 248, 255, 256, 65535, 65536, 2**32, 2**64 - 1)
_SALT = "00112233445566778899aabbccddeeff"
_BOX = (
    "000000000000000000000000000000000000000000000000c0ef73c9d5a2f6b27538ba561031d49d"
    "aa6ef8c64130d92ae9da0c2385b824896f96d6538e2a70125e3003749108543d"
)
_SEALED = json.dumps(
    {
        "culm-identity": 1,
        "public": Identity(bytes([1]) * 32).public.hex(),
        "sealed": {"kdf": "argon2id", "salt": _SALT, "opslimit": 1, "memlimit": 8192, "box": _BOX},
    }
)
_FILES = dump_identity(Identity(bytes(32))).encode(), _SEALED.encode()
TARGETS = (
    Target("bamboo.varu64", varu64, (EncodingError,), tuple(map(encode_varu64, _NUMBERS)), longest=16, share=0.1),
    Target("bamboo.yamf", yamf, (EncodingError,), (Entry.decode(_shapes()[1]).hash,), longest=80, share=0.1),
    Target("bamboo.entry", entry, (MalformedEntry,), _shapes(), longest=400, share=0.5),
    Target("bamboo.proof", proof, (MalformedEntry,), _forks(), longest=800, share=0.5),
    Target("bamboo.entryproof", entry_proof, (InvalidProof,), _entry_proofs(), share=0.5),
    Target("bamboo.followed", followed, (), _followed(), share=0.5),
    Target("bamboo.linked", linked, (), _linked(), share=0.5),
    Target("bamboo.log", log, (MalformedEntry,), _logs()),
    Target("bamboo.identity", identity, (ConfigError,), _FILES, share=0.5),
)
