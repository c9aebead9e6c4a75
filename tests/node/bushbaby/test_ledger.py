"""The bookkeeping of a session: what to ask for, and when to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.errors import RemoteProtocolError
from culm.node.bushbaby.ledger import Ledger

if TYPE_CHECKING:
    from culm.types import Log, Run

LOG: Log = (b"a" * 32, 1)
OTHER: Log = (b"b" * 32, 2)


class Holdings:
    """A store of which only the missing spans matter."""

    def __init__(self, **held: set[int]) -> None:
        self.held: dict[Log, set[int]] = {LOG: held.get("log", set()), OTHER: held.get("other", set())}

    def missing(self, log: Log, high: int, limit: int) -> list[Run]:
        """As a store's."""
        return [(seq, seq) for seq in range(1, high + 1) if seq not in self.held[log]][:limit]


def announced(*items: tuple[Log, int]) -> Ledger:
    """A ledger that has heard these announcements."""
    made = Ledger(10)
    made.heard = True
    for log, newest in items:
        made.announced(log, newest)
    return made


def test_what_came_to_the_peer_later_is_asked_for() -> None:
    """An entry showed how far the peer's log goes, others below were not there: its next word has them asked for."""
    book = announced((LOG, 1))
    holdings = Holdings(log={1, 4})
    book.shown(LOG, 4)
    assert book.plan([LOG], holdings.missing) == [(LOG, [(2, 2), (3, 3)])]
    assert book.plan([LOG], holdings.missing) == []  # it has served that, and nothing came
    book.shown(LOG, 4)
    assert book.plan([LOG], holdings.missing) == []
    book.announced(LOG, 4)
    assert book.plan([LOG], holdings.missing) == [(LOG, [(2, 2), (3, 3)])]
    book.announced(LOG, 4)  # so it says when it has served
    assert book.plan([LOG], holdings.missing) == []


def test_what_is_missing_is_asked_for_once() -> None:
    """An announced log's missing spans are asked for; when they were stored, nothing is left."""
    held, book = Holdings(log={2}), announced((LOG, 3))
    assert book.plan([LOG], held.missing) == [(LOG, [(1, 1), (3, 3)])]
    assert not book.we_lack_nothing
    held.held[LOG] = {1, 2, 3}
    book.received(LOG, 1)
    book.stored({LOG, OTHER}, held.missing)
    assert book.we_lack_nothing
    assert book.plan([LOG], held.missing) == []


def test_a_peer_without_what_it_announced_is_not_asked_again() -> None:
    """If nothing came before the next announcement of the same, the log is given up until more of it is announced."""
    held, book = Holdings(), announced((LOG, 2))
    book.plan([LOG], held.missing)
    assert book.plan([LOG], held.missing) == []
    assert book.we_lack_nothing
    book.announced(LOG, 3)
    assert book.plan([LOG], held.missing) == [(LOG, [(1, 1), (2, 2), (3, 3)])]


def test_an_announcement_that_crosses_a_request_adds_only_what_is_new() -> None:
    """While nothing has come yet, a higher announcement asks for the numbers above, not for everything again."""
    held, book = Holdings(), announced((LOG, 5))
    book.plan([LOG], held.missing)
    book.announced(LOG, 7)
    assert book.plan([LOG], held.missing) == [(LOG, [(6, 6), (7, 7)])]


def test_what_is_still_missing_is_asked_for_again_after_something_came() -> None:
    """A HAVE after entries came ends the answer: the rest is asked for."""
    held, book = Holdings(), announced((LOG, 3))
    book.plan([LOG], held.missing)
    book.received(LOG, 1)
    held.held[LOG] = {1}
    assert book.unfinished() == [LOG]
    assert book.plan([LOG], held.missing) == [(LOG, [(2, 2), (3, 3)])]


def test_other_logs_do_not_end_an_answer() -> None:
    """An announcement of another log leaves what was asked for alone."""
    held, book = Holdings(), announced((LOG, 3), (OTHER, 1))
    book.plan([LOG], held.missing)
    assert book.plan([OTHER], held.missing) == [(OTHER, [(1, 1)])]
    assert LOG not in book.unavailable
    assert not book.we_lack_nothing


def test_plans_are_bounded() -> None:
    """What does not fit one plan is postponed, not forgotten."""
    held, book = Holdings(), announced((LOG, 2), (OTHER, 2))
    assert [log for log, _ in book.plan([LOG, OTHER], held.missing, most=2)] == [LOG]
    assert not book.we_lack_nothing
    assert OTHER in book.unfinished()
    book.received(LOG, 1)
    held.held[LOG] = {1, 2}
    assert [log for log, _ in book.plan([LOG], held.missing)] == [OTHER]


def test_announcements_are_bounded() -> None:
    """A peer that announces more logs than the limit breaks the rules."""
    book = Ledger(2)
    book.announced(LOG, 1)
    book.announced(OTHER, 1)
    with pytest.raises(RemoteProtocolError):
        book.announced((b"c" * 32, 3), 1)


def test_every_announcement_is_to_be_answered() -> None:
    """The peer has answered when it sent as many WANTs as we sent HAVEs."""
    book = Ledger(2)
    assert book.unanswered == 0
    book.unanswered += 2
    book.want_received()
    assert book.unanswered == 1
    book.want_received()
    book.want_received()
    assert book.unanswered == 0


def test_who_brought_all_that_was_asked_for_is_told_nothing() -> None:
    """No echo: a peer that brought what was missing has it. What comes from elsewhere later is news to it."""
    held, book = Holdings(log={1}), announced((LOG, 3))
    book.tell(LOG, 1)
    book.plan([LOG], held.missing)
    assert not book.is_news(LOG, 3)  # it is on its way
    for seq in (2, 3):
        book.received(LOG, seq)
    held.held[LOG] = {1, 2, 3}
    book.stored([LOG], held.missing)
    assert not book.is_news(LOG, 3)
    assert not book.brought_by_others
    assert book.is_news(LOG, 4)


def test_who_did_not_bring_what_came_from_others_is_told() -> None:
    """A peer announced what it has not, and others brought it: it is told, though it knows of the newest entry."""
    held, book = Holdings(log={1}), announced((LOG, 3))
    book.tell(LOG, 3)
    book.plan([LOG], held.missing)
    for seq in (1, 3):  # 1 was not asked for
        book.received(LOG, seq)
    held.held[LOG] = {1, 2, 3}
    book.stored([LOG], held.missing)
    assert book.brought_by_others == {LOG}
    assert book.is_news(LOG, 3)
    book.tell(LOG, 3)
    assert not book.is_news(LOG, 3)


def test_what_nobody_brought_is_told_to_nobody() -> None:
    """Two that lack the same do not tell each other about it again and again; when it comes, it is news."""
    held, book = Holdings(log={1}), announced((LOG, 3))
    book.tell(LOG, 1)
    book.plan([LOG], held.missing)
    book.received(LOG, 3)
    held.held[LOG] = {1, 3}
    assert book.plan([LOG], held.missing) == [(LOG, [(2, 2)])]
    assert book.plan([LOG], held.missing) == []
    assert not book.brought_by_others
    assert book.is_news(LOG, 3)  # if the log changes, that is


@pytest.mark.slow
def test_requests_that_grow_are_counted_in_bounds() -> None:
    """A peer that announces one entry more again and again costs no memory for it."""
    held, book = Holdings(), announced((LOG, 1))
    book.plan([LOG], held.missing)
    for newest in range(2, 3000):
        book.announced(LOG, newest)
        book.plan([LOG], held.missing)
    (asked,) = book._asked.values()
    assert asked.spans == [(1, 1000)]
