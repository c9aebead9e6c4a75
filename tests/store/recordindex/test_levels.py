"""Record indexes whose blocks are chosen by hand: what is refused of table and fences, what is read, and by whom."""

from __future__ import annotations

import errno
import os
import sys
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import pytest

from culm.errors import StoreDamaged
from culm.store import View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.compare import compare
from culm.store.recordindex.manifest import IndexFile, read_manifest, write_manifest
from culm.store.recordindex.writer import FileWriter
from culm.store.records.index import record_key
from tests.store.recordindex.indexes import make_index

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS = [record_key(at, bytes([at, 1]) + bytes(30)) for at in range(40)]
Row = tuple[bytes, int]  # an entry of a table, or a fence: a key, and the number of records before it


class File(NamedTuple):
    """What a file of an index holds, where it is not as it ought to be."""

    keys: Sequence[bytes]
    table: Sequence[Row]
    fence: Row | None = None  # None: as the table begins
    checksum: int | None = None  # of the page; None: the right one
    bounds: tuple[bytes, bytes] | None = None  # what the manifest says of the keys; None: the right ones


def sum_of(keys: Sequence[bytes]) -> bytes:
    """The sum of the ids of keys, as an index has it."""
    return (sum(int.from_bytes(key[8:], "little") for key in keys) % 2**256).to_bytes(32, "little")


def write_by_hand(folder: Path, *files: File, block_records: int = 4) -> None:
    """Write an index of one page for each file, with right checksums and sums whatever else is wrong."""
    made = []
    for number, (keys, table, fence, checksum, bounds) in enumerate(files):
        ends = [start for _, start in table[1:]] + [len(keys)]
        page = b"".join(
            key
            + start.to_bytes(8, "little")
            + sum_of(keys[:start])
            + crc32(b"".join(keys[start:end])).to_bytes(4, "little")
            for (key, start), end in zip(table, ends, strict=True)
        )
        first, before = table[0] if fence is None else fence
        fences = (
            first + before.to_bytes(8, "little") + (crc32(page) if checksum is None else checksum).to_bytes(4, "little")
        )
        (folder / f"f{number}").write_bytes(b"".join(keys) + page + fences)
        low, high = (keys[0], keys[-1]) if bounds is None else bounds
        digest = blake2b(fences, digest_size=32).hexdigest()
        made.append(IndexFile(f"f{number}", len(keys), len(table), sum_of(keys).hex(), low.hex(), high.hex(), digest))
    write_manifest(folder, made, View.ENTRIES, block_records)


def rows(*starts: int) -> list[Row]:
    """The table of blocks that begin at these records of ``KEYS``."""
    return [(KEYS[start], start) for start in starts]


RIGHT = File(KEYS[:8], rows(0, 3, 5))


def test_blocks_by_hand(tmp_path: Path) -> None:
    """A right index of blocks of any length up to four times the usual is read; only what is asked for, and once."""
    write_by_hand(tmp_path, File(KEYS[:21], rows(0, 16, 18)), File(KEYS[21:24], [(KEYS[21], 0)]))
    with IndexStorage(tmp_path) as index:
        assert (index.bytes_read, index.blocks_read) == (2 * 52, 0)
        assert list(index.keys(17, 18)) == [KEYS[17]]
        assert (index.bytes_read, index.blocks_read) == (2 * 52 + 3 * 84 + 2 * 40, 1)
        assert list(index.keys(16, 18)) == KEYS[16:18]
        assert (index.bytes_read, index.blocks_read) == (2 * 52 + 3 * 84 + 2 * 40, 1)
        assert list(index.keys(0, 24)) == KEYS[:24]
        assert index.blocks_read == 4


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(RIGHT._replace(checksum=1), id="the checksum of the page"),
        pytest.param(RIGHT._replace(fence=(bytes(40), 0)), id="the key of the fence"),
        pytest.param(
            File(KEYS[:8], [(KEYS[0], 0), (KEYS[5], 3), (KEYS[4], 5), (KEYS[7], 7)]), id="keys that change places"
        ),
        pytest.param(File(KEYS[:8], [(KEYS[0], 0), (KEYS[3], 3), (KEYS[3], 5)]), id="a key twice"),
        pytest.param(File(KEYS[:8], [(KEYS[0], 0), (KEYS[3], 5), (KEYS[5], 3)]), id="starts that change places"),
        pytest.param(File(KEYS[:8], [(KEYS[0], 0), (KEYS[3], 3), (KEYS[5], 3)]), id="a block of nothing"),
        pytest.param(File(KEYS[:20], rows(0, 17)), id="a block that is too long"),
    ],
)
def test_wrong_tables(tmp_path: Path, wrong: File) -> None:
    """A page that contradicts its fence or itself is refused when it is read, even if its checksum is right."""
    write_by_hand(tmp_path, wrong)
    with IndexStorage(tmp_path) as index, pytest.raises(StoreDamaged, match="f0: the file is damaged"):
        index.key(0)


