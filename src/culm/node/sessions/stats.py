"""What went through a session, counted alike for all protocols; and two reasons for which sessions end."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, fields

from culm.errors import CulmError, InvalidEntry, NetworkError, Place, RemoteProtocolError
from culm.types import Log
from culm.wire.places import log_text, place_text

REFUSALS_KEPT = 100
"""Refusals of a session that are kept as text and written to the log. The rest is only counted, or else a peer could
fill memory and disk with them."""
MAX_OFFENCES = 100
"""Wrong entries and payloads of one session, after which it ends. A few can happen in good faith, for instance when a
peer's disk is damaged; a hundred cost us as many signature checks for nothing."""
_logger = logging.getLogger("culm.node")


class PeerRefused(NetworkError):
    """The node does not talk to this peer, or the peer does not talk to us. Trying again soon is of no use."""


def refusal(seconds: float) -> str:
    """Why a peer is sent away whose penalty still runs."""
    return f"it or its address broke the rules: refused for another {math.ceil(seconds)} s"


class PeerSilent(NetworkError):
    """The peer sent nothing, or read nothing, for longer than the limits allow."""


def tell_refused(place: Place | None, reason: object, peer: str | None = None) -> None:
    """Write a line to the log: an entry or payload was not taken, and why. ``peer``: its name there, if known."""
    about = {} if place is None else {"log": log_text((place.author, place.log_id)), "seq": place.seq}
    _logger.warning("refused an entry", extra={"peer": peer, **about, "reason": str(reason)})


@dataclass(slots=True)
class SessionStats:
    """What went through a session.

    ``bytes_*`` count bytes on the wire; ``payload_bytes`` counts bytes of payloads received. ``missing`` counts entries
    that we lacked when the peer announced them, so that progress has an end to count towards. ``offences`` counts
    entries and payloads that were not what they claimed to be. ``unconfirmed`` counts entries that were sent to a peer
    which may have lost them, because it stores slowly and did not say that it has them. ``refused`` has the texts of
    offences, and of what was not taken for other reasons, up to ``REFUSALS_KEPT``. ``forks`` counts the new fork
    proofs; ``forked`` has, for up to as many logs, the lowest position of these.
    """

    entries_received: int = 0
    entries_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    payload_bytes: int = 0
    missing: int = 0
    refused: list[str] = field(default_factory=list)
    forks: int = 0
    forked: dict[Log, int] = field(default_factory=dict)
    offences: int = 0
    unconfirmed: int = 0

    def note_refused(
        self, place: Place | None, error: CulmError, peer: str | None = None, *, tell: bool = True
    ) -> bool:
        """Count a refusal, keep the first ones, and ``tell`` the log; whether it was one of these.

        Only an ``InvalidEntry`` is an offence.
        """
        self.offences += isinstance(error, InvalidEntry)
        is_kept = len(self.refused) < REFUSALS_KEPT
        if is_kept:
            if tell:
                tell_refused(place, error, peer)
            self.refused.append(f"{place_text(place)}: {error}" if place else str(error))
        return is_kept

    def note_fork(self, log: Log, position: int) -> None:
        """Remember where a log is forked."""
        if log in self.forked or len(self.forked) < REFUSALS_KEPT:
            self.forked[log] = min(position, self.forked.get(log, position))

    def check_offences(self) -> None:
        """``RemoteProtocolError`` if there were more than ``MAX_OFFENCES``."""
        if self.offences > MAX_OFFENCES:
            raise RemoteProtocolError(f"the peer sent more than {MAX_OFFENCES} wrong entries or payloads")

    def add(self, other: SessionStats) -> None:
        """Add the counts, refusals and forks of another session."""
        for log, position in other.forked.items():
            self.note_fork(log, position)
        for item in fields(SessionStats):
            if item.name != "forked":
                setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))
