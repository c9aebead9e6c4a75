"""The node's counts in Prometheus' text format."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily as _Counter
from prometheus_client.core import GaugeMetricFamily as _Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from culm.node.roster import Roster
from culm.node.sessions.stats import SessionStats

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
        names = {"logs_with_gaps": "gaps", "forked_logs": "forked", "fork_proofs": "proofs"}
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
