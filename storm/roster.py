"""Being told how each session of a node ends: with the error itself, not only with its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from culm.node.roster import Roster

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.node.sessions.session import Session


@dataclass(slots=True)
class WatchedRoster(Roster):
    """A roster that passes on what it is told. ``told`` gets the session, its name and why it ended."""

    told: Callable[[Session[Any], str, BaseException | None], None] = lambda _session, _name, _error: None

    def ended(self, session: Session[Any], error: BaseException | None) -> None:
        """A session has ended."""
        name = next((item.name for item in self.contacts() if item.stats is session.stats), "")
        Roster.ended(self, session, error)  # super() does not know a class with slots
        self.told(session, f"{session.scheme} with {name}", error)
