"""Invitations: docs/specs/invitation.md, "What an invitation holds", "Format", "Text", "Refusing", "Example"."""

from __future__ import annotations

import json
from base64 import b32encode
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import Identity
from culm.errors import ConfigError
from culm.wire.invitation import MAX_CHARS, Invitation

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "invitation" / "examples.json").read_text())
WHOLE = bytes.fromhex("".join(part["hex"] for part in VECTOR["parts"]))
KEY, OTHER = Identity(bytes(range(32))).public, bytes([0x22]) * 32
EXAMPLE = Invitation(
    KEY,
    (("node.example", 7801), ("2001:db8::1", 7801)),
    b"tutorial",
    ((KEY, 1), (OTHER, 300)),
    "alice",
    1_800_000_000,
    as_reader=True,
)
# No expiry, no clump, no name; one address, "a" with port 1; no logs.
HEAD = b"\x01\x00" + KEY
LEAST = HEAD + b"\x00\x00\x00" + b"\x01\x01a\x01" + b"\x00"


def sealed(data: bytes) -> bytes:
    """The bytes with a right checksum, so that what is tested is not the checksum."""
    return data + blake2b(data, digest_size=4).digest()


def text(data: bytes) -> str:
    """The bytes as a URL."""
    return "culm:" + b32encode(data).decode().rstrip("=").lower()


def test_the_example() -> None:
    """The example of the page is read as what it says, and written as the same bytes and the same text."""
    assert Invitation.parse(VECTOR["url"]) == EXAMPLE
    assert EXAMPLE.encode() == WHOLE
    assert EXAMPLE.url() == VECTOR["url"]


def test_capital_letters() -> None:
    """A QR code holds capital letters, which mean the same."""
    assert Invitation.parse(VECTOR["url"].upper()) == EXAMPLE
    assert Invitation.parse(VECTOR["url"].title()) == EXAMPLE


def test_the_least() -> None:
    """An invitation without clump, name, logs and expiry has 46 bytes."""
    assert Invitation.decode(sealed(LEAST)) == Invitation(KEY, (("a", 1),))
    assert Invitation(KEY, (("a", 1),)).encode() == sealed(LEAST)
    assert len(sealed(LEAST)) == 46


hosts = st.sampled_from(["a", "node.example", "10.0.0.1", "::1", "2001:db8::7", "x_y-z.example"])
logs = st.tuples(st.sampled_from([KEY, OTHER, bytes(32)]), st.integers(0, 2**64 - 1))
invitations = st.builds(
    Invitation,
    key=st.just(KEY),
    addresses=st.lists(st.tuples(hosts, st.integers(1, 65535)), min_size=1, max_size=8, unique=True).map(tuple),
    clump=st.binary(max_size=255),
    logs=st.lists(logs, max_size=10, unique=True).map(tuple),
    name=st.sampled_from(["", "a", "alice", "A.b_c-9"]),
    expires=st.integers(0, 253_402_300_799),
    as_reader=st.booleans(),
)


@given(invitations)
def test_there_and_back(invitation: Invitation) -> None:
    """Whatever an invitation says, its text is read as the same."""
    assert Invitation.parse(invitation.url()) == invitation


@given(st.data())
def test_every_wrong_character_is_found(data: st.DataObject) -> None:
    """A text with one character changed, lost or added is refused: by the checksum, or because it is no base32."""
    url = VECTOR["url"]
    at = data.draw(st.integers(5, len(url) - 1))
    character = data.draw(st.sampled_from(sorted(set("abcdefghijklmnopqrstuvwxyz234567") - {url[at]})))
    way = data.draw(st.sampled_from(["change", "lose", "cut"]))
    wrong = {"change": url[:at] + character + url[at + 1 :], "lose": url[:at] + url[at + 1 :], "cut": url[:at]}[way]
    with pytest.raises(ConfigError, match="the invitation"):
        Invitation.parse(wrong)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "'' is not an invitation: one begins with culm:"),
        ("https://node.example/invitation", "'https://node.example' is not an invitation: one begins with culm:"),
        (f"culm://{'a' * 43}@node.example:7801", "this is the address of a node, not an invitation"),
        ("culm:", "the invitation is cut off"),
        ("culm:a1", "has a character that none has"),
        ("culm:\N{KELVIN SIGN}aaaaaaa", "has a character that none has"),
        ("culm:ae======", "has a character that none has"),
        ("culm:af", "has a character that none has"),  # The last two bits are not 0.
        ("culm:" + "a" * (MAX_CHARS - 5), "the invitation is cut off"),
        ("culm:" + "a" * (MAX_CHARS - 4), f"longer than {MAX_CHARS} characters"),
        (text(b"\x02"), "the invitation has version 2, and this program reads 1: install a newer one"),
        (text(b"\x00" + WHOLE[1:]), "the invitation has version 0"),
        (text(b"\x01"), "its checksum differs"),
        (text(WHOLE[:-1] + b"\x00"), "its checksum differs; copy the whole URL once more"),
    ],
)
def test_texts_that_are_none(url: str, why: str) -> None:
    """Each text that is not an invitation gets one short reason."""
    with pytest.raises(ConfigError) as refused:
        Invitation.parse(url)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 120


