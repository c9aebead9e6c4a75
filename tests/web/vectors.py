"""What the implementation in TypeScript is compared with: adversarial logs and proofs, with Python's verdicts; paths.

``python -m tests.web.vectors FOLDER`` writes the files, as ``make web`` does. The same seed makes the same logs;
``--seed`` makes others.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm.bamboo import (
    Entry,
    ForkProof,
    Identity,
    audit,
    certificate_pool,
    encode_varu64,
    lipmaa,
    path,
    spine,
    yamf_hash,
)
from culm.bamboo.entry import encode_unsigned
from culm.bamboo.entryproof import EntryProof, check_proof, numbers_of
from culm.bamboo.lipmaa import has_lipmaalink, links_across
from culm.bamboo.verification import check_payload, is_authentic
from culm.errors import InvalidProof, MalformedEntry, PayloadMismatch, PayloadSizeMismatch
from culm.intervals import At, Connection, FromGreatest, Regular, Request
from culm.intervals.codec import push_message
from culm.intervals.messages import ResponseCredit
from culm.testing.builders import LogBuilder
from fuzz.crafted import TORSION, UNREDUCED, Signer
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable

LOGS = 1000
PROOFS = 100  # Right ones, and to each ten changed ones.


@dataclass
class _Made:
    """A log that was attacked: its entries as bytes, each with a payload that is claimed to be its own."""

    rng: random.Random
    log: LogBuilder
    items: list[tuple[bytes, bytes]] = field(default_factory=list)

    def some(self) -> Entry:
        return self.rng.choice(self.log.entries)

    def add(self, entry: Entry) -> None:
        self.items.append((entry.encoded, self.log.payloads[entry.hash]))


def _honest(rng: random.Random) -> LogBuilder:
    log = LogBuilder(Identity(rng.randbytes(32)), rng.choice([0, 1, 247, 248, 2**32, 2**64 - 1]))
    for _ in range(rng.randint(1, 45)):
        log.append(rng.randbytes(rng.choice([0, 1, 20, 300])))
    return log


def _same_number(made: _Made) -> None:
    made.add(made.log.make(made.some().seq, made.rng.randbytes(9)))


def _other_link(made: _Made) -> None:
    """An entry whose link is to an entry that nobody has."""
    seq, wrong = made.some().seq, yamf_hash(made.rng.randbytes(4))
    if has_lipmaalink(seq) and made.rng.random() < 0.5:
        made.add(made.log.make(seq, b"other link", lipmaalink=wrong))
    elif seq > 1:
        made.add(made.log.make(seq, b"other link", backlink=wrong))


def _behind_the_end(made: _Made) -> None:
    made.add(made.log.make(made.some().seq, b"the end", is_end=True))


def _branch(made: _Made) -> None:
    """A second history from some number on."""
    at = made.some().seq
    branch = LogBuilder(made.log.identity, made.log.log_id)
    branch.entries = made.log.entries[: at - 1]
    for _ in range(made.rng.randint(1, 8)):
        branch.append(made.rng.randbytes(5))
    made.items += [(entry.encoded, branch.payloads[entry.hash]) for entry in branch.entries[at - 1 :]]


def _flipped(made: _Made) -> None:
    data = bytearray(made.some().encoded)
    data[made.rng.randrange(len(data))] ^= 1 << made.rng.randrange(8)
    made.items.append((bytes(data), b""))


def _cut_or_longer(made: _Made) -> None:
    data = made.some().encoded
    made.items.append((data[: made.rng.randrange(len(data))] if made.rng.random() < 0.5 else data + b"\0", b""))


def _long_number(made: _Made) -> None:
    """The log id in a form that is longer than it needs to be, and signed like that."""
    data = made.some().encoded
    short = encode_varu64(made.log.log_id)
    longer = b"\xff" + made.log.log_id.to_bytes(8, "big")
    unsigned = data[:33] + longer + data[33 + len(short) : -64]
    made.items.append((unsigned + made.log.identity.sign(unsigned), b""))


def _gap(made: _Made) -> None:
    lacked = {made.some().encoded for _ in range(made.rng.randint(1, 5))}
    made.items = [item for item in made.items if item[0] not in lacked]


def _twice(made: _Made) -> None:
    made.add(made.some())


def _wrong_payload(made: _Made) -> None:
    made.items.append((made.some().encoded, made.rng.randbytes(7)))


def _false_size(made: _Made) -> None:
    made.add(made.log.make(made.some().seq, b"a false size", size=made.rng.choice([0, 11, 13, 2**63])))


def _crafted(made: _Made) -> None:
    """An entry of which rules of signatures differ: with torsion in the author or in R, or encoded in another way."""
    rng = made.rng
    scalars = [rng.randbytes(31) + b"\0" for _ in range(2)]
    signer = Signer(scalars[0], rng.randrange(8))
    public = signer.public if rng.random() < 0.7 else rng.choice([*TORSION, *UNREDUCED])
    unsigned = encode_unsigned(
        is_end=False,
        author=public,
        log_id=made.log.log_id,
        seq=1,
        lipmaalink=None,
        backlink=None,
        size=7,
        payload_hash=yamf_hash(b"crafted"),
    )
    # Numbered, so that the hash, and with it whether a torsion part vanishes, is another one each time.
    signature = signer.sign(unsigned, scalars[1], rng.choice([0, 0, rng.randrange(8)]))
    made.items.append((unsigned + signature, b"crafted"))


_ATTACKS = (
    _same_number,
    _other_link,
    _behind_the_end,
    _branch,
    _flipped,
    _cut_or_longer,
    _long_number,
    _gap,
    _twice,
    _wrong_payload,
    _false_size,
    _crafted,
)


def adversarial(seed: int) -> list[tuple[bytes, bytes]]:
    """Entries and payloads as an attacker gives them, in any order."""
    rng = random.Random(seed)
    log = _honest(rng)
    made = _Made(rng, log, [(entry.encoded, log.payloads[entry.hash]) for entry in log.entries])
    for _ in range(rng.randint(0, 5)):
        rng.choice(_ATTACKS)(made)
    rng.shuffle(made.items)
    return made.items


def judged(items: Iterable[tuple[bytes, bytes]]) -> list[dict[str, str]]:
    """What Python says about each entry: malformed, forged, or its verdict in its log; and about its payload."""
    rows: list[dict[str, str]] = []
    authentic: dict[tuple[bytes, int], list[Entry]] = {}
    decoded: list[Entry | None] = []
    for encoded, payload in items:
        try:
            entry = Entry.decode(encoded)
        except MalformedEntry:
            decoded.append(None)
            rows.append({"entry": encoded.hex(), "payload": payload.hex(), "verdict": "malformed", "with": ""})
            continue
        if is_authentic(entry):
            authentic.setdefault(entry.log, []).append(entry)
        decoded.append(entry)
        rows.append(
            {"entry": encoded.hex(), "payload": payload.hex(), "verdict": "forged", "with": _about(entry, payload)}
        )
    verdicts = {}
    for entries in authentic.values():
        found, fork = audit(entries)
        for entry, is_verified in found:
            is_invalid = fork is not None and entry.seq >= fork.position
            verdicts[entry.encoded] = "invalid" if is_invalid else "verified" if is_verified else "unverified"
    for row, one in zip(rows, decoded, strict=True):
        if one is not None and one.encoded in verdicts:
            row["verdict"] = verdicts[one.encoded]
    return rows


def _about(entry: Entry, payload: bytes) -> str:
    try:
        check_payload(entry, payload)
    except PayloadSizeMismatch:
        return "false size"
    except PayloadMismatch:
        return "another payload"
    return "right"


def paths() -> list[dict[str, Any]]:
    """Numbers, their links, paths and certificate pools; as text, since numbers of JavaScript are too small."""
    rng = random.Random(1)
    numbers = [*range(1, 200), 1000, 2**63, 2**64 - 1, 6078832729528464401, 18236498188585393201]
    numbers += [rng.randrange(1, 2 ** rng.randint(8, 64)) for _ in range(200)]
    return [
        {
            "seq": str(seq),
            "lipmaa": str(lipmaa(seq)),
            "spine": str(spine(seq)),
            "goal": str(goal := rng.randint(1, seq)),
            "path": [*map(str, path(seq, goal))],
            "pool": [*map(str, certificate_pool(seq))],
            "across": sorted(map(str, links_across(seq))) if seq < 2**63 else [],
        }
        for seq in numbers
    ]


def _asking(number: int, log: LogBuilder, first: int, most: int) -> bytes:
    interval = Regular(At(first, 0), FromGreatest(0))
    return push_message(Request(number, log.identity.public, log.log_id, interval, greatest_size=most))


def _talk(name: str, log: LogBuilder, first: int, other: Entry | None = None) -> dict[str, Any]:
    """What a node answers to a page that asks for a log from a number on, and what the page makes of it.

    ``other``: an entry that contradicts one of the log.
    """
    store, most = MemoryStore(), 1000
    store.looks_for_forks = other is not None
    for entry in log.entries if other is None else [*log.entries, other]:
        store.put(entry, log.payloads[entry.hash])
    node = Connection(store)
    answers = [node.data_to_send()]
    wanted = [entry for entry in log.entries if entry.seq >= first] if other is None else []
    behind = [entry.seq + 1 for entry in wanted if entry.size > most]  # Where a response ends, and the next begins.
    for number, begin in enumerate([first, *behind]):
        credit = b"" if number else push_message(ResponseCredit(1 << 18))
        list(node.receive_data(credit + _asking(number, log, begin, most), 0.0))
        while node.respond(1 << 20):
            pass
        answers.append(node.data_to_send())
    shown = [[entry.encoded.hex(), None if entry.size > most else log.payloads[entry.hash].hex()] for entry in wanted]
    return {
        "name": name,
        "author": log.identity.public.hex(),
        "log": str(log.log_id),
        "from": str(first),
        "most": most,
        "request": _asking(0, log, first, most).hex(),
        "node": [answer.hex() for answer in answers],
        "events": shown if other is None else ["disagreement"],
        "verdict": "verified" if first == 1 else "unverified",
    }


def talks() -> list[dict[str, Any]]:
    """Conversations with a node, as bytes."""
    rng = random.Random(2)

    def log_of(sizes: Iterable[int], log_id: int = 5) -> LogBuilder:
        log = LogBuilder(Identity(rng.randbytes(32)), log_id)
        for size in sizes:
            log.append(rng.randbytes(size))
        return log

    forked = log_of([10] * 9)
    return [
        _talk("a whole log", log_of([20] * 41), 1),
        _talk("a log with a large number", log_of([3, 0, 300, 0, 0, 7], 2**64 - 1), 1),
        _talk("the rest of a log", log_of([10] * 30), 14),
        _talk("payloads that are too large", log_of([10, 2000, 10, 10, 3000, 3000, 10]), 1),
        _talk("a log that nobody has", LogBuilder(Identity(bytes(32))), 1),
        _talk("a forked log", forked, 1, forked.make(7, b"another")),
    ]


def proofs(seed: int) -> list[dict[str, Any]]:
    """Files with what Python makes of each: right proofs of all kinds, each with changed ones; null: refused."""
    rng = random.Random(seed)
    found = []
    for _ in range(PROOFS):
        log = _honest(rng)
        if rng.random() < 0.2:
            log.append(b"the end", is_end=True)
        right = _a_proof(rng, log)
        found += [_proved(right, log), *(_proved(_mutated(rng, right), log) for _ in range(10))]
    return found


def _a_proof(rng: random.Random, log: LogBuilder) -> bytes:
    seq, top = sorted(rng.randint(1, len(log.entries)) for _ in range(2))
    entries = tuple(log.entries[number - 1] for number in numbers_of(seq, top))
    fork, at = None, rng.randint(1, len(log.entries))
    if rng.random() < 0.4:  # Above the top, where it is told; at it or below, where there is no proof.
        kinds = log.make(at, rng.randbytes(5)), log.make(at + 1, b"other link", backlink=yamf_hash(rng.randbytes(4)))
        fork = ForkProof.of(log.entries[at - 1], rng.choice(kinds))
    has_payload = rng.random() < 0.5
    proof = EntryProof(entries, seq, fork, has_payload)
    return proof.encode() + (log.payloads[proof.entry.hash] if has_payload else b"")


def _mutated(rng: random.Random, right: bytes) -> bytes:
    data, at = bytearray(right), rng.randrange(len(right))
    match rng.randrange(5):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            del data[at : at + rng.randint(1, 64)]
        case 2:
            data[at:at] = rng.randbytes(rng.randint(1, 64))
        case 3:
            del data[at:]
        case _:
            data[rng.randrange(11, 50)] = rng.randrange(256)  # Among the flags and the numbers.
    return bytes(data)


def _proved(data: bytes, log: LogBuilder) -> dict[str, Any]:
    try:
        proof, payload = check_proof(data, log.identity.public)
    except InvalidProof as error:
        return {"file": data.hex(), "author": log.identity.public.hex(), "proved": None, "reason": str(error)}
    shown = {
        "seq": str(proof.entry.seq),
        "hash": proof.entry.hash.hex(),
        "top": str(proof.top.seq),
        "ends": proof.top.is_end,
        "entries": [str(entry.seq) for entry in proof.entries],
        "forkedAt": None if proof.fork is None else str(proof.fork.position),
        "payload": None if payload is None else payload.hex(),
    }
    return {"file": data.hex(), "author": log.identity.public.hex(), "proved": shown}


def write(folder: Path, seed: int) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    logs = [judged(adversarial(seed * LOGS + number)) for number in range(LOGS)]
    (folder / "logs.json").write_text(json.dumps(logs), encoding="ascii")
    (folder / "paths.json").write_text(json.dumps(paths()), encoding="ascii")
    (folder / "talks.json").write_text(json.dumps(talks()), encoding="ascii")
    (folder / "proofs.json").write_text(json.dumps(proofs(seed)), encoding="ascii")
    numbers = [0, 247, 248, 255, 256, 65535, 65536, 2**64 - 1]
    (folder / "numbers.json").write_text(
        json.dumps([[str(number), encode_varu64(number).hex()] for number in numbers]), encoding="ascii"
    )


def main() -> None:
    """Write the vectors into a folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.vectors", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write(options.folder, options.seed)


if __name__ == "__main__":
    main()
