"""Announcements: docs/specs/neighbours.md, "What an announcement holds", "The MAC", "Refusing", "Example"."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import Identity
from culm.errors import EncodingError
from culm.wire.announcement import HOUR_SECONDS, MAX_BYTES, Announcement, clump_key, seal, unseal

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "neighbours" / "examples.json").read_text())
WHOLE = bytes.fromhex("".join(part["hex"] for part in VECTOR["parts"]))
CLUMP, NOW, HOUR = bytes.fromhex(VECTOR["clump"]), VECTOR["seconds"], VECTOR["hour"]
KEY = clump_key(CLUMP)
NODE = Identity(bytes(range(32))).public
EXAMPLE = Announcement(NODE, ((ip_address("192.168.1.5"), 7801), (ip_address("2001:db8::1"), 7801)))
HEAD = b"\x01" + NODE


def sealed(body: bytes) -> bytes:
    """The bytes with a right MAC, so that what is tested is not the MAC."""
    person = b"culm neighbour 1"
    return body + blake2b(HOUR.to_bytes(8, "big") + body, digest_size=32, key=KEY, person=person).digest()


def test_the_example() -> None:
    """The example of the page is read as what it says, and written as the same bytes."""
    assert KEY.hex() == VECTOR["clump key"]
    assert seal(EXAMPLE, KEY, NOW) == WHOLE
    assert unseal(WHOLE, KEY, NOW) == EXAMPLE


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_an_hour_of_clock_error(hours: int) -> None:
    """A clock that is an hour early or late still sees its neighbours."""
    assert unseal(WHOLE, KEY, NOW + hours * HOUR_SECONDS) == EXAMPLE


def test_two_hours_are_too_many() -> None:
    """From the second hour after its own on an announcement cannot be repeated, nor before the hour before."""
    end, begin = (HOUR + 2) * HOUR_SECONDS, (HOUR - 1) * HOUR_SECONDS
    assert unseal(WHOLE, KEY, end - 0.001) == EXAMPLE
    assert unseal(WHOLE, KEY, begin) == EXAMPLE
    for now in (end, begin - 0.001):
        with pytest.raises(EncodingError, match="another clump or hour"):
            unseal(WHOLE, KEY, now)


def test_the_first_hour() -> None:
    """A clock that stands at 1970, as on a small machine without a battery, breaks nothing."""
    assert unseal(seal(EXAMPLE, KEY, 0), KEY, 0) == EXAMPLE
    assert unseal(seal(EXAMPLE, KEY, HOUR_SECONDS), KEY, 0) == EXAMPLE
    assert unseal(seal(EXAMPLE, KEY, 0), KEY, HOUR_SECONDS) == EXAMPLE


def test_clumps_differ() -> None:
    """Another clump's MAC does not hold: not of a clump with a zero more, nor of the hash of a long one."""
    long = bytes(range(200))
    keys = [clump_key(clump) for clump in (b"", b"a", b"a\0", long, blake2b(long).digest(), clump_key(long))]
    assert len(set(keys)) == len(keys)
    for key in keys:
        with pytest.raises(EncodingError, match="another clump or hour"):
            unseal(WHOLE, key, NOW)


def test_every_changed_bit() -> None:
    """No bit of an announcement can be changed by a stranger."""
    for at in range(8 * len(WHOLE)):
        changed = bytearray(WHOLE)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(EncodingError):
            unseal(bytes(changed), KEY, NOW)


def test_every_truncation() -> None:
    """No beginning of an announcement is one."""
    for size in range(len(WHOLE)):
        with pytest.raises(EncodingError):
            unseal(WHOLE[:size], KEY, NOW)


def test_the_least_and_the_most() -> None:
    """One address there must be; four long ones make an announcement of the greatest size, which is read."""
    longest = Announcement(NODE, tuple((ip_address(f"2001:db8::{number}"), 65535) for number in range(1, 5)))
    data = seal(longest, KEY, NOW)
    assert len(data) == MAX_BYTES
    assert unseal(data, KEY, NOW) == longest
    with pytest.raises(EncodingError, match="1 to 4 addresses"):
        Announcement(NODE, ())


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("version 2", b"\x02" + NODE + bytes.fromhex("01 04 c0a80105 1e79")),
        ("1 bytes follow", HEAD + b"\x00" + b"\x04"),
        ("1 to 4 addresses", HEAD + bytes.fromhex("05" + "".join(f"04 c0a8010{at} 1e79" for at in range(5)))),
        ("each once", HEAD + bytes.fromhex("02 04 c0a80105 1e79 04 c0a80105 1e79")),
        ("an address is missing", HEAD + bytes.fromhex("02 04 c0a80105 1e79")),
        ("cut off", HEAD + bytes.fromhex("01 04 c0a80105 1e")),
        ("cut off", HEAD + bytes.fromhex("01 06 c0a80105 1e79")),
        ("1 bytes follow", HEAD + bytes.fromhex("01 04 c0a80105 1e79 00")),
        ("version 5", HEAD + bytes.fromhex("01 05 c0a80105 1e79")),
        ("port 0", HEAD + bytes.fromhex("01 04 c0a80105 0000")),
        ("0.0.0.0", HEAD + bytes.fromhex("01 04 00000000 1e79")),
        ("255.255.255.255", HEAD + bytes.fromhex("01 04 ffffffff 1e79")),
        ("224.0.0.251", HEAD + bytes.fromhex("01 04 e00000fb 1e79")),
        ("ff02::fb", HEAD + bytes.fromhex("01 06 ff0200000000000000000000000000fb 1e79")),
        ("fe80::1", HEAD + bytes.fromhex("01 06 fe800000000000000000000000000001 1e79")),
        ("ffff", HEAD + bytes.fromhex("01 06 00000000000000000000ffffc0a80105 1e79")),
    ],
)
def test_what_a_member_cannot_say(what: str, body: bytes) -> None:
    """With a MAC that holds, everything that the page does not allow is refused, with the reason."""
    with pytest.raises(EncodingError, match=re.escape(what)):
        unseal(sealed(body), KEY, NOW)


HOSTS = st.one_of(st.ip_addresses(v=4, network="10.0.0.0/8"), st.ip_addresses(v=6, network="fd00::/8"))
ADDRESSES = st.lists(st.tuples(HOSTS, st.integers(1, 65535)), min_size=1, max_size=4, unique=True)


@given(st.binary(min_size=32, max_size=32), ADDRESSES, st.integers(0, 2**40), st.binary(max_size=300))
def test_there_and_back(key: bytes, addresses: list[tuple[object, int]], now: int, clump: bytes) -> None:
    """What is sealed is read as the same, in any clump, and fits into a string of a TXT record with its name."""
    said = Announcement(key, tuple(addresses))  # type: ignore[arg-type]
    data = seal(said, clump_key(clump), now)
    assert len(data) <= MAX_BYTES <= 255 - len(b"culm=")
    assert unseal(data, clump_key(clump), now) == said
