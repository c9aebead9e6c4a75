"""``culm demo``: the main job from end to end, as two people would do it.

Alice publishes; Bob fetches from her, is killed half way and goes on; a forged file is refused; Spark says which
entries can be trusted. Every step prints the commands that a person would type and what they print. The program stops
with exit code 1 at the first step that did not do what it says.

The homes lie in a folder of their own, which is removed at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from culm.bamboo import Identity
from culm.cli.command import EXIT_DATA, Commands
from culm.node.home import Home
from culm.store import ToolStore
from culm.store.files import EntryRecord, read_records

LOGS = {1: 700, 2: 600, 3: 699}  # log id: entries; one more entry holds the large payload
BIG_LOG = 2
BIG_BYTES = 20 * 1024 * 1024
TOTAL = sum(LOGS.values()) + 1
CLUMP = "demo"
_FOLDER_PARTS = len(Path(tempfile.gettempdir()).parts) + 1


class StepFailed(Exception):
    """A step did not do what it says."""


def register(commands: Commands) -> None:
    """Add the command of this module."""
    commands.add("demo", _demo)


def _demo(_: argparse.Namespace) -> int:
    """Run all steps; the exit code."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="culm-demo-") as name:
        folder = Path(name)
        server: subprocess.Popen[str] | None = None
        try:
            publish(folder)
            server, url = serve(folder)
            stored = sync_and_kill(folder, url)
            sync_again(folder, url, stored)
            compare(folder)
            refuse_forgery(folder)
            verify_on_spark(folder)
        except StepFailed as failure:
            print(f"\nFAILED: {failure}")
            return EXIT_DATA
        finally:
            if server is not None:
                server.send_signal(signal.SIGTERM)
                server.wait(10)
    print(f"\nAll steps done in {time.monotonic() - started:.0f} s.")
    return 0


