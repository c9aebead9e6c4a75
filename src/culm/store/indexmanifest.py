"""The manifest of a record index: what the index holds, in which files (docs/spark-fingerprint.md).

JSON with a checksum of its own. It is written last: a folder without one is no index.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Self

from culm.errors import StoreDamaged, StoreMissing
from culm.negentropy.codec import ID_BYTES
from culm.negentropy.storage import MODULUS_MASK
from culm.store.views import View

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MANIFEST = "index.json"
FORMAT, VERSION = "culm record index", 1
MAX_FILES = 256  # all of them stay open while an index is used
KEY_BYTES = 8 + ID_BYTES
ABOVE_ALL = b"\xff" * 8  # no key is as high: the timestamp would be infinite

BLOCK_RECORDS = 128
MOST_BLOCK_RECORDS = 16384
LONGEST = 4  # times as many records as it should have: where a block is cut if no record begins the next

BLOCK = Struct("<40sQ32sI")
"""An entry of the table: the block's first key, how many records of the file stand before it, the sum of their ids
modulo 2^256 (little-endian), CRC-32 of the block."""

FENCE = Struct("<40sQI")
"""The first key of a page, how many records of the file stand before it, CRC-32 of the page."""

PAGE_BLOCKS = 128
PAGE_BYTES = PAGE_BLOCKS * BLOCK.size

_MOST_MANIFEST_BYTES = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class IndexFile:
    """What the manifest says of a file: how many records and blocks; in hex the ids' sum, the first and the last key.

    ``checksum`` is BLAKE2b-256 of the fences.
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
        """Where the table begins, in bytes."""
        return self.records * KEY_BYTES

    @property
    def fences_at(self) -> int:
        """Where the fences begin."""
        return self.table_at + self.blocks * BLOCK.size

    @property
    def pages(self) -> int:
        """How many pages the table has."""
        return -(-self.blocks // PAGE_BLOCKS)

    @property
    def size(self) -> int:
        """The length of the file."""
        return self.fences_at + self.pages * FENCE.size

    @classmethod
    def of(cls, value: dict[str, Any]) -> Self:
        """From its fields; ``ValueError``, ``TypeError`` or ``KeyError`` for what cannot be right."""
        if not _NAME.fullmatch(value["name"]):
            raise ValueError(f"a file named {value['name'][:100]!r}")
        if {type(value["records"]), type(value["blocks"])} != {int} or not 0 < value["blocks"] <= value["records"]:
            raise ValueError(f"{value['name']}: {value['blocks']} blocks of {value['records']} records")
        file = cls(**value)
        sizes = {"total": ID_BYTES, "first": KEY_BYTES, "last": KEY_BYTES, "checksum": 32}
        for name, size in sizes.items():
            if len(bytes.fromhex(getattr(file, name))) != size:
                raise ValueError(f"{file.name}: {name}")
        return file


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index holds: the records of a view. ``total`` is the sum of their ids modulo 2^256."""

    view: View
    block_records: int
    files: tuple[IndexFile, ...]

    @property
    def records(self) -> int:
        """How many records there are."""
        return sum(file.records for file in self.files)

    @property
    def total(self) -> int:
        """The sum of all ids modulo 2^256."""
        return sum(number_of(file.total) for file in self.files) & MODULUS_MASK

    def encode(self) -> str:
        """As the manifest's file has it."""
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
        """Read what ``encode`` wrote; ``StoreDamaged`` for anything else."""
        try:
            return cls._of(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StoreDamaged(f"not a manifest: {error}") from None

    @classmethod
    def _of(cls, value: dict[str, Any]) -> Self:
        if value.get("format") != FORMAT:
            raise StoreDamaged("not the manifest of a record index")
        if value.get("version") != VERSION:
            raise StoreDamaged(f"version {str(value.get('version'))[:20]}; this Culm reads version {VERSION}")
        if value.pop("checksum", None) != _checksum(value):
            raise StoreDamaged("the manifest is damaged: its checksum is wrong")
        files = tuple(map(IndexFile.of, value["files"]))
        _check_order(files)
        made = cls(View(value["view"]), checked_block_records(value["block_records"]), files)
        if (made.records, hex_of(made.total)) != (value["records"], value["total"]):
            raise StoreDamaged("the files do not add up")
        return made


def _checksum(rest: dict[str, Any]) -> str:
    """The manifest's own: BLAKE2b-256 of the rest of it, as JSON without spaces and with sorted names."""
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=32).hexdigest()


def checked_block_records(number: int) -> int:
    """The number, if blocks can have about so many records: a power of two up to 16,384; else ``ValueError``."""
    if type(number) is not int or not 0 < number <= MOST_BLOCK_RECORDS or number & (number - 1):
        raise ValueError(f"{number!r} records in a block: a power of two up to {MOST_BLOCK_RECORDS} is needed")
    return number


def _check_order(files: Sequence[IndexFile]) -> None:
    if len(files) > MAX_FILES:
        raise ValueError(f"{len(files)} files; up to {MAX_FILES} are allowed")
    bounds = [bound for file in files for bound in (file.first, file.last)]
    if bounds != sorted(bounds) or any(one.last == other.first for one, other in pairwise(files)):
        raise ValueError("the files' keys overlap")


def number_of(total: str) -> int:
    """The sum that the manifest has so."""
    return int.from_bytes(bytes.fromhex(total), "little")


def hex_of(total: int) -> str:
    """A sum as the manifest has it."""
    return total.to_bytes(ID_BYTES, "little").hex()


def write_manifest(folder: Path, files: Iterable[IndexFile], view: View, block_records: int) -> Manifest:
    """Complete an index with the manifest of its files. ``ValueError`` if they are too many, or their keys overlap."""
    ordered = sorted(files, key=attrgetter("first"))
    _check_order(ordered)
    made = Manifest(view, block_records, tuple(ordered))
    temporary = folder / f".{MANIFEST}.part"
    temporary.write_text(made.encode(), encoding="utf-8")
    temporary.replace(folder / MANIFEST)
    return made


def is_index(folder: Path) -> bool:
    """Whether a path seems to be a record index: a folder with a manifest."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index; ``StoreMissing`` if there is none, ``StoreDamaged`` if it is not right."""
    path = folder / MANIFEST
    if not path.is_file():  # nor a pipe, where reading would wait
        raise StoreMissing(f"{folder}: there is no record index")
    try:
        with path.open("rb") as stream:
            text = stream.read(_MOST_MANIFEST_BYTES + 1)
    except OSError as error:
        raise StoreDamaged(f"{path}: cannot be read: {error.strerror}") from None
    if len(text) > _MOST_MANIFEST_BYTES:
        raise StoreDamaged(f"{path}: too long for a manifest")
    try:
        return Manifest.decode(text)
    except StoreDamaged as error:
        raise StoreDamaged(f"{path}: {error}") from None
