"""Sets of all kinds, with frame limits chosen to hit the cut.

Specification: docs/specs/negentropy.md, "Records", "Fingerprints", "Splitting", "Frame limits", "Harness".
"""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.negentropy import ArrayStorage, Negentropy, SubRange, even, newest_listed, read_ranges
from culm.negentropy.codec import INFINITY, decode_varint, encode_varint
from culm.negentropy.harness import Harness
from tests.negentropy.sessions import Item, reconcile

if TYPE_CHECKING:
    from collections.abc import Iterable

PAIRS = int(os.environ.get("CULM_PAIRS", "400"))  # 20,000 make a long run
IDS = st.binary(min_size=32, max_size=32)
SMALL_IDS = st.sampled_from([bytes([first]) + bytes(30) + bytes([last]) for first in (0, 255) for last in range(20)])
ITEMS = st.sets(st.tuples(st.integers(0, 5) | st.integers(0, INFINITY - 1), SMALL_IDS | IDS), max_size=120)


def some_id(rng: random.Random) -> bytes:
    """An id."""
    return rng.randbytes(32)


def a_pair(rng: random.Random) -> tuple[list[Item], list[Item]]:
    """Two sets that share most records; one side lacks whole blocks of 32 and more of the other's.

    Most have such a block behind everything else, which is where the references' rule loses most.
    """
    losses: tuple[float, ...]
    if rng.random() < 0.7:
        spread, losses, tail = 10**9, (0.03, 0.05, 0.08), range(64, 200)
        shared = sorted((rng.randrange(spread), some_id(rng)) for _ in range(rng.randrange(500, 900)))
    else:
        spread, losses, tail = rng.choice((1, 50, 10**9)), (0.0, 0.03), range(32, 100)
        shared = sorted((rng.randrange(spread), some_id(rng)) for _ in range(rng.randrange(100, 900)))
    loss = rng.choice(losses)
    ours = [item for item in shared if rng.random() >= loss]
    theirs = [item for item in shared if rng.random() >= loss / 2]
    if rng.random() < 0.8:
        ours += [(spread + number, some_id(rng)) for number in range(rng.choice(tail))]
    else:
        side, at = rng.choice((ours, theirs)), rng.randrange(80)
        del side[at : at + rng.randrange(32, 120)]
    return sorted(ours), sorted(theirs)


def true_difference(ours: list[Item], theirs: list[Item]) -> tuple[set[bytes], set[bytes]]:
    """What each side has alone."""
    our_ids, their_ids = {identity for _, identity in ours}, {identity for _, identity in theirs}
    return our_ids - their_ids, their_ids - our_ids


def limits_that_cut(rng: random.Random, ours: list[Item], theirs: list[Item]) -> tuple[int, int]:
    """Limits just below what the longest messages of either side need; the responder's first, then the other's."""
    _, messages = reconcile(ours, theirs)
    server = max(4096, max(map(len, messages[1::2])) + 200 - rng.randrange(30))
    _, messages = reconcile(ours, theirs, (0, server))
    return max(4096, max(map(len, messages[0::2])) + 200 - rng.randrange(400)), server


