"""What a session counts, keeps and adds up."""

from __future__ import annotations

import pytest

from culm.errors import InvalidEntry, Place, RemoteProtocolError, StoreFull
from culm.node.sessions.stats import SessionStats

LOG, OTHER = (bytes(32), 1), (bytes(32), 2)


def test_the_first_refusals_are_kept() -> None:
    """A hundred are kept in words, and all offences are counted; more than a hundred of these end the session."""
    stats = SessionStats()
    for number in range(1, 102):
        assert stats.note_refused(Place(*LOG, number), InvalidEntry("wrong"), tell=False) is (number <= 100)
        if number == 100:
            stats.check_offences()
    assert (100, 101) == (len(stats.refused), stats.offences)
    assert stats.refused[0].endswith("/1/1: wrong")
    with pytest.raises(RemoteProtocolError, match="more than 100 wrong entries or payloads"):
        stats.check_offences()


def test_what_is_no_offence() -> None:
    """That the store is full is not the peer's fault."""
    stats = SessionStats()
    assert stats.note_refused(None, StoreFull("full"), tell=False)
    assert (["full"], 0) == (stats.refused, stats.offences)


def test_adding_up() -> None:
    """Counts, refusals and forks of several sessions are one result; of a fork the lowest position counts."""
    one, other = SessionStats(bytes_received=5, refused=["a"]), SessionStats(bytes_received=7, refused=["b"])
    one.note_fork(LOG, 9)
    other.note_fork(LOG, 4)
    other.note_fork(OTHER, 6)
    one.add(other)
    assert (12, ["a", "b"], {LOG: 4, OTHER: 6}) == (one.bytes_received, one.refused, one.forked)
