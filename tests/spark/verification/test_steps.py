"""What the workers do, done here: the steps one after the other, in this process and without Spark."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import pytest

from culm.bamboo import MAX_U64, Entry, Identity, certificate_pool, path, yamf_hash
from culm.bamboo.verification import is_authentic
from culm.errors import ConfigError
from culm.spark.batches import pack
from culm.spark.batches import payload as states
from culm.spark.batches.payload import PayloadFrame
from culm.spark.reading import entries as reading
from culm.spark.reading.found import EntryRow
from culm.spark.reading.inputs import plan
from culm.spark.runtime import columns
from culm.spark.runtime.columns import Tiny, Unsigned
from culm.spark.verification import gather
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow, Reject
from culm.store import SQLiteStore
from culm.testing import LogBuilder, build_log, tampered
from tests.bamboo import oracle
from tests.models import FACTOR
from tests.quick import rounds
from tests.spark import local
from tests.spark.worse_logs import WorseLogs, vouched_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from culm.spark.verification.verdicts import Verdict
    from tests.spark.defects import DataSet


class AnyRow(NamedTuple):
    """A column of each type."""

    a: bytes
    b: int
    c: bool
    d: str | None
    e: Tiny
    f: Unsigned | None


NOBODY_HAS = (states.ABSENT, states.MISMATCH)


def rows_of(inputs: Iterable[str]) -> list[EntryRow]:
    """What is read from some inputs."""
    splits = plan(inputs)
    return list(columns.rows(EntryRow, (batch for split in splits for batch in reading.split_batches(split))))


@pytest.fixture(params=[1, 2, 12])
def block_bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of 2, 4 and 4096 numbers: the smaller they are, the more depends on how segments are put together."""
    bits: int = request.param
    for module in (pack, gather):
        monkeypatch.setattr(module, "BLOCK_BITS", bits)
    return bits


@pytest.mark.slow
@pytest.mark.usefixtures("block_bits")
class TestAnyBlocks:
    """The verdicts do not depend on how logs are cut."""

    @pytest.mark.parametrize("signatures", Signatures)
    def test_every_defect(self, data: DataSet, signatures: Signatures) -> None:
        """Of every entry of the data set the verdict, the reason, the payload and the copies are what its case says."""
        found = local.verdicts(rows_of(data.inputs), signatures)
        assert data.expected.keys() == found.keys()
        for key, expected in data.expected.items():
            row = found[key]
            place = (expected.entry.author.hex(), expected.entry.seq, row.reason)
            assert (expected.verdict, expected.payload) == (row.verdict, row.payload), place
            assert (expected.reason or "") in (row.reason or ""), place
            assert data.copies[key] == row.copies
            entry = expected.entry
            assert (entry.author, entry.payload_hash, entry.is_end) == (
                row.author,
                row.payload_hash,
                row.is_end,
            )
            assert (entry.log_id, entry.seq, entry.size) == (int(row.log_id), int(row.seqnum), int(row.size))

    @pytest.mark.parametrize("signatures", Signatures)
    @pytest.mark.parametrize("seed", range(FACTOR))
    def test_random_logs(self, tmp_path: Path, signatures: Signatures, seed: int) -> None:
        """For many logs with anything wrong in them the verdicts are the definition's, whatever else is in the inputs.

        So is what is certified.
        A payload is held if there is a good copy of it anywhere; what cannot be read is told with its place.
        """
        logs = WorseLogs(seed=seed, count=25)
        rows = rows_of(logs.write(tmp_path))
        found = local.verdicts(rows, signatures)
        assert found.keys() == {entry.hash for entry, _ in logs.items} | {entry.hash for entry in logs.forged}
        for entry in logs.forged:
            assert ("invalid", "bad signature") == (found[entry.hash].verdict, found[entry.hash].reason)
        for of_log in logs.by_log():
            lies = [entry.seq for entry, data in of_log.items() if data is not None and len(data) != entry.size]
            verdicts = oracle.verdicts(of_log, lies)
            certified = oracle.certified(
                (entry.seq for entry, state in verdicts.items() if state == oracle.VERIFIED),
                max(entry.seq for entry in of_log),
            )
            for entry, state in verdicts.items():
                assert found[entry.hash].certified == (state == oracle.VERIFIED and entry.seq in certified)
                row, data = found[entry.hash], of_log[entry]
                assert (state if state != oracle.WAITING else "unverified") == row.verdict, row
                known = None if data is None else states.HELD if len(data) == entry.size else states.SIZE_MISMATCH
                assert row.payload == known or (known is None and row.payload in NOBODY_HAS), row
        rejects = {row.source: (row.offset or 0, row.reason) for row in rows if row.reason is not None}
        assert rejects.keys() == logs.rejects.keys()
        for name, (begin, end, reason) in logs.rejects.items():
            assert begin <= rejects[name][0] <= end
            assert reason in rejects[name][1]

    def test_the_end_of_the_numbers(self) -> None:
        """Entries up to 2^64 - 1 are told apart and keep their numbers; the lowest fork is found."""
        log = LogBuilder(Identity(b"\x07" * 32), MAX_U64)
        link = yamf_hash(b"")
        top = [log.make(MAX_U64 - n, b"", backlink=link, lipmaalink=link) for n in range(9)]
        found = local.verdicts(local.found_rows(entry.encoded for entry in top))
        assert {MAX_U64 - n for n in range(9)} == {int(row.seqnum) for row in found.values()}
        assert {Decimal(MAX_U64)} == {row.log_id for row in found.values()}
        assert {"fork at 18446744073709551607"} == {row.reason for row in found.values()}