@pytest.mark.slow
@pytest.mark.no_cover  # measuring would take several times as long
def test_no_difference_is_ever_missed() -> None:
    """Whatever the limits, every difference is found, once, and no message is longer than its limit.

    The limits lie where the cut happens. The references' rule loses differences in some of these very sessions, or the
    test would be too mild.
    """
    rng = random.Random(20)
    missed_by_reference = 0
    for _ in range(PAIRS):
        ours, theirs = a_pair(rng)
        limits = limits_that_cut(rng, ours, theirs)
        client, messages = reconcile(ours, theirs, limits)
        have, need = true_difference(ours, theirs)
        assert (set(client.have), set(client.need)) == (have, need)
        assert (len(client.have), len(client.need)) == (len(have), len(need))
        assert all(len(message) <= limits[index % 2] for index, message in enumerate(messages))
        reference, _ = reconcile(ours, theirs, limits, reference_bytes=True)
        missed_by_reference += (set(reference.have), set(reference.need)) != (have, need)
    assert missed_by_reference >= max(1, 20 * PAIRS // 20_000)


def sets_for_two_cuts() -> tuple[list[Item], list[Item]]:
    """Sets of the shape that ``test_two_cuts_at_one_place`` explains: 16 parts of 107, of which one side lacks one."""

    def records(times: Iterable[int]) -> list[Item]:
        return [(time, time.to_bytes(32, "big")) for time in times]

    times = [10 * number + 200 * (number // 428) for number in range(1712)]
    ends = [107 * part + 106 for part in range(15)]
    alone = {end - number for part, end in enumerate(ends) for number in range(4 if part < 11 else 3)}
    theirs = [time for number, time in enumerate(times[:1605]) if number not in alone]
    theirs += [times[end] + 1 + number for part, end in enumerate(ends) for number in range(2 + (part < 3))]
    return records(times), records(theirs)


def test_two_cuts_at_one_place() -> None:
    """With limits of 4,096 and 4,767 the references' rule loses 107 of 196 differences; here none is lost.

    Random sets never show this, because two cuts have to meet. The responder's message is one byte too long for the
    last of its ranges, in which it holds nothing: it closes with the fingerprint of the empty set. The initiator holds
    107 records there. Their split is what no longer fits into its next message, so by the references' rule that message
    closes with the fingerprint of what lies behind them, the empty set again. The responder finds them equal.
    """
    ours, theirs = sets_for_two_cuts()
    have, need = true_difference(ours, theirs)

    by_the_references, _ = reconcile(ours, theirs, (4096, 4767), reference_bytes=True)
    client, _ = reconcile(ours, theirs, (4096, 4767))

    lost = have - set(by_the_references.have)
    assert (len(have | need), len(lost)) == (196, 107)
    assert lost == {identity for _, identity in ours[1605:]}
    assert (set(client.have), set(client.need)) == (have, need)


@pytest.mark.parametrize(
    ("name", "lost"), [("NEGENTROPY_CPP_RUST_0_5_2_BYTES", 107), ("NEGENTROPY_REFERENCE_BYTES", 107), ("OTHER", 0)]
)
def test_the_harness_as_an_initiator_of_the_references(name: str, lost: int) -> None:
    """A variable names the rule of C++ and of Rust up to 0.5.2; the old name works, too.

    Such an initiator with a frame limit loses differences against Culm as well, because its own cut is wrong.
    """
    ours, theirs = sets_for_two_cuts()
    out = io.StringIO()
    harness = Harness(out, {"FRAMESIZELIMIT": "4096", name: "1"})
    for time, identity in ours:
        harness.run(f"item,{time},{identity.hex()}")
    server = Negentropy(ArrayStorage.of(theirs), 4767)
    harness.run("seal")
    harness.run("initiate")
    while (line := out.getvalue().split()[-1]) != "done":
        answer = server.reconcile(bytes.fromhex(line.removeprefix("msg,")))
        assert answer is not None
        harness.run("msg," + answer.hex())
    found = {line for line in out.getvalue().split() if line.startswith(("have", "need"))}
    assert len(found) == 196 - lost


@given(ITEMS, ITEMS)
def test_any_two_sets(ours: set[Item], theirs: set[Item]) -> None:
    """Any sets, equal timestamps and near ids included, reconcile to their difference, up to ids of two timestamps."""
    client, _ = reconcile(ours, theirs)
    have, need = true_difference(list(ours), list(theirs))
    # An id that both have, under different timestamps, may stand in different ranges.
    moved = {identity for _, identity in ours} & {identity for _, identity in theirs}
    assert have <= set(client.have) <= have | moved
    assert need <= set(client.need) <= need | moved


@given(ITEMS)
def test_storage_against_a_plain_list(items: set[Item]) -> None:
    """Order, positions and fingerprints of the array are those of a sorted list."""
    ordered = sorted(items)
    storage = ArrayStorage.of(items)
    assert [(storage.timestamp(at), storage.id(at)) for at in range(len(storage))] == ordered
    for at, (timestamp, identity) in enumerate(ordered):
        assert storage.position(timestamp, identity, 0) == at
        assert storage.position(timestamp, b"", 0) == next(i for i, item in enumerate(ordered) if item[0] == timestamp)
    assert storage.position(INFINITY, b"", 0) == len(ordered)
    for low, high in ((0, len(ordered)), (len(ordered) // 3, len(ordered) // 2)):
        total = sum(int.from_bytes(identity, "little") for _, identity in ordered[low:high]) % 2**256
        digest = sha256(total.to_bytes(32, "little") + encode_varint(high - low)).digest()
        assert storage.fingerprint(low, high) == digest[:16]


@given(st.integers(0, INFINITY))
def test_varints(number: int) -> None:
    """Numbers read as they were written."""
    data = encode_varint(number)
    assert decode_varint(data, 0) == (number, len(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Reading raises nothing but ``RemoteProtocolError``; answering neither."""
    try:
        list(read_ranges(b"\x61" + data))
        Negentropy(ArrayStorage.of([(1, bytes(32))])).reconcile(b"\x61" + data)
    except RemoteProtocolError:
        pass


@given(ITEMS, st.data())
def test_corrupted_messages(items: set[Item], data: st.DataObject) -> None:
    """A real message, cut or changed in a byte: an answer or a refusal, and the work stays bounded by its bytes."""
    storage = ArrayStorage.of(items)
    message = bytearray(Negentropy(storage).initiate())
    at = data.draw(st.integers(0, len(message) - 1))
    message[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(message)))
    for bad in (bytes(message), bytes(message[:cut])):
        try:
            answer = Negentropy(storage).reconcile(bad)
        except RemoteProtocolError:
            continue
        assert answer is not None
        assert len(answer) <= 1100 * (1 + len(bad)) + 40 * len(items)


def test_wrong_calls() -> None:
    """Frame limits that are too small, wrong items, a second start: our own mistakes."""
    storage = ArrayStorage.of([])
    with pytest.raises(ValueError, match="4096"):
        Negentropy(storage, 4095)
    session = Negentropy(storage)
    session.initiate()
    with pytest.raises(LocalProtocolError):
        session.initiate()
    wrong_numbers = [[(number, bytes(32))] for number in (-1, INFINITY, INFINITY + 1)]
    for wrong in ([(0, bytes(31))], *wrong_numbers, [(1, bytes(32)), (1, bytes(32))]):
        with pytest.raises(ValueError, match=r"."):
            ArrayStorage.of(wrong)
    with pytest.raises(ValueError, match="shape"):
        ArrayStorage(np.zeros(2, np.uint64), np.zeros((3, 32), np.uint8))


def test_the_harness_speaks_line_by_line() -> None:
    """Two harnesses, joined by their lines, find the difference; an error ends one with a line and code 1."""
    outs = io.StringIO(), io.StringIO()
    client, server = (Harness(out, {}) for out in outs)
    for number in range(50):
        line = f"item,{number},{bytes([number]).hex() * 32}"
        if number != 7:
            client.run(line)
        if number != 40:
            server.run(line)
    for harness in (client, server):
        harness.run("")
        harness.run("seal")
    client.run("initiate")
    lines = [""]
    while lines[-1] != "done":
        lines = outs[0].getvalue().split()
        if lines[-1] != "done":
            server.run(lines[-1])
            client.run(outs[1].getvalue().split()[-1])
    assert [line for line in lines if not line.startswith("msg")] == ["have," + "28" * 32, "need," + "07" * 32, "done"]
    result = subprocess.run(
        [sys.executable, "-m", "culm.negentropy.harness"],
        input="nonsense\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)


@given(ITEMS, st.integers(0, INFINITY), st.integers(0, INFINITY))
def test_sub_ranges_by_timestamp(items: set[Item], one: int, other: int) -> None:
    """The part of a set between two timestamps is a set of its own, and reconciles like one."""
    low, high = min(one, other), max(one, other)
    part = SubRange(ArrayStorage.of(items), low, high)
    expected = ArrayStorage.of(item for item in items if low <= item[0] < high)
    assert len(part) == len(expected)
    assert part.ids(0, len(part)) == expected.ids(0, len(expected))
    assert part.fingerprint(0, len(part)) == expected.fingerprint(0, len(expected))
    positions = [0, len(part) // 3, len(part)]
    for above, below in pairwise(positions):
        assert part.fingerprint(above, below) == expected.fingerprint(above, below)
    for timestamp, identity in items:
        assert part.position(timestamp, identity, 0) == expected.position(timestamp, identity, 0)
    for at in range(1, len(part)):
        assert (part.bound(at), part.timestamp(at), part.id(at)) == (
            expected.bound(at),
            expected.timestamp(at),
            expected.id(at),
        )
    assert Negentropy(part).initiate() == Negentropy(expected).initiate()


@pytest.mark.parametrize("limits", [(0, 0), (4096, 4096), (4096, 0)])
@given(a=ITEMS, b=ITEMS, seed=st.integers(0, 2**32))
def test_any_split_finds_every_difference(a: set[Item], b: set[Item], limits: tuple[int, int], seed: int) -> None:
    """However ranges are divided, by either side, the differences are those of the standard way."""
    rng = random.Random(seed)

    def anyhow(low: int, high: int, size: int) -> list[tuple[int, bool]]:
        assert 0 <= low < high <= size
        ends = sorted({high, *(rng.randrange(low + 1, high) for _ in range(rng.randrange(1, 9)))})
        return [(end, rng.random() < 0.3) for end in ends]

    standard, _ = reconcile(a, b)
    for splits in ((anyhow, even), (even, anyhow), (newest_listed, newest_listed)):
        session, messages = reconcile(a, b, limits, splits=splits)
        moved = {identity for _, identity in a} & {identity for _, identity in b}
        assert set(session.have) - moved == set(standard.have) - moved
        assert set(session.need) - moved == set(standard.need) - moved
        assert all(len(message) <= (limits[at % 2] or len(message)) for at, message in enumerate(messages))


def test_the_newest_are_found_at_once() -> None:
    """With the newest records listed, what was just added is known after the first round."""
    items = [(number, some_id(random.Random(number))) for number in range(5000)]
    for splits, rounds in ((even, even), 2), ((newest_listed, newest_listed), 1):
        session, messages = reconcile(items, items[:-10], splits=splits)
        assert len(messages) == 2 * rounds
        assert set(session.have) == {identity for _, identity in items[-10:]}


@pytest.mark.parametrize(
    "parts", [[], [(50, False)], [(20, False), (20, False), (50, False)], [(30, False), (20, True)], [(20, True)]]
)
def test_splits_that_make_no_sense(parts: list[tuple[int, bool]]) -> None:
    """A split into a single fingerprint, or one that does not cover the range, is our own mistake."""
    storage = ArrayStorage.of((number, some_id(random.Random(number))) for number in range(50))
    with pytest.raises(ValueError, match=r"does not cover it|a single fingerprint"):
        Negentropy(storage, split=lambda *_: parts).initiate()


def test_an_answer_costs_what_was_asked() -> None:
    """A message of a few bytes gets an answer within the frame limit, whatever it asks for, of any set."""
    storage = ArrayStorage.of((number, some_id(random.Random(number))) for number in range(20_000))
    everything = b"\x61\x00\x00\x02\x00"  # an empty list up to infinity: please send all of yours
    answer = Negentropy(storage, 4096).reconcile(everything)
    assert answer is not None
    assert len(answer) <= 4096
    twice = b"\x61" + b"".join(bytes((2, 0, 2, 0)) for _ in range(1000))  # one record's worth each
    answer = Negentropy(storage, 4096).reconcile(twice)
    assert answer is not None
    assert len(answer) <= 4096
