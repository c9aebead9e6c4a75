"""``python -m soak --minutes 30``: run three nodes for so long, and print what they used and whether they agree.

Alice lives from beginning to end; Bob and Carol are stopped, or killed, and started again every few minutes. Alice
calls Bob by ``culm://``; Bob calls Carol by ``bushbaby://``; Carol calls Alice by ``proposals://`` and Bob by
``culm://``; Alice calls Carol by ``intervals://``; now and then somebody compares two of them by ``negentropy://``. The
exit code is 1 if memory or handles grew, if the nodes do not come to hold the same, if anything that was published is
not there, or if a node logged trouble of its own.
"""

from __future__ import annotations

import argparse
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from culm.testing import LogBuilder
from soak.course import LOGS, Course
from soak.figures import tenths, verdict
from soak.holdings import differences, holdings
from soak.nodes import SCHEMES, NodeFailed, SoakNode, run

_SAMPLE_SECONDS = 1.0
_SETTLE_SECONDS = 240.0
_TOLD_SECONDS = 60.0
_NAMES = ("alice", "bob", "carol")
_CALLS = (
    ("alice", "bob", "culm"),
    ("bob", "carol", "bushbaby"),
    ("carol", "alice", "proposals"),
    ("alice", "carol", "intervals"),
    ("carol", "bob", "culm"),
)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [opened.getsockname()[1] for opened in sockets]


def make_nodes(folder: Path, rng: random.Random, entries: int) -> list[SoakNode]:
    """Three nodes that call each other, each with logs to begin with: more than SQLite keeps in memory."""
    ports = free_ports(len(_NAMES) * len(SCHEMES))
    nodes = {}
    for name in _NAMES:
        of_node = {scheme: ports.pop() for scheme in SCHEMES}
        nodes[name] = SoakNode(name, folder, rng.randbytes(32), of_node)
        with nodes[name].home.store() as store:
            for log_id in LOGS:
                log = LogBuilder(nodes[name].identity, log_id)
                for _ in range(entries // len(LOGS)):
                    log.append(rng.randbytes(rng.randrange(600)))
                store.add(log.items(), authenticated=True)
    for caller, called, scheme in _CALLS:
        nodes[caller].peers.append(nodes[called].url(scheme))
    return list(nodes.values())


class Sampler:
    """Notes what nodes use, once a second, on a thread of its own."""

    def __init__(self, nodes: list[SoakNode]) -> None:
        self._nodes = nodes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            for node in self._nodes:
                node.sample()

    def stop(self) -> None:
        """Note no more."""
        self._stop.set()
        self._thread.join()


def settle(nodes: list[SoakNode], course: Course) -> tuple[list[str], float]:
    """Wait until all nodes hold the same: what differs in the end, and how many seconds it took."""
    began = time.monotonic()
    course.follow_everything()
    while True:
        for node in nodes:
            node.check_alive()
        found = differences({node.name: holdings(node.home.store_path) for node in nodes})
        if not found or time.monotonic() - began > _SETTLE_SECONDS:
            return found, time.monotonic() - began
        time.sleep(1)


def soak(nodes: list[SoakNode], course: Course, minutes: float, pause: float, rng: random.Random) -> list[str]:
    """Run it; what is wrong at the end. Prints figures."""
    for node in nodes:
        node.start()
    sampler = Sampler(nodes)
    began = told = time.monotonic()
    try:
        while (now := time.monotonic()) < began + minutes * 60:
            course.step()
            for node in nodes:
                node.check_alive()
            if now - told > _TOLD_SECONDS:
                told = now
                print(f"{(now - began) / 60:.0f} min: {dict(course.done)}", file=sys.stderr, flush=True)
            time.sleep(rng.expovariate(1 / pause))
        ended = time.monotonic()
    finally:
        sampler.stop()
    print(f"{(ended - began) / 60:.1f} minutes: {', '.join(f'{count} {what}' for what, count in course.done.items())}")
    found, seconds = settle(nodes, course)
    print(f"after {seconds:.0f} s the nodes hold {'other things' if found else 'the same'}")
    for node in nodes:
        node.stop()
    for node in nodes:
        compared = verdict(node, began, ended)
        print(compared.text())
        means = " ".join(f"{mean:.1f}" for mean in tenths(node, began, ended))
        print(f"{node.name}: MiB by tenths of the run: {means}")
        found += [] if compared.good else [f"{node.name}: memory or handles"]
        print(f"{node.name}: {node.cpu:.0f} CPU seconds, slowest stop {node.slowest_stop:.1f} s")
        found += [f"{node.name} logged: {line}" for line in node.troubles()]
    return found + check(nodes, course)


def check(nodes: list[SoakNode], course: Course) -> list[str]:
    """What is wrong with the homes, once the nodes have ended."""
    found = []
    for node in nodes:
        try:
            run(node.home, "doctor")
            print(f"{node.name}: {run(node.home, 'verify').strip()}")
        except NodeFailed as error:
            found.append(f"{node.name}: {error}")
        held = holdings(node.home.store_path)
        lacking = sum(
            (there := held.get(place)) is None or there.hash != digest for place, digest in course.promised.items()
        )
        if lacking:
            found.append(f"{node.name} lacks {lacking} of {len(course.promised)} entries that were published")
    return found


def main() -> int:
    """Read the arguments, and do it."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: %(default)s)")
    parser.add_argument("--life", type=float, default=180.0, help="seconds Bob and Carol live (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between two events (default: %(default)s)")
    parser.add_argument("--entries", type=int, default=8000, help="of each node to begin with (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the course (default: by chance)")
    parser.add_argument("--folder", type=Path, help="where to work (default: where temporary files go)")
    arguments = parser.parse_args()
    seed = random.SystemRandom().getrandbits(31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="culm-soak-", dir=arguments.folder))
    nodes = make_nodes(folder, rng, arguments.entries)
    try:
        found = soak(nodes, Course(nodes, folder, rng, arguments.life), arguments.minutes, arguments.pause, rng)
    except NodeFailed as error:
        found = [str(error)]
    finally:
        for node in nodes:
            if node.runs:
                node.kill()
    for line in found:
        print(f"WRONG: {line}")
    if found:
        print(f"kept: {folder}")
        return 1
    shutil.rmtree(folder)
    print("all is well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
