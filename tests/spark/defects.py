"""A data set with every defect there is, spread over inputs of every kind, and what must be said of each entry.

Every case has an author of its own, so that none can hide another. What is written is counted, so that the number of
copies is known, too. All that is authentic can also be given to one store (``items``), whose states must agree.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, Entry, ForkProof, Identity, lipmaa, path, yamf_hash
from culm.spark.batches import payload as states
from culm.store import SQLiteStore
from culm.store.files import BundleWriter
from culm.testing import LogBuilder, tampered

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from culm.errors import Place
    from culm.types import Buffer

VERIFIED, UNVERIFIED, INVALID = "verified", "unverified", "invalid"


@dataclass(frozen=True)
class Expected:
    """What must be said of an entry. ``reason`` is a part of the reason, None if there must be none."""

    entry: Entry
    verdict: str
    reason: str | None
    payload: str


class DataSet:
    """Writes the inputs, and keeps what is expected of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected: dict[bytes, Expected] = {}
        self.copies: Counter[bytes] = Counter()
        self.rejects: dict[str, tuple[int, str]] = {}  # by file name: offset, a part of the reason
        self.items: list[tuple[Entry, bytes | None]] = []
        self.refused: set[bytes] = set()  # entries of bad signatures, which a store does not take
        self._seeds = count(1)
        self._plain = (folder / "plain").open("wb")
        self._bundle_file = (folder / "bundle").open("wb")
        self._bundle = BundleWriter(self._bundle_file)
        self.store = SQLiteStore(folder / "store")
        for case in CASES:
            case(self)
        self._plain.close()
        self._bundle.close()
        self._bundle_file.close()
        for proof in self.store.fork_proofs():
            self.copies.update([proof.first.hash, proof.second.hash])
        self.store.close()
        _damage_store(folder / "store", self)

    @property
    def inputs(self) -> list[str]:
        """The paths of all inputs."""
        return sorted(str(path) for path in self.folder.iterdir() if not path.name.endswith(("-wal", "-shm")))

    def log(self, log_id: int = 0, length: int = 0) -> LogBuilder:
        """A log of a new author."""
        builder = LogBuilder(Identity(next(self._seeds).to_bytes(32, "big")), log_id)
        for seq in range(1, length + 1):
            builder.append(b"payload %d" % seq)
        return builder

    # -- writing -----------------------------------------------------------------------------------------------

    def plain(self, entry: Entry, payload: bytes, name: str | None = None) -> None:
        """Write an entry with its payload to the plain file, or to one of its own."""
        self._wrote(entry, payload)
        if name is None:
            self._plain.write(entry.encoded + payload)
        else:
            (self.folder / name).write_bytes(entry.encoded + payload)

    def file(self, name: str, data: bytes, *, offset: int, reason: str) -> None:
        """Write a file that is damaged at ``offset``."""
        (self.folder / name).write_bytes(data)
        self.rejects[name] = (offset, reason)

    def bundle(self, entry: Entry) -> None:
        """Write an entry alone to the bundle."""
        self._wrote(entry, None)
        self._bundle.entry(entry)

    def frame(self, place: Place, payload: bytes) -> None:
        """Write a payload alone to the bundle."""
        self._bundle.payload(place, len(payload), [payload])

    def proof(self, one: Entry, other: Entry) -> None:
        """Write a fork proof to the bundle."""
        proof = ForkProof.of(one, other)
        assert proof is not None
        self._bundle.proof(proof)
        self._wrote(one, None)
        self._wrote(other, None)

    def stored(self, items: Iterable[tuple[Entry, Buffer | None]]) -> None:
        """Add entries to the store among the inputs."""
        items = list(items)
        self.store.add(items)
        for entry, payload in items:
            self._wrote(entry, None if payload is None else bytes(payload))

    def wrote(self, entry: Entry) -> None:
        """Note an entry that a case wrote by itself."""
        self._wrote(entry, None)

    def _wrote(self, entry: Entry, payload: bytes | None) -> None:
        self.copies[entry.hash] += 1
        self.items.append((entry, payload))

    def expect(
        self, entries: Iterable[Entry], verdict: str, reason: str | None = None, payload: str = states.HELD
    ) -> None:
        """Say what must be found of entries."""
        for entry in entries:
            self.expected[entry.hash] = Expected(entry, verdict, reason, payload)
            if reason == "bad signature":
                self.refused.add(entry.hash)


