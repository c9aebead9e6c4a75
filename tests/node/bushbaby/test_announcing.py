"""What a peer is told of: not only what is new, but what it asked for in vain.

Specification: docs/specs/bushbaby.md, "HAVE".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.bushbaby import WantItem
from culm.node.bushbaby.announcing import Announcing
from culm.node.bushbaby.ledger import Ledger
from culm.node.bushbaby.serving import Served, Server
from culm.node.interests.policy import Policy
from culm.store import SQLiteStore
from culm.testing.builders import build_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from culm.types import Log

LOG = build_log(12, seed=7)
KEY: Log = (LOG.identity.public, 0)


class Told:
    """A store of entries 1 to 9 and 12 of ``LOG``, and a peer that has 12, too, and is told of it."""

    def __init__(self, path: Path) -> None:
        self.store = SQLiteStore(path)
        self.store.add(LOG.items(LOG.entries[:9] + LOG.entries[11:]))
        self.ledger = Ledger(10)
        self.ledger.announced(KEY, 12)
        self.announcing = Announcing({}, set())

    def tell(self, served: Served | None = None) -> list[int]:
        """The entries announced, after the log was asked for and served so."""
        shares = {} if served is None else {KEY: served}
        news = self.announcing.look(self.store, shares, self.ledger, Policy())
        return [item.newest for item in self.announcing.choose(news, shares, self.ledger, is_culm=True)]

    def fill(self) -> None:
        """The rest of the log comes."""
        self.store.add(LOG.items(LOG.entries[9:11]))

    def serve(self, *wants: WantItem) -> Served:
        """What becomes of requests."""
        server = Server(Policy(), 10)
        server.add(wants)
        while server.busy:
            server.next_messages(self.store, 0.0)
        return server.served[KEY]


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """A store, and a peer that knows of it."""
    made = Told(tmp_path / "store.db")
    assert made.tell() == [12]  # at first everything is told
    assert made.tell() == []
    yield made
    made.store.close()


def test_what_changes_behind_an_unanswered_request_is_told(told: Told) -> None:
    """A peer that asked for what was not there is told when the log changes, once."""
    assert told.tell(Served(any_sent=False, is_lacking=True)) == [12]  # that is all
    assert not told.announcing.is_due
    told.fill()
    assert told.tell() == [12]
    assert not told.announcing.is_due
    assert told.tell() == []


def test_what_was_sent_in_full_is_not_told_again(told: Told) -> None:
    """A peer that got all that it asked for hears no more of it if the log changes, and it knows the newest entry."""
    assert told.tell(Served(any_sent=True, is_lacking=False)) == [12]
    told.fill()
    assert told.tell() == []


def test_a_change_right_behind_the_serving_is_told_once_more(told: Told) -> None:
    """The HAVE that ends the serving of nothing already has the change in it: there is another behind it."""
    told.fill()
    assert told.tell(Served(any_sent=False, is_lacking=True)) == [12]
    assert told.announcing.is_due
    assert told.tell() == [12]
    assert not told.announcing.is_due
    assert told.tell() == []


def test_a_change_behind_a_part_is_told_with_it(told: Told) -> None:
    """A peer that got something asks for the rest by itself."""
    told.fill()
    assert told.tell(Served(any_sent=True, is_lacking=True)) == [12]
    assert not told.announcing.is_due


def test_logs_that_are_shared_from_now_on_are_told(told: Told) -> None:
    """After a change of what is shared, everything is told anew."""
    told.announcing.start_anew()
    assert told.tell() == [12]


@pytest.mark.parametrize(
    ("want", "share"),
    [
        ((1, 9), Served(any_sent=True)),
        ((1, 12), Served(any_sent=True, is_lacking=True)),
        ((10, 11), Served(is_lacking=True)),
        ((12, 12), Served(any_sent=True)),
        ((12, 13), Served(any_sent=True, is_lacking=True)),
        ((13, None), Served()),
        (None, Served(any_sent=True, is_lacking=True)),
    ],
)
def test_what_a_request_got_is_known(told: Told, want: tuple[int, int | None] | None, share: Served) -> None:
    """Whether something came of a request, and whether something of it is not here; a log's end is not lacking."""
    low, high = want or (None, None)
    item = WantItem(*KEY, None, low, 2**64 - 1 if low and not high else high)
    assert told.serve(item) == share
