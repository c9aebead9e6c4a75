"""A log whose entries may be sent in runs or one by one, and what comes of both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from culm.testing.builders import LogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from culm.bamboo import Identity


def mixed_log(identity: Identity) -> LogBuilder:
    """Entries with small, empty and large payloads, and one that ends the log."""
    log = LogBuilder(identity)
    for number in range(60):
        log.append(b"x" * (number * 7919 % 90 if number % 9 else 0))
    log.append(b"large" * 30_000)
    for _ in range(20):
        log.append(b"behind")
    log.append(b"the end", is_end=True)
    return log


def with_and_without(
    monkeypatch: pytest.MonkeyPatch, runs: tuple[type, str], none: object, work: Callable[[], Any]
) -> tuple[Any, Any]:
    """What comes of ``work``, and what comes of it if the method ``runs`` always gives ``none``: each by itself."""
    together = work()
    with monkeypatch.context() as patched:
        patched.setattr(*runs, lambda *_: none)
        return together, work()
