"""``culm spark plan``: which peer fetches which entries from which other peer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from culm.cli.output import Stages, print_json, print_table
from culm.cli.spark.options import add_place
from culm.errors import ConfigError
from culm.wire.places import parse_number

if TYPE_CHECKING:
    import argparse

    from culm.cli.command import Commands


def register(spark: Commands) -> None:
    """Add the command of this module to the group of Spark's commands."""
    plan = spark.add("plan", _plan, "plan which peer fetches what from which other, within their capacities")
    plan.add_argument("--have", metavar="PATH", required=True, help="table: peer, author, log_id, ranges held")
    plan.add_argument("--want", metavar="PATH", required=True, help="table: peer, author, log_id, ranges wanted")
    plan.add_argument("--sizes", metavar="PATH", help="table: author, log_id, metadata_bytes, payload_bytes (means)")
    plan.add_argument("--peers", metavar="PATH", help="table: peer, capacity (bytes it may upload), cost (of a byte)")
    plan.add_argument(
        "--capacity", metavar="BYTES", help="capacity of the peers that --peers does not list (default: 0)"
    )
    plan.add_argument(
        "--rounds",
        metavar="N",
        default="1",
        help="with 2, peers pass on in the second round what they fetched in the first (default: 1)",
    )
    plan.add_argument("--buckets", metavar="N", default="64", help="number of tasks that can run at once (default: 64)")
    add_place(plan)


def _plan(arguments: argparse.Namespace) -> int:
    from culm.spark.plan.job import run_plan  # noqa: PLC0415 - Spark is an extra

    capacity = None if arguments.capacity is None else parse_number(arguments.capacity, "capacity in bytes")
    rounds = parse_number(arguments.rounds, "number of rounds", 1)
    if Path(arguments.have).absolute() == Path(arguments.want).absolute():
        raise ConfigError(f"{arguments.have}: --have and --want name the same table")
    summary = run_plan(
        arguments.have,
        arguments.want,
        Path(arguments.output),
        sizes=arguments.sizes,
        peers=arguments.peers,
        capacity=capacity,
        rounds=rounds,
        buckets=parse_number(arguments.buckets, "number of buckets", 1),
        master=arguments.master,
        overwrite=arguments.overwrite,
        progress=Stages(),
    )
    if arguments.json:
        print_json(summary.as_dict())
    else:
        rows = [(name.replace("_", " "), _shown(value)) for name, value in summary.as_dict().items()]
        print_table(("", "value"), rows, right=("value",))
    return 1 if summary.rejects else 0


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
