"""Progress: rates and times left, the bar on a terminal, lines of JSON for programs."""

from __future__ import annotations

import argparse
import io
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from culm import SQLiteStore
from culm.cli.progress import Meter, duration_text, progress_bar, sync_progress, tell_wrong, with_progress
from culm.node.home import Home
from culm.node.sessions.stats import SessionStats
from culm.node.sync import SyncSummary
from culm.testing import build_log
from culm.wire.places import author_text
from tests.cli.culm import Culm, start
from tests.cli.test_network import serving

if TYPE_CHECKING:
    from collections.abc import Iterable


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        """The time."""
        return self.now


STEPS = st.lists(st.tuples(st.floats(0, 20), st.integers(0, 1000), st.integers(0, 10**6)), min_size=1, max_size=30)


@settings(deadline=None)
@given(steps=STEPS, total=st.none() | st.integers(0, 20_000))
def test_readings_make_sense(steps: Iterable[tuple[float, int, int]], total: int | None) -> None:
    """Rates are never negative, nor more than went in all; what is done is never more than the total shown."""
    clock = Clock()
    meter = Meter(clock)
    entries = size = 0
    for seconds, more_entries, more_bytes in steps:
        clock.now += seconds
        entries, size = entries + more_entries, size + more_bytes
        reading = meter.read(entries, size, total)
        assert (reading.entries, reading.size) == (entries, size)
        assert reading.total is None if total is None else reading.total == max(total, entries)
        assert reading.bytes_per_second is None or 0 <= reading.bytes_per_second <= size / 0.5
        assert reading.seconds_left is None or reading.seconds_left >= 0
        assert len(meter._samples) <= 32


def test_a_steady_rate() -> None:
    """At a steady pace the rate is that pace and the time left what it takes."""
    clock = Clock()
    meter = Meter(clock)
    for second in range(1, 20):
        clock.now += 1
        meter.read(10 * second, 1000 * second, 400)
    clock.now += 1
    reading = meter.read(200, 20_000, 400)
    assert reading.bytes_per_second == pytest.approx(1000)
    assert reading.seconds_left == pytest.approx(20)
    assert [duration_text(seconds) for seconds in (7.9, 760, 11_100)] == ["0:07", "12:40", "3:05:00"]


def test_the_bar() -> None:
    """A terminal shows N of M and bytes; anything else shows nothing."""
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=140)
        with progress_bar("syncing", console) as bar:
            bar.update(3, 5000, 12)
        assert ("3 of 12 entries" in out.getvalue()) == terminal
        assert ("4.9 KiB" in out.getvalue()) == terminal
        assert terminal or not out.getvalue()


@pytest.mark.parametrize(("size", "is_shown"), [(40, True), (39, False)])
def test_a_long_payload(monkeypatch: pytest.MonkeyPatch, size: int, *, is_shown: bool) -> None:
    """Pieces are passed on as they are; from some size on the terminal shows how many bytes have gone."""
    monkeypatch.setattr("culm.cli.progress.LONG_BYTES", 40)
    out = io.StringIO()
    pieces = [b"a" * 30, b"b" * (size - 30)]
    assert list(with_progress(pieces, "appending", Console(file=out, force_terminal=True, width=140))) == pieces
    assert ("appending" in out.getvalue() and "40 B" in out.getvalue()) == is_shown
    assert bool(out.getvalue()) == is_shown


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--json`` there is at most one line a second, an object with counts, rates and times."""
    clock = Clock()
    with sync_progress(argparse.Namespace(json=True), "", clock=clock) as progress:
        for step in range(1, 26):
            clock.now += 0.125
            progress(SessionStats(entries_received=step, bytes_received=100 * step, missing=50))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["seconds"] for line in lines] == [1, 2, 3]
    last = lines[-1]
    assert (last["type"], last["entries"], last["entries_total"], last["bytes_per_second"]) == ("progress", 24, 50, 800)
    assert last["seconds_left"] == pytest.approx(26 / 8, abs=0.1)


@pytest.mark.parametrize("scheme", ["bushbaby", "intervals", "proposals"])
def test_a_slow_sync_tells_how_far_it_is(culm: Culm, scheme: str) -> None:
    """Every protocol: while a sync runs there are lines of progress that grow towards the summary."""
    bob = culm.at("bob")
    bob("init")
    log = build_log(400, payload_size=1000)
    with SQLiteStore(culm.home / "store.db") as store:
        store.add(log.items(), authenticated=True)
    slow = ("--limit", "max_send_rate=200000")
    with serving(culm.home, "--listen", f"{scheme}://127.0.0.1:0", *slow) as (url, source):
        assert source.stdout is not None
        named = []
        if scheme != "bushbaby":
            url = source.stdout.readline().split()[1]  # noqa: PLW2901 - the other listener
            named = [f"{log.identity.public.hex()}/0"]
        process = start(bob.home, "sync", url, *named, "--clump", "x", "--json")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    *lines, summary = [json.loads(line) for line in out.splitlines()]
    assert summary["type"] == "summary"
    assert summary["entries_received"] == 400
    assert lines
    assert all(line["type"] == "progress" and line["entries"] <= 400 for line in lines)
    received = [line["bytes_received"] for line in lines]
    assert received == sorted(received)
    # A peer that proposals bring everything of does not say beforehand how much that is.
    assert any(line["entries_total"] == (None if scheme == "proposals" else 400) for line in lines)


def test_what_went_wrong(culm: Culm, capsys: pytest.CaptureFixture[str]) -> None:
    """Refusals and forks are told with the names of the authors; of many forks the first ones, and how many more."""
    author = bytes(range(32))
    culm("name", author_text(author), "mallory")
    log, shown = (author, 7), f"({author_text(author)[:8]})"
    places = [f"{author_text(author)}/7/3: its size differs", "the waiting area is full: no room"]
    forked = {(author, number): 3 for number in range(25)}
    tell_wrong(Home(culm.home), SyncSummary(refused=places, forked=forked))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [f"refused mallory/7/3 {shown}: its size differs", f"refused {places[1]}"]
    assert lines[2 + log[1]].startswith(f"warning: mallory/7 {shown} is forked at entry 3: ")
    assert (len(lines), lines[-1]) == (23, "warning: 5 more logs are forked; culm logs shows which")
