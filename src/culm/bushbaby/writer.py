"""Writing a BAMBOO message: in one buffer, which is sealed in place, because entries may bring megabytes of payload."""

from collections.abc import Callable, Sequence

from culm.bushbaby import messages
from culm.bushbaby.handshake import Dialect
from culm.bushbaby.secretbox import OVERHEAD
from culm.errors import LocalProtocolError
from culm.types import Buffer
from culm.wire.stlv import encode_header

BAMBOO = 8


class BambooWriter:
    """Puts a BAMBOO message together in one buffer, which is then sealed in place."""

    def __init__(
        self, item_sizes: Sequence[int], dialect: Dialect, seal_and_queue: Callable[[bytearray, int], None]
    ) -> None:
        size = messages.bamboo_size(item_sizes)
        self._queue = seal_and_queue
        self._dialect = dialect
        self._sizes = iter(item_sizes)
        self._left = 0
        self._message = bytearray(encode_header(BAMBOO, OVERHEAD + size))
        self._start = len(self._message)
        self._end = self._start + OVERHEAD + size
        self._sent = False
        self._message += bytes(OVERHEAD)
        messages.push_bamboo_head(self._message, len(item_sizes))

    def write(self, piece: Buffer) -> None:
        """The next bytes of the item that is under way, or of the next one."""
        if not piece:
            return
        if not self._left:
            self._left = next(self._sizes, 0)
            messages.push_item_head(self._message, self._left, self._dialect)
        if len(piece) > self._left:
            raise LocalProtocolError("an item is larger than start_bamboo was told")
        self._message += piece
        self._left -= len(piece)

    def send(self) -> None:
        """All items are written: seal the message and queue it."""
        if self._sent:
            raise LocalProtocolError("this message was already sent")
        if self._left or len(self._message) != self._end:
            raise LocalProtocolError("an item is smaller than start_bamboo was told, or missing")
        self._sent = True
        self._queue(self._message, self._start)
