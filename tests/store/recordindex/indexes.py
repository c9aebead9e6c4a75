"""Record indexes for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from culm.store.recordindex import IndexStorage
from culm.store.recordindex.manifest import KEY_BYTES
from culm.store.recordindex.writer import write_index
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


def make_index(folder: Path, items: Iterable[Item], **settings: Any) -> IndexStorage:
    """An index of records, in a folder that is made for it."""
    folder.mkdir(parents=True)
    write_index(folder, keys_of(items), **settings)
    return IndexStorage(folder)
