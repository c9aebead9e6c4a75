"""Record indexes: the same set as in memory, whatever its blocks; what comparing them reads; damage; memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.errors import ConfigError, StoreDamaged, StoreMissing
from culm.negentropy import ArrayStorage, Negentropy
from culm.negentropy.codec import INFINITY
from culm.store import View
from culm.store.recordindex import IndexStorage, storage
from culm.store.recordindex.compare import compare
from culm.store.recordindex.manifest import BLOCK, FENCE, IndexFile, read_manifest, write_manifest
from culm.store.recordindex.writer import FileWriter
from culm.store.records.index import record_key
from tests.store.recordindex.indexes import Item, keys_of, make_index, write_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from culm.negentropy import Storage

IDS = st.binary(min_size=32, max_size=32)
NEAR_IDS = st.sampled_from([bytes([first]) + bytes(30) + bytes([last]) for first in (0, 255) for last in range(20)])
TIMESTAMPS = st.integers(0, 3) | st.sampled_from([2**63 - 1, 2**63, INFINITY - 1]) | st.integers(0, INFINITY - 1)
ITEMS = st.sets(st.tuples(TIMESTAMPS, NEAR_IDS | IDS), max_size=100)
SHAPES = st.tuples(st.sampled_from([1, 2, 8, 32]), st.integers(1, 3))
FEW = settings(max_examples=60, deadline=None)


@contextmanager
def indexes(*sets: tuple[Iterable[Item], tuple[int, int]]) -> Iterator[list[IndexStorage]]:
    """Indexes of sets, each with its block size and number of files."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield [
            stack.enter_context(make_index(folder / str(number), items, block_records=block, files=files))
            for number, (items, (block, files)) in enumerate(sets)
        ]


