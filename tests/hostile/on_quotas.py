"""Attacks on the disk of a node with quotas: a member publishes without end, by ever new keys.

The attacker keeps to each protocol, because a node without quotas would take all of it. What the node has kept is seen
from its home (``overfilled``), when it has ended.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from culm.bamboo import Identity
from culm.errors import NetworkError
from culm.node.config import NodeConfig, NodeLimits
from culm.node.interests.quotas import AUTHOR_BYTES
from culm.node.sessions.session import Purpose
from culm.node.storage.source import sizes_in
from culm.node.sync import sync
from culm.store import Draft, SQLiteStore
from tests.hostile.attack import Attack, Field
from tests.hostile.node import AUTHOR_QUOTA, CLUMP, QUOTA
from tests.hostile.wires import Wire

if TYPE_CHECKING:
    from culm.node.network.transport import Streams
    from culm.node.network.urls import PeerUrl
    from culm.types import Log

_KEYS = 3
_ENTRIES, _PAYLOAD = 100, 60_000
_LARGE = 30_000_000  # One payload that no author has room for.
_FILES_BESIDE = 48_000_000  # The database's free pages, its WAL, and payloads that are coming.
_STAYS = 10.0  # Seconds.
_CONFIG = NodeConfig(CLUMP, limits=NodeLimits(settle_seconds=1))


async def _fills(scheme: str, field: Field) -> str:
    url = field.target.urls[scheme]

    async def dial(_: PeerUrl) -> Streams:
        return (await Wire.dial(field.target, scheme, field.address)).streams

    for _ in field.rounds(1):
        with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "store.db") as store:
            identities = [Identity(os.urandom(32)) for _ in range(_KEYS)]
            await asyncio.to_thread(_publish, store, identities)
            logs: list[Log] = [(identity.public, log_id) for identity in identities for log_id in (1, 2)]
            # A peer that names its logs has to stay until the node has asked for them, and has no sign of the end.
            names_logs = scheme in ("intervals", "proposals")
            purpose = Purpose(is_live=names_logs, logs=tuple(logs) if names_logs else ())
            work = sync(identities[0], _CONFIG, store, url, purpose, dial=dial)
            task = asyncio.create_task(work)
            over = asyncio.create_task(field.over.wait())
            await asyncio.wait([task, over], timeout=_STAYS if names_logs else 60, return_when=asyncio.FIRST_COMPLETED)
            for each in (task, over):
                each.cancel()
            (result, _) = await asyncio.gather(task, over, return_exceptions=True)
            if isinstance(result, Exception) and not isinstance(result, NetworkError):
                raise result
        if field.over.is_set():
            break
    return "what its quota is"


def _publish(store: SQLiteStore, identities: list[Identity]) -> None:
    """Logs that are too large: one of many entries, and one of a single payload."""
    for identity in identities:
        draft = Draft(identity, 1, [os.urandom(_PAYLOAD)] * _ENTRIES, is_end=False, continue_here=False)
        store.append_each([draft])
        store.append(identity, 2, (bytes(1_000_000) for _ in range(_LARGE // 1_000_000)))


def overfilled(home: Path) -> list[str]:
    """In which ways a home has more than its quotas allow."""
    sizes = {author: size + AUTHOR_BYTES for author, size in sizes_in(home / "store.db", CLUMP).items()}
    files = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    checks = {
        f"the logs of others take {sum(sizes.values()):,} bytes": sum(sizes.values()) > QUOTA,
        f"those of one author take {max(sizes.values(), default=0):,} bytes": max(sizes.values(), default=0)
        > AUTHOR_QUOTA,
        f"the files of the home take {files:,} bytes": files > QUOTA + _FILES_BESIDE,
    }
    return [wrong for wrong, is_so in checks.items() if is_so]


async def fills_by_culm(field: Field) -> str:
    """Publishes 100 MB by three keys, again and again, to a node with quotas."""
    return await _fills("culm", field)


async def fills_by_bushbaby(field: Field) -> str:
    """Publishes 100 MB by three keys, again and again, to a node with quotas."""
    return await _fills("bushbaby", field)


async def fills_by_intervals(field: Field) -> str:
    """Publishes 100 MB by three keys, again and again, to a node with quotas."""
    return await _fills("intervals", field)


async def fills_by_proposals(field: Field) -> str:
    """Publishes 100 MB by three keys, again and again, to a node with quotas."""
    return await _fills("proposals", field)


_Attack = partial(Attack, says=None, gets="what its quota is", memory=60, cpu=6, at_once=2)
ATTACKS = [
    _Attack("culm", "a disk to be filled", fills_by_culm, kind="quotas culm"),
    _Attack(
        "bushbaby", "a disk to be filled", fills_by_bushbaby, kind="quotas bushbaby", memory=120, is_quick=False
    ),  # a message of 30 MB
    _Attack("intervals", "a disk to be filled", fills_by_intervals, kind="quotas intervals", is_quick=False),
    _Attack("proposals", "a disk to be filled", fills_by_proposals, kind="quotas proposals", is_quick=False),
]
