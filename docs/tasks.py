"""The reference of the API by task: which call does what, with its arguments, its result and its errors as lists.

Docstrings are prose, with a convention: a sentence that begins with an argument tells of it, and one that begins with
an error says when it is raised. On the site these become lists, so that nobody has to look for them in a paragraph.
"""

import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path

import culm
import culm.errors

_LIBRARY = Path(__file__).parent / "library.md"
_ERROR = "|".join(name for name, value in vars(culm.errors).items() if isinstance(value, type))
_RESULT = re.compile(r"(?:An? |The |Every |Whether |What )")
# What arguments mean of which a docstring does not speak, because it is the same everywhere.
_USUAL = {
    "Node": {
        "author": "an author's key, as 32 bytes or as text.",
        "log": "a pair of author and number, the text ``AUTHOR/LOG``, or the number of one of the node's own logs.",
        "log_id": "the number of one of the node's own logs.",
        "seq": "the number of an entry.",
        "entry": "an entry that the node, or a subscription, has given.",
        "first": "where to begin, included.",
        "last": "where to end, included; None: the end.",
        "peers": "how many.",
        "change": "a function from the present policy to the new one.",
        "url": "the peer's address.",
        "progress": "is called with the counts so far.",
        "continue_here": "appends although the log is not confirmed.",
        "keys": "identities and secret age keys that open sealed payloads, besides the node's own.",
        "raw": "True: the bytes that the author signed, sealed or not.",
    },
    "Store": {
        "author": "an author's key: 32 bytes.",
        "log": "a pair of author and number; None, where it is allowed, means all logs.",
        "log_id": "the number of the log: 0 to 2^64 - 1.",
        "identity": "the author.",
        "place": "author, log and number of an entry: ``Entry.place``.",
        "stored": "what ``get`` or ``entries`` has given.",
        "low": "the first number, included.",
        "high": "the last number, included.",
        "offset": "the byte to begin with.",
        "limit": "how many at most.",
        "items": "entries, each with its payload or None.",
        "states": "verified entries only, or others, too.",
        "since": "a position that ``latest`` or an earlier page has given.",
    },
    "Subscription": {},
    "check_proof": {"data": "the bytes of the file that ``Node.prove`` or ``culm prove`` has made."},
}


@dataclass(frozen=True)
class Task:
    """What a program wants to do: the calls for it, and the section of the library page that has an example."""

    title: str
    section: str
    calls: tuple[str, ...]


def _of(owner: str, names: str) -> tuple[str, ...]:
    return tuple(f"culm.{owner}.{name}" for name in names.split())


TASKS = (
    Task(
        "Open and close a node",
        "Open a node",
        ("culm.Node", *_of("Node", "open start close is_closed identity author name store_path")),
    ),
    Task("Publish", "Append", _of("Node", "append append_many is_confirmed forget")),
    Task("Read", "Read", _of("Node", "logs entry entry_with_payload entries payload payload_pieces verify")),
    Task("Meet peers", "Listen", _of("Node", "listen connect disconnect peers peer_events")),
    Task("Exchange once", "Sync once", _of("Node", "sync fetch fetch_pieces fetch_bytes")),
    Task("Know who holds an entry", "Know who holds it", _of("Node", "held_by until_held")),
    Task(
        "React to what is new",
        "React to what is new",
        (
            *_of("Node", "subscribe changes end_subscriptions"),
            "culm.Subscription",
            *_of("Subscription", "cursor close"),
        ),
    ),
    Task(
        "Choose what comes",
        "Follow",
        _of("Node", "follow unfollow follow_everything following policy change_policy"),
    ),
    Task("Prove something", "Prove", ("culm.Node.prove", "culm.check_proof", "culm.Node.forks")),
    Task(
        "Work without a node",
        "Without a node",
        (
            "culm.Store",
            *_of("Store", "append add entries get payload logs news latest fork_proofs forget verify unconfirm close"),
        ),
    ),
)
CALLS = {call for task in TASKS for call in task.calls}


@dataclass
class Fields:
    """A docstring taken apart. What is in no list stays prose."""

    prose: list[str] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    raises: list[tuple[str, str]] = field(default_factory=list)


def found(call: str) -> object:
    """What a name such as ``culm.Node.append`` names."""
    value: object = culm
    for name in call.split(".")[1:]:
        value = inspect.getattr_static(value, name) if isinstance(value, type) else getattr(value, name)
    return value.__func__ if isinstance(value, classmethod) else value


def fields_of(call: str) -> Fields:
    """The docstring of a call, taken apart."""
    function = found(call)
    parts, paragraphs = Fields(), (inspect.getdoc(function) or "").split("\n\n")
    if not inspect.isfunction(function):
        parts.prose = paragraphs
        return parts
    parameters = [name for name in inspect.signature(function).parameters if name not in {"self", "cls"}]
    parts.arguments = dict.fromkeys(parameters, "")
    for paragraph in paragraphs:
        if kept := _take(" ".join(paragraph.split()), call, parts):
            parts.prose.append(kept)
    if len(parts.prose) == 1 and not parts.returns and _RESULT.match(parts.prose[0]):
        parts.returns = parts.prose.pop().rstrip(".")  # All that there is to say of the call is what it gives.
    usual = _USUAL[call.split(".")[1]]
    parts.arguments = {name: text or usual.get(name, "") for name, text in parts.arguments.items()}
    return parts


