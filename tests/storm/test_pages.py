"""The page of a storm: it notices what no node may send."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Entry
from culm.node.network.urls import PeerUrl
from culm.testing.builders import build_log, tampered
from culm.transfer import EntryReceived
from storm.ledger import Ledger
from storm.pages import Page

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = build_log(5)
FORGED = Entry.decode(tampered(LOG.entries[0]))


def looked_at(*entries: Entry) -> list[str]:
    """What a page says about entries that come one after the other."""
    failures: list[str] = []
    fail: Callable[[str], None] = failures.append
    ledger = Ledger()
    for payload in LOG.payloads.values():
        ledger.publish(payload)
    world: Any = SimpleNamespace(fail=fail, ledger=ledger, counts=Counter())
    page = Page(world, PeerUrl("ws", "10.0.0.1", 7006), (LOG.identity.public, 0))
    for entry in entries:
        page._take(EntryReceived(0, entry, True))
    return failures


def test_a_log_in_order() -> None:
    """Entries in order are what a page waits for."""
    assert looked_at(*LOG.entries) == []


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (LOG.entries[1:2], "waits for entry 1 got"),
        ([LOG.entries[0], LOG.entries[0]], "waits for entry 2 got"),
        (build_log(1, seed=2).entries, "waits for entry 1 got"),
        ([FORGED], "never signed"),
        (build_log(1, payload_size=9).entries, "never published"),
    ],
)
def test_what_it_notices(entries: list[Entry], reason: str) -> None:
    """A gap, a repetition, another log, a forged entry, and one that nobody published."""
    assert any(reason in text for text in looked_at(*entries))
