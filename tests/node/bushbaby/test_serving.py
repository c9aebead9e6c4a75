"""Serving requests: how much of the store's thread one of them may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bushbaby import WantItem
from culm.node.bushbaby.serving import Server
from culm.node.interests.policy import Policy
from culm.store import SQLiteStore

if TYPE_CHECKING:
    from pathlib import Path

    from culm.types import Log

AUTHOR = b"a" * 32


class _Elsewhere:
    """Logs that all belong to another clump. Counts the questions, each of which is one to the store."""

    def __init__(self) -> None:
        self.asked = 0

    def include(self, log: Log) -> bool:
        self.asked += bool(log)
        return False

    def leave_out(self) -> bool:
        return True


def test_requests_for_what_is_not_shared_do_not_hold_up_others(tmp_path: Path) -> None:
    """A hundred thousand such requests fit a few messages. One call of the store's thread looks at 128 at the most."""
    origins = _Elsewhere()
    server = Server(Policy(origins=origins), 10_000)
    server.add(WantItem(AUTHOR, log_id, None, 1, 5) for log_id in range(1000))
    with SQLiteStore(tmp_path / "store.db") as store:
        calls = []
        while server.busy:
            assert [] == server.next_messages(store, 0.0)
            calls.append(origins.asked)
    assert 1000 == calls[-1]
    assert max(after - before for before, after in zip([0, *calls], calls, strict=False)) <= 128
