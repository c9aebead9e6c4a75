"""Which dialect to speak at an address.

Specification: docs/specs/bushbaby.md, "Dialects".
"""

from __future__ import annotations

from culm.bushbaby import Dialect
from culm.node.bushbaby.remembered import Dialects

DEPLOYED, DOCUMENT = Dialect.DEPLOYED, Dialect.DOCUMENT


def test_the_dialect_heard_last_is_spoken() -> None:
    """An unknown peer is spoken to as the deployed one, after listening; a known one at once, in its dialect."""
    dialects = Dialects()
    assert dialects.at("a") == (DEPLOYED, False)
    dialects.heard("a", DOCUMENT)
    assert dialects.at("a") == (DOCUMENT, True)
    assert dialects.at("b") == (DEPLOYED, False)


def test_a_refused_peer_is_called_once_more_in_the_other() -> None:
    """If both dialects are refused, it was for another reason, and the next call begins as the first one."""
    dialects = Dialects()
    for _ in range(2):
        assert dialects.refused("a", DEPLOYED)
        assert dialects.at("a") == (DOCUMENT, True)
        assert not dialects.refused("a", DOCUMENT)
        assert dialects.at("a") == (DEPLOYED, False)
    assert dialects.refused("a", DEPLOYED)
    dialects.heard("a", DOCUMENT)
    assert dialects.at("a") == (DOCUMENT, True)


def test_a_peer_whose_hello_comes_late_is_called_once_more() -> None:
    """Who hangs up at our HELLO and sends one of the other dialect is called once more, until a handshake is over."""
    dialects = Dialects()
    assert [dialects.heard_late("a") for _ in range(4)] == [True, False, True, False]
    assert [dialects.heard_late("b") for _ in range(1)] == [True]
    dialects.opened("b")
    assert dialects.heard_late("b")


def test_addresses_are_bounded() -> None:
    """Of more addresses than are kept, those that were heard from last are known."""
    dialects = Dialects()
    for number in range(5000):
        dialects.heard(str(number), DOCUMENT)
    assert [dialects.at(str(number))[1] for number in (0, 903, 904, 4999)] == [False, False, True, True]
