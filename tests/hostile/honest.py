"""A peer that does nothing wrong, in a process of its own: it fetches the node's logs again and again.

``python -m tests.hostile.honest SCHEME TARGET`` reads a number of seconds from each line of its input, syncs into
fresh stores for that long, at least once, and prints what came of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from culm.bamboo import Identity
from culm.errors import CulmError, NetworkError
from culm.node.config import NodeConfig
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.sessions.session import Purpose
from culm.node.sync import sync
from culm.store import SQLiteStore
from tests.hostile.node import ENTRIES, LOGS, Target

if TYPE_CHECKING:
    from culm.node.sync import SyncSummary

_MORE_SECONDS = 10.0  # for which it tries to be let in, after the time in which it syncs
_RETRY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Synced:
    """What an honest peer got: entries, in how many syncs and seconds; its CPU seconds; ``failed``: why it did not."""

    entries: int
    syncs: int
    seconds: float
    cpu: float
    failed: str = ""

    @property
    def rate(self) -> float:
        """Entries a second; 0 if it failed."""
        return 0.0 if self.failed else self.entries / self.seconds

    def joined(self, other: Synced) -> Synced:
        """Both together."""
        return Synced(
            self.entries + other.entries,
            self.syncs + other.syncs,
            self.seconds + other.seconds,
            self.cpu + other.cpu,
            self.failed or other.failed,
        )


async def _sync(scheme: str, target: Target, store: SQLiteStore, identity: Identity) -> SyncSummary:
    policy = Policy(interests={(target.author, log_id): EVERYTHING for log_id in range(LOGS)})
    config, url = replace(NodeConfig(target.clump), policy=policy), target.urls[scheme]
    return await sync(identity, config, store, url, Purpose(is_live=False, mirrors=False, logs=tuple(target.logs)))


def sync_once(scheme: str, target: Target, store: SQLiteStore) -> str:
    """Sync once; why that was not all, if it was not."""
    try:
        summary = asyncio.run(_sync(scheme, target, store, Identity(os.urandom(32))))
    except CulmError as error:
        return str(error)
    return "" if summary.entries_received == LOGS * ENTRIES else f"{summary.entries_received} entries came"


def sync_for(seconds: float, scheme: str, target: Target, identity: Identity) -> Synced:
    """Sync for so long, at least once. Calls again, as a node does, where it is not let in."""
    entries = syncs = 0
    taken = 0.0
    before = time.process_time()
    failed = ""
    while (taken < seconds or not syncs) and not failed:
        with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "store.db") as store:
            began = time.monotonic()
            try:
                summary = asyncio.run(_sync(scheme, target, store, identity))
            except CulmError as error:
                if not isinstance(error, NetworkError) or taken > seconds + _MORE_SECONDS:
                    failed = str(error)
                    break
                time.sleep(_RETRY_SECONDS)
                taken += _RETRY_SECONDS
                continue
            finally:
                taken += time.monotonic() - began
        if summary.entries_received < LOGS * ENTRIES:
            failed = f"{summary.entries_received} entries came"
        entries, syncs = entries + summary.entries_received, syncs + 1
    return Synced(entries, syncs, taken, time.process_time() - before, failed)


class Honest:
    """The process. Use it as a context."""

    def __init__(self, scheme: str, target: Target) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.honest", scheme, target.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, seconds: float) -> None:
        """Have it sync for so long."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def result(self) -> Synced:
        """Wait for it."""
        assert self._process.stdout is not None
        return Synced(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Do as each line says."""
    scheme, target = sys.argv[1], Target.from_json(sys.argv[2])
    identity = Identity(os.urandom(32))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(asdict(sync_for(float(line), scheme, target, identity))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
