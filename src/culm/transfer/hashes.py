"""The hashes of entries that passed, as far as links of later entries can name them.

Both protocols leave out of an entry every link whose target the receiver has seen before; so the receiver has to
remember hashes. A log may have 2^64 entries, and to remember all would cost memory without bound. But the lipmaa links
of Bamboo never cross: of all entries up to number n, those behind n can only link to the few that lie on the path from
n + 1 down, which are O(log n). All others can be forgotten.

Forgetting costs a computation, and a dictionary does not mind a few entries too many. So hashes are collected until
there are as many as a limit says, and only then what no link can name any more is dropped.
"""

from collections.abc import Sequence

from culm.bamboo.lipmaa import links_across


class LinkHashes:
    """Hashes by sequence number.

    ``most``: how many are collected before those that no later entry can link to are dropped. ``also``: a number whose
    hash is kept for good, because the request named it.
    """

    __slots__ = ("_also", "_found", "_most")

    def __init__(self, most: int, also: int | None = None) -> None:
        self._most = most
        self._also = also
        self._found: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._found)

    def get(self, seq: int, default: bytes | None = None) -> bytes | None:
        """The hash of an entry, if it is known still."""
        return self._found.get(seq, default)

    def add(self, seq: int, value: bytes) -> bool:
        """Remember a hash; whether others were dropped for it."""
        self._found[seq] = value
        if len(self._found) <= self._most:
            return False
        useful = {*links_across(max(self._found)), self._also}
        self._found = {seq: value for seq, value in self._found.items() if seq in useful}
        return True

    def add_run(self, first: int, values: Sequence[bytes]) -> bool:
        """Remember the hashes of neighbouring entries, as far as later ones can link to them; as ``add``."""
        last = first + len(values) - 1
        for seq in links_across(last):
            if seq >= first:
                self._found[seq] = values[seq - first]
        return self.add(last, values[-1])