def addresses(count: int) -> bytes:
    """So many addresses, all different."""
    return bytes([count]) + b"".join(b"\x01a" + bytes([port]) for port in range(1, count + 1))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x01\x02" + LEAST[2:], "2 is above 1"),
        (LEAST[:40], "a VarU64 is missing"),
        (LEAST[:-1], "a VarU64 is missing"),
        (LEAST + b"\x00", "1 bytes follow"),
        (b"\x01", "a field is cut off"),
        (HEAD + b"\xf8\x07\x00\x00\x01\x01a\x01\x00", "not in its shortest form"),
        (HEAD + b"\xfc\x3b\x00\x0c\xc7\x80" + LEAST[35:], "expires before the year 10000"),
        (HEAD + b"\x00\xf9\x01\x00" + bytes(256) + LEAST[36:], "the clump has 256 bytes"),
        (HEAD + b"\x00\xff" + b"\xff" * 8 + LEAST[36:], "a field is cut off"),
        (HEAD + b"\x00\x00\x01\x1b" + LEAST[37:], "cannot be a name"),
        (HEAD + b"\x00\x00\x02\xc3\xa9" + LEAST[37:], "the invitation is malformed"),
        (HEAD + b"\x00\x00\x21" + b"a" * 33 + LEAST[37:], "cannot be a name"),
        (HEAD + b"\x00\x00\x00\x00\x00", "1 to 8 addresses, not 0"),
        (HEAD + b"\x00\x00\x00" + addresses(9) + b"\x00", "9 items, and 8 are the most"),
        (HEAD + b"\x00\x00\x00\xff" + b"\xff" * 8 + b"\x00", "18446744073709551615 items, and 8 are the most"),
        (HEAD + b"\x00\x00\x00\x02\x01a\x01\x01a\x01\x00", "each address and each log once"),
        (HEAD + b"\x00\x00\x00\x01\x01a\x00\x00", "'a' with port 0 cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\x01a\xfa\x01\x00\x00\x00", "'a' with port 65536 cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\x00\x01\x00", "'' with port 1 cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\x01A\x01\x00", "'A' with port 1 cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\x03a b\x01\x00", "cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\x03a:b\x01\x00", "'a:b' with port 1 cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\x03b@c\x01\x00", "cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\x040::1\x01\x00", "cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\x08fe80::1%\x01\x00", "cannot be an address"),
        (HEAD + b"\x00\x00\x00\x01\xf8\xfe" + b"a" * 254 + b"\x01\x00", "cannot be an address"),
        (LEAST[:-1] + b"\x01\x02" + OTHER + b"\x01", "2 is above 1"),
        (LEAST[:-1] + b"\x01\x01" + KEY + b"\x01", "the inviter's key is written out"),
        (LEAST[:-1] + b"\x02\x00\x01\x00\x01", "each address and each log once"),
        (LEAST[:-1] + b"\x21" + b"".join(b"\x00" + bytes([number]) for number in range(33)), "33 items"),
    ],
)
def test_fields_that_are_refused(data: bytes, why: str) -> None:
    """Each field that the table does not allow is refused with its reason, although the checksum is right."""
    with pytest.raises(ConfigError) as refused:
        Invitation.decode(sealed(data))
    assert why in str(refused.value)


def test_nothing_is_written_that_cannot_be_read() -> None:
    """What an invitation cannot say is refused when it is made."""
    for changes in (
        {"addresses": ()},
        {"addresses": tuple(("a", port) for port in range(1, 10))},
        {"addresses": (("a\x1b[2J", 1),)},
        {"addresses": (("a", 65536),)},
        {"logs": tuple((KEY, number) for number in range(33))},
        {"logs": ((KEY, 1), (KEY, 1))},
        {"clump": bytes(256)},
        {"addresses": (("h" * 254, 1),)},
        {"addresses": (("2001:db8::x", 1),)},
        {"name": "n" * 33},
        {"name": "a b"},
        {"expires": 253_402_300_800},
        {"expires": -1},
    ):
        with pytest.raises(ConfigError):
            replace(EXAMPLE, **changes)


def test_a_text_has_a_limit() -> None:
    """What would make a longer text than readers take is refused by the writer."""
    many = tuple((bytes([number]) * 32, 2**64 - 1) for number in range(32))
    with pytest.raises(ConfigError, match="name fewer logs or addresses"):
        replace(EXAMPLE, logs=many).url()


def test_the_longest_text() -> None:
    """A text of 1999 characters, the longest below 2001 that bytes can make, is written and read; one more byte is not.

    The clump has as many bytes as it needs for that.
    """
    many = replace(EXAMPLE, logs=tuple((bytes([number]) * 32, 2**64 - 1) for number in range(24)), clump=b"")
    size = 1246 - len(many.encode())
    assert 0 < size < 248  # so that the length of the clump takes a byte, as that of none does
    fitting = replace(many, clump=bytes(size))
    assert len(fitting.url()) == 1999
    assert Invitation.parse(fitting.url()) == fitting
    longer = replace(many, clump=bytes(size + 1))
    with pytest.raises(ConfigError, match="the invitation has 2001 characters, and 2000 are the most"):
        longer.url()
    with pytest.raises(ConfigError, match="longer than 2000 characters"):
        Invitation.parse(text(longer.encode()))


def test_the_longest_fields() -> None:
    """A clump of 255 bytes, a host of 253 characters, 8 addresses, 32 logs and the last second of 9999 all fit."""
    most = Invitation(
        KEY,
        (("a" * 253, 65535), *(("a", port) for port in range(1, 8))),
        bytes(255),
        tuple((KEY, number) for number in range(32)),
        "a" * 32,
        253_402_300_799,
    )
    assert Invitation.decode(most.encode()) == most


def test_no_bytes_are_no_invitation() -> None:
    """Bytes that are not there have no version to speak of."""
    with pytest.raises(ConfigError, match="the invitation is empty"):
        Invitation.decode(b"")
