"""The peer's half of a connection: the requests it made, its credit for more, and what we answer.

We grant the peer as many open requests as ``Limits.requests`` says; a request gives its credit back when it ends, so
nothing has to be refilled. The peer grants us bytes of item data. Large payloads leave some of that credit unused: a
reserve, so that a few entries that were appended just now do not wait behind gigabytes. A peer that grants more only
once all is used would wait for the reserve, and we for the peer. So where payloads alone wait, and nothing moves for a
while, they get the reserve, too, from then on.
"""

from collections.abc import Mapping

from culm.errors import RemoteProtocolError
from culm.intervals.events import RequestEnded
from culm.intervals.exchanged import Histories
from culm.intervals.interval import Request
from culm.intervals.limits import Limits
from culm.intervals.messages import Activate, Adjust, Cancel, Eager, End, Reason, RequestCredit, ResponseCredit
from culm.intervals.ours import grown
from culm.intervals.outbox import Outbox
from culm.intervals.progress import Course
from culm.intervals.responder import Data, Part, TheirRequest
from culm.intervals.turns import Turns
from culm.transfer import Source

_RESERVE = 32 * 1024  # Bytes of credit that large payloads leave to others: some hundred entries, sent at once.


class TheirSide:
    """The peer's requests. ``credit``: how many more it may make; ``data_credit``: bytes of item data we may send.

    ``entries_sent`` counts entries whose metadata went to the peer as data. ``stateless``: responses end where nothing
    more is held, instead of waiting for more.
    """

    def __init__(
        self, source: Source, outbox: Outbox, histories: Histories, limits: Limits, *, stateless: bool
    ) -> None:
        self.source = source
        self.turns = Turns()
        self.credit = 0
        self.data_credit = 0
        self.entries_sent = 0
        self.stateless = stateless
        self._outbox = outbox
        self._histories = histories
        self._limits = limits
        self._most_credit = 0  # the most ``data_credit`` that there ever was
        self._reserve = _RESERVE
        self._is_starving = False  # Whether a request lacked credit for data when ``respond`` looked last.
        self._active = 0  # the request that what we send belongs to
        self._grant(limits.requests)

    def _grant(self, requests: int) -> None:
        self.credit += requests
        self._outbox.send(RequestCredit(requests))

    # -- what the peer asks for --------------------------------------------------------------------------------

    def take_credit(self, message: ResponseCredit) -> None:
        """The peer takes more bytes of item data."""
        self.data_credit = grown(self.data_credit, message.amount)
        self._most_credit = max(self._most_credit, self.data_credit)

    def _spend(self) -> None:
        if self.credit == 0:
            raise RemoteProtocolError(
                f"the peer made a request without credit: {self._limits.requests} are allowed at once"
            )
        self.credit -= 1

    def take_request(self, request: Request) -> None:
        """The peer asks for an interval."""
        self._spend()
        try:
            theirs = TheirRequest(Course(request), self._histories.of(request.log), stateless=self.stateless)
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from None
        self._free_id(request.id)
        self.turns.open(theirs)
        self._outbox.events.append(request)

    def _free_id(self, request_id: int) -> None:
        """A new request with an id in use takes the place of the old one, without a word about that."""
        if request_id in self.requests:
            self.turns.close(request_id)
            self._grant(1)

    def take_cancel(self, message: Cancel) -> None:
        """The peer wants no more of a response."""
        theirs = self.requests.get(message.id)
        if theirs is not None:
            self._end(theirs, End(Reason.CANCELLED, grants=True))
        elif message.id not in self.turns.ids:
            raise RemoteProtocolError(f"the peer cancelled request {message.id}, which it never made")

    def take_adjust(self, message: Adjust) -> None:
        """The peer replaces a request by one that goes on in the other mode."""
        self._spend()
        if message.old not in self.turns.ids:
            raise RemoteProtocolError(f"the peer adjusted request {message.old}, which it never made")
        old = self.requests.get(message.old)
        self._free_id(message.new)
        if old is None:
            # The old request ended while the adjustment was under way. The new one ends at once, so that the peer gets
            # its credit and its id back.
            self._activate(message.new)
            self.turns.ids.add(message.new, message.new)
            self.credit += 1
            self._outbox.send(End(Reason.OTHER, grants=True))
            return
        successor = old.successor(message, self.source)
        self._end(old, End(Reason.CANCELLED, grants=True))
        self.turns.open(successor)
        self._outbox.events.append(successor.request)

    def refuse(self, request_id: int) -> None:
        """End the response to a request now; nothing happens if it is over."""
        theirs = self.requests.get(request_id)
        if theirs is not None:
            self._end(theirs, End(Reason.OTHER, grants=True))

    # -- what we answer ----------------------------------------------------------------------------------------

    @property
    def requests(self) -> Mapping[int, TheirRequest]:
        """The peer's requests that are not over, by id."""
        return self.turns.requests

    @property
    def is_content(self) -> bool:
        """Whether the peer waits for nothing that we have, as far as is known."""
        return not self.turns and not any(theirs.lazy for theirs in self.requests.values())

    def respond(self, limit: int) -> bool:
        """Write answers until about ``limit`` bytes wait; whether more could be written now."""
        turns = self.turns
        starved: list[int] = []  # requests that lack credit for data, and nothing else
        while turns and self._outbox.pending < limit:
            theirs = turns.next()
            room = min(limit, self._room(theirs))
            part = theirs.next_part(self.source, room)
            if part is not None:
                self._write(theirs, part)
                if theirs.request.id in self.requests and not theirs.pause():
                    turns.queue(theirs.request.id)
            elif room == 0 and not theirs.lazy:
                starved.append(theirs.request.id)
        for request_id in starved:
            turns.queue(request_id)
        self._is_starving = bool(starved)
        return len(starved) < len(turns)

    def nothing_moves(self) -> None:
        """Nothing was sent for a while: let payloads have the reserve, if they wait and the peer grants no more."""
        if self._is_starving and self.data_credit:
            self._reserve = 0

    def _room(self, theirs: TheirRequest) -> int:
        """How many bytes of data a request may send in its turn."""
        credit = self.data_credit
        if theirs.is_in_large_payload:
            credit -= min(self._reserve, self._most_credit // 4)
        return max(0, min(self._limits.chunk, credit))

    def _write(self, theirs: TheirRequest, part: Part) -> None:
        if isinstance(part, End):
            self._end(theirs, part)
            return
        self._activate(theirs.request.id)
        if isinstance(part, Data):
            self.data_credit -= len(part.data)
            self._outbox.send(Eager(len(part.data), theirs.start_to_tell))
            self._outbox.write(part.data)
            self.entries_sent += part.entries
        else:
            self._outbox.send(part)
        theirs.has_progress = True
        if theirs.is_at_end:
            self.turns.close(theirs.request.id)
            self._outbox.events.append(RequestEnded(theirs.request.id, theirs.request.log))
            self._grant(1)

    def _end(self, theirs: TheirRequest, end: End) -> None:
        """End a response before its interval ends; ``end`` grants the peer a new request in its place."""
        self._activate(theirs.request.id)
        self.turns.close(theirs.request.id)
        self.credit += 1
        self._outbox.send(end)
        ended = RequestEnded(theirs.request.id, theirs.request.log, theirs.doubted, has_shown_fork=bool(end.proof))
        self._outbox.events.append(ended)

    def _activate(self, request_id: int) -> None:
        if request_id != self._active:
            self._outbox.send(Activate(request_id - self._active))
            self._active = request_id