@pytest.mark.parametrize(
    "wrong",
    [
        [KEYS[0], KEYS[1], KEYS[1], KEYS[3], KEYS[4]],
        [KEYS[0], KEYS[2], KEYS[1], KEYS[3], KEYS[4]],
        [KEYS[0], KEYS[1], KEYS[2], KEYS[4], KEYS[4]],
        [KEYS[0], KEYS[1], KEYS[2], KEYS[5], KEYS[4]],
    ],
)
def test_wrong_blocks(tmp_path: Path, wrong: list[bytes]) -> None:
    """A block whose keys do not ascend up to the next block is refused, even if its checksum is right."""
    write_by_hand(tmp_path, File(wrong, [(KEYS[0], 0), (KEYS[4], 4)]))
    with IndexStorage(tmp_path) as index, pytest.raises(StoreDamaged, match="f0: the file is damaged"):
        index.ids(0, 1)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            [
                File(KEYS[5:9], [(KEYS[5], 0)], bounds=(KEYS[0], KEYS[1])),
                File(KEYS[2:4], [(KEYS[2], 0)]),
                File(KEYS[9:12], [(KEYS[9], 0)]),
            ],
            id="keys",
        ),
        pytest.param(
            [File(KEYS[:2], [(KEYS[0], 0)], fence=(KEYS[0], 3)), File(KEYS[2:9], [(KEYS[2], 0)])],
            id="numbers of records",
        ),
    ],
)
def test_files_that_overlap(tmp_path: Path, files: list[File]) -> None:
    """Fences whose keys or numbers of records do not ascend from file to file are refused on opening."""
    write_by_hand(tmp_path, *files)
    with pytest.raises(StoreDamaged, match="the keys of its files overlap"):
        IndexStorage(tmp_path)


def test_wrong_fences(tmp_path: Path) -> None:
    """A bit that is wrong in the fences is noticed on opening."""
    write_by_hand(tmp_path, RIGHT)
    path = tmp_path / "f0"
    data = path.read_bytes()
    for at in range(1, 53):
        path.write_bytes(data[:-at] + bytes([data[-at] ^ 4]) + data[len(data) - at + 1 :])
        with pytest.raises(StoreDamaged, match="f0: the file is damaged"):
            IndexStorage(tmp_path)


def test_the_middle_of_a_range(tmp_path: Path) -> None:
    """Of the places inside a range where a block begins, the one nearest to the middle; the lower one of two."""
    starts = [0, 1, 4, 5, 6, 10, 14, 16, 19]
    write_by_hand(
        tmp_path,
        File(KEYS[:14], rows(*starts[:6])),
        File(KEYS[14:24], [(KEYS[start], start - 14) for start in starts[6:]]),
    )
    with IndexStorage(tmp_path) as index:
        for low in range(24):
            for high in range(low + 1, 25):
                inside = [start for start in starts if low < start < high]
                middle = (low + high) // 2
                assert index.middle(low, high) == min(inside, key=lambda at: abs(at - middle), default=None)
                assert index.total(low, high).to_bytes(32, "little") == sum_of(KEYS[low:high])
        for at, key in enumerate(KEYS[:24]):
            assert (index.find(key), index.find(key[:8]), index.find(key + b"\0")) == (at, at, at + 1)
        assert index.find(b"") == 0


