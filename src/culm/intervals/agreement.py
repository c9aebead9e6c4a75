"""Whether the entries of one response agree with each other, and which hashes its links may leave out.

A responder that verifies its entries can only send entries of one branch, so two that contradict each other show that
it does not do what it says. Three things can disagree: the hash of an entry and a link that names another one; two
links to the same number; and an end of the log with entries behind it.
"""

from collections.abc import Sequence

from culm.bamboo import Entry
from culm.bamboo.lipmaa import links_across
from culm.transfer import LinkHashes

_MANY_HASHES = 256  # Remembered before those that nothing can link to are dropped: a few kilobytes for each response.


class Agreement:
    """What the entries of a response have said so far."""

    __slots__ = ("_claims", "_end", "_greatest", "_hashes")

    def __init__(self) -> None:
        self._hashes = LinkHashes(_MANY_HASHES)  # of entries that came; of an ascending response only
        self._claims: dict[int, bytes] = {}  # hashes that links name
        self._end: int | None = None  # the least number of an entry that ends the log
        self._greatest = 0

    def __len__(self) -> int:
        """How many hashes are remembered."""
        return len(self._hashes) + len(self._claims)

    def hash_of(self, seq: int) -> bytes | None:
        """The hash of an entry that came before in an ascending response, so that links to it were left out."""
        return self._hashes.get(seq)

    def admits(self, entry: Entry, explicit: tuple[tuple[int, bytes], ...]) -> bool:
        """Whether an entry agrees with those before it. ``explicit``: the links that came with it."""
        seq, claims = entry.seq, self._claims
        agrees = claims.get(seq, entry.hash) == entry.hash
        for target, value in explicit:
            agrees = agrees and claims.setdefault(target, value) == value
        if entry.is_end:
            agrees = agrees and seq >= self._greatest
            self._end = seq if self._end is None else min(seq, self._end)
        self._greatest = max(seq, self._greatest)
        return agrees and (self._end is None or self._greatest <= self._end)

    def admits_run(self, first: int) -> bool:
        """Whether entries from a number on agree with all that was said before, if they do not end the log.

        Each links to the one before it, and no link of an earlier entry names one of them.
        """
        return self._end is None and self._greatest < first and all(seq < first for seq in self._claims)

    def remember_run(self, entries: Sequence[Entry]) -> None:
        """Keep what later entries are checked against, of neighbours in ascending order that were admitted."""
        self._greatest = entries[-1].seq
        if self._hashes.add_run(entries[0].seq, [entry.hash for entry in entries]):
            self._forget_claims(self._greatest)

    def remember(self, entry: Entry, *, ascending: bool) -> None:
        """Keep what later entries are checked against. Of a descending response, those are below."""
        seq = entry.seq
        if ascending:
            if self._hashes.add(seq, entry.hash):
                self._forget_claims(seq)
        elif len(self._claims) > _MANY_HASHES:
            self._claims = {key: value for key, value in self._claims.items() if key < seq}

    def _forget_claims(self, seq: int) -> None:
        """Forget what links name that entries above a number cannot link to."""
        kept = set(links_across(seq))
        self._claims = {key: value for key, value in self._claims.items() if key in kept or key > seq}
