"""Stores and folders in memory: as real ones, and gone at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from culm import Identity, Store
from culm.testing import memory, memory_folder, memory_store

if TYPE_CHECKING:
    import pytest

LARGE = b"leaf" * 100_000


def test_a_store_in_memory() -> None:
    """It is a store with its payload files: a second connection reads what the first one wrote, while it is open."""
    me = Identity(bytes(32))
    with memory_store() as store:
        path = store.path
        entry = store.append(me, 1, [LARGE])
        with Store(path, read_only=True) as reader:
            stored = reader.get(entry.place)
            assert stored is not None
            assert LARGE == b"".join(reader.payload(stored))
    assert not path.parent.exists()


def test_where_folders_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in memory if there is room, and where other temporary files are if not, or if the user says where."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    monkeypatch.setattr(memory, "_ENOUGH", 1)
    with memory_folder() as folder:
        assert tmp_path == folder.parent

    monkeypatch.setattr(memory, "_ENOUGH", 1 << 62)
    with memory_folder() as folder:
        assert tmp_path != folder.parent

    monkeypatch.setattr(memory, "_ENOUGH", 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "other"))
    with memory_folder() as folder:
        assert tmp_path != folder.parent
