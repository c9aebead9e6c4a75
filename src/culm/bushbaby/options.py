"""How one side of a connection behaves, where the protocol leaves a choice."""

from dataclasses import dataclass, field

from culm.bushbaby.handshake import Dialect
from culm.bushbaby.limits import Limits


@dataclass(frozen=True, slots=True)
class Options:
    """How a connection behaves.

    ``ask_first``: after the peer's HELLO nothing more is sent until ``accept`` is called. ``wait_for_hello`` and
    ``wait_for_auth``: let the peer show itself first; two such sides wait for ever, so the one who called should not.
    ``mark``: let other Culm nodes recognise us. ``paced``: give a peer that is no Culm node only as many messages at
    once as the deployed peer stands (``culm.bushbaby.pacing``); the owner must heed ``next_timer`` then.
    """

    dialect: Dialect = Dialect.DEPLOYED
    limits: Limits = field(default_factory=Limits)
    ask_first: bool = False
    wait_for_hello: bool = False
    wait_for_auth: bool = False
    mark: bool = True
    paced: bool = False