# -- logs without defects ------------------------------------------------------------------------------------------


def honest(data: DataSet) -> None:
    """A log that is whole in the plain file and partly, once more, in the store and in the bundle."""
    log = data.log(length=45)
    for entry, payload in log.items():
        data.plain(entry, bytes(payload or b""))
    data.stored(log.items(log.entries[:20]))
    for entry in log.entries[10:30]:
        data.bundle(entry)
    data.expect(log.entries, VERIFIED)


def apart(data: DataSet) -> None:
    """A bundle's payloads belong to places; entries and payloads may stand in different inputs, in any order."""
    log = data.log(length=6)
    log.append(b"")
    data.frame(log.entries[0].place, b"payload 1")
    for entry in log.entries[:3]:
        data.bundle(entry)
    data.frame(log.entries[1].place, b"payload 2")
    data.stored((entry, None) for entry in log.entries[2:])
    data.frame(log.entries[3].place, b"payload 4")
    data.frame(log.entries[3].place, b"payload 4")
    data.expect([*log.entries[:2], log.entries[3], log.entries[6]], VERIFIED)
    data.expect([log.entries[2], *log.entries[4:6]], VERIFIED, payload=states.ABSENT)
    for number in (1, 2, 4):
        data.items.append((log.entries[number - 1], b"payload %d" % number))


def kept_in_part(data: DataSet) -> None:
    """A store forgets a payload, and holds the beginning of another."""
    log = data.log(length=3)
    data.stored([(log.entries[0], b"payload 1"), (log.entries[1], b"payload 2"), (log.entries[2], None)])
    data.store.forget(log.entries[1].place)
    sink = data.store.payload_sink(log.entries[2].place)
    sink.write(b"pay")
    sink.close()
    data.expect(log.entries[:1], VERIFIED)
    data.expect(log.entries[1:2], VERIFIED, payload=states.FORGOTTEN)
    data.expect(log.entries[2:3], VERIFIED, payload=states.PARTIAL)


# -- signatures and bytes ------------------------------------------------------------------------------------------

REGIONS = {
    "tag": 0,
    "author": 1,
    "log id": 33,
    "sequence number": 34,
    "lipmaalink prefix": 35,
    "lipmaalink": 40,
    "backlink prefix": 101,
    "backlink": 110,
    "size": 167,
    "payload hash prefix": 168,
    "payload hash": 180,
    "signature": 234,
    "signature's end": -1,
}


def bad_signatures(data: DataSet) -> None:
    """Entry 13 with a bit flipped in each region: no entry any more, or one of a bad signature. It harms nobody."""
    log = data.log(length=14)
    for entry, payload in log.items():
        data.plain(entry, bytes(payload or b""))
    data.expect(log.entries, VERIFIED)
    for region, at in REGIONS.items():
        name = f"flipped {region}"
        encoded = tampered(log.entries[12], at)
        if region.endswith("prefix"):
            data.file(name, encoded + b"payload 13", offset=at, reason="not an entry")
            continue
        entry = Entry.decode(encoded)
        data.plain(entry, b"payload 13", name)
        if region == "size":  # 11 where 10 follow
            data.rejects[name] = (len(encoded) + 10, "cut short")
        found = {"size": states.PARTIAL, "payload hash": states.MISMATCH}.get(region, states.HELD)
        data.expect([entry], INVALID, "bad signature", found)


def bad_signature_on_the_path(data: DataSet) -> None:
    """Where an entry's signature is bad it gives nobody a path."""
    log = data.log(length=4)
    bad = Entry.decode(tampered(log.entries[1]))
    for entry in (log.entries[0], bad, *log.entries[2:]):
        data.bundle(entry)
    data.expect([bad], INVALID, "bad signature", states.ABSENT)
    data.expect([log.entries[2]], UNVERIFIED, "no path to entry 1: needs 2", states.ABSENT)
    data.expect([log.entries[0], log.entries[3]], VERIFIED, payload=states.ABSENT)