def test_a_mixture_of_two_histories(tmp_path: Path) -> None:
    """Paths of two histories that part at 5 lie in one log unnoticed, but not certified. With whole pools they show."""
    one, other = build_log(4), build_log(4)
    for seq in range(5, 15):
        one.append(b"one %d" % seq)
        other.append(b"other %d" % seq)
    paths = [one.entries[seq - 1] for seq in path(9, 1)] + [other.entries[seq - 1] for seq in path(6, 5)]
    pools = [one.entries[seq - 1] for seq in certificate_pool(9, 14)]
    pools += [other.entries[seq - 1] for seq in certificate_pool(6, 14)]
    for entries, verified, certified, forked in (
        (paths, [1, 4, 5, 6, 8, 9], [1, 4, 8, 9], False),
        (pools, [1, 4, 5, 6], [1, 4], True),
    ):
        with SQLiteStore(tmp_path / str(forked)) as store:
            store.add([(entry, None) for entry in entries])
            (log,) = store.logs()
            assert (log.entries, log.certified, log.forked_at is not None) == (len(verified), len(certified), forked)
        rows = sorted(local.verdicts(local.found_rows(entry.encoded for entry in entries)).values(), key=_seq)
        assert verified == [_seq(row) for row in rows if row.verdict == "verified"]
        assert certified == [_seq(row) for row in rows if row.certified]


def test_heads_stop_at_a_bad_signature() -> None:
    """What a badly signed head links to is checked itself; what an authentic entry links to is taken as signed."""
    log = build_log(6)
    rows = [entry.encoded for entry in log.entries[:5]] + [tampered(log.entries[5])]
    bad = local.verdicts(local.found_rows(rows), Signatures.HEADS)
    assert ["verified"] * 5 + ["invalid"] == [row.verdict for row in sorted(bad.values(), key=_seq)]

    # The author signs a link to an entry without a good signature of its own: heads take it, strict does not.
    forged = LogBuilder(log.identity)
    forged.append(b"one")
    forged.entries[0] = Entry.decode(tampered(forged.entries[0]))
    forged.append(b"two")
    rows = [entry.encoded for entry in forged.entries]
    for signatures, expected in ((Signatures.HEADS, "verified"), (Signatures.STRICT, "invalid")):
        found = sorted(local.verdicts(local.found_rows(rows), signatures).values(), key=_seq)
        assert expected == found[0].verdict


@pytest.mark.slow
@pytest.mark.usefixtures("block_bits")
def test_heads_do_not_depend_on_blocks() -> None:
    """An author links to an entry that they never signed, wherever that stands: it is verified, and so is the rest."""
    for at in range(1, 14):
        log = LogBuilder(Identity(bytes(32)))
        for seq in range(1, 15):
            log.append(b"payload")
            if seq == at:
                log.entries[-1] = Entry.decode(tampered(log.entries[-1]))
        found = local.verdicts(local.found_rows(entry.encoded for entry in log.entries), Signatures.HEADS)
        assert ["verified"] * 14 == [row.verdict for row in sorted(found.values(), key=_seq)], at


