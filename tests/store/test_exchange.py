"""Exporting and importing: what is imported is verified like anything else, whatever the file says."""

from __future__ import annotations

import io
import random
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import Entry, ForkProof, Identity
from culm.errors import (
    BadSignature,
    EncodingError,
    InvalidEntry,
    MalformedEntry,
    NotHeld,
    PayloadMismatch,
    PayloadSizeMismatch,
    Place,
    StoreDamaged,
)
from culm.store import ImportReport, PayloadState, SQLiteStore, State
from culm.store.exchange import Importer, export_bundle, export_plain
from culm.store.files import BundleWriter, FileCut
from culm.testing import LogBuilder, build_log, tampered
from tests.bamboo import oracle
from tests.models import FACTOR
from tests.store.below import database_of
from tests.store.model import look
from tests.store.test_files import Dripping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from culm.types import Log

LOG = build_log(12)
NAME = LOG.entries[0].log
LARGE = random.Random(3).randbytes(3 * 1024 * 1024 + 12_345)  # more than is taken as a whole, or committed at once


class UndoError(Exception):
    """Leaves a transaction so that nothing of it stays."""


@contextmanager
def undone(store: SQLiteStore) -> Iterator[None]:
    """A transaction that is undone in the end, so that one store serves for many files."""
    with suppress(UndoError), database_of(store).transaction():
        yield
        raise UndoError


@pytest.fixture
def target(tmp_path: Path) -> Iterator[SQLiteStore]:
    """A second store."""
    with SQLiteStore(tmp_path / "target") as store:
        yield store


@pytest.fixture
def large() -> LogBuilder:
    """A log with a large payload in its midst."""
    builder = LogBuilder(Identity(bytes(32)))
    for payload in (b"first", LARGE, b"third"):
        builder.append(payload)
    return builder


def run(store: SQLiteStore, data: bytes | BinaryIO) -> ImportReport:
    """Import a file."""
    return Importer(store).run(io.BytesIO(data) if isinstance(data, bytes) else data)


def names(store: SQLiteStore) -> list[Log]:
    """The logs of a store."""
    return [(summary.author, summary.log_id) for summary in store.logs()]


def bundled(store: SQLiteStore) -> bytes:
    """Everything a store holds as a bundle."""
    stream = io.BytesIO()
    export_bundle(store, names(store), stream)
    return stream.getvalue()


def plain(builder: LogBuilder) -> bytes:
    """A log as a plain file."""
    return b"".join(entry.encoded + builder.payloads[entry.hash] for entry in builder.entries)


def written(*frames: Callable[[BundleWriter], None]) -> bytes:
    """A bundle of these frames."""
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    for frame in frames:
        frame(writer)
    writer.close()
    return stream.getvalue()


def payload_frame(place: Place, payload: bytes) -> Callable[[BundleWriter], None]:
    """A frame with a payload."""
    return lambda writer: writer.payload(place, len(payload), [payload])


def kinds(report: ImportReport) -> list[tuple[Place | None, type]]:
    """What was refused: place and kind."""
    return [(place, type(error)) for place, error in report.refused]


# -- round trips -----------------------------------------------------------------------------------------------


