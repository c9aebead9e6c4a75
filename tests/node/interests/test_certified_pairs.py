"""No fork hides between two nodes whose entries are certified: drawn cases over real stores, for each protocol.

An author writes two histories of a log that part at some entry. One node follows a part of the first history, another
one a part of the second, and each fetches it from a node that holds that history. Then the two exchange what they
want. Afterwards they hold the same history, or both know of the fork.

There is one excuse: a history that ends before the spine number above an entry that is followed. The author has not
written the entries yet in which the pools would meet. ``tests/bamboo/test_certified.py`` counts such pairs on a model
of sets and links.

``CULM_MODELS=170`` draws 2,000 cases for each protocol.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import TYPE_CHECKING

import pytest

from culm.bamboo.lipmaa import spine
from culm.ranges import Range, RangeSet
from culm.testing.builders import LogBuilder, build_log
from tests.models import FACTOR, MARKS, count
from tests.node.exchanging import PROTOCOLS, Wants, certified, exchange, fork, parties, shows_fork, verified
from tests.node.peers import key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.bamboo import Entry

pytestmark = MARKS

CASES = 12 * FACTOR
LONGEST = 40
EVERYTHING = RangeSet([Range(1)])


@cache
def history(fork_at: int) -> LogBuilder:
    """A history of the log that parts from the first one at an entry; 0: the first one."""
    log = build_log(LONGEST)
    if fork_at:
        del log.entries[fork_at - 1 :]
        for seq in range(fork_at, LONGEST + 1):
            log.append(b"another %d" % seq)
    return log


def a_length(random: Random) -> int:
    """How long a history is: often just at a spine number, or one off."""
    return random.choice((random.randint(1, LONGEST), random.choice((4, 5, 12, 13, 14, 39, 40))))


def a_part(random: Random, length: int) -> RangeSet:
    """What somebody follows of a log that is so long."""
    found = []
    for _ in range(random.choice((1, 1, 1, 2))):
        start = random.randint(1, length)
        end = random.choice((None, start, start, random.randint(start, length), length))
        found.append(Range(start, end, sparse=random.random() < 0.2, payloads=random.random() < 0.8))
    return RangeSet(found)


def is_too_short(held: Iterable[int], length: int) -> bool:
    """Whether a history ends before the pools of the entries that are held of it do."""
    return any(spine(seq) > length for seq in held)


def outcome(protocol: str, random: Random) -> str:
    """Draw a case and play it; what comes of it. ``AssertionError`` if a fork hides without an excuse."""
    lengths = a_length(random), a_length(random)
    fork_at = random.randint(1, min(lengths))
    logs = history(0), history(fork_at)
    log = key(logs[0])
    parts = [a_part(random, length) for length in lengths]
    later = [EVERYTHING, EVERYTHING] if random.random() < 0.5 else parts
    case = f"fork at {fork_at}, {lengths}, {parts}, then {later}"
    with parties(4) as (one, other, *authors):
        readers = one, other
        for reader, author, branch, length, part in zip(readers, authors, logs, lengths, parts, strict=True):
            author.store.add(branch.items(branch.entries[:length]))
            exchange(protocol, log, Wants(reader, part), Wants(author, EVERYTHING))
            held = set(verified(reader, log))
            assert held == certified(held, length), case
        before: list[dict[int, Entry]] = [verified(reader, log) for reader in readers]
        exchange(protocol, log, Wants(one, later[0]), Wants(other, later[1]))
        known = [fork(reader, log) for reader in readers]
        after = [verified(reader, log) for reader in readers]
    if None not in known:
        return "both know the fork"
    if min(max(held, default=0) for held in before) < fork_at:
        assert [None, None] == known
        assert not shows_fork(*after), case
        return "the same history"
    assert any(map(is_too_short, before, lengths)), case
    return "too short"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_fork_hides_between_certified_entries(protocol: str) -> None:
    """Both nodes know the fork, or hold the same history, or a history is too short for their pools."""
    outcomes = Counter(outcome(protocol, Random(f"{protocol}/{number}")) for number in range(CASES))
    for what, number in outcomes.items():
        count(f"{protocol}: {what}", number)
    assert outcomes["both know the fork"] > CASES // 5
    assert outcomes["the same history"] > 0
    assert outcomes["too short"] < CASES // 2
