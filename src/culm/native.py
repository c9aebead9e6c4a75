"""The native core: arithmetic over buffers in Rust (the folder ``native``), used where it is installed.

Culm does everything without it, and with it nothing else, only quicker. So it is no dependency: it is looked for when
this module is imported, and ``CULM_NATIVE=off`` makes a process do without. A core that was built for another Culm is
left out as well, because the same names could mean something else there.
"""

import os
from importlib import import_module
from typing import Protocol

_INTERFACE = 10  # Counts up when a function of the core changes its meaning.


Row = tuple[bytes, bytes, int, int, bytes | None, bytes | None, int, bytes]
"""The bytes of an entry, its author, log id, number, lipmaalink, backlink and size, and its YAMF-hash."""


class Core(Protocol):
    """What the core has. All of it works without the interpreter's lock; what is no ``bytes`` is copied before."""

    __version__: str

    def accepted(self, entries: list[bytes], /) -> bytes:
        """One byte for each entry: 1 if libsodium certainly accepts its signature, 0 if libsodium has to be asked.

        Entries of one author are quick if they are hundreds; below eight nothing is accepted. ``ValueError`` if
        an entry is shorter than an author and a signature; ``OSError`` if the system has no random bits.
        """

    def entries_followed(self, data: bytes, /) -> list[tuple[int, Row]]:
        """The entries from the beginning of ``data`` on, each with its payload behind it, up to the first not whole.

        For each, where it begins, and what ``culm.bamboo.Entry`` is made of.
        """

    def entries_apart(self, encoded: list[bytes], /) -> list[Row] | None:
        """What ``culm.bamboo.Entry`` is made of, for the bytes of each entry; None if some are none."""

    def entries_linked(
        self,
        data: bytes | memoryview,
        framing: tuple[int, int | None],
        head: bytes,
        first: int,
        known: list[tuple[int, bytes]],
        most: int,
        /,
    ) -> tuple[list[tuple[Row, bytes]], int]:
        """Entries of a log from number ``first`` on, sent without what their reader knows, each with its payload.

        In ``data`` stand, for each: a byte, the size and the YAMF-hash of its payload, its signature, and the payload,
        perhaps with another byte and the size once more in front of it; ``framing`` has both bytes. ``head`` is the
        author and the log id, as in an entry; ``known`` are digests (64 bytes) of earlier entries, by number. Ends at
        the first entry that is not whole or begins otherwise, whose payload has another hash, or that links to an entry
        of unknown digest; and after ``most``. Gives what ``culm.bamboo.Entry`` is made of and the payload, for each;
        and how many bytes of ``data`` they take.
        """

    def entries_at(self, data: bytes | memoryview, starts: bytes, ends: bytes, /) -> tuple[bytes, ...]:
        """The fields of the records from each of ``starts`` to before each of ``ends`` in ``data``.

        Columns of numbers with 8 bytes in the machine's order, as ``starts`` and ``ends`` are: start, end, log id,
        number, the number that the lipmaalink goes to, where the digests of lipmaalink and backlink begin (-1: left
        out), size, where the digest of the payload hash begins. Then two columns of one byte: whether the record is an
        entry, and whether it ends the log. If it is no entry, the fields mean nothing.
        """

    def digests(self, data: bytes | memoryview, starts: bytes, ends: bytes, /) -> bytes:
        """The BLAKE2b-512 hashes of these records, 64 bytes each; ``ValueError`` if one is outside of ``data``."""

    def Blake2b(self) -> "Blake2b":  # noqa: N802 - a class of the core
        """BLAKE2b-512 of nothing yet."""

    def crc32(self, data: bytes, before: int, start: int, end: int, /) -> int:
        """As ``zlib.crc32`` of the bytes from ``start`` to ``end``, behind others; ``ValueError`` outside of them."""

    def Ranges(  # noqa: N802 - a class of the core
        self,
        buffers: tuple[bytes, bytes, bytes],
        message: bytes,
        at: tuple[int, int, int],
        before: tuple[int, bytes],
        low: int,
        /,
    ) -> "Ranges":
        """The ranges of a negentropy message from an offset on, and the records of a sealed set in them.

        ``buffers`` are those of ``culm.negentropy.array.ArrayStorage``. ``at``: the offset, one from which on no range
        is read, the most ranges. Reading ends in front of a range that is malformed, long or up to infinity. ``before``
        is the bound in front of them, with the position ``low``. ``ValueError`` for no such set or position.
        """

    def LZFooDecoder(self, window: int, /) -> "LZFooDecoder":  # noqa: N802 - a class of the core
        """A decoder that remembers the last ``window`` bytes of its output."""

    def LZFooEncoder(self, window: int, /) -> "LZFooEncoder":  # noqa: N802 - a class of the core
        """An encoder that remembers the last ``window`` bytes of its input."""


class Blake2b(Protocol):
    """As that of ``hashlib``, for pieces that are ``bytes``, several at a time."""

    def update(self, pieces: list[bytes], /) -> None:
        """Hash the next pieces. ``RuntimeError`` if another thread is just doing so."""

    def digest(self) -> bytes:
        """The hash of all pieces so far: 64 bytes."""


class Ranges(Protocol):
    """Ranges of a message, one behind the other; see ``culm.negentropy.batches``."""

    def __len__(self) -> int:
        """How many there are."""

    def end(self) -> int:
        """Where the last range ends in the message; ``ValueError`` if there is none."""

    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """A byte for each range: its mode; whether it has a list, or a fingerprint other than ours.

        And 8 bytes, in the machine's order: the position of our first record in it; of the first one behind.
        """

    def bound(self, row: int, /) -> tuple[int, bytes]:
        """The bound of a range; of the one in front of them all for -1. ``ValueError`` if there is no such range."""

    def alone(self) -> tuple[bytes, bytes]:
        """The ids of all lists that stand in ours alone, and those that stand in theirs alone: 32 bytes each."""

    def answers(self, rows: bytes, parts: bytes, skips: bytes, last: int, /) -> tuple[bytes, bytes]:
        """The answers to ranges of these numbers, in a row, and where in it each ends.

        ``parts`` tells into how many parts our records are divided, 0 for a list; ``skips``, a byte each, whether a
        Skip goes in front. ``last`` is the timestamp of the last bound written. ``ValueError`` for no such range.
        """


class LZFooDecoder(Protocol):
    """``culm.wire.lzfoo.Decoder`` without what is cheap in Python."""

    def begin(self, size: int, /) -> None:
        """A message begins that decodes to ``size`` bytes."""

    def decode(self, data: bytes, at: int, /) -> tuple[bytes, int, bool]:
        """The next piece of the output, the offset reached in ``data``, and whether there is more to decode.

        If there is no more, the bytes from that offset on are the beginning of an element. ``ValueError`` with a
        message and an offset if ``data`` is not LZFoo.
        """

    def missing(self) -> tuple[int, int]:
        """How many bytes are still to come of a literal, and of the message's output."""


class LZFooEncoder(Protocol):
    """``culm.wire.lzfoo.Encoder``."""

    def encode_if_smaller(self, data: bytes, most: float, /) -> bytes | None:
        """The elements of a message, or None if they have more than ``most`` of its size."""


def _find() -> tuple[Core | None, str]:
    if os.environ.get("CULM_NATIVE") == "off":
        return None, "no native core (CULM_NATIVE=off)"
    try:
        core = import_module("culm_native")
    except ImportError:
        return None, "no native core"
    if getattr(core, "INTERFACE", None) != _INTERFACE:
        return None, "native core left out: it was built for another version of Culm; build it again with make native"
    return core, f"native core {core.__version__}"


core, description = _find()
