"""Our half of a connection: the requests we made, our credit for more, and what the peer answers.

Every message about a response belongs to the *active* request of ours. The peer says which one that is only when it
changes, so that a response of a thousand messages names its request once.

*Credit.* The peer grants us requests, one by one as earlier ones end; we may not exceed that. We grant the peer bytes
of item data: a window that shrinks with each eager message and is refilled when the owner has dealt with the data.
So a peer can never make us hold more than a window, however fast it sends. A peer may grant more requests than anybody
needs, and each that is open takes memory on our side. So we use no more of its credit than ``most_open`` allows.
How large the window is, ``culm.transfer.window`` says.
"""

from culm.bamboo import MAX_U64, Entry, PayloadHasher
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.intervals.events import Announced, Doubted, Ended, Started
from culm.intervals.exchanged import Histories
from culm.intervals.interval import Request
from culm.intervals.messages import Activate, Adjust, Cancel, Eager, End, Lazy, Reason, RequestCredit, ResponseCredit
from culm.intervals.outbox import Outbox
from culm.intervals.progress import Course
from culm.intervals.proofs import check_full, check_partial
from culm.intervals.requester import OurRequest
from culm.intervals.states import OurEvent, Ours
from culm.transfer import Source, Window


class OurSide:
    """Our requests, by id in ``requests``, at most ``most_open`` of them at once.

    ``window``: bytes of item data that the peer may send before ``refill`` grants it more. ``active``: the id of the
    request that the peer's next eager or lazy message belongs to. ``body``: bytes that are still to come of the eager
    message that was read last.
    """

    def __init__(
        self,
        source: Source,
        outbox: Outbox,
        histories: Histories,
        *,
        most_window: int,
        most_open: int,
        leaves_hashing: bool = False,
    ) -> None:
        self.requests: dict[int, OurRequest] = {}
        self._granted = 0
        self._most_open = most_open
        self._leaves_hashing = leaves_hashing
        self.window = 0
        self.next_id = 0
        self._source = source
        self._outbox = outbox
        self._histories = histories
        self._sizing = Window(most_window)
        self.active = 0
        self.body = 0

    # -- asking ------------------------------------------------------------------------------------------------

    @property
    def credit(self) -> int:
        """How many more requests we may make now."""
        return min(self._granted, self._most_open - len(self.requests))

    def _check_credit(self) -> None:
        if self.credit == 0:
            raise LocalProtocolError("there is no credit for another request: wait until an earlier one is over")

    def request(self, request: Request, begun: tuple[Entry, PayloadHasher] | None) -> None:
        """Make a request that has the next id; ``LocalProtocolError`` if the peer gave no credit for it."""
        self._check_credit()
        history = self._histories.of(request.log)
        ours = OurRequest(Course(request), history, self._source, leaves_hashing=self._leaves_hashing)
        if begun is not None:
            ours.resume(*begun)
        elif request.is_immediate:
            ours.expect_payload()
        self._open(ours)
        self._outbox.send(request)

    def _open(self, ours: OurRequest) -> None:
        self._granted -= 1
        self.requests[ours.request.id] = ours
        self.next_id += 1

    def cancel(self, request_id: int) -> None:
        """Have the peer end a response; what it sends until then still comes. ``LocalProtocolError`` if it is over."""
        self._own(request_id).move(OurEvent.CLOSE)
        self._outbox.send(Cancel(request_id))

    def adjust(self, request_id: int, seq: int | None = None, offset: int | None = None) -> int:
        """Change a request from lazy to eager or the reverse; the id of the request that takes over.

        ``seq`` is the number of an entry, ``offset`` a byte of its payload (None: its metadata): where the new response
        begins or changes, as docs/specs/intervals.md, "Adjustments", says. An eager response must not begin with a
        payload whose metadata was only announced, since its end could not be found: from lazy to eager, name an entry.
        """
        self._check_credit()
        ours = self._own(request_id)
        message = Adjust(request_id, self.next_id, seq, offset)
        try:
            # Where the successor begins is known only when the old response ends; until then this one stands for it.
            successor = ours.successor(message)
        except RemoteProtocolError as error:
            raise LocalProtocolError(str(error)) from None
        ours.move(OurEvent.CLOSE)
        successor.state = Ours.DEFERRED
        ours.succession = successor, message
        self._open(successor)
        self._outbox.send(message)
        return message.new

    def _own(self, request_id: int) -> OurRequest:
        ours = self.requests.get(request_id)
        if ours is None:
            raise LocalProtocolError(f"request {request_id} is over, or was never made")
        return ours

    def refill(self) -> None:
        """Let the peer send a whole window again."""
        if amount := self._sizing.grant(self.window):
            self.window += amount
            self._outbox.send(ResponseCredit(amount))

    # -- what the reader of messages asks (``culm.intervals.codec.Context``) -------------------------------------

    def starts(self) -> bool:
        """Whether the next eager or lazy message carries the number of a relative start."""
        ours = self.requests.get(self.active)
        return ours is not None and ours.starts

    def has_hash(self, items: int, following: bytes) -> bool:  # noqa: ARG002 - other readers know only the bytes
        """Whether a lazy message over so many items carries a hash."""
        ours = self.requests.get(self.active)
        return ours is not None and ours.has_hash(items)

    @property
    def payload_left(self) -> int:
        """How many of the next bytes are, as far as can be told, all of the payload that has begun; 0 if none has."""
        ours = self.requests.get(self.active)
        return 0 if ours is None else ours.payload_left

    # -- answers -----------------------------------------------------------------------------------------------

    def take_credit(self, message: RequestCredit) -> None:
        """The peer grants more requests."""
        self._granted = grown(self._granted, message.amount)

    def take_activate(self, message: Activate) -> None:
        """The peer goes on with the response to another request."""
        self._activate(self.active + message.change)

    def _activate(self, request_id: int) -> None:
        if not 0 <= request_id <= MAX_U64:
            raise RemoteProtocolError(f"the peer made request {request_id} the active one, which is no 64-bit number")
        self._answered(request_id)
        self.active = request_id

    def _answered(self, request_id: int) -> OurRequest:
        """The request that something is said of, if it is one that can be answered now."""
        ours = self.requests.get(request_id)
        if ours is None:
            raise RemoteProtocolError(f"the peer answered request {request_id}, which is not open")
        ours.move(OurEvent.ANSWER)
        return ours

    def _progressing(self, start: int | None) -> OurRequest:
        ours = self._answered(self.active)
        if start is not None:
            ours.started(start)
            self._outbox.events.append(Started(ours.request.id, start))
        ours.has_progress = True
        return ours

    def take_eager(self, message: Eager) -> None:
        """Item data follows."""
        if message.count > self.window:
            raise RemoteProtocolError(
                f"the peer sent {message.count} bytes of item data, with credit for {self.window}"
            )
        ours = self._progressing(message.start)
        ours.check_eager()
        self.window -= message.count
        self._sizing.begin_turn(in_payload=bool(ours.payload_left))
        self.body = message.count
        if not message.count:
            self.take_body(memoryview(b""))

    def take_body(self, data: memoryview) -> None:
        """Item data of the active request."""
        ours = self.requests[self.active]
        ours.take(data, self._outbox.events)
        self.body -= len(data)
        self._sizing.took(self.active, len(data), goes_on=bool(ours.payload_left))
        if not (self.body or ours.awaits_payload):
            self._sizing.end_turn(self.active)
        if ours.is_at_end:
            if self.body:
                raise RemoteProtocolError("the peer sent bytes beyond the end of the interval")
            self._over(ours, None)

    def take_lazy(self, message: Lazy) -> None:
        """Items are announced or confirmed."""
        ours = self._progressing(message.start)
        seq, is_other = ours.take_lazy(message)
        self._outbox.events.append(Announced(ours.request.id, message.items, message.trailing, seq))
        if is_other:
            self._outbox.events.append(Doubted(ours.request.log, seq))
        if ours.is_at_end:
            self._over(ours, None)

    def take_end(self, message: End) -> None:
        """The response is over before its end."""
        ours = self._answered(self.active)
        self._over(ours, message.reason, _checked_proof(ours, message))
        if message.grants:
            self._granted = grown(self._granted, 1)
        if message.activates is not None:
            self._activate(message.activates)

    def _over(self, ours: OurRequest, reason: Reason | None, proof: tuple[Entry, ...] = ()) -> None:
        request_id = ours.request.id
        ours.abandon_part()
        self._sizing.over(request_id)
        del self.requests[request_id]
        self._outbox.events.append(Ended(request_id, reason, ours.index, ours.next_seq, proof))
        if ours.succession is not None:
            # Now it is known where the successor begins: make it anew, with what was said of it meanwhile.
            standin, message = ours.succession
            successor = ours.successor(message)
            successor.state, successor.succession = standin.state, standin.succession
            successor.move(OurEvent.RELEASE)
            self.requests[successor.request.id] = successor


def _checked_proof(ours: OurRequest, message: End) -> tuple[Entry, ...]:
    if message.reason is Reason.FULL_PROOF:
        return check_full(ours.request.log, message.proof, ours.allows_proof)
    if message.reason is Reason.PARTIAL_PROOF:
        return check_partial(ours.request.log, message.proof[0], ours.expected, ours.allows_proof)
    return ()


def grown(credit: int, amount: int) -> int:
    """Credit with more on top of it; ``RemoteProtocolError`` if that is beyond 64 bits, the protocol's limit."""
    if credit + amount > MAX_U64:
        raise RemoteProtocolError("the peer granted more credit than 64 bits hold")
    return credit + amount
