"""What a store holds, as plain values for JSON: logs, coverage, links, forks.

Log ids and sequence numbers go up to 2^64 - 1 and are given as text, because JavaScript's numbers are exact only up to
2^53. Counts are numbers. Every answer is of bounded size, so that a log of a hundred million entries cannot block the
page.
"""

import io
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

from culm.bamboo import MAX_U64, Entry, ForkProof, certificate_pool, has_lipmaalink, lipmaa, path
from culm.errors import NotHeld, Place
from culm.node.status.asked import Known, Plain, name_of, rule_of, wanted_of
from culm.store import LogSummary, ReadableStore
from culm.store.files import BundleWriter
from culm.store.gaps import Lack
from culm.store.survey import Mark, Only, Order, cells_between
from culm.types import Log, Run
from culm.wire.places import author_text, clump_name, log_text

MOST_LOGS = 100  # logs in one answer
MOST_CELLS = 1000  # cells of a coverage picture: more than a screen has room for
MOST_LINKED = 243  # Entries in a drawing of links: 3^5, five scales of the link pattern; more cannot be told apart.
_STRIP_CELLS = 48  # cells of the small picture in the list
_MOST_PROOFS = 20  # fork proofs of one log; the first one is enough to convince, the others help to understand


def totals(store: ReadableStore) -> Plain:
    """The totals of the whole store."""
    return asdict(store.survey().totals())


def logs(
    store: ReadableStore,
    *,
    order: Order = Order.NAME,
    only: Only = Only.ALL,
    authors: tuple[bytes, bytes] | None = None,
    log_id: int | None = None,
    offset: int = 0,
    limit: int = 50,
    known: Known | None = None,
) -> Plain:
    """A page of the list of logs, each with a small picture of its coverage."""
    known = known or Known()
    survey = store.survey()
    limit = min(limit, MOST_LOGS)
    count, lines = survey.logs(order=order, only=only, authors=authors, log_id=log_id, offset=offset, limit=limit)
    found = []
    for line in lines:
        spans = cells_between(1, line.greatest, _STRIP_CELLS)
        pictured = {"cells": "".join(survey.cells(line, spans)), "lacks": _lacks(store, line, known, spans)}
        found.append(described(line, known) | _clumps(store, line.log) | _lacking(store, line, known) | pictured)
    return {"count": count, "offset": offset, "limit": limit, "logs": found}


def described(line: LogSummary, known: Known) -> Plain:
    """A log as it appears in a list."""
    return {
        "name": name_of(known.names, line.author),
        "rule": rule_of(known.policy, line.log),
        "log": log_text(line.log),
        "author": author_text(line.author),
        "id": str(line.log_id),
        "newest": str(line.newest),
        "greatest": str(line.greatest),
        "complete_to": str(min(line.complete_to, line.newest)),
        "ended": line.ended,
        "forked_at": None if line.forked_at is None else str(line.forked_at),
        "invalid_from": None if line.invalid_from is None else str(line.invalid_from),
        "entries": line.entries,
        "payloads": line.payloads,
        "certified": line.certified,
        "missing": str(line.missing),
        "waiting": line.waiting,
        "invalid": line.invalid,
        "changed": line.changed,
    }


def log(store: ReadableStore, which: Log, known: Known | None = None) -> Plain:
    """One log, with its fork proofs; ``NotHeld`` if the store has no entries of it."""
    known, line = known or Known(), _line(store, which)
    count, proofs = store.survey().proofs(which, _MOST_PROOFS)
    return (
        described(line, known)
        | _clumps(store, which)
        | _lacking(store, line, known)
        | {"proofs": count, "forks": [fork(proof) for proof in proofs]}
    )


def _clumps(store: ReadableStore, which: Log) -> Plain:
    """The clumps in which a log is served; None: in every one."""
    clumps = store.clumps_of(which)
    return {"clumps": None if clumps is None else sorted(map(clump_name, clumps))}


