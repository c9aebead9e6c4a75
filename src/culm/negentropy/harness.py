"""``python -m culm.negentropy.harness``: one side of a session over stdin and stdout.

A line is a command, its parts parted by commas: ``item,TIMESTAMP,ID``, ``seal``, ``initiate``, ``msg,HEX``. Answers are
``have,ID``, ``need,ID``, ``msg,HEX`` and ``done``. ``FRAMESIZELIMIT`` in the environment is the frame limit in bytes.
``NEGENTROPY_CPP_RUST_0_5_2_BYTES=1`` asks for the bytes of C++, and of Rust up to 0.5.2; ``NEGENTROPY_REFERENCE_BYTES``
is an older name of that. An error ends the process: exit code 1, a line on stderr. The reference implementations have
the same kind of harness, so that all of them can be run against each other.

Specification: docs/specs/negentropy.md, "Harness".
"""

import os
import sys
from collections.abc import Mapping
from typing import TextIO

from culm.errors import CulmError
from culm.negentropy.array import ArrayStorage
from culm.negentropy.reconciler import Negentropy

_REFERENCE_BYTES = ("NEGENTROPY_CPP_RUST_0_5_2_BYTES", "NEGENTROPY_REFERENCE_BYTES")


class Harness:
    """The commands of one session."""

    def __init__(self, out: TextIO, environment: Mapping[str, str]) -> None:
        self._out = out
        self._limit = int(environment.get("FRAMESIZELIMIT") or 0)
        self._reference_bytes = any(environment.get(name) == "1" for name in _REFERENCE_BYTES)
        self._items: list[tuple[int, bytes]] = []
        self._session: Negentropy | None = None
        self._initiated = False
        self._told = [0, 0]  # how many of have and need were printed

    def run(self, line: str) -> None:
        """Run one command; ``ValueError`` or ``CulmError`` if it is malformed or out of order."""
        match line.split(","):
            case [""]:
                pass
            case ["item", timestamp, identity]:
                self._items.append((int(timestamp), bytes.fromhex(identity)))
            case ["seal"]:
                storage = ArrayStorage.of(self._items)
                self._session = Negentropy(storage, self._limit, reference_bytes=self._reference_bytes)
            case ["initiate"]:
                self._initiated = True
                self._say("msg," + self._open().initiate().hex())
            case ["msg", message]:
                self._answer(bytes.fromhex(message))
            case _:
                raise ValueError(f"not a command: {line[:100]}")

    def _open(self) -> Negentropy:
        if self._session is None:
            raise ValueError("this command needs a sealed set: send seal first")
        return self._session

    def _answer(self, message: bytes) -> None:
        session = self._open()
        answer = session.reconcile(message)
        if self._initiated:
            for index, (word, found) in enumerate((("have", session.have), ("need", session.need))):
                for identity in found[self._told[index] :]:
                    self._say(f"{word},{identity.hex()}")
                self._told[index] = len(found)
        self._say("done" if answer is None else "msg," + answer.hex())

    def _say(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


def main() -> int:
    """Run the commands of stdin to its end; the exit code."""
    try:
        harness = Harness(sys.stdout, os.environ)
        for line in sys.stdin:
            harness.run(line.strip())
    except (CulmError, ValueError) as error:
        sys.stderr.write(f"negentropy harness: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
