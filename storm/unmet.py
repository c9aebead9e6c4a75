"""Who does not have yet what they want, though a neighbour has it, by what the protocol between them promises.

=========  ==================================================================================================
culm       everything that both sides know to be wanted, whatever gaps there are, with the whole certificate pools;
           and the lowest fork
bushbaby   the entries whose payload the neighbour has and whose path comes, too, or is held
intervals  everything up to the neighbour's newest payload, whatever gaps there are, but for what it got during a
           session behind an entry without payload; the lowest fork
proposals  everything that the neighbour holds, whatever gaps there are; the lowest fork, one that nobody knows yet if
           the side that holds less wants the log, the other one has an entry of that number, and it is not below one
           that both have
=========  ==================================================================================================

With all but Bushbaby, which names no hashes, two neighbours never hold certified entries of different branches.

A log is left out where the quotas of a node have no room for what it lacks, or it asks nothing for that reason.

By intervals and proposals nobody is told what logs there are: what the caller holds or follows is asked for, both ways;
by proposals, if the caller may still lack something of it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from culm.bamboo.lipmaa import certificate_pool, lipmaa, path
from culm.node.interests.quotas import AUTHOR_BYTES, ENTRY_BYTES, weight_of
from culm.ranges import RangeSet
from culm.store import PayloadState
from culm.types import Log
from storm.watch import Seen

if TYPE_CHECKING:
    from storm.member import Member
    from storm.plan import LinkPlan
    from storm.world import World

from storm.ledger import log_name

_MISSING = (PayloadState.ABSENT, PayloadState.PARTIAL)
_IN_ORDER = ("intervals", "proposals")
_A_PROOF = 2 * (ENTRY_BYTES + 350)  # What a proof of a fork counts for at most, of two entries.
_ROOMY = 100  # Entries that may wait: more than any storm needs.


def unmet(world: World) -> list[str]:
    """What is missing, a line for each thing."""
    found = []
    for link in world.plan.links:
        caller, callee = world.members[link.caller], world.members[link.callee]
        for giver, taker in ((caller, callee), (callee, caller)):
            for log, seen in giver.watch.logs.items():
                if not (_serves(giver, log, link) and taker.policy.wants(log)):
                    continue
                if link.scheme == "culm" and not giver.policy.wants(log):
                    continue  # such logs are not compared
                if link.scheme in _IN_ORDER and not _is_asked(caller, log, link.scheme):
                    continue
                exchange = _Exchange(world, link, giver, taker, log, seen)
                missing = list(exchange.missing())
                if missing and not (
                    _has_room(world, link, taker, log, seen)
                    and _has_room(world, link, giver, log, taker.watch.logs.get(log))
                ):
                    world.counts["logs that no quota has room for"] += 1
                    continue
                found += [f"{link.scheme}: {taker} of {giver}: {log_name(log)}: {text}" for text in missing]
    return found


def _serves(member: Member, log: Log, link: LinkPlan) -> bool:
    """Whether a node may show a log that it holds, by a link."""
    return member.policy.shares(log) and member.watch.serves(log, link.clump_of(member.plan.number))


def _is_asked(caller: Member, log: Log, scheme: str) -> bool:
    """Whether the caller brings a log up."""
    if not (caller.policy.wants(log) and (log in (caller.policy.interests or ()) or log in caller.held_at_calm)):
        return False
    return scheme != "proposals" or any(item.is_open for item in caller.policy.interest(log))


def _has_room(world: World, link: LinkPlan, taker: Member, log: Log, seen: Seen | None) -> bool:
    """Whether a node's quotas have room for each entry that it lacks of ``seen``, and for the proof of a fork.

    A log goes no further where one entry has no room, because what follows hangs on that entry. The node asks nothing
    of such a log, so that the other side does not hear of a fork either.
    """
    limits, author = taker.plan.quotas, log[0]
    if not limits or author in taker.policy.own or seen is None:
        return True
    of = taker.weighed()[link.clump_of(taker.plan.number)]
    everybody = sum(of.values()) + (0 if author in of else AUTHOR_BYTES)
    used = (limits.author, of.get(author, AUTHOR_BYTES)), (limits.total, everybody)
    room = min(limit - taken for limit, taken in used if limit)
    theirs = taker.watch.logs.get(log, Seen({}, None)).verified
    entries = [world.ledger.entries[digest] for digest, _ in seen.verified.values()]
    lacked = [entry for entry in entries if theirs.get(entry.seq, (b"", PayloadState.ABSENT))[1] in _MISSING]
    return room >= _A_PROOF and all(2 * weight_of(entry) + entry.size <= room for entry in lacked)


@dataclass(slots=True)
class _Exchange:
    """One log on its way from one node to another. ``seen`` is what the giver shows."""

    world: World
    link: LinkPlan
    giver: Member
    taker: Member
    log: Log
    seen: Seen

    @property
    def scheme(self) -> str:
        """The protocol."""
        return self.link.scheme

    def missing(self) -> Iterator[str]:
        """What the taker lacks and could have."""
        theirs = self.taker.watch.logs.get(self.log)
        limit = None if theirs is None else theirs.limit
        interest = self.taker.policy.interest(self.log)
        fork = self.seen.limit
        if fork is not None and (limit is None or limit > fork):
            if self.taker.plan.waiting_room < _ROOMY:
                return  # Where no more may wait, an entry of another branch may have no room.
            if self.scheme == "culm" or (self.scheme in _IN_ORDER and any(item.last >= fork for item in interest)):
                yield f"the fork at {fork}"
            return
        newest = self._offered()
        if self._are_mixed(theirs):
            yield "certified entries of another branch"
        pools = self._tails(interest, newest, theirs)
        comes = self._comes(interest, theirs, newest)
        for seq, (digest, payload) in self.seen.verified.items():
            if seq > newest or (limit is not None and seq >= limit):
                break
            held = None if theirs is None else theirs.verified.get(seq)
            if held is not None and held[0] != digest:
                if self._compares(theirs):
                    yield f"entry {seq} is another"
                continue
            size = self.world.ledger.entries[digest].size
            wants_payload = payload == PayloadState.COMPLETE and interest.contains_payload(seq, size, newest)
            lacks_payload = wants_payload and (held is None or held[1] in _MISSING)
            wants_entry = wants_payload or interest.contains_metadata(seq, newest) or seq in pools
            lacks_entry = held is None and wants_entry
            if (lacks_entry or lacks_payload) and seq in comes:
                yield f"entry {seq}" if lacks_entry else f"the payload of {seq}"

    def _tails(self, interest: RangeSet, newest: int, theirs: Seen | None) -> set[int]:
        """What the pools of closed ranges need above these, where the protocol asks whatever gaps the giver has.

        If neither has anything of a range, what its pool needs above has no path yet, and does not show.
        """
        if self.scheme != "culm":
            return set()
        there = {*self.seen.verified, *(() if theirs is None else theirs.verified)}
        closed = [
            replace(item, metadata=True)
            for item in interest
            if not item.is_open and any(item.start <= seq <= item.last for seq in there)
        ]
        return {seq for item in closed for seq in item.certificates(newest) if seq > item.last}

    def _are_mixed(self, theirs: Seen | None) -> bool:
        """Whether both hold entries with their whole pools, from different branches, and neither knows of the fork."""
        if theirs is None or self.scheme == "bushbaby" or not _serves(self.taker, self.log, self.link):
            return False
        ours = _certified(self.seen)
        return any(seq in ours and ours[seq] != digest for seq, digest in _certified(theirs).items())

    def _compares(self, theirs: Seen | None) -> bool:
        """Whether a fork shows by what each side names: with proposals the newest entry of whoever wants the log.

        If both hold the same one there, or one of them none, nothing below is compared, but for what is still fetched.

        By intervals and proposals, what is said of a log is not compared with what is kept back of it.
        """
        if self.scheme in _IN_ORDER and not _serves(self.taker, self.log, self.link):
            return False
        if self.scheme == "proposals" and theirs is not None:
            ours, newest = max(self.seen.verified), max(theirs.verified)
            named = min(ours, newest)  # whoever holds more can say something of it
            there = {side.verified[named][0] for side in (self.seen, theirs) if named in side.verified}
            return len(there) > 1 and (ours >= newest or self.giver.policy.wants(self.log))
        return self.scheme != "bushbaby"

    def _offered(self) -> int:
        """Up to where the giver offers the log."""
        if self.scheme in {"bushbaby", "intervals"}:  # To its newest payload.
            return max(self.seen.complete(), default=0)
        return max(self.seen.verified, default=0)

    def _comes(self, interest: RangeSet, theirs: Seen | None, newest: int) -> Container[int]:
        """The entries that can come. By Bushbaby none comes without its payload, and none shows without a path."""
        verified = self.seen.verified
        if self.scheme == "intervals":
            gap = next((seq for seq, (_, state) in verified.items() if state != PayloadState.COMPLETE), newest + 1)
            at_calm = self.giver.held_at_calm.get(self.log, [])
            return {seq for seq in verified if seq in at_calm or seq <= gap}
        if self.scheme != "bushbaby":
            return verified
        wanted = [seq for seq in verified if seq <= newest and interest.contains_metadata(seq, newest)]
        asked = {number for seq in wanted for number in path(seq, 1)}
        held = {} if theirs is None else theirs.verified
        sent = asked.intersection(self.seen.complete())
        shown = set(held)
        for seq in sorted(sent - shown):
            if seq == 1 or not shown.isdisjoint((seq - 1, lipmaa(seq))):
                shown.add(seq)
        return shown


def _certified(seen: Seen) -> dict[int, bytes]:
    """The entries whose certificate pool is held up to the spine number above them, by number; their digests."""
    verified = seen.verified
    return {seq: digest for seq, (digest, _) in verified.items() if all(at in verified for at in certificate_pool(seq))}
