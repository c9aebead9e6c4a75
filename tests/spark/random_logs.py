"""Many small logs with anything wrong in them, made from one seed and spread at random over a few inputs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, Entry, Identity, has_lipmaalink, yamf_hash
from culm.store import SQLiteStore
from culm.store.files import BundleWriter
from culm.testing import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

    OfLog = dict[Entry, bytes | None]


class RandomLogs:
    """``items`` are all entries with their payloads, None for a payload that nobody has."""

    def __init__(self, seed: int, count: int) -> None:
        self._random = random.Random(seed)
        self.logs = [self._log(number) for number in range(1, count + 1)]

    @property
    def items(self) -> list[tuple[Entry, bytes | None]]:
        """All entries with their payloads, in random order."""
        items = [item for log in self.logs for item in log.items()]
        self._random.shuffle(items)
        return items

    def by_log(self) -> list[OfLog]:
        """The entries of each log."""
        return self.logs

    def _log(self, seed: int) -> OfLog:
        draw = self._random
        log = LogBuilder(Identity(seed.to_bytes(32, "big")), draw.choice([0, 1, MAX_U64]))
        length = draw.randint(1, 44)
        for seq in range(1, length + 1):
            log.append(b"%d" % seq)
        made = list(log.entries)
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
        return {entry: log.payloads[entry.hash] if draw.random() < 0.7 else None for entry in kept}

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
                    elif place == "store" and (whole or payload is None):
                        stored.append((entry, payload))
                    else:
                        bundle.entry(entry)
                        if payload is not None:
                            bundle.payload(entry.place, len(payload), [payload])
            store.add(stored)
            bundle.close()
        return [str(folder / name) for name in ("plain", "bundle", "store")]
