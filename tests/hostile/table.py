"""All attacks."""

from __future__ import annotations

from tests.hostile import on_bushbaby, on_intervals, on_listeners, on_negentropy, on_proposals, on_sessions

ATTACKS = [
    attack
    for module in (on_listeners, on_sessions, on_bushbaby, on_intervals, on_proposals, on_negentropy)
    for attack in module.ATTACKS
]
