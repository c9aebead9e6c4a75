"""Runs workers, as many at once as there are cores: each time on the target that had the least CPU for its share."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from fuzz.fresh import FOLDER, make_folder
from fuzz.run import findings, ledger
from fuzz.target import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fuzz.target import Target

SLICES = 20.0, 120.0  # seconds of CPU that a worker gets: at first, and at most; in between, what its target had
_SHORTEST = 1.0  # what is worth starting one for


def next_target(targets: Sequence[Target], sums: Mapping[str, ledger.Stretch], busy: Sequence[str]) -> Target:
    """The target that had the least CPU for its share, of those that have no worker; of all, if each has one."""
    free = [target for target in targets if target.name not in busy] or targets
    return min(free, key=lambda target: sums[target.name].cpu / target.share if target.name in sums else 0.0)


class Runner:
    """Shares CPU time among targets."""

    def __init__(self, targets: Sequence[Target], data: Path, jobs: int, seed: int) -> None:
        self._targets = targets
        self._data = data
        self._jobs = jobs
        self._rng = random.Random(f"{seed} {len(ledger.read(data))}")  # a run that goes on makes other inputs
        self._version = ledger.version()
        self._workers: dict[subprocess.Popen[bytes], tuple[str, float]] = {}
        self._folders: dict[int, Path] = {}  # of each worker, for what its inputs write
        self._stopped = False

    def run(self, seconds: float) -> None:
        """Spend that many seconds of CPU over all targets, or fewer if SIGINT or SIGTERM comes."""
        self._data.mkdir(parents=True, exist_ok=True)
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        each = max(_SHORTEST, seconds / len(self._targets))
        start = self._spent()
        try:
            while not self._stopped:
                planned = sum(slice_ for _, slice_ in self._workers.values())
                left = seconds - (self._spent() - start) - planned
                if len(self._workers) < self._jobs and left >= _SHORTEST:
                    self._start(min(each, left))
                elif self._workers:
                    self._wait()
                else:
                    break
        finally:
            for worker in self._workers:
                worker.terminate()
            while self._workers:
                self._wait()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        """Let the workers write down what they did, and end."""
        self._stopped = True
        for worker in self._workers:
            worker.terminate()

    def _spent(self) -> float:
        return sum(item.cpu for item in ledger.read(self._data))

    def _start(self, most: float) -> None:
        """A worker for the target that had the least CPU for its share, of those that have none at work."""
        sums = ledger.by_target(ledger.read(self._data))
        name = next_target(self._targets, sums, [name for name, _ in self._workers.values()]).name
        had = sums[name].cpu if name in sums else 0.0
        seconds = min(most, max(SLICES[0], min(SLICES[1], had)))
        seed = str(self._rng.randrange(1, 1 << 31))
        command = [sys.executable, "-m", "fuzz.run.worker", name, str(seconds), str(self._data), self._version, seed]
        folder = make_folder()
        worker = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0", FOLDER: str(folder)},
            stderr=(self._data / f"{name}.log").open("wb"),
            start_new_session=True,  # what interrupts this process is passed on by it, once
        )
        self._workers[worker] = name, seconds
        self._folders[worker.pid] = folder

    def _wait(self) -> None:
        """Wait until a worker has ended; one that did not end by itself left what it choked on."""
        while True:
            for worker, (name, _) in self._workers.items():
                if worker.poll() is None:
                    continue
                del self._workers[worker]
                shutil.rmtree(self._folders.pop(worker.pid), ignore_errors=True)
                if worker.returncode:
                    self._died(name, worker.returncode)
                return
            time.sleep(0.2)

    def _died(self, name: str, code: int) -> None:
        """Put into the ledger that a worker was ended by an input, which is among the findings now."""
        print(f"{name}: the worker ended with code {code}; see {self._data / name}.log", flush=True)
        left = [file.name for file in findings.folder_of(self._data).glob(f"{name}-*") if not file.suffix]
        known = {found for item in ledger.read(self._data) for found in item.findings}
        new = tuple(sorted(set(left) - known))
        ledger.append(self._data, ledger.Stretch(name, self._version, 0.0, 0, new))
