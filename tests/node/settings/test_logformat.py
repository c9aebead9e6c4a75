"""The node's log: one line each, its fields, nothing that a peer could do with it."""

from __future__ import annotations

import json
import logging
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.errors import Place
from culm.node.sessions.stats import tell_refused
from culm.node.settings.logformat import FIELDS, JsonFormatter, TextFormatter


def record(message: str, **fields: object) -> logging.LogRecord:
    """A line to be written."""
    made = logging.LogRecord("culm.node", logging.WARNING, __file__, 1, message, (), None)
    made.created = 0.25
    made.__dict__.update(fields)
    return made


def test_both_forms() -> None:
    """As text the reason follows what happened and the fields stand behind; as JSON each has its name."""
    line = record("dropped the peer", peer="alice", reason="gone", seconds=3, secret="x")
    assert TextFormatter().format(line) == (
        "1970-01-01T00:00:00.250Z WARNING dropped the peer: gone (peer alice, seconds 3)"
    )
    assert json.loads(JsonFormatter().format(line)) == {
        "time": "1970-01-01T00:00:00.250Z", "level": "warning", "event": "dropped the peer", "peer": "alice",
        "reason": "gone", "seconds": 3,
    }  # fmt: skip


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(), st.text(), st.integers())
def test_a_line_is_a_line(message: str, field: str, number: int) -> None:
    """Whatever stands in it, a line has no line ends and nothing that a terminal obeys, and JSON can be read."""
    line = record("what %s", peer=field, reason=message, seq=number)
    line.args = (message,)
    assert TextFormatter().format(line).isprintable()
    found = json.loads(JsonFormatter().format(line))
    assert found["peer"] == field[:500]
    assert set(found) <= {"time", "level", "event", *FIELDS}
    assert "\n" not in JsonFormatter().format(line)


def test_exceptions_are_one_line() -> None:
    """What was raised is the reason, and where that was, the innermost call first."""
    line = record("failed")

    def fail() -> None:
        raise ValueError("first\nsecond")

    try:
        fail()
    except ValueError:
        line.exc_info = sys.exc_info()
    place = r"test_logformat\.py:\d+ "
    assert re.search(rf": first\\nsecond \({place}fail < {place}test_exceptions\w+\)$", TextFormatter().format(line))
    assert json.loads(JsonFormatter().format(line))["reason"].startswith(
        "ValueError: first\nsecond (test_logformat.py:"
    )


def test_refused_entries_name_their_log(caplog) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """A refusal says of which log and entry, and nothing of the payload."""
    tell_refused(Place(b"\0" * 32, 3, 9), "the signature does not verify", "alice")
    (line,) = [record for record in caplog.records if getattr(record, "seq", None) == 9]
    assert (line.log, line.seq, line.peer) == ("0" * 43 + "/3", 9, "alice")


@pytest.mark.parametrize("format_", ["%(message)s", "{message}"])
def test_an_application_sees_the_reason(format_: str) -> None:
    """A program with a plain logging of its own reads the reason and the fields, escaped, behind what happened."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    handler.setFormatter(logging.Formatter(format_, style="{" if format_[0] == "{" else "%"))
    logger = logging.getLogger("culm.node")
    logger.addHandler(handler)
    try:
        extra = {"peer": "alice", "reason": "100 % wrong\nforged", "secret": "x"}
        logger.warning("refusing %s for %.0f s", "alice", 9.6, extra=extra)
    finally:
        logger.removeHandler(handler)
    assert ["refusing alice for 10 s: 100 % wrong\\nforged (peer alice)"] == lines


def test_the_event_stays_short() -> None:
    """In JSON the event is what happened, without the fields, which have names of their own."""
    lines: list[dict[str, object]] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(JsonFormatter().format(record)))  # type: ignore[method-assign]
    logger = logging.getLogger("culm.node")
    logger.addHandler(handler)
    try:
        logger.warning("dropped the peer", extra={"reason": "gone"})
    finally:
        logger.removeHandler(handler)
    assert [("dropped the peer", "gone")] == [(line["event"], line["reason"]) for line in lines]