@pytest.mark.usefixtures("block_bits")
@pytest.mark.parametrize("seed", rounds(6))
def test_heads_are_what_their_definition_says(seed: int) -> None:
    """Of logs with forks, gaps and entries that nobody signed, authentic is what is signed, or linked to by that."""
    rng = random.Random(seed)
    log = LogBuilder(Identity(bytes(32)))
    for _ in range(40):
        log.append(b"payload")
        if rng.random() < 0.3:
            log.entries[-1] = Entry.decode(tampered(log.entries[-1]))
    entries = rng.sample(log.entries, 30)
    other = LogBuilder(log.identity)
    other.entries = log.entries[: rng.randrange(10, 30)]
    for number in range(8):
        other.append(b"other %d" % number)
    entries += other.entries[-8:]
    found = local.verdicts(local.found_rows(entry.encoded for entry in entries), Signatures.HEADS)
    authentic = vouched_for(entries, {entry for entry in entries if is_authentic(entry)})
    expected = oracle.verdicts(authentic, [])
    for entry in entries:
        verdict = expected.get(entry, oracle.INVALID)
        said = "unverified" if verdict == oracle.WAITING else verdict
        assert said == found[entry.hash].verdict, entry.seq


def _seq(row: Verdict) -> int:
    return int(row.seqnum)


def test_order_does_not_matter() -> None:
    """Rows in order make one pack a block, rows in any order the same packs of the same entries."""
    logs = [build_log(60, seed=seed) for seed in range(1, 6)]
    rows = [entry.encoded for log in logs for entry in log.entries]
    ordered = local.packed(local.found_rows(rows))
    random.Random(3).shuffle(rows)
    shuffled = local.packed(local.found_rows(rows))
    assert len(logs) == len(ordered) == len(shuffled)
    assert sorted(map(repr, ordered)) == sorted(map(repr, shuffled))


def test_every_row_is_packed_or_rejected() -> None:
    """Entries and frames are packed; bytes that are neither, and nothing at all, are rejects with their place."""
    entry = build_log(1).entries[0]
    frame = PayloadFrame(entry.author, 0, 1, yamf_hash(b""), 0).encode()
    rows: list[EntryRow] = [
        EntryRow("a", 1, entry.encoded, "held", None, None),
        EntryRow("b", 2, None, None, frame, None),
        EntryRow("c", 3, None, None, None, "why"),
        EntryRow("d", 4, b"\x02", None, None, None),
        EntryRow("e", 5, None, None, b"\x02", None),
        EntryRow("f", 6, None, None, None, None),
    ]
    found = local.packed(rows)
    rejected = {row.source: row.reason.split(":")[0] for row in found if isinstance(row, Reject)}
    assert {"c": "why", "d": "not an entry", "e": "not an entry", "f": "a row without an entry"} == rejected
    (packed,) = (row for row in found if isinstance(row, PackRow))
    records = pack.Pack.decode(packed.packed)
    assert {entry.encoded, frame} == {records.record(row) for row in range(len(records))}


def test_an_unknown_payload_state_is_a_wrong_call() -> None:
    """Rows that somebody made up must use the known states."""
    row = EntryRow("a", 1, build_log(1).entries[0].encoded, "complete", None, None)
    with pytest.raises(ConfigError, match="the column payload_state has 'complete'"):
        local.packed([row])


@pytest.mark.parametrize("count", [0, 1, 2000, 4001])
def test_rows_through_batches(count: int) -> None:
    """Any number of rows of any values comes out as it went in."""
    rows = [
        AnyRow(bytes([n % 256]), -(2**63) + n, n % 2 == 0, None if n % 3 else str(n), n % 7, n or None)
        for n in range(count)
    ]
    assert rows == list(columns.rows(AnyRow, columns.batches(AnyRow, rows)))
    types = "a:binary,b:bigint,c:boolean,d:string,e:tinyint,f:decimal(20,0)"
    assert f"struct<{types}>" == columns.struct(AnyRow).simpleString()


def test_batches_have_a_bounded_size() -> None:
    """Rows with large cells make batches of fewer rows, so that a worker's memory is bounded by bytes, too."""
    rows = [AnyRow(bytes(1 << 20), n, True, None, 0, None) for n in range(40)]
    sizes = [len(batch) for batch in columns.batches(AnyRow, rows)]
    assert [16, 16, 8] == sizes


def test_a_step_makes_rows_of_several_tables() -> None:
    """Rows and whole batches are told apart by their table; those of other tables are dropped."""
    mine, other = AnyRow(b"", 1, True, None, 0, None), Reject("a", 1, "why")
    whole = columns.Batch(AnyRow, columns.batch_of(AnyRow, [mine, mine]))
    found = list(columns.rows(AnyRow, columns.batches(AnyRow, [mine, other, whole])))
    assert [mine] * 3 == found