def random_items(count: int, seed: int) -> set[Item]:
    """Records as of many logs: several of each timestamp."""
    rng = random.Random(seed)
    return {(rng.randrange(count // 4 + 1), rng.randbytes(32)) for _ in range(count)}


def session(ours: Storage, theirs: Storage) -> Negentropy:
    """A session to its end."""
    client, server = Negentropy(ours, 8192), Negentropy(theirs, 8192)
    message: bytes | None = client.initiate()
    while message is not None:
        message = client.reconcile(server.reconcile(message) or b"")
    return client


def assert_same(index: IndexStorage, items: set[Item], bounds: Iterable[Item], seed: int = 0) -> None:
    """Whatever a session can ask, the index answers as the array in memory does."""
    array, rng = ArrayStorage.of(items), random.Random(seed)
    size = len(array)
    assert len(index) == size
    assert index.ids(0, size) == array.ids(0, size)
    for timestamp, identity in bounds:
        for prefix in (identity, identity[:3], b""):
            at = array.position(timestamp, prefix, 0)
            assert index.position(timestamp, prefix, 0) == at
            assert index.position(timestamp, prefix, size) == size
    assert index.position(INFINITY, b"", 0) == size
    for at in range(size):
        assert (index.timestamp(at), index.id(at)) == (array.timestamp(at), array.id(at))
        if at:
            assert index.bound(at) == array.bound(at)
    positions = [0, *sorted(rng.randint(0, size) for _ in range(12)), size]
    for low, high in [*pairwise(positions), *zip(positions, positions[2:], strict=False)]:
        assert index.fingerprint(low, high) == array.fingerprint(low, high)
        assert index.ids(low, high) == array.ids(low, high)


# -- the set --------------------------------------------------------------------------------------------------------


@FEW
@given(ITEMS, st.sets(st.tuples(TIMESTAMPS, NEAR_IDS | IDS), max_size=20), SHAPES)
def test_an_index_is_the_set_in_memory(items: set[Item], others: set[Item], shape: tuple[int, int]) -> None:
    """Any set, however it is cut into blocks and files: positions, bounds, ids and fingerprints are the array's."""
    with indexes((items, shape)) as (index,):
        assert_same(index, items, items | others)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (16, 3), (256, 2)])
def test_an_index_of_many_pages(shape: tuple[int, int]) -> None:
    """The same with more blocks than a page holds, and more than are kept in memory."""
    items = random_items(3000, 1)
    with indexes((items, shape)) as (index,):
        assert_same(index, items, sorted(items)[::7])


def test_an_empty_index(tmp_path: Path) -> None:
    """An index of nothing is a set of nothing."""
    with make_index(tmp_path / "i", []) as index:
        assert_same(index, set(), [(0, bytes(32)), (INFINITY - 1, b"\xff" * 32)])
        assert session(index, ArrayStorage.of([(1, bytes(32))])).need == [bytes(32)]


@FEW
@given(ITEMS, ITEMS, ITEMS, SHAPES)
def test_sessions_find_the_difference(a: set[Item], b: set[Item], shared: set[Item], shape: tuple[int, int]) -> None:
    """A session between an index and a set in memory, either way round, finds what the two sets in memory would."""
    ours, theirs = a | shared, b | shared
    in_memory = session(ArrayStorage.of(ours), ArrayStorage.of(theirs))
    with indexes((ours, shape), (theirs, shape)) as (one, other):
        for client in (session(one, ArrayStorage.of(theirs)), session(ArrayStorage.of(ours), other)):
            assert (client.have, client.need) == (in_memory.have, in_memory.need)


# -- comparing ------------------------------------------------------------------------------------------------------


def by_ids(items: Iterable[Item]) -> dict[bytes, Item]:
    """Records of which no two have the same id."""
    return {identity: (timestamp, identity) for timestamp, identity in items}


@FEW
@given(ITEMS, ITEMS, ITEMS, SHAPES, SHAPES)
def test_comparing_finds_the_difference(
    a: set[Item], b: set[Item], shared: set[Item], one: tuple[int, int], other: tuple[int, int]
) -> None:
    """Two indexes, of whatever blocks and files each, differ by what their sets do, in the order of records.

    An id settles its timestamp, as the id of an entry does. Ids are hashes: those of other sets have another sum.
    """
    known = by_ids(a | b | shared)
    ours, theirs = (
        {(known[identity][0], blake2b(identity, digest_size=32).digest()) for _, identity in items}
        for items in (a | shared, b | shared)
    )
    with indexes((ours, one), (theirs, other)) as (first, second):
        found = [(difference.side, difference[1:]) for difference in compare(first, second)]
    expected = [("a", item) for item in ours - theirs] + [("b", item) for item in theirs - ours]
    assert sorted(expected, key=lambda pair: pair[1]) == found


def blocks_of(index: IndexStorage) -> set[tuple[bytes, ...]]:
    """The blocks of an index, each by the keys it has."""
    found = set()
    for number, fence in enumerate(index._fences):
        count = len(index._page(number).totals)
        found |= {tuple(_split(index._block(number, slot))) for slot in range(count)}
        assert fence.file < len(index.manifest.files)
    return found


def _split(keys: bytes) -> Iterator[bytes]:
    for at in range(0, len(keys), 40):
        yield keys[at : at + 40]


@pytest.mark.slow
@pytest.mark.parametrize(("lacking", "files"), [(0, (1, 3)), (1, (1, 1)), (1, (2, 5)), (40, (1, 1)), (40, (4, 3))])
def test_only_blocks_that_differ_are_read(tmp_path: Path, lacking: int, files: tuple[int, int]) -> None:
    """Comparing reads no block that the other index has, too: some dozen of thousands, where a few records differ.

    That holds although the records stand elsewhere in the other index's files, with others before them.
    """
    items = sorted(random_items(40_000, 3))
    dropped = random.Random(4).sample(range(len(items)), 2 * lacking)
    ours, theirs = (
        [item for at, item in enumerate(items) if at not in set(dropped[part])]
        for part in (slice(lacking), slice(lacking, None))
    )
    settings = [{"block_records": 8, "files": count} for count in files]
    with make_index(tmp_path / "a", ours, **settings[0]) as a, make_index(tmp_path / "b", theirs, **settings[1]) as b:
        found = list(compare(a, b))
        assert len(found) == 2 * lacking
        read = a.blocks_read, b.blocks_read
        if not lacking:
            assert read == (0, 0)
            return
        in_a, in_b = blocks_of(a), blocks_of(b)
        assert read[0] <= len(in_a - in_b)
        assert read[1] <= len(in_b - in_a)
        assert sum(read) <= 4 * lacking + 2 * sum(files)
        assert len(in_a) > 4000


def test_disjoint_and_nested_indexes(tmp_path: Path) -> None:
    """Where one index has nothing of a range, the other's blocks are read once each, and nothing else."""
    items = sorted(random_items(5000, 5))
    with (
        make_index(tmp_path / "all", items, block_records=16) as every,
        make_index(tmp_path / "none", []) as none,
        make_index(tmp_path / "half", items[:2500], block_records=16) as half,
    ):
        assert [difference[1:] for difference in compare(none, every)] == items
        assert every.blocks_read == every.manifest.files[0].blocks
        every.blocks_read = 0
        assert [(difference.side, *difference[1:]) for difference in compare(every, half)] == [
            ("a", *item) for item in items[2500:]
        ]
        assert half.blocks_read <= 2


def test_indexes_of_different_views(tmp_path: Path) -> None:
    """Entries and payloads are not compared with each other."""
    with make_index(tmp_path / "a", []) as a, make_index(tmp_path / "b", [], view=View.PAYLOADS) as b:
        assert b.view is View.PAYLOADS
        with pytest.raises(ConfigError, match="compare two of the same kind"):
            compare(a, b)


# -- writing --------------------------------------------------------------------------------------------------------


def test_the_format(tmp_path: Path) -> None:
    """The bytes are those that the documentation describes."""
    items = [(timestamp, blake2b(b"%d" % timestamp, digest_size=32).digest()) for timestamp in range(50)]
    items += [(50 + at, bytes(31) + b"\1") for at in range(70)]  # which never begin a block
    make_index(tmp_path / "i", items, block_records=8).close()
    manifest = json.loads((tmp_path / "i" / "index.json").read_text())
    (file,) = manifest["files"]
    data = (tmp_path / "i" / file["name"]).read_bytes()
    keys = [record_key(*item) for item in sorted(items)]
    assert data.startswith(b"".join(keys))
    starts = [0]
    for at, key in enumerate(keys):
        if at and (int.from_bytes(key[38:], "big") % 8 == 0 or at - starts[-1] == 4 * 8):
            starts.append(at)
    table = [BLOCK.unpack_from(data, 40 * len(keys) + BLOCK.size * number) for number in range(file["blocks"])]
    assert (starts, [keys[at] for at in starts]) == ([row[1] for row in table], [row[0] for row in table])
    sums = [sum(int.from_bytes(key[8:], "little") for key in keys[:at]) % 2**256 for at in (*starts, len(keys))]
    assert [total.to_bytes(32, "little") for total in sums] == [
        *(row[2] for row in table),
        bytes.fromhex(file["total"]),
    ]
    assert len(data) == 40 * len(keys) + BLOCK.size * len(starts) + FENCE.size
    assert (BLOCK.size, FENCE.size) == (84, 52)
    assert data[-FENCE.size :].startswith(keys[0])
    assert (file["first"], file["last"]) == (keys[0].hex(), keys[-1].hex())
    assert (manifest["records"], manifest["view"], manifest["block_records"]) == (120, "entries", 8)
    checksum = manifest.pop("checksum")
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    assert checksum == blake2b(text.encode(), digest_size=32).hexdigest()


@given(ITEMS, st.lists(st.integers(1, 40), max_size=8), st.sampled_from([1, 4, 32]))
@FEW
def test_batches_do_not_matter(items: set[Item], sizes: list[int], block: int) -> None:
    """However the keys come, some of them several times, the file is the same."""
    keys = keys_of(items)
    with tempfile.TemporaryDirectory() as folder:
        whole, pieces = FileWriter(Path(folder), "whole", block), FileWriter(Path(folder), "pieces", block)
        whole.add(keys)
        at = 0
        for size in [*sizes, len(keys)]:
            pieces.add(np.repeat(keys[at : at + size], 2, axis=0))
            pieces.add(keys[max(0, at + size - 1) : at + size])
            at = min(at + size, len(keys))
        files = whole.finish(), pieces.finish()
        contents = [(Path(folder) / file.name).read_bytes() for file in files if file is not None]
        assert len(list(Path(folder).iterdir())) == len(contents) == (2 if items else 0)
        assert contents[:1] == contents[1:]


def test_attempts_do_not_meet(tmp_path: Path) -> None:
    """Two writers of the same records, as when work is done twice, have files of their own; one may break off."""
    keys = keys_of(random_items(100, 6))
    first, second, third = (FileWriter(tmp_path, "records-00000", 4) for _ in range(3))
    for writer in (first, second, third):
        writer.add(keys)
    files = [first.finish(), second.finish()]
    third.discard()
    first.discard()
    assert all(files)
    assert {file.name for file in files if file} == {path.name for path in tmp_path.iterdir()}
    write_manifest(tmp_path, [file for file in files[1:] if file], View.ENTRIES, 4)
    with IndexStorage(tmp_path) as index:
        assert index.ids(0, len(index)) == keys[:, 8:].tobytes()


def test_wrong_calls(tmp_path: Path) -> None:
    """Keys that do not ascend, the infinite timestamp, files that overlap or are too many, odd block sizes."""
    keys = keys_of(random_items(10, 7))
    writer = FileWriter(tmp_path)
    writer.add(keys[5:])
    for wrong in (keys[:5], keys[::-1]):
        with pytest.raises(ValueError, match="have to ascend"):
            writer.add(wrong)
    for identity in (bytes(32), b"\xff" * 32):
        with pytest.raises(ValueError, match="infinity"):
            writer.add(keys_of([(2**64 - 1, identity)]))
    file = FileWriter(tmp_path)
    file.add(keys)
    made = file.finish()
    assert made is not None
    with pytest.raises(ValueError, match="overlap"):
        write_manifest(tmp_path, [made, made], View.ENTRIES, 4)
    with pytest.raises(ValueError, match="257 files"):
        write_manifest(tmp_path, [made] * 257, View.ENTRIES, 4)
    for number in (0, 3, 32768, True):
        with pytest.raises(ValueError, match="power of two"):
            FileWriter(tmp_path, block_records=number)
    assert not (tmp_path / "index.json").exists()


# -- damage ---------------------------------------------------------------------------------------------------------


def read_all(folder: Path) -> list[bytes]:
    """Everything that an index answers, small as it is."""
    with IndexStorage(folder) as index:
        size = len(index)
        fingerprints = [index.fingerprint(at, size) for at in range(size)]
        return [index.ids(0, size), *index.keys(0, size), *fingerprints]


@pytest.mark.slow
def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """A bit that is wrong, anywhere in an index: an error that names the file; never another answer."""
    folder = tmp_path / "i"
    make_index(folder, random_items(40, 8), block_records=4, files=2).close()
    right = read_all(folder)
    rng = random.Random(9)
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for at in range(0, len(data), 5):
            damaged = bytearray(data)
            damaged[at] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            try:
                found = read_all(folder)
            except StoreDamaged as error:
                found = [str(error).encode()]
            blank = path.name == "index.json" and data[at : at + 1].isspace()
            assert (blank and found == right) or str(path).encode() in found[0], at
        path.write_bytes(data)
    assert right == read_all(folder)


def test_files_that_are_cut_or_gone(tmp_path: Path) -> None:
    """A file that is cut, longer, missing or no file: refused on opening, without reading it."""
    folder = tmp_path / "i"
    make_index(folder, random_items(40, 8), block_records=4).close()
    path = folder / read_manifest(folder).files[0].name
    data = path.read_bytes()
    for wrong in (b"", data[:-1], data + b"\0"):
        path.write_bytes(wrong)
        with pytest.raises(StoreDamaged, match="but the manifest says"):
            IndexStorage(folder)
    path.unlink()
    with pytest.raises(StoreDamaged, match="No such file"):
        IndexStorage(folder)
    os.mkfifo(path)
    with pytest.raises(StoreDamaged, match="but the manifest says"):
        IndexStorage(folder)


@pytest.mark.parametrize("wrong", ["two keys change places", "the last key belongs behind the next block"])
def test_keys_that_do_not_ascend(tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block whose checksum fits and whose keys are out of order is refused: searching it would give wrong answers."""
    folder = tmp_path / "i"
    make_index(folder, random_items(60, 8), block_records=8).close()
    file = read_manifest(folder).files[0]
    path = folder / file.name
    data = path.read_bytes()
    (_, first, *_), (_, second, *_) = (BLOCK.unpack_from(data, file.table_at + at * BLOCK.size) for at in range(2))
    assert second - first > 3
    right = data[: (second - first) * 40]
    keys = [right[at : at + 40] for at in range(0, len(right), 40)]
    if wrong == "two keys change places":
        keys[1], keys[2] = keys[2], keys[1]
    else:
        keys[-1] = b"\xff" * 40
    damaged = b"".join(keys)
    path.write_bytes(damaged + data[len(damaged) :])
    monkeypatch.setattr(storage, "crc32", lambda data: crc32(right if data == damaged else data))
    with pytest.raises(StoreDamaged, match="damaged"):
        read_all(folder)


def test_a_file_that_is_cut_while_it_is_used(tmp_path: Path) -> None:
    """What happens to a file behind our back is an error, too, and no signal that ends the process."""
    folder = tmp_path / "i"
    with make_index(folder, random_items(400, 8), block_records=4) as index:
        os.truncate(folder / index.manifest.files[0].name, 100)
        with pytest.raises(StoreDamaged, match="damaged"):
            index.fingerprint(1, 399)


def test_an_index_that_is_replaced_while_it_is_used(tmp_path: Path) -> None:
    """Whoever has an index open goes on with it when its files are deleted."""
    folder = tmp_path / "i"
    items = random_items(400, 8)
    with make_index(folder, items, block_records=4) as index:
        for path in folder.iterdir():
            path.unlink()
        assert_same(index, items, items)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not a manifest"),
        (b"\xff\xfe", "not a manifest"),
        (b"[1]", "not a manifest"),
        (b"[" * 100_000, "not a manifest"),
        (b" " * 2_000_000, "longer than the"),
        (b"{}", "not the manifest of a record index"),
        (b'{"format": "culm record index", "version": 2}', "the index has version 2; this Culm reads 1"),
        (b'{"format": "culm record index", "version": 1}', "checksum is wrong"),
    ],
)
def test_foreign_manifests(tmp_path: Path, text: bytes, message: str) -> None:
    """A manifest that is none, or of another version, is refused at once with the reason."""
    (tmp_path / "index.json").write_bytes(text)
    with pytest.raises(StoreDamaged, match=message):
        IndexStorage(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"view": "nothing"},
        {"block_records": 3},
        {"block_records": "8"},
        {"records": 7},
        {"files": 7},
        {"files": [7]},
        {"files": [{}]},
        {"file": {"name": "../x"}},
        {"file": {"name": ["x"]}},
        {"file": {"records": -1}},
        {"file": {"records": 1.5}},
        {"file": {"blocks": 10**30}},
        {"file": {"first": "00"}},
        {"file": {"checksum": None}},
        {"file": {"more": 1}},
        {"file": {"last": "00" * 40}},
    ],
)
def test_manifests_that_make_no_sense(tmp_path: Path, change: dict[str, Any]) -> None:
    """A manifest with a right checksum and wrong contents is refused, too."""
    make_index(tmp_path / "i", random_items(20, 8)).close()
    path = tmp_path / "i" / "index.json"
    value = json.loads(path.read_text())
    del value["checksum"]
    for name, part in change.items():
        if name == "file":
            value["files"][0].update(part)
        else:
            value[name] = part
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    value["checksum"] = blake2b(text.encode(), digest_size=32).hexdigest()
    path.write_text(json.dumps(value))
    with pytest.raises(StoreDamaged, match=str(path)):
        IndexStorage(tmp_path / "i")


@pytest.mark.parametrize(("blocks", "records"), [(0, 1), (-1, 1), (2, 1), (0, 0)])
def test_blocks_that_cannot_hold_their_records(blocks: int, records: int) -> None:
    """A file has records, and each of its blocks has at least one of them."""
    value = {"name": "x", "total": "00" * 32, "first": "00" * 40, "last": "00" * 40, "checksum": "00" * 32}
    assert IndexFile.of({**value, "blocks": 1, "records": 1}).pages == 1
    with pytest.raises(ValueError, match=f"{blocks} blocks cannot hold {records} records"):
        IndexFile.of({**value, "blocks": blocks, "records": records})


def test_a_manifest_has_a_greatest_size(tmp_path: Path) -> None:
    """A manifest of a mebibyte is read, blanks behind it included, and one of a byte more is refused unread."""
    make_index(tmp_path / "i", random_items(10, 8), block_records=4).close()
    path = tmp_path / "i" / "index.json"
    path.write_bytes(path.read_bytes().ljust(1024 * 1024))
    IndexStorage(tmp_path / "i").close()
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(StoreDamaged, match="longer than the 1048576 bytes"):
        IndexStorage(tmp_path / "i")


def test_large_blocks(tmp_path: Path) -> None:
    """Blocks of 1,024 records begin where the last ten bits of a key say so, and so have about as many."""
    items = random_items(20_000, 9)
    make_index(tmp_path / "i", items, block_records=1024).close()
    (file,) = json.loads((tmp_path / "i" / "index.json").read_text())["files"]
    marked = sum(int.from_bytes(record_key(*item)[38:], "big") % 1024 == 0 for item in sorted(items)[1:])
    assert 10 < marked < 40
    assert marked < file["blocks"] < marked + 12  # beside those that would be longer than four times as many


def test_folders_that_are_no_index(tmp_path: Path) -> None:
    """Nothing there, a file, an empty folder: there is no index."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for name in ("nothing", "file", "folder"):
        with pytest.raises(StoreMissing, match="no record index"):
            IndexStorage(tmp_path / name)


# -- memory ---------------------------------------------------------------------------------------------------------

_CHILD = """
import sys
from culm.negentropy import Negentropy
from culm.store.recordindex.compare import compare
from culm.store.recordindex import IndexStorage, storage
with open("/proc/self/clear_refs", "w") as file:  # the parent's peak is not ours
    file.write("5")
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
a, b = map(IndexStorage, sys.argv[1:])
client, server = Negentropy(a, 100_000), Negentropy(b, 100_000)
message = client.initiate()
while message is not None:
    message = client.reconcile(server.reconcile(message))
print(len(client.have), len(client.need), sum(1 for _ in compare(a, b)), peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_memory_stays_small(tmp_path: Path) -> None:
    """A session over two indexes of 1,000,000 records, and a comparison, take a fraction of the sets' size."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 256, (1_000_000, 40), dtype=np.uint8)
    keys[:, :8] = np.sort(rng.integers(0, 2**18, len(keys))).astype(">u8").view(np.uint8).reshape(-1, 8)
    keys[:, 8:12] = np.arange(len(keys)).astype(">u4").view(np.uint8).reshape(-1, 4)  # several of a timestamp
    for name, part in (("a", keys[:-1000]), ("b", np.delete(keys, np.s_[::2000], axis=0))):
        (tmp_path / name).mkdir()
        write_index(tmp_path / name, part, files=3)
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "a"), str(tmp_path / "b")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    have, need, compared, grown = map(int, result.stdout.split())
    assert (have, need, compared) == (500, 1000, 1500)
    assert grown < 20_000, "kB, of sets of 40 MB each"
