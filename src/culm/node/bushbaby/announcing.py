"""Announcing: which logs to name to a peer in a HAVE, and when.

Bushbaby has no subscriptions. A node says "I have log L up to entry 12" (HAVE), and the peer asks for what it lacks
(WANT). Announcing everything again after each change would be simple, and would cost 100 HAVEs of 100 logs for 100 new
entries. So everything is announced once, at the beginning, and later only what is news to the peer.

A HAVE has a second meaning, which makes this delicate. A peer that has asked for entries takes the next HAVE of that
log as "that is all I can give you" (``culm.node.bushbaby.ledger``), and asks no more. Two cases need care:

- The peer asked for entries 1 to 12, and we lack the payload of 5. It gets the others, and the HAVE that ends the
  serving. When 5 arrives, nothing is *newer* than 12, so the peer would never hear of it. The log is therefore *owed*:
  its next change is announced whatever the peer knows.
- We hold no entry that the peer asked for, and the log changes between the serving and the HAVE that ends it. For the
  peer that HAVE ends an empty answer: "nothing there". It does not tell the peer of the change. So the log is announced
  *once more*, in a HAVE of its own.

Only Culm nodes read a HAVE in this second way. The deployed peer would ask again for everything that it has not stored
yet. So a peer that is no Culm node hears of a log that was served only when the log changes.

Specification: docs/specs/bushbaby.md, "HAVE".
"""

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from culm.bushbaby import HaveItem
from culm.bushbaby.messages import TIP_BYTES
from culm.node.bushbaby.ledger import Ledger
from culm.node.bushbaby.serving import Served
from culm.node.interests.policy import Policy
from culm.store import Offer, ReadableStore
from culm.types import Log, Run
from culm.wire.places import log_text

_logger = logging.getLogger("culm.node")


class News(NamedTuple):
    """What the store said: the logs that changed between two of its change numbers, and what else may be announced."""

    since: int
    change: int
    changed: list[Offer]
    further: list[Offer]


class Announcing:
    """Decides on the announcements to one peer. First ``look`` on the store's thread, then ``choose`` on the loop.

    ``held_back`` says of logs which entries a peer that is no Culm node cannot take, as a span that ends with the
    newest one. ``told`` are the logs whose gap is in the log file already. The node shares both among its sessions.
    """

    def __init__(self, held_back: Mapping[Log, Run], told: set[Log]) -> None:
        self.is_due = True  # Something may have to be announced: a HAVE has to follow.
        self._change = -1  # The store's change up to which everything was announced; -1: nothing was.
        self._everything = True  # Take every log for changed the next time.
        self._owed: set[Log] = set()
        self._once_more: set[Log] = set()
        self._held_back = held_back
        self._told = told
        self._forks: dict[Log, int] = {}  # The forks that were announced.

    @property
    def is_first(self) -> bool:
        """Whether nothing was announced yet."""
        return self._change < 0

    def start_anew(self) -> None:
        """Take every log for changed, because the operator has changed what is shared."""
        self._everything = self.is_due = True

    def look(self, store: ReadableStore, served: Iterable[Log], ledger: Ledger, policy: Policy) -> News:
        """Ask the store for whatever may have to be announced. Runs on the store's thread."""
        self.is_due = False
        since, self._everything = -1 if self._everything else self._change, False
        change = store.change()
        shares = policy.shares_just_now()
        changed = [offer for offer in store.offers(since) if shares(offer.log)]
        others = {*served, *self._once_more, *ledger.brought_by_others}.difference(offer.log for offer in changed)
        ledger.brought_by_others.clear()
        further = [store.offer(log) for log in others]
        found = [offer for offer in further if offer is not None and shares(offer.log)]
        return News(since, change, changed, found)

    def choose(self, news: News, served: Mapping[Log, Served], ledger: Ledger, *, is_culm: bool) -> list[HaveItem]:
        """What to announce of ``news``, in the HAVE that ends the serving of ``served`` if the peer is a Culm node."""
        self._change = news.change
        changed_logs = {offer.log for offer in news.changed}
        items: list[HaveItem] = []
        for offer in [*news.changed, *news.further]:
            self._tell_gap(offer)
            newest = offer.newest if is_culm else self._takeable(offer)
            is_answered = offer.log in served and is_culm
            is_owed = offer.log in self._owed and offer.log in changed_logs
            is_asked_for = is_answered or is_owed or offer.log in self._once_more
            fork = offer.forked_at or 0
            is_forked_lower = is_culm and fork != self._forks.get(offer.log, 0)
            is_new = offer.log in changed_logs or offer.log not in served
            is_news = (
                is_asked_for or is_forked_lower or news.since < 0 or (is_new and ledger.is_news(offer.log, newest))
            )
            if newest and is_news:
                if fork:
                    self._forks[offer.log] = fork
                items.append(HaveItem(offer.author, offer.log_id, newest, offer.digest[:TIP_BYTES], fork))
                ledger.tell(offer.log, newest)
        self._owed -= changed_logs
        lacking = {log for log, share in served.items() if share.is_lacking}
        self._owed |= lacking & {offer.log for offer in [*news.changed, *news.further]}
        self._once_more = {log for log in lacking & changed_logs if not (is_culm and served[log].any_sent)}
        self.is_due |= bool(self._once_more)
        return items

    def _takeable(self, offer: Offer) -> int:
        """The newest entry of a log that a peer which is no Culm node can take, as far as is known; 0: none."""
        first, newest = self._held_back.get(offer.log, (0, 0))
        return first - 1 if newest == offer.newest else offer.newest

    def _tell_gap(self, offer: Offer) -> None:
        if offer.held_back is not None and offer.log not in self._told:
            self._told.add(offer.log)
            gap = offer.held_back
            reason = f"the payload of entry {gap} is missing, so bushbaby:// peers do not get that entry from here"
            _logger.info("a log has a gap", extra={"log": log_text(offer.log), "seq": gap, "reason": reason})
