"""LZFoo, in Python and by the native core, beside zlib and lz4: how small, how fast.

On JSON lines, English text and random bytes. The speeds are in CPU time.
"""

from __future__ import annotations

import importlib
import json
import math
import random
import statistics
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import Figure, say
from culm import native
from culm.wire.compression import NativeDecoder, NativeEncoder
from culm.wire.lzfoo import Decoder, Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    Codec = Callable[[list[bytes]], list[bytes]]

ROOT = Path(__file__).parents[1]
CHUNK, WINDOW = 64 * 1024, 64 * 1024
BYTES = 1_000_000
ENCODE_GOAL, DECODE_GOAL = 60.0, 500.0  # MB/s, by the native core
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
        figures += _measured(f"{name}, lzfoo in Python", pieces, *_lzfoo(None, len(text)), rounds=1)
        if native.core is not None:
            goals = (ENCODE_GOAL, DECODE_GOAL) if name == "JSON lines" else None
            figures += _measured(f"{name}, lzfoo", pieces, *_lzfoo(native.core, len(text)), goals=goals)
        figures += _measured(f"{name}, zlib -1", pieces, *_each(lambda piece: zlib.compress(piece, 1), zlib.decompress))
        if lz4 is not None:
            figures += _measured(f"{name}, lz4", pieces, *_each(lz4.compress, lz4.decompress))
    return figures


def _lzfoo(core: native.Core | None, size: int) -> tuple[Codec, Codec]:
    """Encode and decode with a history that begins empty."""

    def encode(pieces: list[bytes]) -> list[bytes]:
        encoder = Encoder(WINDOW) if core is None else NativeEncoder(WINDOW, core)
        return [encoder.encode_if_smaller(piece, math.inf) or b"" for piece in pieces]

    def decode(messages: list[bytes]) -> list[bytes]:
        decoder = Decoder(WINDOW) if core is None else NativeDecoder(WINDOW, core)
        found = []
        for at, message in enumerate(messages):
            decoder.begin(min(CHUNK, size - at * CHUNK))
            found.append(b"".join(decoder.feed(message)))
            decoder.finish()
        return found

    return encode, decode


def _each(compress: Callable[[bytes], bytes], decompress: Callable[[bytes], bytes]) -> tuple[Codec, Codec]:
    return lambda pieces: list(map(compress, pieces)), lambda messages: list(map(decompress, messages))


def _measured(
    name: str,
    pieces: list[bytes],
    encode: Codec,
    decode: Codec,
    *,
    rounds: int = 9,
    goals: tuple[float, float] | None = None,
) -> list[Figure]:
    encoded = encode(pieces)
    if decode(encoded) != pieces:
        raise AssertionError("not what was encoded")
    total = sum(map(len, pieces))
    encoding, decoding = (
        total / 1e6 / statistics.median(_cpu(codec, data) for _ in range(rounds))
        for codec, data in ((encode, pieces), (decode, encoded))
    )
    encode_goal, decode_goal = goals or (None, None)
    return [
        Figure(f"{name}: size", 100 * sum(map(len, encoded)) / total, "%"),
        Figure(f"{name}: encoding", encoding, "MB/s", goal=encode_goal),
        Figure(f"{name}: decoding", decoding, "MB/s", goal=decode_goal),
    ]


def _cpu(codec: Codec, data: list[bytes]) -> float:
    """Seconds of CPU time, because other programs run on the machine."""
    start = time.process_time()
    codec(data)
    return time.process_time() - start
