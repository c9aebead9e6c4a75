"""What the two transfer protocols, intervals and proposals, do in the same way.

Both send entries of a log in an order that both ends know, and leave out what the other end can work out itself. So
both ask a store the same questions and read it in pages (``source``). Both make the same events and check their
signatures in batches (``events``), hash payloads that come in pieces (``payloads``), remember the hashes that later
links name (``hashes``), and let as much be under way as suits what comes (``window``). Neither protocol knows the
other.
"""

from culm.transfer.events import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived, apart, bad_entries
from culm.transfer.hashes import LinkHashes
from culm.transfer.payloads import PayloadCheck
from culm.transfer.source import PAGE_ENTRIES, Held, HeldLog, Kept, Pages, Source, entry_at
from culm.transfer.window import Window

__all__ = [
    "PAGE_ENTRIES",
    "EntriesReceived",
    "EntryReceived",
    "Held",
    "HeldLog",
    "Kept",
    "LinkHashes",
    "Pages",
    "PayloadCheck",
    "PayloadFailed",
    "PayloadReceived",
    "Source",
    "Window",
    "apart",
    "bad_entries",
    "entry_at",
]
