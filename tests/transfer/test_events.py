"""Signatures of the entries among events."""

from __future__ import annotations

import pytest

from culm.bamboo import Entry
from culm.testing import build_log
from culm.transfer import EntriesReceived, EntryReceived, PayloadReceived, apart, bad_entries

ENTRIES = build_log(5).entries


def forged(entry: Entry) -> Entry:
    """An entry with the signature of nobody."""
    return Entry.assemble(
        entry.log, entry.seq, entry.is_end, entry.lipmaalink, entry.backlink, entry.size, entry.payload_hash, bytes(64)
    )


def test_bad_signatures_are_found_in_order() -> None:
    """All entries with a bad signature are found, and no event without an entry of its own is looked at."""
    entries = [forged(entry) if entry.seq in {2, 4} else entry for entry in ENTRIES]
    events: list[object] = [EntryReceived(0, entry, verified=True) for entry in entries]
    events.insert(1, PayloadReceived(0, forged(ENTRIES[0]), 0, b"", complete=True, checked=True))
    assert bad_entries(events) == [entries[1], entries[3]]


def test_entries_that_came_together_are_taken_apart() -> None:
    """Each entry of one event is followed by its payload, and other events stay in their places."""
    one = EntryReceived(1, ENTRIES[0], verified=True)
    expected: list[object] = [one]
    for entry in ENTRIES[1:3]:
        expected.append(EntryReceived(2, entry, verified=True))
        expected.append(PayloadReceived(2, entry, 0, b"bamboo", complete=True, checked=True))

    assert expected == apart([one, EntriesReceived(2, [(entry, b"bamboo") for entry in ENTRIES[1:3]])])


def test_nothing_bad() -> None:
    """Where all is well, or there are no entries, nothing is found."""
    assert bad_entries([EntryReceived(0, entry, verified=False) for entry in ENTRIES]) == []
    assert bad_entries([]) == []


def test_the_middle_of_a_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events without entries are not handed to the check of signatures, which would count the cores each time."""
    monkeypatch.setattr("culm.transfer.events.are_authentic", None)
    assert bad_entries([PayloadReceived(0, ENTRIES[0], 0, b"bamboo", complete=False, checked=False)]) == []
