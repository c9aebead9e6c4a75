"""What is asked for and why, against the policies that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.interests.quotas import QuotaLimits, Quotas
from culm.node.names import Name, Names
from culm.node.status import holdings
from culm.node.status.asked import MOST_FOLLOWED, Known, following, rule_of
from culm.ranges import Range, RangeSet
from culm.testing.builders import build_log
from culm.wire.places import author_text, log_text

if TYPE_CHECKING:
    from culm.store import SQLiteStore
    from culm.types import Log

GAPPY = build_log(1, seed=2).identity.public, 2
AUTHOR = GAPPY[0]
SOME = RangeSet([Range(10, 20)])


def used_up() -> Quotas:
    """A quota that the log's author has used up."""
    quotas = Quotas(QuotaLimits(total=0, author=1), frozenset(), lambda: None)
    quotas.begin({AUTHOR: 10})
    return quotas


@pytest.mark.parametrize(
    ("policy", "by", "ranges"),
    [
        (Policy(), "everything", ["1.."]),
        (Policy(hoard=True, interests={}), "hoard", ["1.."]),
        (Policy(own=frozenset({AUTHOR}), interests={}), "own", ["1.."]),
        (Policy(interests={GAPPY: SOME, AUTHOR: EVERYTHING}), "log", ["10..20"]),
        (Policy(interests={AUTHOR: SOME}), "author", ["10..20"]),
        (Policy(interests={bytes(32): EVERYTHING}), "unfollowed", []),
        (Policy(block_authors=frozenset({AUTHOR}), hoard=True), "blocked", []),
        (Policy(hoard=True, quotas=used_up()), "quota", []),
    ],
)
def test_the_rule_of_a_log(policy: Policy, by: str, ranges: list[str]) -> None:
    """Each log is told the rule that decides, and asks for exactly what the policy's interest in it is."""
    found = rule_of(policy, GAPPY)
    assert (by, ranges) == (found["by"], found["ranges"])
    assert bool(ranges) == policy.wants(GAPPY)


def test_four_kinds_of_gaps(store: SQLiteStore) -> None:
    """What is wanted and missing, not asked for, and forgotten differ, in counts, in the strip and in the links."""
    (first, *_) = store.entries(GAPPY)
    store.forget(first.entry.place)
    everything = holdings.log(store, GAPPY)["lacking"]
    assert ("33", "0", 1) == (everything["missing"], everything["unasked"], everything["forgotten"])
    some = Known(Policy(interests={AUTHOR: SOME}))
    found = holdings.log(store, GAPPY, known=some)["lacking"]
    # Wanted are 10 to 20, of which 13 is here, and the path from 20 to the spine at 40 and from 10 down to 1.
    assert (str(33 - int(found["missing"])), 0, 0) == (found["unasked"], found["payloads_unasked"], found["damaged"])
    (line,) = (log for log in holdings.logs(store, known=some)["logs"] if log_text(GAPPY) == log["log"])
    assert ("g...", "m", ".", "u") == (line["lacks"][:4], line["lacks"][10], line["lacks"][12], line["lacks"][31])
    assert line["lacks"] == holdings.coverage(store, GAPPY, 1, 40, 40, known=some)["lacks"]
    drawn = holdings.links(store, GAPPY, 13, 9, known=some)["lacks"]
    assert ("m", None) == (drawn["11"], drawn.get("13"))
    nothing = holdings.log(store, GAPPY, known=Known(Policy(interests={})))["lacking"]
    assert ("0", "33") == (nothing["missing"], nothing["unasked"])


def test_payloads_that_are_not_asked_for(store: SQLiteStore) -> None:
    """A payload that is too large for the interest is not missing; one that fits is."""
    log = build_log(4, seed=6)
    store.add([(entry, None) for entry in log.entries])
    sizes = [entry.size for entry in log.entries]
    key = (log.identity.public, 0)
    fits = Known(Policy(interests={key: RangeSet([Range(1, size_limit=max(sizes))])}))
    found = holdings.log(store, key, known=fits)["lacking"]
    assert (sum(size < max(sizes) for size in sizes), sizes.count(max(sizes))) == (
        found["payloads_missing"],
        found["payloads_unasked"],
    )


def test_names_and_what_is_followed(store: SQLiteStore) -> None:
    """Logs carry the author's name, and the list of what is followed has every name, rule and range, bounded."""
    names = Names({AUTHOR: Name("alice", suggested=True)})
    known = Known(Policy(interests={GAPPY: SOME, bytes(32): EVERYTHING}), names)
    (line,) = (log for log in holdings.logs(store, known=known)["logs"] if log_text(GAPPY) == log["log"])
    assert {"text": "alice", "suggested": True} == line["name"]
    found = following(known)
    assert (False, 2) == (found["everything"], found["count"])
    expected = {log_text(GAPPY): ("log", ["10..20"]), author_text(bytes(32)): ("author", ["1.."])}
    assert expected == {item["what"]: (item["by"], item["ranges"]) for item in found["followed"]}
    assert following(Known())["everything"]
    many: dict[bytes | Log, RangeSet] = {bytes([0, number]) + bytes(30): EVERYTHING for number in range(250)}
    listed = following(Known(Policy(interests=many)))
    assert (250, MOST_FOLLOWED) == (listed["count"], len(listed["followed"]))
