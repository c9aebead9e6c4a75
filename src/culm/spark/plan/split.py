"""From shares to transfers: which items of a class come from which of its peers.

Balance says how many bytes of a class each of its peers gives, not which items. Dividing every stretch of every log in
proportion would be simple, but would make as many transfers as there are stretches, times the peers of each. Instead
the items of a class are laid out in a line, log by log, like a queue at several counters: the first peer takes items
until its share is used up, then the next one does. So a class of k peers is cut k - 1 times, whatever the number of
logs. Everything else is moved in one piece, and each peer gives its share, give or take an entry at each cut.

The line is cut beforehand into *buckets* of logs, by their hash. Counting has told how much of each class lies in which
bucket, so it is known where in the line a bucket begins, and buckets can be worked on in parallel. The result does not
depend on who works on which.

With ``rounds=1`` all copies of an item come from peers that have it at the beginning. With two rounds only one copy has
to: it goes to one of the peers that want it. That peer, the *relay*, passes it on to the others in the second round; or
a holder gives the others theirs at once. An item with holders H, wanters W and b bytes is then two items of work:

- the first copy: b bytes, which somebody in H has to give;
- the others: (|W| - 1) b bytes, which anybody in H or W can give (one in W as the relay).

More rounds cannot do better. For any set of peers P, in any number of rounds in which nobody is given what it does not
want: if H is inside P, somebody in P has to give the first copy that leaves H; and if W is inside P, too, nobody else
ever has the item, so that P gives all |W| copies. Both are counted in full by the classes H and H + W of the two items
of work, so that the bound of ``culm.spark.plan.balance`` holds for any number of rounds, and two rounds reach it.
"""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from culm.spark.plan.sweep import Need

# Peers of a class. A class with more keeps this many, as if drawn by lot: that balances well, and rows stay small.
MOST_MEMBERS = 4096

# Classes of a bucket. The driver holds the classes of all buckets in memory; those beyond the largest ones are reduced
# to two of their peers each, which leaves far fewer different ones. They no longer count for the bound.
MOST_CLASSES = 20_000

# The names of the two items of work. Their classes are kept apart even if they have the same peers, because a line is
# cut by sizes, and the pieces of the two differ in size.
_FIRST, _OTHERS = b"1", b"2"

_KNOWN = 100_000  # Classes that a worker remembers. It only saves hashing; the bound keeps its memory from growing.

Arcs = list[tuple[str, int]]
"""The peers of a class in a bucket, in order, with the bytes that each gives."""

Part = tuple[str, int, int]
"""Who gives items, and the first and the last of them."""


class Key(NamedTuple):
    """A class: a digest that names it, the peers that may give its items, and whether these are all who could."""

    digest: bytes
    members: tuple[str, ...]
    is_whole: bool


@lru_cache(_KNOWN)
def _key(work: bytes, peers: tuple[str, ...], most: int, salt: bytes, *, is_whole: bool = True) -> Key:
    """The class of some work that these peers, in order, can do.

    At most so many of them are kept, as if drawn by lot, but the same ones each time: by hashes of their names and a
    salt.
    """
    if len(peers) > most:
        by_lot = sorted(peers, key=lambda peer: blake2b(salt + peer.encode(), digest_size=8).digest())
        peers, is_whole = tuple(sorted(by_lot[:most])), False
    text = json.dumps([work.decode(), is_whole, *peers])
    return Key(blake2b(text.encode(), digest_size=16).digest(), peers, is_whole)


def _pair_of(key: Key) -> Key:
    """A class of two of the members, for when there are too many classes.

    A choice between two peers is enough to balance well, and there are few different pairs.
    """
    return _key(b"pair", key.members, 2, key.digest, is_whole=False)


