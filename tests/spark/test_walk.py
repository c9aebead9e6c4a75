"""The walk along a log: verdicts against the definition, reasons, payload frames, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import Entry, ForkProof, yamf_hash
from culm.spark import steps, walk
from culm.spark.payload import PayloadFrame, rank
from culm.spark.walk import Fact, Finding
from culm.store.schema import from_sql, to_sql
from culm.testing import LogBuilder, build_log, tampered
from tests.bamboo import oracle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def found(
    entries: Iterable[Entry], frames: Iterable[PayloadFrame] = (), payload: str = "absent"
) -> tuple[dict[Entry, Finding], dict[tuple[bytes, int], Finding]]:
    """What the walk finds of entries in any order, and the limits of their logs."""
    records = {entry.encoded: entry for entry in entries}
    rows = [(entry.hash, encoded, rank(payload), 1) for encoded, entry in records.items()]
    rows += [(frame.encode(), frame.encode(), 0, 1) for frame in dict.fromkeys(frames)]
    facts = sorted(steps.check(rows), key=lambda fact: fact[:6])
    by_hash = {entry.hash: entry for entry in records.values()}
    findings = list(walk.walk(facts))
    limits = {(one.author, from_sql(one.log)): one for one in findings if not one.is_entry}
    return {by_hash[one.entry_hash or b""]: one for one in findings if one.is_entry}, limits


def verdict(finding: Finding, limit: Finding | None) -> str:
    """The verdict in the words of the oracle."""
    if limit is not None and finding.seq >= limit.seq:
        return oracle.INVALID
    return {"verified": oracle.VERIFIED, "unverified": oracle.WAITING}[finding.verdict or ""]


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_verdicts(data: st.DataObject) -> None:
    """For any part of any logs, with forks, ends, gaps and lies, the verdicts are the definition's."""
    logs = [
        data.draw(oracle.broken_logs(seed=seed, log_id=log_id, lies=True).flatmap(oracle.subsets))
        for seed, log_id in ((1, 0), (1, 2**64 - 1), (2, 0))
    ]
    frames = [
        PayloadFrame(*entry.log, entry.seq, yamf_hash(payload), len(payload)) for log in logs for entry, payload in log
    ]
    findings, limits = found([entry for log in logs for entry, _ in log], frames)
    for log in logs:
        lies = [entry.seq for entry, payload in log if entry.size != len(payload)]
        for entry, state in oracle.verdicts(dict(log), lies).items():
            assert state == verdict(findings[entry], limits.get(entry.log))


@given(data=st.data())
@settings(deadline=None, max_examples=100)
def test_reasons(data: st.DataObject) -> None:
    """What an entry is said to need is what it links to and has no path; a fork's case is that of a real proof."""
    items = data.draw(oracle.broken_logs(max_extra=2).flatmap(oracle.subsets))
    entries = list(dict(items))
    findings, limits = found(entries)
    held = {entry.seq for entry in entries}
    for entry, finding in findings.items():
        if finding.verdict == "unverified":
            targets = dict.fromkeys(target for target, _ in entry.links)
            missing = " or ".join(str(target) for target in targets if target not in held)
            stuck = " or ".join(str(target) for target in targets if target in held)
            needs = ", or ".join([*filter(None, [missing, stuck and f"a path for {stuck}"])])
            assert f"no path to entry 1: needs {needs}" == finding.reason
    for limit in limits.values():
        pairs = [ForkProof.of(one, other) for one in entries for other in entries]
        reasons = {f"fork at {proof.position}: {proof.explain()}" for proof in pairs if proof is not None}
        assert limit.reason in reasons


def frame(entry: Entry, payload: bytes) -> PayloadFrame:
    """A payload at the place of an entry."""
    return PayloadFrame(*entry.log, entry.seq, yamf_hash(payload), len(payload))


def payloads(entries: list[Entry], frames: list[PayloadFrame], payload: str = "absent") -> list[str | None]:
    """The payload states found."""
    findings, _ = found(entries, frames, payload)
    return [findings[entry].payload for entry in entries]


