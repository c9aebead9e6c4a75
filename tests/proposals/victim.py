"""A connection that gets whatever a test makes up, and messages to make it up of."""

from __future__ import annotations

from typing import Any, Self

from culm.proposals import EVERYTHING, Adjust, Code, Eagerness, Endpoint, Limits, Proposal, Setup
from culm.proposals.control import pull_control, push_control
from culm.proposals.data import Metadata, Raw, Switch, push_data
from culm.proposals.messages import Grant
from culm.testing.builders import LogBuilder, build_log
from culm.transfer import EntryReceived, PayloadReceived, apart
from tests.proposals.examples import IDENTITY, KEY, LOG, store_of

OTHER_LOG = build_log(3)
LONG = LogBuilder(IDENTITY)
for number in range(20):
    LONG.append(b"%d" % number * 5)


def meta(seq: int, *, backlink: bool = False, log: LogBuilder = LOG) -> Metadata:
    """The metadata of an entry."""
    entry = log.entries[seq - 1]
    return Metadata(entry.is_end, entry.backlink if backlink else None, entry.size, entry.payload_hash, entry.signature)


def raw(data: bytes) -> bytes:
    """Bytes of a payload."""
    return push_data(Raw(len(data))) + data


def pay(seq: int, log: LogBuilder = LOG) -> bytes:
    """A whole payload."""
    return raw(log.payloads[log.entries[seq - 1].hash])


def offer(start: int = 1, end: int | None = 5, **fields: Any) -> Proposal:
    """A proposal of the peer, with what most tests want."""
    upper = fields.pop("upper", end)
    return Proposal(fields.pop("id", 0), KEY, 0, start, fields.pop("lower", 1), end, upper, **fields)


bad_signature = meta(1).__class__(False, None, 20, LOG.entries[0].payload_hash, bytes(64))


class Victim:
    """A connection that gets messages of a peer made up as the test likes. It is the reactive one."""

    def __init__(
        self, *held: int, greedy: bool = False, window: int = 0, log: LogBuilder = LOG, together: bool = False
    ) -> None:
        self.store = store_of(log, *held)
        self.connection = Endpoint(
            self.store,
            proactive=False,
            setup=Setup(takes_greedily=greedy, receive_window=window),
            limits=Limits(proposals=4),
            together=together,
        )
        self.connection.peer_setup(Setup(sends_greedily=greedy, send_window=window))
        self.events: list[Any] = []
        self.connection.control_to_send()

    def _keep(self, events: list[Any]) -> None:
        self.events += events
        for event in apart(events):
            if isinstance(event, EntryReceived):
                self.store.put(event.entry)
            elif isinstance(event, PayloadReceived):
                held = self.store.bytes.get(event.entry.hash, b"")
                self.store.put(event.entry, held[: event.offset] + event.data)

    def control(self, *messages: Any) -> Self:
        """Take control messages."""
        for message in messages:
            self._keep(
                self.connection.receive_control(message if isinstance(message, bytes) else push_control(message))
            )
        return self

    def data(self, *messages: Any) -> Self:
        """Take data messages."""
        for message in messages:
            self._keep(self.connection.receive_data(message if isinstance(message, bytes) else push_data(message)))
        return self

    def confirms(self, wish: Eagerness = EVERYTHING, proposal_id: int = 0, **fields: Any) -> Self:
        """Confirm a proposal of the peer."""
        self.connection.confirm(Adjust(proposal_id, wish, **{"may_skip": True, **fields}))
        return self

    def runs(self, proposal: Proposal | None = None, wish: Eagerness = EVERYTHING, **fields: Any) -> Self:
        """A proposal of the peer that was confirmed, and that the peer has switched to."""
        proposal = proposal or offer()
        return self.control(proposal).confirms(wish, proposal.id, **fields).data(Switch(proposal.id))

    def proposes(self, proposal: Proposal, **fields: Any) -> Self:
        """Propose something to the peer."""
        self.control(Grant(10))
        self.connection.propose(proposal, **fields)
        self.connection.control_to_send()
        return self

    def adjusts(self, **fields: Any) -> Self:
        """Change what we want of proposal 0."""
        self.connection.adjust(Adjust(0, **fields))
        return self

    def cancels(self, code: Code = Code.DO_NOT_RETRY, proposal_id: int = 0) -> Self:
        """Cancel a proposal."""
        self.connection.cancel(proposal_id, code)
        return self

    def sends(self) -> Self:
        """Send whatever there is."""
        self.connection.respond(10**6)
        self.connection.data_to_send()
        return self


def said(victim: Victim) -> list[Any]:
    """The control messages that it has to send."""
    data, found, at = victim.connection.control_to_send(), [], 0
    while at < len(data):
        message, at = pull_control(data, at)
        found.append(message)
    return found
