"""What the Bushbaby sessions of a node remember together, because it outlives a connection.

*Dialects.* Nothing in the protocol tells which dialect a peer speaks, and a peer drops a HELLO of the other one. So a
caller first listens for a moment: a peer that speaks first shows its dialect. A peer that waits for the caller is
greeted in the dialect that was last heard at its address, else in that of the deployed peer. If it hangs up before its
HELLO, that may have been the wrong dialect, and it is called once more in the other one. What was heard is kept in the
home (``culm.node.sharing.kept``).
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from culm.bushbaby import Dialect
from culm.node.sharing.kept import KeptPeers, Note
from culm.types import Log, Run

_MOST_ADDRESSES = 4096  # Of peers that we call: an operator names them, so this is only a bound.


class Dialects:
    """Which dialect is spoken at the addresses that we call, in this process and in earlier ones (``kept``)."""

    def __init__(self, kept: KeptPeers | None = None) -> None:
        self._kept = kept or KeptPeers()
        self._kept.readers.append(self._take_note)
        self._heard: OrderedDict[str, Dialect] = OrderedDict()
        self._refused: dict[str, Dialect] = {}  # Where the last HELLO was refused, and its dialect.
        self._called_again: set[str] = set()  # Where the last HELLO came too late for ours to be in its dialect.

    def at(self, address: str) -> tuple[Dialect, bool]:
        """The dialect to speak, and whether there is a reason for it; without one, listen first."""
        if address in self._refused:
            return _other(self._refused[address]), True
        return self._heard.get(address, Dialect.DEPLOYED), address in self._heard

    def heard(self, address: str, dialect: Dialect) -> None:
        """A HELLO came from there."""
        self._kept.note("dialects", address, Note(dialect=dialect.value))
        self._set(address, dialect)

    def _take_note(self, kind: str, name: str, note: Note) -> None:
        if kind == "dialects" and note.dialect:
            self._set(name, Dialect(note.dialect))

    def _set(self, address: str, dialect: Dialect) -> None:
        self._refused.pop(address, None)
        self._heard[address] = dialect
        self._heard.move_to_end(address)
        if len(self._heard) > _MOST_ADDRESSES:
            self._heard.popitem(last=False)

    def refused(self, address: str, dialect: Dialect) -> bool:
        """The peer there hung up before its HELLO; whether to call it once more, in the other dialect."""
        if self._refused.pop(address, None) is not None:
            return False
        self._refused[address] = dialect
        return True

    def heard_late(self, address: str) -> bool:
        """The peer there hung up at our HELLO, and its own is of the other dialect; whether to call it once more.

        If that helps as little, it is not the dialect: somebody there, or two behind one address, would be called for
        ever.
        """
        if address in self._called_again:
            self._called_again.discard(address)
            return False
        self._called_again.add(address)
        return True

    def opened(self, address: str) -> None:
        """The handshake with the peer there is over."""
        self._called_again.discard(address)


def _other(dialect: Dialect) -> Dialect:
    return Dialect.DOCUMENT if dialect is Dialect.DEPLOYED else Dialect.DEPLOYED


@dataclass(slots=True)
class Remembered:
    """``held_back`` and ``gaps_told``: see ``culm.node.bushbaby.announcing``."""

    dialects: Dialects = field(default_factory=Dialects)
    held_back: dict[Log, Run] = field(default_factory=dict)
    gaps_told: set[Log] = field(default_factory=set)
