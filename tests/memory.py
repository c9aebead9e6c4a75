"""A store in dictionaries: the simplest ``culm.transfer.Source`` that there can be, for tests and fuzzers."""

from itertools import chain, islice

from culm.bamboo import Entry, ForkProof
from culm.intervals.exchanged import Items
from culm.ranges.runs import Runs
from culm.transfer import Kept
from culm.types import Log, Run


class Held(Items):
    """What is held of a log."""

    is_forked = False

    def __init__(self) -> None:
        super().__init__()
        self.above = Runs()
        self.ending: Entry | None = None

    @property
    def disputed(self) -> list[Run]:
        """The payloads at or above a fork."""
        return list(self.above)

    def end(self) -> Entry | None:
        """The entry that ends the log."""
        return self.ending


class MemoryStore:
    """Entries and payloads of any logs. ``put`` adds; the other methods are those of ``Source``.

    ``looks_for_forks``: compare every new entry with all others, which takes time with each of them.
    """

    def __init__(self) -> None:
        self.looks_for_forks = False
        self.entries: dict[tuple[Log, int], list[Entry]] = {}
        self.bytes: dict[bytes, bytes] = {}
        self._held: dict[Log, Held] = {}
        self._proofs: dict[Log, list[ForkProof]] = {}

    def put(self, entry: Entry, payload: bytes | None = None) -> None:
        """Add an entry, with its payload or the beginning of it. Entries at or after a fork count as not held."""
        variants = self.entries.setdefault((entry.log, entry.seq), [])
        if entry not in variants:
            for others in [*self.entries.values()] if self.looks_for_forks else []:
                for other in others:
                    proof = ForkProof.of(entry, other) if other.log == entry.log else None
                    if proof is not None:
                        self._proofs.setdefault(entry.log, []).append(proof)
            variants.append(entry)
        if payload is not None or entry.size == 0:
            self.bytes[entry.hash] = payload or b""
        self._look(entry.log, entry)

    def drop_payload(self, entry: Entry) -> None:
        """Forget a payload."""
        self.bytes.pop(entry.hash, None)
        self._look(entry.log, None)

    def _look(self, log: Log, added: Entry | None) -> None:
        proofs = self.proofs(log)
        limit = min((proof.position for proof in proofs), default=2**64)
        held = self._held.get(log)
        if held is None or proofs or added is None:
            held = Held()
            held.is_forked = bool(proofs)
            everything = [variants[0] for (of, _), variants in self.entries.items() if of == log]
        else:
            everything = [added]
        for entry in everything:
            if entry.seq >= limit:
                if any(map(self.is_complete, self.entries[log, entry.seq])):
                    held.above.add(entry.seq, entry.seq)
            else:
                held.add(entry.seq, is_payload=False)
                if entry.is_end:
                    held.ending = entry
                if self.is_complete(entry):
                    held.add(entry.seq, is_payload=True)
        self._held[log] = held

    def is_complete(self, entry: Entry) -> bool:
        """Whether all bytes of an entry's payload are held."""
        return len(self.bytes.get(entry.hash, b"")) == entry.size and entry.hash in self.bytes

    def items(self, log: Log) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Runs of entries, and of complete payloads."""
        held = self.held(log)
        return list(held.entries), list(held.payloads)

    def held(self, log: Log) -> Held:
        """What is held of a log."""
        return self._held.setdefault(log, Held())

    def page(self, log: Log, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """The first ``limit`` entries from ``seq`` on, those behind a gap, too, as a store gives them."""
        runs = list(self.held(log).entries)
        spans = (
            (range(max(first, seq), last + 1) for first, last in runs)
            if ascending
            else (range(min(last, seq), first - 1, -1) for first, last in reversed(runs))
        )
        return [self._kept(self.entries[log, at][0]) for at in islice(chain.from_iterable(spans), limit)]

    def _kept(self, entry: Entry) -> Kept:
        payload = self.bytes.get(entry.hash, b"")
        complete = self.is_complete(entry)
        return Kept(entry, len(payload), complete, payload if complete and len(payload) < 100 else None, 0)

    def payload(self, kept: Kept, offset: int, size: int) -> bytes:
        """Bytes of a payload."""
        return self.bytes.get(kept.entry.hash, b"")[offset : offset + size]

    def misfit(
        self, log: Log, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool
    ) -> int | None:
        """The first entry from ``low`` to ``high`` (or back) whose payload is too small or too large."""
        numbers = range(low, high + 1) if ascending else range(high, low - 1, -1)
        for seq in numbers:
            if seq in self.held(log).payloads:
                size = self.entries[log, seq][0].size
                if (least is not None and size < least) or (greatest is not None and size > greatest):
                    return seq
        return None

    def proofs(self, log: Log) -> list[ForkProof]:
        """The fork proofs of a log."""
        return self._proofs.get(log, [])

    def variants(self, log: Log, seq: int) -> list[Kept]:
        """All entries of a number."""
        return [self._kept(entry) for entry in self.entries.get((log, seq), [])]

    def expects(self, log: Log, seq: int) -> bool:
        """Whether some bytes of a payload are there."""
        return any(0 < kept.payload_held < kept.entry.size for kept in self.variants(log, seq))
