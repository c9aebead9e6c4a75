"""Programs that are killed: started as their user would start them, watched, ended at the moment aimed at."""

from __future__ import annotations

import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from crash.watching import Watch

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

_PATIENCE = 120.0  # seconds after which a program counts as hung
_JUST, _MOMENT = 0.03, 0.2  # seconds since the last change of a file
_LESS = 10  # how much lower the priority of a victim is, so that it does not get ahead of who is to kill it
_EARLY = 40  # changes of a file, within which most work has not ended
_LAST_CHANGES = 2  # of a run, that only take its files away
_REMEMBERED = 9  # durations of a step that are taken into account


class Hung(Exception):
    """A program neither ended nor did what it was to do."""


@dataclass(frozen=True, slots=True)
class Call:
    """A program to run: ``python -m`` a module, with arguments.

    ``step`` names what it does, for runs that take equally long. ``ready``: its work begins when it prints a line that
    begins so, else with its first change of a file. ``endless``: it runs until it is ended, is worth being killed up to
    its change of a file of that number, and idle after ``seconds``.
    """

    step: str
    arguments: tuple[str, ...]
    module: str = "culm.cli"
    stdin: Path | None = None
    ready: str | None = None
    endless: int | None = None
    seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class Aim:
    """When to kill: at the ``changes``-th change of a file, or ``seconds`` after the work began, if that is first."""

    changes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a run.

    ``at_work``: when it was killed it had files of its scene open or had just changed one (one that runs without end:
    had changed one a moment before). ``code`` is None if it was
    killed. ``lines`` are the whole lines it printed. ``changes`` and ``seconds`` count from where its work began to
    the last change of a file.
    """

    killed: bool
    at_work: bool
    code: int | None
    lines: tuple[str, ...]
    errors: str
    changes: int
    seconds: float


@dataclass
class Aims:
    """Chooses moments, from how long a step's work took before; for the first time early in it."""

    rng: random.Random
    _known: dict[str, deque[tuple[int, float]]] = field(default_factory=dict)

    def learn(self, step: str, fate: Fate) -> None:
        """A run of a step that was not killed took so long."""
        self._known.setdefault(step, deque(maxlen=_REMEMBERED)).append((fate.changes, fate.seconds))

    def choose(self, call: Call) -> Aim:
        """A moment for the next run."""
        if call.endless is not None:
            return Aim(changes=self.rng.randint(1, call.endless), seconds=call.seconds)
        known = self._known.get(call.step)
        if not known:
            return Aim(changes=self.rng.randint(1, _EARLY))
        changes = statistics.median(changes for changes, _ in known)
        if self.rng.random() < 0.5 and changes >= 1:
            return Aim(changes=self.rng.randint(1, max(1, int(changes) - _LAST_CHANGES)))
        return Aim(seconds=self.rng.uniform(0.0, statistics.median(seconds for _, seconds in known)))


def environment() -> dict[str, str]:
    """What programs are started with: nothing that leads to another home."""
    return {key: value for key, value in os.environ.items() if key not in ("CULM_HOME", "CULM_PASSPHRASE")}


def command(module: str, arguments: Iterable[str]) -> list[str]:
    """How a module is run."""
    return [sys.executable, "-m", module, *arguments]


class Victim:
    """A program under way in some folders. ``run`` sees it to its end; ``begun`` and ``end`` do half of that each."""

    def __init__(self, call: Call, folders: Sequence[Path]) -> None:
        self._call = call
        self._folders = folders
        self._watch = Watch(folders)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        with open(call.stdin or os.devnull, "rb") as stdin:  # noqa: PTH123 - either is a path
            self._process = subprocess.Popen(
                command(call.module, call.arguments),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment(),
            )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _LESS)
        assert self._process.stdout is not None
        self._stdout = self._process.stdout.fileno()
        os.set_blocking(self._stdout, False)
        self._printed = bytearray()
        self._ended = os.pidfd_open(self._process.pid)
        self._poll = select.poll()
        for file in (self._watch.fileno(), self._stdout, self._ended):
            self._poll.register(file, select.POLLIN)
        self._closed = False
        self._changes = 0
        self._changed_at = 0.0
        self._began: float | None = None
        self._deadline = time.monotonic() + _PATIENCE

    @property
    def lines(self) -> tuple[str, ...]:
        """The whole lines printed so far."""
        return tuple(line.decode() for line in bytes(self._printed).split(b"\n")[:-1])

    def _step(self, until: float) -> bool:
        """Wait for the next thing to happen, not longer than that; whether the program runs still."""
        now = time.monotonic()
        if now > self._deadline:
            self.close()
            raise Hung(f"{self._call.step}: no end after {_PATIENCE:.0f} s: {' '.join(self._call.arguments)}")
        ready = {file for file, _ in self._poll.poll(max(0.0, min(until, self._deadline) - now) * 1000)}
        if self._watch.fileno() in ready and (count := self._watch.take()):
            self._changed_at = time.monotonic()
            if self._call.ready is None or self._began is not None:
                self._changes += count
                self._began = self._began or self._changed_at
        if self._stdout in ready:
            self._read()
        return self._ended not in ready

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while data := os.read(self._stdout, 64 * 1024):
                self._printed += data
            self._poll.unregister(self._stdout)
        ready = self._call.ready
        if ready is not None and self._began is None and any(line.startswith(ready) for line in self.lines):
            self._began = time.monotonic()

    def begun(self) -> bool:
        """Wait until its work has begun; whether it runs still."""
        while self._began is None:
            if not self._step(self._deadline):
                return False
        return True

    def run(self, aim: Aim | None) -> Fate:
        """See the program to its end: killed at the moment aimed at, if it gets there."""
        running = True
        while running:
            until = self._deadline
            if aim is not None and self._began is not None:
                if aim.changes is not None and self._changes >= aim.changes:
                    break
                if aim.seconds is not None:
                    until = self._began + aim.seconds
                    if time.monotonic() >= until:
                        break
            running = self._step(until)
        return self.end(kill=running)

    def end(self, *, kill: bool, number: int = signal.SIGKILL) -> Fate:
        """The end: by a signal, or its own."""
        at_work, now = False, time.monotonic()
        if kill:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGSTOP)
                at_work = self._is_at_work(now)
                os.kill(self._process.pid, number)
                os.kill(self._process.pid, signal.SIGCONT)
        code = self._process.wait(_PATIENCE)
        self._changes += self._watch.take()
        with suppress(KeyError):
            self._read()
        self._errors.seek(0)
        fate = Fate(
            killed=code == -signal.SIGKILL,
            at_work=at_work and code == -signal.SIGKILL,
            code=None if code == -signal.SIGKILL else code,
            lines=self.lines,
            errors=self._errors.read().decode(errors="replace"),
            changes=self._changes,
            seconds=0.0 if self._began is None else max(0.0, self._changed_at - self._began),
        )
        self.close()
        return fate

    def _is_at_work(self, now: float) -> bool:
        if self._call.endless is not None:
            return now - self._changed_at <= _MOMENT
        if now - self._changed_at <= _JUST:
            return True
        prefixes = tuple(f"{folder.resolve()}/" for folder in self._folders)
        with suppress(OSError):  # it has just ended
            for file in Path(f"/proc/{self._process.pid}/fd").iterdir():
                with suppress(OSError):
                    if str(file.readlink()).startswith(prefixes):
                        return True
        return False

    def close(self) -> None:
        """Let go of everything; a program that runs still is killed."""
        if self._closed:
            return
        self._closed = True
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._watch.__exit__()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()
        with suppress(OSError):
            os.close(self._ended)
