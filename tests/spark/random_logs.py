"""Many small logs with anything wrong in them, made from one seed and spread at random over a few inputs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, Entry, Identity, certificate_pool, has_lipmaalink, path, yamf_hash
from culm.store import SQLiteStore
from culm.store.files import BundleWriter
from culm.testing import LogBuilder, tampered

if TYPE_CHECKING:
    from pathlib import Path

    OfLog = dict[Entry, bytes | None]


class RandomLogs:
    """``items`` are all entries with their payloads, None for a payload that nobody has.

    ``unsigned`` are entries that their author never signed properly, but links to: so large a share of all. No store
    takes them.
    """

    def __init__(self, seed: int, count: int, share_unsigned: float = 0) -> None:
        self._random = random.Random(seed)
        self._share_unsigned = share_unsigned
        self.unsigned: set[Entry] = set()
        self.logs = [self._log(number) for number in range(1, count + 1)]

    @property
    def items(self) -> list[tuple[Entry, bytes | None]]:
        """All entries with their payloads, in random order."""
        items = [item for log in self.logs for item in log.items()]
        self._random.shuffle(items)
        return items

    def unsigned_items(self) -> list[Entry]:
        """The entries among the items that their author never signed properly."""
        return [entry for of_log in self.logs for entry in of_log if entry in self.unsigned]

    def by_log(self) -> list[OfLog]:
        """The entries of each log."""
        return self.logs

    def _log(self, seed: int) -> OfLog:
        draw = self._random
        log = LogBuilder(Identity(seed.to_bytes(32, "big")), draw.choice([0, 1, MAX_U64]))
        length = draw.randint(1, 44)
        for seq in range(1, length + 1):
            self._append(log, b"%d" % seq)
        histories = [log.entries]
        made = list(log.entries)
        if draw.random() < 0.3:  # the author writes a second history
            branch = LogBuilder(log.identity, log.log_id)
            branch.entries = log.entries[: draw.randrange(length)]
            parted = len(branch.entries)
            for seq in range(parted + 1, draw.randint(parted + 1, length + 3) + 1):
                self._append(branch, b"branch %d" % seq)
            log.payloads |= branch.payloads
            histories.append(branch.entries)
            made += branch.entries[parted:]
        for number in range(draw.choice([0, 0, 1, 2, 4])):
            seq = draw.randint(1, length)
            other = yamf_hash(b"nobody has %d" % draw.randint(0, 1))
            made.append(
                log.make(
                    seq,
                    b"other %d" % number,
                    is_end=draw.random() < 0.2,
                    size=7 if draw.random() < 0.8 else draw.choice([6, 8]),
                    backlink=other if seq > 1 and draw.random() < 0.4 else None,
                    lipmaalink=other if has_lipmaalink(seq) and draw.random() < 0.4 else None,
                )
            )
        share = draw.choice([0.3, 0.8, 0.95, 1, 1])
        kept = [entry for entry in made if draw.random() < share] or made[:1]
        if draw.random() < 0.3:
            kept = self._pools(histories)
        return {entry: log.payloads[entry.hash] if draw.random() < 0.7 else None for entry in kept}

    def _append(self, log: LogBuilder, payload: bytes) -> None:
        entry = log.append(payload)
        if self._random.random() < self._share_unsigned:
            log.entries[-1] = Entry.decode(tampered(entry))
            log.payloads[log.entries[-1].hash] = payload
            self.unsigned.add(log.entries[-1])

    def _pools(self, histories: list[list[Entry]]) -> list[Entry]:
        """Some entries with their certificate pools, of any history; of some only the path down to entry 1."""
        draw, kept = self._random, list[Entry]()
        for _ in range(draw.randint(1, 4)):
            history = draw.choice(histories)
            seq = draw.randint(1, len(history))
            members = certificate_pool(seq, len(history)) if draw.random() < 0.5 else path(seq, 1)
            kept += [history[member - 1] for member in members]
        return kept

    def write(self, folder: Path) -> list[str]:
        """Write the items into a plain file, a bundle and a store, some of them twice; the paths."""
        draw = self._random
        with (
            (folder / "plain").open("wb") as plain,
            (folder / "bundle").open("wb") as stream,
            SQLiteStore(folder / "store") as store,
        ):
            bundle = BundleWriter(stream)
            stored = []
            for entry, payload in self.items:
                whole = payload is not None and len(payload) == entry.size
                for place in draw.sample(["plain", "bundle", "store"], draw.choice([1, 1, 2])):
                    if place == "plain" and whole:
                        plain.write(entry.encoded + (payload or b""))
                    elif place == "store" and (whole or payload is None) and entry not in self.unsigned:
                        stored.append((entry, payload))
                    else:
                        bundle.entry(entry)
                        if payload is not None:
                            bundle.payload(entry.place, len(payload), [payload])
            store.add(stored)
            bundle.close()
        return [str(folder / name) for name in ("plain", "bundle", "store")]
