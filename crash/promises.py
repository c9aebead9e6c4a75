"""What ``crash.writer`` said it did, and whether it is so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from culm.errors import Place
from culm.store.schema import PayloadState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crash.invariants import Contents

# What it may make of a payload.
MOVES = frozenset(
    {
        (PayloadState.COMPLETE, PayloadState.FORGOTTEN),
        (PayloadState.FORGOTTEN, PayloadState.ABSENT),
        (PayloadState.FORGOTTEN, PayloadState.COMPLETE),
        (PayloadState.COMPLETE, PayloadState.ABSENT),  # forgotten and wanted again between two looks
    }
)


class Promises:
    """The last thing that was said of each entry."""

    def __init__(self) -> None:
        self._said: dict[Place, dict[str, Any]] = {}
        self._open: set[Place] = set()

    def __len__(self) -> int:
        return len(self._said)

    def take(self, lines: Iterable[str]) -> None:
        """Take the lines that one run printed."""
        begun: set[Place] = set()
        for line in lines:
            if not line.startswith("{"):
                continue
            said = json.loads(line)
            author, log_id, seq = said["place"]
            place = Place(bytes.fromhex(author), log_id, seq)
            if "begin" in said:
                begun.add(place)
            else:
                begun.discard(place)
                self._open.discard(place)
                known = self._said.get(place, {})
                self._said[place] = {**said, "hash": said.get("hash", known.get("hash"))}
        self._open |= begun

    def broken(self, contents: Contents) -> list[str]:
        """What is not as it was said, a line each."""
        by_place = {Place(*log, seq): held for (log, seq, _), held in contents.entries.items()}
        found = []
        for place, said in self._said.items():
            held = by_place.get(place)
            if held is None:
                found.append(f"said to be done and not there: {said}")
            elif said["hash"] is not None and not said["hash"].endswith(held.hash.hex()):
                found.append(f"another entry than was said: {said}")
            elif place not in self._open and not _as_said(said, held.payload_state, held.payload_held):
                found.append(f"{said}: the payload is {held.payload_state.name}, {held.payload_held} bytes")
        return found


def _as_said(said: dict[str, Any], state: PayloadState, held: int) -> bool:
    if said["done"] == "forget":
        return state is PayloadState.FORGOTTEN
    if said["done"] == "hold":
        return state is PayloadState.COMPLETE or (state is PayloadState.PARTIAL and held >= said["held"])
    return state is PayloadState.COMPLETE
