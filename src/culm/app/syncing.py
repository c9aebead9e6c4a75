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
from culm.node.interests.policy import Policy
from culm.node.network.urls import PeerUrl
from culm.node.schemes import scheme_of
from culm.node.service import logs_to_ask_for
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import SessionStats
from culm.node.sync import SyncSummary, sync
from culm.ranges import RangeSet
from culm.store import ReadableStore, SQLiteStore
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
            purpose = replace(purpose, options=config.proposals if scheme.is_proposing else None)
            purpose = await asyncio.to_thread(asking_by_log, purpose, store, config.policy, logs)
        return await sync(identity, config, store, url, purpose, progress)
    finally:
        store.close()


def asking_by_log(purpose: Purpose, store: ReadableStore, policy: Policy, named: Sequence[Log]) -> Purpose:
    """A purpose with the logs to ask for: those named, else those of interest. A log that is named is wanted whole."""
    wanted_whole = frozenset(log for log in named if policy.admits_author(log[0]) and not policy.interest(log))
    logs = named or logs_to_ask_for(store, policy)
    if not logs and not purpose.is_live:
        raise ConfigError("no logs to ask for: name them as AUTHOR/LOG, because the protocol cannot list a peer's logs")

    def interest(log: Log) -> RangeSet:
        return EVERYTHING if log in wanted_whole else policy.interest(log)

    return replace(purpose, logs=tuple(logs), interest=interest)
