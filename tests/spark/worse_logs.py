"""Random logs, and what else may be wrong: great numbers, forged signatures, all kinds of copies, damaged files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, Entry, Identity, has_lipmaalink, lipmaa, path, yamf_hash
from culm.store.files import BundleWriter
from culm.testing import tampered
from tests.bamboo import oracle
from tests.spark.random_logs import RandomLogs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.spark.random_logs import OfLog

TOPS = (MAX_U64, MAX_U64 - 1, 2**63 + 1, (3**40 - 1) // 2)  # the last one's path is as short as can be
LOG_IDS = (2**63 - 1, 2**63, MAX_U64 - 1)
PAYLOAD_HASH = -130  # where an entry's payload hash begins: it and the signature come last
LOG_ID = 33


class WorseLogs(RandomLogs):
    """``items`` as of ``RandomLogs``; ``forged`` are entries of bad signatures, which no store takes.

    ``rejects`` are the damaged files that were written: where the damaged entry begins, where the file ends, and a part
    of what is to be said of it.
    """

    def __init__(self, seed: int, count: int, share_unsigned: float = 0) -> None:
        super().__init__(seed, count, share_unsigned)
        draw = self._random
        self.logs += [self._far(count + 1 + number, top) for number, top in enumerate(TOPS)]
        entries = [entry for of_log in self.logs for entry in of_log if entry not in self.unsigned]
        chosen = draw.sample(entries, len(entries) // 20)
        self.forged = [Entry.decode(tampered(entry, -draw.randint(1, 64))) for entry in chosen]
        self.rejects: dict[str, tuple[int, int, str]] = {}

    def _far(self, seed: int, top: int) -> OfLog:
        """A path from a great number, with neighbours; what is not there is linked to as if it were."""
        draw, identity, log_id = self._random, Identity(seed.to_bytes(32, "big")), self._random.choice(LOG_IDS)
        hashes: dict[int, bytes] = {}
        payloads: dict[Entry, bytes] = {}

        def make(seq: int, payload: bytes, *, is_wrong: bool) -> Entry:
            links = [hashes.get(at) or yamf_hash(b"absent %d" % at) for at in (seq - 1, lipmaa(seq))]
            if is_wrong and seq > 1:
                links[draw.choice([0, -1] if has_lipmaalink(seq) else [0])] = yamf_hash(b"nobody has it")
            entry = identity.create_entry(
                log_id=log_id,
                seq=seq,
                backlink=links[0] if seq > 1 else None,
                lipmaalink=links[1] if seq > 1 else None,
                size=len(payload) - (is_wrong and draw.random() < 0.2),
                payload_hash=yamf_hash(payload),
                is_end=is_wrong and draw.random() < 0.2,
            )
            payloads[entry] = payload
            return entry

        members = path(top, 1)
        beside = [seq + draw.choice([-1, 1]) for seq in draw.sample(members, 5)]
        numbers = sorted({*members, *(seq for seq in beside if 1 < seq <= MAX_U64)})
        for seq in numbers:
            hashes[seq] = make(seq, b"%d" % seq, is_wrong=False).hash
        for number in range(draw.choice([0, 1, 3])):
            make(draw.choice(numbers), b"other %d" % number, is_wrong=True)
        share = draw.choice([0.5, 0.95, 1, 1])
        return {
            entry: payload if draw.random() < 0.7 else None
            for entry, payload in payloads.items()
            if draw.random() < share
        }

    def write(self, folder: Path) -> list[str]:
        """Write the items, and more copies of some: without payloads, with wrong ones, ahead of damaged bytes."""
        paths = super().write(folder)
        draw = self._random
        wrong, bare = folder / "wrong", folder / "bare"
        with bare.open("wb") as stream, wrong.open("wb") as plain:
            bundle = BundleWriter(stream)
            for entry in self.forged:
                bundle.entry(entry)
            for entry, _ in self.items:
                if draw.random() < 0.2:
                    bundle.entry(entry)
                elif draw.random() < 0.2:
                    plain.write(entry.encoded + b"?" * entry.size)
            bundle.close()
        whole = [
            (entry, payload) for entry, payload in self.items if payload is not None and len(payload) == entry.size
        ]
        for number in range(9):
            damaged = folder / f"damaged {number}"
            before = b"".join(
                entry.encoded + bytes(payload) for entry, payload in draw.sample(whole, draw.randint(0, 2))
            )
            data, reason = self._mangled(draw.choice(whole)[0].encoded, number % 3)
            damaged.write_bytes(before + data)
            self.rejects[str(damaged)] = len(before), len(before) + len(data), reason
        return [*paths, str(wrong), str(bare), *self.rejects]

    def _mangled(self, encoded: bytes, kind: int) -> tuple[bytes, str]:
        """The bytes of an entry that is cut, names its log in more bytes than are needed, or has no YAMF hash."""
        if kind == 0:
            return encoded[: self._random.randint(1, len(encoded) - 1)], "cut short"
        data = bytearray(encoded)
        if kind == 1 and data[LOG_ID] < 248:
            data[LOG_ID : LOG_ID + 1] = bytes([248, data[LOG_ID]])
        elif kind == 1:
            data[LOG_ID + 1 : LOG_ID + 9] = (7).to_bytes(8, "big")
        else:
            data[PAYLOAD_HASH + self._random.randint(0, 1)] ^= self._random.choice([1, 2, 128])
        return bytes(data), "not an entry"


def vouched_for(of_log: Iterable[Entry], signed: set[Entry]) -> set[Entry]:
    """The entries with a good signature, and all that they lead to by links: what heads take for authentic."""
    found = set(signed)
    for entry in sorted(of_log, key=lambda entry: -entry.seq):
        if any((entry.seq, entry.hash) in oracle.links(above).items() for above in found):
            found.add(entry)
    return found
