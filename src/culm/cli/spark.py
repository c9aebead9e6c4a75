"""``culm spark``: verify, compare and select logs that are too large for one machine.

Each command is a job of ``culm.spark``. ``_JOBS`` says which function runs it, which options that function takes, and
what is printed of its result; the rest is the same for all of them.

Spark is an optional package that takes seconds to import. So ``culm.spark`` is imported when a command runs:
``culm --help`` works without it, and other commands start fast.
"""

import argparse
import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm.bamboo.decimal import size_text
from culm.cli.arguments import add_options, folder, number, place
from culm.cli.command import Commands
from culm.cli.output import Stages, note, print_json, print_table
from culm.cli.reconcile import ask_peer, peer_address
from culm.errors import ConfigError
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl, is_address

if TYPE_CHECKING:
    from culm.spark.reconciliation.reconcile import Difference
    from culm.store.recordindex import IndexStorage

    Options = Mapping[str, Mapping[str, Any]]
    Values = Mapping[str, Any]

_SHOWN = 20  # forks in the table; the output folder has all


def _state_folder(text: str) -> Path:
    """A folder for a state, which cannot be a URI."""
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"a state needs locks, which {text} has not; name a folder of this machine or of a shared disk"
        )
    return Path(text)


def _option(metavar: str | None, text: str, **settings: Any) -> "Values":  # noqa: ANN401 - as argparse has it
    return {"metavar": metavar, "help": text, **settings}


def _number(metavar: str, name: str, text: str, least: int = 1, **settings: Any) -> "Values":  # noqa: ANN401
    return _option(metavar, text, type=number(name, least), **settings)


def _flag(text: str, **settings: Any) -> "Values":  # noqa: ANN401
    return {"action": "store_true", "help": text, **settings}


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise ConfigError(f"--option {text!r}: expected NAME=VALUE")
    return name, value


def _on_spark(without: str | None = None) -> "Options":
    """Where the results go, and where Spark runs. ``without`` says which inputs need no Spark; None where all do."""
    text, default = ("", "local[*]") if without is None else (f"; {without}", None)
    return {**OUTPUT, "--master": _option("URL", f"the Spark master (default: local[*]{text})", default=default)}


OUTPUT: "Options" = {
    "--output": _option("DIR", "folder or URI for results; this command makes it", required=True, type=place),
    "--overwrite": _flag("replace an earlier output"),
}
"""Where the results go."""

_INPUTS = _option("INPUT", "stores, export files, Parquet of entries; folders, globs and URIs of them", nargs="+")
_INPUT: "Options" = {"--input": {**_INPUTS, "dest": "inputs", "required": True}}
_SMALL = _on_spark("small inputs need no Spark")
_SIGNATURES: "Options" = {
    "--signatures": _option(
        None,
        "check every signature (default), or only those of heads: entries that no later entry links to",
        choices=("all", "heads"),
        default="all",
    )
}
_VIEWS = ("entries", "payloads")
_BAD = ("invalid", "forks", "rejects", "payload_mismatches")


def _show_counts(arguments: argparse.Namespace, made: Any, *, column: str = "count") -> None:  # noqa: ANN401 - any job's result
    counts = {name: value for name, value in made.as_dict().items() if name != "seconds"}
    _print_counts(arguments, counts, column)


def _print_counts(arguments: argparse.Namespace, counts: "Values", column: str = "count") -> None:
    """Print a table with a line for each count; numbers that are not whole have three decimals."""
    rows = [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:,.3f}")
        for name, value in counts.items()
    ]
    print_table(arguments, ("", column), rows, right=(column,))


def _show_verdicts(arguments: argparse.Namespace, summary: Any) -> None:  # noqa: ANN401 - ``summary.Summary``
    print(summary.table())
    if summary.rejects:
        place = f"{arguments.table}_rejects" if arguments.output is None else arguments.output / "rejects"
        note(f"rejects: what could not be read, and why, is in {place}")


def _show_forks(arguments: argparse.Namespace, found: Any) -> None:  # noqa: ANN401 - ``job.Forks``
    counts = {"entries": found.entries, "logs": found.logs, "forked logs": found.forks, "rejects": found.rejects}
    _print_counts(arguments, {**counts, "unproved forks": found.unproved} if found.unproved else counts)
    rows = [(fork.log, fork.position, fork.valid_to, fork.explain()) for fork in found.first[:_SHOWN]]
    if rows:
        print()
        print_table(arguments, ("log", "forked at", "valid to", "proof"), rows, right=("forked at", "valid to"))
        if found.forks > len(rows):
            note(f"... and {found.forks - len(rows):,} more; all are in {arguments.output / 'forks'}")
    if found.rejects:
        note(f"rejects: what could not be read, and why, is in {arguments.output / 'rejects'}")


