"""A one-time exchange with a peer, while the node runs: with its own connection to the store's file.

The running node may be in session with the same peer. The exchange is a session of its own all the same, because only
then does it have its own counts, and an end.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from culm.bamboo import Identity
from culm.errors import ConfigError
from culm.node.config import NodeConfig
from culm.node.interests.missing import EVERYTHING
from culm.node.network.urls import PeerUrl
from culm.node.schemes import scheme_of
from culm.node.service import logs_to_ask_for
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import SessionStats
from culm.node.sync import SyncSummary, sync
from culm.ranges import RangeSet
from culm.store import SQLiteStore
from culm.types import Log


async def exchange(
    identity: Identity,
    config: NodeConfig,
    path: Path,
    url: PeerUrl,
    logs: Sequence[Log],
    progress: Callable[[SessionStats], None],
) -> SyncSummary:
    """Exchange with a peer what both sides want, once; see ``Node.sync``."""
    scheme = scheme_of(url)
    if logs and not scheme.asks_by_log:
        raise ConfigError(
            f"naming logs works with intervals:// and proposals:// peers only; for {url} follow the logs instead"
        )
    store = await asyncio.to_thread(SQLiteStore, path)
    try:
        purpose = Purpose(is_live=False, mirrors=False)
        if scheme.asks_by_log:
            asked = logs or await asyncio.to_thread(logs_to_ask_for, store, config.policy)
            if not asked:
                raise ConfigError("no logs to ask for: name them, because the protocol cannot list a peer's logs")
            options = config.proposals if scheme.is_proposing else None
            interest = _interests(config, frozenset(logs))
            purpose = replace(purpose, logs=tuple(asked), options=options, interest=interest)
        return await sync(identity, config, store, url, purpose, progress)
    finally:
        store.close()


def _interests(config: NodeConfig, named: frozenset[Log]) -> Callable[[Log], RangeSet]:
    """The ranges to ask for: those that the node follows; of a named log that it does not follow, everything."""

    def interest(log: Log) -> RangeSet:
        ranges = config.policy.interest(log)
        return EVERYTHING if log in named and not ranges and config.policy.admits_author(log[0]) else ranges

    return interest
