"""What Culm says, taken out of its source: messages, docstrings and comments, and the worn phrases in them.

``python -m tests.voice`` prints, for each package, how much of the source is comment and how often it gives a reason.
``python -m tests.voice messages [FOLDER]`` lists the messages, so that they can be read aloud one after the other.
``python -m tests.voice worn [FOLDER]`` lists the worn phrases that are left, each with its text.
``python -m tests.voice remaining`` prints the worn phrases that are in use, each once.

A message is every string in the source that has a space in it and is no docstring: error texts, log lines, help texts,
but also SQL. That is more than people see, but nothing that they see is missed, because a message may pass through
variables and helper functions before it is printed. Each line of the status page is a message, too.

The worn phrases stand in CONTRIBUTING.md, with the reason why each is hard to read.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
GUIDE = ROOT / "CONTRIBUTING.md"
KEPT = {
    "message culm/spark/plan/sweep.py: nobody",
    "message culm/spark/plan/sweep.py: who has",
}
"""Worn phrases that stay: values in a table that plans have had from the start, which people's programs read."""
_DIRECTIVE = re.compile(r"#\s*(noqa|type: ignore|pragma|fmt:)")  # for tools, not for readers
_REASON = re.compile(r"\b(because|so that|otherwise)\b", re.IGNORECASE)
_ROW = re.compile(r"^\| `(?P<phrase>[^`]+)` \| (?P<where>messages|everywhere) \| (?P<why>[^|]+) \|$", re.MULTILINE)
_GAP = r"\b[^.;:]{1,40}?\b"  # what "..." in a phrase stands for: a few words of the same sentence
_BUILT = "culm.js"  # The bundle of `make web`: minified, and with the libraries of others.


@dataclass(frozen=True)
class Text:
    """A piece of prose; ``kind`` is "message", "docstring" or "comment", ``path`` is relative to ``src``."""

    path: str
    line: int
    kind: str
    text: str

    @cached_property
    def words(self) -> str:
        """The text without line ends and double spaces, so that a phrase can go over the end of a line."""
        return " ".join(self.text.split())


@dataclass(frozen=True)
class Worn:
    """A phrase to avoid: in messages only, or ``everywhere``, in docstrings and comments too."""

    phrase: str
    everywhere: bool
    why: str

    def is_in(self, text: Text) -> bool:
        """Whether a text uses the phrase, as whole words, in any case, across line ends."""
        if text.kind != "message" and not self.everywhere:
            return False
        return _pattern(self.phrase).search(text.words) is not None


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    words = (re.escape(part.strip()) for part in phrase.split("..."))
    before = r"\b" if phrase[0].isalpha() else ""
    return re.compile(before + rf" {_GAP} ".join(words) + r"\b", re.IGNORECASE)


def worn_phrases() -> list[Worn]:
    """The table of CONTRIBUTING.md."""
    rows = _ROW.finditer(GUIDE.read_text(encoding="utf-8"))
    return [Worn(row["phrase"], row["where"] == "everywhere", row["why"].strip()) for row in rows]


def texts(folder: Path = SOURCE) -> Iterator[Text]:
    """All prose below a folder of ``src`` (or in one Python file), file by file."""
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        name = path.relative_to(SOURCE).as_posix()
        source = path.read_text(encoding="utf-8")
        yield from _strings(name, ast.parse(source))
        yield from _comments(name, source)
    for path in sorted(path for suffix in ("html", "js") for path in folder.rglob(f"*.{suffix}")):
        if path.name == _BUILT:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            kind = "comment" if line.lstrip().startswith(("//", "/*", "*")) else "message"
            yield Text(path.relative_to(SOURCE).as_posix(), number, kind, line)


def _strings(name: str, tree: ast.Module) -> Iterator[Text]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            inside.update(map(id, node.values))  # a format, too, is a JoinedStr within: left for its own turn
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield Text(name, node.lineno, "docstring" if id(node) in docstrings else "message", text)


