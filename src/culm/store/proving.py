"""Proofs of entries that a store has verified (docs/specs/proof.md, "What a proof holds")."""

from collections.abc import Iterator
from itertools import takewhile

from culm.bamboo import Entry, certificate_pool, path
from culm.bamboo.entryproof import EntryProof
from culm.errors import ForkDetected, NotHeld, Place
from culm.store.sqlite import ReadableStore
from culm.store.values import StoredEntry
from culm.types import Log


def make_proof(
    store: ReadableStore, place: Place, *, short: bool = False, with_payload: bool = False
) -> tuple[EntryProof, StoredEntry]:
    """The proof of a verified entry, and the entry as it is stored.

    The top of the proof is the newest verified entry, or with ``short`` the highest one of the certificate pool. If the
    store lacks an entry on the path from there, the top is the highest entry of the pool that a path connects.

    ``NotHeld`` if the entry is not verified, or ``with_payload`` asks for a payload that is not held whole.
    ``ForkDetected`` if the author has forked the log at the entry or before. Costs a look-up for each entry of the
    proof, some fifty.
    """
    log = place.author, place.log_id
    stored = store.get(place)
    entry = store.verified_entry(log, place.seq)
    fork = next(store.fork_proofs(log), None)
    if entry is None and fork is not None and fork.position <= place.seq:
        raise ForkDetected(fork)
    if stored is None or entry is None:
        raise NotHeld(f"the store has no verified entry {place.seq} of this log")
    if with_payload and not stored.payload_complete:
        raise NotHeld(
            f"the store has {stored.payload_held} of {entry.size} bytes of the payload; without it the proof is as good"
        )
    above = _above(store, log, place.seq, short=short)
    numbers = path(place.seq, 1)[::-1]
    below = list(_held(store, log, numbers))
    if len(below) < len(numbers):
        raise NotHeld("the log changed while its proof was made: try again")
    return EntryProof((*below, *above), place.seq, fork, with_payload), stored


def _above(store: ReadableStore, log: Log, seq: int, *, short: bool) -> list[Entry]:
    """The entries of the path from the top down to ``seq``, without that entry, ascending."""
    _, newest = store.lookup(log).entry_extent() or (seq, seq)
    pool = [member for member in reversed(certificate_pool(seq, newest)) if member > seq]
    whole = pool if short else [*reversed(path(newest, seq)[:-1])]
    found = list(_held(store, log, whole))
    return found if len(found) == len(whole) else list(_held(store, log, pool))


def _held(store: ReadableStore, log: Log, numbers: list[int]) -> Iterator[Entry]:
    """The entries of ascending numbers up to the first that is not held."""
    entries = (store.verified_entry(log, seq) for seq in numbers)
    return (entry for entry in takewhile(lambda entry: entry is not None, entries) if entry)
