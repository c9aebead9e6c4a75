"""What a store must hold after entries were added, worked out the slow way from ``tests.bamboo.oracle``.

``Model`` takes what the store takes and knows nothing of order, transactions or tables. ``look`` asks a store for
everything it shows of a log, in a form to compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from culm.bamboo import MAX_U64, Entry, yamf_hash
from culm.store import PayloadState, State
from tests.bamboo import oracle

if TYPE_CHECKING:
    from collections.abc import Collection

    from culm.store import SQLiteStore
    from culm.store.values import Offer
    from culm.types import Log

HIGHS = (0, 1, 7, 13, 50, MAX_U64)  # the numbers up to which is asked what is missing
STATES = {oracle.VERIFIED: State.VERIFIED, oracle.WAITING: State.WAITING, oracle.INVALID: State.INVALID}


@dataclass
class View:
    """Everything a store shows of a log: what must not depend on the order in which it came."""

    states: dict[Entry, tuple[State, PayloadState]]
    verified: list[Entry]
    payloads: dict[Entry, bytes]
    summary: dict[str, Any] | None
    offer: tuple[int, int | None, bytes, int | None] | None
    missing: list[list[tuple[int, int]]]
    sendable: list[tuple[int, bytes]]


def offer_of(offer: Offer) -> tuple[int, int | None, bytes, int | None]:
    """What a store says of how far a log can be sent."""
    return offer.newest, offer.held_back, offer.digest, offer.forked_at


def look(store: SQLiteStore, log: Log) -> View:
    """What the store shows of a log."""
    held = list(store.entries(log, states=State))
    summaries = [found for found in store.logs() if (found.author, found.log_id) == log]
    offers = [offer_of(found) for found in store.offers() if found.log == log]
    names = ("newest", "entries", "payloads", "waiting", "invalid", "forked_at", "invalid_from", "ended")
    return View(
        states={stored.entry: (stored.state, stored.payload_state) for stored in held},
        verified=[stored.entry for stored in store.entries(log)],
        payloads={stored.entry: b"".join(store.payload(stored)) for stored in held},
        summary={name: getattr(summaries[0], name) for name in names} if summaries else None,
        offer=offers[0] if offers else None,
        missing=[store.missing(log, high) for high in HIGHS],
        sendable=[
            (found.seq, found.start + b"".join(store.payload_rest(found)))
            for found in store.sendables(log, 1, MAX_U64, 10_000)
        ],
    )


class Model:
    """The entries and payloads that one log was given."""

    def __init__(self) -> None:
        self.payloads: dict[Entry, bytes | None] = {}

    def add(self, entry: Entry, payload: bytes | None) -> None:
        """Take an entry; a payload stays once it came."""
        if payload is None and entry.size == 0 and entry.payload_hash == yamf_hash(b""):
            payload = b""
        if payload is not None and yamf_hash(payload) != entry.payload_hash:
            payload = None
        held = self.payloads.get(entry)
        self.payloads[entry] = payload if held is None else held

    def lied(self, entry: Entry) -> bool:
        """Whether a payload came that shows the entry's size to be wrong."""
        payload = self.payloads[entry]
        return payload is not None and len(payload) != entry.size

    def states(self) -> dict[Entry, State]:
        """The state of each entry, by definition."""
        lies = [entry.seq for entry in self.payloads if self.lied(entry)]
        return {entry: STATES[state] for entry, state in oracle.verdicts(self.payloads, lies).items()}

    def payload_state(self, entry: Entry) -> PayloadState:
        """How much of the payload must be held."""
        if self.payloads[entry] is None:
            return PayloadState.ABSENT
        return PayloadState.SIZE_MISMATCH if self.lied(entry) else PayloadState.COMPLETE

    def view(self) -> View:
        """What a store must show."""
        states = self.states()
        complete = {entry for entry in states if self.payload_state(entry) is PayloadState.COMPLETE}
        verified = sorted((entry for entry in states if states[entry] is State.VERIFIED), key=lambda entry: entry.seq)
        numbers = [entry.seq for entry in verified]
        forked_at = oracle.fork_position(states)
        lies = [entry.seq for entry in states if self.lied(entry)]
        invalid_from = min((at for at in (forked_at, *lies) if at is not None), default=None)
        summary = {
            "newest": max(numbers, default=0),
            "entries": len(verified),
            "payloads": sum(entry in complete for entry in verified),
            "waiting": sum(state is State.WAITING for state in states.values()),
            "invalid": sum(state is State.INVALID for state in states.values()),
            "forked_at": forked_at,
            "invalid_from": invalid_from,
            "ended": bool(verified) and verified[-1].is_end,
        }
        wanted_below = MAX_U64 + 1 if invalid_from is None else invalid_from
        full = {entry.seq for entry in complete}
        return View(
            states={entry: (states[entry], self.payload_state(entry)) for entry in states},
            verified=verified,
            payloads={entry: (self.payloads[entry] or b"") if entry in complete else b"" for entry in states},
            summary=summary if states else None,
            offer=offered(verified, complete, forked_at),
            missing=[spans_missing(full, min(high, wanted_below - 1)) for high in HIGHS],
            sendable=[(entry.seq, self.payloads[entry] or b"") for entry in verified if entry in complete],
        )


def offered(
    verified: Collection[Entry], complete: Collection[Entry], forked_at: int | None
) -> tuple[int, int | None, bytes, int | None] | None:
    """How far a log can be sent, the first entry that cannot be, the digest of the last, and the lowest fork."""
    if not verified and forked_at is None:
        return None
    gap = min((entry.seq for entry in verified if entry not in complete), default=None)
    until = max((entry for entry in verified if entry in complete), key=lambda entry: entry.seq, default=None)
    return (0, gap, b"", forked_at) if until is None else (until.seq, gap, until.hash[2:], forked_at)


def spans_missing(full: set[int], high: int) -> list[tuple[int, int]]:
    """The spans of numbers from 1 to ``high`` that are not in ``full``."""
    spans = []
    low = 1
    for at in sorted(at for at in full if at <= high):
        if at > low:
            spans.append((low, at - 1))
        low = at + 1
    return [*spans, (low, high)] if low <= high else spans