def _comments(name: str, source: str) -> Iterator[Text]:
    """The comments; lines of one comment below each other are one text."""
    begin, last, joins = 0, 0, False
    parts: list[str] = []
    for line, alone, text in _comment_lines(source):
        if parts and not (joins and alone and line == last + 1):
            yield Text(name, begin, "comment", " ".join(parts))
            parts = []
        begin, last, joins = (begin if parts else line), line, alone
        parts.append(text)
    if parts:
        yield Text(name, begin, "comment", " ".join(parts))


@cache  # Tokenizing all of the source takes seconds, and both the search and the figures need it.
def _comment_lines(source: str) -> list[tuple[int, bool, str]]:
    """The comments for readers: line, whether the line has nothing else, and the text."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        (token.start[0], not token.line[: token.start[1]].strip(), token.string.lstrip("#: "))
        for token in tokens
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string)
    ]


def found(folder: Path = SOURCE) -> list[tuple[Text, Worn]]:
    """Every worn phrase that is used, with the text that uses it."""
    worn = worn_phrases()
    starts = "|".join(re.escape(phrase.phrase.partition(" ...")[0]) for phrase in worn)
    likely = re.compile(starts, re.IGNORECASE)  # one search for all phrases, because hardly any text has one
    some = (text for text in texts(folder) if likely.search(text.words))
    return [(text, phrase) for text in some for phrase in worn if phrase.is_in(text)]


def remaining() -> list[str]:
    """The worn phrases in use as in ``KEPT``: kind, file and phrase, each once."""
    return sorted({f"{text.kind} {text.path}: {worn.phrase}" for text, worn in found()})


@dataclass
class Count:
    """Figures of some source: its lines, those that are or end in a comment, and the words that give a reason."""

    lines: int = 0
    comment_lines: int = 0
    with_comment: int = 0
    reasons: int = 0

    def add(self, source: str) -> None:
        """Count a file. Comments that are for tools are left out."""
        self.lines += source.count("\n")
        for _, alone, _ in _comment_lines(source):
            self.comment_lines += alone
            self.with_comment += not alone
        self.reasons += len(_REASON.findall(source))

    def row(self, name: str) -> str:
        """A line of the report."""
        share, ending = 100 * self.comment_lines / self.lines, 100 * self.with_comment / self.lines
        return f"{name:24} {self.lines:>7,} {share:>10.1f} {ending:>13.1f} {1000 * self.reasons / self.lines:>9.1f}"


def report() -> str:
    """Comments and reasons of each package, and of all."""
    counts: dict[str, Count] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        source = path.read_text(encoding="utf-8")
        for name in (".".join(parts[:2]).removesuffix(".py"), "all"):
            counts.setdefault(name, Count()).add(source)
    counts["all"] = counts.pop("all")
    head = f"{'package':24} {'lines':>7} {'comments %':>10} {'lines ended %':>13} {'reasons':>9}"
    note = (
        "comments: lines that hold a comment only; lines ended: lines of code that end in one;"
        ' reasons: "because", "so that" and "otherwise" in 1,000 lines'
    )
    return "\n".join([head, *(count.row(name) for name, count in counts.items() if count.lines), "", note])


def main(arguments: list[str]) -> int:
    """Print what is asked for."""
    match arguments:
        case []:
            _say(report())
        case ["messages", *folders]:
            for text in texts(SOURCE / folders[0] if folders else SOURCE):
                if text.kind == "message":
                    _say(f"{text.path}:{text.line}: {text.text!r}")
        case ["worn", *folders]:
            for text, worn in found(SOURCE / folders[0] if folders else SOURCE):
                _say(f"{text.path}:{text.line}: {text.kind}: {worn.phrase}: {text.words[:160]}")
        case ["remaining"]:
            _say("\n".join(remaining()))
        case _:
            sys.stderr.write("usage: python -m tests.voice [remaining | messages [FOLDER] | worn [FOLDER]]\n")
            return 2
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
