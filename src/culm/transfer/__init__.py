"""What the two transfer protocols, intervals and proposals, do in the same way.

Both send entries of a log in an order that both ends know, and leave out what the other end can work out itself. So
both ask a store the same questions (``source``), make the same events and check their signatures in batches
(``events``), hash payloads that come in pieces (``payloads``), remember the hashes that later links name (``hashes``),
and read the store in pages (``pages``). Neither protocol knows the other.
"""

from culm.transfer.events import EntryReceived, PayloadFailed, PayloadReceived, bad_entries
from culm.transfer.hashes import LinkHashes, linked_later
from culm.transfer.pages import PAGE_ENTRIES, Pages, kept_at
from culm.transfer.payloads import PayloadCheck
from culm.transfer.source import Held, HeldLog, Kept, Source

__all__ = [
    "PAGE_ENTRIES",
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
    "bad_entries",
    "kept_at",
    "linked_later",
]
