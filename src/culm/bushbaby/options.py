"""How one side of a connection behaves where the protocol leaves a choice, and what the connection may cost.

Specification: docs/specs/bushbaby.md, "Limits".
"""

from dataclasses import dataclass, field

from culm.bushbaby.handshake import Dialect

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


@dataclass(frozen=True, slots=True)
class Options:
    """How a connection behaves.

    ``dialect``: in which our HELLO goes out, unless the peer's has come before. ``any_dialect``: take a HELLO of either
    dialect, and go on in the peer's. ``hello_seconds``: wait so long for the peer's HELLO; the owner must heed
    ``next_timer`` then.
    ``ask_first``: after the peer's HELLO nothing more is sent until ``accept`` is called. ``wait_for_hello`` and
    ``wait_for_auth``: let the peer show itself first; two such sides wait for ever, so the caller should not.
    ``mark``: let other Culm nodes recognise us. ``paced``: give a peer that is no Culm node only as many messages at
    once as the deployed peer stands (``culm.bushbaby.outbox``); the owner must heed ``next_timer`` then.
    """

    dialect: Dialect = Dialect.DEPLOYED
    limits: Limits = field(default_factory=Limits)
    ask_first: bool = False
    wait_for_hello: bool = False
    wait_for_auth: bool = False
    mark: bool = True
    paced: bool = False
    any_dialect: bool = False
    hello_seconds: float = 0.0
