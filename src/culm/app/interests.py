"""What is followed, as Bamboo ranges."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.ranges import Range, RangeSet, size_limits

if TYPE_CHECKING:
    from culm.node.interests.policy import Policy
    from culm.types import Log

What = bytes | tuple[bytes, int]


def make_range(first: int, last: int | None, *, sparse: bool, min_payload: int, max_payload: int | None) -> Range:
    """The range that is meant, sizes in bytes, both included; ``ConfigError`` if there is no such."""
    if max_payload is not None and not 0 <= min_payload <= max_payload:
        raise ConfigError(f"no payload has from {min_payload} to {max_payload} bytes")
    least, limit = size_limits(min_payload, max_payload)
    try:
        return Range(first, last, sparse=sparse, least_size=least, size_limit=limit)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def followed(policy: Policy, what: What, item: Range, *, add: bool) -> Policy:
    """The choices with one more interest; ``add``: besides what is followed of it already, not in its place."""
    interests = dict(policy.interests or {})
    before = interests.get(what)
    interests[what] = before.add(item) if add and before is not None else RangeSet([item])
    return replace(policy, interests=interests)


def unfollowed(policy: Policy, what: What | Log) -> Policy:
    """The choices without an interest; ``ConfigError`` if it is not followed."""
    interests = dict(policy.interests or {})
    if interests.pop(what, None) is None:
        raise ConfigError("the node does not follow this author or log")
    return replace(policy, interests=interests)
