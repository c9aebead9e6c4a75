"""Our HELLO: in which dialect it goes out, and when (docs/specs/bushbaby.md, "Dialects").

A peer drops a HELLO of the other dialect, and nothing but its own HELLO tells which one it speaks. So a side that may
speak both listens for a moment first. It cannot read a clock: the moment begins when it is told the time.
"""

from culm.bushbaby.handshake import Dialect, Hello, pack_hello
from culm.bushbaby.options import Options

_AT_ONCE = float("-inf")


class Greeting:
    """The HELLO of one side. ``secret`` belongs to the ephemeral key in ``ours``.

    ``dialect``: that of the peer, once it is known. ``said``: in which one the HELLO went out; None: it did not.
    """

    def __init__(self, clump: bytes, ours: Hello, secret: bytes, options: Options) -> None:
        self.clump = clump
        self.ours = ours
        self.secret = secret
        self.dialect = options.dialect
        self.said: Dialect | None = None
        self._seconds = options.hello_seconds
        self.due: float | None = _AT_ONCE if self._seconds and not options.wait_for_hello else None
        """When to call ``is_due``; None: the time plays no part."""

    def is_due(self, now: float) -> bool:
        """Whether the peer was listened to for long enough."""
        if self.due == _AT_ONCE:
            self.due = now + self._seconds
        return self.due is not None and now >= self.due

    def value(self) -> bytes:
        """The value of the HELLO message, which goes out now."""
        self.said, self.due = self.dialect, None
        return pack_hello(self.ours, self.clump, self.dialect)
