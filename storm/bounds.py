"""Whether queues and memory stay within their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.node.sharing.slots import MOST_GOING

if TYPE_CHECKING:
    from storm.world import World

_QUEUED_BYTES = 1024 * 1024  # written to a connection and not sent: what a session makes at once, and the limit on that


def check_bounds(world: World) -> None:
    """At any time: sessions, and what waits to be sent."""
    for member in world.members:
        node = member.node
        if node is None:
            continue
        called = len(node.roster.troubles)  # peers that the node itself calls: they do not wait for others to go
        if len(node.sessions) > node.config.limits.max_sessions + called + MOST_GOING:
            world.fail(f"{member} has {len(node.sessions)} sessions, {called} of them its own at most")
    for connection in world.network.connections.values():
        for end in connection.ends:
            if end.most_queued > _QUEUED_BYTES:
                world.fail(f"{end.most_queued} bytes were queued on connection {connection.number}")
