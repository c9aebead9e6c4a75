"""Record indexes for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from culm.store import View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.manifest import BLOCK_RECORDS, KEY_BYTES, Manifest, write_manifest
from culm.store.recordindex.writer import FileWriter, Keys
from culm.store.records.index import record_key

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import numpy.typing as npt

Item = tuple[int, bytes]


def keys_of(items: Iterable[Item]) -> npt.NDArray[np.uint8]:
    """The keys of records, ascending."""
    data = b"".join(sorted(record_key(timestamp, identity) for timestamp, identity in items))
    return np.frombuffer(data, np.uint8).reshape(-1, KEY_BYTES)


def write_index(
    folder: Path,
    keys: Keys,
    *,
    view: View = View.ENTRIES,
    block_records: int = BLOCK_RECORDS,
    files: int = 1,
) -> Manifest:
    """Write an index of ascending keys (n rows of 40 bytes) into an existing folder, in at most ``files`` files."""
    made = []
    for part in np.array_split(keys, files):
        writer = FileWriter(folder, block_records=block_records)
        try:
            writer.add(part)
            made.append(writer.finish())
        finally:
            writer.discard()
    return write_manifest(folder, (file for file in made if file is not None), view, block_records)


def make_index(folder: Path, items: Iterable[Item], **settings: Any) -> IndexStorage:
    """An index of records, in a folder that is made for it."""
    folder.mkdir(parents=True)
    write_index(folder, keys_of(items), **settings)
    return IndexStorage(folder)
