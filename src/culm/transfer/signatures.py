"""Signatures of entries, checked in batches.

To check a signature costs more than everything else that is done with an entry, and many can be checked at once on all
cores (``culm.bamboo.are_authentic``). So a connection first reads all bytes that it was handed; then it checks the
signatures of all entries in them together, before it gives the first event away.
"""

from collections.abc import Iterable

from culm.bamboo import Entry, are_authentic
from culm.transfer.events import EntryReceived


def bad_entries(events: Iterable[object]) -> list[Entry]:
    """The entries among events whose signature is bad, in the order of the events."""
    entries = [event.entry for event in events if isinstance(event, EntryReceived)]
    if not entries:
        return []
    good = are_authentic(entries)
    return [] if all(good) else [entry for entry, is_good in zip(entries, good, strict=True) if not is_good]
