"""The verified store: logs in an SQLite file, large payloads in files beside it.

``culm.store.interface`` says what a store is to the rest of Culm. Behind it stand layers. A module imports only modules
of lines below its own, type annotations included, so the lowest modules know nothing of those above.
``tests/test_structure.py`` reads the lines from here::

    sqlite, copying: the facade; copying a store that is in use
    append, ingest, payloads.sink, records.views: publishing, taking in entries and payloads, sets to reconcile
    opening, logview: tables up to date and hooks in place; one log while entries are added to it
    exchange, verify, survey, lookup, news, recordindex.compare: jobs, and questions to what is held
    migrations, queries, kinds, recordindex.storage: tables of earlier versions; reading; checking every value
    records.index, recordindex.writer: the record index, in the database and as a folder of files
    records.runs, payloads.pieces, recordindex.manifest: what is held as runs of entries; the bytes of payloads
    foreign: whether a file has the tables of a store and no others
    database: one connection, its transactions, hooks before each commit
    rows, payloads.folder, interface: where rows become values; the folder of large payloads; the protocols
    surveyed: the values of surveys
    values, files: the values that the store takes and gives; the formats of export files
    schema: tables, states, and the conditions that name them
"""

from culm.store.interface import PayloadSink, ReadableStore, Store, ToolStore
from culm.store.schema import PayloadState, State
from culm.store.sqlite import SQLiteStore
from culm.store.values import (
    BEGINNING,
    ImportReport,
    LogSummary,
    NewsPage,
    Offer,
    Overtaken,
    Position,
    Sendable,
    StoredEntry,
    VerifyReport,
    View,
)
from culm.types import Log

__all__ = [
    "BEGINNING",
    "ImportReport",
    "Log",
    "LogSummary",
    "NewsPage",
    "Offer",
    "Overtaken",
    "PayloadSink",
    "PayloadState",
    "Position",
    "ReadableStore",
    "SQLiteStore",
    "Sendable",
    "State",
    "Store",
    "StoredEntry",
    "ToolStore",
    "VerifyReport",
    "View",
]
