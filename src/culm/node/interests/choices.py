"""Taking up changes of the operator's choices while a node runs.

The file is looked at a few times a second. A damaged one is told once and changes nothing: the choices before stay.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from culm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from culm.node.interests.policy import Policy, PolicyFile

LOOK_SECONDS = 0.25
_logger = logging.getLogger("culm.node")
Seen = tuple[int, int, int]


class ChoicesWatch:
    """Tells what a clump's choices have become. ``adapt`` adds what is not kept in the file: options of the call."""

    def __init__(
        self, file: PolicyFile, clump: bytes, adapt: Callable[[Policy], Policy] = lambda policy: policy
    ) -> None:
        self._file = file
        self._clump = clump
        self._adapt = adapt
        self._seen = self._look()
        self._told: Policy | None = None

    def start(self) -> Policy:
        """The choices to begin with; ``ConfigError`` if the file is damaged."""
        self._seen = self._look()
        self._told = self._adapt(self._file.load(self._clump))
        return self._told

    def changed(self) -> Policy | None:
        """The choices if they are others than before; None if they are not, or if the file cannot be read."""
        seen = self._look()
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            policy = self._adapt(self._file.load(self._clump))
        except ConfigError as error:
            _logger.warning("the choices stay as they were", extra={"reason": str(error)})
            return None
        if policy == self._told:
            return None
        self._told = policy
        return policy

    async def run(self, change: Callable[[Policy], Awaitable[None]]) -> None:
        """Look for changes for ever, and hand them on."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            policy = await asyncio.to_thread(self.changed)
            if policy is not None:
                _logger.info("the choices have changed")
                await change(policy)

    def _look(self) -> Seen | None:
        try:
            status = self._file.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
