"""The verified store: logs in an SQLite file, large payloads beside. ``culm.store.interface`` says what a store is."""

from culm.store.interface import (
    ImportReport,
    LogSummary,
    Offer,
    PayloadSink,
    Sendable,
    Store,
    StoredEntry,
    VerifyReport,
)
from culm.store.news import BEGINNING, NewsPage, Position
from culm.store.schema import PayloadState, State
from culm.store.sqlite import SQLiteStore
from culm.store.views import View
from culm.types import Log

__all__ = [
    "BEGINNING",
    "ImportReport",
    "Log",
    "LogSummary",
    "NewsPage",
    "Offer",
    "PayloadSink",
    "PayloadState",
    "Position",
    "SQLiteStore",
    "Sendable",
    "State",
    "Store",
    "StoredEntry",
    "VerifyReport",
    "View",
]
