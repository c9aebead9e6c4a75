"""What a survey of a store answers with (``culm.store.survey``): lines of a list of logs, sums, cells of a picture."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from culm.store.schema import PayloadState, State
from culm.types import Log

MOST_COUNTED = 10_000
"""Waiting and invalid entries of one log are counted up to here, because the count reads each of them."""


class Cell(StrEnum):
    """What is held of the sequence numbers that a cell stands for."""

    FULL = "f"  # all entries, with their payloads
    BARE = "b"  # all entries, not all of their payloads
    PART = "p"  # some entries
    WAITING = "w"  # entries whose path to entry 1 is not there yet, and none that are verified
    INVALID = "x"  # some entry at or after a fork, or after an entry whose author lied about the payload's size
    NONE = "n"


class Order(StrEnum):
    """How a list of logs is sorted."""

    NAME = "name"
    RECENT = "recent"  # the log that changed last comes first
    ENTRIES = "entries"  # the one with the most entries held
    MISSING = "missing"  # the one that lacks the most entries below its newest


class Only(StrEnum):
    """Which logs a list contains."""

    ALL = "all"
    GAPS = "gaps"  # an entry or a payload is missing below the newest entry
    FORKED = "forked"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log in a list.

    ``newest`` is the newest verified sequence number, ``greatest`` the greatest one held in any state; nothing is
    missing up to ``complete_to`` (each 0: none). ``entries`` counts the verified entries, ``payloads`` those of them
    whose payload is complete. ``waiting`` and ``invalid`` count the other entries, up to ``MOST_COUNTED``. ``missing``
    counts the numbers below ``newest`` of which nothing is held. ``changed`` is the number of the log's last change.
    """

    author: bytes
    log_id: int
    newest: int
    greatest: int
    complete_to: int
    ended: bool
    forked_at: int | None
    invalid_from: int | None
    entries: int
    payloads: int
    changed: int
    waiting: int
    invalid: int
    missing: int

    @property
    def log(self) -> Log:
        """Author and id."""
        return self.author, self.log_id


@dataclass(frozen=True, slots=True)
class Totals:
    """What is held in all logs. ``gaps`` counts the logs that lack an entry or payload below their newest entry."""

    logs: int
    entries: int
    payloads: int
    waiting: int
    invalid: int
    gaps: int
    forked: int
    proofs: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What is held at a sequence number. ``variants`` is more than 1 if entries contradict each other."""

    seq: int
    state: State
    payload_state: PayloadState
    variants: int


def cells_between(low: int, high: int, most: int) -> list[tuple[int, int]]:
    """The numbers from ``low`` to ``high`` in at most ``most`` spans of about equal length, ascending."""
    count = high - low + 1
    cells = min(most, count)
    edges = [low + count * cell // cells for cell in range(cells + 1)] if cells > 0 else [low]
    return [(first, after - 1) for first, after in pairwise(edges)]
