"""How much of a peer is taken (docs/specs/culm.md, "Limits").

What the peer may send before it has proved who it is has limits of its own, far below the others, because anybody can
connect.
"""

from dataclasses import dataclass

HANDSHAKE_BYTES = 512
"""Bytes of a message before the peer has proved who it is: the longest honest one, a PROOF, takes less than half."""
INTEREST_BYTES = 4 * 1024 * 1024
"""Bytes of a peer's interests, as they came, that are kept: a few thousand logs with many ranges each."""
ID_BYTES = 32
"""Bytes of the hash that stands for the head of a log in a discovery."""
KEY_BYTES = NONCE_BYTES = MAC_BYTES = 32
SIGNATURE_BYTES = 64
"""Bytes of what proves the two sides to each other."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What we accept; both numbers are told to the peer. ``max_message``: bytes of a control or discovery message.

    ``max_interests``: interests that are kept of a peer: each the default, an author's or a log's.
    """

    max_message: int = 256 * 1024
    max_interests: int = 10_000


AROUND_NEGENTROPY = 16
"""Bytes that stand around a negentropy message on the discovery stream, at most."""
LEAST_MESSAGE = 4096 + AROUND_NEGENTROPY
"""Bytes of a message that every side has to accept: negentropy needs frames of 4,096 bytes to come to an end."""
