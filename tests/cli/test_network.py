"""``culm serve`` and ``culm sync`` as processes, over loopback."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from culm import SQLiteStore
from culm.testing import build_log
from culm.wire.places import author_text
from tests.cli.culm import Culm, start
from tests.patience import PATIENCE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

LISTEN = "bushbaby://127.0.0.1:0"


@contextmanager
def serving(home: Path, *arguments: object) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A node in a process of its own: its address, and the process."""
    process = start(home, "serve", "--clump", "x", "--listen", LISTEN, *arguments)
    try:
        assert process.stdout is not None
        word, url = process.stdout.readline().split()
        assert word == "listening"
        yield url, process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def test_a_sync_between_processes(culm: Culm) -> None:
    """Two homes end with the same logs; the summary counts what went each way."""
    bob = culm.at("bob")
    bob("init")
    culm("append", 1, "--text", "from alice")
    bob("append", 1, "--text", "from bob")
    bob("append", 1, "--text", "more from bob")
    with serving(culm.home) as (url, process):
        summary = bob("sync", url, "--clump", "x", "--json").json
        assert (summary["entries_received"], summary["entries_sent"]) == (1, 2)
        assert summary["bytes_received"] > 0
        assert summary["bytes_sent"] > 0
        assert summary["seconds"] > 0
        assert bob.held() == culm.held()
        assert "received 0 entries" in bob("sync", url, "--clump", "x").out
        wrong = bob("sync", url, "--clump", "y")
        assert (wrong.code, wrong.err.count("\n")) == (3, 1)
        assert "another clump" in wrong.err
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_nodes_keep_up_with_each_other_live(culm: Culm) -> None:
    """An entry appended while two nodes are in contact reaches the other without a sync."""
    bob = culm.at("bob")
    bob("init")
    culm("append", 1, "--text", "before")
    with serving(culm.home) as (url, _), serving(bob.home, "--peer", url):
        for number in (1, 2, 3):
            culm("append", 1, "--text", f"news {number}")
            while not any(log["newest"] == number + 1 for log in bob("logs", "--json").json):
                pass