def test_paths_that_come_later(target: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries count as waiting only if their path did not come with the rest of the file, however it is taken in."""
    monkeypatch.setattr("culm.store.exchange._BATCH_ENTRIES", 3)
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    for entry in [*LOG.entries[6:12], *LOG.entries[:6]]:
        writer.entry(entry)
    writer.close()
    report = run(target, stream.getvalue())

    assert (12, 0) == (report.added, report.waiting)
    assert 12 == len(list(target.entries(NAME)))


def test_plain_round_trip(store: SQLiteStore, target: SQLiteStore) -> None:
    """Verified entries with payloads go through a plain file; the others are named and left out."""
    store.add([*LOG.items()[:9], (LOG.entries[9], None), LOG.items()[11]])
    stream = io.BytesIO()
    left_out: list[Place] = []
    count = export_plain(store, [NAME], stream, left_out.append)
    report = run(target, stream.getvalue())

    assert (10, [LOG.entries[9].place]) == (count, left_out)
    assert (10, 0, 10, []) == (report.added, report.waiting, report.payloads, report.refused)
    assert [*LOG.entries[:9], LOG.entries[11]] == [stored.entry for stored in target.entries(NAME)]


def test_bundle_round_trip(store: SQLiteStore, target: SQLiteStore) -> None:
    """Everything that is held goes through a bundle: waiting entries, both branches of forks, entries alone."""
    forked, waiting, sparse = build_log(9, seed=2), build_log(9, seed=3), build_log(9, seed=4)
    other = forked.make(5, b"another branch")
    store.add([*forked.items(), (other, b"another branch")])
    store.add(waiting.items()[2:])
    store.add([item if at % 2 else (item[0], None) for at, item in enumerate(sparse.items())])
    report = run(target, bundled(store))

    assert names(store) == names(target)
    assert [look(store, log) for log in names(store)] == [look(target, log) for log in names(target)]
    assert (26, 7, []) == (report.added, report.waiting, report.refused)
    assert list(store.fork_proofs()) == list(target.fork_proofs())
    assert [] == target.verify().problems


def test_a_damaged_proof_is_left_out(store: SQLiteStore, target: SQLiteStore) -> None:
    """A fork proof that changed on the disk is named and not exported; who asks for no names gets an error."""
    forked = build_log(5, seed=2)
    store.add([*forked.items(), (forked.make(5, b"another branch"), None)])
    with database_of(store).transaction() as connection:
        (first,) = connection.execute("SELECT first FROM forks").fetchone()
        connection.execute("UPDATE forks SET first = ?", (first[:-1] + bytes([first[-1] ^ 1]),))
    told: list[tuple[Place, str]] = []
    stream = io.BytesIO()
    export_bundle(store, names(store), stream, lambda place, error: told.append((place, str(error))))

    ((place, reason),) = told
    assert (forked.entries[4].place, True) == (place, "the proof of the fork" in reason)
    assert [] == run(target, stream.getvalue()).refused
    with pytest.raises(StoreDamaged, match="the proof of the fork"):
        bundled(store)


@pytest.mark.slow
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_any_bundle_round_trip(data: st.DataObject) -> None:
    """Whatever a store holds of a broken log, another one holds the same after a bundle, in one go or in two."""
    items = data.draw(oracle.subsets(data.draw(oracle.broken_logs(20, 5))))
    bare = data.draw(st.sets(st.integers(0, 30), max_size=10))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        one, other = (stack.enter_context(SQLiteStore(Path(folder) / name)) for name in ("one", "other"))
        one.add([(entry, None if at in bare else payload) for at, (entry, payload) in enumerate(items)])
        for part in items[:3]:
            if data.draw(st.booleans()):
                other.add([part])
        run(other, bundled(one))
        log = (Identity((1).to_bytes(32, "big")).public, 0)
        held = {entry for entry, _ in items}

        assert oracle.verdicts(held) == {
            stored.entry: stored.state.name.lower() for stored in other.entries(log, states=State)
        }
        brought = {entry for entry, state in look(one, log).states.items() if state[1] is PayloadState.COMPLETE}
        assert brought <= {e for e, state in look(other, log).states.items() if state[1] is PayloadState.COMPLETE}
        assert [] == other.verify().problems


def test_importing_twice(store: SQLiteStore, target: SQLiteStore) -> None:
    """Importing a file again finds everything known and changes nothing."""
    store.add([*LOG.items(), (LOG.make(7, b"x"), None)])
    run(target, bundled(store))
    before = look(target, NAME)
    report = run(target, bundled(store))

    assert (0, [], []) == (report.added, report.refused, report.forks)
    assert before == look(target, NAME)


def test_exporting_what_is_not_held(store: SQLiteStore, target: SQLiteStore) -> None:
    """A bundle of nothing is a bundle; importing it does nothing."""
    stream = io.BytesIO()

    assert 0 == export_bundle(store, [NAME], stream)
    assert (0, []) == (run(target, stream.getvalue()).added, run(target, stream.getvalue()).refused)


@pytest.mark.parametrize("step", [pytest.param(1000, marks=pytest.mark.slow), 100_000])
def test_from_a_pipe(target: SQLiteStore, large: LogBuilder, step: int) -> None:
    """A file may come through a pipe that cannot be searched and gives what it has."""
    report = run(target, cast("BinaryIO", Dripping(plain(large), step)))

    assert (3, 3, []) == (report.added, report.payloads, report.refused)
    assert [] == target.verify().problems


def test_progress(store: SQLiteStore, target: SQLiteStore, large: LogBuilder) -> None:
    """The entries and payload bytes done are told on the way, up to the last."""
    store.add(large.items())
    for data in (plain(large), bundled(store)):
        told: list[tuple[int, int]] = []
        with undone(target):
            Importer(target, lambda *done, told=told: told.append(done)).run(io.BytesIO(data))

        assert sorted(told) == told
        assert (3, len(LARGE) + 10) == told[-1]


@pytest.mark.slow
def test_many_entries(store: SQLiteStore, target: SQLiteStore) -> None:
    """A file of more entries than one transaction takes is imported whole."""
    for at in range(2300):
        with database_of(store).transaction():
            store.append(Identity(bytes(32)), 0, [b"%d" % at])
    (log,) = names(store)
    for data in (bundled(store), export(store)):
        with undone(target):
            report = run(target, data)

            assert (2300, 2300, []) == (report.added, report.payloads, report.refused)
            assert [2300] == [offer.newest for offer in target.offers()]
            assert [] == target.missing(log, 2300)


def export(store: SQLiteStore) -> bytes:
    """Everything a store can put into a plain file."""
    stream = io.BytesIO()
    export_plain(store, names(store), stream, lambda _: None)
    return stream.getvalue()


# -- large payloads --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_large_payloads(store: SQLiteStore, target: SQLiteStore, large: LogBuilder) -> None:
    """Payloads larger than what is taken as a whole come through both formats."""
    store.add(large.items())
    for data in (bundled(store), export(store)):
        with undone(target):
            report = run(target, data)

            assert (3, 3, []) == (report.added, report.payloads, report.refused)
            assert look(store, large.entries[0].log) == look(target, large.entries[0].log)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bundle", "plain"])
@pytest.mark.parametrize("cut", [100, 1_100_000, 3_000_000])
def test_a_large_payload_cut_and_resumed(
    store: SQLiteStore, target: SQLiteStore, large: LogBuilder, kind: str, cut: int
) -> None:
    """Of a file cut within a large payload every byte is kept; importing the whole file goes on at that byte."""
    store.add(large.items())
    data = bundled(store) if kind == "bundle" else plain(large)
    at = data.index(LARGE[:100]) + cut
    report = run(target, data[:at])

    assert [(None, FileCut)] == kinds(report)
    assert f"byte {at}: " in str(report.refused[0][1])
    assert cut == target.payload_sink(large.entries[1].place).offset
    report = run(target, data)
    assert ([], look(store, large.entries[0].log)) == (report.refused, look(target, large.entries[0].log))


def test_a_large_payload_of_something_else(target: SQLiteStore, large: LogBuilder) -> None:
    """A large payload with one byte changed is refused by its place and nothing of it stays; the rest is imported."""
    data = bytearray(plain(large))
    data[data.index(LARGE[:100]) + 2_000_000] ^= 1
    report = run(target, bytes(data))

    assert [(large.entries[1].place, PayloadMismatch)] == kinds(report)
    assert (3, 2) == (report.added, report.payloads)
    assert PayloadState.ABSENT is target.get(large.entries[1].place).payload_state  # type: ignore[union-attr]
    assert [] == target.verify().problems


def test_a_forged_entry_with_a_large_payload(target: SQLiteStore, large: LogBuilder) -> None:
    """The payload of an entry that is refused is passed over, and what follows is imported."""
    forged = tampered(large.entries[1])
    data = large.entries[0].encoded + b"first" + forged + LARGE + large.entries[2].encoded + b"third"
    report = run(target, data)

    assert [(large.entries[1].place, BadSignature)] == kinds(report)
    assert (2, 2, 1) == (report.added, report.payloads, report.waiting)


# -- frames ----------------------------------------------------------------------------------------------------


def test_payloads_alone(target: SQLiteStore, large: LogBuilder) -> None:
    """A bundle may bring only the payloads of entries that are held."""
    target.add([(entry, None) for entry in large.entries])
    frames = [payload_frame(entry.place, large.payloads[entry.hash]) for entry in large.entries]
    report = run(target, written(*frames))

    assert (0, 3, []) == (report.added, report.payloads, report.refused)
    assert [] == target.missing(large.entries[0].log, 3)
    assert [] == target.verify().problems


def test_payloads_of_unknown_entries(target: SQLiteStore) -> None:
    """A payload whose entry is not held is refused by its place; the frames behind it are read."""
    entry, later = LOG.entries[:2]
    report = run(
        target,
        written(payload_frame(entry.place, b"x" * 100), lambda writer: writer.entry(later)),
    )

    assert [(entry.place, NotHeld)] == kinds(report)
    assert (1, 1) == (report.added, report.waiting)


@pytest.mark.parametrize("payload", [b"", b"x", b"x" * 20, b"x" * 100])
def test_wrong_payloads(target: SQLiteStore, payload: bytes) -> None:
    """A payload that is not its entry's is refused by its place, be it shorter, longer, or as long."""
    entry = LOG.entries[0]
    report = run(target, written(lambda writer: writer.entry(entry), payload_frame(entry.place, payload)))

    assert [(entry.place, PayloadMismatch)] == kinds(report)
    assert (1, 0) == (report.added, report.payloads)
    assert [(1, 1)] == target.missing(NAME, 1)
    assert [State.VERIFIED] == [stored.state for stored in target.entries(NAME, states=State)]


def test_a_lie_in_a_file(target: SQLiteStore) -> None:
    """A file can show that an author lied about a size."""
    entry = LOG.make(1, b"a payload", size=20)
    report = run(target, written(lambda writer: writer.entry(entry), payload_frame(entry.place, b"a payload")))

    assert [(entry.place, PayloadSizeMismatch)] == kinds(report)
    assert [State.INVALID] == [stored.state for stored in target.entries(NAME, states=State)]


def test_unwanted_payloads(target: SQLiteStore) -> None:
    """Payloads that are held or were forgotten are passed over."""
    target.add(LOG.items()[:2])
    target.forget(LOG.entries[1].place)
    before = look(target, NAME)
    report = run(target, written(*(payload_frame(entry.place, b"x" * 20) for entry in LOG.entries[:2])))

    assert (0, []) == (report.payloads, report.refused)
    assert before == look(target, NAME)


def test_proofs_alone(target: SQLiteStore) -> None:
    """A bundle may bring only a proof: its entries are kept and the log is forked."""
    proof = cast("ForkProof", ForkProof.of(LOG.entries[5], LOG.make(6, b"otherwise")))
    report = run(target, written(lambda writer: writer.proof(proof)))

    assert (2, [proof]) == (report.added, report.forks)
    assert 6 == next(target.logs()).forked_at


def test_forged_proofs(target: SQLiteStore) -> None:
    """A proof with a forged entry is refused by its place; the frames behind it are read."""
    forged = Entry.decode(tampered(LOG.entries[5]))
    proof = cast("ForkProof", ForkProof.of(LOG.entries[5], forged))
    report = run(target, written(lambda writer: writer.proof(proof), lambda writer: writer.entry(LOG.entries[0])))

    assert [(LOG.entries[5].place, BadSignature)] == kinds(report)
    assert (1, []) == (report.added, report.forks)


def test_forged_entries(target: SQLiteStore) -> None:
    """An entry that is not authentic is refused by its place, and the rest is imported."""
    data = b"".join(
        (tampered(entry) if entry.seq == 2 else entry.encoded) + LOG.payloads[entry.hash] for entry in LOG.entries
    )
    report = run(target, data)

    assert [(LOG.entries[1].place, BadSignature)] == kinds(report)
    assert (11, 11) == (report.added, report.payloads)
    assert [1, *range(4, 13)] == [stored.entry.seq for stored in target.entries(NAME)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"", EncodingError), (b"hello", MalformedEntry), (b"CULMBUN", FileCut), (b"\x00", FileCut)],
)
def test_other_files(target: SQLiteStore, data: bytes, kind: type) -> None:
    """What is no export file is refused as a whole with the byte where it shows."""
    report = run(target, data)

    assert [(None, kind)] == kinds(report)
    assert "byte " in str(report.refused[0][1])
    assert [] == names(target)


