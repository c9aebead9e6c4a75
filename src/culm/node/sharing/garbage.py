"""Garbage: when a node has Python look for what ended sessions have left.

The parts of a session refer to each other, and so do a traceback and its frame. So what an ended session remembered
stays until garbage is collected, and Python does that rarely in a large process. A peer that fails, or names ten
thousand logs, again and again would make us keep hundreds of megabytes.

A collection looks at all objects of the process, for 10 to 60 ms. If each session brought one about, a thousand short
calls a second would have us do nothing else. So collections take a twentieth of the time at most, until there is so
much to collect that memory matters more.
"""

from collections.abc import Callable

from culm.node.surroundings import clock

_FAILED, _SAID_BYTES = 32, 1024 * 1024
"""What makes a collection worth its time: so many failed sessions, or so much that was said besides payloads."""
_REST = 20  # After a collection there is none for so many times as long as it took.
_MOST = 16  # But at so many times as much garbage as makes one worth its time, there is one all the same.


class Garbage:
    """What ended sessions have left behind. ``collect`` has Python collect it."""

    def __init__(self, collect: Callable[[], object]) -> None:
        self._collect = collect
        self._left = 0.0  # 1: worth a collection.
        self._rests_until = 0.0  # On the event loop's clock.

    def ended(self, said: int, *, failed: bool) -> None:
        """A session has ended whose peer had said so many bytes besides payloads: what it remembered is garbage."""
        self._left += failed / _FAILED + said / _SAID_BYTES
        began = clock()
        if self._left < 1 or (began < self._rests_until and self._left < _MOST):
            return
        self._left = 0.0
        self._collect()
        done = clock()
        self._rests_until = done + _REST * (done - began)