def test_frames_meet_their_entries() -> None:
    """A frame is for whichever entry of its place it fits; one that fits none is wrong for all that lack theirs."""
    log = build_log(2)
    one, other = log.entries[1], log.make(2, b"other")
    right, wrong = frame(one, log.payloads[one.hash]), frame(one, b"wrong")
    assert ["held", "absent"] == payloads([one, other], [right, right])
    assert ["held", "held"] == payloads([one, other], [right, frame(other, b"other")])
    assert ["held", "mismatch"] == payloads([one, other], [wrong, right])
    assert ["mismatch", "mismatch"] == payloads([one, other], [wrong, frame(one, b"wrong, too")])
    assert ["absent"] == payloads([log.entries[0]], [right, wrong])
    assert ["partial"] == payloads([one], [wrong], "partial")
    assert ["held"] == payloads([one], [wrong], "held")
    assert [] == payloads([], [right])


def test_bad_signatures_say_nothing_of_the_log() -> None:
    """An entry of a bad signature is invalid; it forks nothing, ends nothing, and no lie about its size counts."""
    log = build_log(3)
    log.entries[1] = log.make(2, b"another payload", size=2)
    bad = Entry.decode(tampered(log.entries[1]))
    findings, limits = found([log.entries[0], bad, log.entries[2]], [frame(bad, b"another payload")])
    assert {} == limits
    assert ("invalid", "bad signature", "size_mismatch") == (
        findings[bad].verdict,
        findings[bad].reason,
        findings[bad].payload,
    )
    assert "no path to entry 1: needs 2" == findings[log.entries[2]].reason


def test_the_lower_limit_counts() -> None:
    """Of a fork and a lie the lower one is the limit, at the same number the fork; the log is forked either way."""
    log = build_log(2)
    lie = log.make(3, b"payload", size=1)
    log.entries.append(lie)
    log.append(b"4")
    lied = [frame(lie, b"payload")]
    for other, reason in ((2, "fork at 2: "), (3, "fork at 3: "), (4, "payload size mismatch at 3")):
        fork = [log.entries[other - 1], log.make(other, b"other")]
        (limit,) = found([lie, *fork], lied)[1].values()
        assert (True, True) == (limit.forked, (limit.reason or "").startswith(reason))
    (limit,) = found([lie], lied)[1].values()
    assert (False, to_sql(3)) == (limit.forked, limit.seq)


def test_many_entries_of_one_number() -> None:
    """However many entries an author signs for one number, a few are held at a time, and each is judged."""
    log = build_log(1)
    entries = [log.make(2, b"%d" % number) for number in range(2 * walk._MAX_TOGETHER + 5)]
    findings, limits = found([*log.entries, *entries], [frame(entry, b"%d" % at) for at, entry in enumerate(entries)])
    assert len(entries) + 1 == len(findings)
    assert {"held", "absent"} == {finding.payload for finding in findings.values()}
    assert [to_sql(2)] == [limit.seq for limit in limits.values()]


def test_a_log_is_a_stream() -> None:
    """Findings come while the log goes by, and little of it is remembered, however long it is."""
    log = LogBuilder(build_log(0).identity)
    template = build_log(1).entries[0]

    def facts() -> Iterator[Fact]:
        for seq in range(1, 20_001):
            yield Fact(
                author=template.author,
                log=to_sql(log.log_id),
                seq=to_sql(seq),
                payload_hash=template.payload_hash,
                is_entry=True,
                entry_hash=b"%d" % seq,
                authentic=True,
                is_end=False,
                backlink=None if seq == 1 else b"%d" % (seq - 1),
                lipmaalink=None,
                size=to_sql(0),
                payload="held",
                copies=1,
            )

    largest = 0
    judge = walk._Log()
    for fact in facts():
        (finding,) = judge.place(from_sql(fact.seq), [fact])
        assert "verified" == finding.verdict
        largest = max(largest, len(judge._held))
    assert largest < 600


@pytest.mark.parametrize("seq", [2, 5, 13, 2**63, 2**64 - 1])
def test_numbers_keep_their_order(seq: int) -> None:
    """Sorting the signed longs sorts the numbers."""
    assert to_sql(seq - 1) < to_sql(seq)
    assert from_sql(to_sql(seq)) == seq