# -- paths ---------------------------------------------------------------------------------------------------------


def missing_path(data: DataSet) -> None:
    """Entries whose certificate path is not there, with what they miss."""
    log = data.log(length=14)
    held = {seq: log.entries[seq - 1] for seq in (1, 2, 3, 9, 10, 12, 13, 14)}
    data.stored((entry, log.payloads[entry.hash]) for entry in held.values())
    data.expect([held[1], held[2], held[3]], VERIFIED)
    data.expect([held[9]], UNVERIFIED, "no path to entry 1: needs 8")
    data.expect([held[10]], UNVERIFIED, "no path to entry 1: needs a path for 9")
    data.expect([held[12]], UNVERIFIED, "no path to entry 1: needs 11 or 8")
    data.expect([held[13]], UNVERIFIED, "no path to entry 1: needs 4, or a path for 12")
    data.expect([held[14]], UNVERIFIED, "no path to entry 1: needs a path for 13")


def _sparse(data: DataSet, log_id: int, seqs: Iterable[int], other: dict[int, bytes] | None = None) -> list[Entry]:
    """Entries of these numbers, ascending. Links to what is not there lead to made-up hashes, ``other`` is a link."""
    identity = data.log().identity
    hashes: dict[int, bytes] = {}
    entries = []
    for seq in seqs:
        backlink, lipmaalink = (
            None if seq == 1 else (other or {}).get(target) or hashes.get(target) or yamf_hash(b"absent %d" % target)
            for target in (seq - 1, lipmaa(seq))
        )
        entries.append(
            identity.create_entry(
                log_id=log_id,
                seq=seq,
                backlink=backlink,
                lipmaalink=lipmaalink,
                size=1,
                payload_hash=yamf_hash(b"."),
            )
        )
        hashes[seq] = entries[-1].hash
    return entries


def greatest_numbers(data: DataSet) -> None:
    """Paths, missing ones and forks up to the greatest sequence number and log id, and around 2^63."""
    whole = _sparse(data, MAX_U64, reversed(path(MAX_U64, 1)))
    for entry in whole:
        data.plain(entry, b".")
    data.expect(whole, VERIFIED)

    below, greatest = _sparse(data, MAX_U64 - 1, [MAX_U64 - 1, MAX_U64])
    for entry in (greatest, below):
        data.bundle(entry)
    data.expect([below], UNVERIFIED, f"needs {MAX_U64 - 2}", states.ABSENT)
    data.expect([greatest], UNVERIFIED, f"needs {MAX_U64 - 4}, or a path for {MAX_U64 - 1}", states.ABSENT)

    middle = 2**63
    around = _sparse(data, middle, [middle - 1, middle])
    data.stored((entry, b".") for entry in around)
    data.expect(around, UNVERIFIED, "no path to entry 1")

    forked = _sparse(data, middle - 1, [middle - 2, middle - 1, middle, middle + 1], {middle: yamf_hash(b"not it")})
    data.stored((entry, b".") for entry in forked)
    data.expect(forked[:2], UNVERIFIED, "no path to entry 1")
    data.expect(forked[2:], INVALID, f"fork at {middle}")


# -- forks ---------------------------------------------------------------------------------------------------------


def fork_same_number(data: DataSet) -> None:
    """Case 1: two entries of one number. The lower of the two forks is the one that counts."""
    log = data.log(length=8)
    other = log.make(5, b"other 5")
    for entry in (*log.entries, other, log.make(7, b"other 7")):
        data.plain(entry, log.payloads[entry.hash])
        data.expect([entry], *((VERIFIED, None) if entry.seq < 5 else (INVALID, "fork at 5")))


def fork_same_number_other_link(data: DataSet) -> None:
    """Case 1 and 2 together: where two entries of one number differ in a link, its target is the position."""
    log = data.log(length=6)
    other = log.make(6, b"payload 6", backlink=yamf_hash(b"another 5"))
    data.stored([*log.items(), (other, b"payload 6")])
    data.expect(log.entries[:4], VERIFIED)
    data.expect([*log.entries[4:], other], INVALID, "fork at 5")


