"""Following the operator's choices while a node runs: ``culm follow`` writes a file, the running node takes it up.

The node looks at the file's time, size and inode a few times a second. If the file is damaged, for instance by an
editor, the node says so once and keeps the choices that it has. Falling back to the defaults could open a private node
to everybody.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from culm.errors import ConfigError
from culm.node.interests.policy import Policy, PolicyFile
from culm.node.surroundings import written

LOOK_SECONDS = 0.25
"""Between two looks at the file: soon enough for people who wait for the effect, at the cost of one system call."""
_logger = logging.getLogger("culm.node")


class ChoicesWatch:
    """Notices changes of one clump's choices. ``adapt`` adds what is not in the file: options of the command line."""

    def __init__(self, file: PolicyFile, clump: bytes, adapt: Callable[[Policy], Policy]) -> None:
        self._file = file
        self._clump = clump
        self._adapt = adapt
        self._seen: object = None
        self._current: Policy | None = None

    def start(self) -> Policy:
        """The choices to begin with; ``ConfigError`` if the file is damaged."""
        self._seen = written(self._file.path)
        self._current = self._adapt(self._file.load(self._clump))
        return self._current

    def changed(self) -> Policy | None:
        """The new choices, or None: if they are the same as before, or if the file cannot be read."""
        before, current = self._seen, self._current
        if written(self._file.path) == before:
            return None
        try:
            policy = self.start()
        except ConfigError as error:
            _logger.warning("the choices stay as they were", extra={"reason": str(error)})
            return None
        return None if policy == current else policy

    async def run(self, change: Callable[[Policy], Awaitable[None]]) -> None:
        """Call ``change`` with each new version of the choices, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            policy = await asyncio.to_thread(self.changed)
            if policy is not None:
                _logger.info("the choices have changed")
                await change(policy)
