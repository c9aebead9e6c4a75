r"""Running what stands on a page of the docs, as its reader would.

A block marked ``sh`` is run by bash, one marked ``python`` by Python, one after the other, in an empty folder that is
also the home directory. A block marked ``text`` behind it is what it prints. Comments, which the site does not show,
say what else there is to know::

    <!-- run: leave running -->           the block's last command goes on, in a terminal of its own
    <!-- run: exit code 1 -->             how the block ends
    <!-- run: until it does -->           the block is repeated until it prints what the page says
    <!-- run: not here: REASON -->        the block is left out
    <!-- run: nothing on this page: REASON -->   no block of the page is run (``tests/docs/test_blocks.py``)
    <!-- file: NAME -->                   the block is the content of a file
    <!-- before:                          what the page takes for granted, in shell
    ... -->
    <!-- before, leave running:           the same of what goes on
    ... -->

In what is printed, keys, hashes, sizes, times and port numbers may be others than on the page, and a line ``...``
stands for any lines.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator


_BLOCK = re.compile(
    r"^<!-- before(?:, (?P<how>[a-z ]+))?:\n(?P<before>.*?)-->\n"
    r"|^(?:<!-- (?P<mark>run|file): (?P<what>[^\n]*?) -->\n)?"
    r"^(?P<fence>```+)(?P<kind>[^\n]*)\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
# Runs blocks as parts of one program: a block a line on stdin, as JSON, and a line with NUL behind what each prints.
_PROGRAM = """
import json, sys
names = {}
for line in sys.stdin:
    exec(compile(json.loads(line), "a block of the page", "exec"), names)
    print("\\0", flush=True)
"""
_PORT = re.compile(r"(?:(?<=:)|(?<=--port ))\d{4}(?!\d)")
# What differs from run to run, most telling first: the longer a pattern, the less it could mean anything else.
_VARIABLE = (
    (r"[0-9A-Za-z]{43}(?![0-9A-Za-z])", r"[0-9A-Za-z]{43}"),
    (r"[0-9a-f]{16,}", r"[0-9a-f]{16,}"),
    (r"(?<=\()[0-9A-Za-z]{8}(?=[,)])", r"[0-9A-Za-z]{8}"),  # The beginning of a key, beside its name.
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?"),
    (r"no native core\b", r"(?:no native core(?: \(CULM_NATIVE=off\))?|native core \d+\.\d+\.\d+)"),
    (r"\d+ MiB free of \d+", r"\d+ MiB free of \d+"),
    (r"\d+(?:\.\d)? (?:B|[KMG]iB)\b", r"\d+(?:\.\d)? (?:B|[KMG]iB)\b"),
    (r"\d+\.\d+ ?s\b", r"\d+\.\d+ ?s\b"),
    (r"[ ]+", r"[ ]+"),
)


@dataclass
class Block:
    """A piece of a page: its first line, its kind (``sh``, ``text`` ...), its content, what a comment says."""

    line: int
    kind: str
    text: str
    mark: str = ""
    what: str = ""


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in order; what it takes for granted is of the kind ``before``."""
    content = page.read_text()
    for match in _BLOCK.finditer(content):
        line = content.count("\n", 0, match.start()) + 1
        if match["before"] is not None:
            yield Block(line, "before", match["before"], "run", match["how"] or "")
        else:
            yield Block(line, match["kind"], match["text"], match["mark"] or "", match["what"] or "")


def pattern(expected: str) -> re.Pattern[str]:
    """What matches an output that the page shows."""
    choice = re.compile("|".join(f"({seen})" for seen, _ in _VARIABLE))
    lines = []
    for line in expected.splitlines():
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
            continue
        parts, end = [], 0
        for match in choice.finditer(line):
            parts += [re.escape(line[end : match.start()]), _VARIABLE[(match.lastindex or 1) - 1][1]]
            end = match.end()
        lines.append("".join([*parts, re.escape(line[end:]), r"[ ]*\n"]))
    return re.compile("".join(lines))


