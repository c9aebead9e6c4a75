"""What a session costs in a scenario, measured on the real protocol objects.

A formula for each protocol would have to be kept right whenever a protocol changes, and nobody would notice if it were
wrong. So real sessions are held. For each protocol two endpoints have the same few logs, and some of these have new
entries on one side. They talk in memory, with the messages that a node sends (``culm.spark.simulate.talk``), until both
are silent, and every byte is counted.

Sessions as large as a scenario's would take too long, so the cost is taken for linear. Sessions of two and of three
logs differ by the cost of a log; sessions in which one and two logs have grown, by the cost of a log with news; and so
on. From these few sessions follow the costs of a session, a log, a log with news and an entry. The tests compare the
result with larger real sessions. TCP and IP are not counted.

================  ==================================================================================================
bushbaby          handshake, HAVE of all logs both ways, WANT, BAMBOO, the HAVE that says "that is all"
intervals         both sides follow all logs: for each, two questions and what is behind the newest entry
proposals         one proposal for each log, confirmed; a ping, everything cancelled, both channels closed
negentropy        all entries of both sides are compared; then what differs is asked for with interval requests
================  ==================================================================================================

Negentropy's cost is not linear in the number of entries, so its messages are measured with as many entries as the
scenario has, up to ``MOST_COMPARED``, at the sequence numbers where they would be.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from culm.bamboo import encode_varu64
from culm.negentropy import ArrayStorage, Negentropy
from culm.spark.simulate.talk import (
    Logs,
    Talk,
    talk_bushbaby,
    talk_fetching,
    talk_intervals,
    talk_proposals,
    two_sides,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.spark.simulate.model import Scenario

# Entries that the two sides of a measured negentropy session have in common, and entries that a single side lacks.
# Larger sets would take the driver seconds for each kind of session. Beyond these numbers the cost counts as constant.
MOST_COMPARED = 200_000
MOST_DIFFERING = 50_000

# New entries of a log, and bytes of a payload, in the sessions that are measured. What a scenario has beyond that is
# added in proportion: more entries cost what one costs, and a payload's bytes cost themselves.
_MOST_ENTRIES, _MOST_PAYLOAD = 65, 64 * 1024
_TALKS: dict[str, Callable[[Logs, Logs], Talk]] = {
    "bushbaby": talk_bushbaby,
    "intervals": talk_intervals,
    "proposals": talk_proposals,
    "negentropy": talk_fetching,
}


class Costs(NamedTuple):
    """The cost of a session. Position n of a tuple is for sessions that bring n logs up to date.

    ``bytes`` are both ways, everything included. A message is all that a side says before the other answers.
    ``log_bytes`` is the size of the new entries of one log with their payloads, as they are stored.
    """

    bytes: tuple[int, ...]
    messages: tuple[int, ...]
    log_bytes: int


def costs_of(scenario: Scenario) -> Costs:
    """The costs in a scenario. Takes some tenths of a second for each new combination, which is then remembered."""
    return _costs(
        scenario.protocol,
        scenario.origins,
        scenario.entries_each,
        scenario.payload,
        scenario.logs,
        scenario.log_entries,
    )


@lru_cache(256)
def _costs(protocol: str, origins: int, entries: int, payload: int, logs: int, log_entries: int) -> Costs:
    parts = _parts(protocol, min(entries, _MOST_ENTRIES), min(payload, _MOST_PAYLOAD))
    extra = payload - min(payload, _MOST_PAYLOAD)  # beyond what was measured, payloads cost what they are
    of_log = parts.grown + (parts.entry + extra) * (entries - 1) + extra
    idle = parts.session + parts.log * logs
    totals = [idle, *(idle + parts.news + of_log * grown for grown in range(1, origins + 1))]
    messages = [parts.messages if grown else parts.idle_messages for grown in range(origins + 1)]
    if protocol == "negentropy":
        for grown, talk in enumerate(_comparing(origins, entries, logs * log_entries, log_entries)):
            totals[grown] = talk.bytes + (totals[grown] if grown else 0)
            messages[grown] = talk.messages + (messages[grown] if grown else 0)
    return Costs(tuple(map(round, totals)), tuple(messages), entries * (parts.stored + payload))


class _Parts(NamedTuple):
    """Bytes of a session, of its having news, of a log, of a log's first new entry, of any further one; messages."""

    session: int
    news: int
    log: int
    grown: int
    entry: float
    idle_messages: int
    messages: int
    stored: int  # bytes of an entry in a store


@lru_cache(256)
def _parts(protocol: str, entries: int, payload: int) -> _Parts:
    talk = _TALKS[protocol]
    idle, larger = (talk(*two_sides(logs, 0, 0, payload)) for logs in (2, 3))
    first, second = (talk(*two_sides(2, grown, 1, payload)) for grown in (1, 2))
    many = max(2, entries)
    longer = talk(*two_sides(2, 1, many, payload))
    log = larger.bytes - idle.bytes
    sides = two_sides(1, 1, many, payload)
    new = next(iter(sides[0].entries.values()))[-many:]
    return _Parts(
        session=idle.bytes - 2 * log,
        news=2 * first.bytes - second.bytes - idle.bytes,
        log=log,
        grown=second.bytes - first.bytes,
        entry=(longer.bytes - first.bytes) / (many - 1),
        idle_messages=idle.messages,
        messages=max(first.messages, longer.messages),
        stored=round(sum(len(entry.encoded) for entry in new) / many),
    )


def _comparing(origins: int, entries: int, held: int, log_entries: int) -> list[Talk]:
    """Negentropy sessions of two sides with ``held`` entries in common, by the number of logs that differ.

    Measured for powers of two; numbers between are interpolated, because up to 65 sessions would take too long.
    """
    measured = sorted({0, 1, *(2**power for power in range(1, origins.bit_length())), origins})
    talks = [compare(min(held, MOST_COMPARED), log_entries, min(grown * entries, MOST_DIFFERING)) for grown in measured]
    sizes = np.interp(range(origins + 1), measured, [talk.bytes for talk in talks])
    trips = np.interp(range(origins + 1), measured, [talk.messages for talk in talks])
    return [Talk(round(size), round(count)) for size, count in zip(sizes.tolist(), trips.tolist(), strict=True)]


@lru_cache(256)
def compare(held: int, log_entries: int, differing: int) -> Talk:
    """One real negentropy session over sets like a store's; the initiator lacks the ``differing`` newest entries."""
    rng = np.random.Generator(np.random.PCG64(1))
    count = held + differing
    timestamps = np.concatenate(
        (
            np.arange(held, dtype=np.uint64) % np.uint64(max(1, log_entries)),
            np.full(differing, log_entries, np.uint64) + np.arange(differing, dtype=np.uint64) % np.uint64(100),
        )
    )
    ids = rng.integers(0, 256, (count, 32), np.uint8)
    poor = Negentropy(ArrayStorage(timestamps[:held], ids[:held]))
    rich = Negentropy(ArrayStorage(timestamps, ids))
    message: bytes | None = poor.initiate()
    size = messages = 0
    while message is not None:
        answer = rich.reconcile(message)
        if answer is None:
            break
        messages += 2
        size += sum(len(encode_varu64(len(one))) + len(one) for one in (message, answer))
        message = poor.reconcile(answer)
    return Talk(size, messages)
