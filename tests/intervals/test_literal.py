"""Answers to requests that were written by hand, byte for byte: a peer that knows the documents and not our encoder.

The log is the one of docs/specs/intervals.md, "A real log"; entries of its branches are made here, and what of them
travels is cut out of their Bamboo encoding by hand.

Specification: docs/specs/intervals.md, "Immediate payloads", "Fork proofs in responses", "Partial fork proofs",
"One branch in a response", "The end of a response", "Adjustments".
"""

from __future__ import annotations

import pytest

from culm.bamboo import Entry, Identity
from culm.errors import RemoteProtocolError
from culm.intervals import At, Doubted, FromGreatest, Interval, MetadataOnly, Regular
from culm.testing.builders import LogBuilder
from tests.intervals.pair import Side

KEY = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
LOG = KEY + "07"
GRANTS = bytes.fromhex("b0f90400 c0fa100000")  # What a Culm endpoint says first: 1,024 requests, 1 MiB of data.


def log_of(payloads: list[bytes], before: list[bytes] | None = None, *, ends: bool = False) -> LogBuilder:
    """The log of the specification's key with these payloads; the first ones may be those of another branch."""
    builder = LogBuilder(Identity(bytes(range(32))), 7)
    everything = [*(before or []), *payloads]
    for seq, payload in enumerate(everything, 1):
        builder.append(payload, is_end=ends and seq == len(everything))
    return builder


def payloads(count: int, letter: str = "a") -> list[bytes]:
    """Payloads of ten bytes."""
    return [f"{letter}{seq:09d}".encode() for seq in range(1, count + 1)]


class Literal:
    """An endpoint under test that holds logs, and what it answers to bytes."""

    def __init__(self, *logs: LogBuilder) -> None:
        self.side = Side()
        self.side.store.looks_for_forks = len(logs) > 1
        for log in logs:
            for entry in log.entries:
                self.side.put(entry, log.payloads[entry.hash])
        self.said = b""
        assert self.gets("b00a c0fa0f4240") == GRANTS  # Credit from the peer: ten requests, a million bytes.

    def gets(self, text: str) -> bytes:
        """What it answers."""
        list(self.side.connection.receive_data(bytes.fromhex(text), 0.0))
        while self.side.connection.respond(1 << 20):
            pass
        return self.side.connection.data_to_send()


def metadata(entry: Entry, *links: bytes | None) -> bytes:
    """An entry's metadata as it travels: its tag, the links given, size, payload hash, signature."""
    assert entry.size < 248
    tag = b"\x01" if entry.is_end else b"\x00"
    return tag + b"".join(links) + bytes([entry.size]) + entry.payload_hash + entry.signature  # type: ignore[arg-type]


def in_proof(entry: Entry) -> bytes:
    """An entry as it travels in a proof: with its number and both links."""
    back = entry.backlink or b""
    links = (entry.lipmaalink or back) + back
    tag = b"\x01" if entry.is_end else b"\x00"
    head = tag + bytes([entry.seq]) + links + bytes([entry.size])
    return head + entry.payload_hash + entry.signature


# -- immediate payloads (D24) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", ["06", "07"])
@pytest.mark.parametrize("offset", ["0b", "f903e8", "ffffffffffffffffff"])
@pytest.mark.parametrize("interval", ["80 {} 050000", "00 {} 0500 0800", "00 {} 0500 0400"])
def test_an_offset_beyond_the_size_ends_the_response(lazy: str, offset: str, interval: str) -> None:
    """From byte 11, 1000 or 2^64-1 of ten bytes nothing can be sent or counted: end with reason 11."""
    literal = Literal(log_of(payloads(8)))
    flags, rest = interval.split(" {} ")
    assert bytes.fromhex("ae") == literal.gets(lazy + flags + "00" + LOG + offset + rest)


def test_an_offset_at_the_size_is_a_payload_that_has_come() -> None:
    """From byte 10 of ten bytes on the payload counts as one item, and the response ends by itself."""
    literal = Literal(log_of(payloads(8)))
    assert bytes.fromhex("90 01 00 b001") == literal.gets("07 80 00" + LOG + "0a 05 00 00")


# -- forks ----------------------------------------------------------------------------------------------------------


def forked() -> tuple[LogBuilder, LogBuilder, Literal]:
    """Two branches of eight entries that part at 5, and an endpoint that holds both."""
    one = log_of(payloads(8))
    other = log_of(payloads(8, "b")[4:], payloads(4))
    return one, other, Literal(one, other)


@pytest.mark.parametrize("branch", [0, 1])
@pytest.mark.parametrize("position", [5, 6])
def test_behind_an_anchor_above_the_fork_comes_its_branch(branch: int, position: int) -> None:
    """A trust anchor at or above the fork rules out its proofs, so entries of the anchor's branch are sent."""
    *logs, literal = forked()
    log = logs[branch]
    anchor, (seven, eight) = log.entries[position - 1], log.entries[6:8]
    request = f"42 00 00 {LOG} {position:02x} {anchor.hash.hex()} 0700 0800"
    # Entry 7 has one link, to 6; entry 8 links to 4, too, and to 7, which travelled before it.
    items = metadata(seven, seven.backlink) + log.payloads[seven.hash]
    items += metadata(eight, eight.lipmaalink) + log.payloads[eight.hash]
    assert b"\x80\xf9" + len(items).to_bytes(2, "big") + items + b"\xb0\x01" == literal.gets(request)


