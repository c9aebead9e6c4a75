"""Forks and their proofs (docs/specs/bamboo.md, "Forks", "End of log").

An author who signs two entries that cannot both belong to one log has forked it. Nobody can say which branch is the
right one, so the log is invalid from there on, and every node has to learn of it. Two authentic entries that contradict
each other are enough as a proof: everyone can check the two signatures, without trusting the sender and without the
entries between. There are four cases:

1. they have the same sequence number and differ;
2. both link to the same number and expect different hashes there (neither target need be known);
3. one links to the other's number and expects another hash;
4. one ends the log and the other comes after it.

The *position* of a proof is the sequence number that the two disagree about. In case 2 it is lower than both entries,
because they disagree about an earlier one. Entries below the lowest position stay valid.
"""

from enum import Enum
from typing import NamedTuple, Self

from culm.bamboo.entry import Entry
from culm.bamboo.verification import check_signature
from culm.errors import MalformedEntry


class ForkCase(Enum):
    """Which of the four cases of ``docs/specs/bamboo.md`` a proof is; the values complete the sentence "fork: ..."."""

    SAME_NUMBER = "two different entries have this number"
    COMMON_TARGET = "two entries link to this number and expect different hashes"
    LINK_TO_OTHER = "an entry links to this number and expects another hash"
    AFTER_END = "the log ends here, but another entry comes after its end"


def contradiction(one: Entry, other: Entry) -> tuple[int, ForkCase] | None:
    """The lowest position at which two entries of one log contradict each other, with the case; None if they agree."""
    low, high = (one, other) if one.seq <= other.seq else (other, one)
    if low.log != high.log:
        return None
    if low.seq == high.seq:
        if low.encoded == high.encoded:
            return None
        found = [(low.seq, ForkCase.SAME_NUMBER)]
    elif low.is_end:
        found = [(low.seq, ForkCase.AFTER_END)]
    else:
        found = []
    expected_by_low = dict(low.links)
    for target, expected in high.links:
        if target == low.seq and expected != low.hash:
            found.append((target, ForkCase.LINK_TO_OTHER))
        elif expected_by_low.get(target, expected) != expected:
            found.append((target, ForkCase.COMMON_TARGET))
    return min(found, key=lambda item: item[0], default=None)


class ForkProof(NamedTuple):
    """Two entries of one log that contradict each other, in a fixed order: equal pairs make equal proofs.

    Made by ``ForkProof.of`` or ``ForkProof.decode``. ``check`` verifies the signatures of a proof from elsewhere.
    """

    first: Entry
    second: Entry
    position: int
    case: ForkCase

    @classmethod
    def of(cls, one: Entry, other: Entry) -> Self | None:
        """The proof that two entries make in either order; None if they do not contradict each other."""
        found = contradiction(one, other)
        if found is None:
            return None
        first, second = sorted((one, other), key=lambda entry: (entry.seq, entry.encoded))
        return cls(first, second, *found)

    @property
    def author(self) -> bytes:
        """The author (32 bytes) who forked the log."""
        return self.first.author

    @property
    def log_id(self) -> int:
        """The id of the forked log."""
        return self.first.log_id

    @property
    def log(self) -> tuple[bytes, int]:
        """Author and id of the forked log."""
        return self.first.log

    def encode(self) -> bytes:
        """The proof's bytes: its two entries in a row, without a separator, as each entry knows its own end."""
        return self.first.encoded + self.second.encoded

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read a proof; ``MalformedEntry`` unless it is exactly two entries, in order, that contradict each other.

        Signatures are not looked at: call ``check`` on a proof that somebody else made.
        """
        first, end = Entry.decode_prefix(data)
        second, end = Entry.decode_prefix(data, end)
        proof = cls.of(first, second)
        if end != len(data) or proof is None or proof.first != first:
            msg = "not a fork proof: expected two entries of one log, in order, that contradict each other"
            raise MalformedEntry(msg, 0, first.place)
        return proof

    def check(self) -> None:
        """Raise ``BadSignature`` unless both entries are authentic."""
        check_signature(self.first)
        check_signature(self.second)

    def explain(self) -> str:
        """One clause for people: which contradiction it is, and the two entries."""
        return f"{self.case.value} (entries {self.first.seq} and {self.second.seq})"
