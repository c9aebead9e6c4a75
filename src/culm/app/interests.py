"""What a node follows, as Bamboo ranges: the part of ``Node.follow`` that needs no node."""

from dataclasses import replace

from culm.errors import ConfigError
from culm.node.interests.policy import Policy
from culm.ranges import Range, RangeSet, size_limits
from culm.types import Log

What = bytes | tuple[bytes, int]


def make_range(first: int, last: int | None, *, sparse: bool, min_payload: int, max_payload: int | None) -> Range:
    """A range from the arguments of ``Node.follow``; sizes in bytes, both included. ``ConfigError`` if it is empty."""
    if max_payload is not None and not 0 <= min_payload <= max_payload:
        raise ConfigError(f"no payload has from {min_payload} to {max_payload} bytes")
    least, limit = size_limits(min_payload, max_payload)
    try:
        return Range(first, last, sparse=sparse, least_size=least, size_limit=limit)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def followed(policy: Policy, what: What, item: Range, *, add: bool) -> Policy:
    """The policy with one more interest. ``add`` keeps the ranges that are followed already; else they are replaced."""
    interests = dict(policy.interests or {})
    before = interests.get(what)
    interests[what] = before.add(item) if add and before is not None else RangeSet([item])
    return replace(policy, interests=interests)


def unfollowed(policy: Policy, what: What | Log) -> Policy:
    """The policy without an interest; ``ConfigError`` if the policy does not have it."""
    interests = dict(policy.interests or {})
    if interests.pop(what, None) is None:
        raise ConfigError("the node does not follow this author or log")
    return replace(policy, interests=interests)
