"""All items of a response at once: what a connection works out step by step, as a list to compare with a model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from culm.intervals.interval import Request, has_absolute_end, start_of
from culm.intervals.planner import Horizon, resolve
from culm.intervals.stream import StreamItem, stream_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.transfer import Held


class Stop(Enum):
    """Why a response goes no further."""

    END = "all was sent"
    BLOCKED = "the next item is not held"
    OPEN_END = "what the interval ends with was sent"
    UNRESOLVED = "no payload is held that a bound could be relative to"


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be sent now: the resolved start (None: unresolved), the items, and why there are no more.

    ``next`` is the item that is not held, if that is the reason.
    """

    start: int | None
    items: tuple[StreamItem, ...]
    stop: Stop
    ascending: bool | None = None
    next: StreamItem | None = None


def plan(request: Request, held: Held, sizes: Callable[[int], int] = lambda _: 0) -> Plan:
    """The items that the response to a request consists of now. ``sizes`` gives those of payloads, in bytes.

    The list is made, so use this where it is known not to be long.
    """
    start = resolve(start_of(request.interval), held)
    if start is None:
        return Plan(None, (), Stop.UNRESOLVED)
    stream = stream_of(request, start)
    horizon = Horizon.of(request, stream, held)
    items: list[StreamItem] = []
    while (count := horizon.reach(len(items), held)) > 0:
        for index in range(len(items), len(items) + count):
            item = stream.item(index)
            if item.is_payload and request.has_filter and not request.fits(sizes(item.seq)):
                return Plan(start, tuple(items), Stop.BLOCKED, stream.ascending, item)
            items.append(item)
    if len(items) == stream.total:
        stop = Stop.END if has_absolute_end(request.interval) else Stop.OPEN_END
        return Plan(start, tuple(items), stop, stream.ascending)
    if not horizon.admits(len(items)):
        return Plan(start, tuple(items), Stop.OPEN_END, stream.ascending)
    return Plan(start, tuple(items), Stop.BLOCKED, stream.ascending, stream.item(len(items)))
