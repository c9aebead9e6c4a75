"""No clump makes AUTH sign anything that is not AUTH.

Specification: docs/specs/bushbaby.md, "Handshake".
"""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from culm import Node
from culm.bamboo import Entry, Identity
from culm.bushbaby import Connection
from culm.bushbaby.clump import check_clump
from culm.cli import main
from culm.errors import ConfigError, InvalidEntry
from culm.node.config import NodeConfig
from culm.session.handshake import Transcript

VICTIM = Identity(bytes([7]) * 32)
ZERO_HASH = "0040" + 64 * "00"
# Entry 1 of log 0 of the victim, for a payload of 5 bytes, up to the last 32 bytes of the payload's hash.
FIRST = bytes.fromhex("00" + VICTIM.public.hex() + "00" + "01" + "05" + ZERO_HASH)[:-32]


def test_why_a_clump_can_be_an_entry() -> None:
    """The signature over such a clump and any 32 bytes is the signature of an entry that decodes."""
    fresh = bytes(range(32))
    entry = Entry.decode(FIRST + fresh + VICTIM.sign(FIRST + fresh))
    assert (VICTIM.public, 0, 1) == (entry.author, entry.log_id, entry.seq)


UNSAFE = {
    "the start of an entry": FIRST,
    "an end of a log": b"\x01" + FIRST[1:],
    "a proof of culm://": b"culm session 1: caller\0" + bytes(96),
    "a TLS handshake": b" " * 64 + b"TLS 1.3, server CertificateVerify\0",
}


@pytest.mark.parametrize("clump", UNSAFE.values(), ids=UNSAFE)
def test_unsafe_clumps_are_refused_everywhere(clump: bytes) -> None:
    """A connection, a node's configuration and the library's node each refuse them before anything is signed."""
    with pytest.raises(ConfigError, match="is not safe"):
        Connection(VICTIM, clump, random_bytes=os.urandom)
    with pytest.raises(ConfigError, match="is not safe"):
        NodeConfig(clump)


def test_the_library_refuses(tmp_path: Path) -> None:
    """``Node.open`` with such a clump raises ``ConfigError`` that says what to do."""

    async def opening() -> None:
        async with Node.open(store=tmp_path / "store.db", identity=VICTIM, clump=FIRST):
            pass

    with pytest.raises(ConfigError, match="choose another clump"):
        asyncio.run(opening())


@pytest.mark.parametrize(
    "command", [["serve", "--listen", "bushbaby://127.0.0.1:0"], ["sync", "bushbaby://127.0.0.1:1"]]
)
def test_the_command_line_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    """Neither serving nor calling starts with such a clump."""
    assert main(["init", "--home", str(tmp_path / "home")]) == 0
    assert main([*command, "--home", str(tmp_path / "home"), "--clump-hex", FIRST.hex()]) != 0
    assert "is not safe" in capsys.readouterr().err


@pytest.mark.parametrize(
    "clump", [b"", b"observatory", bytes(32), bytes(69), b" " * 90, b"culm session 1: caller\0", b"\x02" + bytes(200)]
)
def test_safe_clumps_are_used(clump: bytes) -> None:
    """What is too short for anything else, or begins otherwise, stays usable: 69 zero bytes are one too few."""
    Connection(VICTIM, clump, random_bytes=os.urandom)


def _accepts(clump: bytes) -> bool:
    try:
        check_clump(clump)
    except ConfigError:
        return False
    return True


HASHES = st.binary(min_size=64, max_size=64).map(lambda digest: b"\x00\x40" + digest)
NUMBERS = st.one_of(
    st.integers(0, 247).map(lambda number: bytes([number])),
    st.integers(248, 2**16 - 1).map(lambda number: b"\xf9" + number.to_bytes(2, "big")),
    st.just(b"\xff" + bytes([255] * 8)),
)


@st.composite
def unsigned_entries(draw: st.DrawFn) -> bytes:
    """The unsigned part of an entry with any fields and as many links as it says, also where none belong."""
    links = draw(st.lists(HASHES, max_size=2))
    tag = draw(st.sampled_from([b"\x00", b"\x01"]))
    author = draw(st.binary(min_size=32, max_size=32))
    return b"".join([tag, author, draw(NUMBERS), draw(NUMBERS), *links, draw(NUMBERS), draw(HASHES)])


@given(unsigned_entries())
def test_no_entry_is_a_clump_and_32_bytes(unsigned: bytes) -> None:
    """Whatever an entry's unsigned part is, what stands before its last 32 bytes is refused as a clump."""
    assert not _accepts(unsigned[:-32])


@given(
    st.one_of(st.binary(max_size=300), unsigned_entries().map(lambda unsigned: unsigned[:-32])),
    st.binary(min_size=32, max_size=32),
)
@example(bytes(69), bytes(32))
def test_no_accepted_clump_begins_an_entry(clump: bytes, fresh: bytes) -> None:
    """For each clump that is accepted, the clump, 32 bytes and a signature never decode as an entry."""
    assume(_accepts(clump))
    with pytest.raises(InvalidEntry):
        Entry.decode(clump + fresh + bytes(64))


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=4, max_size=4))
def test_no_proof_of_a_culm_session_is_a_clump_and_32_bytes(parts: list[bytes]) -> None:
    """What a caller signs in culm:// does not begin with a clump that is accepted and end 32 bytes later."""
    signed: list[bytes] = []

    class Recorder(Identity):
        def sign(self, message: bytes) -> bytes:
            signed.append(message)
            return super().sign(message)

    Transcript(*parts).sign(Recorder(bytes(32)))
    assert not _accepts(signed[0][:-32])
