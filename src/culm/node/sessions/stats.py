"""What sessions of all protocols have in common: what went through them, and why they end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from culm.errors import InvalidEntry, NetworkError, RemoteProtocolError
from culm.wire.places import log_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.errors import CulmError, Place

REFUSALS_KEPT = 100
MAX_OFFENCES = 100  # in one session
_logger = logging.getLogger("culm.node")


class PeerRefused(NetworkError):
    """The peer is not one we talk to."""


class PeerSilent(NetworkError):
    """The peer took too long."""


def tell_refused(place: Place | None, reason: object, peer: str | None = None) -> None:
    """A line in the log: what came for a place was not taken."""
    about = {} if place is None else {"log": log_text((place.author, place.log_id)), "seq": place.seq}
    _logger.warning("refused an entry", extra={"peer": peer, **about, "reason": str(reason)})


@dataclass(slots=True)
class SessionStats:
    """What went through a session. ``bytes_*`` count the wire, ``payload_bytes`` payloads received.

    ``missing`` counts the entries that were lacking when they were announced, ``offences`` entries and payloads that
    were not what they claimed to be (``refused`` also lists what could not be taken for other reasons).
    """

    entries_received: int = 0
    entries_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    payload_bytes: int = 0
    missing: int = 0
    refused: list[str] = field(default_factory=list)
    forks: int = 0
    offences: int = 0

    def note_refused(self, refused: Iterable[tuple[Place | None, CulmError]]) -> None:
        """Count, and keep some of, what was refused."""
        for place, error in refused:
            self.offences += isinstance(error, InvalidEntry)
            if len(self.refused) < REFUSALS_KEPT:
                self.refused.append(f"{place}: {error}")

    def check_offences(self) -> None:
        """``RemoteProtocolError`` if there were more than anybody can commit in good faith."""
        if self.offences > MAX_OFFENCES:
            raise RemoteProtocolError(f"more than {MAX_OFFENCES} wrong entries or payloads")

    def add(self, other: SessionStats) -> None:
        """Count what went through another session, too."""
        for item in fields(SessionStats):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))
