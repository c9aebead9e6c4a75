"""A program that keeps its records with the library, as a user's would: ``python -m crash.writer HOME SEED``.

It appends, forgets, takes in entries of others and payloads in pieces, without end or so many times. Each thing it is
about to do, and each that is done, is a line of JSON; what was done is there from then on.
"""

from __future__ import annotations

import argparse
import json
import random
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from culm import SQLiteStore
from culm.node.home import Home
from culm.store import PayloadState
from culm.store.files import EntryRecord, PayloadRecord, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.bamboo import Entry, Identity
    from culm.errors import Place
    from culm.store import StoredEntry

LOGS = (0, 1, 2**63)
_SIZES = (0, 100, 5000, 150_000, 1_200_000)
_WEIGHTS = (1, 8, 4, 2, 1)
_LARGE = 64 * 1024
_PIECE = 300_000


def payload_of(identity: Identity, log_id: int, seq: int, size: int) -> bytes:
    """The payload of one of the program's own entries: so that it can have it again."""
    return random.Random(f"{identity.public.hex()}/{log_id}/{seq}").randbytes(size)


class Writer:
    """Does one thing after the other."""

    def __init__(self, home: Home, bundle: Path | None, seed: int) -> None:
        self._store = SQLiteStore(home.store_path)
        self._identity = home.identity(None)
        self._rng = random.Random(seed)
        self._others = iter(()) if bundle is None else _read_others(bundle)
        self._large: dict[Place, bytes] = {}

    def run(self, times: int | None) -> None:
        """Go on, for so many times."""
        works = (self._append, self._append, self._append, self._forget, self._take, self._hold, self._want_again)
        for _ in range(times) if times is not None else iter(int, 1):
            self._rng.choice(works)()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _say(self, word: str, what: str, place: Place, **more: object) -> None:
        print(json.dumps({word: what, "place": [place.author.hex(), place.log_id, place.seq], **more}), flush=True)

    def _own(self) -> Iterator[StoredEntry]:
        for log_id in LOGS:
            yield from self._store.entries((self._identity.public, log_id))

    def _append(self) -> None:
        log_id = self._rng.choice(LOGS)
        (size,) = self._rng.choices(_SIZES, _WEIGHTS)
        summaries = {log.log_id: log.newest for log in self._store.logs() if log.author == self._identity.public}
        seq = summaries.get(log_id, 0) + 1
        payload = payload_of(self._identity, log_id, seq, size)
        pieces = (payload[at : at + _LARGE] for at in range(0, size, _LARGE))
        entry = self._store.append(self._identity, log_id, pieces)
        self._say("done", "append", entry.place, hash=entry.hash.hex())

    def _chosen(self, state: PayloadState) -> Entry | None:
        found = [stored.entry for stored in self._own() if stored.payload_state is state and stored.entry.size]
        return self._rng.choice(found) if found else None

    def _forget(self) -> None:
        entry = self._chosen(PayloadState.COMPLETE)
        if entry is not None:
            self._say("begin", "forget", entry.place)
            self._store.forget(entry.place)
            self._say("done", "forget", entry.place)

    def _want_again(self) -> None:
        entry = self._chosen(PayloadState.FORGOTTEN)
        if entry is not None:
            self._say("begin", "want", entry.place)
            self._store.want_again(entry.place)
            self._store.add([(entry, payload_of(self._identity, entry.log_id, entry.seq, entry.size))])
            self._say("done", "want", entry.place)

    # -- of others ---------------------------------------------------------------------------------------------

    def _take(self) -> None:
        items = [item for item in islice(self._others, self._rng.randint(1, 30)) if not self._keep_large(*item)]
        if items:
            self._store.add(items)
            for entry, _ in items:
                self._say("done", "take", entry.place, hash=entry.hash.hex())

    def _keep_large(self, entry: Entry, payload: bytes) -> bool:
        if len(payload) > _LARGE:
            self._large[entry.place] = payload
            self._store.add([(entry, None)])
        return len(payload) > _LARGE

    def _hold(self) -> None:
        """More of a large payload, a piece at a time, as a peer brings it."""
        if not self._large:
            return
        place, payload = self._rng.choice(list(self._large.items()))
        sink = self._store.payload_sink(place)
        if sink.wanted:
            for _ in range(self._rng.randint(1, 6)):
                sink.write(payload[sink.offset : sink.offset + _PIECE])
            if sink.offset == len(payload):
                sink.finish()
            else:
                sink.close()
            self._say("done", "hold", place, held=sink.offset)
        if not sink.wanted or sink.offset == len(payload):
            del self._large[place]


def _read_others(bundle: Path) -> Iterator[tuple[Entry, bytes]]:
    with bundle.open("rb") as stream:
        entry: Entry | None = None
        for record in read_records(stream):
            if isinstance(record, EntryRecord):
                entry = record.entry
            elif isinstance(record, PayloadRecord) and entry is not None and entry.place == record.place:
                yield entry, b"".join(record.payload)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="crash.writer", description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("--bundle", type=Path, help="a file with entries of others")
    parser.add_argument("--times", type=int, help="how many things to do (default: without end)")
    arguments = parser.parse_args()
    with closing(Writer(Home.find(arguments.home), arguments.bundle, arguments.seed)) as writer:
        print("writing", flush=True)
        writer.run(arguments.times)


if __name__ == "__main__":
    main()