@dataclass
class Reader:
    """Somebody who goes through a page with a folder of their own.

    ``one_program``: the page's Python blocks are parts of one program; else each is a program. A file ``author`` in the
    folder says what stands for ``AUTHOR`` in the blocks of one program. ``seconds``: how long a command may take.
    """

    page: Path
    folder: Path
    programs: Path
    one_program: bool = False
    seconds: float = 60
    ports: dict[str, str] = field(default_factory=dict)
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _program: subprocess.Popen[str] | None = None

    def read(self) -> int:
        """Run the page; how many blocks were. ``AssertionError`` names the block that does not do what it says."""
        found = list(blocks(self.page))
        ran = 0
        try:
            for number, block in enumerate(found):
                following = found[number + 1] if number + 1 < len(found) else None
                shown = following.text if following is not None and following.kind == "text" else None
                if block.mark == "file":
                    self._write(block)
                elif block.kind in {"before", "sh", "python"} and not block.what.startswith("not here: "):
                    self._run(block, shown)
                    ran += 1
        finally:
            self._stop()
        return ran

    def _write(self, block: Block) -> None:
        path = self.folder / block.what.replace("~/", "")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._here(block.text))

    def _run(self, block: Block, shown: str | None) -> None:
        expected = None if shown is None else pattern(self._here(shown))
        if block.what == "leave running":
            self._leave_running(block, expected)
            return
        if block.kind == "python" and self.one_program:
            out = self._as_shown(self._as_part(block).encode())
            assert expected is None or expected.fullmatch(out), (
                f"{self._at(block)}: printed\n{out}\ninstead of\n{shown}"
            )
            return
        code = int(block.what.removeprefix("exit code ")) if block.what.startswith("exit code ") else 0
        assert code or block.what in {"", "until it does"}, f"{self._at(block)}: what is {block.what!r}?"
        deadline = time.monotonic() + (PATIENCE if block.what == "until it does" else 0)
        while True:
            result = subprocess.run(
                ["bash", "-c", self._script(block)],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.seconds,
                check=False,
            )
            out = self._as_shown(result.stdout)
            fits = result.returncode == code and (expected is None or expected.fullmatch(out))
            if fits or time.monotonic() >= deadline:
                break
            time.sleep(0.1)
        assert result.returncode == code, f"{self._at(block)}: exit code {result.returncode}\n{block.text}\n{out}"
        assert fits, f"{self._at(block)}: printed\n{out}\ninstead of\n{shown}"

    def _as_part(self, block: Block) -> str:
        """Run a block as a part of the page's program; what it prints."""
        errors = self.folder / ".errors"
        if self._program is None:
            with errors.open("wb") as stderr:
                self._program = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM],
                    cwd=self.folder,
                    env=self._environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    text=True,
                )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        author = self.folder / "author"
        text = block.text.replace("AUTHOR", author.read_text().strip()) if author.exists() else block.text
        print(json.dumps(text), file=self._program.stdin, flush=True)
        lines = []
        while (line := self._program.stdout.readline()) != "\0\n":
            assert line, f"{self._at(block)}: the program ended\n{errors.read_text()}"
            lines.append(line)
        return "".join(lines)

    def _leave_running(self, block: Block, expected: re.Pattern[str] | None) -> None:
        path = self.folder / f".terminal-{len(self._running)}"
        with path.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", self._script(block, remember=False)],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)
        deadline = time.monotonic() + PATIENCE
        expected = expected or re.compile(r"(listening \S+\n)" * block.text.count("--listen "))
        while not expected.match(self._as_shown(path.read_bytes())):
            assert time.monotonic() < deadline and process.poll() is None, (  # noqa: PT018 - one claim
                f"{self._at(block)}: printed\n{path.read_text()}"
            )
            time.sleep(0.05)

    def _script(self, block: Block, *, remember: bool = True) -> str:
        """The block, with the variables that earlier ones set (a terminal of its own has none)."""
        kept = self.folder / ".variables"
        if not remember:
            return f"set -e\n{self._here(block.text)}"
        if block.kind == "python":
            return f"{shlex.join([sys.executable, '-c', self._here(block.text)])}"
        names = " ".join(sorted(set(re.findall(r"^\s*(?:export )?([A-Z_]+)=", self.page.read_text(), re.MULTILINE))))
        keep = f"trap 'declare -p {names} >{kept} 2>/dev/null || true' EXIT" if names else ""
        return f"[ -e {kept} ] && . {kept}\nset -e\n{keep}\n{self._here(block.text)}"

    def _here(self, text: str) -> str:
        """The text with ports that are free here in place of those of the page."""
        return _PORT.sub(lambda match: self.ports.get(match[0]) or self._new_port(match[0]), text)

    def _new_port(self, written: str) -> str:
        """A free port in place of one that a page names; the system may offer the same one twice."""
        port = next(port for port in iter(lambda: str(free_port()), None) if port not in self.ports.values())
        self.ports[written] = port
        return port

    def _as_shown(self, output: bytes) -> str:
        """What was printed, with the reader's home under the name that the pages give it."""
        text = output.decode().replace(str(self.folder), "/home/you")
        return text if text.endswith("\n") or not text else text + "\n"

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CULM_", "PYTEST", "COV"))}
        path = f"{self.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return kept | {"HOME": str(self.folder), "PATH": path, "LC_ALL": "C.UTF-8", "TMPDIR": str(self.folder)}

    def _at(self, block: Block) -> str:
        return f"{self.page.name}, line {block.line}"

    def _stop(self) -> None:
        if self._program is not None:
            self._program.communicate()
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._running:
            process.wait(PATIENCE)


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
