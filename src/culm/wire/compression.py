"""LZFoo as sessions use it: by the native core where it is installed, otherwise in Python.

``culm.wire.lzfoo`` says how LZFoo works. The core does the same some thirty times as fast and without the interpreter's
lock. It writes the same bytes, and refuses the same messages with the same errors at the same offsets. Only where its
decoder cuts the output into pieces differs.
"""

from collections.abc import Iterator

from culm import native
from culm.types import Buffer
from culm.wire.lzfoo import Decoder, Encoder, LZFooError


def new_decoder(window: int) -> Decoder:
    """A decoder that remembers ``window`` bytes."""
    return Decoder(window) if native.core is None else NativeDecoder(window, native.core)


def new_encoder(window: int) -> Encoder:
    """An encoder that remembers ``window`` bytes."""
    return Encoder(window) if native.core is None else NativeEncoder(window, native.core)


class NativeDecoder(Decoder):
    """A decoder whose history and output are in the native core."""

    def __init__(self, window: int, core: native.Core) -> None:
        super().__init__(window)
        self._core = core.LZFooDecoder(window)

    def begin(self, size: int) -> None:
        """A message begins; ``size`` fits into 64 bits."""
        super().begin(size)
        self._core.begin(size)

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """Decode the next bytes, a piece for each call of the core."""
        data, at, more = self._head + bytes(data), 0, True
        self._head = b""
        while more:
            try:
                piece, at, more = self._core.decode(data, at)
            except ValueError as error:
                raise LZFooError(*error.args) from None
            if piece:
                yield piece
        self._head = data[at:]
        self._literal, self._left = self._core.missing()


class NativeEncoder(Encoder):
    """An encoder whose history is in the native core."""

    def __init__(self, window: int, core: native.Core) -> None:
        super().__init__(window)
        self._core = core.LZFooEncoder(window)

    def encode_if_smaller(self, data: Buffer, most: float = 0.9) -> bytes | None:
        """The same bytes as the encoder in Python writes, or None where it gives None."""
        return self._core.encode_if_smaller(bytes(data), most)