def _take(paragraph: str, call: str, parts: Fields) -> str:
    """Put the sentences of a paragraph where they belong; what stays prose.

    A sentence that says by itself where it belongs begins a list's item, and those after it go on with the item.
    """
    prose: list[str] = []
    item: tuple[str, str] = ("", "")  # an argument, or an error, that the sentence before told of
    for sentence in re.split(r"(?<=\.) (?=[A-Z`*])", paragraph):
        kept, errors = _without_errors(sentence)
        begins = re.match(r"``(\w+)``(?::| (?!and |to |or ))(.*)", kept)
        same = re.match(r"(?:The errors are those of|Errors are as for) ``(\w+)``", kept)
        result = re.fullmatch(r"(?:(.*); returns|Returns) (.*)\.", kept)
        if begins and begins[1] in parts.arguments:
            item = "argument", begins[1]
            kept = re.sub(r"^(?:is|are) (?!then )", "", begins[2].strip())
        elif same:
            parts.raises += fields_of(f"{call.rpartition('.')[0]}.{same[1]}").raises
            continue
        elif result:
            parts.returns, kept, item = result[2], f"{result[1]}." if result[1] else "", ("", "")
        if kept and not item[0]:
            prose.append(kept)
        elif kept and item[0] == "argument":
            parts.arguments[item[1]] = f"{parts.arguments[item[1]]} {kept}".strip()
        elif kept:
            name, when = parts.raises.pop()
            parts.raises.append((name, f"{when} {kept}"))
        if errors:
            parts.raises += errors
            item = "error", errors[-1][0]
    return " ".join(prose)


def _without_errors(sentence: str) -> tuple[str, list[tuple[str, str]]]:
    """A sentence without its clauses on errors, and these: the error, and when it is raised."""
    begin = re.search(rf"(?:^(?:\w+ raises )?|; )(?=``(?:{_ERROR})``[ ,])", sentence)
    if begin is None:
        return sentence, []
    errors = []
    for clause in re.split(rf"[,;](?: and)? (?=``(?:{_ERROR})``[ ,])", sentence[begin.end() :]):
        name, _, when = clause.removeprefix("``").partition("``")
        errors.append((name, when.lstrip(", ").removesuffix(".") + "."))
    return sentence[: begin.start()] + "." * bool(begin.start()), errors


def page() -> str:
    """A section for every task: an example from the library page, and the calls. Then the other calls of a store."""
    told = ", ".join(call.rpartition(".")[2] for call in sorted(CALLS) if call.startswith("culm.Store."))
    rest = [
        "### The other calls of a store\n",
        "Nodes and commands use these, and programs that replace parts of them.\n",
        "```{eval-rst}",
        ".. autoclass:: culm.SQLiteStore",
        "   :members:",
        "   :inherited-members:",
        f"   :exclude-members: {told}",
        "```\n",
    ]
    return "\n".join([*(line for task in TASKS for line in _section(task)), *rest])


def _section(task: Task) -> list[str]:
    text = _LIBRARY.read_text(encoding="utf-8")
    # The first block of Python behind the heading: the tests run it.
    example = re.findall(rf"^## {task.section}$.*?(^```python\n.*?^```$)", text, re.MULTILINE | re.DOTALL)[0]
    anchor = task.section.lower().replace(" ", "-")
    directives = []
    for call in task.calls:
        value = found(call)
        kind = "class" if isinstance(value, type) else "property" if isinstance(value, property) else "method"
        kind = "function" if call.count(".") == 1 and kind == "method" else kind
        directives += [f".. auto{kind}:: {call}{'()' if kind == 'class' else ''}"]
    rest = f"An example, which [the library page](library.md#{anchor}) explains:"
    return [f"### {task.title}\n", f"{rest}\n", f"{example}\n", "```{eval-rst}", *directives, "```\n"]


def lists(_app: object, _what: str, name: str, _value: object, _options: object, lines: list[str]) -> None:
    """For Sphinx: the docstring of a call, with its lists."""
    if name not in CALLS or not inspect.isfunction(found(name)):
        return
    parts = fields_of(name)
    lines[:] = [line for paragraph in parts.prose for line in (paragraph, "")]
    lines += [f":param {argument}: {text[:1].upper()}{text[1:]}" for argument, text in parts.arguments.items()]
    lines += [f":returns: {parts.returns[:1].upper()}{parts.returns[1:]}."] if parts.returns else []
    lines += [f":raises {error}: {when[:1].upper()}{when[1:]}" for error, when in parts.raises]
