"""The manifest of a record index: its files, and how many records they hold (docs/spark-fingerprint.md).

Files of an index may be written by many machines, and a run may die between two of them. The manifest is therefore
written last, and a folder without one is no index. It is JSON with a checksum of its own.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import Any, Self

from culm.errors import StoreDamaged, StoreMissing
from culm.negentropy.codec import ID_BYTES
from culm.negentropy.storage import MODULUS_MASK
from culm.store.values import View

MANIFEST = "index.json"
FORMAT, VERSION = "culm record index", 1
MAX_FILES = 256  # all files stay open while an index is used, and a process may open about a thousand
KEY_BYTES = 8 + ID_BYTES
ABOVE_ALL = b"\xff" * 8  # greater than every key, because the timestamp 2^64 - 1 stands for infinity

BLOCK_RECORDS = 128  # records of a block: 5 KB to read where two sets differ, and 1 % of the file for the table
MOST_BLOCK_RECORDS = 16384  # records: beyond that, looking at a single record would read megabytes
LONGEST = 4  # times ``block_records``: a block is cut there if no record happens to begin the next one

BLOCK = Struct("<40sQ32sI")
"""An entry of the table: the block's first key, the number of records in the file before it, the sum of their ids
modulo 2^256 (little-endian), CRC-32 of the block."""

FENCE = Struct("<40sQI")
"""A fence: the first key of a page, the number of records in the file before it, CRC-32 of the page."""

PAGE_BLOCKS = 128  # entries of the table in a page, so a page is 10 KB and leads to 16,384 records
PAGE_BYTES = PAGE_BLOCKS * BLOCK.size

_MOST_MANIFEST_BYTES = 1024 * 1024  # far above 256 files, so that a wrong file is refused before it fills the memory
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class IndexFile:
    """What the manifest says of a file: the number of its records and blocks.

    In hex: ``total`` is the sum of the ids, ``first`` and ``last`` are keys, ``checksum`` is BLAKE2b-256 of the fences.
    """

    name: str
    records: int
    blocks: int
    total: str
    first: str
    last: str
    checksum: str

    @property
    def table_at(self) -> int:
        """The byte at which the table begins."""
        return self.records * KEY_BYTES

    @property
    def fences_at(self) -> int:
        """The byte at which the fences begin."""
        return self.table_at + self.blocks * BLOCK.size

    @property
    def pages(self) -> int:
        """The number of pages of the table."""
        return -(-self.blocks // PAGE_BLOCKS)

    @property
    def size(self) -> int:
        """The length of the file in bytes."""
        return self.fences_at + self.pages * FENCE.size

    @classmethod
    def of(cls, value: dict[str, Any]) -> Self:
        """The file with these fields; ``ValueError``, ``TypeError`` or ``KeyError`` if they cannot be right."""
        if not _NAME.fullmatch(value["name"]):
            raise ValueError(f"{value['name'][:100]!r} is not the name of a file of an index")
        if {type(value["records"]), type(value["blocks"])} != {int} or not 0 < value["blocks"] <= value["records"]:
            raise ValueError(f"{value['name']}: {value['blocks']} blocks cannot hold {value['records']} records")
        file = cls(**value)
        sizes = {"total": ID_BYTES, "first": KEY_BYTES, "last": KEY_BYTES, "checksum": 32}
        for name, size in sizes.items():
            if len(bytes.fromhex(getattr(file, name))) != size:
                raise ValueError(f"{file.name}: {name!r} does not have {size} bytes")
        return file


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of an index, which together hold the records of a view."""

    view: View
    block_records: int
    files: tuple[IndexFile, ...]

    @property
    def records(self) -> int:
        """The number of records in all files."""
        return sum(file.records for file in self.files)

    @property
    def total(self) -> int:
        """The sum of all ids modulo 2^256."""
        return sum(number_of(file.total) for file in self.files) & MODULUS_MASK

    def encode(self) -> str:
        """The text of the manifest's file."""
        rest = {
            "format": FORMAT,
            "version": VERSION,
            "view": self.view.value,
            "block_records": self.block_records,
            "records": self.records,
            "total": hex_of(self.total),
            "files": [asdict(file) for file in self.files],
        }
        return json.dumps({**rest, "checksum": _checksum(rest)}, indent=1) + "\n"

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """The manifest that ``encode`` made this text of; ``StoreDamaged`` for any other text."""
        try:
            value = json.loads(text)
            if value.get("format") != FORMAT:
                raise StoreDamaged("not the manifest of a record index")
            if value.get("version") != VERSION:
                raise StoreDamaged(f"the index has version {str(value.get('version'))[:20]}; this Culm reads {VERSION}")
            if value.pop("checksum", None) != _checksum(value):
                raise StoreDamaged("the manifest is damaged: its checksum is wrong")
            files = tuple(map(IndexFile.of, value["files"]))
            _check_order(files)
            made = cls(View(value["view"]), checked_block_records(value["block_records"]), files)
            if (made.records, hex_of(made.total)) != (value["records"], value["total"]):
                raise StoreDamaged(
                    "the manifest contradicts itself: its files do not add up to its number and sum of records"
                )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StoreDamaged(f"not a manifest: {error}") from None
        return made


