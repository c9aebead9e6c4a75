"""The node's counts in Prometheus' text format."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
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


class NodeCollector(Collector):
    """The node's metrics at one moment. ``held``: the store's totals; ``viewers``, ``dropped``: of the event stream."""

    def __init__(self, roster: Roster, version: str, held: dict[str, int], viewers: int, dropped: int) -> None:
        self._roster = roster
        self._version = version
        self._held = held
        self._viewers = viewers
        self._dropped = dropped

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        info = GaugeMetricFamily(
            "culm_info", "The version of Culm, as a label; the value is always 1.", labels=["version"]
        )
        info.add_metric([self._version], 1)
        yield info
        yield GaugeMetricFamily("culm_start_time_seconds", "When the node started.", self._roster.started)
        yield from self._of_store()
        yield from self._of_sessions()
        yield GaugeMetricFamily("culm_status_viewers", "Viewers that follow the status page live.", self._viewers)
        yield CounterMetricFamily(
            "culm_status_viewers_dropped", "Viewers dropped because they read too slowly.", self._dropped
        )

    def _of_store(self) -> Iterator[Metric]:
        held = self._held
        entries = GaugeMetricFamily("culm_entries", "Entries in the store, by state.", labels=["state"])
        for state, name in (("verified", "entries"), ("waiting", "waiting"), ("invalid", "invalid")):
            entries.add_metric([state], held[name])
        yield entries
        names = {"logs_with_gaps": "gaps", "forked_logs": "forked", "fork_proofs": "proofs"}
        for name, meaning in _HELD.items():
            yield GaugeMetricFamily(f"culm_{name}", meaning, held[names.get(name, name)])

    def _of_sessions(self) -> Iterator[Metric]:
        roster = self._roster
        schemes = sorted(roster.begun)
        now: dict[str, list[SessionStats]] = {scheme: [] for scheme in schemes}
        for contact in roster.contacts():
            now[contact.scheme].append(contact.stats)
        open_now = {scheme: len(sessions) for scheme, sessions in now.items()}
        yield _by_scheme(GaugeMetricFamily, "culm_sessions", "Sessions that are open.", open_now)
        yield _by_scheme(CounterMetricFamily, "culm_sessions_begun", "Sessions since the start.", roster.begun)
        past = {scheme: roster.past.get(scheme, SessionStats()) for scheme in schemes}
        for name, meaning in _COUNTED.items():
            yield _by_scheme(
                CounterMetricFamily,
                f"culm_{name}",
                meaning,
                {scheme: sum(getattr(stats, name) for stats in (past[scheme], *now[scheme])) for scheme in schemes},
            )
        troubles = roster.troubles.values()
        peers = GaugeMetricFamily("culm_peers", "Peers that the node stays connected to.", labels=["state"])
        failing = sum(trouble is not None for trouble in troubles)
        peers.add_metric(["failing"], failing)
        peers.add_metric(["fine"], len(troubles) - failing)
        yield peers


def _by_scheme(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    meaning: str,
    values: Mapping[str, int],
) -> Metric:
    family = kind(name, meaning, labels=["protocol"])
    for scheme, value in values.items():
        family.add_metric([scheme], value)
    return family


def metrics_text(collector: NodeCollector) -> bytes:
    """All metrics, those of the process included, as text."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    return generate_latest(registry)