def test_what_is_known_of_peers_stays_in_the_home(culm: Culm, caplog: pytest.LogCaptureFixture) -> None:
    """A sync keeps it and takes it up; a damaged file costs one line; a backup leaves it out."""
    bob = culm.at("bob")
    bob("init")
    known = bob.home / "peers.json"
    with serving(culm.home) as (url, _):
        assert bob("sync", url, "--clump", "x").code == 0
        address = url.removeprefix("bushbaby://")
        assert json.loads(known.read_text())["dialects"][address]["dialect"] == "deployed"
        known.write_text("{")
        assert bob("doctor").code == 1
        assert bob("sync", url, "--clump", "x").code == 0
        assert bob("doctor").code == 0
        assert [record.message.partition(":")[0] for record in caplog.records] == ["what was known of peers is lost"]
        assert [*json.loads(known.read_text())["dialects"]] == [address]
    assert bob("backup", culm.home.parent / "kept").code == 0
    assert not (culm.home.parent / "kept" / "peers.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_stops_cleanly(culm: Culm, number: int) -> None:
    """SIGINT and SIGTERM end a node with exit code 0 and no word."""
    with serving(culm.home) as (_, process):
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (0, "", "")


def test_an_interrupted_sync(culm: Culm) -> None:
    """Ctrl-C in a sync is one line, and what was stored is kept."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = start(culm.home, "sync", f"bushbaby://127.0.0.1:{silent.getsockname()[1]}", "--clump", "x")
        peer, _ = silent.accept()
        with peer:
            peer.recv(98)  # its HELLO: it is under way
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err.count("\n")) == (130, 1)
    assert "interrupted" in err
    assert culm("verify").code == 0


def test_a_sync_that_is_killed_goes_on(culm: Culm) -> None:
    """Killed in the middle, a sync leaves a good store, and the next one fetches the rest and nothing twice."""
    log = build_log(3000, payload_size=100)
    with SQLiteStore(culm.home / "store.db") as store:
        store.add(log.items(), authenticated=True)
    bob = culm.at("bob")
    bob("init")

    def stored() -> int:
        with SQLiteStore(bob.home / "store.db", read_only=True) as store:
            return sum(summary.entries for summary in store.logs())

    with serving(culm.home) as (url, _):
        process = start(bob.home, "sync", url, "--clump", "x")
        while stored() < 300 and process.poll() is None:
            pass
        process.kill()
        process.communicate(timeout=PATIENCE)
        before = stored()
        assert bob("verify").code == 0
        summary = bob("sync", url, "--clump", "x", "--json").json
        assert summary["entries_received"] == 3000 - before
        assert stored() == 3000


@pytest.mark.parametrize("sender", ["alice", "bob"])
def test_a_connection_that_is_worn_out_is_made_anew(culm: Culm, sender: str) -> None:
    """More messages than one connection carries: the sync connects again and goes on, whoever sends."""
    bob = culm.at("bob")
    bob("init")
    log = build_log(300, payload_size=70_000)
    with SQLiteStore(culm.at(sender).home / "store.db") as store:
        store.add(log.items(), authenticated=True)
    limit = ("--limit", "max_boxes=500")
    with serving(culm.home, "-v", *limit) as (url, process):
        summary = bob("sync", url, "--clump", "x", "--json", *limit)
        assert summary.code == 0, summary
        assert summary.json["entries_received"] + summary.json["entries_sent"] == 300
        assert bob.held() == culm.held()
        process.send_signal(signal.SIGTERM)
        _, log_lines = process.communicate(timeout=PATIENCE)
    assert log_lines.count("the peer ended the session") > 1


def test_nobody_there(culm: Culm) -> None:
    """An address where nobody listens, and a name that does not resolve: one line and exit code 3."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for host in (f"127.0.0.1:{port}", "no-such-host.invalid:7878"):
        result = culm("sync", f"bushbaby://{host}", "--clump", "x")
        assert (result.code, result.err.count("\n")) == (3, 1), result


def test_a_port_in_use(culm: Culm) -> None:
    """A port that is taken: one line and exit code 2."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = culm("serve", "--clump", "x", "--listen", f"bushbaby://127.0.0.1:{taken.getsockname()[1]}")
    assert (result.code, result.err.count("\n")) == (2, 1), result
    assert "another program listens there" in result.err


def test_a_peer_that_talks_nonsense(culm: Culm) -> None:
    """Something else at the other end: one line and exit code 3."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = start(culm.home, "sync", f"bushbaby://127.0.0.1:{server.getsockname()[1]}", "--clump", "x")
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err.count("\n")) == (3, 1)


def test_the_summary_is_json_even_in_the_logs(culm: Culm) -> None:
    """With ``--json`` stdout holds JSON objects, one a line, and nothing else; the summary is the last."""
    bob = culm.at("bob")
    bob("init")
    with serving(culm.home) as (url, _):
        process = start(bob.home, "sync", url, "--clump", "x", "--json", "-v")
        out, _ = process.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["type"] for line in lines] == ["progress"] * (len(lines) - 1) + ["summary"]
    assert lines[-1]["entries_received"] == 0


def test_comparing_a_store_with_a_node(culm: Culm) -> None:
    """``culm reconcile`` with a listener says what either side lacks; what it cannot do is one line and exit code 2."""
    bob = culm.at("bob")
    bob("init")
    culm("append", 1, "--text", "from alice")
    bob("append", 1, "--text", "from bob")
    culm("export", "-o", culm.home / "all.logs")
    bob("import", culm.home / "all.logs", "--clump", "x")
    culm("append", 1, "--text", "more from alice")
    with serving(bob.home, "--listen", "negentropy://127.0.0.1:0") as (_, process):
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        result = culm("reconcile", culm.home, url, "--json").json
        assert culm("reconcile", url.replace("negentropy", "tcp"), culm.home, "--json").json == result
        assert set(result["views"]) == {"entries", "payloads", "heads"}
        (log,) = result["logs"]
        assert (log["peer_lacks_entries"], log["peer_lacks_payloads"], log["heads_differ"]) == (1, 1, True)
        assert result["store_lacks"] == {"entries": 1, "payloads": 1, "heads": 2}
        assert len(result["store_lacks_ids"]["entries"][0]) == 64
        text = culm("reconcile", culm.home, url, "--split", "newest").out
        assert "the store lacks 1 entry and 1 payload" in text
        assert "peer lacks entries" in text
        assert "the peer has everything" in bob("reconcile", bob.home, url).out
        refused = culm("reconcile", culm.home, url, "--apply")
        assert (refused.code, refused.err.count("\n")) == (3, 1)
        assert "compares and moves nothing" in refused.err
        both = culm("reconcile", url, url)
        assert (both.code, "at most one side" in both.err) == (2, True)
    gone = culm("reconcile", culm.home, url)
    assert (gone.code, gone.err.count("\n")) == (3, 1)