# -- damaged files ---------------------------------------------------------------------------------------------


def small_bundle() -> bytes:
    """A bundle with every kind of frame."""
    return written(
        lambda writer: writer.proof(cast("ForkProof", ForkProof.of(LOG.entries[4], LOG.make(5, b"otherwise")))),
        lambda writer: writer.entry(LOG.entries[0]),
        payload_frame(LOG.entries[0].place, LOG.payloads[LOG.entries[0].hash]),
        lambda writer: writer.entry(LOG.entries[1]),
        lambda writer: writer.entry(LOG.entries[3]),
        payload_frame(LOG.entries[1].place, LOG.payloads[LOG.entries[1].hash]),
    )


def check_damaged(target: SQLiteStore, data: bytes, genuine: dict[Entry, bytes]) -> ImportReport:
    """Import a damaged file and check what came of it; then undo that."""
    with undone(target):
        report = run(target, data)
        for log in names(target):
            view = look(target, log)
            assert set(view.states) <= set(genuine)
            assert all(genuine[entry].startswith(payload) for entry, payload in view.payloads.items())
        assert [] == target.verify().problems
        assert all(isinstance(error, (EncodingError, InvalidEntry, NotHeld)) for _, error in report.refused)
    return report


GENUINE = {entry: LOG.payloads[entry.hash] for entry in [*LOG.entries, LOG.make(5, b"otherwise")]}
PLAIN = plain(LOG)[: sum(len(entry.encoded) + 20 for entry in LOG.entries[:4])]
BUNDLE = small_bundle()
damaged = pytest.mark.parametrize("data", [PLAIN, BUNDLE], ids=["plain", "bundle"])


