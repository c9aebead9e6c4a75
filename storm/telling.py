"""A world in words: for the trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from culm.node.interests.policy import Policy
from culm.ranges.text import write_range
from culm.store import PayloadState
from storm.ledger import log_name
from storm.watch import Seen

if TYPE_CHECKING:
    from storm.world import World

_SIGNS = {
    PayloadState.ABSENT: "-",
    PayloadState.PARTIAL: "~",
    PayloadState.COMPLETE: "",
    PayloadState.FORGOTTEN: "!",
    PayloadState.SIZE_MISMATCH: "?",
}


def describe(world: World) -> Iterator[str]:
    """What everybody wants and holds. Behind a number: - without payload, ~ with some of it, ! it was forgotten."""
    for link in world.plan.links:
        yield f"{world.members[link.caller]} calls {link.scheme}://{world.members[link.callee]}"
    for member in world.members:
        yield f"{member} wants {wishes(member.policy)}"
        for log, seen in member.watch.logs.items():
            yield f"{member} holds {log_name(log)}: {_held(seen)}"


def wishes(policy: Policy) -> str:
    """What is wanted, and what is not, in a line."""
    parts = []
    if policy.interests is None:
        parts.append("everything")
    else:
        for what, ranges in policy.interests.items():
            name = log_name(what) if isinstance(what, tuple) else what.hex()[:6]
            parts.append(f"{name} {'+'.join(map(write_range, ranges))}")
    parts += [f"own {key.hex()[:6]}" for key in sorted(policy.own)]
    parts += [f"not {key.hex()[:6]}" for key in sorted(policy.block_authors)]
    parts += [f"keeps {log_name(log)}" for log in sorted(policy.unshared)]
    return ", ".join(parts) or "nothing"


def _held(seen: Seen) -> str:
    entries = " ".join(f"{seq}{_SIGNS[PayloadState(state)]}" for seq, (_, state) in seen.verified.items())
    return entries if seen.limit is None else f"{entries}; forked at {seen.limit}"