def _checksum(rest: dict[str, Any]) -> str:
    """The manifest's own checksum: BLAKE2b-256 of the rest of it, as JSON without spaces and with sorted names."""
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=32).hexdigest()


def checked_block_records(number: int) -> int:
    """The number itself if blocks can have about that many records (a power of two up to 16,384), or ``ValueError``."""
    if type(number) is not int or not 0 < number <= MOST_BLOCK_RECORDS or number & (number - 1):
        raise ValueError(f"blocks of {number!r} records; accepted: a power of two up to {MOST_BLOCK_RECORDS}")
    return number


def _check_order(files: Sequence[IndexFile]) -> None:
    if len(files) > MAX_FILES:
        raise ValueError(f"{len(files)} files in an index; accepted: at most {MAX_FILES}")
    bounds = [bound for file in files for bound in (file.first, file.last)]
    if bounds != sorted(bounds) or any(one.last == other.first for one, other in pairwise(files)):
        raise ValueError("the files' keys overlap")


def number_of(total: str) -> int:
    """A sum, from its hex digits in a manifest."""
    return int.from_bytes(bytes.fromhex(total), "little")


def hex_of(total: int) -> str:
    """A sum as hex digits, as manifests hold it."""
    return total.to_bytes(ID_BYTES, "little").hex()


def write_manifest(folder: Path, files: Iterable[IndexFile], view: View, block_records: int) -> Manifest:
    """Complete an index with the manifest of its files. ``ValueError`` if there are too many, or their keys overlap."""
    ordered = sorted(files, key=attrgetter("first"))
    _check_order(ordered)
    made = Manifest(view, block_records, tuple(ordered))
    temporary = folder / f".{MANIFEST}.part"
    temporary.write_text(made.encode(), encoding="utf-8")
    temporary.replace(folder / MANIFEST)
    return made


def is_index(folder: Path) -> bool:
    """Whether a path looks like a record index: a folder with a manifest. The manifest is not read."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index; ``StoreMissing`` if there is none, ``StoreDamaged`` if it cannot be right."""
    path = folder / MANIFEST
    if not path.is_file():  # a pipe is no manifest either: reading it would wait for ever
        raise StoreMissing(f"{folder}: there is no record index")
    try:
        with path.open("rb") as stream:
            text = stream.read(_MOST_MANIFEST_BYTES + 1)
    except OSError as error:
        raise StoreDamaged(f"{path}: cannot be read: {error.strerror}") from None
    if len(text) > _MOST_MANIFEST_BYTES:
        raise StoreDamaged(f"{path}: longer than the {_MOST_MANIFEST_BYTES} bytes that a manifest may have")
    try:
        return Manifest.decode(text)
    except StoreDamaged as error:
        raise StoreDamaged(f"{path}: {error}") from None
