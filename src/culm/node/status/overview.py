"""The node at a glance, as plain values: its sessions with their rates, its listeners, the peers it cannot reach."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from culm.node.roster import Contact, Roster
from culm.node.sessions.stats import SessionStats
from culm.wire.places import author_text

Plain = dict[str, Any]

MOST_SESSIONS = 100  # sessions listed; all are counted
_SMOOTHING_SECONDS = 3.0  # Time constant of the rates: without it the figures jump too fast to be read.
_REFUSALS_SHOWN = 3  # latest refusals listed for a session


@dataclass(slots=True)
class Flow:
    """The rates of a session, in bytes and entries a second."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0
    entries_in: float = 0.0
    entries_out: float = 0.0


class Rates:
    """Rates of sessions, from the counts at two moments, smoothed exponentially."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[float, tuple[int, int, int, int]]] = {}
        self._flows: dict[int, Flow] = {}

    def update(self, contacts: Iterable[Contact], now: float) -> None:
        """Take the counts of all open sessions at ``now``, in seconds of a clock that never goes back."""
        last, flows = {}, {}
        for contact in contacts:
            counts = _counts(contact.stats)
            flow = self._flows.get(contact.number, Flow())
            before = self._last.get(contact.number)
            if before is not None and now > before[0]:
                passed = now - before[0]
                weight = 1 - math.exp(-passed / _SMOOTHING_SECONDS)
                new = ((count - then) / passed for count, then in zip(counts, before[1], strict=True))
                old = (flow.bytes_in, flow.bytes_out, flow.entries_in, flow.entries_out)
                flow = Flow(*(rate + (fresh - rate) * weight for rate, fresh in zip(old, new, strict=True)))
            last[contact.number], flows[contact.number] = (now, counts), flow
        self._last, self._flows = last, flows

    def of(self, contact: Contact) -> Flow:
        """The rates of a session; all 0 before its first update."""
        return self._flows.get(contact.number, Flow())


def _counts(stats: SessionStats) -> tuple[int, int, int, int]:
    return stats.bytes_received, stats.bytes_sent, stats.entries_received, stats.entries_sent


def overview(roster: Roster, rates: Rates, version: str) -> Plain:
    """The node as it is now. Times are seconds since 1970, rates are per second."""
    contacts = roster.contacts()
    shown = [_described(contact) | _rates(rates.of(contact)) for contact in contacts[:MOST_SESSIONS]]
    reached = {contact.name for contact in contacts}
    return {
        "version": version,
        "identity": author_text(roster.me),
        "started": round(roster.started, 3),
        "listeners": [str(url) for url in roster.listeners],
        "session_count": len(contacts),
        "sessions": shown,
        "peers": [
            {"url": str(url), "connected": str(url) in reached, "trouble": trouble}
            for url, trouble in roster.troubles.items()
        ],
        "ended": [_described(contact) | {"until": contact.until, "why": contact.why} for contact in roster.recent],
    }


def _described(contact: Contact) -> Plain:
    stats = contact.stats
    return {
        "number": contact.number,
        "scheme": contact.scheme,
        "name": contact.name,
        "address": contact.address,
        "peer": None if contact.peer is None else author_text(contact.peer),
        "since": round(contact.since, 3),
        "entries_in": stats.entries_received,
        "entries_out": stats.entries_sent,
        "bytes_in": stats.bytes_received,
        "bytes_out": stats.bytes_sent,
        "left": max(stats.missing - stats.entries_received, 0),
        "forks": stats.forks,
        "refused": len(stats.refused),
        "refusals": stats.refused[:_REFUSALS_SHOWN],
    }


def _rates(flow: Flow) -> Plain:
    return {
        "bytes_in_rate": round(flow.bytes_in),
        "bytes_out_rate": round(flow.bytes_out),
        "entries_in_rate": round(flow.entries_in, 1),
        "entries_out_rate": round(flow.entries_out, 1),
    }
