"""Entries of a log that are sent without what their reader knows, put together many at a time.

A peer that sends a log from one number on need not send author, numbers and links: the number counts up, and each link
is the hash of an entry that came before. What is left of an entry is its tag, its payload's size and hash, and its
signature. To put one together and to hash it in Python takes longer than to check its signature in a batch. The native
core does it for a stretch of bytes in one call; here the entries only become objects.

It does so for the plain case alone: entries and payloads that are whole and right, all links known. Whatever is not
plain is left to the caller, whose own code decides what is wrong, or missing, or means something else. Without the core
nothing is plain.
"""

from collections.abc import Mapping
from typing import NamedTuple

from culm import native
from culm.bamboo.entry import Entry
from culm.bamboo.lipmaa import links_across
from culm.bamboo.varu64 import encode_varu64
from culm.bamboo.yamf import YAMF_PREFIX


class Framing(NamedTuple):
    """How a protocol sends an entry that does not end its log: ``lead``, size and hash of the payload, signature.

    The payload follows; with a ``mark``, behind that byte and the payload's size once more.
    """

    lead: int
    mark: int | None = None


Whole = tuple[Entry, bytes]
"""An entry and its payload."""
_PREFIX = len(YAMF_PREFIX)


def entries_linked(
    data: memoryview, framing: Framing, log: tuple[bytes, int], first: int, known: Mapping[int, bytes], most: int
) -> tuple[list[Whole], int]:
    """The plain entries at the beginning of ``data``, with their payloads; and how many bytes of it they take.

    ``first`` is the number of the first entry, ``known`` are hashes of earlier entries by number (see
    ``links_across``), ``most`` is how many entries may come. Their signatures are not checked, but the payloads are.
    """
    if native.core is None:
        return [], 0
    digests = [(seq, value[_PREFIX:]) for seq, value in known.items()]
    head = log[0] + encode_varu64(log[1])
    rows, size = native.core.entries_linked(data, framing, head, first, digests, most)
    return [(Entry(*row), payload) for row, payload in rows], size


def links_before(seq: int) -> list[int]:
    """The numbers below ``seq`` that it and later entries can link to: the hashes that ``entries_linked`` needs."""
    return links_across(seq - 1) if seq > 1 else []
