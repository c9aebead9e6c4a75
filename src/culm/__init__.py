"""Culm: replicate, verify and analyse Bamboo logs.

``Node`` is for programs that use asyncio, ``Store`` holds logs without one, ``Identity`` signs: ``docs/library.md``.
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
_OF_NODES = ("Node", "Subscription")  # loaded when they are used first: with them come asyncio, TLS, all protocols


def __getattr__(name: str) -> object:
    if name not in _OF_NODES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("culm.app"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
