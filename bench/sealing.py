"""Sealing and opening a payload of 1 GB: CPU time beside bare ``pyrage``, and memory, each in a process of its own.

The bare library reads from one file object and writes to another. ``Sealer`` and ``opened`` are iterators, as the store
takes and gives payloads, so they change threads for each piece. The last parts are all that ``culm append --for`` and
``culm show --payload`` do with a payload: they also hash and store it, and compare it on the way back.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.harness import Figure, median_ratio, say
from culm import Identity, SQLiteStore
from culm.sealing import Keyring, Sealer, opened, reader_of
from culm.sealing.header import parse_header, read_start
from culm.sealing.readers import recipient_of, the_library

SIZE = 1_000_000_000  # bytes
SMALL = 50_000_000  # With it the memory is compared: of something constant it takes as much.
ROUNDS = 5
PIECE = bytes(range(256)) * 1024
ME = Identity(bytes(32))


class _Source:
    """A file with so many bytes, which takes no time to read."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1) -> bytes:
        size = min(size if size >= 0 else len(PIECE), self._left, len(PIECE))
        self._left -= size
        return PIECE[:size]

    def pieces(self) -> Iterator[bytes]:
        """The same as an iterator."""
        while piece := self.read():
            yield piece


class _Nowhere:
    """A file that takes everything."""

    def write(self, data: bytes) -> int:
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""


def _drop(pieces: Iterable[bytes]) -> None:
    for _ in pieces:
        pass


def _of_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(len(PIECE)):
            yield piece


def _seal_barely(size: int, _: Path) -> None:
    the_library().encrypt_io(_Source(size), _Nowhere(), [recipient_of(reader_of(ME.public))])


def _seal(size: int, _: Path) -> None:
    _drop(Sealer([reader_of(ME.public)]).pieces(_Source(size).pieces()))


def _keys(sealed: Path) -> list[object]:
    return Keyring.of([ME]).keys_for(parse_header(read_start(_of_file(sealed))))


def _open_barely(_: int, folder: Path) -> None:
    with (folder / "sealed").open("rb") as source:
        the_library().decrypt_io(source, _Nowhere(), _keys(folder / "sealed"))


def _open(_: int, folder: Path) -> None:
    _drop(opened(_of_file(folder / "sealed"), Keyring.of([ME])))


def _append(size: int, folder: Path) -> None:
    with SQLiteStore(folder / "store.db") as store:
        store.append(ME, 1, Sealer([reader_of(ME.public)]).pieces(_Source(size).pieces()))


def _read(_: int, folder: Path) -> None:
    with SQLiteStore(folder / "store.db", read_only=True) as store:
        (stored,) = store.entries((ME.public, 1))
        _drop(opened(store.payload(stored), Keyring.of([ME])))


PARTS: dict[str, Callable[[int, Path], None]] = {
    "seal barely": _seal_barely,
    "seal": _seal,
    "open barely": _open_barely,
    "open": _open,
    "append": _append,
    "read": _read,
}


def main() -> None:
    """One part, in this process: prints CPU seconds and the most memory, in bytes."""
    part, size, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    PARTS[part](size, folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not ``ru_maxrss``: that of a child begins with what its parent had.
    peak = int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps([used.ru_utime + used.ru_stime, peak]))


def _measured(part: str, size: int, folder: Path) -> tuple[float, float]:
    call = [sys.executable, "-m", "bench.sealing", part, str(size), str(folder)]
    found = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    cpu, memory = json.loads(found)
    return cpu, memory


def _make(folder: Path, size: int) -> None:
    folder.mkdir()
    with (folder / "sealed").open("wb") as file:
        file.writelines(Sealer([reader_of(ME.public)]).pieces(_Source(size).pieces()))


def run() -> list[Figure]:
    """Measure."""
    say(f"sealing and opening {SIZE:,} bytes")
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name) / "small", Path(name) / "large"
        _make(small, SMALL)
        _make(large, SIZE)
        cpu: dict[str, list[float]] = {part: [] for part in PARTS}
        memory = dict.fromkeys(PARTS, 0.0)
        for number in range(ROUNDS):
            for part in PARTS:
                if part not in ("append", "read") or not number:
                    spent, most = _measured(part, SIZE, large)
                    cpu[part].append(spent)
                    memory[part] = max(memory[part], most)
        small_memory = {part: _measured(part, SMALL, small)[1] for part in PARTS}
    figures = []
    for part, like in (("seal", "seal barely"), ("open", "open barely"), ("append", "seal"), ("read", "open")):
        rate = SIZE / statistics.median(cpu[part]) / 1e6
        ratio = median_ratio(cpu[part], cpu[like][: len(cpu[part])])
        what = f"the CPU time of {'bare pyrage' if 'barely' in like else f'{like} alone'}"
        figures.append(Figure(f"{part} 1 GB", rate, "MB/s of CPU", what, ratio))
        grown = memory[part] / small_memory[part]
        figures.append(Figure(f"{part} 1 GB: memory", memory[part] / 2**20, "MiB", "that for 50 MB", grown))
    return figures


if __name__ == "__main__":
    main()
