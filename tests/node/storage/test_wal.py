"""Folding the WAL file beside the store's thread."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from culm.node.storage import wal
from culm.node.storage.worker import StoreWorker
from culm.store import SQLiteStore
from culm.store.database import Database
from culm.store.opening import open_database
from tests.node.links import run_really

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_node_that_stops_while_it_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that folds is closed behind what is under way on it, and before the node has stopped."""
    entered, go_on = threading.Event(), threading.Event()
    seen: list[str] = []
    close = Database.close

    def opened(path: Path) -> Database:
        database = open_database(path)
        entered.set()
        go_on.wait(10)
        seen.append("opened")
        return database

    def closed(database: Database) -> None:
        seen.append("closed")
        close(database)

    async def main() -> None:
        with SQLiteStore(tmp_path / "s.db") as store:
            worker = StoreWorker(store)
            monkeypatch.setattr(wal, "open_database", opened)
            monkeypatch.setattr(Database, "close", closed)
            async with wal.folding(worker):
                await asyncio.to_thread(entered.wait, 10)
                asyncio.get_running_loop().call_later(0, go_on.set)
            assert seen == ["opened", "closed"]
            worker.close()

    run_really(main)  # a real thread is in the middle of a call when the loop goes on
