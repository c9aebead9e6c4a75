"""How much of a peer is taken (docs/specs/culm.md, "Limits")."""

from __future__ import annotations

from dataclasses import dataclass

HANDSHAKE_BYTES = 512
"""Of a message before the peer has proved who it is."""
INTEREST_BYTES = 4 * 1024 * 1024
"""Of the interests that are kept of a peer, as they came."""
ID_BYTES = 32


@dataclass(frozen=True, slots=True)
class Limits:
    """Both are told to the peer. ``max_message``: bytes of a message on the control and the discovery stream.

    ``max_interests``: interests that are kept of a peer: each the default, an author's or a log's.
    """

    max_message: int = 256 * 1024
    max_interests: int = 10_000


LEAST_MESSAGE = 4096
"""What every side takes, so that what is said can always be cut into messages."""