def _lacks(store: ReadableStore, line: LogSummary, known: Known, spans: Sequence[Run]) -> str:
    """A letter for each span: why it is not held whole (``culm.store.gaps``)."""
    return "".join(store.gaps(line).cells(wanted_of(known.policy, line.log, line.greatest), spans))


def _lacking(store: ReadableStore, line: LogSummary, known: Known) -> Plain:
    """How much of a log is not here, by reason. Entries are None where the log is too torn to tell them apart.

    ``all``: the payloads were all looked at; otherwise there are more of them.
    """
    counts = store.gaps(line).count(wanted_of(known.policy, line.log, line.greatest))
    missing, unasked = counts.entries_missing, counts.entries_unasked
    return {
        "lacking": {
            "missing": None if missing is None else str(missing),
            "unasked": None if unasked is None else str(unasked),
            "payloads_missing": counts.payloads_missing,
            "payloads_unasked": counts.payloads_unasked,
            "forgotten": counts.forgotten,
            "damaged": counts.damaged,
            "all": counts.all_counted,
        }
    }


def coverage(store: ReadableStore, which: Log, low: int, high: int, most: int, known: Known | None = None) -> Plain:
    """The coverage of a log from ``low`` to ``high`` in at most ``most`` cells; ``starts`` are their first numbers.

    ``cells`` has a letter for what is held of each, ``lacks`` one for why it is not held whole. ``high`` is lowered to
    the greatest number in the store.
    """
    line = _line(store, which)
    high = min(high, line.greatest)
    low = min(low, high)
    spans = cells_between(low, high, min(most, MOST_CELLS))
    cells = store.survey().cells(line, spans)
    return {
        "low": str(low),
        "high": str(high),
        "greatest": str(line.greatest),
        "cells": "".join(cells),
        "lacks": _lacks(store, line, known or Known(), spans),
        "starts": [str(first) for first, _ in spans],
        "changed": line.changed,
    }


def links(
    store: ReadableStore, which: Log, chosen: int, most: int, low: int | None = None, known: Known | None = None
) -> Plain:
    """The link graph around an entry: ``most`` neighbours from ``low`` on, and the certificate pool of ``chosen``.

    ``links`` are those of the entries in the window. ``lacks`` says of the entries that are drawn, and of the pool, why
    they are not held whole, where they are not. ``pool_links`` are those that verify the pool: from the spine down
    to the entry, and from the entry down to entry 1. ``path_held``: all entries of the second path are verified.
    ``certified``: all of the pool is, as far as the greatest entry held reaches.
    """
    line = _line(store, which)
    most = max(1, min(most, MOST_LINKED))
    greatest = max(line.greatest, 1)
    chosen = min(max(chosen, 1), greatest)
    first = chosen - most // 2 if low is None else low
    first = max(1, min(first, greatest - most + 1))
    last = min(first + most - 1, MAX_U64)
    pool = certificate_pool(chosen, greatest)
    survey = store.survey()
    outside = [seq for seq in pool if not first <= seq <= last]
    marks = survey.marks(which, first, min(last, greatest))
    marks += [mark for seq in outside for mark in survey.marks(which, seq, seq)]
    down = path(chosen, 1)
    verified = {mark.seq for mark in marks if mark.state.name == "VERIFIED"}
    drawn = sorted({*range(first, min(last, greatest) + 1), *outside})
    lacks = _lacks(store, line, known or Known(), [(seq, seq) for seq in drawn])
    return {
        "low": str(first),
        "high": str(last),
        "greatest": str(line.greatest),
        "chosen": str(chosen),
        "held": {str(mark.seq): _mark(mark) for mark in marks},
        "lacks": {str(seq): lack for seq, lack in zip(drawn, lacks, strict=True) if lack != Lack.NOTHING},
        "links": [[str(seq), str(target)] for seq in range(first, min(last, greatest) + 1) for target in _targets(seq)],
        "pool": [str(seq) for seq in pool],
        "path": [str(seq) for seq in down],
        "pool_links": [[str(one), str(other)] for one, other in pairwise(pool)],
        "path_held": verified.issuperset(down),
        "certified": verified.issuperset(pool),
        "pool_held": len(verified.intersection(pool)),
        "changed": line.changed,
        "entry": _entry(store, Place(*which, chosen)),
    }


