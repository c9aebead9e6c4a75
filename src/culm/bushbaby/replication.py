"""What to ask for and what to answer (Bushbaby, "Replication"; bushbaby.md, "Replication as the deployed peer does it").

Pure planning over numbers: what a log lacks comes from a function, and nothing here reads a store.

A WANT for a certificate pool is answered as the deployed peer does, with the pool's members that are held, those above
its entry included (departure: the document can be read as all entries from 1). We therefore ask for spans, which mean the same
to everybody and bring all of a log in one connection; ``pool_first`` asks for the pool before, so that the newest
entry can be verified long before the rest has arrived.

The numbers in a peer's requests can be anything up to 2^64 - 1. What comes out here is bounded by what is held and by the size
of a certificate pool, never by such a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo import certificate_pool
from culm.bushbaby.messages import WantAuthor, WantItem, WantLog, WantPool, WantSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from culm.bushbaby.messages import LogHead

# Logs of fewer entries arrive in one message; a certificate pool of their own would only repeat most of them.
_LONG_LOG = 40


def wants(
    heads: Iterable[LogHead],
    missing: Callable[[tuple[bytes, int], int], Sequence[tuple[int, int]]],
    *,
    pool_first: bool = False,
) -> Iterator[WantItem]:
    """What to ask a peer for that announced ``heads``.

    ``missing(log, newest)`` gives the spans (first, last) of a log up to ``newest`` that are wanted and not held, ascending;
    it bounds how many. ``pool_first``: for a long log of which all is missing, ask for its certificate pool and then
    for the rest.
    """
    for author, log_id, newest in heads:
        spans = missing((author, log_id), newest)
        if pool_first and list(spans) == [(1, newest)] and newest >= _LONG_LOG:
            yield WantPool(author, log_id, newest)
            spans = _between(certificate_pool(newest, newest))
        for first, last in spans:
            yield WantSpan(author, log_id, first, last)


def expand(want: WantItem, newest: int) -> list[tuple[int, int]]:
    """The spans of sequence numbers that answer a request for one log, ascending, as far as ``newest``, the newest held.

    A ``WantAuthor`` is a request for each log of the author; all of one is given here.
    """
    match want:
        case WantAuthor() | WantLog():
            return [(1, newest)] if newest else []
        case WantSpan(first=first, last=last):
            return [(first, min(last, newest))] if first <= newest else []
        case WantPool(seq=seq):
            return _spans(member for member in reversed(certificate_pool(seq)) if member <= newest)


def _spans(members: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as spans."""
    spans: list[tuple[int, int]] = []
    for member in sorted(members):
        if spans and spans[-1][1] == member - 1:
            spans[-1] = spans[-1][0], member
        else:
            spans.append((member, member))
    return spans


def _between(descending: Sequence[int]) -> list[tuple[int, int]]:
    """The spans between numbers, ascending."""
    ascending = sorted(descending)
    return [(low + 1, high - 1) for low, high in zip(ascending, ascending[1:], strict=False) if high - low > 1]
