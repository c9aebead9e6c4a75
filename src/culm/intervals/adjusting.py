"""Adjustments: the request that takes over from another one (docs/specs/intervals.md, "Adjustments").

A request that only listens to announcements (lazy) can turn into one that gets data (eager), and back. The requester
cannot know where the response is at the moment its message arrives. So it names the position it means, P, and the
responder compares that with where the response is, C; both ends compute the same result, because both know C once the
old response has ended::

    lazy -> eager     P <= C: eager from P      P > C: lazy from C, eager from P      no P: eager from C
    eager -> lazy     P <= C: lazy from C       P > C: eager from C, lazy from P      no P: lazy from C
    C unknown         from P, without a pool on the start's side                      no P: as if asked anew

The seed's text compares the other way round, by which announced data could never be fetched
(docs/specs/intervals.md, "Adjustments").
"""

from dataclasses import replace
from typing import NamedTuple

from culm.bamboo import MAX_U64
from culm.errors import RemoteProtocolError
from culm.intervals.interval import At, Regular, Request
from culm.intervals.messages import Adjust
from culm.intervals.requester import OurRequest
from culm.intervals.responder import TheirRequest
from culm.intervals.stream import Position, Stream, is_ascending, pool_above, pool_below
from culm.transfer import Source


class Course(NamedTuple):
    """How the new response goes: its stream (None: not known yet), where it begins, in which mode, where that turns."""

    stream: Stream | None
    begin: Position | None
    lazy: bool
    switch: Position | None


def course(request: Request, stream: Stream | None, at: Position | None, lazy: bool, message: Adjust) -> Course:
    """The course of the response to ``message.new``; ``RemoteProtocolError`` if its position is not in the stream.

    ``at`` is the position of the old response, and ``lazy`` its mode there.
    """
    if message.seq is None:
        return Course(stream, at, not lazy, None)
    if stream is None or at is None:
        return Course(
            _beginning(request, message.seq, message.offset), Position(0, message.offset or 0), not lazy, None
        )
    index = stream.index_of(message.seq, is_payload=message.offset is not None)
    if index is None:
        raise RemoteProtocolError(f"an adjustment names a position of entry {message.seq} that is not in the response")
    to = Position(index, message.offset or 0)
    if to <= at:
        return Course(stream, to if lazy else at, not lazy, None)
    return Course(stream, at, lazy, to)


def _beginning(request: Request, seq: int, offset: int | None) -> Stream:
    """The stream of a request with a relative start that never was resolved, from a position that takes its place."""
    interval = request.interval
    immediate = offset is not None
    if not isinstance(interval, Regular):  # a single entry, relative to what is held
        return Stream(True, seq, seq, (), pool_above(seq, 255), begins_with_payload=immediate)
    ascending = is_ascending(interval, seq)
    end = interval.end
    if isinstance(end, At):
        after = pool_above(end.seq, end.dist) if ascending else pool_below(end.seq, end.dist)
        return Stream(ascending, seq, end.seq, (), after, begins_with_payload=immediate)
    return Stream(ascending, seq, MAX_U64 if ascending else 1, (), is_open=True, begins_with_payload=immediate)


def _renamed(request: Request, new: int, *, lazy: bool) -> Request:
    return replace(request, id=new, lazy=lazy)


def adjusted_ours(old: OurRequest, message: Adjust, source: Source) -> OurRequest:
    """Our request that takes over from ``old``, from where that is."""
    found = course(old.request, old.stream, old.position, old.lazy, message)
    request = _renamed(old.request, message.new, lazy=found.lazy)
    successor = OurRequest(request, old.exchanged, source, stream=found.stream, begin=found.begin, switch=found.switch)
    successor.take_over_payload(old)
    return successor


def adjusted_theirs(old: TheirRequest, message: Adjust) -> TheirRequest:
    """The peer's request that takes over from ``old``, from where that is."""
    found = course(old.request, old.stream if not old.starts else None, old.position, old.lazy, message)
    request = _renamed(old.request, message.new, lazy=found.lazy)
    return TheirRequest(
        request,
        old.exchanged,
        stateless=old.stateless,
        stream=found.stream,
        begin=found.begin,
        switch=found.switch,
    )
