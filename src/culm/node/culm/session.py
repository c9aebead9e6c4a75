"""A ``culm://`` session: finds out which logs differ, fetches what is missing, and goes on with what is new.

The connection carries three streams. On the first, ``Discovery`` compares both stores and so learns which logs differ.
On the second, an interval session inside this one transfers entries; ``Fetching`` says which. On the third, both sides
offer what is new later on.

The inner session has a driver of its own, over streams that end in this connection (``culm.node.culm.streams``). So a
transfer that waits for the disk never keeps an offer waiting.

When is a one-time sync over? Each side says *settled* with the number of a discovery once it has all that it wants of
what that discovery found. The session is done when both sides have settled the last one.

Specification: docs/specs/culm.md, "News".
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import ClassVar, cast

from culm import session
from culm.errors import NetworkError
from culm.intervals import Limits as IntervalLimits
from culm.node.culm.avoiding import Avoiding
from culm.node.culm.discovery import Discovery
from culm.node.culm.fetching import Fetching
from culm.node.culm.interests import interests_for_peer
from culm.node.culm.offers import offer_of
from culm.node.culm.receipts import Receipts
from culm.node.culm.streams import TransferReader, TransferWriter
from culm.node.interests.policy import Policy
from culm.node.intervals.session import IntervalSession
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sessions.stats import PeerRefused, refusal
from culm.node.sharing.rates import Streams
from culm.session import Connection, Event, Offer
from culm.session.limits import NONCE_BYTES
from culm.types import Log

_OFFER_SECONDS = 0.05  # Changes within this time are offered together, because an append seldom comes alone.
_OFFERS_QUEUED = 256 * 1024  # Bytes. While the peer has not taken them it gets no more offers, so memory stays bounded.
_KNOWN_OFFERS = 4096  # Offers of the peer, remembered so that it is not offered what it has just offered to us. The
# oldest are forgotten; an offer that is sent back needlessly costs a few bytes and does no harm.


class CulmSession(Session[Event]):
    """One session. ``discovery`` compares; the inner interval session transfers."""

    scheme: ClassVar[str] = "culm"
    connection: Connection

    def __init__(self, context: Context, streams: Streams, purpose: Purpose) -> None:
        config = context.config
        connection = Connection(
            context.needed_identity(),
            config.clump,
            config.surroundings.secret_bytes(NONCE_BYTES),
            listener=purpose.key,
            refuses=lambda key: context.refuses(key) or (0.0 if self.config.policy.admits_peer(key) else math.inf),
            refused_features=config.refuse_ranges,
        )
        super().__init__(context, streams, connection, purpose)
        self._source = context.source
        self._incoming = TransferReader(connection, self.driver.wake)
        self._outgoing = TransferWriter(connection, self.driver.wake)
        self._transfer = IntervalSession(
            # A log is released as soon as all of it came, so a quiet transfer stream says nothing: do not settle early.
            # Such peers rely on requests that stay open: ``stateless`` goes for ``intervals://`` alone.
            replace(
                context,
                config=replace(
                    config, stateless=False, limits=replace(config.limits, settle_seconds=config.limits.idle_seconds)
                ),
                grew=lambda _: None,
            ),
            (self._incoming, cast("asyncio.StreamWriter", self._outgoing)),
            Purpose(
                is_live=False,
                mirrors=False,
                interest=lambda log: self.config.policy.interest(log),  # noqa: PLW0108 - the policy may change
                limits=IntervalLimits(),
                finished=lambda logs: self._fetching.finished(logs),  # noqa: PLW0108 - it is made below
                peek=purpose.peek,
                is_counted=False,
            ),
        )
        self.stats, self.witness = self._transfer.stats, self._transfer.witness
        self._me = context.needed_identity().public
        self._receipts = Receipts(
            connection,
            context.held,
            self._me,
            context.address,
            lambda log: self.config.policy.shares(log),  # noqa: PLW0108 - the policy may change
        )
        self._fetching = Fetching(
            context.source,
            context.worker.share,
            context.claims,
            self._transfer,
            self._receipts,
            self._fetched_some,
            self._tell_forks,
        )
        self.discovery = Discovery(
            connection, context.worker, config, self.driver.wake, self._compared, self._receipts.begin_comparison
        )
        self._avoiding = Avoiding(config.avoid_ranges)
        self._opened = asyncio.Event()
        self._flushed = asyncio.Event()
        self._peer_has: dict[Log, int] = {}  # What the peer offered last of each log, as ``_mark`` gives it.
        self._changed = asyncio.Event()
        self._settled = self._peer_settled = 0
        self._compared_up_to = 0  # The number of the last discovery that ``_compared`` has dealt with.
        self._offered_since: set[Log] = set()  # Logs of our own that the peer has offered since the last comparison.
        self._refused: session.Refused | None = None  # What we have answered a caller that we do not talk to.

    @property
    def peer(self) -> bytes | None:
        """The other side's identity (32 bytes), once it is known; a caller's is not proved before ``is_open``."""
        return self.connection.peer

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over."""
        return self._opened.is_set()

    # -- life --------------------------------------------------------------------------------------------------

    def works(self) -> Iterable[Coroutine[object, object, None]]:
        """What runs beside the connection: discovery, transfer, fetching and news, once the handshake is over."""
        return map(self._once_open, (self._transfer.run, self.discovery.run, self._fetching.run, self._offer_news))

    async def _once_open(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        await self._opened.wait()
        await work()

    async def flush(self) -> None:
        """Store the entries and payloads that came before the connection ended, and note what the peer said last."""
        await self._transfer.flush()
        if self._fetching.has_rest:
            await self._share.run(self._fetching.hear_rest)

    def close(self) -> None:
        """Release the claims, so that other sessions fetch what this one did not."""
        self._fetching.close()
        self.discovery.close()
        self.connection.close()

    def store_changed(self) -> None:
        """The store has changed: offer what is new to the peer."""
        self._changed.set()
        self._transfer.store_changed()

    async def lost(self, log: Log, seq: int) -> None:  # noqa: ARG002 - the comparison finds what differs
        """A payload was damaged on our disk: compare with the peer again, which then names the log."""
        if self.is_open:
            self.discovery.again()

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices of the operator. The connection is closed if they do not allow the peer."""
        if self.peer is not None and not policy.admits_peer(self.peer):
            self.driver.close()
            return
        self.config = self.discovery.config = replace(self.config, policy=policy)
        self._transfer.config = replace(self._transfer.config, policy=policy)
        if self.is_open:
            self._tell_interests()
            self.discovery.again()

    def _tell_interests(self) -> None:
        relay = self._context.relay
        policy = self.config.policy if relay is None else relay.policy_for(self)
        interests = self._source.ask(interests_for_peer, policy)
        self.connection.tell_interests(self._source.ask(self._avoiding.told, interests))
        self.driver.wake()

    # -- reading -----------------------------------------------------------------------------------------------

    async def handle(self, events: list[Event]) -> None:
        """Act on events, in one turn. While too many offers wait, the peer gets no credit for more."""
        async with self._share.turn():
            for event in events:
                self._handle(event)
        if self._refused is not None:
            await self.driver.send_now()
            if self._refused.seconds == math.inf:
                raise PeerRefused("the peer is not on this node's list of allowed peers, or is blocked")
            raise PeerRefused(refusal(self._refused.seconds))
        self.connection.hold(holds=self._fetching.is_full)
        self.driver.wake()

    async def end_of_stream(self) -> None:
        """``PeerRefused`` if the peer closed the connection during the handshake; ``NetworkError`` soon after it.

        A listener says for how long it punishes a caller, and nothing else. So a stranger does not learn which
        identities it allows.
        """
        if self.is_open:
            if not self.is_live and not self.discovery.ended:
                raise NetworkError(
                    "the peer ended the connection before both sides had compared what they hold; sync again, or look"
                    " at the peer's log: it may refuse a range feature that this node uses (--avoid-ranges)"
                )
            return
        if seconds := self.connection.refused_for:
            raise PeerRefused(
                f"the peer refuses this node for another {seconds} s, because a call with its identity, or from its"
                " address, named a wrong clump or broke the protocol; compare the clump with the peer's, and call again"
                " (calling meanwhile does not prolong that)"
            )
        raise PeerRefused(
            "the peer hung up during the handshake: it may use another clump, or not allow this identity; compare the"
            " clump (--clump, or clump in culm.toml) with the peer's"
        )

    def _handle(self, event: Event) -> None:
        match event:
            case session.Transferred(data):
                self._incoming.feed_data(data)
            case session.Established():
                self._opened.set()
                self.proved = self._transfer.proved = self.peer
                self._tell_interests()
            case session.Refused():
                self._refused = event
            case session.InterestsTold():
                if self._context.relay is not None:
                    self._context.relay.hear(self, self.connection.their_interests)
                self.discovery.interests_told()
            case session.Reconcile() | session.Asked() | session.Ended():
                self.discovery.take(event)
            case session.Named(offers):
                self.discovery.take(event)
                self._offered(offers)
            case session.Offered(offers):
                self._offered(offers)
            case session.Settled(number):
                self._peer_settled = max(self._peer_settled, number)
                self._check_settled()

    def _offered(self, offers: Iterable[Offer]) -> None:
        for offer in offers:
            self._peer_has.pop(offer.log, None)
            self._peer_has[offer.log] = _mark(offer)
            if offer.author == self._me:
                self._offered_since.add(offer.log)
        while len(self._peer_has) > _KNOWN_OFFERS:
            del self._peer_has[next(iter(self._peer_has))]
        self._fetching.offered(offers)

    def _compared(self) -> None:
        """A discovery is over. After the first one the peer shows what it has of our own logs, before it has more."""
        theirs, policy = self.connection.their_interests, self.config.policy

        def takes_part(log: Log) -> bool:
            return theirs.wants(log) and policy.shares(log)

        differ = self.discovery.named | self._offered_since
        self._source.ask(self._receipts.end_comparison, differ, takes_part)
        self._offered_since.clear()
        is_first = not self._compared_up_to
        self._compared_up_to = self.discovery.ended
        if is_first:
            self._fetching.compared(self.discovery.named, takes_part)
        self._check_settled()

    # -- settling ----------------------------------------------------------------------------------------------

    def _fetched_some(self) -> None:
        """Take more offers if there is room again, and see whether everything has come."""
        if not self._fetching.is_full:
            self.connection.hold(holds=False)
        self.driver.wake()
        self._check_settled()

    def _check_settled(self) -> None:
        """Tell the peer once we have all that we want of it; see whether both sides have said so."""
        if self._fetching.is_idle and self._compared_up_to > self._settled:
            self._settled = self._compared_up_to
            self.connection.settle(self._settled)
            self.driver.wake()
        if self._has_all:
            self.settled()
            self.driver.wake()

    @property
    def _has_all(self) -> bool:
        return self._fetching.is_idle and 0 < self._compared_up_to <= min(self._settled, self._peer_settled)

    async def check_done(self) -> None:
        """Set ``done`` once both sides have all, and everything is sent: the peer hears what we hold of its logs."""
        if not self.is_live and self._has_all and not self.connection.is_comparing:
            self.done.set()

    # -- news --------------------------------------------------------------------------------------------------

    async def _offer_news(self) -> None:
        """Offer logs that have changed, of those that the peer wants, until cancelled."""
        await self.discovery.begun.wait()
        change = self.discovery.change  # The store's change up to which the peer was offered all.
        while True:
            await self._changed.wait()
            await asyncio.sleep(_OFFER_SECONDS)
            self._changed.clear()
            while self.connection.offers_queued > _OFFERS_QUEUED:
                self._flushed.clear()
                await self._flushed.wait()
            change, offers, is_outgrown = await self._share.run(self._news_for_peer, change)
            if offers:
                self.connection.offer(offers)
                self.driver.wake()
            if is_outgrown:
                self._tell_interests()
                self.discovery.again()

    def _tell_forks(self, logs: list[Log]) -> None:
        """Offer logs in which a fork has just been found: at once, because the session may be about to end."""
        theirs, policy = self.connection.their_interests, self.config.policy
        offers = [self._source.ask(offer_of, log) for log in logs if theirs.wants(log) and policy.shares(log)]
        if offers:
            self.connection.offer(offers)
            self.driver.wake()

    def _news_for_peer(self, change: int) -> tuple[int, list[Offer], bool]:
        """The store's last change; offers of what changed since; and whether our interests are to be told anew."""
        change, logs = self._source.ask(lambda store: store.changed_logs(change))
        theirs, policy = self.connection.their_interests, self.config.policy
        found = []
        for log in logs:
            if theirs.wants(log) and policy.shares(log):
                offer = self._source.ask(offer_of, log)
                if self._peer_has.get(log) != _mark(offer):
                    found.append(offer)
        return change, found, self._source.ask(self._avoiding.is_outgrown, logs)

    # -- writing -----------------------------------------------------------------------------------------------

    async def compose(self) -> bool:
        """Nothing, because discovery, fetching and the inner session queue their messages as soon as they have any."""
        return False

    def sent(self) -> None:
        """Let the inner session and the news go on, which may wait until less is queued."""
        self._outgoing.moved()
        self._flushed.set()
        if self._receipts.is_pending:
            self._receipts.send()

    def keep_alive(self) -> None:
        """Nothing, because the inner session sends its own sign of life on its stream."""


def _mark(offer: Offer) -> int:
    """A number by which to recognise an offer: small to keep, and the same for the same offer."""
    return hash((offer.held.encode(), offer.tip, offer.fork))
