"""A process that may open few files raises its limit, or takes fewer connections.

Each claim is tried in a process of its own, because a hard limit that was lowered stays so.
"""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import os, resource, sys
from culm.node.network.descriptors import room_for
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(room_for(100), *resource.getrlimit(resource.RLIMIT_NOFILE), len(os.listdir("/dev/fd")))
"""


def _tried(soft: int, hard: int) -> list[int]:
    """The room for 100 connections; the limits afterwards; how many files were open."""
    call = [sys.executable, "-c", _PROGRAM, str(soft), str(hard)]
    return [int(word) for word in subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()]


def test_there_are_enough() -> None:
    """With enough descriptors nothing changes."""
    assert [100, 300, 400] == _tried(300, 400)[:3]


def test_the_limit_is_raised() -> None:
    """A process takes as many as it needs, of those that the system lets it have: 64 to spare and two a connection."""
    room, soft, hard, opened = _tried(100, 4000)
    assert (100, 4000) == (room, hard)
    assert 64 + opened + 200 == soft


def test_the_limit_cannot_be_raised_enough() -> None:
    """Two descriptors a connection are there, and all others are spared."""
    room, soft, hard, opened = _tried(100, 160)
    assert (160, 160) == (soft, hard)
    assert (160 - 64 - opened) // 2 == room


def test_there_is_always_one() -> None:
    """A node that can serve one peer at a time is better than none."""
    assert [1, 40, 40] == _tried(30, 40)[:3]
