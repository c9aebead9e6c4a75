"""``culm spark plan``: which peer fetches which entries from which other peer."""

import argparse
from pathlib import Path

from culm.cli.arguments import number
from culm.cli.command import Commands
from culm.cli.output import print_json
from culm.cli.spark.options import add_place, job_options, print_counts
from culm.errors import ConfigError


def register(commands: Commands) -> None:
    """Add the command of this module."""
    plan = commands.add("spark plan", _plan)
    plan.add_argument("--have", metavar="PATH", required=True, help="table: peer, author, log_id, ranges held")
    plan.add_argument("--want", metavar="PATH", required=True, help="table: peer, author, log_id, ranges wanted")
    plan.add_argument("--sizes", metavar="PATH", help="table: author, log_id, metadata_bytes, payload_bytes (means)")
    plan.add_argument("--peers", metavar="PATH", help="table: peer, capacity (bytes it may upload), cost (of a byte)")
    plan.add_argument(
        "--capacity",
        metavar="BYTES",
        type=number("capacity in bytes", 0),
        help="capacity of the peers that --peers does not list (default: 0)",
    )
    plan.add_argument(
        "--rounds",
        metavar="N",
        type=number("number of rounds"),
        default=1,
        help="with 2, peers pass on in the second round what they fetched in the first (default: 1)",
    )
    plan.add_argument(
        "--buckets",
        metavar="N",
        type=number("number of buckets"),
        default=64,
        help="number of tasks that can run at once (default: 64)",
    )
    add_place(plan)


def _plan(arguments: argparse.Namespace) -> int:
    from culm.spark.plan.job import run_plan  # noqa: PLC0415 - Spark is an extra

    if Path(arguments.have).absolute() == Path(arguments.want).absolute():
        raise ConfigError(f"{arguments.have}: --have and --want name the same table")
    summary = run_plan(
        arguments.have,
        arguments.want,
        sizes=arguments.sizes,
        peers=arguments.peers,
        capacity=arguments.capacity,
        rounds=arguments.rounds,
        buckets=arguments.buckets,
        **job_options(arguments),
    )
    if arguments.json:
        print_json(summary.as_dict())
    else:
        print_counts(summary.as_dict(), "value")
    return 1 if summary.rejects else 0
