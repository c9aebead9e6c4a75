"""What the node asks for of each log, and by what rule: the part of the page that the store cannot know.

The store says what is held. Whether a gap is a loss or a choice depends on the policy, which changes while the node
runs (``culm follow``). So each answer takes the policy of its moment, as ``Known``, together with the names that the
person has given to keys.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from culm.node.interests.missing import EVERYTHING, wanted
from culm.node.interests.policy import Policy
from culm.node.names import Names
from culm.ranges import Range, write_range
from culm.store import gaps
from culm.store.gaps import Wanted
from culm.types import Log
from culm.wire.places import author_text, log_text

Plain = dict[str, Any]

MOST_FOLLOWED = 200  # Authors and logs listed; a person reads no more of them, and ``culm following`` shows all.
_MOST_RANGES = 20  # ranges listed of one of them


@dataclass(frozen=True)
class Known:
    """What the node knows besides its store, at one moment."""

    policy: Policy = field(default_factory=Policy)
    names: Names = field(default_factory=Names)


def wanted_of(policy: Policy, log: Log, newest: int) -> Wanted:
    """What is asked for of a log of ``newest`` entries, as the store counts gaps by it."""
    interest = policy.interest(log)
    if interest == EVERYTHING:
        return gaps.EVERYTHING
    by_size = any(item.least_size or item.size_limit for item in interest)
    return Wanted(wanted(interest, newest), lambda seq, size: interest.contains_payload(seq, size, newest), by_size)


def rule_of(policy: Policy, log: Log) -> Plain:
    """Why a log is asked for, or not: ``by`` is the rule, ``ranges`` what it asks for (empty: nothing).

    The rules, the first that fits: ``blocked`` (the author is not admitted), ``quota`` (it is used up), ``hoard``,
    ``everything`` (nothing in particular is followed), ``own``, ``log`` or ``author`` (it is followed), ``unfollowed``.
    """
    reasons = {
        "blocked": not policy.admits_author(log[0]),
        "quota": policy.quotas is not None and policy.quotas.is_full(log),
        "hoard": policy.hoard,
        "everything": policy.interests is None,
        "own": log[0] in policy.own,
        "log": bool(policy.interests and policy.interests.get(log)),
        "author": bool(policy.interests and policy.interests.get(log[0])),
        "unfollowed": True,
    }
    return _rule(next(by for by, holds in reasons.items() if holds), policy.interest(log))


def _rule(by: str, ranges: Iterable[Range] = ()) -> Plain:
    return {"by": by, "ranges": [write_range(item) for item in islice(ranges, _MOST_RANGES)]}


def following(known: Known) -> Plain:
    """What the node follows: everything, or the authors and logs that it names, each with its ranges."""
    policy = known.policy
    followed = sorted((policy.interests or {}).items(), key=lambda item: _text(item[0]))
    return {
        "everything": policy.hoard or policy.interests is None,
        "hoard": policy.hoard,
        "count": len(followed),
        "followed": [
            {"what": _text(what), "name": name_of(known.names, what[0] if isinstance(what, tuple) else what)}
            | _rule("log" if isinstance(what, tuple) else "author", ranges)
            for what, ranges in followed[:MOST_FOLLOWED]
        ],
        "allowed": len(policy.allow_authors),
        "blocked": len(policy.block_authors),
    }


def name_of(names: Names, key: bytes) -> Plain | None:
    """The name that this home has for a key; ``suggested``: its owner chose it, in an invitation."""
    name = names.of.get(key)
    return None if name is None else {"text": name.text, "suggested": name.suggested}


def _text(what: bytes | Log) -> str:
    return log_text(what) if isinstance(what, tuple) else author_text(what)
