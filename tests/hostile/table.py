"""All attacks."""

from __future__ import annotations

from tests.hostile import (
    on_bushbaby,
    on_files,
    on_intervals,
    on_lan,
    on_listeners,
    on_negentropy,
    on_pools,
    on_proposals,
    on_quotas,
    on_sessions,
    on_status,
    on_websocket,
)

_MODULES = (
    on_listeners,
    on_sessions,
    on_bushbaby,
    on_intervals,
    on_proposals,
    on_negentropy,
    on_pools,
    on_quotas,
    on_status,
    on_websocket,
    on_lan,
    on_files,
)
ATTACKS = [attack for module in _MODULES for attack in module.ATTACKS]
