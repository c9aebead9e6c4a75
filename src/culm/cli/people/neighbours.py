"""``culm neighbours``: the nodes of the clump on the same network, as they announce themselves.

It asks and listens for some seconds, and announces nothing itself. That a neighbour is listed means that a member of
the clump announced its key and addresses. The neighbour proves the key only when it is called.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence

from culm.cli.arguments import number
from culm.cli.command import Commands
from culm.cli.nodeoptions import add_finding, clump_text, lan_clump, settings_of
from culm.cli.output import note, print_json
from culm.node.home import Home
from culm.node.lan.finding import urls_of
from culm.node.lan.multicast import Multicast, networks
from culm.node.lan.neighbours import Neighbours
from culm.wire.places import author_text

_SECONDS = 3  # Nodes answer within a second or so; a question can be lost, and is asked three times.


def register(commands: Commands) -> None:
    """Add the command of this module."""
    neighbours = commands.add("neighbours", _neighbours)
    neighbours.add_argument(
        "--seconds", metavar="N", type=number("number of seconds"), default=_SECONDS,
        help=f"how long to listen (default: {_SECONDS})",
    )  # fmt: skip
    add_finding(neighbours)


def _neighbours(arguments: argparse.Namespace) -> int:
    home, settings = Home.find(arguments.home), settings_of(arguments)
    clump = lan_clump(settings, announces=False)
    policy, names = home.policy_file.load(clump), home.names()
    found = Neighbours(clump, loopback=any(host.startswith("127.") for host in settings["lan_at"]))
    asyncio.run(_listen(found, settings["lan_at"], arguments.seconds))
    own = home.own_authors()
    rows = [(neighbour, policy.admits_peer(neighbour.key)) for neighbour in found if neighbour.key not in own]
    if arguments.json:
        print_json(
            [
                {
                    "key": author_text(neighbour.key),
                    "name": name.text if (name := names.of.get(neighbour.key)) else None,
                    "addresses": list(map(str, urls_of(neighbour))),
                    "admitted": admitted,
                }
                for neighbour, admitted in rows
            ]
        )
        return 0
    for neighbour, admitted in rows:
        hosts = ", ".join(
            f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}" for host, port in neighbour.addresses
        )
        print(f"{names.author(neighbour.key)}  {hosts}{'' if admitted else '  not admitted'}")
    if not rows:
        note(f"no node {clump_text(clump)} announces itself here; on the other machine run: culm serve --lan")
    return 0


async def _listen(found: Neighbours, at: Sequence[str], seconds: int) -> None:
    multicast = Multicast(lambda data: found.take(data, time.time()))
    try:
        await multicast.open(networks(at))
        for _ in range(_SECONDS):
            multicast.ask()
            await asyncio.sleep(seconds / _SECONDS)
    finally:
        await multicast.close()
