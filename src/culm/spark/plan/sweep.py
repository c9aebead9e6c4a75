"""The sweep of one log: who lacks what, and who has it.

Asking that of every number would be simple, but a log may have 2^64 of them, and one range can cover all. So a line is
swept along the log's numbers. It stops only at *cuts*, the numbers at which what some peer holds or wants begins or
ends. Between two cuts nothing changes for anybody, so one answer holds for the whole stretch. A log costs its cuts, not
its length.

The state between two cuts is a few integers used as bit masks, with a bit for each peer of the log: who has metadata,
who has payloads, who wants them. A cut flips single bits, and "who lacks it" is ``wants & ~has``, for thousands of
peers at once. Neighbouring stretches with the same answer are put together again.

For example, A holds 1 to 100, B holds 1 to 60, and C wants 40 to 120. The cuts are 1, 40, 61, 101 and 121. From 40 to
60 C can be served by A or B, from 61 to 100 by A, and from 101 to 120 by nobody.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from culm.ranges.algebra import upper
from culm.ranges.runs import Runs
from culm.spark.plan.ranges import ANY_SIZE, METADATA, PAYLOAD, WHOLE, Sizes, wanted_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from culm.ranges import Range
    from culm.spark.plan.ranges import Held

NOBODY = "nobody has it"
SILENT = "who has it uploads nothing"
"""The reasons in the table ``unserved``: nobody holds it, or only peers whose capacity is 0."""


class Demand(NamedTuple):
    """Items that all ``wanters`` lack and all ``holders`` have and may upload; the names of both are sorted."""

    first: int
    last: int
    content: int
    sizes: Sizes
    holders: tuple[str, ...]
    wanters: tuple[str, ...]

    @property
    def entries(self) -> int:
        """How many sequence numbers the stretch has."""
        return self.last - self.first + 1


class Unserved(NamedTuple):
    """Items that a peer wants and nobody can give."""

    peer: str
    first: int
    last: int
    content: int
    sizes: Sizes
    reason: str


class _State(NamedTuple):
    """Bit masks over the peers of a log, for one stretch of numbers.

    ``metadata``: who wants metadata; ``closed``: who of them by a closed range. ``payloads`` has a row for each kind of
    sizes by which payloads are wanted: the sizes, who wants them, who of them by a closed range.
    """

    has_metadata: int
    has_payload: int
    metadata: int
    closed: int
    payloads: tuple[tuple[Sizes, int, int], ...]


_HAS_METADATA, _HAS_PAYLOAD, _WANTS_METADATA, _CLOSED_METADATA, _PAYLOADS = range(5)
_Need = tuple[int, Sizes, int, int]  # content, sizes, holders, wanters
_Lost = tuple[int, Sizes, int, str]  # content, sizes, wanters, reason
_Key = TypeVar("_Key", _Need, _Lost)


def sweep(
    held: Mapping[str, Iterable[Held]], wanted: Mapping[str, Iterable[Range]], serves: Callable[[str], bool]
) -> tuple[list[Demand], list[Unserved]]:
    """The items of a log that can be moved, and those that cannot; both ascend by number.

    ``serves``: whether a peer uploads anything.
    """
    peers = sorted({*held, *wanted})
    names = _Names(peers)
    able = sum(1 << at for at, peer in enumerate(peers) if serves(peer))
    needs, lost = _Stretches[_Need](), _Stretches[_Lost]()
    for first, state in _states(peers, held, wanted):
        found, missing = _judge(state, able)
        needs.move(first, found)
        lost.move(first, missing)
    demands = [
        Demand(first, last, content, sizes, names[holders], names[wanters])
        for first, last, (content, sizes, holders, wanters) in needs.done()
    ]
    unserved = [
        Unserved(peer, first, last, content, sizes, reason)
        for first, last, (content, sizes, wanters, reason) in lost.done()
        for peer in names[wanters]
    ]
    return demands, unserved


class _Names(dict[int, tuple[str, ...]]):
    """The names of the peers in a mask; remembered, because the same masks come again and again."""

    def __init__(self, peers: list[str]) -> None:
        super().__init__()
        self._peers = peers

    def __missing__(self, mask: int) -> tuple[str, ...]:
        names = []
        left = mask
        while left:
            bit = left & -left
            names.append(self._peers[bit.bit_length() - 1])
            left ^= bit
        found = self[mask] = tuple(names)
        return found


class _Stretches(Generic[_Key]):
    """Collects stretches of numbers that have the same key, and puts neighbouring ones together."""

    def __init__(self) -> None:
        self._open: dict[_Key, int] = {}
        self._done: list[tuple[int, int, _Key]] = []

    def move(self, first: int, keys: Iterable[_Key]) -> None:
        """From the number ``first`` on these keys hold, and no others; called with ascending numbers."""
        now = dict.fromkeys(keys, first)
        for key, since in self._open.items():
            if key in now:
                now[key] = since
            else:
                self._done.append((since, first - 1, key))
        self._open = now

    def done(self) -> list[tuple[int, int, _Key]]:
        """All stretches that have ended, ascending: first and last number, and the key."""
        return sorted(self._done)


def _states(
    peers: list[str], held: Mapping[str, Iterable[Held]], wanted: Mapping[str, Iterable[Range]]
) -> Iterator[tuple[int, _State]]:
    """The cuts, ascending, each with the state from there on. The last state is empty, so all stretches end."""
    masks = _Masks()
    newest = 0
    for at, peer in enumerate(peers):
        for first, last, content in held.get(peer, ()):
            newest = max(newest, last)
            if content & METADATA:
                masks.add(_HAS_METADATA, at, first, last)
            if content & PAYLOAD:
                masks.add(_HAS_PAYLOAD, at, first, last)
    for at, peer in enumerate(peers):
        for first, last, content, sizes, is_open in wanted_runs(wanted.get(peer, ()), newest):
            mask = _WANTS_METADATA if content == METADATA else masks.of_payload(sizes)
            masks.add(mask, at, first, last)
            if not is_open:
                masks.add(mask + 1, at, first, last)
    return masks.states()


class _Masks:
    """The runs of each mask and peer. There are two masks for each kind of sizes, which come after the fixed ones."""

    def __init__(self) -> None:
        self._sizes: dict[Sizes, int] = {}
        self._runs: defaultdict[tuple[int, int], Runs] = defaultdict(Runs)

    def of_payload(self, sizes: Sizes) -> int:
        """The mask of who wants payloads of these sizes; the mask after it is for closed ranges."""
        return self._sizes.setdefault(sizes, _PAYLOADS + 2 * len(self._sizes))

    def add(self, mask: int, peer: int, first: int, last: int) -> None:
        """Set a peer's bit in a mask from ``first`` to ``last``. Runs may overlap; ``Runs`` merges them."""
        self._runs[mask, peer].add(first, last)

    def states(self) -> Iterator[tuple[int, _State]]:
        """The cuts, each with all masks from there on. A bit flips where a run begins, and again behind its end."""
        changes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for (mask, peer), runs in self._runs.items():
            for first, last in runs:
                changes[first].append((mask, 1 << peer))
                changes[last + 1].append((mask, 1 << peer))
        masks = [0] * (_PAYLOADS + 2 * len(self._sizes))
        by_size = sorted(self._sizes.items())
        for number in sorted(changes):
            for mask, bit in changes[number]:
                masks[mask] ^= bit
            payloads = tuple([(sizes, masks[at], masks[at + 1]) for sizes, at in by_size if masks[at]])
            has_metadata, has_payload, metadata, closed = masks[:_PAYLOADS]
            wanted = _without_overlaps(payloads) if len(payloads) > 1 else payloads
            yield number, _State(has_metadata, has_payload, metadata, closed, wanted)


