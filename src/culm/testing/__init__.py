"""A test kit: nodes in one process without waiting (``World``), stores in memory, builders of logs, faults.

``docs/howto/testing.md`` shows how to test an application with it. pytest finds its fixtures by itself
(``culm.testing.plugin``). What a world is made of is in ``culm.testing.simulation``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from culm.testing.builders import LogBuilder, build_log, tampered
    from culm.testing.memory import memory_folder, memory_store
    from culm.testing.world import World, WorldNode

__all__ = ["LogBuilder", "World", "WorldNode", "build_log", "memory_folder", "memory_store", "tampered"]

# Each name is imported at its first use: pytest imports this package, for the plugin in it, at the start of every run
# where Culm is installed.
_HOMES = {
    "LogBuilder": "culm.testing.builders",
    "World": "culm.testing.world",
    "WorldNode": "culm.testing.world",
    "build_log": "culm.testing.builders",
    "memory_folder": "culm.testing.memory",
    "memory_store": "culm.testing.memory",
    "tampered": "culm.testing.builders",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found  # so that this function runs once for each name
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
