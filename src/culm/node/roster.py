"""The roster: which sessions a node has and has had, for people and programs that watch it (``culm.node.status``).

It keeps what all sessions have, whatever they speak: a scheme, an address, perhaps the peer's key, and counts of what
went through. Nothing in the node depends on it. Ended sessions are added up by scheme, so that counters never go back
when a session ends.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from culm.errors import CulmError, FeatureRefused
from culm.node.network.urls import PeerUrl
from culm.node.peerevents import Kind, PeerEvent
from culm.node.sessions.session import Session
from culm.node.sessions.stats import REFUSALS_KEPT, PeerRefused, SessionStats

_ENDED_KEPT = 20  # Ended sessions kept with their reasons: about as many as somebody reads on the status page.


@dataclass(eq=False, slots=True)
class Contact:
    """One session. ``number`` counts all sessions of the node from 1.

    ``since`` and ``until`` are seconds since 1970; ``until`` is None while it is open. ``why`` it ended is the text of
    the error, or empty if the peer ended it in order; ``error`` is the error's class, None also if the node stopped.
    ``url`` is what we called; None: the peer called.
    """

    number: int
    scheme: str
    name: str
    address: str
    since: float
    stats: SessionStats
    peer: bytes | None = None
    until: float | None = None
    why: str = ""
    error: type[BaseException] | None = None
    url: PeerUrl | None = None
    was_connected: bool = False


@dataclass(slots=True)
class Roster:
    """The sessions of one node.

    ``troubles`` has each peer that we keep contact with, and why it is not reached (None: no reason known). ``names``
    has what the configuration calls these peers, which is the name of their sessions. ``retries`` has when each of them
    is called next, in seconds since 1970, while the node waits for that. ``recent`` has the sessions that
    ended last, the latest first. ``past`` adds up what went through ended sessions, by scheme; ``begun`` counts all
    sessions, by scheme. ``started`` is in seconds since 1970. ``watchers`` are called with each ``PeerEvent``.
    """

    me: bytes
    store_path: Path
    started: float = field(default_factory=time.time)
    listeners: list[PeerUrl] = field(default_factory=list)
    troubles: dict[PeerUrl, str | None] = field(default_factory=dict)
    names: dict[PeerUrl, str] = field(default_factory=dict)
    retries: dict[PeerUrl, float] = field(default_factory=dict)
    recent: deque[Contact] = field(default_factory=lambda: deque(maxlen=_ENDED_KEPT))
    past: dict[str, SessionStats] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    watchers: set[Callable[[PeerEvent], None]] = field(default_factory=set)
    _open: dict[Session[Any], Contact] = field(default_factory=dict)

    def began(self, session: Session[Any], name: str, address: str, url: PeerUrl | None = None) -> None:
        """Note that a session begins; ``name`` is the peer's name or address in the log, ``address`` is HOST:PORT."""
        self.begun[session.scheme] = self.begun.get(session.scheme, 0) + 1
        number = sum(self.begun.values())
        self._open[session] = Contact(number, session.scheme, name, address, time.time(), session.stats, url=url)

    def happened(self, session: Session[Any], kind: Kind, reason: str = "") -> None:
        """Tell the watchers what happened in an open session."""
        contact = self._open[session]
        contact.was_connected |= kind == "connected"
        self.tell(kind, contact.scheme, contact.address, reason, url=contact.url, peer=session.peer)

    def tell(
        self, kind: Kind, scheme: str, address: str, reason: str, url: PeerUrl | None = None, peer: bytes | None = None
    ) -> None:
        """Tell the watchers what happened with a peer."""
        event = PeerEvent(kind, scheme, address, None if url is None else str(url), peer, reason, time.time())
        for watcher in self.watchers:
            watcher(event)

    def ended(self, session: Session[Any], error: BaseException | None) -> None:
        """Note that a session has ended; ``error`` is why, or None if the peer ended it in order."""
        self._tell_of_end(session, error)
        contact = self._open.pop(session)
        stopped = isinstance(error, asyncio.CancelledError)
        reason = "the node stopped" if stopped else str(error or "")
        past = self.past.setdefault(session.scheme, SessionStats())
        past.add(session.stats)
        del past.refused[REFUSALS_KEPT:]
        kind = None if stopped or error is None else type(error)
        ended = replace(contact, peer=session.peer, until=time.time(), why=reason, error=kind)
        self.recent.appendleft(ended)

    def waits(self, url: PeerUrl, seconds: float) -> None:
        """Note that a peer is called next in so many seconds."""
        self.retries[url] = time.time() + seconds

    def _tell_of_end(self, session: Session[Any], error: BaseException | None) -> None:
        if (end := _end_of(session, error, was_connected=self._open[session].was_connected)) is not None:
            self.happened(session, *end)

    def contacts(self) -> list[Contact]:
        """The open sessions, the oldest first."""
        return [replace(contact, peer=session.peer) for session, contact in self._open.items()]


class OneTime:
    """Tells of syncs and fetches, which are not in the roster. ``tell``: that of the roster."""

    def __init__(self, url: PeerUrl, tell: Callable[..., object] = lambda *_, **__: None) -> None:
        self._url, self._tell = url, tell
        self._is_connected = False
        self._address = ""

    def happened(self, session: Session[Any], kind: Kind, reason: str = "") -> None:
        """For the context of the session."""
        self._is_connected |= kind == "connected"
        self._tell(kind, session.scheme, self._address, reason, self._url, session.peer)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Tell if the peer is not reached."""
        try:
            yield
        except CulmError as error:
            kind = "refused" if isinstance(error, PeerRefused) else "failed"
            self._tell(kind, self._url.scheme, "", str(error), self._url)
            raise

    @contextmanager
    def during(self, session: Session[Any], address: str) -> Iterator[None]:
        """Tell how a session ends that runs inside; ``address`` is HOST:PORT."""
        self._is_connected, self._address = False, address
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            if (end := _end_of(session, error, was_connected=self._is_connected)) is not None:
                self.happened(session, *end)


def _end_of(session: Session[Any], error: BaseException | None, *, was_connected: bool) -> tuple[Kind, str] | None:
    """What to tell of the end of a session, and why it ended; None: nothing, because another one follows at once."""
    reason = str(error or session.over_because)
    if isinstance(error, asyncio.CancelledError):
        reason = "this node closed the connection"
    if isinstance(error, PeerRefused | FeatureRefused):
        return "refused", reason
    if was_connected:
        return "lost", reason
    if session.over_because:  # This node calls again at once, in another dialect.
        return None
    return "failed", reason or "the peer hung up at once"
