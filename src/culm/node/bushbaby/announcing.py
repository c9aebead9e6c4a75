"""What to announce to one peer: what is news to it, what it was served, and what it is owed.

All that is held is announced at first, and later what is news (``Ledger.is_news``). A peer that was served takes the
HAVE behind that as "that is all". So a log of which it did not get all that it asked for is *owed*: when the log
changes, the peer is told, though it knows of the newest entry. And where the change came between the serving and the
HAVE behind it, the peer is told *once more*: what it takes for the end of nothing says nothing of the change.

Specification: docs/specs/bushbaby.md, "HAVE".
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from culm.bushbaby import HaveItem
from culm.wire.places import log_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from culm.node.bushbaby.ledger import Ledger
    from culm.node.bushbaby.serving import Served
    from culm.node.interests.policy import Policy
    from culm.store import Offer, ReadableStore
    from culm.types import Log

_logger = logging.getLogger("culm.node")

News = tuple[int, int, list["Offer"], list["Offer"]]
"""Change numbers of the store, from and to; offers of the logs that changed in between; of others to be announced."""


class Announcing:
    """The announcements to one peer."""

    def __init__(self) -> None:
        self._change = -1  # of the store, up to which was announced
        self._everything = True
        self._owed: set[Log] = set()
        self._once_more: set[Log] = set()
        self._held_back: set[Log] = set()

    @property
    def is_first(self) -> bool:
        """Whether nothing was announced yet."""
        return self._change < 0

    @property
    def is_due(self) -> bool:
        """Whether something is to be announced once more."""
        return bool(self._once_more)

    def start_anew(self) -> None:
        """Take every log for news: what is shared has changed."""
        self._everything = True

    def look(self, store: ReadableStore, served: Iterable[Log], ledger: Ledger) -> News:
        """What may be announced; runs on the store's thread."""
        since, self._everything = -1 if self._everything else self._change, False
        change = store.change()
        changed = list(store.offers(since))
        others = {*served, *self._once_more, *ledger.brought_by_others}.difference(offer.log for offer in changed)
        ledger.brought_by_others.clear()
        further = [store.offer(log) for log in others]
        return since, change, changed, [offer for offer in further if offer is not None]

    def choose(self, news: News, served: Mapping[Log, Served], policy: Policy, ledger: Ledger) -> list[HaveItem]:
        """What to announce of ``news`` in the HAVE behind the serving of ``served``."""
        since, self._change, changed, further = news
        changed_logs = {offer.log for offer in changed}
        items: list[HaveItem] = []
        for offer in [*changed, *further]:
            self._tell_gap(offer)
            is_asked_for = offer.log in served or offer.log in self._once_more or offer.log in self._owed
            is_news = is_asked_for or since < 0 or ledger.is_news(offer.log, offer.newest)
            if offer.newest and policy.shares(offer.log) and is_news:
                items.append(HaveItem(offer.author, offer.log_id, offer.newest))
                ledger.tell(offer.log, offer.newest)
        self._owed -= changed_logs
        lacking = {log for log, share in served.items() if share.is_lacking}
        self._owed |= lacking & {offer.log for offer in [*changed, *further]}
        self._once_more = {log for log in lacking & changed_logs if not served[log].any_sent}
        return items

    def _tell_gap(self, offer: Offer) -> None:
        if offer.held_back is not None and offer.log not in self._held_back:
            self._held_back.add(offer.log)
            gap = offer.held_back
            reason = f"the payload of entry {gap} is missing, so bushbaby:// peers get the log up to {offer.newest}"
            _logger.info("a log has a gap", extra={"log": log_text(offer.log), "seq": gap, "reason": reason})
