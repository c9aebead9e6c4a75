"""A party with proposal sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from culm.node.proposals.session import ProposalSession
from tests.node.peers import Peer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.types import Log


class ProposalPeer(Peer):
    """A party with proposal sessions. Who opens a connection is asked with ``called``."""

    kind = ProposalSession
    as_caller: ClassVar[dict[str, Any]] = {"called": True}

    def session(self, streams: Any, logs: Iterable[Log] = (), **settings: Any) -> ProposalSession:
        """A session over some streams; its news, and what grows, go to the party's other sessions."""

        def grew(log: Log) -> None:
            for session in self.sessions:
                session.log_grew(log)

        settings.setdefault("called", False)
        return super().session(streams, logs, grew=grew, **settings)  # type: ignore[no-any-return]