def _without_overlaps(payloads: tuple[tuple[Sizes, int, int], ...]) -> tuple[tuple[Sizes, int, int], ...]:
    """Put every peer under one kind of sizes.

    A peer that wants a payload by several kinds would otherwise be sent it several times. It goes under the smallest
    kind that includes all of them.
    """
    seen = 0
    for _, mask, _ in payloads:
        if seen & mask:
            break
        seen |= mask
    else:
        return payloads
    joined: dict[int, tuple[Sizes, bool]] = {}
    for sizes, mask, closed in payloads:
        for bit in _bits(mask):
            before, was_closed = joined.get(bit, (sizes, False))
            wide = (min(before[0], sizes[0]), upper(before[1], sizes[1]))
            joined[bit] = wide, was_closed or bool(closed & bit)
    masks: defaultdict[Sizes, list[int]] = defaultdict(lambda: [0, 0])
    for bit, (sizes, is_closed) in joined.items():
        masks[sizes][0] |= bit
        masks[sizes][1] |= bit if is_closed else 0
    return tuple((sizes, mask, closed) for sizes, (mask, closed) in sorted(masks.items()))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield mask & -mask
        mask &= mask - 1


def _judge(state: _State, able: int) -> tuple[list[_Need], list[_Lost]]:
    """The needs of a state that can be served, and those that cannot.

    Metadata and payload are one need where the same peers have both, because that makes fewer transfers. Otherwise they
    are two, so that each can come from any peer that has it.
    """
    needs: list[_Need] = []
    lost: list[_Lost] = []
    metadata = state.metadata & ~state.has_metadata
    with_metadata, with_payload = state.has_metadata & able, state.has_payload & able
    for sizes, mask, closed in state.payloads:
        lacking = mask & ~state.has_payload
        if not with_payload:
            _lose(lost, PAYLOAD, sizes, lacking, state.has_payload, closed)
            continue
        both = lacking & metadata if with_metadata == with_payload else 0
        if both:
            needs.append((WHOLE, sizes, with_payload, both))
            metadata &= ~both
        if lacking & ~both:
            needs.append((PAYLOAD, sizes, with_payload, lacking & ~both))
    if with_metadata and metadata:
        needs.append((METADATA, ANY_SIZE, with_metadata, metadata))
    elif metadata:
        _lose(lost, METADATA, ANY_SIZE, metadata, state.has_metadata, state.closed)
    return needs, _joined(lost)


def _lose(lost: list[_Lost], content: int, sizes: Sizes, lacking: int, holders: int, closed: int) -> None:
    """Note a need that nobody can serve. If nobody holds the items, an open range does not want them either."""
    wanters = lacking if holders else lacking & closed
    if wanters:
        lost.append((content, sizes, wanters, SILENT if holders else NOBODY))


def _joined(lost: list[_Lost]) -> list[_Lost]:
    """Put payloads and metadata together where the same peers lack both for the same reason.

    ``lost`` has the payloads by their sizes, and behind them the metadata, if any is lost.
    """
    *payloads, last = lost or [(0, ANY_SIZE, 0, "")]
    if not payloads or last[0] != METADATA:
        return lost
    left = last[2]
    found: list[_Lost] = []
    for content, sizes, wanters, reason in payloads:
        both = wanters & left if reason == last[3] else 0
        left &= ~both
        found += [(WHOLE, sizes, both, reason), (content, sizes, wanters & ~both, reason)]
    found.append((METADATA, ANY_SIZE, left, last[3]))
    return [item for item in found if item[2]]