def _show_report(arguments: argparse.Namespace, made: Any) -> None:  # noqa: ANN401 - ``report.Report``
    counts = {name: value for name, value in made.as_dict().items() if name not in ("page_bytes", "seconds")}
    _print_counts(arguments, counts)
    print(f"{_page(arguments)['page']}: {size_text(made.page_bytes)}")


def _page(arguments: argparse.Namespace) -> "Values":
    from culm.spark.report import PAGE  # noqa: PLC0415 - Spark is an extra

    return {"page": str(arguments.output / PAGE)}


def _show_fingerprint(_: argparse.Namespace, made: Any) -> None:  # noqa: ANN401 - ``fingerprint.Fingerprint``
    print(f"{made.records:,} {made.view}, fingerprint {made.fingerprint}, in {size_text(made.bytes)}")


def _show_comparison(arguments: argparse.Namespace, made: Any) -> None:  # noqa: ANN401 - ``reconcile.Comparison``
    print(f"{arguments.a} lacks {made.a_lacks:,} {made.view} that {arguments.b} has")
    print(f"{arguments.b} lacks {made.b_lacks:,} {made.view} that {arguments.a} has")
    if made.bytes:
        print(f"read {size_text(made.bytes_read)} of {size_text(made.bytes)} of indexes")


def _two_tables(arguments: argparse.Namespace) -> "Values":
    if Path(arguments.have).absolute() == Path(arguments.want).absolute():
        raise ConfigError(f"{arguments.have}: --have and --want name the same table")
    return {}


def _other_side(arguments: argparse.Namespace) -> "Values":
    """The other side of a comparison, if it is a peer: a function that asks it."""
    scheme, is_uri, _ = arguments.b.partition("://")
    is_peer = scheme in (*LISTENER_SCHEMES, "tcp") if is_uri else is_address(arguments.b)
    return {"b": partial(_asked, peer_address(arguments.b))} if is_peer else {}


