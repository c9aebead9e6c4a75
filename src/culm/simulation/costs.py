"""What a session costs in a scenario, measured on real sessions of whole nodes.

A formula for each protocol would have to be kept right whenever a protocol changes, and nobody would notice if it were
wrong. So real sessions are held (``culm.simulation.sessions``), and every byte is counted.

Sessions as large as a scenario's would take too long, so the cost is taken for linear. Sessions of two and of three
logs differ by the cost of a log; sessions in which one and two logs have grown, by the cost of a log with news; and so
on. From these few sessions follow the costs of a session, a log, a log with news and an entry. The tests compare the
result with larger real sessions. TCP and IP are not counted.

================  ==================================================================================================
culm              TLS and the handshake inside it, heads of logs compared, differing logs named, fetched by intervals
bushbaby          handshake, HAVE of all logs both ways, WANT, BAMBOO, the HAVE that says "that is all"
intervals         both sides follow all logs: for each, questions and what is behind the newest entry
proposals         proposals for each log, both ways, confirmed and cancelled; a ping, both channels closed
negentropy        all entries of both sides are compared; then what differs is asked for with interval requests
================  ==================================================================================================

The cost of comparing sets is not linear in their size. So that part of ``culm`` and of ``negentropy`` is a negentropy
session of its own, with as many records as the scenario has, up to ``MOST_COMPARED``.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from culm.bamboo import encode_varu64
from culm.negentropy import ArrayStorage, Negentropy, Split, even, sparing
from culm.simulation.scenario import Scenario
from culm.simulation.sessions import BASE_ENTRIES, Talk, hold_session, logs_of

# Records that the two sides of a measured comparison have in common, and records that a single side lacks. Larger sets
# would take seconds for each kind of session. Beyond these numbers the cost counts as constant.
MOST_COMPARED = 200_000
MOST_DIFFERING = 50_000

# New entries of a log, and bytes of a payload, in the sessions that are measured. What a scenario has beyond that is
# added in proportion: more entries cost what one costs, and a payload's bytes cost themselves.
_MOST_ENTRIES, _MOST_PAYLOAD = 65, 16 * 1024


class Costs(NamedTuple):
    """The cost of a session. Position n of a tuple is for sessions that bring n logs up to date.

    ``bytes`` are both ways, everything included. A message is all that a side says before the other answers.
    ``log_bytes`` is the size of the new entries of one log with their payloads, as they are stored.
    """

    bytes: tuple[int, ...]
    messages: tuple[int, ...]
    log_bytes: int


def costs_of(scenario: Scenario) -> Costs:
    """The costs in a scenario. Takes a second for each new combination, which is then remembered."""
    return _costs(*scenario.session)


@lru_cache(256)
def _costs(protocol: str, origins: int, entries: int, payload: int, logs: int, log_entries: int) -> Costs:
    many, measured = max(2, min(entries, _MOST_ENTRIES)), min(payload, _MOST_PAYLOAD)
    parts, messages = _parts(protocol, many, measured)
    # Up to 65 comparisons would take too long: measured for powers of two, and interpolated between these.
    exact = sorted({0, 1, *(2**power for power in range(1, origins.bit_length())), origins})
    compared = np.array([comparison(protocol, logs, log_entries, grown, entries) for grown in exact])
    sizes, trips = [], []
    for grown in range(origins + 1):
        size, count = (np.interp(grown, exact, column) for column in compared.T)
        beyond = grown * entries * (payload - measured)
        sizes.append(round(float(parts @ _terms(logs, grown, entries) + size)) + beyond)
        trips.append(round(float(count)) + messages[grown > 0])
    new = next(logs_of(1, 1, many, measured)).entries[-many:]
    stored = round(sum(len(entry.encoded) for entry in new) / many) + payload
    return Costs(tuple(sizes), tuple(trips), entries * stored)


def _terms(logs: int, grown: int, more: int) -> tuple[int, ...]:
    """What a session's bytes are linear in: it itself, having news, logs, logs with news, their further entries."""
    return 1, int(grown > 0), logs, grown, grown * (more - 1)


@lru_cache(256)
def _parts(protocol: str, entries: int, payload: int) -> tuple[npt.NDArray[np.float64], tuple[int, int]]:
    """The bytes for one of each of ``_terms``, and the messages without news and with: all without comparing sets."""
    # Not with a single log that has grown: whether a side asks once more is then a matter of who is first.
    # Far apart, because what comparing small sets costs also depends on their ids: the difference of two sessions is
    # what one log costs, and is multiplied by the number of logs.
    sessions = ((4, 0, 0), (24, 0, 0), (4, 2, 1), (24, 22, 1), (4, 2, entries))
    talks = np.array([hold_session(protocol, *session, payload) for session in sessions])
    if protocol in _COMPARED_INSIDE:
        talks -= [comparison(protocol, logs, BASE_ENTRIES, grown, more) for logs, grown, more in sessions]
    sizes, messages = talks.T
    parts = np.linalg.solve(np.array([_terms(*session) for session in sessions]), sizes)
    return parts, (int(messages[0]), int(messages[2:].max()))


_COMPARED_INSIDE = ("culm",)  # the protocols whose sessions compare sets themselves, so that it is counted in them


def comparison(protocol: str, logs: int, log_entries: int, grown: int, more: int) -> Talk:
    """What it takes to compare the sets of a protocol; nothing for one that compares none.

    ``culm`` compares heads, one for each log. If the log has grown, each side has a head that the other one lacks.
    ``negentropy`` compares entries, at the sequence numbers where they would be.
    """
    if protocol in _COMPARED_INSIDE:
        return compare(min(logs - grown, MOST_COMPARED), 0, grown, grown, split=sparing)
    if protocol == "negentropy":
        return compare(min(logs * log_entries, MOST_COMPARED), log_entries, 0, min(grown * more, MOST_DIFFERING))
    return Talk(0, 0)


@lru_cache(256)
def compare(held: int, log_entries: int, ours: int, theirs: int, *, split: Split = even) -> Talk:
    """One real negentropy session over sets that have ``held`` records in common.

    The initiator has ``ours`` records more, the other side has ``theirs``. With ``log_entries`` 0 all timestamps are 0.
    ``split``: how both sides divide ranges.
    """
    rng = np.random.Generator(np.random.PCG64(1))
    common, new = np.arange(held) % max(1, log_entries), np.arange(ours + theirs) % 100 + log_entries
    timestamps = np.concatenate((common, new if log_entries else new * 0)).astype(np.uint64)
    ids = rng.integers(0, 256, (len(timestamps), 32), np.uint8)
    at = np.arange(len(timestamps))
    parts = at < held + ours, (at < held) | (at >= held + ours)
    caller, other = (Negentropy(ArrayStorage(timestamps[part], ids[part]), split=split) for part in parts)
    message: bytes | None = caller.initiate()
    size = messages = 0
    while message is not None and (answer := other.reconcile(message)) is not None:
        messages += 2
        size += sum(len(encode_varu64(len(one))) + len(one) for one in (message, answer))
        message = caller.reconcile(answer)
    return Talk(size, messages)