def fork_common_target(data: DataSet) -> None:
    """Case 2: two entries expect different entries at a number that nobody holds."""
    log = data.log(length=11)
    other = log.make(12, b"12", lipmaalink=yamf_hash(b"another 8"))
    held = [entry for entry in log.entries if entry.seq != 8]
    for entry in (*held, other):
        data.bundle(entry)
    data.expect(held[:7], VERIFIED, payload=states.ABSENT)
    reason = "fork at 8"
    data.expect([*held[7:], other], INVALID, reason, states.ABSENT)


def fork_wrong_link(data: DataSet) -> None:
    """Case 3: a link that is not the hash of the entry it leads to. The two stand in different inputs."""
    log = data.log(length=4)
    wrong = log.make(5, b"5", backlink=yamf_hash(b"another 4"))
    data.stored(log.items())
    data.plain(wrong, b"5")
    data.expect(log.entries[:3], VERIFIED)
    reason = "fork at 4"
    data.expect([log.entries[3], wrong], INVALID, reason)


def fork_after_end(data: DataSet) -> None:
    """Case 4: the log goes on after its end."""
    log = data.log(length=4)
    log.append(b"end", is_end=True)
    log.append(b"after")
    log.append(b"and more")
    for entry, payload in log.items():
        data.plain(entry, bytes(payload or b""))
    data.expect(log.entries[:4], VERIFIED)
    data.expect(log.entries[4:], INVALID, "fork at 5")


def fork_proof(data: DataSet) -> None:
    """A fork proof that comes alone is two entries, and a fork of the log held elsewhere."""
    log = data.log(length=4)
    other = log.make(3, b"other 3")
    data.proof(log.entries[2], other)
    data.stored(log.items(log.entries[:2]))
    data.plain(log.entries[3], b"payload 4")
    data.expect(log.entries[:2], VERIFIED)
    data.expect([log.entries[2], other], INVALID, "fork at 3", states.ABSENT)
    data.expect(log.entries[3:], INVALID, "fork at 3")


def ended(data: DataSet) -> None:
    """A log that ends where it ends is no fork."""
    log = data.log(length=3)
    log.append(b"end", is_end=True)
    data.stored(log.items())
    data.expect(log.entries, VERIFIED)


# -- payloads ------------------------------------------------------------------------------------------------------


def wrong_payload(data: DataSet) -> None:
    """Payloads that are not the ones the entries name, in each kind of input; the entries stand."""
    log = data.log(length=5)
    data.plain(log.entries[0], b"PAYLOAD 1")
    data.bundle(log.entries[1])
    data.frame(log.entries[1].place, b"another payload")
    data.items.append((log.entries[1], b"another payload"))
    data.plain(log.entries[2], b"PAYLOAD 3")
    data.stored([(log.entries[2], b"payload 3")])  # a good copy is better than the bad one
    for entry in log.entries[3:]:
        data.plain(entry, log.payloads[entry.hash])
    data.expect(log.entries[:2], VERIFIED, payload=states.MISMATCH)
    data.expect(log.entries[2:], VERIFIED)


def payload_of_a_branch(data: DataSet) -> None:
    """In a fork a payload belongs to the entry it fits, and the other has none; one that fits neither is wrong."""
    log = data.log(length=3)
    other = log.make(2, b"other 2")
    third = log.make(3, b"other 3")
    for entry in (*log.entries, other, third):
        data.bundle(entry)
    data.frame(other.place, b"other 2")
    data.frame(third.place, b"payload 3")
    data.frame(third.place, b"neither")
    data.expect(log.entries[:1], VERIFIED, payload=states.ABSENT)
    data.expect([log.entries[1]], INVALID, "fork at 2", states.ABSENT)
    data.expect([other, log.entries[2]], INVALID, "fork at 2")
    data.expect([third], INVALID, "fork at 2", states.MISMATCH)
    data.items += [(other, b"other 2"), (log.entries[2], b"payload 3"), (third, b"neither")]


