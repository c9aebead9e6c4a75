"""What happens with peers, for programs that watch a node: who came, who was refused and why, who is gone."""

from dataclasses import dataclass
from typing import Literal

from culm.wire.places import author_text

Kind = Literal["connected", "settled", "lost", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class PeerEvent:
    """Something that happened with a peer.

    ``kind`` is one of these:

    - ``"connected"``: the handshake is over, so both sides talk.
    - ``"settled"``: all that this node asked for has come; with ``culm://`` and Culm's ``bushbaby://`` nodes, the peer
      has what it wanted, too. Once a session, unless the peer leaves before. Never with ``negentropy``: nothing comes.
    - ``"lost"``: a connected peer is gone. ``reason`` is empty if it ended the session in order.
    - ``"refused"``: this node does not talk to the peer, or the peer not to this node, for ``reason``.
    - ``"failed"``: no session came about for another ``reason``, such as a peer that is not reached. A contact that is
      tried again and again fails once, until it is reached.

    ``scheme`` is the protocol's. ``address`` is HOST:PORT at the other end, as far as it is known. ``url`` is the
    address that this node called, None if the peer called. ``peer`` is the identity's key that the peer has proved; if
    it was refused, the one that it claims. None where the protocol has no identities, or none is known yet. ``at``: in
    seconds since 1970.
    """

    kind: Kind
    scheme: str
    address: str
    url: str | None
    peer: bytes | None
    reason: str
    at: float

    def __str__(self) -> str:
        who = self.url or (author_text(self.peer) if self.peer else self.address)
        how = ", ".join(filter(None, (self.scheme, self.address)))
        return f"{self.kind} {who} ({how}){': ' * bool(self.reason)}{self.reason}"
