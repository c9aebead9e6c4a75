"""``python -m fuzz.run.worker TARGET SECONDS DATA VERSION SEED``: one process that feeds one target.

Guided by atheris where it is installed: an input that reaches something new joins the working corpus,
``DATA/corpus/TARGET``. Without it the inputs are random mutations of the corpus. Work done is written to the ledger
every minute, and at the end: the end comes after that many seconds of CPU, or with SIGTERM or SIGINT. Findings are
saved, and the work goes on.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from fuzz.run import corpus, findings, ledger
from fuzz.run.inputs import random_inputs
from fuzz.topics import load

if TYPE_CHECKING:
    from fuzz.target import Target

try:
    import atheris
except ImportError:  # pragma: no cover - there is no wheel for every Python
    atheris = None

_RECORD_EVERY = 60.0  # seconds
_HUNG = 600  # seconds after which an input never ends: it is saved and the process ends
_MEGABYTES = 2048  # of memory that an input may take: more, and it is saved and the process ends


class Worker:
    """Feeds a target and keeps account of it."""

    def __init__(self, target: Target, seconds: float, data: Path, version: str) -> None:
        self._target = target
        self._data = data
        self._version = version
        self._until = time.process_time() + seconds
        self._since = 0.0  # the CPU that setting up took belongs to the target, too
        self._last = time.process_time()
        self._recorded = time.monotonic()
        self._inputs = 0
        self._findings: list[str] = []
        self._stopped = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self._stopped = True

    def feed(self, content: bytes) -> None:
        """One input; ends the process when it is time."""
        error = self._target.outcome(content)
        now = time.process_time()
        if error is None and now - self._last > findings.SLOW:
            error = findings.TooSlow(f"{now - self._last:.0f} s of CPU for {len(content)} bytes")
        self._inputs += 1
        if error is not None:
            name = findings.save(self._data, self._target.name, content, error)
            if name is not None:
                self._findings.append(name)
                print(f"FINDING {name}: {type(error).__name__}: {error}", flush=True)
        if self._stopped or now > self._until:
            self._end()
        if time.monotonic() - self._recorded > _RECORD_EVERY:
            self._record()
        self._last = time.process_time()

    def _record(self) -> None:
        now = time.process_time()
        stretch = ledger.Stretch(
            self._target.name, self._version, now - self._since, self._inputs, tuple(self._findings)
        )
        ledger.append(self._data, stretch)
        self._since, self._inputs, self._findings = now, 0, []
        self._recorded = time.monotonic()

    def _end(self) -> NoReturn:
        """Leave at once: the guided loop has no other way out."""
        self._record()
        sys.stdout.flush()
        os._exit(0)


def main() -> None:
    """Feed a target until it is time."""
    logging.getLogger("culm.node").setLevel(logging.CRITICAL)
    name, seconds, folder, version, seed = sys.argv[1:]
    data = Path(folder)
    if atheris is None:
        target = load(name)
    else:
        with atheris.instrument_imports(include=["culm"]):
            target = load(name)
    working = corpus.working(data, target)
    worker = Worker(target, float(seconds), data, version)
    if atheris is None:
        known = [*target.seeds, *(file.read_bytes() for file in sorted(working.iterdir()))]
        for content in random_inputs(known, random.Random(seed)):
            worker.feed(content)
    findings.folder_of(data).mkdir(parents=True, exist_ok=True)
    options = {
        "seed": seed,
        "max_len": max(target.longest, *map(len, target.seeds)),
        "timeout": _HUNG,
        "rss_limit_mb": _MEGABYTES,
        "artifact_prefix": f"{findings.folder_of(data)}/{name}-",
        "report_slow_units": 10 * _HUNG,
        "handle_int": 0,
        "handle_term": 0,
        "verbosity": 0,
        "reload": 0,
    }
    atheris.Setup([sys.argv[0], *(f"-{key}={value}" for key, value in options.items()), str(working)], worker.feed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
