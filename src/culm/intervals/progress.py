"""How far a response is: what both of its ends keep, and must agree on.

The bytes of a response name no sequence numbers. Both ends count items from the same start instead, so that each knows
which entry the next bytes belong to. If they ever counted differently, everything behind that would be misread; so the
one class that counts is shared by the requester and the responder.

*Adjustments.* A request that only listens to announcements (lazy) can turn into one that gets data (eager), and back.
The requester cannot know where the response is at the moment its message arrives. So it names the position it means, P,
and the responder compares that with where the response is, C; both ends compute the same course of the response that
takes over, because both know C once the old response has ended::

    lazy -> eager     P <= C: eager from P      P > C: lazy from C, eager from P      no P: eager from C
    eager -> lazy     P <= C: lazy from C       P > C: eager from C, lazy from P      no P: lazy from C
    C unknown         from P, without a pool on the start's side                      no P: as if asked anew

The seed's text compares the other way round, by which announced data could never be fetched.

Specification: docs/specs/intervals.md, "Responses", "The end of a response", "Adjustments".
"""

from dataclasses import replace
from typing import NamedTuple

from culm.errors import RemoteProtocolError
from culm.intervals.exchanged import Exchanged
from culm.intervals.interval import Request, has_absolute_end
from culm.intervals.messages import Adjust
from culm.intervals.proofs import is_due
from culm.intervals.stream import Position, Stream, resolved_start, stream_of
from culm.transfer import Source


class Course(NamedTuple):
    """How the response to a request goes.

    ``stream`` is None while the start is not known. ``begin`` is where the response begins in the stream: None for the
    start of the interval, another place after an adjustment. ``switch`` is where it changes between lazy and eager.
    """

    request: Request
    stream: Stream | None = None
    begin: Position | None = None
    switch: Position | None = None


class Progress:
    """A request and the position of its response; the ``course`` says where that begins, and where it changes.

    ``has_progress``: there was an eager or lazy message of the response.
    """

    def __init__(self, course: Course, exchanged: Exchanged) -> None:
        self.request, self.stream, begin, self.switch = course
        self.exchanged = exchanged
        self.lazy = self.request.lazy
        self.begin = begin or Position(0, self.request.payload_offset or 0)
        self.index, self.offset = self.begin
        if self.stream is None and (start := resolved_start(self.request)) is not None:
            self.stream = stream_of(self.request, start)
        self._is_placed = self.stream is not None
        self.has_progress = False

    @property
    def starts(self) -> bool:
        """Whether the next eager or lazy message carries the number of the relative start: the first one does."""
        return not (self._is_placed or self.has_progress)

    @property
    def start_to_tell(self) -> int | None:
        """The number of the relative start, if the next eager or lazy message carries it."""
        return self.stream.start if self.starts and self.stream is not None else None

    @property
    def is_at_end(self) -> bool:
        """Whether all items of a stream with an absolute end were passed."""
        return self.stream is not None and has_absolute_end(self.request.interval) and self.index == self.stream.total

    @property
    def position(self) -> Position | None:
        """Where the response is, metadata in part not counted; None while the start is not known."""
        return None if self.stream is None else Position(self.index, self.offset)

    def has_hash(self, items: int) -> bool:
        """Whether a lazy message over so many more items carries a hash: if any metadata is behind it then."""
        stream = self.stream
        begins_with_payload = (
            stream is not None and self.begin.at < stream.total and stream.item(self.begin.at).is_payload
        )
        return self.index - self.begin.at + items > begins_with_payload

    def note_switch(self) -> None:
        """Change between lazy and eager, if the position for that is reached."""
        if self.switch is not None and self.switch <= (self.index, self.offset):
            self.lazy = not self.lazy
            self.switch = None

    def allows_proof(self, position: int) -> bool:
        """Whether a fork proof of a position may end the response now."""
        stream = self.stream
        if stream is None:
            return is_due(self.request, ascending=None, next_seq=None, position=position)
        next_seq = stream.item(self.index).seq if self.index < stream.total else None
        if self.lazy and not self.has_progress and not self.begin.at:
            next_seq = stream.start
        return is_due(self.request, ascending=stream.ascending, next_seq=next_seq, position=position)

    def adjusted(self, message: Adjust, source: Source) -> Course:
        """The course of the response to ``message.new``, which takes over from this one.

        ``RemoteProtocolError`` if its position is not in the stream.
        """
        stream, at = (None, None) if self.starts else (self.stream, self.position)
        begin, switch, lazy = at, None, not self.lazy
        if message.seq is not None:
            is_payload, offset = message.offset is not None, message.offset or 0
            if offset and self._is_beyond(source, message.seq, offset):
                raise _not_in_stream(message.seq)
            if stream is None or at is None:  # Of a start that never was resolved, the position takes the place.
                stream = replace(stream_of(self.request, message.seq), before=(), begins_with_payload=is_payload)
                begin = Position(0, offset)
            else:
                index = stream.index_of(message.seq, is_payload=is_payload)
                if index is None:
                    raise _not_in_stream(message.seq)
                to = Position(index, offset)
                if to > at:
                    switch, lazy = to, self.lazy
                elif self.lazy:
                    begin = to
        return Course(replace(self.request, id=message.new, lazy=lazy), stream, begin, switch)

    def _is_beyond(self, source: Source, seq: int, offset: int) -> bool:
        """Whether a payload whose size is known has fewer bytes."""
        if source.held(self.request.log).entries_around(seq) is None:
            return False
        return all(offset > kept.entry.size for kept in source.variants(self.request.log, seq))


def _not_in_stream(seq: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"an adjustment names a position of entry {seq} that is not in the response")