@pytest.mark.slow
@damaged
def test_every_truncation(target: SQLiteStore, data: bytes) -> None:
    """Of a cut file everything before the cut is imported, and the cut is reported, wherever it is."""
    added = []
    for length in range(1, len(data), 3):
        report = check_damaged(target, data[:length], GENUINE)
        added.append(report.added)
        if data is BUNDLE or report.refused:  # a plain file that is cut between two entries looks whole
            assert [(None, FileCut)] == kinds(report)

    assert sorted(added) == added


@pytest.mark.models
@pytest.mark.slow
@damaged
def test_every_byte_corrupted(target: SQLiteStore, data: bytes) -> None:
    """With any one byte changed the file brings what is genuine, or less, with documented errors only."""
    rng = random.Random(5)
    # Half of them, the first or the second of each two; all of them with ``make models``.
    for at in range(len(data)) if FACTOR > 1 else range(rng.randrange(2), len(data), 2):
        changed = bytearray(data)
        changed[at] ^= rng.choice([1, 2, 16, 128, 255])
        report = check_damaged(target, bytes(changed), GENUINE)

        assert len(report.refused) > 0


def test_an_entry_whose_payload_is_cut_is_kept(tmp_path: Path) -> None:
    """A plain file that ends within a small payload still brings the entry before the cut."""
    log = build_log(3, payload_size=50)
    data = b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries)
    with SQLiteStore(tmp_path / "store.db") as store:
        report = Importer(store).run(io.BytesIO(data[:-10]))
        assert [type(error).__name__ for _, error in report.refused] == ["FileCut"]
        assert (report.added, report.payloads) == (3, 2)
