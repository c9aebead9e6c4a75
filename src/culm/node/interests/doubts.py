"""Doubts: which entry to ask a peer for because it may hold another branch of a log than we do.

Two nodes with different branches of one length have nothing new for each other. So peers that can say more than "up to
entry 12" also say the *tip*, the beginning of that entry's digest, and the lowest *fork* that they know. Of three
cases each has an entry to ask for:

- The peer knows a lower fork: its entry there. It answers with the proof instead.
- The peer's newest entry is not ours of that number: that entry.
- We know a fork, and the peer's log goes on behind it as if nothing were. It is perhaps of another branch, and may part
  from ours before the fork: its entry at our newest valid number. We may not be allowed to show it our proof, so only
  asking brings this to light.

All of this compares the peer's newest entry with ours of that number. If we hold only less, the peer compares: it hears
of our newest entry, and has that, too. But it does not hear of a log that we may not show it, because we have it from
another clump. Then we ask for the newest entry that both hold (``newest_common``).

Specification: docs/specs/culm.md, "News"; docs/specs/bushbaby.md, "Forks".
"""

from culm.bamboo import MAX_U64
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import Place
from culm.ranges import RangeSet
from culm.store import ReadableStore, State
from culm.types import Log


def lowest_fork(store: ReadableStore, log: Log) -> int | None:
    """The lowest position of a fork for which a proof is held; None if there is none."""
    return next((proof.position for proof in store.fork_proofs(log)), None)


def doubted(store: ReadableStore, log: Log, newest: int, tip: bytes, fork: int) -> int | None:
    """The number of the peer's entry to ask for; None without a reason to.

    ``newest``, ``tip`` and ``fork`` are what the peer says of the log; 0 and nothing where it does not.
    """
    ours = lowest_fork(store, log)
    if fork and fork < (ours or MAX_U64):
        return fork
    digest = digest_at(store, log, newest)
    if tip and digest and not digest.startswith(tip):
        return newest
    if ours is not None and newest >= ours and fork != ours:
        held = store.held(*log)
        return max((item.last for item in held), default=0) or None
    return None


def newest_common(store: ReadableStore, log: Log, theirs: RangeSet) -> int:
    """The number of the newest entry that both we and, as it says, the peer hold; 0 if there is none."""
    ours = store.held(*log)
    newest = max((item.last for item in ours), default=0)
    return max((item.last for item in ours.missing(ours.missing(theirs, newest), newest)), default=0)


def digest_at(store: ReadableStore, log: Log, seq: int) -> bytes:
    """The digest (64 bytes) of our entry of a number; empty if it is not verified, or the number is 0."""
    stored = store.get(Place(*log, seq)) if seq else None
    if stored is None or stored.state is not State.VERIFIED:
        return b""
    return stored.entry.hash[len(YAMF_PREFIX) :]
