"""What the nodes hold, read from their stores: to choose what may be forgotten, and to compare them at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from culm.store import PayloadState, SQLiteStore, State

if TYPE_CHECKING:
    from pathlib import Path

    from culm.errors import Place

_WHOLE = (PayloadState.COMPLETE, PayloadState.FORGOTTEN)


class Held(NamedTuple):
    """An entry in a store: its hash, the size of its payload, and how much of that is held."""

    hash: bytes
    size: int
    payload: PayloadState


def holdings(store: Path) -> dict[Place, Held]:
    """All verified entries of a store."""
    with SQLiteStore(store, read_only=True) as opened:
        return {
            stored.entry.place: Held(stored.entry.hash, stored.entry.size, stored.payload_state)
            for log in opened.logs()
            for stored in opened.entries((log.author, log.log_id), states=(State.VERIFIED,))
        }


def differences(all_held: dict[str, dict[Place, Held]]) -> list[str]:
    """What keeps stores from holding the same: entries that one lacks, payloads it lacks and did not forget."""
    everything = {place: held.hash for of_node in all_held.values() for place, held in of_node.items()}
    found = []
    for name, of_node in all_held.items():
        lacking = everything.keys() - of_node.keys()
        other = [place for place, held in of_node.items() if held.hash != everything[place]]
        bare = [place for place, held in of_node.items() if held.payload not in _WHOLE]
        for count, what in (
            (len(lacking), "lacks {} entries"),
            (len(other), "holds {} other entries"),
            (len(bare), "lacks {} payloads"),
        ):
            if count:
                found.append(f"{name} {what.format(count)}")
    return found
