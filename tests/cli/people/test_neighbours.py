"""``culm serve --lan`` and ``culm neighbours``: nodes on one network find each other, and no address is typed.

Specification: docs/specs/neighbours.md, "The MAC", "Finding", "Calling".
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, ClassVar

import pytest

from culm.errors import NetworkError
from culm.node.lan.multicast import Multicast
from culm.wire.announcement import Announcement, clump_key, seal
from culm.wire.places import author_text, parse_author
from tests.cli.culm import Culm, started
from tests.node.lan.test_multicast import multicast_works
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLUMP = "--clump-hex", bytes(range(16)).hex()
BOB, CAROL = b"b" * 32, b"c" * 32
HERE = "--lan-at", "127.0.0.1"
MOST_SECONDS = 10.0


@contextmanager
def serving(home: Path, *arguments: object) -> Iterator[str]:
    """A node in a process of its own that finds neighbours on the loopback; the address that it printed."""
    with started(home, "--lan", *HERE, *CLUMP, *arguments) as url:
        yield url


def entries(culm: Culm) -> int:
    """How many entries a home has."""
    return sum(log["entries"] for log in culm("logs", "--json").json)


def received_after(culm: Culm, number: int) -> float:
    """The seconds from ``culm init`` of two homes until the second one has received, with two commands in each."""
    alice, bob = culm.at(f"alice-{number}"), culm.at(f"bob-{number}")
    began = time.monotonic()
    assert alice("init").code == bob("init").code == 0
    with serving(alice.home) as url, serving(bob.home):
        alice("append", 1, "--text", "hello")  # So that there is something to receive.
        while entries(bob) < 1:
            assert time.monotonic() - began < PATIENCE
        took = time.monotonic() - began
        place = url.rpartition("@")[2]
        assert bob("neighbours", *HERE, *CLUMP).out == f"{url[len('culm://') : -len(place) - 1]}  {place}\n"
    return took


@pytest.mark.slow
def test_two_fresh_homes(culm: Culm) -> None:
    """From ``culm init`` to "received" with two commands in each home, within ten seconds, and no address typed.

    On a machine that is busy with other tests, starting four programs can take longer; then it is tried again.
    """
    if not multicast_works():
        pytest.skip("this machine has no multicast on its loopback")
    assert any(received_after(culm, number) < MOST_SECONDS for number in range(3))


# A machine on two networks, and on each of them another one. It prints a process of each, and ends with its stdin.
_MACHINES = """
set -e
ip link set lo up
echo $$
for net in 1 2; do
  unshare --net sleep infinity & other=$!
  others="$others $other"
  trap 'kill $others' EXIT
  while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
  ip link add here$net type veth peer name there
  ip link set there netns $other
  ip addr add 10.9.$net.1/24 dev here$net
  ip link set here$net up
  nsenter --net --target $other sh -c "ip link set lo up; ip addr add 10.9.$net.2/24 dev there; ip link set there up"
  echo $other
done
read end
"""


@pytest.fixture
def machines() -> Iterator[list[str]]:
    """Three machines as network namespaces, the first on two networks: how a command begins that runs in each."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        pytest.skip("this system has no tools for network namespaces")
    call = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", _MACHINES]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        assert made.stdin is not None
        found = [line.strip() for line in (made.stdout.readline() for _ in range(3))]
        if not all(found):
            pytest.skip("this system does not allow network namespaces")
        yield [f"nsenter --preserve-credentials --user --net --target {number}" for number in found]
        made.stdin.close()
        made.wait(PATIENCE)


@pytest.mark.slow
def test_three_machines(culm: Culm, machines: list[str]) -> None:
    """A machine on two networks finds a neighbour on each, and what one of them publishes reaches the other."""
    homes = [culm.at(name) for name in ("both", "left", "right")]
    running = []
    try:
        for home, machine in zip(homes, machines, strict=True):
            assert home("init").code == 0
            call = [*machine.split(), sys.executable, "-m", "culm.cli", "--home", str(home.home)]
            running.append(subprocess.Popen([*call, "serve", "--lan", *CLUMP], stdout=subprocess.DEVNULL))
        homes[1]("append", 1, "--text", "from the left")
        until = time.monotonic() + PATIENCE
        while entries(homes[2]) < 1:
            assert time.monotonic() < until
        call = [*machines[0].split(), sys.executable, "-m", "culm.cli", "--home", str(homes[0].home)]
        keys = [home("identity", "show").out.strip() for home in homes[1:]]
        expected, places = dict(zip(keys, ("10.9.1.2", "10.9.2.2"), strict=True)), dict[str, str]()
        while places != expected:  # A busy neighbour may take longer than the command waits.
            assert time.monotonic() < until, places
            listed = subprocess.run([*call, "neighbours", *CLUMP], capture_output=True, text=True, check=True).stdout
            places = {line.split("  ")[0]: line.split("  ")[1].split(":")[0] for line in listed.splitlines()}
    finally:
        for process in running:
            process.kill()
            process.wait(PATIENCE)


