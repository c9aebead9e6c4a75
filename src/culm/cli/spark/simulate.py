"""``culm spark simulate``: gossip among many nodes, under loss and churn."""

import argparse
from typing import Any

from culm.bamboo.decimal import size_text
from culm.cli.command import Commands
from culm.cli.output import print_json, print_table
from culm.cli.spark.options import add_place, job_options
from culm.errors import ConfigError

# Option, parameter of the scenario, type, help. An option that is not given keeps the scenario's default.
_SWEPT = (
    ("nodes", "nodes", int, "number of nodes"),
    ("protocol", "protocol", str, "bushbaby, intervals, proposals, negentropy"),
    ("loss", "loss", float, "the chance that a link is down in a round"),
    ("churn", "leave", float, "the chance that a node goes offline in a round"),
    ("rejoin", "rejoin", float, "the chance that an offline node comes back in a round"),
    ("degree", "degree", int, "neighbours of a node, an even number; 0: a node can call any other"),
    ("fanout", "fanout", int, "number of peers that a node calls in a round"),
    ("direction", "direction", str, "both, push or pull"),
    ("entries", "entries", int, "number of new entries"),
    ("origins", "origins", int, "logs that have grown, each at one node (up to 64)"),
    ("payload", "payload", int, "size of a payload, in bytes"),
    ("logs", "logs", int, "number of logs that all nodes have"),
    ("log-entries", "log_entries", int, "number of entries of each of these logs"),
    ("bandwidth", "bandwidth", float, "upload of a node, in bytes a second"),
    ("latency", "latency", float, "time a message takes one way, in seconds"),
    ("interval", "interval", float, "shortest time from round to round, in seconds"),
    ("max-rounds", "max_rounds", int, "number of rounds after which a simulation stops"),
)
_COLUMNS = ("nodes", "protocol", "loss", "churn", "seed", "rounds to 99%", "to all", "seconds", "bytes", "x bound")


def register(spark: Commands) -> None:
    """Add the command of this module to the group of Spark's commands."""
    simulate = spark.add("simulate", _simulate, "simulate gossip among many nodes; several values make a sweep")
    for option, _, kind, text in _SWEPT:
        simulate.add_argument(f"--{option}", metavar="VALUE", nargs="+", type=kind, help=text)
    simulate.add_argument(
        "--seeds", metavar="N", type=int, default=1, help="number of runs of each combination (default: 1)"
    )
    add_place(simulate)


def _simulate(arguments: argparse.Namespace) -> int:
    from culm.spark.simulate.job import run_simulations, sweep_of  # noqa: PLC0415 - Spark is an extra

    if arguments.seeds < 1:
        raise ConfigError(f"--seeds {arguments.seeds}: at least one run is needed")
    given = ((name, getattr(arguments, option.replace("-", "_"))) for option, name, _, _ in _SWEPT)
    parameters: dict[str, Any] = {name: values for name, values in given if values is not None}
    parameters["seed"] = range(1, arguments.seeds + 1)
    found = run_simulations(
        sweep_of(parameters),
        **job_options(arguments),
    )
    if arguments.json:
        print_json({"scenarios": found})
    else:
        print_table(_COLUMNS, [_row(row) for row in found], right=[name for name in _COLUMNS if name != "protocol"])
    return 0


def _row(row: dict[str, Any]) -> tuple[object, ...]:
    seconds, bound = row["seconds_all"], row["bytes_bound"]
    return (
        f"{row['nodes']:,}",
        row["protocol"],
        f"{row['loss']:g}",
        f"{row['leave']:g}",
        row["seed"],
        _or_never(row["rounds_99"]),
        _or_never(row["rounds_all"]),
        "-" if seconds is None else f"{seconds:,.1f}",
        size_text(row["bytes"]),
        f"{row['bytes'] / bound:.2f}" if bound else "-",
    )


def _or_never(rounds: int | None) -> str:
    return "never" if rounds is None else str(rounds)
