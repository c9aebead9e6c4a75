"""Whom a node talks with and has talked with: what is told to people and to programs that watch it.

It knows of a session what all sessions have, whatever they speak: a scheme, an address, perhaps the peer's key, and
counts of what went through.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from culm.node.sessions.stats import REFUSALS_KEPT, SessionStats

if TYPE_CHECKING:
    from pathlib import Path

    from culm.node.network.urls import PeerUrl

_ENDED_KEPT = 20


class Talks(Protocol):
    """What a session tells of itself."""

    stats: SessionStats

    @property
    def peer(self) -> bytes | None:
        """The key (32 bytes) that the peer has proved, if it has."""

    @property
    def scheme(self) -> str:
        """The protocol, as in addresses."""

    @property
    def address(self) -> str:
        """Where the peer is, as ``HOST:PORT``."""


@dataclass(eq=False, slots=True)
class Contact:
    """A session. ``number`` counts them; ``since`` and ``until`` are seconds of the wall clock; ``why`` it ended."""

    number: int
    scheme: str
    name: str
    address: str
    since: float
    stats: SessionStats
    peer: bytes | None = None
    until: float | None = None
    why: str = ""


@dataclass(slots=True)
class Roster:
    """``troubles`` has the peers we keep contact with, and what prevents it (None: nothing, as far as is known).

    ``past`` adds up what went through the sessions that have ended, by scheme; ``count`` counts all sessions begun.
    """

    me: bytes
    store_path: Path
    started: float = field(default_factory=time.time)
    listeners: list[PeerUrl] = field(default_factory=list)
    troubles: dict[PeerUrl, str | None] = field(default_factory=dict)
    recent: deque[Contact] = field(default_factory=lambda: deque(maxlen=_ENDED_KEPT))
    past: dict[str, SessionStats] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    _open: dict[Talks, Contact] = field(default_factory=dict)

    def began(self, session: Talks, name: str) -> None:
        """A session begins; ``name`` says with whom."""
        self.begun[session.scheme] = self.begun.get(session.scheme, 0) + 1
        number = sum(self.begun.values())
        self._open[session] = Contact(number, session.scheme, name, session.address, time.time(), session.stats)

    def ended(self, session: Talks, error: BaseException | None) -> None:
        """A session has ended, by itself or for an error."""
        contact = self._open.pop(session)
        reason = "the node stopped" if isinstance(error, asyncio.CancelledError) else str(error or "")
        past = self.past.setdefault(session.scheme, SessionStats())
        past.add(session.stats)
        del past.refused[REFUSALS_KEPT:]
        self.recent.appendleft(replace(contact, peer=session.peer, until=time.time(), why=reason))

    def contacts(self) -> list[Contact]:
        """The sessions that are open, the oldest first."""
        return [replace(contact, peer=session.peer) for session, contact in self._open.items()]
