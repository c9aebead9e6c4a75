"""Our side of the data channel: whose turn it is, the current proposal, compression.

Specification: docs/specs/proposals.md, "Data channel", "Markers", "Compression".
"""

from collections import deque
from collections.abc import Iterable

from culm.bamboo import MAX_U64
from culm.proposals.checks import fork_up_to, objection
from culm.proposals.data import Compressed, Metadata, Raw, Switch, push_data
from culm.proposals.events import HeldUp
from culm.proposals.exchange import Exchange
from culm.proposals.limits import Limits
from culm.proposals.messages import NOTHING, Cancel, Code
from culm.proposals.register import Register
from culm.proposals.setup import Setup
from culm.proposals.states import Said
from culm.transfer import Source
from culm.types import Buffer, Log
from culm.wire.compression import new_encoder
from culm.wire.lzfoo import Encoder

_LEAST_PIECE = 4096  # Bytes of a payload that a turn sends at least, because each piece has a head and a turn its cost.
_LEAST_COMPRESSED = 16  # Bytes of a payload that are worth compressing: shorter ones grow by the longer head.


class Sender:
    """Writes the items of all confirmed proposals, which take turns, a chunk each."""

    def __init__(self, source: Source, limits: Limits, register: Register) -> None:
        self.entries_sent = 0
        self._source = source
        self._limits = limits
        self._register = register
        self._agreed: Setup | None = None
        self._encoder: Encoder | None = None
        self._current: Exchange | None = None
        self.turns: deque[int] = deque()  # proposals that ``respond`` would look at, by their ids

    def agree(self, agreed: Setup) -> None:
        """Setup and windows are known: items may be sent."""
        self._agreed = agreed
        if agreed.send_window:
            self._encoder = new_encoder(agreed.send_window)

    # -- turns -------------------------------------------------------------------------------------------------

    def queue(self, exchange: Exchange) -> None:
        """Give a proposal a turn, because there may be something to send for it now."""
        if exchange.id not in self.turns:
            self.turns.append(exchange.id)

    def wake(self, logs: Iterable[Log]) -> None:
        """The store has changed what it holds of these logs.

        A proposal that had nothing left to send has the next turn: otherwise its news would wait for the rest of each
        payload that is under way, as far as there is credit. One that still has a turn to come keeps its place.
        """
        changed = set(logs)
        for exchange in self._register.living.values():
            if exchange.proposal.log in changed:
                exchange.outgoing.wake()
                if exchange.outgoing.is_in_payload:
                    self.queue(exchange)
                elif exchange.id not in self.turns:
                    self.turns.appendleft(exchange.id)

    # -- writing -----------------------------------------------------------------------------------------------

    def respond(self, limit: int) -> bool:
        """Write items, up to about ``limit`` bytes; whether there may be more to send now.

        Reads from the source. Each proposal has its turn, for a chunk at a time.
        """
        if self._agreed is None:
            return False
        while self.turns and self._register.pending < limit:
            exchange = self._register.living.get(self.turns.popleft())
            if exchange is not None and exchange.may_send:
                most = min(limit, self._register.pending + self._limits.chunk) if self.turns else limit
                self._send_some(exchange, most, greedy=self._agreed.sends_greedily)
        return bool(self.turns)

    def _send_some(self, exchange: Exchange, limit: int, *, greedy: bool) -> None:
        outgoing = exchange.outgoing
        while exchange.may_send:
            if self._register.pending >= limit:
                self.queue(exchange)
                return
            if self._send_run(exchange, limit):
                continue
            step = outgoing.step(self._source, max(limit - self._register.pending, _LEAST_PIECE), greedy=greedy)
            if step is None:
                self._show_fork(exchange)
                self._give_up_waiting(exchange)
                self._tell_of_gap(exchange)
                break
            if not (exchange.is_ours or outgoing.has_begun):
                # What is held may have come after the confirmation: on top of another entry nothing fits together.
                against = objection(exchange.proposal, self._source)
                if against is not None:
                    self._register.cancel(exchange, against)
                    return
            if self._current is not exchange:
                self._current = exchange
                self._register.put(push_data(Switch(exchange.id)))
            for message in step.messages:
                if isinstance(message, Raw):
                    self._put_body(message, step.body)
                else:
                    self._register.put(push_data(message))
                    self.entries_sent += isinstance(message, Metadata)
            outgoing.moved(step)
        self.end_if_finished(exchange)

    def _send_run(self, exchange: Exchange, limit: int) -> bool:
        """Send entries in a run, where nothing has to be decided between them; whether there were any."""
        if self._encoder is not None or self._current is not exchange:
            return False
        if not (exchange.is_ours or exchange.outgoing.has_begun):
            return False
        data, count = exchange.outgoing.run(self._source, limit - self._register.pending)
        self._register.put(data)
        self.entries_sent += count
        return count > 0

    def end_if_finished(self, exchange: Exchange) -> None:
        """Cancel a proposal to which neither side can add anything."""
        if exchange.is_finished(self._source) and not exchange.has(Said.CANCEL_SENT):
            self._register.cancel(exchange, self._fork_in(exchange) or Cancel(exchange.id, Code.END_OF_RANGE))

    def _show_fork(self, exchange: Exchange) -> None:
        """Nothing more can be sent: if the log is forked here or further on, say so.

        The peer must not wait for what we lack below the fork to hear of it. It proposes anew what is below the fork.
        """
        if exchange.outgoing.target < exchange.total and (fork := self._fork_in(exchange)) is not None:
            self._register.cancel(exchange, fork)

    def _give_up_waiting(self, exchange: Exchange) -> None:
        """Cancel a proposal if a payload that we lack is mandatory and keeps us from sending what follows.

        In proposals of our own that ask for something we wait: they are to bring what we lack, perhaps this payload.
        """
        may_give_up = not exchange.is_ours or exchange.ours.eagerness == NOTHING
        if exchange.may_send and may_give_up and exchange.outgoing.is_held_up(self._source):
            self._register.cancel(exchange, Cancel(exchange.id, Code.MANDATORY_PAYLOAD))

    def _tell_of_gap(self, exchange: Exchange) -> None:
        """Tell the owner that an entry which we lack holds up a proposal."""
        if exchange.may_send and exchange.outgoing.is_new_gap(self._source):
            self._register.events.append(HeldUp(exchange.proposal))

    def _fork_in(self, exchange: Exchange) -> Cancel | None:
        """A cancellation that shows the lowest known fork up to the end of a proposal; None if there is none."""
        if not self._source.held(exchange.proposal.log).is_forked:
            return None
        return fork_up_to(exchange.proposal, MAX_U64 if exchange.end is None else exchange.end, self._source)

    def _put_body(self, message: Raw, body: Buffer) -> None:
        encoded = None
        if self._encoder is not None and len(body) >= _LEAST_COMPRESSED:
            encoded = self._encoder.encode_if_smaller(body)
        if encoded is not None:
            self._register.put(push_data(Compressed(len(body), len(encoded))))
            self._register.put(encoded)
        else:
            self._register.put(push_data(message))
            self._register.put(body)
