"""The verified store: logs in an SQLite file, large payloads in files beside it.

``culm.store.sqlite`` says what a store is to the rest of Culm. Below it stand layers. A module imports only modules of
lines below its own, type annotations included, so the lowest modules know nothing about those above.
``tests/test_structure.py`` reads the lines from here::

    exchange, proving: jobs with a store
    sqlite, copying: the stores; copying a store that is in use
    append, ingest, payloads.sink, records.views: publishing, taking in entries and payloads, sets to reconcile
    growing: the next entry of a log that was just appended to
    opening, logview: tables up to date and hooks in place; one log while entries are added to it
    verify, survey, gaps, lookup, news, recordindex.compare: jobs, and questions to what is held
    confirming: authors whose newest entries the store may lack
    provenance: the clumps that logs are served in
    entries, logs, recordindex.storage: reading
    records.index, recordindex.writer: the record index, in the database and as a folder of files
    payloads.checked: the bytes of complete payloads, compared on their way out
    records.runs, payloads.pieces, recordindex.manifest: what is held as runs of entries; the bytes of payloads
    foreign: whether a file has the tables of a store and no others
    database: one connection, its transactions, hooks before each commit
    rows, payloads.folder: where rows become values; the folder of large payloads
    values, files, records.sums: the values that the store takes and gives; the formats of export files; sums of records
    schema: tables, states, and the conditions that name them
"""

from culm.store.append import GROUP_BYTES, GROUP_ENTRIES, Draft, grouped
from culm.store.payloads.sink import PayloadSink
from culm.store.schema import PayloadState, State
from culm.store.sqlite import Item, ReadableStore, SQLiteStore, Store, ToolStore, authentic
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
    "GROUP_BYTES",
    "GROUP_ENTRIES",
    "Draft",
    "ImportReport",
    "Item",
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
    "authentic",
    "grouped",
]
