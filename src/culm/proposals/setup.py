"""What both endpoints say before anything else (docs/specs/proposals.md, "Setup").

::

    setup = flags, send_window:VarU64, receive_window:VarU64
"""

from dataclasses import dataclass, replace
from typing import Self

from culm.bamboo import encode_varu64
from culm.bamboo.varu64 import decode_any_varu64
from culm.errors import Truncated

_WANTS_TO_SEND = 0x02
_TAKES = 0x01


@dataclass(frozen=True, slots=True)
class Setup:
    """How an endpoint wants to send and to receive.

    ``sends_greedily``: it wants to pass on what it has not verified yet. ``takes_greedily``: it takes such data. The
    windows are the most bytes of history, in bytes, that compressed data may refer to; 0: no compressed data.
    """

    sends_greedily: bool = False
    takes_greedily: bool = False
    send_window: int = 0
    receive_window: int = 0

    def encode(self) -> bytes:
        """The bytes on the wire."""
        flags = self.sends_greedily * _WANTS_TO_SEND | self.takes_greedily * _TAKES
        return bytes((flags,)) + encode_varu64(self.send_window) + encode_varu64(self.receive_window)

    @classmethod
    def pull(cls, data: bytes | bytearray | memoryview) -> tuple[Self, int]:
        """The setup at the beginning of ``data`` and its length; ``Truncated`` if it is not all there.

        Every setup is valid: unused bits are ignored, and numbers may be longer than they have to be.
        """
        if not data:
            raise Truncated("the flags are missing", 0)
        flags = data[0]
        send_window, at = decode_any_varu64(data, 1)
        receive_window, at = decode_any_varu64(data, at)
        return cls(bool(flags & _WANTS_TO_SEND), bool(flags & _TAKES), send_window, receive_window), at

    def agreed(self, theirs: Self) -> Self:
        """What follows from both setups: what this endpoint may do, and how far back compressed data may refer."""
        return replace(
            self,
            sends_greedily=self.sends_greedily and theirs.takes_greedily,
            takes_greedily=theirs.sends_greedily and self.takes_greedily,
            send_window=min(self.send_window, theirs.receive_window),
            receive_window=min(self.receive_window, theirs.send_window),
        )
