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

from culm.errors import RemoteProtocolError
from culm.intervals.interval import Request
from culm.intervals.messages import Adjust
from culm.intervals.progress import Course
from culm.intervals.requester import OurRequest
from culm.intervals.responder import TheirRequest
from culm.intervals.stream import Position, Stream, stream_of
from culm.transfer import Source


def course(request: Request, stream: Stream | None, at: Position | None, lazy: bool, message: Adjust) -> Course:
    """The course of the response to ``message.new``; ``RemoteProtocolError`` if its position is not in the stream.

    ``at`` is the position of the old response, and ``lazy`` its mode there.
    """
    if message.seq is None:
        return Course(stream, at, not lazy, None)
    if stream is None or at is None:
        # Of a relative start that never was resolved, the position takes the place.
        stream = stream_of(request, message.seq)
        stream = replace(stream, before=(), begins_with_payload=message.offset is not None)
        return Course(stream, Position(0, message.offset or 0), not lazy, None)
    index = stream.index_of(message.seq, is_payload=message.offset is not None)
    if index is None:
        raise RemoteProtocolError(f"an adjustment names a position of entry {message.seq} that is not in the response")
    to = Position(index, message.offset or 0)
    if to <= at:
        return Course(stream, to if lazy else at, not lazy, None)
    return Course(stream, at, lazy, to)


def adjusted_ours(old: OurRequest, message: Adjust, source: Source) -> OurRequest:
    """Our request that takes over from ``old``, from where that is."""
    found = course(old.request, old.stream, old.position, old.lazy, message)
    request = replace(old.request, id=message.new, lazy=found.lazy)
    successor = OurRequest(request, old.exchanged, source, found)
    successor.take_over_payload(old)
    return successor


def adjusted_theirs(old: TheirRequest, message: Adjust) -> TheirRequest:
    """The peer's request that takes over from ``old``, from where that is."""
    found = course(old.request, old.stream if not old.starts else None, old.position, old.lazy, message)
    request = replace(old.request, id=message.new, lazy=found.lazy)
    return TheirRequest(request, old.exchanged, found, stateless=old.stateless)
