"""Commands and options for sealed payloads: who can read them, and which keys open them.

What other commands need of it stands here, and imports the rest only when something is sealed: they must not start more
slowly because of it.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from culm.bamboo import Identity
from culm.node.home import Home
from culm.sealing.mark import FIRST_LINE, is_sealed
from culm.store import ReadableStore

if TYPE_CHECKING:
    from culm.sealing import Sealer


def sealer_for(store: ReadableStore, identity: Identity, arguments: argparse.Namespace) -> "Sealer | None":
    """What ``--for`` asks for; None if the payload stays open."""
    if not arguments.readers and not arguments.not_for_me:
        return None
    from culm.cli.sealing import keys  # noqa: PLC0415

    return keys.sealer(store, identity, arguments.readers or (), not_for_me=arguments.not_for_me)


def content(home: Home, payload: Iterator[bytes], key_files: Sequence[str]) -> Iterator[bytes]:
    """A payload as ``culm show`` writes it. A sealed one is opened with the home's identities and the keys in files."""
    start = next(payload, b"")
    while len(start) < len(FIRST_LINE) and (piece := next(payload, b"")):
        start += piece
    pieces = chain([start], payload)
    if not is_sealed(start):
        return pieces
    from culm.cli.sealing import keys  # noqa: PLC0415
    from culm.sealing import opened  # noqa: PLC0415

    return opened(pieces, keys.keyring(home, key_files))