def publish(folder: Path) -> None:
    """Alice makes three logs."""
    title("Alice publishes three logs")
    culm(folder, "alice", "init")
    culm(folder, "bob", "init")
    home = Home.find(str(folder / "alice"))
    rng = random.Random(1)  # noqa: S311 - payloads
    print(f"  appending {TOTAL - 1:,} readings with the library ...")
    with home.store() as store:
        identity = home.identity(None)
        for log_id, count in LOGS.items():
            for number in range(count // 2 if log_id == BIG_LOG else count):
                append_reading(store, identity, log_id, number, rng)
    big = folder / "video.bin"
    big.write_bytes(rng.randbytes(BIG_BYTES))
    culm(folder, "alice", "append", str(BIG_LOG), str(big))
    with home.store() as store:
        for number in range(LOGS[BIG_LOG] // 2, LOGS[BIG_LOG]):
            append_reading(store, identity, BIG_LOG, number, rng)
    print(culm(folder, "alice", "logs"), end="")
    check(count_entries(folder, "alice") == TOTAL, f"Alice holds {TOTAL:,} entries")


def append_reading(store: ToolStore, identity: Identity, log_id: int, number: int, rng: random.Random) -> None:
    """One sensor reading."""
    reading = json.dumps({"sensor": log_id, "reading": number, "celsius": round(rng.gauss(15, 5), 2)})
    store.append(identity, log_id, [reading.encode()])


def serve(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Alice's node, in a process of its own."""
    title("Alice's node listens")
    arguments = ("serve", "--clump", CLUMP, "--listen", "bushbaby://127.0.0.1:0")
    show_command("alice", arguments)
    server = subprocess.Popen(command(folder, "alice", *arguments), stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert server.stdout is not None  # noqa: S101 - it is a pipe
    line = server.stdout.readline().strip()
    print(f"  {line}")
    check(line.startswith("listening bushbaby://"), "the node accepts connections")
    return server, line.split()[1]


def sync_and_kill(folder: Path, url: str) -> int:
    """Bob fetches, and is killed when a good part has arrived; how many entries he had stored."""
    title("Bob fetches from Alice, and is killed half way")
    arguments = ("sync", url, "--clump", CLUMP)
    show_command("bob", arguments)
    client = subprocess.Popen(command(folder, "bob", *arguments), stdout=subprocess.PIPE, text=True)  # noqa: S603
    deadline = time.monotonic() + 60
    while count_entries(folder, "bob") < TOTAL // 3 and client.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    client.kill()
    check(
        client.wait() == -signal.SIGKILL,
        "Bob's process was killed with SIGKILL in the middle of the transfer",
    )
    stored = count_entries(folder, "bob")
    check(0 < stored < TOTAL, f"{stored:,} of {TOTAL:,} entries had been stored by then")
    return stored


def sync_again(folder: Path, url: str, stored: int) -> None:
    """Bob goes on where he was."""
    title("Bob runs the same command again")
    output = culm(folder, "bob", "sync", url, "--clump", CLUMP, "--json")
    summary = json.loads(output.splitlines()[-1])
    print(f"  {summary}")
    received = summary["entries_received"]
    check(count_entries(folder, "bob") == TOTAL, "Bob holds all entries now")
    check(
        received == TOTAL - stored,
        f"{received:,} entries were fetched: none of the {stored:,} stored before came again",
    )


def compare(folder: Path) -> None:
    """Both stores hold the same, and it is what Alice signed."""
    title("Both stores hold the same")
    print(culm(folder, "bob", "verify"), end="")
    logs = [json.loads(culm(folder, who, "logs", "--json", quiet=True)) for who in ("alice", "bob")]
    clumps = [{tuple(log.pop("clumps") or ["every"]) for log in each} for each in logs]
    check(logs[0] == logs[1], "Alice's and Bob's logs are the same")
    check(clumps == [{("every",)}, {(CLUMP,)}], "Alice's own logs are in every clump, Bob's in the one they came from")


def refuse_forgery(folder: Path) -> None:
    """An exported log, changed in one byte, does not get in."""
    title("A forged file is refused")
    export = folder / "alice.logs"
    culm(folder, "alice", "export", "-o", str(export))
    data = bytearray(export.read_bytes())
    with export.open("rb") as file:
        entries = (record for record in read_records(file) if isinstance(record, EntryRecord))
        victim = next(islice(entries, TOTAL // 4, None))
    data[victim.offset + len(victim.entry.encoded) - 1] ^= 1  # the last byte of a signature
    forged = folder / "forged.logs"
    forged.write_bytes(data)
    print("  (one bit of one signature in forged.logs was changed)")
    culm(folder, "carol", "init")
    result = run(folder, "carol", "import", str(forged))
    print("".join(f"  {line}\n" for line in (result.stdout + result.stderr).splitlines()[:4]), end="")
    check(result.returncode == 1, "the import ended with exit code 1")
    check("signature does not verify" in result.stderr, "it names the forged entry and the reason")


def verify_on_spark(folder: Path) -> None:
    """Spark's verdicts over both stores."""
    title("Spark says which entries can be trusted")
    if not is_installed("pyspark"):
        print("  (left out: Spark is not installed here; pip install 'culm[spark]' adds it)")
        return
    stores = [str(folder / who / "store.db") for who in ("alice", "bob")]
    place = ("--output", str(folder / "verdicts"), "--master", "local[*]")
    arguments = ("spark", "verify", "--input", *stores, *place)
    print(culm(folder, "alice", *arguments), end="")
    summary = json.loads((folder / "verdicts" / "summary.json").read_text())
    check(
        summary["entries"] == summary["verified"] == TOTAL,
        f"all {TOTAL:,} distinct entries of both stores are verified",
    )


def is_installed(package: str) -> bool:
    """Whether a package could be imported."""
    return importlib.util.find_spec(package) is not None


# -- running culm ------------------------------------------------------------------------------------------------


def command(folder: Path, who: str, *arguments: str) -> list[str]:
    """The command line that runs culm with somebody's home."""
    return [sys.executable, "-m", "culm.cli", "--home", str(folder / who), *arguments]


def run(folder: Path, who: str, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command, show it, wait for it."""
    if not quiet:
        show_command(who, arguments)
    environment = {key: value for key, value in os.environ.items() if key != "CULM_HOME"}
    return subprocess.run(  # noqa: S603 - our own program
        command(folder, who, *arguments),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )


def culm(folder: Path, who: str, *arguments: str, quiet: bool = False) -> str:
    """Run a command that must succeed; its output."""
    result = run(folder, who, *arguments, quiet=quiet)
    if result.returncode:
        msg = f"culm {shlex.join(arguments)} ended with exit code {result.returncode}: {result.stderr.strip()}"
        raise StepFailed(msg)
    return result.stdout


def count_entries(folder: Path, who: str) -> int:
    """How many entries somebody's store holds at this moment."""
    try:
        with Home(folder / who).store(read_only=True) as store:
            return sum(log.entries for log in store.logs())
    except sqlite3.Error:
        return 0


def title(text: str) -> None:
    """A step begins."""
    print(f"\n== {text}", flush=True)


def show_command(who: str, arguments: tuple[str, ...]) -> None:
    """The command as a person in that folder would type it."""
    short = (str(Path(*Path(word).parts[_FOLDER_PARTS:])) if word.startswith("/") else word for word in arguments)
    print(f"{who}$ culm {shlex.join(short)}", flush=True)


def check(condition: bool, text: str) -> None:
    """Say that something holds, or fail."""
    if not condition:
        raise StepFailed(text)
    print(f"  ok: {text}", flush=True)
