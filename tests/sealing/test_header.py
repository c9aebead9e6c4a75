"""The bounded look at a header, before any key is tried."""

from __future__ import annotations

import re

import pytest

from culm.errors import SealedPayload
from culm.sealing.header import MAX_HEADER_BYTES, MAX_READERS, parse_header, read_start, tag_of
from culm.sealing.mark import is_sealed
from tests.sealing.keys import ALICE, BOB, age_recipient, pyrage

# The header in the documentation of this module, with a stanza for an age key and one of a kind that nobody knows.
HEADER = (
    b"age-encryption.org/v1\n"
    b"-> ssh-ed25519 eivTJw FrXQ5xsDk7DEVt64s26vttJCGiifHtCxj2f/GKGcP2g\n"
    b"uDnI8WOV7k2shhNIrL/3SUM0SFeNOlrANUJvxcK6Np8\n"
    b"-> X25519 FrXQ5xsDk7DEVt64s26vttJCGiifHtCxj2f/GKGcP2g\n"
    b"uDnI8WOV7k2shhNIrL/3SUM0SFeNOlrANUJvxcK6Np8\n"
    b"-> '9~#l-grease ;^OQn\n"
    b"pq5u\n"
    b"--- ERriAQJz6P23h7QcLsth/XFuMIpBdBG6BzMQms7WNng\n"
)


def stanzas(count: int, kind: bytes = b"X25519") -> bytes:
    """A header with many readers."""
    return b"age-encryption.org/v1\n" + (b"-> " + kind + b" AAAA\nBBBB\n") * count + HEADER[-49:]


def test_what_a_header_shows() -> None:
    """Identities show four bytes of a hash each, age keys only their number, and other stanzas do not count."""
    header = parse_header(HEADER + b"payload")
    assert (("eivTJw",), 1, 2) == (header.tags, header.age_keys, header.readers)
    assert not header.may_open(ALICE.public)


def test_the_tag_is_that_of_the_library() -> None:
    """A payload that age seals for an identity shows the tag by which it is found."""
    header = parse_header(pyrage.encrypt(b"", [age_recipient(ALICE)]))
    assert (tag_of(ALICE.public),) == header.tags
    assert header.may_open(ALICE.public)
    assert not header.may_open(BOB.public)


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_header_in_pieces(piece: int) -> None:
    """A header is taken to its end, however it is cut, and no piece more is taken."""
    whole = HEADER + bytes(5000)
    pieces = iter([whole[at : at + piece] for at in range(0, len(whole), piece)])
    start = read_start(pieces)
    assert whole.startswith(start)
    assert len(HEADER) <= len(start) < len(HEADER) + piece
    assert whole == start + b"".join(pieces)


def test_a_header_that_ends_early() -> None:
    """A payload that ends within its header is refused, wherever that is."""
    for length in range(len(HEADER)):
        with pytest.raises(SealedPayload, match="it ends within its header"):
            read_start([HEADER[:length]])


def test_an_endless_header() -> None:
    """A header that does not end is given up behind the limit, whatever would follow."""
    taken = 0

    def endless() -> object:
        nonlocal taken
        yield HEADER[:-49]
        while True:
            taken += 1000
            yield b"-> X25519 AAAA\nBBBB\n" * 50

    with pytest.raises(
        SealedPayload, match=r"its header is longer than 131,072 bytes, so it is damaged, or has more than 1,000"
    ):
        read_start(endless())  # type: ignore[arg-type]
    assert taken <= MAX_HEADER_BYTES + 1000


def test_thousands_of_readers() -> None:
    """More readers than the limit are refused by their number, and as many as the limit are not."""
    assert MAX_READERS == parse_header(stanzas(MAX_READERS)).readers
    with pytest.raises(SealedPayload, match="it has 5,000 readers; accepted: up to 1,000"):
        parse_header(stanzas(5000))
    assert len(stanzas(5000)) < MAX_HEADER_BYTES


def test_passphrases() -> None:
    """A passphrase is refused before the work factor that its stanza demands is tried."""
    with pytest.raises(SealedPayload, match="it is sealed with a passphrase, and Culm tries none"):
        parse_header(b"age-encryption.org/v1\n-> scrypt AAAA 40\nBBBB\n" + HEADER[-49:])


def test_what_is_sealed() -> None:
    """The first line tells, to its last byte."""
    assert is_sealed(HEADER)
    assert is_sealed(HEADER[:22])
    assert not is_sealed(HEADER[:21])
    assert not is_sealed(HEADER[1:])
    assert not is_sealed(re.sub(b"v1", b"v2", HEADER))
    with pytest.raises(SealedPayload, match="it has no whole header"):
        parse_header(HEADER[1:])
