"""``culm ranges``: show which entries a Bamboo range selects, and combine ranges."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from culm.bamboo import MAX_U64
from culm.cli.arguments import number
from culm.cli.command import Commands
from culm.cli.output import print_json, print_result
from culm.errors import ConfigError, EncodingError
from culm.ranges import Range, decode, difference, intersect, merge, read_range, write_range
from culm.ranges.runs import runs_of

_HELP = "a range as text ('1..500 sparse') or as hex (with 0x in front if it also reads as text)"
_PICTURE = 400  # Most entries in a picture, a character each: eight lines. Longer logs get only the list.
_LINE = 50  # entries in a line of the picture
_SHOWN = 60  # most numbers or runs in the list
_BOTH, _METADATA, _PAYLOAD, _CERTIFICATE, _NOTHING = "#", "m", "p", "c", "."


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    show = commands.add("ranges show", _show)
    newest = number("number of entries", 0)
    show.add_argument("range", metavar="RANGE", type=_read, help=_HELP)
    show.add_argument(
        "--newest",
        type=newest,
        metavar="N",
        help="the log's newest entry (default: just long enough to show the range)",
    )
    for name, operation, if_not_exact in (
        ("merge", merge, "these ranges"),
        ("intersect", intersect, "what they have in common"),
    ):
        several = commands.add(f"ranges {name}", partial(_fold, operation, f"covers more than {if_not_exact}"))
        several.add_argument("ranges", metavar="RANGE", nargs="+", type=_read, help=_HELP)
    diff = commands.add("ranges diff", _diff)
    diff.add_argument("range", metavar="RANGE", type=_read, help=_HELP)
    diff.add_argument("held", metavar="HELD", nargs="+", type=_read, help=_HELP)
    diff.add_argument("--newest", type=newest, metavar="N", help="the log's newest entry: open sparse ranges need it")


def _read(text: str) -> Range:
    if text.startswith("0x"):
        return _from_hex(text[2:])
    try:
        return read_range(text)
    except ConfigError:
        if len(text.split()) != 1:
            raise
        try:
            return _from_hex(text)
        except ConfigError as as_hex:
            raise ConfigError(
                f"{text!r} is not a range, neither as text ('1..500 sparse') nor as hex: {as_hex}"
            ) from None


def _from_hex(text: str) -> Range:
    try:
        return decode(bytes.fromhex(text))
    except EncodingError as error:
        raise ConfigError(f"byte {error.offset}: {error}") from None
    except ValueError:
        raise ConfigError(f"{text!r} is not hex") from None


# -- show -----------------------------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace) -> int:
    item: Range = arguments.range
    newest = _where_it_matters(item) if arguments.newest is None else arguments.newest
    certificates = item.certificates(newest)
    runs = list(islice(_runs(item, newest), _SHOWN + 1))
    if arguments.json:
        print_json(
            _description(item)
            | {
                "newest": newest,
                "entries": [list(run) for run in runs[:_SHOWN]],
                "complete": len(runs) <= _SHOWN,
                "certificates": certificates,
            }
        )
        return 0
    print(_line(item))
    print(f"in a log of {newest} entries")
    print(f"  {_what(item)}: {_run_text(runs)}")
    print(f"  metadata to verify them: {', '.join(map(str, certificates)) or 'none'}")
    if 0 < newest <= _PICTURE:
        print("\n".join(_picture(item, newest)))
    return 0


def _where_it_matters(item: Range) -> int:
    """The length of a log just long enough to show a range; for an open range, some entries after its start."""
    if item.is_empty:
        return 0
    if item.end is None:
        return min(item.start + 20, MAX_U64)
    return max([item.end, *item.certificates(MAX_U64)])


def _what(item: Range) -> str:
    if item.metadata == item.payloads:
        return "entries"
    return "metadata of" if item.metadata else "payloads of"


def _runs(item: Range, newest: int) -> Iterator[tuple[int, int]]:
    """The selected numbers as runs of neighbours, first and last."""
    if not item.sparse:
        if not item.is_empty and newest >= item.start:
            yield item.start, min(item.last, newest)
        return
    yield from runs_of(item.numbers(newest))


def _run_text(runs: list[tuple[int, int]]) -> str:
    shown = [str(low) if low == high else f"{low}..{high}" for low, high in runs[:_SHOWN]]
    return ", ".join(shown + ["..."] * (len(runs) > _SHOWN)) or "none"


def _picture(item: Range, newest: int) -> list[str]:
    """A character for each entry of the log."""
    marks = [_NOTHING] * newest
    for seq in item.numbers(newest):
        payload = item.payloads and not item.forbids(seq)
        marks[seq - 1] = ((_NOTHING, _PAYLOAD), (_METADATA, _BOTH))[item.metadata][payload]
    for seq in item.certificates(newest):
        marks[seq - 1] = _CERTIFICATE
    lines = [f"  {at + 1:>4} {_in_tens(marks[at : at + _LINE])}" for at in range(0, newest, _LINE)]
    meanings = {
        _BOTH: "entry",
        _METADATA: "metadata only",
        _PAYLOAD: "payload only",
        _CERTIFICATE: "metadata to verify with",
    }
    legend = [f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in marks]
    return lines + ([f"       {', '.join(legend)}"] if legend else [])


def _in_tens(marks: list[str]) -> str:
    return " ".join("".join(marks[at : at + 10]) for at in range(0, len(marks), 10))


# -- operations -----------------------------------------------------------------------------------------------------


def _fold(
    operation: Callable[[Range, Range], tuple[Range, bool]], if_not_exact: str, arguments: argparse.Namespace
) -> int:
    found, *others = arguments.ranges
    exact = True
    for other in others:
        found, still = operation(found, other)
        exact = exact and still
    shown = {**_description(found), "exact": exact}
    print_result(arguments, shown, _line(found) + ("" if exact else f"  {if_not_exact}"))
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    try:
        pieces = difference(arguments.range, arguments.held, arguments.newest)
    except ValueError as error:
        raise ConfigError(f"{error}: give --newest N") from None
    print_result(arguments, [_description(piece) for piece in pieces], *(map(_line, pieces) if pieces else ["nothing"]))
    return 0


def _line(item: Range) -> str:
    return f"{write_range(item)}  ({item.encode().hex()})"


def _description(item: Range) -> dict[str, str]:
    return {"range": write_range(item), "hex": item.encode().hex()}