def test_comparing_smaller_with_larger_blocks(tmp_path: Path) -> None:
    """Whichever index has the larger blocks, they are cut there, and a range without a cut is compared key by key."""
    items = [(at, bytes([at, 1]) + bytes(30)) for at in range(40)]
    for name, starts, size in (("a", (0, 10, 20, 30), 4), ("b", (0, 20), 8), ("c", (0,), 16)):
        (tmp_path / name).mkdir()
        keys = KEYS if name != "c" else [*KEYS[:25], *KEYS[26:]]
        write_by_hand(tmp_path / name, File(keys, rows(*starts)), block_records=size)
    (tmp_path / "d").mkdir()
    write_by_hand(tmp_path / "d", File(KEYS[:39], rows(0, 20)), block_records=8)
    with (
        IndexStorage(tmp_path / "a") as a,
        IndexStorage(tmp_path / "b") as b,
        IndexStorage(tmp_path / "c") as c,
        IndexStorage(tmp_path / "d") as d,
    ):
        assert list(compare(a, b)) == []
        assert list(compare(b, c)) == [("a", *items[25])]
        assert list(compare(c, b)) == [("b", *items[25])]
        assert list(compare(a, d)) == [("a", *items[39])]
        assert (a.blocks_read, d.blocks_read) == (1, 1)
    (tmp_path / "e").mkdir()
    (tmp_path / "f").mkdir()
    write_by_hand(tmp_path / "e", File(KEYS[:9], rows(0)), block_records=4)
    write_by_hand(tmp_path / "f", File(KEYS[:10], rows(0)), block_records=8)
    with IndexStorage(tmp_path / "e") as e, IndexStorage(tmp_path / "f") as f:
        assert list(compare(e, f)) == [("b", *items[9])]


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="open files are listed in /proc")
def test_files_do_not_stay_open(tmp_path: Path) -> None:
    """An index that is closed, or could not be opened, has no file open."""

    def open_files() -> list[str]:
        links = Path("/proc/self/fd").iterdir()
        return sorted(name.name for link in links if (name := link.resolve()).parent == tmp_path)

    write_by_hand(tmp_path, RIGHT, File(KEYS[9:10], [(KEYS[9], 0)]))
    with IndexStorage(tmp_path):
        assert open_files() == ["f0", "f1"]
    assert open_files() == []
    (tmp_path / "f1").write_bytes(b"")
    with pytest.raises(StoreDamaged):
        IndexStorage(tmp_path)
    assert open_files() == []


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk fails, the error names the file and the reason."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    write_by_hand(tmp_path, RIGHT)
    with IndexStorage(tmp_path) as index:
        monkeypatch.setattr(os, "pread", fail)
        with pytest.raises(StoreDamaged, match="f0: the disk is broken"):
            index.key(0)
    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(StoreDamaged, match=r"index\.json: cannot be read: the disk is broken"):
        read_manifest(tmp_path)


def test_the_most_files_and_the_largest_blocks(tmp_path: Path) -> None:
    """An index may have 256 files, and blocks of 16,384 records."""
    keys = [record_key(at, bytes(32)) for at in range(256)]
    write_by_hand(tmp_path, *(File([key], [(key, 0)]) for key in keys), block_records=16384)
    assert [len(read_manifest(tmp_path).files), read_manifest(tmp_path).block_records] == [256, 16384]
    FileWriter(tmp_path, block_records=16384).discard()


@pytest.mark.parametrize("block", [256, 1024])
def test_where_large_blocks_begin(tmp_path: Path, block: int) -> None:
    """A block begins where the last two bytes of a key, as one number, are a multiple of the usual length."""
    items = [(at, blake2b(b"%d" % at, digest_size=32).digest()) for at in range(5000)]
    keys = [record_key(*item) for item in items]
    expected = [0]
    for at, key in enumerate(keys):
        if at and (int.from_bytes(key[38:], "big") % block == 0 or at - expected[-1] == 4 * block):
            expected.append(at)
    with make_index(tmp_path / "i", items, block_records=block) as index:
        file = index.manifest.files[0]
        data = (tmp_path / "i" / file.name).read_bytes()
    table = [data[at : at + 84] for at in range(40 * len(keys), 40 * len(keys) + 84 * file.blocks, 84)]
    assert [int.from_bytes(row[40:48], "little") for row in table] == expected
