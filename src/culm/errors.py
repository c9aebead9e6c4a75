"""Every error Culm raises on purpose, in one tree.

::

    CulmError
    ├── EncodingError              bytes that break their format (carries the offset)
    │   └── Truncated              ... by ending too early: with more bytes they could still be valid
    ├── InvalidEntry               an entry that cannot be trusted (carries its place)
    │   ├── MalformedEntry         its bytes break the format
    │   ├── BadSignature
    │   ├── PayloadMismatch        payload bytes of another hash
    │   ├── PayloadSizeMismatch    payload of the right hash but another size: the author signed a wrong size
    │   └── AfterEndOfLog
    ├── InvalidProof               a file that is to prove an entry, and does not
    ├── SealedPayload              a sealed payload that cannot be opened with the keys at hand
    ├── ForkDetected               two authentic entries contradict each other (carries the proof)
    ├── ProtocolError
    │   ├── LocalProtocolError     the caller did something that the protocol's state forbids
    │   └── RemoteProtocolError    the peer broke the protocol: drop the connection
    │       ├── FeatureRefused     ... or may do what it did, but this node was set not to accept it
    │       └── WrongClump         ... or is of another clump than this node
    ├── StoreError
    │   ├── StoreLocked, StoreMissing
    │   ├── StoreFull
    │   │   └── HoldingAreaFull    an entry would have to wait for its certificate path, and too many wait already
    │   ├── StoreDamaged
    │   │   └── PayloadDamaged     a payload's bytes changed on the disk (carries its place)
    │   ├── NotHeld                the store does not have the entry or payload asked for
    │   └── UnconfirmedLog         the store may lack the newest entries of this log, so appending could fork it
    ├── NetworkError               the peer cannot be reached, or closed the connection
    └── ConfigError                a wrong call, a wrong setting, something not installed

The command line turns each into one line and an exit code (see ``culm.cli``): 1 for bad data, 2 for a
wrong call, 3 for a peer or the network.
"""

from typing import NamedTuple, Protocol


class Place(NamedTuple):
    """The address of an entry: its author (32 bytes), log id and sequence number, both 0 to 2^64 - 1."""

    author: bytes
    log_id: int
    seq: int


class Contradiction(Protocol):
    """What proves a fork: a ``culm.bamboo.ForkProof``.

    Only what is needed here is named, because everything imports this module and it must not import anything from Culm.
    """

    @property
    def author(self) -> bytes:
        """The author (32 bytes) who forked the log."""

    @property
    def log_id(self) -> int:
        """The id of the forked log."""

    @property
    def position(self) -> int:
        """The sequence number that the two entries disagree about; entries before it stay valid."""

    def encode(self) -> bytes:
        """The proof's bytes, which ``ForkProof.decode`` reads."""

    def check(self) -> None:
        """Raise ``BadSignature`` unless the proof is authentic."""

    def explain(self) -> str:
        """One clause for people: which contradiction it is, and the two entries."""


class CulmError(Exception):
    """Base of every error raised by Culm."""


class EncodingError(CulmError, ValueError):
    """Bytes that do not follow their format.

    ``offset`` is the position of the first byte that cannot be accepted, counted from the start of the
    buffer given to the decoder.
    """

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


class Truncated(EncodingError):
    """The bytes end before the value does. With more of them the value could still be valid."""


class InvalidEntry(CulmError):
    """An entry that cannot be trusted. ``place`` is None if the bytes do not even tell which entry it is."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place


class MalformedEntry(InvalidEntry, EncodingError):
    """Bytes that are not an entry. ``offset`` counts from the start of the buffer given."""

    def __init__(self, message: str, offset: int = 0, place: Place | None = None) -> None:
        CulmError.__init__(self, message)
        self.place = place
        self.offset = offset


class TruncatedEntry(MalformedEntry, Truncated):
    """An entry whose bytes end too early."""


class BadSignature(InvalidEntry):
    """The signature does not verify under the claimed author."""


class PayloadMismatch(InvalidEntry):
    """The payload's hash is not the one the entry names: these bytes belong to something else."""


class PayloadSizeMismatch(PayloadMismatch):
    """The payload has the entry's hash, but not its size. The author signed a lie: the log is invalid from here on."""


class AfterEndOfLog(InvalidEntry):
    """The log has ended; it takes no further entry."""


class InvalidProof(CulmError):
    """A file that is to prove an entry does not: its bytes break the format, or a signature or payload is wrong."""


class SealedPayload(CulmError):
    """A sealed payload is not opened: it is for other readers, or its author wrote something that is damaged."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the payload is sealed and stays closed: {reason}")
        self.reason = reason


class ForkDetected(CulmError):
    """Two authentic entries of one log contradict each other; ``proof`` holds both. ``advice`` says what to do."""

    def __init__(self, proof: Contradiction, advice: str = "") -> None:
        text = f"fork at sequence number {proof.position}: {proof.explain()}"
        super().__init__(f"{text}; {advice}" if advice else text)
        self.proof = proof


class ProtocolError(CulmError):
    """Base of errors in the exchange between two peers."""


class LocalProtocolError(ProtocolError):
    """The caller asked for something that the connection's present state forbids: a bug on this side."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol. The only remedy is to drop the connection."""


class FeatureRefused(RemoteProtocolError):
    """The peer uses a feature that this node was set not to accept. It could not know that, so it is not punished."""


class WrongClump(RemoteProtocolError):
    """The two sides have different clumps. It costs a penalty, because otherwise anybody could try clumps."""


class StoreError(CulmError):
    """The store could not do what was asked. Nothing was changed."""


class StoreLocked(StoreError):
    """Another process has the store locked for longer than the store waits. Trying again later can succeed."""


class StoreFull(StoreError):
    """No space is left, on the disk or in a bounded area of the store."""


class HoldingAreaFull(StoreFull):
    """An entry would have to wait for its certificate path, and as many wait already as are allowed."""


class StoreDamaged(StoreError):
    """The file is not a Culm store, or is one that this version cannot read, or is damaged."""


class PayloadDamaged(StoreDamaged):
    """The bytes of a payload on the disk are not those that its author signed, so they are not handed out.

    ``entry_hash`` (66 bytes) tells apart the entries of a forked number. ``file`` is the name of the payload's file,
    None if the payload lies in the database: it tells these bytes from those that may replace them meanwhile.
    """

    def __init__(self, reason: str, place: Place, entry_hash: bytes, file: str | None) -> None:
        super().__init__(f"the payload of entry {place.seq} was damaged on the disk: {reason}")
        self.reason = reason
        self.place = place
        self.entry_hash = entry_hash
        self.file = file


class StoreMissing(StoreError):
    """The path given as a store does not exist."""


class NotHeld(StoreError):
    """The entry, log or payload asked for is not in the store."""


class UnconfirmedLog(StoreError):
    """The store was restored, or its author's key came from elsewhere, so it may lack the newest entries of a log.

    Nothing was published: a second entry of one number would fork the log for ever. ``place`` is that of the entry that
    would have been next. Sync with a peer that has the log, or append with ``continue_here`` if nothing newer exists.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(
            "the home was restored or made anew, or the identity imported, so the store may lack the newest entries of"
            " this log, and the next one could fork it: sync with a peer that has the log; or, if nothing newer exists"
            " anywhere, append with --continue-here (in Python: continue_here=True)"
        )
        self.place = place


class NetworkError(CulmError):
    """A peer cannot be reached, or closed the connection too early. Trying again later can succeed."""


class ConfigError(CulmError):
    """A wrong call or setting, or a part that is not installed."""