class Line:
    """The peers that share the items of a class, in a queue, each with the bytes that it is to give."""

    def __init__(self, arcs: Arcs) -> None:
        self._waiting = deque(arcs)
        self._peer, self._left = self._waiting.popleft()

    def take(self, first: int, last: int, size: int) -> Iterator[Part]:
        """Divide the next entries, of ``size`` bytes each, among the peers: peer, first and last number.

        A peer gives an entry if at least half of it is within its share. What that is too much or too little, the next
        peer's share makes up for, so errors do not add up.
        """
        while first <= last:
            count = last - first + 1
            if size and self._waiting:
                count = min(count, max(0, (2 * self._left + size) // (2 * size)))
            if count:
                yield self._peer, first, first + count - 1
            first += count
            self._left -= count * size
            if first <= last:
                self._peer, share = self._waiting.popleft()
                self._left += share

    def cut(self, amount: int) -> Arcs:
        """The peers that give the next bytes, and how many; one peer even if there are no bytes."""
        return [(peer, last - first + 1) for peer, first, last in self.take(1, amount, 1)] or [(self._peer, 0)]


class Splitter(NamedTuple):
    """Turns what can be served into classes in the first pass, and into transfers in the second.

    ``rounds``: 1 or 2. ``serves``: whether a peer uploads anything. ``sizes``: bytes of an entry's metadata and of its
    payload, in logs without sizes.
    """

    rounds: int
    serves: Callable[[str], bool]
    sizes: tuple[int, int]
    most_members: int = MOST_MEMBERS
    most_classes: int = MOST_CLASSES

    def classes(self, needs: Iterable[Need]) -> list[tuple[Key, int]]:
        """The classes of a bucket's needs and their bytes, in a fixed order."""
        amounts: Counter[Key] = Counter()
        for need in needs:
            for key, unit in self._work(need):
                amounts[key] += unit * need.entries
        ranked = sorted(amounts, key=lambda key: (-amounts[key], key.digest))
        for key in ranked[self.most_classes :]:
            amounts[_pair_of(key)] += amounts.pop(key)
        return sorted(amounts.items())

    def _work(self, need: Need) -> Iterator[tuple[Key, int]]:
        """The classes of a need, one or two, each with the bytes that an entry adds to it."""
        copies = len(need.wanters) if self.rounds == 1 else 1
        yield _key(_FIRST, need.holders, self.most_members, _FIRST), need.size * copies
        if len(need.wanters) > copies:
            givers = tuple(sorted({*need.holders, *filter(self.serves, need.wanters)}))
            yield _key(_OTHERS, givers, self.most_members, _OTHERS), need.size * (len(need.wanters) - copies)

    def transfers(self, need: Need, lines: Mapping[bytes, Line]) -> Iterator[tuple[str, str, int, int, int]]:
        """The transfers of a need: who fetches, from whom, in which round (1 or 2), the first and the last item.

        The lines are those of the bucket's classes. The needs must take from them in the order in which they were
        counted.
        """

        def take(key: Key, first: int, last: int, size: int) -> Iterator[Part]:
            return (lines.get(key.digest) or lines[_pair_of(key).digest]).take(first, last, size)

        (of_first, _), *of_others = self._work(need)
        pieces: Iterable[Part] = [(wanter, need.first, need.last) for wanter in need.wanters]
        for key, unit in of_others:
            pieces = take(key, need.first, need.last, unit)
        for giver, first, last in pieces:
            is_relay = giver in need.wanters
            receiver = giver if is_relay else need.wanters[first % len(need.wanters)]
            for source, low, high in take(of_first, first, last, need.size):
                yield receiver, source, 1, low, high
            for wanter in need.wanters if of_others else ():
                if wanter != receiver:
                    yield wanter, giver, 1 + is_relay, first, last


def arcs_by_bucket(counted: Iterable[tuple[int, Key, int]], lines: Mapping[Key, Line]) -> dict[int, dict[bytes, Arcs]]:
    """The line of each class, cut into buckets: which peers give how much of the class in which bucket.

    ``counted`` has bucket, class and bytes, the buckets ascending. ``lines`` has the bytes that each member of a class
    gives in all.
    """
    found: defaultdict[int, dict[bytes, Arcs]] = defaultdict(dict)
    for bucket, key, amount in counted:
        found[bucket][key.digest] = lines[key].cut(amount)
    return found
