"""LZFoo beside zlib and lz4: how small, how fast, on JSON lines, English text and random bytes."""

from __future__ import annotations

import importlib
import json
import math
import random
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import Figure, say
from bench.harness import seconds as measure
from culm.wire.lzfoo import Decoder, Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
CHUNK, WINDOW = 64 * 1024, 64 * 1024
BYTES = 1_000_000
DECODE_GOAL = 100.0  # MB/s
_LZ4 = "lz4==4.4.4"


def json_lines(size: int) -> bytes:
    """Log lines as a service writes them."""
    rng, total = random.Random(1), 0
    lines: list[str] = []
    while total < size:
        line = {
            "time": 1_700_000_000 + 3 * len(lines),
            "level": rng.choice(["info", "warn", "debug"]),
            "user": rng.randrange(10**6),
            "path": f"/api/v1/items/{rng.randrange(10**5)}",
            "status": rng.choice([200, 404, 500]),
            "took_ms": round(rng.random() * 100, 2),
        }
        lines.append(json.dumps(line) + "\n")
        total += len(lines[-1])
    return "".join(lines).encode()[:size]


def _text() -> bytes:
    """What Culm says of itself, in English: its pages and docstrings."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return b"\n".join(path.read_bytes() for path in files)[:BYTES]


def _lz4() -> Any:  # noqa: ANN401 - a module without types
    """lz4's frames, installed beside the benchmarks if need be; None where it cannot be had."""
    folder = ROOT / "build" / "bench" / "lz4"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), _LZ4]
        subprocess.run(command, check=False, capture_output=True)
    sys.path.append(str(folder))
    try:
        return importlib.import_module("lz4.block")
    except ImportError:
        return None
    finally:
        sys.path.remove(str(folder))


def run() -> list[Figure]:
    """Measure."""
    lz4 = _lz4()
    if lz4 is None:
        say("lz4 cannot be had here")
    data = {"JSON lines": json_lines(BYTES), "English text": _text(), "random bytes": random.Random(2).randbytes(BYTES)}
    figures = []
    for name, text in data.items():
        say(f"{name}: {len(text):,} bytes in messages of {CHUNK:,}")
        pieces = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
        figures += _lzfoo(name, pieces)
        figures += _other(f"{name}, zlib -1", pieces, lambda piece: zlib.compress(piece, 1), zlib.decompress)
        if lz4 is not None:
            figures += _other(f"{name}, lz4", pieces, lz4.compress, lz4.decompress)
    return figures


def _lzfoo(name: str, pieces: list[bytes]) -> list[Figure]:
    encoder, decoder = Encoder(WINDOW), Decoder(WINDOW)
    encoded: list[bytes] = []
    seconds = measure(lambda: encoded.extend(encoder.encode_if_smaller(piece, math.inf) or b"" for piece in pieces))

    def decode() -> None:
        for piece, message in zip(pieces, encoded, strict=True):
            decoder.begin(len(piece))
            if b"".join(decoder.feed(message)) != piece:
                raise AssertionError("not what was encoded")
            decoder.finish()

    taken = measure(decode)
    total = sum(map(len, pieces))
    name = f"{name}, lzfoo"
    goal = DECODE_GOAL if "random" not in name else None
    return [
        Figure(f"{name}: size", 100 * sum(map(len, encoded)) / total, "%"),
        Figure(f"{name}: encoding", total / seconds / 1e6, "MB/s"),
        Figure(f"{name}: decoding", total / taken / 1e6, "MB/s", goal=goal),
    ]


def _other(
    name: str, pieces: list[bytes], compress: Callable[[bytes], bytes], decompress: Callable[[bytes], bytes]
) -> list[Figure]:
    encoded: list[bytes] = []
    seconds = measure(lambda: encoded.extend(map(compress, pieces)))
    taken = measure(lambda: list(map(decompress, encoded)))
    total = sum(map(len, pieces))
    return [
        Figure(f"{name}: size", 100 * sum(map(len, encoded)) / total, "%"),
        Figure(f"{name}: encoding", total / seconds / 1e6, "MB/s"),
        Figure(f"{name}: decoding", total / taken / 1e6, "MB/s"),
    ]