def _asked(peer: PeerUrl, index: "IndexStorage") -> "Iterator[Difference]":
    """The records that an index and the peer lack. The protocol compares ids, so entries' numbers stay unknown."""
    from culm.spark.reconciliation.reconcile import Difference  # noqa: PLC0415 - Spark is an extra

    found = asyncio.run(ask_peer(index, index.view, peer))
    for side, ids in (("a", found.have), ("b", found.need)):
        yield from (Difference.found(side, identity) for identity in ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A command.

    ``module`` and ``function`` run it, and take each option by its ``dest``, arguments without a name by position.
    ``show`` prints the result for people; ``adds`` to what ``--json`` prints of it. The exit code is 1 if one of the
    result's ``failures`` is not 0. ``checked`` raises for a wrong call, and gives values that replace options.
    """

    module: str
    function: str = "run"
    options: "Options"
    show: Callable[[argparse.Namespace, Any], None] = _show_counts
    adds: "Callable[[argparse.Namespace], Values]" = lambda _: {}
    failures: Sequence[str] = ()
    checked: "Callable[[argparse.Namespace], Values]" = lambda _: {}

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the job with the parsed options; the exit code."""
        values = {**vars(arguments), **self.checked(arguments)}
        unnamed = [values[name] for name in self.options if not name.startswith("-")]
        destinations = {name: settings.get("dest", name.removeprefix("--")) for name, settings in self.options.items()}
        named = {dest: values[dest] for name, dest in destinations.items() if name.startswith("-")}
        made = getattr(import_module(self.module), self.function)(*unnamed, **named, progress=Stages())
        if arguments.json:
            print_json({**made.as_dict(), **self.adds(arguments)})
        else:
            self.show(arguments, made)
        return int(any(getattr(made, name) for name in self.failures))


_JOBS = {
    "verify": _Job(
        module="culm.spark.verification.job",
        options={
            **_INPUT,
            **_SMALL,
            **_SIGNATURES,
            "--state": _option(
                "DIR", "verify only what is new since the last run with this state folder", type=_state_folder
            ),
            "--forks": _flag("also write the proofs of forks", dest="with_forks"),
            "--table": _option(
                "CATALOG.DB.NAME",
                "also write the verdicts to this table; with --state, merge them into it (needs Spark)",
            ),
            "--output-format": _option(
                None,
                "the format of the --table (default: parquet, which has no merging)",
                dest="table_format",
                choices=("parquet", "delta", "iceberg"),
                default="parquet",
            ),
        },
        show=_show_verdicts,
        failures=_BAD,
    ),
    "follow": _Job(
        module="culm.spark.following.job",
        function="run_follow",
        options={
            "--input": _option(
                "INPUT", "a folder to which files are dropped, a store, or a peer", dest="source", required=True
            ),
            "--state": _option(
                "DIR", "what is known and read so far; this command makes it", type=_state_folder, required=True
            ),
            "--output": _option("DIR", "a folder for changes and forks; this command makes it", type=folder),
            "--table": _option("CATALOG.DB.NAME", "instead of --output: merge the verdicts into this table"),
            "--output-format": _option(
                None,
                "the format of the --table (default: delta)",
                dest="table_format",
                choices=("delta", "iceberg"),
                default="delta",
            ),
            "--once": _flag("end when all that is there has been read"),
            "--interval": _number("SECONDS", "interval", "look for new entries so often (default: 10)", default=10),
            "--option": _option(
                "NAME=VALUE", "an option of the input", type=_pair, dest="options", action="append", default=[]
            ),
            "--master": _option("URL", "the Spark master (default: local[*])"),
            **_SIGNATURES,
        },
        show=_show_verdicts,
        failures=_BAD,
    ),
    "forks": _Job(
        module="culm.spark.verification.job",
        function="run_forks",
        options={"inputs": _INPUTS, **_SMALL, **_SIGNATURES},
        show=_show_forks,
        failures=("forks", "rejects"),
    ),
    "report": _Job(
        module="culm.spark.report",
        options={
            "results": _option("VERIFY_DIR|STATE", "an output folder or a state folder of culm spark verify"),
            "--logs": _number(
                "N",
                "number of logs",
                "show the coverage of the N largest logs and of the N with most problems (default: 25, at most 100)",
                default=25,
            ),
            **_on_spark("up to 2 million entries need no Spark"),
        },
        show=_show_report,
        adds=_page,
    ),
    "select": _Job(
        module="culm.spark.select.job",
        function="run_select",
        options={
            **_INPUT,
            "--requests": _option("PATH", "table: requester, author, log_id, ranges", required=True),
            "--bundles": _flag("also write an export bundle for each requester"),
            **_on_spark(),
            **_SIGNATURES,
        },
        show=partial(_show_counts, column="number"),
        failures=("rejects", "unreadable"),
    ),
    "fingerprint": _Job(
        module="culm.spark.reconciliation.fingerprint",
        options={
            "--input": _option(
                "DIR",
                "results of culm spark verify, or Parquet files of such a table; a folder or URI",
                dest="table",
                required=True,
            ),
            "--view": _option(None, "what to index (default: entries)", choices=_VIEWS, default="entries"),
            **_on_spark(),
        },
        show=_show_fingerprint,
    ),
    "reconcile": _Job(
        module="culm.spark.reconciliation.reconcile",
        options={
            "a": _option("A", "results of culm spark verify, a table of verdicts, a record index"),
            "b": _option("B", "another of these, or negentropy://HOST:PORT"),
            "--view": _option(None, "what to compare (default: the view of the index, else entries)", choices=_VIEWS),
            **_on_spark(),
        },
        show=_show_comparison,
        checked=_other_side,
    ),
    "plan": _Job(
        module="culm.spark.plan.job",
        function="run_plan",
        options={
            "--have": _option("PATH", "table: peer, author, log_id, ranges held", required=True),
            "--want": _option("PATH", "table: peer, author, log_id, ranges wanted", required=True),
            "--sizes": _option("PATH", "table: author, log_id, metadata_bytes, payload_bytes (means)"),
            "--peers": _option("PATH", "table: peer, capacity (bytes it may upload), cost (of a byte)"),
            "--capacity": _number(
                "BYTES", "capacity in bytes", "capacity of the peers that --peers does not list (default: 0)", 0
            ),
            "--rounds": _number(
                "N",
                "number of rounds",
                "with 2, peers pass on in the second round what they fetched in the first (default: 1)",
                default=1,
            ),
            "--buckets": _number(
                "N", "number of buckets", "number of tasks that can run at once (default: 64)", default=64
            ),
            **_on_spark(),
        },
        show=partial(_show_counts, column="value"),
        failures=("rejects",),
        checked=_two_tables,
    ),
}


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    for name, job in _JOBS.items():
        add_options(commands.add(f"spark {name}", job.run), job.options)
