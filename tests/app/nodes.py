"""Nodes over store files of their own, as a program opens them, which retry at once."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from culm import Identity, Node
from culm.node.config import NodeConfig, NodeLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


QUICK = NodeConfig(b"", limits=NodeLimits(first_retry_seconds=0.01, max_retry_seconds=0.05, settle_seconds=1))


def opened(path: Path, number: int = 1, clump: str | None = "tests") -> Node:
    """A node over a store file of its own."""
    return Node.open(store=path / f"{number}.db", identity=Identity(bytes([number]) * 32), clump=clump, config=QUICK)


@asynccontextmanager
async def two(path: Path) -> AsyncIterator[tuple[Node, Node, str]]:
    """Two nodes, and the address at which the first one listens."""
    async with opened(path, 1) as one, opened(path, 2) as other:
        yield one, other, await one.listen("culm://127.0.0.1:0")
