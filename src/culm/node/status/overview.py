"""The node at a glance, as plain values: its sessions with their rates, its listeners, the peers it cannot reach."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from culm.node.roster import Contact, Roster
from culm.wire.places import author_text

Plain = dict[str, Any]

MOST_SESSIONS = 100  # sessions listed; all are counted
_SMOOTHING_SECONDS = 3.0  # Time constant of the rates: without it the figures jump too fast to be read.
_REFUSALS_SHOWN = 3  # latest refusals listed for a session


class Flow(NamedTuple):
    """The rates of a session, or its counts, in bytes and entries: a second, or in all."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0
    entries_in: float = 0.0
    entries_out: float = 0.0


class Rates:
    """Rates of sessions, from the counts at two moments, smoothed exponentially."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[float, Flow, Flow]] = {}  # by session: when it was looked at, counts, rates

    def update(self, contacts: Iterable[Contact], now: float) -> None:
        """Take the counts of all open sessions at ``now``, in seconds of a clock that never goes back."""
        last = {}
        for contact in contacts:
            stats = contact.stats
            counts = Flow(stats.bytes_received, stats.bytes_sent, stats.entries_received, stats.entries_sent)
            then, before, flow = self._last.get(contact.number, (now, counts, Flow()))
            if (passed := now - then) > 0:
                weight = 1 - math.exp(-passed / _SMOOTHING_SECONDS)
                fresh = ((count - earlier) / passed for count, earlier in zip(counts, before, strict=True))
                flow = Flow(*(rate + (new - rate) * weight for rate, new in zip(flow, fresh, strict=True)))
            last[contact.number] = now, counts, flow
        self._last = last

    def of(self, contact: Contact) -> Flow:
        """The rates of a session; all 0 before its first update."""
        return self._last[contact.number][2] if contact.number in self._last else Flow()


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
