"""Many ranges at once: the same bytes as range by range, with the native core and without."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from culm import native
from culm.errors import RemoteProtocolError
from culm.negentropy import ArrayStorage, Negentropy, SubRange, batches, even, newest_listed, reconciler, sparing
from culm.negentropy.codec import encode_varint, read_ranges
from tests.negentropy import plainly
from tests.negentropy.sessions import reconcile

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.negentropy import Split

    Item = tuple[int, bytes]


@pytest.fixture(params=["core", "python"], autouse=True)
def _path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with the native core and without."""
    if request.param == "python":
        monkeypatch.setattr(native, "core", None)
    elif native.core is None:
        pytest.skip("the native core is not built (make native)")


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches even where they do not pay."""
    monkeypatch.setattr(reconciler, "_LEAST_BATCH", 1)
    monkeypatch.setattr(batches, "_LEAST_RANGES", 1)


def sets(rng: random.Random, size: int, differences: int) -> tuple[list[Item], list[Item]]:
    """Two sets of records: spread over time, crowded at few times, at one time with ids that begin alike, or wide."""
    spread = rng.choice((1, 40, 10**6, 2**63))
    start = b"" if rng.random() < 0.7 else bytes(rng.randrange(1, 20))
    items = list({(rng.randrange(spread), start + rng.randbytes(32 - len(start))) for _ in range(size)})
    cut = rng.randrange(differences + 1)
    if rng.random() < 0.3:
        items.sort()
    return sorted(items[cut:]), sorted(items[: len(items) - differences + cut])


def parts_of(split: Split, size: int, *, begins: bool) -> Callable[[int], int]:
    """How a side divides so many records, as the specification says it."""
    least = 2 if split is sparing and begins else 32

    def parts(count: int) -> int:
        if count < least:
            return 0
        return len(split(0, count, size))

    return parts


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("split", [even, sparing])
@example(seed=30780)  # an empty range that does not fit into the frame any more
@given(seed=st.integers(0, 2**32))
def test_the_same_bytes_as_the_plain_way(split: Split, seed: int) -> None:
    """Each message of a session, of any sets and limits, is what the plain way makes; the differences are right."""
    rng = random.Random(seed)
    size = rng.choice((0, 3, 40, 300, 1500))
    ours, theirs = sets(rng, size, rng.choice((0, size // 50, size // 5, size)))
    limits = rng.choice((0, 4096, 9000)), rng.choice((0, 4096, 9000))
    client, messages = reconcile(ours, theirs, limits, splits=(split, split))
    sides = [
        (items, limit, parts_of(split, len(items), begins=begins), begins)
        for items, limit, begins in ((theirs, limits[1], False), (ours, limits[0], True))
    ]
    for number, message in enumerate(messages[:-1]):
        items, limit, parts, begins = sides[number % 2]
        assert plainly.answer(items, message, limit, parts, begins=begins) == messages[number + 1]
    assert set(client.have) == {identity for _, identity in ours} - {identity for _, identity in theirs}
    assert set(client.need) == {identity for _, identity in theirs} - {identity for _, identity in ours}


def outcome(session: Negentropy, message: bytes) -> object:
    """What a side answers and finds, or why it refuses."""
    try:
        answer = session.reconcile(message)
    except RemoteProtocolError as error:
        return str(error)
    return answer, set(session.have), set(session.need)


@pytest.mark.usefixtures("_always")
@given(seed=st.integers(0, 2**32))
def test_hostile_messages(seed: int) -> None:
    """A message with a few bytes changed, cut or doubled is refused or answered just as it is range by range."""
    rng = random.Random(seed)
    ours, theirs = sets(rng, 600, 60)
    _, messages = reconcile(ours, theirs, splits=(even, even))
    message = bytearray(rng.choice(messages))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(1, len(message)) if len(message) > 1 else 0
        change = rng.randrange(4)
        if change == 0:
            message[at : at + 1] = bytes([rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF))])
        elif change == 1:
            del message[at : at + rng.randrange(1, 60)]
        elif change == 2:
            message[at:at] = message[at : at + rng.randrange(1, 60)]
        else:
            message[at:at] = rng.choice(
                (b"\x01\0\0", b"\0\0\0", b"\xff" * 9 + b"\x7f\0\0", b"\x01\0\x02\0", b"\x80\x01")
            )
    storage = ArrayStorage.of(ours)
    for begins in (False, True):
        for limit in (0, 4096):
            sides = [Negentropy(of, limit) for of in (storage, SubRange(storage))]
            if begins:
                for side in sides:
                    side.initiate()
            many, one_by_one = (outcome(side, bytes(message)) for side in sides)
            if begins and limit and isinstance(many, tuple) and isinstance(one_by_one, tuple):
                # Lists behind a cut are compared in a batch already, so more may be known.
                assert many[0] == one_by_one[0]
                assert many[1] >= one_by_one[1]
                assert many[2] >= one_by_one[2]
            else:
                assert many == one_by_one


@pytest.mark.slow
def test_long_lists_and_a_frame_limit() -> None:
    """Ranges that ask for everything cost no more than the limit; without one the lists are complete."""
    items = [(number, number.to_bytes(4, "big") * 8) for number in range(30_000)]
    storage = ArrayStorage.of(items)
    # 1,000 ranges of 30 records, then 100 of 300: the others' lists are empty.
    for step, count in ((30, 1000), (300, 100)):
        message = b"\x61" + b"".join(encode_varint(step + 1) + b"\0\2\0" for _ in range(count)) + b"\0\0\2\0"
        every = Negentropy(storage).reconcile(message)
        assert every == plainly.answer(items, message, 0, lambda _: 0, begins=False)
        for limit in (4096, 60_000):
            cut = Negentropy(storage, limit).reconcile(message)
            assert cut == plainly.answer(items, message, limit, lambda _: 0, begins=False)
            assert cut is not None
            assert limit - 300 < len(cut) <= limit


def test_an_answer_takes_turns() -> None:
    """A large message is answered in many steps, so that others get their turn."""
    rng = random.Random(5)
    items = sorted((number, rng.randbytes(32)) for number in range(20_000))
    message = b"\x61" + b"".join(b"\x0b\0\1" + rng.randbytes(16) for _ in range(2000)) + b"\0\0\0"
    steps = sum(1 for _ in Negentropy(ArrayStorage.of(items)).reconcile_by_steps(message))
    assert steps >= 8


def test_fingerprints_of_any_length() -> None:
    """Ranges of 0 to 20,000 records, so counts of one to three digits; and sums that carry through all 256 bits."""
    items = [(number, b"\xff" * 24 + number.to_bytes(8, "big")) for number in range(20_000)]
    storage = ArrayStorage.of(items)
    pairs = [(0, 0), (0, 1), (5, 132), (5, 133), (7, 134), (1, 16_384), (1, 16_385), (0, 20_000), (19_999, 20_000)]
    low, high = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    expected = [plainly.fingerprint(items[begin:end]) for begin, end in pairs]
    assert b"".join(expected) == storage.fingerprints(low, high)
    assert [storage.fingerprint(begin, end) for begin, end in pairs] == expected


@pytest.mark.usefixtures("_always")
def test_fingerprints_that_agree() -> None:
    """As above, but in a message: nothing is answered if they agree, and 16 parts if one of them does not."""
    sizes = 0, 1, 127, 128, 129, 16_383, 16_384
    items = [(number, b"\xff" * 24 + number.to_bytes(8, "big")) for number in range(sum(sizes))]
    ranges, begin = [], 0
    for size in sizes:
        ranges.append(encode_varint(size + 1) + b"\0\1" + plainly.fingerprint(items[begin : begin + size]))
        begin += size
    session = Negentropy(ArrayStorage.of(items))
    assert b"\x61" == session.reconcile(b"\x61" + b"".join(ranges))
    wrong = b"\x61" + b"".join(ranges[:-1]) + bytes([ranges[-1][0]]) + ranges[-1][1:-1] + bytes([ranges[-1][-1] ^ 1])
    answer = session.reconcile(wrong)
    assert answer == plainly.answer(items, wrong, 0, lambda _: 16, begins=False)
    assert answer is not None
    assert 17 == sum(1 for _ in read_ranges(answer))  # a Skip in front


RECORD = (0).to_bytes(8), bytes(32), bytes(64)


def core() -> native.Core:
    """The core; the test is skipped without."""
    if native.core is None:
        pytest.skip("this run is without the core")
    return native.core


@pytest.mark.parametrize("buffers", [(b"", bytes(32), bytes(64)), (bytes(8), b"", bytes(64)), (*RECORD[:2], bytes(32))])
def test_the_core_refuses_buffers_of_different_sets(buffers: tuple[bytes, bytes, bytes]) -> None:
    """A set of a record, one part of which has none: no memory outside is read."""
    with pytest.raises(ValueError, match="outside of the set"):
        core().Ranges(buffers, b"\x61", (1, 99, 99), (0, b""), 0)


def test_the_core_refuses_what_is_outside() -> None:
    """Positions behind the set, rows that are no ranges, and more parts than records: no memory outside is read."""
    message = b"\x61\2\0\0\2\0\0"  # two Skips, the first up to behind the record
    with pytest.raises(ValueError, match="outside of the set"):
        core().Ranges(RECORD, message, (1, 99, 99), (0, b""), 2)
    ranges = core().Ranges(RECORD, message, (1, 99, 99), (0, b""), 0)
    assert (2, 7) == (len(ranges), ranges.end())
    assert [(0, b""), (1, b""), (2, b"")] == [ranges.bound(row) for row in (-1, 0, 1)]
    with pytest.raises(ValueError, match="outside of the ranges"):
        ranges.bound(2)
    for row, parts in ((-1, 0), (2, 0), (0, 2), (1, 1), (0, 2**64 - 1)):
        with pytest.raises(ValueError, match="outside of the set"):
            ranges.answers(np.array([row]).tobytes(), np.array([parts], np.uint64).tobytes(), b"\0", 0)
    nothing = core().Ranges(RECORD, message, (7, 99, 99), (0, b""), 0)
    assert 0 == len(nothing)
    with pytest.raises(ValueError, match="outside of the message"):
        nothing.end()


def test_the_core_reads_no_more_than_asked_for() -> None:
    """Reading ends with the most ranges, or where no more may begin; and in front of what the strict reader judges."""
    skip, endless, cut, backwards = b"\2\0\0", b"\0\0\0", b"\2\0\1" + bytes(15), b"\1\1\1\0\1\1\0\0"
    lengthened, unknown, long = b"\x80\2\0\0", b"\2\0\3", b"\2\0\2\x20" + bytes(32 * 32)
    wide = b"\2\x21" + bytes(33) + b"\0"
    digits = b"\x82" * 8 + b"\2\0\0"
    judged = endless, cut, lengthened, unknown, long, wide, digits, b"\2", b"\2\0"
    for rest, most in ((backwards, 5), *((rest, 4) for rest in judged)):
        message = b"\x61" + 4 * skip + rest
        for stop, limit, expected in ((99, 99, most), (99, 3, 3), (7, 99, 2)):
            assert expected == len(core().Ranges(RECORD, message, (1, stop, limit), (0, b""), 0)), rest
    assert 0 == len(core().Ranges(RECORD, b"\x61" + skip, (1, 9, 9), (2**64 - 2, b""), 0))


@pytest.mark.parametrize("size", [0, 1, 2, 31, 32, 100, 1000, 1984, 1985, 40_000, 140_000])
def test_first_messages_fit_into_every_frame(size: int) -> None:
    """A first message is within the least limit, even with long bounds; of ``sparing`` it has 2 to 64 parts.

    The limits are those of docs/specs/negentropy.md, "Frame limits".
    """
    items = [(2**63, bytes(28) + number.to_bytes(4, "big")) for number in range(size)]
    for split, most in (even, 997), (newest_listed, 1989), (sparing, 3841):
        message = Negentropy(ArrayStorage.of(items), 4096, split=split).initiate()
        assert len(message) <= most <= 4096 - 200, split
        assert size != 31 or split is sparing or len(message) == 997
    assert size < 2 or 1 < len(sparing(0, size, size)) <= 64


@given(st.integers(2, 2**40), st.data())
def test_sparing_divides_any_range(size: int, data: st.DataObject) -> None:
    """Two to 64 parts that cover the range, none of them empty."""
    count = data.draw(st.integers(2, size))
    ends = [end for end, as_list in sparing(0, count, size) if not as_list]
    assert 2 <= len(ends) <= 64
    assert [0, *ends] == sorted({0, *ends})
    assert ends[-1] == count


@pytest.mark.parametrize(
    ("size", "most"),
    [
        (500, 1.02),
        (4_000, 0.6),
        *(pytest.param(size, 1.02, marks=pytest.mark.slow) for size in (2_000, 20_000, 60_000)),
    ],
)
def test_sparing_costs_fewer_bytes_against_any_peer(size: int, most: float) -> None:
    """With one side or both: no more rounds than the references' way, never two percent more bytes, often far fewer."""
    rng = random.Random(size)
    items = [(rng.randrange(10**8), rng.randbytes(32)) for _ in range(size)]
    ours, theirs = items[10:], items[:-10]
    _, standard = reconcile(ours, theirs)
    for splits in ((sparing, even), (sparing, sparing)):
        session, messages = reconcile(ours, theirs, splits=splits)
        assert {*session.have, *session.need} == {identity for _, identity in (*items[:10], *items[-10:])}
        assert sum(map(len, messages)) <= most * sum(map(len, standard))
        assert len(messages) <= len(standard)