@pytest.mark.parametrize("branch", [0, 1])
def test_a_lazy_answer_goes_along_the_branch_too(branch: int) -> None:
    """What is announced behind an anchor is the anchor's branch, up to its newest payload."""
    *logs, literal = forked()
    log = logs[branch]
    request = f"43 05 00 {LOG} 06 {log.entries[5].hash.hex()} 0700 00"
    assert bytes.fromhex("90 04 00") + log.entries[7].hash == literal.gets(request)


def test_down_to_a_fork_one_branch_comes_and_then_the_proof() -> None:
    """With local forks a descending response brings one branch down to the fork, and there the proof."""
    one, other = log_of(payloads(8)), log_of([b"another 5th"], payloads(4))
    literal = Literal(one, other)
    answer = literal.gets(f"22 00 00 {LOG} 0600 0100")
    six = one.entries[5]
    items = metadata(six, six.backlink) + one.payloads[six.hash]
    assert answer.startswith(b"\x80" + bytes([len(items)]) + items + b"\xa2")
    proof = answer[2 + len(items) + 1 :]
    assert in_proof(other.entries[4]) in proof


@pytest.mark.parametrize("flags", ["20", "22", "00", "02"])
def test_up_from_above_a_fork_comes_the_proof(flags: str) -> None:
    """Local or not, verified or not: where a proof is allowed, a request above the fork gets it."""
    _, _, literal = forked()
    answer = literal.gets(f"{flags} 00 00 {LOG} 0700 0800")
    assert answer[0] == 0xA2
    assert len(answer) == 1 + 2 * len(in_proof(log_of(payloads(8)).entries[4]))


@pytest.mark.parametrize("flags", ["42", "43", "40"])
def test_an_anchor_of_an_unknown_branch_ends_the_response(flags: str) -> None:
    """If nothing held leads to the anchor there is neither a proof nor an entry to send: end with reason 11."""
    _, _, literal = forked()
    request = f"{flags} 00 00 {LOG} 06 0040 {'77' * 64} 0700 0800"
    assert bytes.fromhex("ae") == literal.gets(request)


def test_two_links_to_one_number_are_proof_behind_an_anchor() -> None:
    """Case 2: both entries lead down to the anchor, so the fork above it is proved although its cause is not held."""
    one = log_of(payloads(8))
    other = log_of(payloads(8, "b")[4:], payloads(4))
    literal = Literal(one)
    literal.side.store.looks_for_forks = True
    six = other.entries[5]  # It links to the 5 of its branch, which is not held; entry 4 is on both branches.
    eight = other.entries[7]
    literal.side.put(eight, other.payloads[eight.hash])
    del six
    anchor = one.entries[3]
    answer = literal.gets(f"42 00 00 {LOG} 04 {anchor.hash.hex()} 0500 0800")
    assert b"\xa2" in answer
    assert in_proof(eight) in answer


# -- expected hashes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [True, False])
def test_a_wrong_hash_at_the_end_is_shown_where_it_lies(lazy: bool) -> None:
    """Local forks and a wrong hash of the last entry: first the items before that entry, then the partial proof."""
    log = log_of(payloads(12))
    literal = Literal(log)
    answer = literal.gets(f"{'23' if lazy else '22'} 02 00 {LOG} 0500 0c00 0040 {'66' * 64}")
    proof = b"\xa6" + in_proof(log.entries[11])
    if lazy:
        assert bytes.fromhex("90 0e 00") + log.entries[10].hash + proof == answer
    else:
        assert answer.endswith(log.payloads[log.entries[10].hash] + proof)


# -- the end of a log (D35) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        ("02 05 00 {} 0400 00", "ae"),  # (4<0>, 0...)
        ("02 00 00 {} 0400 0900", "ae"),
        ("02 80 00 {} 04 00 00", "ae"),
        ("03 80 00 {} 04 00 00", "ae"),
        ("03 05 00 {} 0400 00", "ae"),
        ("03 05 00 {} 0300 00", "90 02 00 {last} ae"),
        ("02 00 00 {} 0900 0100", "ae"),  # from above the end down: entry 9 cannot come
        ("02 e0 00 {} 04 02", "ae"),
    ],
)
def test_nothing_follows_the_end_of_a_log(request_bytes: str, answer: str) -> None:
    """A request for what lies behind the end of the log ends with reason 11, and does not wait for ever."""
    log = log_of(payloads(3), ends=True)
    literal = Literal(log)
    expected = answer.format(last=log.entries[2].hash.hex())
    assert bytes.fromhex(expected) == literal.gets(request_bytes.format(LOG))


