"""``culm spark fingerprint`` and ``culm spark reconcile``: record indexes, and what two tables or indexes differ in."""

import argparse
import asyncio
from collections.abc import Iterator

from culm.bamboo.decimal import size_text
from culm.cli.command import Commands
from culm.cli.output import print_result
from culm.cli.reconcile import ask_peer, peer_address
from culm.cli.spark.options import add_place, job_options
from culm.node.network.urls import PeerUrl, is_address

_VIEWS = ("entries", "payloads")


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    fingerprint = commands.add("spark fingerprint", _fingerprint)
    fingerprint.add_argument(
        "--input", metavar="DIR", required=True, help="results of culm spark verify, or Parquet files of such a table"
    )
    fingerprint.add_argument("--view", choices=_VIEWS, default="entries", help="what to index (default: entries)")
    add_place(fingerprint)
    reconcile = commands.add("spark reconcile", _reconcile)
    reconcile.add_argument("a", metavar="A", help="results of culm spark verify, a table of verdicts, a record index")
    reconcile.add_argument("b", metavar="B", help="another of these, or negentropy://HOST:PORT")
    reconcile.add_argument(
        "--view", choices=_VIEWS, help="what to compare (default: the view of the index, else entries)"
    )
    add_place(reconcile)


def _fingerprint(arguments: argparse.Namespace) -> int:
    from culm.spark.fingerprint import run  # noqa: PLC0415 - Spark is an extra

    made = run(arguments.input, view=arguments.view, **job_options(arguments))
    shown = f"{made.records:,} {made.view}, fingerprint {made.fingerprint}, in {size_text(made.bytes)}"
    print_result(arguments, made.as_dict(), shown)
    return 0


def _reconcile(arguments: argparse.Namespace) -> int:
    from culm.spark.reconcile import Found  # noqa: PLC0415 - Spark is an extra
    from culm.spark.reconcile_job import run  # noqa: PLC0415
    from culm.store.recordindex import IndexStorage  # noqa: PLC0415 - numpy takes long to load

    def asked(index: IndexStorage, peer: PeerUrl) -> Iterator[Found]:
        """The records that an index and the peer lack. The protocol compares ids, so entries' numbers stay unknown."""
        found = asyncio.run(ask_peer(index, index.view, peer))
        for side, ids in (("a", found.have), ("b", found.need)):
            yield from (Found(side, None, identity) for identity in ids)

    peer = peer_address(arguments.b) if is_address(arguments.b) else None
    made = run(
        arguments.a,
        arguments.b if peer is None else lambda index: asked(index, peer),
        view=arguments.view,
        **job_options(arguments),
    )
    lines = [
        f"{arguments.a} lacks {made.a_lacks:,} {made.view} that {arguments.b} has",
        f"{arguments.b} lacks {made.b_lacks:,} {made.view} that {arguments.a} has",
    ]
    if made.bytes:
        lines.append(f"read {size_text(made.bytes_read)} of {size_text(made.bytes)} of indexes")
    print_result(arguments, made.as_dict(), *lines)
    return 0
