"""A store that is a dictionary: what ``SQLiteStore`` must hold and say after any sequence of calls.

Nothing here is fast, and nothing is shared with the store but the entry decoder: states are worked out anew from the
definitions (``tests.bamboo.oracle``) whenever somebody asks, and every answer is a loop over all entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from culm.bamboo import Entry, encode_varu64, yamf_hash
from culm.errors import BadSignature, HoldingAreaFull, PayloadMismatch, PayloadSizeMismatch, StoreFull
from culm.store import PayloadState, State
from tests.bamboo import oracle
from tests.store.model import offered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from culm.errors import CulmError, Place
    from culm.types import Log

STATES = {oracle.VERIFIED: State.VERIFIED, oracle.WAITING: State.WAITING, oracle.INVALID: State.INVALID}
THERE = (PayloadState.COMPLETE, PayloadState.FORGOTTEN)  # payloads that nobody asks for
Item = tuple[Entry, "bytes | None"]
Span = tuple[int, int]


@dataclass
class Payload:
    """What is held of a payload. ``since`` is another object after all bytes were dropped and others came."""

    state: PayloadState = PayloadState.ABSENT
    data: bytes = b""
    since: object = field(default_factory=object)


@dataclass
class Report:
    """What a call to ``add`` must report."""

    added: set[Entry] = field(default_factory=set)
    known: int = 0
    payloads: int = 0
    refused: list[tuple[Place, type[CulmError]]] = field(default_factory=list)
    transactions: int = 0  # that were kept

    def take(self, part: Report) -> None:
        """Take in what a transaction has done."""
        self.added |= part.added
        self.known += part.known
        self.payloads += part.payloads
        self.refused += part.refused
        self.transactions += part.transactions


class _Found:
    """What the definitions make of some entries."""

    def __init__(self, entries: list[Entry], lies: list[int]) -> None:
        self.of = entries, lies
        verdicts = oracle.verdicts(entries, lies)
        self.states = {entry: STATES[state] for entry, state in verdicts.items()}
        self.forked_at = oracle.fork_position(entries)


class LogModel:
    """One log: its entries in the order in which they came, each with its payload."""

    def __init__(self, log: Log, max_variants: int) -> None:
        self.log = log
        self.payloads: dict[Entry, Payload] = {}
        self.max_variants = max_variants
        self._found = _Found([], [])

    def copy(self) -> LogModel:
        """The same, to be changed apart."""
        other = LogModel(self.log, self.max_variants)
        other.payloads = {entry: Payload(held.state, held.data, held.since) for entry, held in self.payloads.items()}
        other._found = self._found
        return other

    # -- writing -----------------------------------------------------------------------------------------------

    def add(self, entry: Entry, payload: bytes | None, report: Report) -> None:
        """Take an authentic entry, with a payload or without one."""
        if payload is None and entry.size == 0 and entry.payload_hash == yamf_hash(b""):
            payload = b""
        if payload is not None and yamf_hash(payload) != entry.payload_hash:
            report.refused.append((entry.place, PayloadMismatch))
            payload = None
        if payload is not None and len(payload) != entry.size:
            report.refused.append((entry.place, PayloadSizeMismatch))
        held = self.payloads.get(entry)
        if held is not None:
            report.known += 1
        elif len(self.at(entry.seq)) >= self.max_variants:
            report.refused.append((entry.place, StoreFull))
            return
        else:
            held = self.payloads[entry] = Payload()
            report.added.add(entry)
        if payload is not None:
            report.payloads += self.take_payload(entry, payload)

    def take_payload(self, entry: Entry, payload: bytes) -> bool:
        """Take all of a payload, of the right hash; whether it is held now and was not before.

        One of another size than the entry claims shows a lie. One that was forgotten is not wanted.
        """
        held = self.payloads[entry]
        if len(payload) != entry.size:
            self.payloads[entry] = Payload(PayloadState.SIZE_MISMATCH)
            return False
        if held.state in (PayloadState.ABSENT, PayloadState.PARTIAL):
            self.payloads[entry] = Payload(PayloadState.COMPLETE, payload)
            return True
        return False

    def forget(self, entry: Entry) -> int:
        """Forget a payload; the bytes freed. Nothing can be forgotten of an empty one, and no lie."""
        held = self.payloads[entry]
        if held.state is PayloadState.SIZE_MISMATCH or (held.state is PayloadState.COMPLETE and not entry.size):
            return 0
        self.payloads[entry] = Payload(PayloadState.FORGOTTEN)
        return len(held.data)

    # -- what is held ------------------------------------------------------------------------------------------

    def at(self, seq: int) -> list[Entry]:
        """All entries of a number, in the order in which they came."""
        return [entry for entry in self.payloads if entry.seq == seq]

    def first_at(self, seq: int) -> Entry | None:
        """The one that came first."""
        return next(iter(self.at(seq)), None)

    def entries(self) -> list[Entry]:
        """All entries by number; those of one number as they came."""
        return sorted(self.payloads, key=lambda entry: entry.seq)

    @property
    def lies(self) -> list[int]:
        """The numbers of entries whose payload's size was a lie."""
        return [entry.seq for entry, held in self.payloads.items() if held.state is PayloadState.SIZE_MISMATCH]

    def found(self) -> _Found:
        """What the definitions say of the entries; worked out anew when there are others, or other lies."""
        if self._found.of != (list(self.payloads), self.lies):
            self._found = _Found(list(self.payloads), self.lies)
        return self._found

    def states(self) -> dict[Entry, State]:
        """The state of each entry, by definition."""
        return self.found().states

    def in_state(self, state: State) -> list[Entry]:
        """The entries in a state, by number."""
        states = self.states()
        return [entry for entry in self.entries() if states[entry] is state]

    def verified(self) -> list[Entry]:
        """The verified entries."""
        return self.in_state(State.VERIFIED)

    def certified(self) -> set[int]:
        """The numbers of the verified entries whose whole certificate pool is verified."""
        return oracle.certified((entry.seq for entry in self.verified()), self.greatest)

    def complete(self) -> list[Entry]:
        """The verified entries with all of their payload."""
        return [entry for entry in self.verified() if self.payloads[entry].state is PayloadState.COMPLETE]

    # -- what follows from that --------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        """The newest verified number; 0 if there is none."""
        return max((entry.seq for entry in self.verified()), default=0)

    @property
    def greatest(self) -> int:
        """The greatest number held, whatever is made of it."""
        return max((entry.seq for entry in self.payloads), default=0)

    @property
    def forked_at(self) -> int | None:
        """The lowest position of a fork."""
        return self.found().forked_at

    @property
    def invalid_from(self) -> int | None:
        """Where the log becomes invalid."""
        return min((at for at in (self.forked_at, *self.lies) if at is not None), default=None)

    @property
    def is_ended(self) -> bool:
        """Whether the newest verified entry ends the log."""
        verified = self.verified()
        return bool(verified) and verified[-1].is_end

    def offer(self) -> tuple[int, int | None, bytes, int | None] | None:
        """How far the log can be sent with all payloads, and the rest of an offer."""
        return offered(self.verified(), self.complete(), self.forked_at)

    def settled(self) -> set[int]:
        """The numbers of which nothing is missing: an entry with its payload, or without one that was forgotten."""
        return {entry.seq for entry, held in self.payloads.items() if held.state in THERE}

    def missing(self, low: int, high: int, limit: int) -> list[Span]:
        """What is missing and wanted: nothing at or after a fork, or a lie."""
        if self.invalid_from is not None:
            high = min(high, self.invalid_from - 1)
        spans = []
        for at in sorted(at for at in self.settled() if low <= at <= high):
            if at > low:
                spans.append((low, at - 1))
            low = at + 1
        return [*spans, *([(low, high)] if low <= high else [])][:limit]

    @property
    def complete_to(self) -> int:
        """The number up to which nothing is missing."""
        settled, at = self.settled(), 0
        while at + 1 in settled:
            at += 1
        return at

    def head(self) -> bytes | None:
        """The id of the log's head (docs/specs/negentropy.md, "Heads")."""
        verified, complete = self.verified(), self.complete()
        if not verified and self.forked_at is None:
            return None
        parts = [self.log[0], encode_varu64(self.log[1]), encode_varu64(self.newest)]
        parts += [entry.hash for entry in verified if entry.seq == self.newest]
        for entries in (verified, complete):
            total = sum(int.from_bytes(record_id(entry), "little") for entry in entries) % 2**256
            parts += [encode_varu64(len(entries)), total.to_bytes(32, "little")]
        parts.append(encode_varu64(self.forked_at or 0))
        return blake2b(b"".join(parts), digest_size=32).digest()


