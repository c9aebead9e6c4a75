"""Sealing and opening, in pieces, by ``pyrage`` (docs/specs/sealed.md, "A sealed payload").

age encrypts in chunks of 64 KiB, each with a tag of its own, and the last one marked. So what ``opened`` has given is
authentic, and a payload that somebody has cut off is noticed, but only at its end. A caller that must not act on the
beginning of a cut payload waits for the end of the iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from culm.errors import ConfigError, SealedPayload
from culm.sealing.header import MAX_READERS, parse_header, read_start
from culm.sealing.mark import FIRST_LINE, is_sealed
from culm.sealing.pump import Reader, Writer, pumped
from culm.sealing.readers import Keyring, recipient_of, the_library
from culm.types import Buffer

_CHUNK_BYTES = 64 * 1024  # of plaintext, which age encrypts at once


class Sealer:
    """Seals payloads for some readers, given as ``reader_of`` gives them. The result is binary age.

    ``ConfigError`` if there is no reader, there are more than ``MAX_READERS``, or ``pyrage`` is missing.
    """

    def __init__(self, readers: Iterable[str]) -> None:
        chosen = list(dict.fromkeys(readers))
        if not chosen:
            raise ConfigError("there is no reader to seal for: name one, or a group whose list is not empty")
        if len(chosen) > MAX_READERS:
            raise ConfigError(
                f"{len(chosen):,} readers are too many: accepted are up to {MAX_READERS:,}; seal for an age key"
                " that they share"
            )
        self._library = the_library()
        self._recipients = [recipient_of(reader) for reader in chosen]

    def pieces(self, payload: Iterable[Buffer]) -> Iterator[bytes]:
        """Seal a payload while it is read, in constant memory."""
        return pumped(payload, lambda source, target: self._library.encrypt_io(source, target, self._recipients))

    def whole(self, payload: Buffer) -> bytes:
        """Seal a payload that is in memory."""
        if len(payload) > _CHUNK_BYTES:  # In pieces, because no other thread runs while the library encrypts one.
            return b"".join(self.pieces([payload]))
        sealed: bytes = self._library.encrypt(bytes(payload), self._recipients)
        return sealed

    def each(self, payloads: Iterable[Buffer]) -> list[bytes]:
        """Seal several payloads, each by itself."""
        return [self.whole(payload) for payload in payloads]


def opened(pieces: Iterable[Buffer], keyring: Keyring) -> Iterator[bytes]:
    """The content of a payload: opened if it is sealed, and unchanged if it is not.

    ``SealedPayload`` if no key opens it, or if it is damaged: its author wrote it so, because the hash in the entry is
    of the sealed bytes. ``ConfigError`` if ``pyrage`` is missing.
    """
    source = iter(pieces)
    start = b""
    while len(start) < len(FIRST_LINE) and (piece := next(source, None)) is not None:
        start += piece
    if not is_sealed(start):
        if start:
            yield start
        yield from (bytes(piece) for piece in source)
        return
    start = read_start(chain([start], (bytes(piece) for piece in source)))
    header = parse_header(start)
    keys = keyring.keys_for(header)
    pyrage = the_library()

    def work(source: Reader, target: Writer) -> None:
        pyrage.decrypt_io(source, target, keys)

    def blame(error: BaseException) -> BaseException:
        if isinstance(error, MemoryError):
            return error
        if "No matching keys" in str(error):  # An age key was tried, or four bytes of a hash were those of another key.
            return SealedPayload(keyring.refusal(header))
        return SealedPayload(f"it is damaged, or its author cut it off ({error})")

    yield from pumped(chain([start], source), work, blame)


def skipped(pieces: Iterator[bytes], count: int) -> Iterator[bytes]:
    """The pieces without their first ``count`` bytes."""
    for piece in pieces:
        if count < len(piece):
            yield piece[count:]
        count = max(0, count - len(piece))
