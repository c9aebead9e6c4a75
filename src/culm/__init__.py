"""Culm: replicate, verify and analyse Bamboo logs.

``Store`` keeps logs in a file, ``Identity`` signs entries, and ``Node`` exchanges them with peers in programs that use
asyncio. ``docs/library.md`` shows how.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from culm.bamboo import Entry, ForkProof, Identity
from culm.errors import CulmError, NetworkError, NotHeld, Place
from culm.store import SQLiteStore
from culm.store import SQLiteStore as Store
from culm.wire.places import author_text, log_text

if TYPE_CHECKING:
    from culm.app import Node, Subscription

try:
    __version__ = version("culm")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0"

__all__ = [
    "CulmError",
    "Entry",
    "ForkProof",
    "Identity",
    "NetworkError",
    "Node",
    "NotHeld",
    "Place",
    "SQLiteStore",
    "Store",
    "Subscription",
    "__version__",
    "author_text",
    "log_text",
]
# Imported at first use, because a node needs asyncio, TLS and all protocols. A program that only reads a store, and
# every worker of Spark, starts faster without them.
_OF_NODES = ("Node", "Subscription")


def __getattr__(name: str) -> object:
    if name not in _OF_NODES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("culm.app"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