def record_id(entry: Entry) -> bytes:
    """The id of an entry's record."""
    return entry.hash[2:34]


def runs_of(numbers: Iterable[int]) -> list[Span]:
    """Numbers as runs of neighbours, ascending."""
    runs: list[Span] = []
    for at in sorted(set(numbers)):
        if runs and runs[-1][1] == at - 1:
            runs[-1] = runs[-1][0], at
        else:
            runs.append((at, at))
    return runs


def run_around(numbers: Iterable[int], seq: int) -> Span | None:
    """The run of neighbours that a number is in."""
    return next((run for run in runs_of(numbers) if run[0] <= seq <= run[1]), None)


class DictionaryStore:
    """All logs, by author and id. ``max_waiting`` entries may wait."""

    def __init__(self, max_variants: int, max_waiting: int) -> None:
        self.logs: dict[Log, LogModel] = {}
        self.max_variants = max_variants
        self._max_waiting = max_waiting

    def copy(self) -> DictionaryStore:
        """The same, to be changed apart."""
        other = DictionaryStore(self.max_variants, self._max_waiting)
        other.logs = {log: model.copy() for log, model in self.logs.items()}
        return other

    def __iter__(self) -> Iterator[LogModel]:
        """The logs of which anything is held, by author and id."""
        return (self.logs[log] for log in sorted(self.logs) if self.logs[log].payloads)

    def of(self, log: Log) -> LogModel:
        """A log; empty if nothing of it is held."""
        return self.logs.get(log) or LogModel(log, self.max_variants)

    def find(self, place: Place) -> Entry | None:
        """The entry that came first to a place."""
        return self.of((place.author, place.log_id)).first_at(place.seq)

    def add(self, items: Iterable[Item], forged: Iterable[Entry] = ()) -> Report:
        """Take items in one transaction, in their order."""
        report, bad = Report(transactions=1), set(forged)
        report.refused += [(entry.place, BadSignature) for entry, _ in items if entry in bad]
        room: int | None = None  # Known once an entry would have to wait; none comes free before the next transaction.
        for entry, payload in items:
            if entry in bad:
                continue
            before, part = self.of(entry.log).copy(), Report()
            model = self.logs.setdefault(entry.log, LogModel(entry.log, self.max_variants))
            model.add(entry, payload, part)
            if entry in part.added and entry in model.in_state(State.WAITING):
                room = self._max_waiting - self.waiting() + 1 if room is None else room
                if room < 1:
                    self.logs[entry.log] = before
                    part = Report(refused=[*part.refused, (entry.place, HoldingAreaFull)])
                else:
                    room -= 1
            report.take(part)
        return report

    def waiting(self) -> int:
        """How many entries wait for their path."""
        return sum(len(model.in_state(State.WAITING)) for model in self)