def test_moving_what_a_node_lacks_and_has(culm: Culm) -> None:
    """``culm reconcile --apply`` with a node that listens at intervals://, too, moves what differs, both ways.

    What the home at hand does not share stays there, and the comparison does not show it either.
    """
    bob = culm.at("bob")
    bob("init")
    culm("append", 1, "--text", "from alice")
    culm("append", 2, "--text", "alice keeps this")
    bob("append", 1, "--text", "from bob")
    culm("unshare", culm("identity", "show").out.strip() + "/2", "--clump", "")
    with serving(bob.home, "--listen", "negentropy://127.0.0.1:0", "--listen", "intervals://127.0.0.1:0") as (_, node):
        assert node.stdout is not None
        url = node.stdout.readline().split()[1]
        result = culm("reconcile", url, culm.home, "--apply", "--json").json
        assert result["applied"] == {"received": 1, "sent": 1}
        assert (result["store_lacks"]["entries"], len(result["logs"])) == (1, 1)
        assert "received 0 entries, sent 0" in culm("reconcile", culm.home, url, "--apply").out
        assert culm("reconcile", culm.home / "store.db", url).code == 0  # A store's file, outside of any home.
    assert {row["log_id"] for row in culm("logs", "--json").json} == {1, 2}
    assert [row["log_id"] for row in bob("logs", "--json").json] == [1, 1]


def test_what_is_held_outside_of_a_clump(culm: Culm) -> None:
    """What ``--apply`` fetched without a clump is lacking in a clump, and the next comparison says that it is held."""
    bob = culm.at("bob")
    bob("init")
    culm("append", 1, "--text", "from alice")
    with serving(culm.home, "--listen", "negentropy://127.0.0.1:0") as (_, node):
        assert node.stdout is not None
        url = node.stdout.readline().split()[1]
        with socket.create_server(("127.0.0.1", 0)) as free:
            other = f"negentropy://127.0.0.1:{free.getsockname()[1]}"
        culm("export", "-o", culm.home / "logs")
        bob("import", culm.home / "logs")
        said = bob("reconcile", bob.home, url, "--clump", "x").out
        gone = bob("reconcile", bob.home, other, "--clump", "x")
    assert "lacks 1 entry and 1 payload that the peer has\n  but holds 1 entry of that outside of this clump: " in said
    assert "entries: 1 round, " in said
    assert (3, f"culm: cannot reach {other}: Connection refused\n") == (gone.code, gone.err)


def test_a_listener_that_cannot_know_its_callers(culm: Culm) -> None:
    """With an allow list nothing is shown to callers that do not prove who they are."""
    culm("allow", "peer", "00" * 32, "--clump", "x")
    result = culm("serve", "--clump", "x", "--listen", "negentropy://127.0.0.1:0")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "list of allowed peers" in result.err


def test_a_peer_that_comes_back_is_reached_again(culm: Culm) -> None:
    """A node that is away and comes back at the same place is found by itself, and what is new passes on."""
    bob = culm.at("bob")
    bob("init")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    listen = ("--listen", f"bushbaby://127.0.0.1:{port}")
    with serving(bob.home, "--peer", f"bushbaby://127.0.0.1:{port}", "--interval", 0.2):
        for number in (1, 2):
            culm("append", 1, "--text", f"news {number}")
            with serving(culm.home, *listen):
                while not any(log["newest"] == number for log in bob("logs", "--json").json):
                    pass


