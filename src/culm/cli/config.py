"""``culm config``: the settings that a node would use, and where each comes from.

It takes the options of ``culm serve``, so that the same call with ``config`` shows what ``serve`` would do.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from culm.cli.command import Commands
from culm.cli.nodeoptions import add_serving, settings_of
from culm.cli.output import note, print_json, print_table
from culm.node.settings.reading import Settings
from culm.node.settings.schema import SECTIONS, Key, example, written


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    config = commands.add("config", _config)
    config.add_argument(
        "--example", action="store_true", help="print a culm.toml with every setting as a comment, to start from"
    )
    add_serving(config)


def _config(arguments: argparse.Namespace) -> int:
    if arguments.example:
        sys.stdout.write(example())
        return 0
    settings = settings_of(arguments)
    rows = list(_rows(settings))
    peers = [asdict(peer) | {"url": str(peer.url)} for peer in settings.peers]
    if arguments.json:
        found = {name: {"value": _plain(key, value), "from": origin} for name, key, value, origin in rows}
        print_json({"settings": found, "peers": peers, "peers_from": settings.peers_origin})
        return 0
    table = [(name, written(key, value) or "-", origin) for name, key, value, origin in rows]
    print_table(arguments, ("setting", "value", "from"), table)
    for peer in peers:
        print(f"peer {peer['name']}: {json.dumps(peer)}")
    if not peers:
        note("no peers are configured")
    return 0


def _rows(settings: Settings) -> Iterator[tuple[str, Key, Any, str]]:
    for section in SECTIONS:
        for key in section.keys:
            name = section.full_name(key.name)
            if name in settings.values:
                yield name, key, settings[name], settings.origin(name)


def _plain(key: Key, value: Any) -> Any:  # noqa: ANN401 - each key has its own kind
    """A value in its JSON form, as ``--json`` prints it."""
    return None if value is None else json.loads(written(key, value))
