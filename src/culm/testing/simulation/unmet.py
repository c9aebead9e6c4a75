"""Who does not have yet what they want, though a neighbour has it, by what the protocol between them promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.store import PayloadState
from culm.testing.simulation.ledger import log_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.store import Log
    from culm.testing.simulation.member import Member
    from culm.testing.simulation.plan import LinkPlan
    from culm.testing.simulation.watch import Seen
    from culm.testing.simulation.world import World

_MISSING = (PayloadState.ABSENT, PayloadState.PARTIAL)


def unmet(world: World) -> list[str]:
    """What is missing, a line for each thing."""
    found = []
    for link in world.plan.links:
        caller, callee = world.members[link.caller], world.members[link.callee]
        for giver, taker in ((caller, callee), (callee, caller)):
            for log, seen in giver.watch.logs.items():
                if is_asked(world, link, log) and giver.policy.shares(log) and taker.policy.wants(log):
                    what = f"{link.scheme}: {taker} of {giver}: {log_name(log)}"
                    found += [f"{what}: {text}" for text in _missing(link, giver, taker, log, seen)]
    return found


def is_asked(world: World, link: LinkPlan, log: Log) -> bool:
    """Whether the protocol brings the log up at all: intervals and proposals cannot list what there is."""
    if link.scheme in ("culm", "bushbaby"):
        return True
    caller = world.members[link.caller]
    named = log in (caller.policy.interests or ())
    return caller.policy.wants(log) and (named or log in caller.held_at_calm)


def _missing(link: LinkPlan, giver: Member, taker: Member, log: Log, seen: Seen) -> Iterator[str]:
    theirs = taker.watch.logs.get(log)
    limit = None if theirs is None else theirs.limit
    if link.scheme == "culm" and not giver.policy.wants(log):
        return  # such logs are not compared
    if seen.limit is not None and (limit is None or limit > seen.limit):
        if link.scheme != "bushbaby":
            yield f"the fork at {seen.limit}"
        return
    interest = taker.policy.interest(log)
    newest = _newest(link, seen)
    for seq, (digest, payload) in seen.verified.items():
        if seq > newest or (limit is not None and seq >= limit):
            break
        size = giver.world.ledger.entries[digest].size
        wants_entry = interest.contains_metadata(seq, newest)
        wants_payload = payload == PayloadState.COMPLETE and interest.contains_payload(seq, size, newest)
        held = None if theirs is None else theirs.verified.get(seq)
        if held is None:
            if wants_entry or wants_payload:
                yield f"entry {seq}"
        elif held[0] != digest:
            if link.scheme != "bushbaby":
                yield f"entry {seq} is another"
        elif wants_payload and held[1] in _MISSING:
            yield f"the payload of {seq}"


def _newest(link: LinkPlan, seen: Seen) -> int:
    """Up to where a log is offered. Bushbaby stops before the first payload that is not held."""
    newest = 0
    for seq, (_, payload) in seen.verified.items():
        if link.scheme == "bushbaby" and payload != PayloadState.COMPLETE:
            break
        newest = seq
    return newest
