"""``culm simulate``: gossip among many nodes, under loss and churn. ``culm spark simulate`` is its earlier name."""

import argparse
from typing import Any

from culm.bamboo.decimal import size_text
from culm.cli.arguments import add_options, folder, number
from culm.cli.command import Commands
from culm.cli.output import Stages, print_json, print_table
from culm.cli.spark import OUTPUT
from culm.simulation.scenario import PARAMETERS, sweep_of

# The options that are swept, by the scenario's parameters.
_SWEPT = {
    name: str(one.metadata.get("option") or name).replace("_", "-")
    for name, one in PARAMETERS.items()
    if name != "seed"
}
_COLUMNS = ("nodes", "protocol", "loss", "churn", "seed", "rounds to 99%", "to all", "seconds", "bytes", "x bound")


def register(commands: Commands) -> None:
    """Add the command of this module, by both names."""
    _add_arguments(commands.add("simulate", _simulate))
    earlier = commands.add("spark simulate", _simulate)
    _add_arguments(earlier)
    earlier.add_argument("--master", help=argparse.SUPPRESS)  # It has no effect any more.


def _add_arguments(simulate: argparse.ArgumentParser) -> None:
    for name, option in _SWEPT.items():
        one = PARAMETERS[name]
        text = f"{one.metadata['help']} (default: {one.default})"
        simulate.add_argument(f"--{option}", metavar="VALUE", nargs="+", type=type(one.default), help=text)
    simulate.add_argument(
        "--seeds", metavar="N", type=number("number of runs"), default=1, help="runs of each combination (default: 1)"
    )
    simulate.add_argument(
        "--processes",
        metavar="N",
        type=number("number of processes"),
        help="scenarios that run at the same time (default: as many as there are cores)",
    )
    here = {"type": folder, "help": "folder for results; this command makes it"}
    add_options(simulate, {**OUTPUT, "--output": {**OUTPUT["--output"], **here}})


def _simulate(arguments: argparse.Namespace) -> int:
    from culm.simulation.results import run_simulations  # noqa: PLC0415 - what it needs takes a moment to load

    given = ((name, getattr(arguments, option.replace("-", "_"))) for name, option in _SWEPT.items())
    parameters: dict[str, Any] = {name: values for name, values in given if values is not None}
    scenarios = sweep_of({**parameters, "seed": range(1, arguments.seeds + 1)})
    found = run_simulations(
        scenarios,
        arguments.output,
        processes=arguments.processes,
        overwrite=arguments.overwrite,
        progress=Stages(),
    )
    if arguments.json:
        print_json({"scenarios": found})
    else:
        print_table(
            arguments, _COLUMNS, [_row(row) for row in found], right=[name for name in _COLUMNS if name != "protocol"]
        )
    return 0


def _row(row: dict[str, Any]) -> tuple[object, ...]:
    seconds, bound = row["seconds_all"], row["bytes_bound"]
    return (
        f"{row['nodes']:,}",
        row["protocol"],
        f"{row['loss']:g}",
        f"{row['leave']:g}",
        row["seed"],
        *("never" if row[name] is None else row[name] for name in ("rounds_99", "rounds_all")),
        "-" if seconds is None else f"{seconds:,.1f}",
        size_text(row["bytes"]),
        f"{row['bytes'] / bound:.2f}" if bound else "-",
    )