def test_a_log_that_ends_later_ends_the_requests_behind_its_end() -> None:
    """A request that waits behind the newest entry ends when that turns out to be the last one."""
    log = log_of(payloads(4), ends=True)
    literal = Literal(log_of(payloads(3)))
    assert literal.gets(f"02 05 00 {LOG} 0500 00") == b""
    last = log.entries[3]
    literal.side.put(last, log.payloads[last.hash])
    assert bytes.fromhex("ae") == literal.gets("b000")


# -- positions of adjustments (D69), single offsets (D16) -------------------------------------------------------------


@pytest.mark.parametrize(("offset", "valid"), [("00", True), ("0a", True), ("0b", False), ("f903e8", False)])
def test_an_adjustment_beyond_a_payload_is_invalid(offset: str, valid: bool) -> None:
    """Ten bytes have the positions 0 to 10; one past that is in no stream."""
    literal = Literal(log_of(payloads(8)))
    literal.gets(f"03 05 00 {LOG} 0500 00")
    if valid:
        assert literal.gets(f"fc 00 01 06 {offset}").startswith(b"\xaa\xe0\x01")
    else:
        with pytest.raises(RemoteProtocolError, match="position of entry 6 that is not in the response"):
            literal.gets(f"fc 00 01 06 {offset}")


def test_a_single_offset_is_over_after_its_last_item() -> None:
    """``(...0)`` is resolved once, so nothing can follow its last item: the responder frees the id with reason 11."""
    log = log_of(payloads(1))
    literal = Literal(log)
    literal.side.store.drop_payload(log.entries[0])
    (first,) = log.entries
    literal.side.put(first, log.payloads[first.hash])
    item = metadata(first) + log.payloads[first.hash]
    assert b"\x80\x01\x8e" + item + b"\xae" == literal.gets(f"02 a0 00 {LOG} 00")


# -- hashes that show a fork ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interval", "answer"),
    [
        (MetadataOnly(5, ascending=True, dist=0), "90 01 00 {}"),
        (Regular(At(5, 0), FromGreatest(0)), "90 02 00 {}"),
        (Regular(FromGreatest(1), FromGreatest(0)), "90 04 05 00 {}"),  # start 4: its pool, 4 and 5
    ],
)
def test_the_hash_of_an_announcement_shows_a_fork(interval: Interval, answer: str) -> None:
    """A lazy answer with another hash than ours of entry 5 is noticed; one with our hash is not."""
    one, other = log_of(payloads(5)), log_of(payloads(5, "b")[4:], payloads(4))
    for log, doubts in ((one, []), (other, [Doubted((bytes.fromhex(KEY), 7), 5)])):
        literal = Literal(one)
        literal.side.connection.request(bytes.fromhex(KEY), 7, interval, lazy=True)
        data = bytes.fromhex(answer.format(log.entries[4].hash.hex()))
        events = list(literal.side.connection.receive_data(data, 0.0))
        assert doubts == [event for event in events if isinstance(event, Doubted)]


# -- announcements that are mirrored (D51) ---------------------------------------------------------------------------


def test_a_scattered_announcement_is_mirrored_at_once() -> None:
    """We ask lazily for 14 and up with its path 13, 4, 1, and the peer announces these five items. It asks the same.

    One message answers it, though entries 1, 4 and 13 lie apart: not one message for each of them.
    """
    peer = Literal(log := log_of(payloads(14)))
    key = bytes.fromhex(KEY), 7
    peer.side.connection.request(*key, Regular(At(14, 255), FromGreatest(0)), lazy=True)
    asked = "030500" + LOG + "0eff00"
    assert peer.gets("900500" + log.entries[13].hash.hex()) == bytes.fromhex(asked)
    assert peer.gets(asked) == bytes.fromhex("900500") + log.entries[13].hash


# -- credit ---------------------------------------------------------------------------------------------------------


def test_a_peer_that_grants_only_once_all_is_used_gets_the_payload() -> None:
    """Large payloads leave 32 KiB of the credit to news, and take them, too, once nothing has moved for a while."""
    literal = Literal(log_of([bytes(2_500_000)]))
    sent = len(literal.gets("02 00 00" + LOG + "0100 0100"))
    assert 950_000 < sent < 970_000  # of the million that the peer granted
    assert literal.gets("") == b""
    literal.side.connection.keep_alive()
    sent += len(literal.gets(""))
    assert 1_000_000 <= sent < 1_001_000  # The grant, and the heads of messages.
    sent += len(literal.gets("c0fa0f4240"))
    assert 2_000_000 <= sent < 2_002_000  # From now on the peer is known to grant late.
    assert literal.gets("c0fa0f4240").endswith(b"\xb0\x01")
    assert literal.side.connection.theirs.is_content


def test_a_keep_alive_leaves_the_reserve_to_news() -> None:
    """While no payload waits for the rest of the credit, silence says nothing about when the peer grants more."""
    literal = Literal(log_of([bytes(2_500_000)]))
    literal.side.connection.keep_alive()
    assert len(literal.gets("02 00 00" + LOG + "0100 0100")) < 970_000
