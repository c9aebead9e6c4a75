"""What was signed in a world, and what follows from it: the oracle that stores are compared with."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from culm.bamboo import Entry, are_authentic
from culm.bamboo.forks import contradiction
from culm.bamboo.yamf import YAMF_PREFIX, yamf_hash
from culm.store import State
from culm.types import Log

HASH_AT = len(YAMF_PREFIX)


@dataclass(slots=True)
class Ledger:
    """Entries and payloads by their digests (64 bytes, as stores keep them). ``forkers``: authors with two stores.

    ``clumps``: where a log was published or shared, and so may be found. ``is_bridged``: or in any other, because nodes
    of different clumps talk by a protocol without clumps.
    """

    entries: dict[bytes, Entry] = field(default_factory=dict)
    payloads: dict[bytes, bytes] = field(default_factory=dict)
    forkers: set[bytes] = field(default_factory=set)
    clumps: defaultdict[Log, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    is_bridged: bool = False
    _contradictions: dict[tuple[bytes, bytes], int | None] = field(default_factory=dict)

    def publish(self, payload: bytes) -> bytes:
        """An author is about to sign this payload."""
        self.payloads[yamf_hash(payload)] = payload
        return payload

    def payload_of(self, entry: Entry) -> bytes:
        """What the author published with an entry."""
        return self.payloads[entry.payload_hash]

    def meet(self, entry: Entry) -> str | None:
        """An entry was found somewhere: what is wrong with it, if anything is."""
        digest = entry.hash[HASH_AT:]
        if digest in self.entries:
            return None
        if not are_authentic([entry])[0]:
            return "its author never signed it"
        if entry.payload_hash not in self.payloads:
            return "its payload was never published"
        self.entries[digest] = entry
        return None

    def position(self, one: bytes, other: bytes) -> int | None:
        """Where two entries contradict each other, if they do."""
        key = (one, other) if one < other else (other, one)
        if key not in self._contradictions:
            found = contradiction(self.entries[one], self.entries[other])
            self._contradictions[key] = None if found is None else found[0]
        return self._contradictions[key]


def states(entries: Iterable[Entry], limit: int | None) -> dict[bytes, State]:
    """What a store has to make of entries of one log, in ascending order; ``limit``: the lowest position of a fork."""
    verified: set[tuple[int, bytes]] = set()
    found = {}
    for entry in entries:
        has_path = entry.seq == 1 or any(link in verified for link in entry.links)
        if limit is not None and entry.seq >= limit:
            state = State.INVALID
        elif has_path:
            state = State.VERIFIED
            verified.add((entry.seq, entry.hash))
        else:
            state = State.WAITING
        found[entry.hash[HASH_AT:]] = state
    return found


def log_name(log: Log) -> str:
    """A log, for people: the beginning of its author's key, and its id."""
    return f"{log[0].hex()[:6]}/{log[1]}"
