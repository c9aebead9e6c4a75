"""Culm: replicate, verify and analyse Bamboo logs."""

from importlib.metadata import PackageNotFoundError, version

from culm.bamboo import Entry, ForkProof, Identity
from culm.errors import CulmError, Place
from culm.store import SQLiteStore

try:
    __version__ = version("culm")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0"

__all__ = ["CulmError", "Entry", "ForkProof", "Identity", "Place", "SQLiteStore", "__version__"]
