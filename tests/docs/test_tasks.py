"""The API by task: every call of a node is there, and the lists say what the docstrings say."""

from __future__ import annotations

import inspect
import re

import culm
import culm.errors
from docs.tasks import CALLS, fields_of, found, page


def functions() -> list[str]:
    """The calls that are functions or methods."""
    return sorted(call for call in CALLS if inspect.isfunction(found(call)))


def test_every_call_of_a_node_has_a_task() -> None:
    """A method or property of ``Node`` or ``Subscription`` stands under a task, and so once on the page."""
    public = {
        f"culm.{kind.__name__}.{name}"
        for kind in (culm.Node, culm.Subscription)
        for name in vars(kind)
        if not name.startswith("_")
    }
    assert public - CALLS == {"culm.Subscription.store_changed"}  # for the node
    assert sorted(re.findall(r"^\.\. auto\w+:: (culm[\w.]+)", page(), re.MULTILINE)) == sorted(
        [*CALLS, "culm.SQLiteStore"]
    )


def test_every_argument_is_explained() -> None:
    """Each argument has words of its own, or the text above the list speaks of it."""
    mute = []
    for call in functions():
        parts = fields_of(call)
        above = " ".join([*parts.prose, parts.returns, *parts.arguments.values()])
        mute += [(call, name) for name, text in parts.arguments.items() if not text and f"``{name}``" not in above]
    assert [] == mute


def test_errors_are_in_the_list() -> None:
    """What a docstring says of an error is in the list of errors; no sentence above it begins with one."""
    errors = "|".join(name for name, value in vars(culm.errors).items() if isinstance(value, type))
    for call in functions():
        parts = fields_of(call)
        assert not re.search(rf"(?:^|[.;] )``(?:{errors})``", " ".join(parts.prose)), call
        assert all(when.endswith(".") for _, when in parts.raises), call


def test_nothing_of_a_docstring_is_lost() -> None:
    """Every word of a docstring is in its text or its lists, but those that only say which list that is."""
    links = {"returns", "Returns", "The", "errors", "are", "is", "those", "of", "Errors", "as", "for", "and"}
    links |= {"raises", "Opening", "Iterating", "append", "payload", "sync", "fetch_pieces"}
    for call in functions():
        parts = fields_of(call)
        errors = [part for error in parts.raises for part in error]
        kept = " ".join([*parts.prose, *parts.arguments, *parts.arguments.values(), parts.returns, *errors])
        words = re.findall(r"\w+", inspect.getdoc(found(call)) or "")
        assert set(words) - set(re.findall(r"\w+", kept)) <= links, call


def test_a_docstring_taken_apart() -> None:
    """The parts of one docstring, as its reader sees them on the site."""
    parts = fields_of("culm.Node.sync")
    assert parts.prose == ["Exchange once with a peer everything that both sides want of each other."]
    assert parts.returns == "the counts"
    assert [name for name, _ in parts.raises] == ["NetworkError", "RemoteProtocolError"]
    assert parts.arguments["progress"] == "called several times a second, with the counts so far."
    assert fields_of("culm.Node.append_many").raises == fields_of("culm.Node.append").raises
