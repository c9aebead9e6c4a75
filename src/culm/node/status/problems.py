"""What is wrong, each with what to do about it: ended sessions, peers out of reach, damage, and what a doctor finds.

The errors are known when a session ends, so what to do follows from their class and not from their words.
"""

from culm.errors import FeatureRefused, NetworkError, PayloadDamaged, ProtocolError, StoreError, WrongClump
from culm.node.names import Names
from culm.node.roster import Roster
from culm.node.sessions.stats import PeerRefused
from culm.node.status.asked import Plain, name_of
from culm.store import ReadableStore
from culm.wire.places import log_text

MOST_DAMAGED = 50  # damaged payloads listed; all are counted in the totals

_ADVICE: dict[type[BaseException], str] = {  # The first class that fits counts.
    PayloadDamaged: "nothing: the payload is asked for again, from any peer that has it; see the damage below",
    PeerRefused: "if the two shall talk, compare their clumps, and whom they allow and block (culm policy)",
    WrongClump: "if the two shall talk, give both the same clump; the peer is refused for a while, so wait",
    FeatureRefused: "change refuse_ranges or avoid_ranges in culm.toml, here or at the peer",
    ProtocolError: "update Culm here and the peer's program; if it goes on, keep the peer out (culm block)",
    NetworkError: "nothing if it happens now and then; otherwise look whether the peer runs, and at the network",
    StoreError: "run culm doctor, and look at the node's log",
}
_OTHERWISE = "look at the node's log, which has the whole error"
_NOT_REACHED = "check that the peer is running and that its address is right; the node goes on trying"
_DAMAGED = "sync with a peer that has it, or import a file that has it; if it happens again, replace the disk"


def what_to_do(error: type[BaseException]) -> str:
    """What to do about a session that ended with an error of this class."""
    return next((todo for kind, todo in _ADVICE.items() if issubclass(error, kind)), _OTHERWISE)


def unreached(roster: Roster) -> list[Plain]:
    """The peers that the node keeps contact with and cannot reach."""
    reached = {contact.name for contact in roster.contacts()}
    return [
        {"url": str(url), "trouble": trouble, "retry_at": roster.retries.get(url), "todo": _NOT_REACHED}
        for url, trouble in roster.troubles.items()
        if trouble is not None and roster.names.get(url, str(url)) not in reached
    ]


def damaged(store: ReadableStore, names: Names) -> list[Plain]:
    """The payloads that were damaged on the disk and have not come again."""
    return [
        {
            "log": log_text(stored.entry.log),
            "name": name_of(names, stored.entry.author),
            "seq": str(stored.entry.seq),
            "size": str(stored.entry.size),
            "todo": _DAMAGED,
        }
        for stored in store.damaged_payloads(MOST_DAMAGED)
    ]