def evidence(store: ReadableStore, which: Log, seq: int) -> Plain:
    """The entries by which a browser verifies one by itself: the path down to entry 1, in ascending order, as hex.

    ``NotHeld`` if one of them is not verified. A path has at most some 120 entries of 322 bytes.
    """
    entries = [store.verified_entry(which, member) for member in reversed(path(seq, 1))]
    found = [entry.encoded.hex() for entry in entries if entry is not None]
    if len(found) < len(entries):
        raise NotHeld(f"the store has no verified path from entry {seq} of {log_text(which)} to entry 1")
    return {"entries": found}


def forks(store: ReadableStore, offset: int, limit: int, known: Known | None = None) -> Plain:
    """A page of the forked logs, each with the proof of its lowest position."""
    known = known or Known()
    survey = store.survey()
    limit = min(limit, MOST_LOGS)
    count, lines = survey.logs(only=Only.FORKED, offset=offset, limit=limit)
    found = []
    for line in lines:
        proofs, lowest = survey.proofs(line.log, 1)
        found.append(described(line, known) | {"proofs": proofs, "forks": [fork(proof) for proof in lowest]})
    return {"count": count, "offset": offset, "limit": limit, "logs": found}


def fork(proof: ForkProof) -> Plain:
    """A fork proof; ``hex`` has the bytes of its two entries in a row."""
    return {
        "log": log_text((proof.author, proof.log_id)),
        "position": str(proof.position),
        "why": proof.case.value,
        "entries": [_signed(entry) for entry in (proof.first, proof.second)],
        "hex": proof.encode().hex(),
    }


def proof_file(store: ReadableStore, which: Log) -> bytes:
    """The fork proofs of a log as a bundle for ``culm import``; ``NotHeld`` if the store has none."""
    _, proofs = store.survey().proofs(which, _MOST_PROOFS)
    if not proofs:
        raise NotHeld(f"the store knows no fork of {log_text(which)}")
    file = io.BytesIO()
    writer = BundleWriter(file)
    for proof in proofs:
        writer.proof(proof)
    writer.close()
    return file.getvalue()


def changes(store: ReadableStore, since: int, most: int) -> tuple[int, list[str]]:
    """The number of the last change, and the logs that changed last, after change number ``since``."""
    last, changed = store.changed_logs(since, most)
    return last, [log_text(one) for one in changed]


def _line(store: ReadableStore, which: Log) -> LogSummary:
    line = store.survey().line(which)
    if line is None:
        raise NotHeld(f"the store has no entries of {log_text(which)}")
    return line


def _targets(seq: int) -> Sequence[int]:
    if seq == 1:
        return ()
    return (seq - 1, lipmaa(seq)) if has_lipmaalink(seq) else (seq - 1,)


def _mark(mark: Mark) -> Plain:
    return {"state": mark.state.name.lower(), "payload": mark.payload_state.name.lower(), "variants": mark.variants}


def _entry(store: ReadableStore, place: Place) -> Plain | None:
    stored = store.get(place)
    if stored is None:
        return None
    return _signed(stored.entry) | {
        "state": stored.state.name.lower(),
        "payload": stored.payload_state.name.lower(),
        "payload_held": stored.payload_held,
    }


def _signed(entry: Entry) -> Plain:
    """The signed fields of an entry."""
    return {
        "seq": str(entry.seq),
        "hash": entry.hash.hex(),
        "size": str(entry.size),
        "payload_hash": entry.payload_hash.hex(),
        "backlink": entry.backlink.hex() if entry.backlink else None,
        "lipmaalink": entry.lipmaalink.hex() if entry.lipmaalink else None,
        "is_end": entry.is_end,
    }
