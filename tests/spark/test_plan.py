"""Who fetches what from whom: the core against sets of items, and the whole on Spark."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import MAX_U64
from culm.cli.command import make_parser
from culm.errors import ConfigError, EncodingError
from culm.ranges import Range, RangeSet, decode, read_range, write_range
from culm.spark.plan import plan
from culm.spark.plan.balance import TOLERANCE, Class, PeerTerms, balance
from culm.spark.plan.given import HAVE, Given, read_ranges, read_rows
from culm.spark.plan.job import run_plan
from culm.spark.plan.rows import exact_range, read_number
from culm.spark.plan.split import Key, Line, Splitter, arcs_by_bucket
from culm.spark.plan.sweep import METADATA, NOBODY, PAYLOAD, SILENT, Need, held_runs, sweep, wanted_runs
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

PEERS = "abcde"
NEWEST = 45
AUTHOR = bytes(range(32))
TABLE = "peer STRING, author BINARY, log_id DECIMAL(20,0), ranges STRING"

Item = tuple[int, int]  # number, content
Moved = list[tuple[Need, str, str, int, int, int]]  # demand, requester, source, round, first, last


# -- the core -------------------------------------------------------------------------------------------------------


@st.composite
def ranges(draw: st.DrawFn, *, closed: bool) -> Range:
    """A range of a short log, with payloads of any size."""
    start = draw(st.integers(1, NEWEST))
    end = draw(st.integers(start, NEWEST)) if closed or draw(st.booleans()) else None
    forbidden = tuple(draw(st.lists(st.integers(start, end or NEWEST), max_size=3)))
    metadata, payloads = draw(st.sampled_from([(True, True), (True, True), (True, False), (False, True)]))
    return Range(start, end, draw(st.booleans()), metadata, payloads, forbidden=forbidden)


def tables(*, closed: bool) -> st.SearchStrategy[dict[str, list[Range]]]:
    """Ranges of some peers."""
    return st.dictionaries(st.sampled_from(PEERS), st.lists(ranges(closed=closed), min_size=1, max_size=3))


HELD = tables(closed=True)
WANTED = tables(closed=False)


def items_of(of_peer: Iterable[Range], newest: int, *, certificates: bool) -> set[Item]:
    """The items that ranges denote, one by one."""
    found = set()
    for item in of_peer:
        for seq, metadata, payload in (item.wanted if certificates else item.items)(newest, lambda _seq: 1):
            found |= {(seq, METADATA)} if metadata else set()
            found |= {(seq, PAYLOAD)} if payload else set()
    return found


def known(held: dict[str, list[Range]]) -> tuple[dict[str, set[Item]], int]:
    """What each peer holds as items, and the newest entry of which somebody has anything."""
    items = {peer: items_of(held.get(peer, []), NEWEST, certificates=False) for peer in PEERS}
    return items, max((seq for seq, _ in chain(*items.values())), default=0)


def swept(
    held: dict[str, list[Range]], wanted: dict[str, list[Range]], silent: Sequence[str] = ()
) -> tuple[list[Need], list[Need]]:
    """The sweep of a log: what somebody can give, and what nobody can."""
    needs = sweep(held, wanted, lambda peer: peer not in silent, (0, 0))
    return [need for need in needs if not need.reason], [need for need in needs if need.reason]


def planned(demands: list[Need], rounds: int, size: int = 10, buckets: int = 3, **limits: int) -> tuple[Moved, Any]:
    """The whole core without Spark: demands in buckets, counted, shared out and split. Also the balance."""
    demands = [demand._replace(size=size) for demand in demands]
    parts = [demands[at::buckets] for at in range(buckets)]
    splitter = Splitter(rounds, lambda _: True, (0, 0), **limits)
    counted = [(at, key, amount) for at, part in enumerate(parts) for key, amount in splitter.classes(part)]
    classes: dict[Key, Class] = {}
    for _, key, amount in counted:
        before = classes[key].amount if key in classes else 0
        classes[key] = Class(key.members, amount + before, key.is_whole)
    found = balance(list(classes.values()), dict.fromkeys(PEERS, PeerTerms()))
    whole = {
        key: Line(list(zip(key.members, share, strict=True))) for key, share in zip(classes, found.shares, strict=True)
    }
    arcs = arcs_by_bucket(counted, whole)
    moved: Moved = []
    for at, part in enumerate(parts):
        lines = {digest: Line(of_class) for digest, of_class in arcs.get(at, {}).items()}
        for demand in part:
            for requester, source, round_, first, last in splitter.transfers(demand, lines):
                moved.append((demand, requester, source, round_, first, last))
    return moved, found


@settings(max_examples=50, deadline=None)
@given(HELD, WANTED)
def test_the_sweep_finds_just_what_is_lacking(held: dict[str, list[Range]], wanted: dict[str, list[Range]]) -> None:
    """For each peer the demands are the items that it wants, lacks and another has; each once; holders are all."""
    demands, unserved = swept(held, wanted)
    has, newest = known(held)
    expected = Counter(
        (peer, item)
        for peer, of_peer in wanted.items()
        for item in items_of(of_peer, newest, certificates=True) - has[peer]
        if any(item in of_other for of_other in has.values())
    )
    found: Counter[tuple[str, Item]] = Counter()
    for demand in demands:
        for item in parts_of(demand, demand.first, demand.last):
            assert set(demand.holders) == {peer for peer in PEERS if item in has[peer]}
            found.update((peer, item) for peer in demand.wanters)
    assert expected == found
    nowhere = Counter(
        (peer, item)
        for peer, of_peer in wanted.items()
        for item in items_of([r for r in of_peer if r.end is not None], NEWEST, certificates=False)
        if not any(item in of_other for of_other in has.values())
    )
    lost = Counter(
        (peer, item) for lack in unserved for peer in lack.wanters for item in parts_of(lack, lack.first, lack.last)
    )
    assert nowhere.keys() <= lost.keys()
    assert {NOBODY} >= {lack.reason for lack in unserved}
    assert not any(item in of_other for _, item in lost for of_other in has.values())
    assert not lost or max(lost.values()) == 1


def parts_of(of: Any, first: int, last: int) -> list[Item]:
    """The items of a part of a demand."""
    return [(seq, part) for seq in range(first, last + 1) for part in (METADATA, PAYLOAD) if of.content & part]


@settings(max_examples=50, deadline=None)
@given(HELD, WANTED, st.sampled_from([1, 2]), st.integers(0, 3))
def test_everybody_is_served_once_by_somebody_who_has_it(
    held: dict[str, list[Range]], wanted: dict[str, list[Range]], rounds: int, size: int
) -> None:
    """Every lacking item is fetched once, in the first round from a holder, in the second from who got it in the first.

    Nobody fetches what it has, and the greatest load is not below the bound.
    """
    demands, _ = swept(held, wanted)
    moved, found = planned(demands, rounds, size)
    has, _ = known(held)
    lacking = Counter(
        (peer, item)
        for demand in demands
        for item in parts_of(demand, demand.first, demand.last)
        for peer in demand.wanters
    )
    came: Counter[tuple[str, Item]] = Counter()
    first_round: set[tuple[str, Item]] = set()
    loads: Counter[str] = Counter()
    for demand, requester, source, round_, first, last in sorted(moved, key=lambda row: row[3]):
        loads[source] += size * (last - first + 1)
        for item in parts_of(demand, first, last):
            assert item not in has[requester]
            assert item in has[source] or (round_ == 2 and (source, item) in first_round)
            came[requester, item] += 1
            first_round |= {(requester, item)} if round_ == 1 else set()
    assert lacking == came
    assert {row[3] for row in moved} <= set(range(1, rounds + 1))
    assert max(loads.values(), default=0) >= found.load_bound


@settings(max_examples=50, deadline=None)
@given(HELD, WANTED, st.sampled_from([1, 2]))
def test_classes_that_were_made_smaller_serve_everybody(
    held: dict[str, list[Range]], wanted: dict[str, list[Range]], rounds: int
) -> None:
    """Where members or classes are left out everybody is still served once, and the bound is no greater."""
    demands, _ = swept(held, wanted)
    moved, found = planned(demands, rounds, most_members=2, most_classes=1)
    _, whole = planned(demands, rounds)
    assert sum(demand.entries * len(demand.wanters) for demand in demands) == sum(row[5] - row[4] + 1 for row in moved)
    assert found.load_bound <= whole.load_bound
    for demand, requester, source, round_, _, _ in moved:
        assert source in (demand.holders if round_ == 1 else {*demand.holders, *demand.wanters})
        assert requester in demand.wanters


def test_passing_on_relieves_the_only_source() -> None:
    """What one peer has and many want spreads like in a tree: the source gives one copy instead of all."""
    demands = [Need(1, 1000, 3, (0, 0), ("a",), ("b", "c", "d", "e"))]
    loads = []
    for rounds in (1, 2):
        moved, found = planned(demands, rounds, buckets=1)
        given: Counter[str] = Counter()
        for _, _, source, _, first, last in moved:
            given[source] += 10 * (last - first + 1)
        loads.append((max(given.values()), int(found.load_bound)))
    assert [(40_000, 40_000), (10_000, 10_000)] == loads


def test_a_silent_peer_is_no_source() -> None:
    """What only peers without capacity have is unserved, with the reason; nobody is told to fetch it from them."""
    demands, unserved = swept(
        {"a": [Range(1, 10)], "b": [Range(1, 3)]}, {"c": [Range(1, 5), Range(2, None)]}, silent="a"
    )
    assert [("b",)] == [demand.holders for demand in demands]
    assert [(4, 10, SILENT)] == [(item.first, item.last, item.reason) for item in unserved]


def test_payloads_by_size() -> None:
    """Sizes go along with what is wanted; who wants a payload by two kinds of them gets it by the wider."""
    small, large = read_range("1..4 max 10"), read_range("3..6 min 100")
    demands, _ = swept({"a": [Range(1, 6)]}, {"b": [small, large], "c": [small]})
    found = {(demand.first, demand.last, demand.sizes, demand.wanters) for demand in demands}
    assert {
        (1, 2, (0, 11), ("b", "c")),
        (3, 4, (0, 0), ("b",)),
        (3, 4, (0, 11), ("c",)),
        (5, 6, (100, 0), ("b",)),
    } == found


def test_an_open_path_ends_at_the_newest_entry_known() -> None:
    """An open sparse range is the path from the newest entry that anybody has."""
    demands, _ = swept({"a": [Range(1, 8)]}, {"b": [Range(1, None, sparse=True)]})
    assert [(1, 1), (4, 4), (8, 8)] == [(demand.first, demand.last) for demand in demands]


def test_the_largest_numbers() -> None:
    """Sequence numbers up to 2^64 - 1, and logs of as many entries, are planned without listing them."""
    held = {"a": [Range(1, MAX_U64 - 1), Range(MAX_U64, MAX_U64)], "b": [Range(2**63, MAX_U64 - 1)]}
    demands, unserved = swept(held, {"c": [Range(1)]})
    assert [(1, 2**63 - 1), (2**63, MAX_U64 - 1), (MAX_U64, MAX_U64)] == [item[:2] for item in demands]
    assert not unserved
    moved, found = planned(demands, 1, size=10**15)
    assert MAX_U64 == sum(last - first + 1 for *_, first, last in moved)
    assert 10**15 * 2**63 == found.load_bound


@settings(max_examples=50, deadline=None)
@given(ranges(closed=True), st.booleans())
def test_ranges_as_bytes_and_as_text(item: Range, as_text: bool) -> None:
    """A row is read as it was written; a piece denotes its items and no certificates."""
    text = "; ".join(map(write_range, RangeSet([item]))) or "nothing"
    found = read_ranges(text if as_text else RangeSet([item]).encode())
    assert items_of([item], NEWEST, certificates=False) == items_of(found, NEWEST, certificates=False)
    for (_, content, _), first, last in held_runs(found):
        piece = exact_range(first, last, content, (5, 9))
        assert piece == decode(piece.encode())
        piece = exact_range(first, last, content)
        assert piece == decode(piece.encode())
        assert set(parts_of(piece_of(content), first, last)) == items_of([piece], NEWEST, certificates=True)


def piece_of(content: int) -> Any:
    """Something of this content."""
    return Need(1, 1, content, (0, 0), (), ())


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "truncated|end|early|missing"),
        (b"\x01\x00\x01\x00", "1 bytes follow the ranges"),
        (b"\xfd\xff\xff\xff\xff\xff", "at most 65536|VarU64|longer"),
        (b"\xfa\x01\x00\x01", "65537 ranges.*at most 65536.*divide them among several"),
        ("7..3", "7..3"),
        ("", "not a range"),
    ],
)
def test_what_is_no_range_set(value: bytes | str, reason: str) -> None:
    """Bytes and text that are no range set are refused with a reason."""
    with pytest.raises((EncodingError, ConfigError, ValueError), match=reason):
        read_ranges(value)


def test_no_bytes_are_ranges_that_are_cut() -> None:
    """A row whose encoding of ranges is empty has one that is cut; it is not told that it names no ranges."""
    row = Given(HAVE, "a", None, None, None, b"", None, None, None)
    with pytest.raises(EncodingError):
        row.read_ranges()


def test_what_cannot_be_held() -> None:
    """Open ranges and ranges by size say nothing definite of what is held."""
    with pytest.raises(ValueError, match="open range"):
        held_runs([Range(5)])
    with pytest.raises(ValueError, match="by payload sizes"):
        held_runs([read_range("1..4 max 10")])


def test_certificates_are_wanted_too() -> None:
    """With the metadata of an entry comes its certificate pool, as far as the range asks for it and it exists."""
    item = {(8, METADATA), (8, PAYLOAD)}
    below, above = {(1, METADATA), (4, METADATA)}, {(12, METADATA), (13, METADATA)}
    for wanted, newest, expected in (
        (Range(8, 8), 20, item | below | above),
        (Range(8, 8), 9, item | below),
        (Range(8, 8, head_max=8, tail_min=8), 20, item),
    ):
        assert expected == {(first, content) for (_, content, _), first, _ in wanted_runs([wanted], newest)}


def test_an_open_range_wants_what_somebody_has() -> None:
    """An open range leaves nothing unserved, since it is all that anybody has; its sizes do not count there."""
    held = {"a": [Range(3, 5)], "b": [read_range("8..9 metadata")]}
    demands, unserved = swept(held, {"c": [read_range("1.. max 10"), read_range("4..7 min 20 head 4 tail 7")]})
    assert {(3, 3), (4, 5), (8, 9)} == {(need.first, need.last) for need in demands if need.content & METADATA}
    assert [(6, 7, (20, 0))] == [(need.first, need.last, need.sizes) for need in unserved]


def test_numbers_as_text() -> None:
    """Means may have a fraction, and are rounded up; nothing else is a number."""
    assert [5, 6, 0] == [read_number(text, "a size", 9) for text in ("5", "5.01", "0.0")]
    for text in ("", "-1", "1e3", "10", None, "4.x"):
        with pytest.raises(ValueError, match="size"):
            read_number(text, "a size", 9)


# -- the balance ----------------------------------------------------------------------------------------------------


CLASSES = st.lists(
    st.builds(
        Class,
        st.sets(st.sampled_from(PEERS), min_size=1).map(lambda names: tuple(sorted(names))),
        st.integers(0, 10**6),
        st.just(True),
    ),
    min_size=1,
    max_size=8,
)
TERMS = st.fixed_dictionaries({name: st.builds(PeerTerms, st.integers(1, 20), st.integers(0, 3)) for name in PEERS})


def best_bound(classes: list[Class], terms: dict[str, PeerTerms]) -> Fraction:
    """The best bound of all sets of peers: the optimum."""
    subsets = chain.from_iterable(combinations(PEERS, count) for count in range(1, len(PEERS) + 1))
    return max(
        Fraction(
            sum(item.amount for item in classes if set(item.members) <= set(subset)),
            sum(terms[name].capacity for name in subset),
        )
        for subset in subsets
    )


@settings(max_examples=60, deadline=None)
@given(CLASSES, TERMS)
def test_the_balance_is_nearly_the_best_there_is(classes: list[Class], terms: dict[str, PeerTerms]) -> None:
    """The bound is the best of all sets of peers or close to it, never more; without costs the load is close, too."""
    plain = {name: PeerTerms(term.capacity) for name, term in terms.items()}
    found = balance(classes, plain)
    best = best_bound(classes, plain)
    assert [item.amount for item in classes] == [sum(share) for share in found.shares]
    loads = load_of(classes, found.shares)
    most = max((Fraction(load, plain[name].capacity) for name, load in loads.items()), default=Fraction(0))
    assert found.load_bound <= best <= most
    assert most <= best * Fraction(102, 100) + 16
    assert best <= found.load_bound * Fraction(102, 100)


def load_of(classes: list[Class], shares: list[list[int]]) -> Counter[str]:
    """What each peer gives."""
    loads: Counter[str] = Counter()
    for item, share in zip(classes, shares, strict=True):
        loads.update(dict(zip(item.members, share, strict=True)))
    return loads


@settings(max_examples=30, deadline=None)
@given(CLASSES, TERMS, st.sampled_from([None, 10.0**5]))
def test_costs(classes: list[Class], terms: dict[str, PeerTerms], limit: float | None) -> None:
    """Within the limit on loads, a plan with costs is not dearer than one without, nor cheaper than its bound."""
    found = balance(classes, terms, limit=limit)
    loads = load_of(classes, found.shares)
    cost = sum(load * terms[name].cost for name, load in loads.items())
    most = max((load / terms[name].capacity for name, load in loads.items()), default=0)
    assert most <= found.limit * 1.02 + 16
    if most <= found.limit:
        assert cost >= found.cost_bound * (1 - 1e-9) - 1e-6


def test_a_cheap_peer_is_used_up_first() -> None:
    """With room in its capacity the cheap peer gives all; with less, all that it may; the bound says the same."""
    terms = {"a": PeerTerms(1000, 1.0), "b": PeerTerms(1000, 3.0)}
    everything = Class(("a", "b"), 900)
    assert [[900, 0]] == balance([everything], terms, limit=1.0).shares
    more = balance([Class(("a", "b"), 1500)], terms, limit=1.0)
    assert more.shares[0][0] == pytest.approx(1000, rel=0.03)
    assert more.cost_bound == pytest.approx(1000 + 3 * 500, rel=0.01)


def test_the_bound_with_classes_that_lack_members() -> None:
    """A class some of whose members were left out proves nothing, and is shared out all the same."""
    classes = [Class(("a", "b"), 1000, is_whole=False), Class(("b",), 100)]
    found = balance(classes, dict.fromkeys("ab", PeerTerms()))
    assert 100 == found.load_bound
    assert 550 == pytest.approx(found.shares[0][0], rel=0.01)
    assert 0 == balance(classes[:1], dict.fromkeys("ab", PeerTerms(cost=2.0))).cost_bound


# -- on Spark -------------------------------------------------------------------------------------------------------


def table(spark: SparkSession, rows: Iterable[tuple[str, int, str]], partitions: int = 2) -> DataFrame:
    """A table of peers, logs and ranges as text."""
    full = [(peer, bytearray(AUTHOR), Decimal(log), text) for peer, log, text in rows]
    return spark.createDataFrame(full, TABLE).repartition(partitions)


def rows_of(found: DataFrame) -> list[tuple[Any, ...]]:
    """The rows in a fixed order, bytes as bytes."""
    plain = [tuple(bytes(cell) if isinstance(cell, bytearray) else cell for cell in row) for row in found.collect()]
    return sorted(plain, key=repr)


def test_a_plan_on_spark(spark: SparkSession) -> None:
    """A small plan, worked out by hand: each gets what it lacks, the load is even, the rest is said to be nowhere."""
    have = table(spark, [("a", 2**64 - 1, "1..100"), ("b", 2**64 - 1, "1..100"), ("a", 7, "1..10")])
    want = table(spark, [("c", 2**64 - 1, "1.."), ("b", 7, "5..12"), ("a", 7, "1..")])
    sizes = spark.createDataFrame(
        [(bytearray(AUTHOR), 2**63 - 1, 1, 1)], "author BINARY, log_id BIGINT, metadata_bytes INT, payload_bytes INT"
    )
    found = plan(spark, have, want, sizes=sizes, metadata_bytes=100, payload_bytes=900, buckets=4)
    # b lacks 5 to 10 of log 7, and two certificates' metadata; only a has them.
    alone = 6 * 1000 + 2 * 100
    gives: Counter[str] = Counter()
    fetched: defaultdict[tuple[str, Decimal], set[Item]] = defaultdict(set)
    for row in found.transfers.collect():
        gives[row.source] += int(row.bytes)
        for item in items_of([decode(bytes(row.range))], 200, certificates=True):
            assert item not in fetched[row.requester, row.log_id]
            fetched[row.requester, row.log_id].add(item)
    assert 200 == len(fetched["c", Decimal(2**64 - 1)])
    assert {1, 4} == {seq for seq, _ in fetched["b", Decimal(7)]} - set(range(5, 11))
    summary = found.summary()
    assert 100_000 + alone == gives["a"] + gives["b"] == summary.bytes_bound
    assert (100_000 + alone) / 2 == summary.load_bound <= summary.load <= summary.load_bound + 500
    assert max(gives.values()) == summary.load
    assert [("b", AUTHOR, Decimal(7), 2, NOBODY)] == [
        (row.requester, bytes(row.author), row.log_id, int(row.entries), row.reason) for row in found.unserved.collect()
    ]


def test_the_plan_does_not_depend_on_the_partitions(spark: SparkSession) -> None:
    """However the rows are distributed and ordered, the plan is the same, to the last row."""
    have = [(peer, log, f"{1 + log}..{40 + at}") for log in range(40) for at, peer in enumerate("abc")]
    want = [(peer, log, "1..") for log in range(40) for peer in "bcde"]
    plans = [
        plan(spark, table(spark, rows, count), table(spark, want[::step], count), rounds=2, buckets=4)
        for rows, step, count in ((have, 1, 1), (have[::-1], -1, 5))
    ]
    one, other = (rows_of(found.transfers) for found in plans)
    assert one == other
    gives: Counter[str] = Counter()
    for _, source, *_, size in one:
        gives[source] += int(size)
    assert plans[0].summary().bytes_bound == sum(gives.values())
    assert max(gives.values()) <= float(plans[0].balance.load_bound) * TOLERANCE + 2 * 4 * 1300


def test_bad_rows_are_rejects(spark: SparkSession) -> None:
    """A row that cannot be read does not stop the plan; it is told with its reason."""
    have = spark.createDataFrame(
        [
            ("a", author_text(AUTHOR), "1", "1..5"),
            ("a", "nobody", "1", "1..5"),
            ("a", AUTHOR.hex(), "-1", "1..5"),
            ("a", AUTHOR.hex(), "1", "5.."),
            ("", AUTHOR.hex(), "1", "1..5"),
            (None, AUTHOR.hex(), None, None),
        ],
        "peer STRING, author STRING, log_id STRING, ranges STRING",
    )
    good = RangeSet([Range(1, 5)]).encode()
    want = spark.createDataFrame(
        [("b", bytearray(AUTHOR), 1, bytearray(good)), ("b", bytearray(AUTHOR), 1, bytearray(b"\x05\x00"))],
        "peer STRING, author BINARY, log_id INT, ranges BINARY",
    )
    found = plan(spark, have, want, buckets=4)
    assert [("b", "a", 5)] == [(row.requester, row.source, int(row.entries)) for row in found.transfers.collect()]
    rejects = {(row.given, row.ranges, row.reason) for row in found.rejects.collect()}
    assert 6 == len(rejects)
    assert {"have", "want"} == {name for name, _, _ in rejects}
    assert ("have", "5..", "an open range cannot be held: give it an end") in rejects
    assert any(text == "0500" for _, text, _ in rejects)


def test_a_peer_that_may_upload_nothing_is_no_source(spark: SparkSession) -> None:
    """A capacity of 0 counts also where peers without a row have another one: who has it gives nothing."""
    have = table(spark, [("a", 1, "1..10"), ("b", 1, "1..4")])
    peers = spark.createDataFrame([("a", 0)], "peer STRING, capacity INT")
    found = plan(spark, have, table(spark, [("c", 1, "1..10")]), peers=peers, capacity=10**6, buckets=4)
    assert [("c", "b", 4)] == [(row.requester, row.source, int(row.entries)) for row in found.transfers.collect()]
    assert [("c", 6, SILENT)] == [(row.requester, int(row.entries), row.reason) for row in found.unserved.collect()]


def test_wrong_tables_are_refused(spark: SparkSession) -> None:
    """Missing columns, wrong types and senseless capacities are one line, before any job."""
    good = table(spark, [("a", 1, "1..5")])
    with pytest.raises(ConfigError, match="the table 'have' needs a column 'ranges'"):
        plan(spark, good.drop("ranges"), good)
    with pytest.raises(ConfigError, match="the column 'log_id' of the table 'want' cannot be of the type DOUBLE"):
        plan(spark, good, good.selectExpr("peer", "author", "CAST(log_id AS DOUBLE) AS log_id", "ranges"))
    with pytest.raises(ConfigError, match="at least one round"):
        plan(spark, good, good, rounds=0)
    for rows, reason in (
        ([("a", -1)], "'a' has the capacity -1"),
        ([("a", 1), ("a", 2)], "has 'a' twice"),
        ([(None, 1)], "None has the capacity 1"),
    ):
        with pytest.raises(ConfigError, match=reason):
            plan(spark, good, good, peers=spark.createDataFrame(rows, "peer STRING, capacity INT"))
    with pytest.raises(ConfigError, match="no column 'capacity'"):
        plan(spark, good, good, peers=good.select("peer"))
    dear = spark.createDataFrame([("a", 1, "much")], "peer STRING, capacity INT, cost STRING")
    with pytest.raises(ConfigError, match="the cost 'much'"):
        plan(spark, good, good, peers=dear)


def test_the_command(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From files to a folder of tables: capacities are kept to, what is silent is no source, the summary is printed."""
    assert spark is not None
    author = author_text(AUTHOR)
    (tmp_path / "have.csv").write_text(f"peer,author,log_id,ranges\na,{author},1,1..10\nb,{author},1,1..4; 6..10\n")
    wanted = [{"peer": "c", "author": AUTHOR.hex(), "log_id": 1, "ranges": "1..10"}]
    (tmp_path / "want.jsonl").write_text("".join(json.dumps(row) + "\n" for row in wanted))
    (tmp_path / "peers.csv").write_text("peer,capacity,cost\nb,20000,1.5\n")
    call = [
        "spark",
        "plan",
        *(
            f"--{name}={tmp_path / file}"
            for name, file in (("have", "have.csv"), ("want", "want.jsonl"), ("peers", "peers.csv"), ("output", "out"))
        ),
    ]
    arguments = make_parser().parse_args([*call, "--buckets=4", "--json"])
    assert 0 == arguments.run(arguments)
    summary = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert "plan" == written.pop("made")["command"]
    assert summary == written
    assert (9 * 1300, 1) == (summary["bytes"], summary["unserved"])
    assert 9 * 1300 / 20000 == summary["load"] == summary["load_bound"]
    assert 9 * 1300 * 1.5 == summary["cost"] == summary["cost_bound"]
    assert {"transfers", "unserved", "loads", "rejects", "summary.json"} == {
        path.name for path in (tmp_path / "out").iterdir()
    }
    loads = read_rows(spark, tmp_path / "out" / "loads").collect()
    assert {("a", 0, 0), ("b", 11700, 20000), ("c", 0, 0)} == {
        (row.peer, int(row.gives), int(row.capacity)) for row in loads
    }
    with pytest.raises(ConfigError, match="is there already"):
        arguments.run(arguments)
    arguments.want = arguments.have
    with pytest.raises(ConfigError, match="the same table"):
        arguments.run(arguments)


def test_paths_that_cannot_work(tmp_path: Path) -> None:
    """A path that is not there, or of no kind that is known, is refused by name."""
    with pytest.raises(ConfigError, match="missing: there is no such file or folder"):
        run_plan(str(tmp_path / "missing"), str(tmp_path), tmp_path / "out")
    (tmp_path / "x.txt").touch()
    with pytest.raises(ConfigError, match=r"x\.txt: not a table"):
        read_rows(None, tmp_path / "x.txt")  # type: ignore[arg-type]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").touch()
    with pytest.raises(ConfigError, match="is inside the output"):
        run_plan(str(tmp_path / "out"), str(tmp_path), tmp_path / "out", overwrite=True)
