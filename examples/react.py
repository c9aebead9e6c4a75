"""A program that reacts to new entries: an alarm for readings that are too high.

Shows: following one log, subscribing, answering in a log of one's own, exactly once whenever the program is stopped.

    python examples/react.py HOME AUTHOR/LOG culm://KEY@HOST:PORT

It follows a log whose payloads are numbers. For each above 30 it publishes an alarm, which says what it answers, and
where the subscription was then: alarm and progress are written as one, so that no crash comes in between.
"""

from __future__ import annotations

import asyncio
import json
import sys

from culm import CulmError, Node
from culm.wire.places import parse_log

ALARMS = 1  # the id of our own log
LIMIT = 30.0


async def last_cursor(node: Node) -> str:
    """Where the program was when it gave the last alarm."""
    cursor = "0"
    async for alarm in node.entries(ALARMS):
        cursor = json.loads(await node.payload(alarm))["cursor"]
    return cursor


async def react(home: str, log: str, peer: str) -> None:
    """Follow the log and give alarms until cancelled."""
    author, log_id = parse_log(log)
    async with Node.open(home, clump="react example") as node:
        await node.follow(author, log_id)
        await node.connect(peer)
        news = node.subscribe(log, since=await last_cursor(node), with_payload=True)
        async for entry in news:
            value = float(await node.payload(entry))
            if value > LIMIT:
                alarm = {"entry": entry.seq, "value": value, "cursor": news.cursor}
                await node.append(ALARMS, json.dumps(alarm))
                print(f"alarm: {value} in entry {entry.seq}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        asyncio.run(react(*sys.argv[1:]))
    except KeyboardInterrupt:
        pass
    except CulmError as error:
        sys.exit(f"error: {error}")
