"""Running seeds: one, in a folder of its own that goes with it."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from culm.testing.simulation.host import Host, unheard
from culm.testing.simulation.loop import HOST
from storm.plan import draw
from storm.world import Outcome, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEMORY = Path("/dev/shm")  # noqa: S108 - only ever used for a folder of a random name


def run_seed(seed: int, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run the world of a seed. ``tell`` gets the trace, line by line."""
    folder = Path(tempfile.mkdtemp(prefix="culm-storm-", dir=_MEMORY if _MEMORY.is_dir() else None))
    gc.disable()  # whether it runs depends on what ran before
    try:
        return _run(seed, folder, tell)
    finally:
        with unheard():
            gc.collect()
        gc.enable()
        shutil.rmtree(folder, ignore_errors=True)


def _run(seed: int, folder: Path, tell: Callable[[str], None] | None) -> Outcome:
    world = World(draw(seed), folder, tell)
    with _logging(world):
        return world.run()


@contextmanager
def _logging(world: World) -> Iterator[None]:
    """The nodes' log as a part of the trace; nothing else of it."""
    logger = logging.getLogger("culm.node")
    handler = _IntoTrace(world)
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO if world.tell is not None else logging.CRITICAL)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
        logger.setLevel(before[0])


class _IntoTrace(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """A line of the trace."""
        host = HOST.get()
        name = host.name if isinstance(host, Host) else "?"
        if isinstance(host, Host) and host.is_gone:
            return
        reason = getattr(record, "reason", None)
        peer = getattr(record, "peer", None)
        about = (f" ({peer})" if peer else "") + (f": {reason}" if reason else "")
        self._world.note(f"  {name}: {record.getMessage()}{about}")
