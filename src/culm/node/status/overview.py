"""The node at a glance: its sessions with their rates, its listeners, the peers it cannot reach, and its counts.

``overview`` gives them as plain values, for the page; ``metrics_text`` in Prometheus' text format.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily as _Counter
from prometheus_client.core import GaugeMetricFamily as _Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from culm.node.names import Names
from culm.node.roster import Contact, Roster
from culm.node.sessions.stats import SessionStats
from culm.node.status.asked import Plain, name_of
from culm.node.status.problems import what_to_do
from culm.wire.places import author_text

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


def overview(roster: Roster, rates: Rates, version: str, names: Names | None = None) -> Plain:
    """The node as it is now. Times are seconds since 1970, rates are per second."""
    names = names or Names()
    contacts = roster.contacts()
    shown = [_described(contact, names) | _rates(rates.of(contact)) for contact in contacts[:MOST_SESSIONS]]
    reached = {contact.name for contact in contacts}
    return {
        "version": version,
        "identity": author_text(roster.me),
        "identity_name": name_of(names, roster.me),
        "started": round(roster.started, 3),
        "listeners": [str(url) for url in roster.listeners],
        "session_count": len(contacts),
        "sessions": shown,
        "peers": [
            {
                "url": str(url),
                "name": roster.names.get(url, str(url)),
                "connected": roster.names.get(url, str(url)) in reached,
                "trouble": trouble,
                "retry_at": roster.retries.get(url),
            }
            for url, trouble in roster.troubles.items()
        ],
        "ended": [_ended(contact, names) for contact in roster.recent],
    }


def _ended(contact: Contact, names: Names) -> Plain:
    todo = "" if contact.error is None else what_to_do(contact.error)
    return _described(contact, names) | {"until": contact.until, "why": contact.why, "todo": todo}


def _described(contact: Contact, names: Names) -> Plain:
    stats = contact.stats
    return {
        "number": contact.number,
        "scheme": contact.scheme,
        "name": contact.name,
        "address": contact.address,
        "peer": None if contact.peer is None else author_text(contact.peer),
        "peer_name": None if contact.peer is None else name_of(names, contact.peer),
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


# Counters of sessions, for each protocol: the field of ``SessionStats`` and its meaning.
_COUNTED = {
    "entries_received": "Entries received from peers.",
    "entries_sent": "Entries sent to peers.",
    "bytes_received": "Bytes received from peers, on the wire.",
    "bytes_sent": "Bytes sent to peers, on the wire.",
    "payload_bytes": "Bytes of payloads received from peers.",
    "forks": "New fork proofs found in sessions.",
}
_HELD = {
    "logs": "Logs with entries in the store.",
    "payloads": "Verified entries whose payload is complete.",
    "logs_with_gaps": "Logs that lack an entry or a payload below their newest entry.",
    "forked_logs": "Logs that their author has forked.",
    "fork_proofs": "Fork proofs in the store.",
    "damaged_payloads": "Payloads that were damaged on the disk and have not come again.",
}


@dataclass(frozen=True, eq=False)
class NodeCollector(Collector):
    """The node's metrics at one moment. ``held``: the store's totals; ``viewers``, ``dropped``: of the event stream."""

    roster: Roster
    version: str
    held: dict[str, int]
    viewers: int
    dropped: int

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        version = {self.version: 1}
        yield _labelled(_Gauge, "info", "The version of Culm, as a label; the value is always 1.", version, "version")
        yield _Gauge("culm_start_time_seconds", "When the node started.", self.roster.started)
        yield from self._of_store()
        yield from self._of_sessions()
        yield _Gauge("culm_status_viewers", "Viewers that follow the status page live.", self.viewers)
        yield _Counter("culm_status_viewers_dropped", "Viewers dropped because they read too slowly.", self.dropped)

    def _of_store(self) -> Iterator[Metric]:
        held = self.held
        states = {"verified": held["entries"], "waiting": held["waiting"], "invalid": held["invalid"]}
        yield _labelled(_Gauge, "entries", "Entries in the store, by state.", states, "state")
        names = {
            "logs_with_gaps": "gaps",
            "forked_logs": "forked",
            "fork_proofs": "proofs",
            "damaged_payloads": "damaged",
        }
        for name, meaning in _HELD.items():
            yield _Gauge(f"culm_{name}", meaning, held[names.get(name, name)])

    def _of_sessions(self) -> Iterator[Metric]:
        roster = self.roster
        now: dict[str, list[SessionStats]] = {scheme: [] for scheme in sorted(roster.begun)}
        for contact in roster.contacts():
            now[contact.scheme].append(contact.stats)
        open_now = {scheme: len(sessions) for scheme, sessions in now.items()}
        yield _labelled(_Gauge, "sessions", "Sessions that are open.", open_now)
        yield _labelled(_Counter, "sessions_begun", "Sessions since the start.", roster.begun)
        for name, meaning in _COUNTED.items():
            counts = {
                scheme: sum(getattr(stats, name) for stats in (roster.past.get(scheme, SessionStats()), *sessions))
                for scheme, sessions in now.items()
            }
            yield _labelled(_Counter, name, meaning, counts)
        failing = sum(trouble is not None for trouble in roster.troubles.values())
        peers = {"failing": failing, "fine": len(roster.troubles) - failing}
        yield _labelled(_Gauge, "peers", "Peers that the node stays connected to.", peers, "state")


def _labelled(
    kind: type[_Gauge | _Counter], name: str, meaning: str, values: Mapping[str, int], label: str = "protocol"
) -> Metric:
    """A metric with a value for each word that its label can be."""
    family = kind(f"culm_{name}", meaning, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family


def metrics_text(collector: NodeCollector) -> bytes:
    """All metrics, those of the process included, as text."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    return generate_latest(registry)
