"""Which entries go into which item and message (docs/specs/bushbaby.md, "BAMBOO").

Towards the deployed peer: few messages, but at most 16,352 bytes of plaintext in each where that can be, and never an
empty payload at the end of an item, which crashes it. An entry with an empty payload is therefore joined with the entry
that follows; the last of a log, with an earlier one that it has to take a second time.

Between our own nodes, and in the document's dialect, only the size counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from culm.bushbaby.options import MAX_PLAINTEXT

BYTES_CULM = 64 * 1024
MOST_ENTRIES = 512  # Of one message, however small they are.
MAX_COVER_BYTES = 8 * 1024  # the largest payload that is sent a second time to stand behind empty ones
_HEADS = 16  # bytes of CBOR heads reckoned for a message, and at most for an item


class Sized(Protocol):
    """An entry to be sent: its bytes, and the size of its payload in bytes."""

    @property
    def encoded(self) -> bytes:
        """The entry's bytes."""

    @property
    def size(self) -> int:
        """The payload's bytes."""


_SizedT = TypeVar("_SizedT", bound=Sized)


@dataclass(frozen=True, slots=True)
class Style:
    """How messages for a peer are made up."""

    most_bytes: int
    join_empty: bool


DEPLOYED_STYLE = Style(MAX_PLAINTEXT, join_empty=True)
CULM_STYLE = Style(BYTES_CULM, join_empty=False)


def items_of(entries: Iterable[_SizedT], style: Style) -> tuple[list[list[_SizedT]], list[_SizedT]]:
    """The entries as items, in order; and those left over, which must not end an item.

    A long run of empty payloads is broken up by a small entry that was sent before and is sent once more, because an
    item cannot be divided among messages.
    """
    items: list[list[_SizedT]] = []
    held: list[_SizedT] = []
    size = 0
    cover: _SizedT | None = None
    for entry in entries:
        held.append(entry)
        size += len(entry.encoded)
        if entry.size or not style.join_empty:
            items.append(held)
            held, size = [], 0
            cover = entry if entry.size <= MAX_COVER_BYTES else cover
        elif cover is not None and size > style.most_bytes // 3:  # With a cover at most two thirds are full then.
            items.append([*held, cover])
            held, size = [], 0
    return items, held


def item_size(item: Sequence[Sized]) -> int:
    """Bytes of an item."""
    return sum(len(entry.encoded) + entry.size for entry in item)


def messages_of(items: Iterable[list[_SizedT]], style: Style) -> Iterator[list[list[_SizedT]]]:
    """The items as messages, in order. An item that is too large for a message's bounds gets one for itself."""
    message: list[list[_SizedT]] = []
    entries, size = 0, _HEADS
    for item in items:
        more = item_size(item) + _HEADS
        if message and (entries + len(item) > MOST_ENTRIES or size + more > style.most_bytes):
            yield message
            message, entries, size = [], 0, _HEADS
        message.append(item)
        entries += len(item)
        size += more
    if message:
        yield message