def test_whoever_breaks_the_rules_is_refused_for_a_while(culm: Culm) -> None:
    """One who sends nonsense is dropped and its address refused; a node that proves itself good gets in meanwhile."""
    bob = culm.at("bob")
    bob("init")
    with serving(culm.home, "--listen", "intervals://127.0.0.1:0", "--log-format", "json") as (url, process):
        assert process.stdout is not None
        other = process.stdout.readline().split()[1]
        assert bob("sync", url, "--clump", "x").code == 0
        culm("append", 1, "--text", "news")
        assert bob("sync", url, "--clump", "x").code == 0  # it is known now
        host, _, port = other.removeprefix("intervals://").rpartition(":")
        for _ in range(2):
            with suppress(ConnectionError), socket.create_connection((host, int(port)), timeout=PATIENCE) as rogue:
                rogue.sendall(b"\xff" * 1000)
                while rogue.recv(4096):
                    pass
        culm("append", 1, "--text", "more")
        assert bob("sync", url, "--clump", "x").code == 0
        assert bob("sync", other, f"{culm('logs', '--json').json[0]['author']}/1").code == 3
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["event"] for line in lines][:2] == ["dropped the peer", "refusing address 127.0.0.1 for 10 s"]
    assert all(line["reason"] and line["peer"].startswith("127.0.0.1:") for line in lines)


def test_an_allow_list_goes_for_a_running_node(culm: Culm) -> None:
    """Once somebody is allowed, a running node drops and refuses all others, and all who cannot prove who they are."""
    bob = culm.at("bob")
    bob("init")
    culm("append", 1, "--text", "news")
    log = f"{culm('logs', '--json').json[0]['author']}/1"
    with serving(culm.home, "--listen", "intervals://127.0.0.1:0") as (url, process):
        assert process.stdout is not None
        other = process.stdout.readline().split()[1]
        live = start(bob.home, "sync", other, log, "--live", "--clump", "x")
        assert bob("sync", url, "--clump", "x").code == 0
        assert bob("sync", other, log, "--clump", "x").code == 0
        culm("allow", "peer", "a" * 43, "--clump", "x")
        assert live.wait(PATIENCE) == 3
        live.communicate()
        while bob("sync", other, log, "--clump", "x").code == 0:
            pass
        assert bob("sync", url, "--clump", "x").code == 3
        culm("allow", "peer", bob("identity", "show").out.strip(), "--clump", "x")
        while bob("sync", url, "--clump", "x").code != 0:
            pass


def test_a_sync_that_finds_a_fork(culm: Culm, tmp_path: Path) -> None:
    """A fork is the author's doing: the sync that finds it has done its work, and ends with 0 and a warning.

    The warning names the log, by its author's name here, and the entry. The next sync finds nothing new, and is silent.
    """
    log, bob = build_log(10), culm.at("bob")
    bob("init")
    other = log.make(6, b"other")
    for home, entries in ((culm, [*log.entries, other]), (bob, log.entries[:5])):
        (tmp_path / "file").write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in entries))
        home("import", tmp_path / "file", "--clump", "x")
    key = author_text(log.identity.public)
    bob("name", key, "mallory")
    carol = culm.at("carol")
    carol("init")
    with serving(culm.home) as (url, _):
        done, again = bob("sync", url, "--clump", "x"), bob("sync", url, "--clump", "x")
        told = carol("sync", url, "--clump", "x", "--json").json
    assert (done.code, done.err) == (
        0,
        (
            f"warning: mallory/0 ({key[:8]}) is forked at entry 6: its author signed two histories; what comes before"
            " that entry stays valid, nothing from it on is trusted; culm doctor says what to do\n"
        ),
    )
    assert (again.code, again.err) == (0, "")
    assert {log["forked_at"] for log in bob("logs", "--json").json} == {6}
    assert told["forked"] == [f"{key}/0/6"]
