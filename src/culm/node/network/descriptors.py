"""How many connections a process has file descriptors for.

A node that takes more connections than that fails where it hurts: it can no longer open a payload or its store. And it
cannot choose whom to serve, because the system lets callers in by the order in which they came. So a node takes fewer
connections instead, and ``culm.node.sharing.slots`` decides who gets them.
"""

import os
import sys

_SPARE = 64
"""Descriptors for all but sessions: the store, payloads that programs read, callers that are refused or on their way
out (at most ``slots.MOST_GOING``), and what else the program opens by and by."""
_EACH = 2  # A session has its socket, and a payload's file now and then.


def room_for(connections: int) -> int:
    """How many of so many connections may be open at once; at least one.

    Where the process may open too few files, its limit is raised as far as the system lets it.
    """
    if sys.platform == "win32":  # It has no such limit.
        return connections
    import resource  # noqa: PLC0415 - Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = _SPARE + len(os.listdir("/dev/fd"))  # noqa: PTH208 - a number is enough
    needed = taken + _EACH * connections
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connections
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):  # macOS has another limit beside the one it tells.
        allowed = soft
    return max(1, min(connections, (allowed - taken) // _EACH))
