"""A view beside a running node: kept up to date while entries come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self

from culm.app.node import Node
from culm.node.sharing.threads import Worker
from culm.store import SQLiteStore
from culm.views.file import ViewFile
from culm.views.view import Changes, View


class LiveView:
    """A view of a node's store: ``async with LiveView(node, path, view) as live``.

    ``async for changes in live`` brings the view up to date and gives what changed, for as long as the node is open.
    Reading and updating are done in a thread of the view's own, one after the other.
    """

    def __init__(self, node: Node, path: Path | str, view: View) -> None:
        self._node = node
        self._worker = Worker()
        self._path, self._view = Path(path), view
        self._store: SQLiteStore | None = None
        self._file: ViewFile | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._worker.run(self._open)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._worker.run(self._close)
        self._worker.close()

    async def update(self) -> Changes:
        """Bring the rows up to date; see ``ViewFile.update``."""
        return await self._worker.run(self._opened.update)

    async def read(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; see ``ViewFile.read``."""
        return await self._worker.run(self._opened.read, sql, parameters)

    async def __aiter__(self) -> AsyncIterator[Changes]:
        async for _ in self._node.changes():
            if changes := await self.update():
                yield changes

    @property
    def _opened(self) -> ViewFile:
        if self._file is None:
            raise RuntimeError("the view is not open: use async with LiveView(...) as live")
        return self._file

    def _open(self) -> None:
        self._store = SQLiteStore(self._node.store_path, read_only=True)
        self._file = ViewFile(self._path, self._view, self._store)

    def _close(self) -> None:
        for part in (self._file, self._store):
            if part is not None:
                part.close()
        self._file = None
