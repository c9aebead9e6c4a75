"""Counting what the native core is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm import native

if TYPE_CHECKING:
    import pytest


def accepted_in_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches of signatures from now on, as they come; the core works as before."""
    core, sizes = native.core, []
    assert core is not None
    accepted = core.accepted

    def counted(entries: list[bytes]) -> bytes:
        sizes.append(len(entries))
        return accepted(entries)

    monkeypatch.setattr(core, "accepted", counted)
    return sizes