def size_lies(data: DataSet) -> None:
    """A payload of the right hash and another size makes its log invalid from there on; too long or too short."""
    for size in (8, 10):
        log = data.log(length=4)
        lie = log.make(5, b"payload 5", size=size)
        for entry in (*log.entries, lie):
            data.bundle(entry)
        data.frame(lie.place, b"payload 5")
        data.items.append((lie, b"payload 5"))
        data.expect(log.entries, VERIFIED, payload=states.ABSENT)
        data.expect([lie], INVALID, "payload size mismatch at 5", states.SIZE_MISMATCH)


def size_lie_in_a_store(data: DataSet) -> None:
    """A store that saw a payload of another size says so. A fork above the lie changes nothing."""
    log = data.log(length=2)
    log.entries.append(log.make(3, b"payload 3", size=1))
    for seq in (4, 5, 6):
        log.append(b"payload %d" % seq)
    other = log.make(5, b"other")
    data.stored([*log.items(), (other, b"other")])
    data.expect(log.entries[:2], VERIFIED)
    data.expect([log.entries[2]], INVALID, "payload size mismatch at 3", states.SIZE_MISMATCH)
    data.expect([*log.entries[3:], other], INVALID, "payload size mismatch at 3")


# -- damaged inputs ------------------------------------------------------------------------------------------------


def damaged_files(data: DataSet) -> None:
    """Files that are cut or are nothing: what can be read of them is."""
    log = data.log(length=4)
    encoded = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    whole = b"".join(encoded[:2])
    data.file("cut in an entry", whole + encoded[2][:150], offset=len(whole) + 150, reason="cut short")
    data.file("cut in a payload", encoded[2][:-3], offset=len(encoded[2]) - 3, reason="cut short")
    data.file("garbage", bytes(range(255, 0, -1)) * 9, offset=0, reason="not an entry")
    data.file("garbage behind", encoded[3] + b"\xff" * 400, offset=len(encoded[3]), reason="not an entry")
    for entry in log.entries:
        data.wrote(entry)
    data.items += [(entry, log.payloads[entry.hash]) for entry in log.entries if entry.seq != 3]
    data.expect(log.entries, VERIFIED)
    data.expect(log.entries[2:3], VERIFIED, payload=states.PARTIAL)


def cut_bundle(data: DataSet) -> None:
    """A bundle without its end."""
    log = data.log(length=1)
    with (data.folder / "cut bundle").open("wb") as stream:
        BundleWriter(stream).entry(log.entries[0])
    data.wrote(log.entries[0])
    data.rejects["cut bundle"] = ((data.folder / "cut bundle").stat().st_size, "the bundle's end is missing")
    data.expect(log.entries, VERIFIED, payload=states.ABSENT)


def _damage_store(path: Path, data: DataSet) -> None:
    """Change bytes inside the store: a payload, and an entry that is lost with that."""
    log = data.log(length=3)
    with SQLiteStore(path) as store:
        store.add(log.items())
        payload = store.get(log.entries[1].place)
        lost = store.get(log.entries[2].place)
        assert payload is not None
        assert lost is not None
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE payloads SET piece = x'00' WHERE entry = ?", (payload.id,))
        connection.execute("UPDATE entries SET encoded = x'00ff' WHERE id = ?", (lost.id,))
    for entry in log.entries[:2]:
        data.wrote(entry)
    data.items.append((log.entries[0], b"payload 1"))
    data.expect(log.entries[:1], VERIFIED)
    data.expect(log.entries[1:2], VERIFIED, payload=states.MISMATCH)
    data.rejects["store"] = (lost.id, "not an entry")


CASES = (
    honest,
    apart,
    kept_in_part,
    bad_signatures,
    bad_signature_on_the_path,
    missing_path,
    greatest_numbers,
    fork_same_number,
    fork_same_number_other_link,
    fork_common_target,
    fork_wrong_link,
    fork_after_end,
    fork_proof,
    ended,
    wrong_payload,
    payload_of_a_branch,
    size_lies,
    size_lie_in_a_store,
    damaged_files,
    cut_bundle,
)
