"""Whether a payload that comes in pieces is the one that its entry names.

The hash of a payload covers all of its bytes from the first on. A transfer may begin in the middle of one, because the
beginning is held already; then the check needs the hash state of that beginning, and without it the payload cannot be
checked here: the store has to do it, which has the bytes. Most payloads come in one piece, so that their hash is
computed at once, without keeping any state.
"""

from culm.bamboo import Entry, PayloadHasher, yamf_hash

_LARGE = 1024 * 1024  # Bytes of a payload from which on its last pieces take longer to hash than a loop should wait.


class PayloadCheck:
    """The hash of one payload so far.

    The payload goes on at ``offset``, behind bytes that are held already, whose hash is ``begun``. ``can_check``: the
    hash of everything before the next piece is known.
    """

    __slots__ = ("_hasher", "can_check")

    def __init__(self, offset: int = 0, begun: PayloadHasher | None = None) -> None:
        self._hasher = begun
        self.can_check = not offset or begun is not None

    def lose(self) -> None:
        """Bytes were passed that did not come: the payload can no longer be checked."""
        self._hasher, self.can_check = None, False

    def add(self, piece: bytes) -> None:
        """Hash the next piece, which is not the last one."""
        if self.can_check:
            if self._hasher is None:
                self._hasher = PayloadHasher()
            self._hasher.update(piece)

    def leave(self, piece: bytes) -> PayloadHasher | None:
        """Take the last piece of a large payload, and leave the verdict to the caller: what hashes all of it.

        None if the payload is not large, or cannot be checked: then ``finish`` tells at once.
        """
        if self._hasher is None or self._hasher.size + len(piece) <= _LARGE:
            return None
        self._hasher.update(piece)
        return self._hasher

    def finish(self, entry: Entry, piece: bytes) -> bool | None:
        """Whether the payload with its last piece is the one that the entry names; None if that cannot be told.

        The caller has counted: with this piece there are as many bytes as the entry says.
        """
        if not self.can_check:
            return None
        if self._hasher is None:
            found = yamf_hash(piece)
        else:
            self._hasher.update(piece)
            found = self._hasher.hash
        return found == entry.payload_hash
