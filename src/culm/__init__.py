"""Culm: replicate, verify and analyse Bamboo logs.

``Store`` keeps logs in a file, ``Identity`` signs entries, and ``Node`` exchanges them with peers in programs that use
asyncio. ``docs/library.md`` shows how.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm.app import Node, Subscription
    from culm.bamboo import Entry, ForkProof, Identity
    from culm.bamboo.entryproof import EntryProof, check_proof
    from culm.errors import CulmError, NetworkError, NotHeld, Place, SealedPayload
    from culm.store import SQLiteStore
    from culm.store import SQLiteStore as Store
    from culm.wire.places import author_text, log_text, parse_author, parse_log, parse_place

__version__ = "0.2.0"

__all__ = [
    "CulmError",
    "Entry",
    "EntryProof",
    "ForkProof",
    "Identity",
    "NetworkError",
    "Node",
    "NotHeld",
    "Place",
    "SQLiteStore",
    "SealedPayload",
    "Store",
    "Subscription",
    "__version__",
    "author_text",
    "check_proof",
    "log_text",
    "parse_author",
    "parse_log",
    "parse_place",
]
# Each name is imported at its first use. A node needs asyncio, TLS and all protocols, a store needs SQLite and the
# signatures. Every import of a module below this one runs this file, so the ``culm`` command and the workers of Spark
# would load all of that at every start.
_MODULES = {
    "culm.app": ("Node", "Subscription"),
    "culm.bamboo": ("Entry", "ForkProof", "Identity"),
    "culm.bamboo.entryproof": ("EntryProof", "check_proof"),
    "culm.errors": ("CulmError", "NetworkError", "NotHeld", "Place", "SealedPayload"),
    "culm.store": ("SQLiteStore", "Store"),
    "culm.wire.places": ("author_text", "log_text", "parse_author", "parse_log", "parse_place"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), "SQLiteStore" if name == "Store" else name)
    globals()[name] = found  # so that this function runs once for each name
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
