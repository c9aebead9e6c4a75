"""What one connection may cost (docs/specs/bushbaby.md, "Limits")."""

from dataclasses import dataclass

# The longest plaintext for which the deployed peer's cipher is the standard one: 256 blocks of 64 bytes, less the 32
# bytes that make the key of the tag. Behind it the deployed peer repeats its keystream (``salsa_tail``).
MAX_PLAINTEXT = 256 * 64 - 32


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a peer may send; beyond any of them the connection ends.

    ``max_message``: bytes of a message's value, that is of a nonce box. Also bounds what we send.
    ``max_entries_per_message``: entries in one BAMBOO message.
    ``max_have_items``, ``max_want_items``: logs in one HAVE message, requests in one WANT message.
    ``max_boxes``: nonce boxes in either direction of one connection. All their nonces are remembered, about 100 bytes
    each; a connection that reaches the bound has to be made anew.
    """

    max_message: int = 32 * 1024 * 1024  # An entry and its payload go in one message, so this bounds payloads, too.
    max_entries_per_message: int = 16_384  # Entries without payload are small: a message could hold 150,000 of them.
    max_have_items: int = 262_144  # A longer list takes several messages, so that what one decodes to is bounded.
    max_want_items: int = 65_536  # Requests make work for the store, announcements do not, so fewer are taken.
    max_boxes: int = 131_072  # 13 MB of nonces in each direction.
