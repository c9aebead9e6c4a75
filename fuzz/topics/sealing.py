"""Sealed payloads and lists of readers, as a stranger writes them."""

from __future__ import annotations

import base64
from functools import cache
from itertools import pairwise

from culm import Identity, Place, author_text
from culm.errors import ConfigError, SealedPayload
from culm.sealing import Group, Keyring, is_sealed, opened
from culm.sealing.groups import MAX_LIST_BYTES, parse_list
from culm.sealing.header import MAX_HEADER_BYTES, MAX_READERS, Header, parse_header, read_start
from fuzz.target import Target

READER = Identity(bytes(range(32)))
_PLACE = Place(bytes(32), 5, 1)


@cache
def _keys() -> Keyring:
    return Keyring.of([READER])


def header(data: bytes) -> None:
    """A header is the same however its bytes come, and no reader is counted beyond the limit."""
    whole = _header([data])
    assert whole == _header([data[at : at + 7] for at in range(0, len(data), 7)])
    assert whole.readers <= MAX_READERS


def _header(pieces: list[bytes]) -> Header:
    start = read_start(pieces)
    assert len(start) <= MAX_HEADER_BYTES + max(map(len, pieces))
    return parse_header(start)


def payload(data: bytes) -> None:
    """A payload passes if it is not sealed; else it opens to something that is shorter, or is refused."""
    content = b"".join(opened([data], _keys()))
    assert content == b"".join(opened([data[:30], data[30:]], _keys()))
    assert (len(content) < len(data)) if is_sealed(data) else content == data


def group(data: bytes) -> None:
    """A list is written as it was read, and is never too long."""
    readers = parse_list(data, _PLACE)
    assert Group((bytes(32), 5), 1, readers).encode() == data
    assert len(data) <= MAX_LIST_BYTES
    assert all(first != second for first, second in pairwise(sorted(readers)))


# Made by age for READER: "hello, reader\n", the example of docs/specs/sealed.md.
_SEALED = base64.b64decode(
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNzaC1lZDI1NTE5IGxibXNvQSBsYW1Ba3Rmd0RLSFBo"
    "KzNRTTZUclFiR1o5cjVpbHEvQ3hoTDhaZDA2N2hjCjJRR3FvMUZJdUdLWGNIUTJFZW5tbnh3dHB6"
    "eVRiQlM2b0pXSTZ1WGI2M2cKLT4gZC1ncmVhc2UgLmJAIH1aK3UhMQpHb1c3ZmpyaEk0WWpYcTQK"
    "LS0tIEtnQ2ZUb2VlaDB0K1RsWFpCNnVRS0pWVXp1UlE2bFFadjhDZU82V051UHcK9zC+cKjE/0j7"
    "Ui+aZZSQWfPJFujI06mc6N1AM18cm2PMfbMG1JV67AI3qTl1uQ=="
)
_AGE_KEY = b"age134agkq03v5e9f4r269qpjk0ahxlnfndqhudvamcs6fgqzcsgxppsgvqxs3\n"
_LISTS = b"culm-group 1\n", b"culm-group 1\n" + author_text(READER.public).encode() + b"\n" + _AGE_KEY
TARGETS = (
    Target("sealing.header", header, (SealedPayload,), (_SEALED,), longest=2048, share=0.3),
    Target("sealing.payload", payload, (SealedPayload,), (_SEALED, b"plain"), longest=2048, share=0.5),
    Target("sealing.group", group, (ConfigError,), _LISTS, longest=2048, share=0.3),
)
