"""The bytes of payloads on the data channel: raw ones, and compressed ones that can decode to any number of bytes.

A few compressed bytes can stand for gigabytes, so counting what comes does not bound what has to be held. Therefore
decoding stops once a window's worth of bytes was handed out, and goes on when the owner has dealt with it (``go_on``).
Until then nothing behind those bytes is read either, because it may refer to them.
"""

from collections.abc import Iterator

from culm.proposals.data import Compressed, DataMessage, Raw
from culm.wire.compression import new_decoder


class Bodies:
    """Reads the bytes behind a ``Raw`` or ``Compressed`` message. ``most``: bytes that are handed out at once."""

    def __init__(self, most: int) -> None:
        self.left = 0  # bytes that are still to come, as they stand on the wire
        self._decoder = new_decoder(0)
        self._decoding = False
        self._decoded: Iterator[bytes] | None = None  # what bytes that came decode to, and is left for later
        self._room = self._most = most  # decoded bytes that may still be handed out

    def agree(self, window: int) -> None:
        """The peer may refer back to so many bytes of earlier payloads."""
        self._decoder = new_decoder(window)

    @property
    def is_held(self) -> bool:
        """Whether decoded bytes are left for later."""
        return self._decoded is not None

    def refill(self) -> None:
        """What was handed out is dealt with."""
        self._room = self._most

    def begin(self, message: DataMessage) -> None:
        """A message came; bytes follow if it is one that says so."""
        if isinstance(message, Raw):
            self.left, self._decoding = message.count, False
        elif isinstance(message, Compressed):
            self.left, self._decoding = message.size, True
            self._decoder.begin(message.count)
            if not message.size:
                self._decoder.finish()

    def take(self, data: bytes) -> Iterator[bytes]:
        """Bytes came: the pieces of the payload that they make."""
        self.left -= len(data)
        if self._decoding:
            yield from self._hand_out(self._decoder.feed(data))
        else:
            yield data

    def go_on(self) -> Iterator[bytes]:
        """More pieces of what was left for later."""
        if self._decoded is not None:
            decoded, self._decoded = self._decoded, None
            yield from self._hand_out(decoded)

    def _hand_out(self, decoded: Iterator[bytes]) -> Iterator[bytes]:
        while self._room > 0:
            piece = next(decoded, None)
            if piece is None:
                if not self.left:
                    self._decoder.finish()
                return
            self._room -= len(piece)
            yield piece
        self._decoded = decoded
