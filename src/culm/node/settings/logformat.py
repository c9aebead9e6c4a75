"""The node's log: one line for each event, as text or as JSON.

A line has a fixed text and fields: ``peer``, ``log``, ``seq``, ``reason``, ``seconds``, ``count``. Only these fields
are written, so that neither a payload nor a secret can get into a log file. Text that a peer can influence is escaped,
because a line feed in it could forge a log line, and an escape sequence could control the reader's terminal.

A program that uses Culm as a library has a logging of its own, whose format does not know these fields. It would
print "dropped the peer" and no reason. So the message of each record is a ``Told``: as text it has the fields, too.
"""

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from traceback import walk_tb

FIELDS = ("peer", "log", "seq", "reason", "seconds", "count")
_LONGEST = 500  # Characters of one field, so that a peer cannot fill the disk with long reasons.
_CALLS = 6  # innermost calls of an exception's trace: enough to find the place, few enough for one line


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}


def harmless(value: object) -> str:
    """A value as one line of printable characters, everything else escaped."""
    text = str(value)[:_LONGEST]
    # Not the codec "unicode_escape": Python imports it when it is first used. That may be now, when no file can be
    # opened and this is what the line says.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _failure(record: logging.LogRecord) -> str | None:
    """A logged exception on one line: its text, and the innermost calls of its trace."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return None
    calls = reversed([(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)][-_CALLS:])
    places = " < ".join(f"{Path(code.co_filename).name}:{line} {code.co_name}" for code, line in calls)
    return f"{type(error).__name__}: {str(error)[: _LONGEST // 2]}" + (f" ({places})" if places else "")


@dataclass(frozen=True, slots=True)
class Told:
    """The message of a record: its fixed text, and as text the fields behind it, everything escaped."""

    text: str
    fields: dict[str, object]

    def __str__(self) -> str:
        line, reason = harmless(self.text), self.fields.get("reason")
        if reason is not None:
            line += f": {harmless(reason)}"
        others = ", ".join(f"{name} {harmless(value)}" for name, value in self.fields.items() if name != "reason")
        return f"{line} ({others})" if others else line


def tell_fields(record: logging.LogRecord) -> bool:
    """A filter that lets every record pass and puts its fields into the message."""
    if not isinstance(record.msg, Told):
        record.msg, record.args = Told(record.getMessage(), _fields(record)), ()
    return True


def _text(record: logging.LogRecord) -> str:
    """The message without the fields."""
    return record.msg.text if isinstance(record.msg, Told) else record.getMessage()


class TextFormatter(logging.Formatter):
    """``2026-01-01T10:00:00.000Z WARNING dropped the peer: REASON (peer alice, log AUTHOR/1)``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = _fields(record)
        if "reason" not in fields and (failure := _failure(record)) is not None:
            fields["reason"] = failure
        return f"{_time(record)} {record.levelname} {Told(_text(record), fields)}"


class JsonFormatter(logging.Formatter):
    """An object with ``time``, ``level``, ``event``, and the fields that the line has."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": _text(record)[:_LONGEST],
            **_fields(record),
        }
        if "reason" not in fields and (failure := _failure(record)) is not None:
            fields["reason"] = failure
        return json.dumps(
            {name: value if isinstance(value, int | float) else str(value)[:_LONGEST] for name, value in fields.items()}
        )


FORMATTERS: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}
