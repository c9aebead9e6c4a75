"""A library that reads and writes, turned into an iterator."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from culm.sealing.pump import pumped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.sealing.pump import Reader, Writer


def copy(source: Reader, target: Writer) -> None:
    """The simplest work."""
    while piece := source.read(8192):
        target.write(piece)
    target.flush()


def threads() -> int:
    """The threads of pumps that are alive."""
    return sum(thread.name == "culm-sealing" for thread in threading.enumerate())


@pytest.mark.parametrize("sizes", [[], [0, 0], [1, 0, 2], [700_000], [8192] * 100, [8191, 8193] * 40])
def test_everything_comes_once(sizes: list[int]) -> None:
    """What is written is what was read, in pieces that are bounded, and the thread is gone then."""
    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    found = list(pumped(pieces, copy))
    assert b"".join(pieces) == b"".join(found)
    assert all(0 < len(piece) < 2 * 256 * 1024 for piece in found)
    assert 0 == threads()


def test_the_source_belongs_to_the_caller() -> None:
    """The source is read on the caller's thread, and not before it is asked for."""
    seen: list[threading.Thread] = []

    def source() -> Iterator[bytes]:
        for _ in range(20):
            seen.append(threading.current_thread())
            yield bytes(100_000)

    pieces = pumped(source(), copy)
    assert [] == seen
    next(pieces)
    assert len(seen) < 5
    list(pieces)
    assert {threading.current_thread()} == set(seen)


def test_errors_of_the_source() -> None:
    """What the source raises is raised to the caller, and the work ends."""

    def source() -> Iterator[bytes]:
        yield b"x"
        raise KeyError("the disk")

    with pytest.raises(KeyError, match="the disk"):
        list(pumped(source(), copy))
    assert 0 == threads()


def test_errors_of_the_work() -> None:
    """What the work raises is raised to the caller, a panic of Rust included, which is no Exception."""

    class PanicException(BaseException):
        pass

    def work(source: Reader, target: Writer) -> None:
        target.write(source.read())
        raise PanicException("panicked")

    with pytest.raises(PanicException, match="panicked"):
        list(pumped([b"x"], work))
    with pytest.raises(ValueError, match="instead of panicked") as raised:
        list(pumped([b"x"], work, lambda error: ValueError(f"instead of {error}")))
    assert isinstance(raised.value.__cause__, PanicException)
    assert 0 == threads()


def test_an_iterator_that_is_dropped() -> None:
    """A caller that wants no more ends the thread, also where the work tries again after an error."""

    def stubborn(source: Reader, target: Writer) -> None:
        for _ in range(3):
            with suppress(Exception):
                copy(source, target)

    for work in (copy, stubborn):
        pieces = pumped([bytes(1_000_000)], work)
        assert next(pieces)
        pieces.close()  # type: ignore[attr-defined]
        assert 0 == threads()