class Answering(Multicast):
    """A network on which each question has the same answers."""

    answers: ClassVar[list[bytes]] = []

    async def open(self, at: object) -> None:
        """Have nothing to open."""

    def ask(self) -> None:
        """Hear all answers."""
        for data in self.answers:
            self._heard(data)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is announced on the network of ``culm neighbours``, which waits for nothing."""
    monkeypatch.setattr(Answering, "answers", [])
    monkeypatch.setattr("culm.cli.people.neighbours.Multicast", Answering)
    monkeypatch.setattr("culm.cli.people.neighbours.asyncio.sleep", nothing)
    return Answering.answers


def test_listing(culm: Culm, answers: list[bytes]) -> None:
    """Each neighbour is listed once, by its name, with addresses and what the policy says; one's own node is not."""
    places = (ip_address("192.168.1.5"), 7801), (ip_address("fd00::5"), 7801)
    own = parse_author(culm("identity", "show").out.strip())
    ours, now = clump_key(bytes(range(16))), time.time()
    answers.extend(seal(Announcement(key, places), ours, now) for key in (BOB, own, CAROL))
    answers.append(seal(Announcement(bytes(32), places), clump_key(b"another"), time.time()))
    culm("name", author_text(BOB), "bob")
    culm("block", "peer", author_text(CAROL), *CLUMP)

    assert [
        f"bob ({author_text(BOB)[:8]})  192.168.1.5:7801, [fd00::5]:7801",
        f"{author_text(CAROL)}  192.168.1.5:7801, [fd00::5]:7801  not admitted",
    ] == culm("neighbours", *CLUMP).out.splitlines()
    assert [
        (author_text(BOB), "bob", True, f"culm://{author_text(BOB)}@[fd00::5]:7801"),
        (author_text(CAROL), None, False, f"culm://{author_text(CAROL)}@[fd00::5]:7801"),
    ] == [
        (row["key"], row["name"], row["admitted"], row["addresses"][1])
        for row in culm("neighbours", *CLUMP, "--json").json
    ]


def test_nobody_there(culm: Culm, answers: list[bytes]) -> None:
    """Without neighbours a line says what to do on the other machine."""
    assert answers == []
    found = culm("neighbours", *CLUMP)
    assert (found.code, found.out) == (0, "")
    assert found.err.endswith("announces itself here; on the other machine run: culm serve --lan\n")
    assert culm("neighbours", *CLUMP, "--json").json == []


async def nothing(_: float) -> None:
    """Wait for nothing."""


def test_no_network(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the command ends with 3, and one line."""

    async def fails(*_: object) -> None:
        raise NetworkError("this machine is on no network with IPv4")

    monkeypatch.setattr(Multicast, "open", fails)
    found = culm("neighbours", *CLUMP)
    assert (found.code, found.err) == (3, "culm: this machine is on no network with IPv4\n")


@pytest.mark.parametrize("clump", [["--clump", "garden"], ["--clump", "fifteen letters"], ["--clump", ""]])
def test_clumps_that_can_be_guessed(culm: Culm, clump: list[str]) -> None:
    """A clump of under 16 bytes is refused, with the way to accept it."""
    refused = culm("serve", "--lan", *clump)
    assert refused.code == 2
    assert f"the clump has {len(clump[1])} bytes" in refused.err
    assert "--lan-weak" in refused.err


def test_no_clump(culm: Culm) -> None:
    """Without a clump nobody can be found, and the message says what to give."""
    for command in (["serve", "--lan"], ["neighbours"]):
        refused = culm(*command)
        assert refused.code == 2
        assert "finding neighbours needs a clump" in refused.err


def test_an_index(culm: Culm) -> None:
    """A record index has no identity to announce."""
    refused = culm("serve", "--index", culm.home, "--listen", "negentropy://127.0.0.1:0", "--lan", *CLUMP)
    assert (refused.code, refused.err.count("--lan")) == (2, 1)


def test_settings(culm: Culm) -> None:
    """The options are settings of the configuration, too; a wrong address is named with its line."""
    file = culm.home / "culm.toml"
    file.write_text('lan = true\nlan_at = ["127.0.0.1", "fd00::5"]\nclump = "garden"\n')
    refused = culm("serve")
    assert (refused.code, "the clump has 6 bytes" in refused.err) == (2, True)
    for wrong in ("home.example", "fe80::1%eth0", "10.0.0.0/8"):
        file.write_text(f'lan_at = ["{wrong}"]\n')
        found = culm("config")
        assert found.code == 2
        assert "line 1: lan_at: expected a list of IP addresses" in found.err
