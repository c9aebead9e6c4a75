"""Real sessions between two endpoints in memory, to count the bytes that they send.

The endpoints are the protocol objects of ``culm.bushbaby``, ``culm.intervals`` and ``culm.proposals``. What they are
told to say is what ``culm.node`` has them say in a one-time sync (docs/specs). Nothing is stored: the logs are lists of
entries, and every payload is dots.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from culm import bushbaby, intervals, proposals
from culm.bamboo import Entry, Identity, lipmaa, yamf_hash
from culm.bushbaby.grouping import CULM_STYLE, item_size, items_of, messages_of
from culm.intervals.exchanged import Items
from culm.proposals import EVERYTHING, NOTHING
from culm.transfer import EntryReceived, Kept, PayloadReceived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.bamboo import ForkProof
    from culm.types import Log, Run

# Entries of each log before it grew: enough for lipmaalinks of several lengths, few enough to be signed at once.
BASE_ENTRIES = 40

_CLUMP = b"simulated"  # the name of the group in Bushbaby's handshake; any will do
_WINDOW = 1 << 18  # bytes of answers written at once; it does not change how many bytes a session has


class Talk(NamedTuple):
    """The size of a session: bytes both ways, and messages. A message is all that a side says before an answer."""

    bytes: int
    messages: int


class _Held(Items):
    is_forked = False
    disputed: ClassVar[list[Run]] = []


class Logs:
    """Logs in memory, each complete from entry 1 on: a ``culm.transfer.Source`` for the protocols to read from."""

    def __init__(self) -> None:
        self.entries: dict[Log, list[Entry]] = {}
        self._held: dict[Log, _Held] = {}

    def put(self, entry: Entry) -> None:
        """Add the next entry of its log, with its payload. An entry that is held already changes nothing."""
        of_log = self.entries.setdefault(entry.log, [])
        if entry.seq == len(of_log) + 1:
            of_log.append(entry)
            held = self.held(entry.log)
            held.entries.add(entry.seq, entry.seq)
            held.payloads.add(entry.seq, entry.seq)

    def held(self, log: Log) -> _Held:
        """The numbers of the entries and payloads held of a log."""
        return self._held.setdefault(log, _Held())

    def page(self, log: Log, seq: int, *, ascending: bool, limit: int) -> list[Kept]:
        """At most ``limit`` entries from a number on, upwards or downwards."""
        of_log = self.entries.get(log, [])
        last = min(seq + limit - 1, len(of_log)) if ascending else max(1, seq - limit + 1)
        numbers = range(seq, last + 1) if ascending else range(min(seq, len(of_log)), last - 1, -1)
        return [Kept(of_log[at - 1], of_log[at - 1].size, True, None, 0) for at in numbers]

    def payload(self, kept: Kept, offset: int, size: int) -> bytes:
        """Dots, as many as are left of the payload from ``offset`` on, at most ``size``."""
        return b"." * min(size, kept.entry.size - offset)

    def misfit(
        self, log: Log, low: int, high: int, least: int | None, greatest: int | None, *, ascending: bool
    ) -> int | None:
        """None, since these sessions do not ask for payloads by size."""

    def proofs(self, log: Log) -> list[ForkProof]:  # noqa: ARG002 - nothing is forked here
        """No fork proofs, since no log is forked here."""
        return []

    def variants(self, log: Log, seq: int) -> list[Kept]:
        """The one entry of a number, if it is held."""
        return self.page(log, seq, ascending=True, limit=1)

    def end_of_log(self, log: Log) -> Entry | None:
        """None, since no log ends here."""

    def expects(self, log: Log, seq: int) -> bool:  # noqa: ARG002 - payloads come with their entries here
        """False, since every payload comes with its entry here."""
        return False


def two_sides(logs: int, grown: int, more: int, payload: int) -> tuple[Logs, Logs]:
    """Two sides with the same logs; on the first side ``grown`` of the logs have ``more`` new entries each."""
    sides = Logs(), Logs()
    payload_hash = yamf_hash(b"." * payload)
    for log_id in range(logs):
        identity = Identity(blake2b(b"author %d" % log_id, digest_size=32).digest())
        for seq in range(1, BASE_ENTRIES + 1 + (more if log_id < grown else 0)):
            before = sides[0].entries.get((identity.public, log_id), [])
            entry = identity.create_entry(
                log_id=log_id,
                seq=seq,
                backlink=before[-1].hash if before else None,
                lipmaalink=before[lipmaa(seq) - 1].hash if before else None,
                size=payload,
                payload_hash=payload_hash,
            )
            for side in sides if seq <= BASE_ENTRIES else sides[:1]:
                side.put(entry)
    return sides


class _Side(Protocol):
    def take(self, data: bytes) -> None:
        """Receive bytes, and do what they ask for."""

    def give(self) -> bytes:
        """The next bytes to send, empty if there are none now."""


def _talk(one: _Side, other: _Side) -> Talk:
    """Let two sides talk, in turns, until neither has more to say."""
    total = messages = silent = 0
    speaker, listener = one, other
    while silent < 2:
        said = 0
        while data := speaker.give():
            listener.take(data)
            said += len(data)
        silent = 0 if said else silent + 1
        total += said
        messages += bool(said)
        speaker, listener = listener, speaker
    return Talk(total, messages)


# -- Bushbaby -------------------------------------------------------------------------------------------------------


class _Bushbaby:
    def __init__(self, logs: Logs, name: bytes) -> None:
        numbers = count()
        self._logs = logs
        self._connection = bushbaby.Connection(
            Identity(blake2b(name, digest_size=32).digest()),
            _CLUMP,
            random_bytes=lambda size: blake2b(name + b"%d" % next(numbers), digest_size=size).digest(),
        )

    def give(self) -> bytes:
        return self._connection.data_to_send()

    def take(self, data: bytes) -> None:
        for event in self._connection.receive_data(bytearray(data), 0.0):
            match event:
                case bushbaby.Authenticated():
                    self._have(self._logs.entries)
                case bushbaby.HaveReceived(items):
                    self._connection.send_want(
                        bushbaby.WantItem(item.author, item.log_id, None, newest + 1, item.newest)
                        for item in items
                        if (newest := len(self._logs.entries.get((item.author, item.log_id), []))) < item.newest
                    )
                case bushbaby.WantReceived(items):
                    self._serve(items)
                case bushbaby.BambooReceived():
                    for entry, _ in event.entries:
                        self._logs.put(entry)

    def _have(self, logs: Iterable[Log]) -> None:
        items = [bushbaby.HaveItem(*log, len(self._logs.entries[log])) for log in logs]
        self._connection.send_have(items)

    def _serve(self, wants: list[bushbaby.WantItem]) -> None:
        served = [(want.author, want.log_id or 0) for want in wants]
        for log, want in zip(served, wants, strict=True):
            items, _ = items_of(self._logs.entries[log][(want.low or 1) - 1 : want.high], CULM_STYLE)
            for message in messages_of(items, CULM_STYLE):
                writer = self._connection.start_bamboo([item_size(item) for item in message])
                for item in message:
                    for entry in item:
                        writer.write(entry.encoded)
                        writer.write(b"." * entry.size)
                writer.send()
        if served:
            self._have(served)


def talk_bushbaby(one: Logs, other: Logs) -> Talk:
    """A whole Bushbaby session."""
    return _talk(_Bushbaby(one, b"one"), _Bushbaby(other, b"other"))


# -- intervals ------------------------------------------------------------------------------------------------------


class _Intervals:
    """One side of an intervals session. ``asks`` sends the requests for one of the logs that it ``follows``."""

    def __init__(
        self, logs: Logs, follows: Iterable[Log], asks: Callable[[intervals.Connection, Logs, Log], None]
    ) -> None:
        self._logs = logs
        self._connection = intervals.Connection(logs)
        self._todo = list(follows)
        self._asks = asks

    def give(self) -> bytes:
        while self._todo and self._connection.ours.credit >= 4:
            self._asks(self._connection, self._logs, self._todo.pop())
        self._connection.respond(_WINDOW)
        return self._connection.data_to_send()

    def take(self, data: bytes) -> None:
        for event in self._connection.receive_data(data, 0.0):
            match event:
                case PayloadReceived(entry=entry, complete=True):
                    self._came(entry)
                case EntryReceived(entry=entry) if not entry.size:
                    self._came(entry)
        self._connection.refill()

    def _came(self, entry: Entry) -> None:
        self._logs.put(entry)
        self._connection.wake([entry.log])


def _follow(connection: intervals.Connection, logs: Logs, log: Log) -> None:
    """Ask as ``culm.node.intervals.follower`` does: for the last entry, for forks, for all news, announced and sent."""
    newest = logs.entries[log][-1]
    own = intervals.MetadataOnly(newest.seq, ascending=False, dist=0, own=newest.hash)
    last = intervals.Regular(intervals.FromGreatest(1), intervals.FromGreatest(0))
    for question in (last, own):
        connection.request(*log, question, lazy=True)
    for lazy in (True, False):
        connection.request(*log, _news(logs, log), lazy=lazy)


def _news(logs: Logs, log: Log) -> intervals.Interval:
    """The interval of everything above the newest entry.

    It names the hash that the first new entry links to, so that the peer need not send the certificate pool below.
    """
    of_log = logs.entries[log]
    seq = len(of_log) + 1
    return intervals.Regular(intervals.At(seq, 0, of_log[lipmaa(seq) - 1].hash), intervals.FromGreatest(0))


def talk_intervals(one: Logs, other: Logs) -> Talk:
    """A whole intervals session in which both sides follow all logs."""
    return _talk(_Intervals(one, one.entries, _follow), _Intervals(other, other.entries, _follow))


def talk_fetching(one: Logs, other: Logs) -> Talk:
    """The intervals session after a comparison: the second side knows what it lacks, and asks for nothing else."""

    def fetch(connection: intervals.Connection, logs: Logs, log: Log) -> None:
        connection.request(*log, _news(logs, log), lazy=False)

    lacking = [log for log, entries in one.entries.items() if len(entries) > len(other.entries[log])]
    return _talk(_Intervals(one, (), fetch), _Intervals(other, lacking, fetch))


# -- proposals ------------------------------------------------------------------------------------------------------


class _Proposals:
    def __init__(self, logs: Logs, *, proactive: bool) -> None:
        self._logs = logs
        self._session = proposals.Connection(logs, proactive=proactive, setup=proposals.Setup())
        self._todo = list(logs.entries)

    def give(self) -> bytes:
        connection = self._session.endpoint
        while self._todo and connection.credit:
            newest = self._logs.entries[self._todo[-1]][-1]
            proposal = proposals.Proposal(
                0, *newest.log, newest.seq, None, hash=newest.hash, offset=newest.size, eagerness=EVERYTHING
            )
            if not any(exchange.proposal.log == newest.log for exchange in connection.exchanges.values()):
                connection.propose(proposal)
            self._todo.pop()
        self._session.respond(_WINDOW)
        self._notice(connection.take_events())
        return self._session.data_to_send()

    def take(self, data: bytes) -> None:
        self._notice(self._session.receive_data(data, 0.0))
        self._session.refill()
        self._notice(self._session.endpoint.take_events())

    def _notice(self, events: Iterable[proposals.Event]) -> None:
        connection = self._session.endpoint
        for event in events:
            match event:
                case proposals.Offered(proposal) if connection.is_offered(proposal.id):
                    wish = EVERYTHING if proposals.can_rebuild(proposal, self._logs) else NOTHING
                    connection.confirm(proposals.Adjust(proposal.id, wish, may_skip=True))
                case PayloadReceived(entry=entry, complete=True):
                    self._came(entry)
                case EntryReceived(entry=entry) if not entry.size:
                    self._came(entry)

    def _came(self, entry: Entry) -> None:
        self._logs.put(entry)
        self._session.endpoint.wake([entry.log])

    def ping(self) -> None:
        self._session.keep_alive()

    def end(self) -> None:
        for proposal_id in list(self._session.endpoint.exchanges):
            self._session.endpoint.cancel(proposal_id)
        self._session.close()


def talk_proposals(one: Logs, other: Logs) -> Talk:
    """A whole proposals session with its end: a ping, all proposals cancelled, both channels closed."""
    sides = _Proposals(one, proactive=True), _Proposals(other, proactive=False)
    talk = _talk(*sides)
    sides[0].ping()
    pinged = _talk(*sides)
    sides[0].end()
    ended = _talk(*sides)
    return Talk(talk.bytes + pinged.bytes + ended.bytes, talk.messages + pinged.messages + ended.messages)
