"""Findings: the bytes that made one, what was raised, and whether they still do."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fuzz.target import ROOT, signature
from fuzz.topics import load

if TYPE_CHECKING:
    from pathlib import Path

SLOW = 10.0  # seconds of CPU for one input
_PATIENCE = 300  # seconds for a replay before it counts as one that never ends


class TooSlow(Exception):
    """An input of a few kilobytes took longer than any should."""


def folder_of(data: Path) -> Path:
    """Where findings are kept, below the folder of working files."""
    return data / "findings"


def save(data: Path, name: str, content: bytes, error: BaseException) -> str | None:
    """Keep a finding, with its traceback beside it; its file's name, or None if one of this cause is kept already."""
    folder = folder_of(data)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{signature(name, error)}.bin"
    if file.exists():
        return None
    file.write_bytes(content)
    lines = [f"{content.hex()}\n", f"replay: python -m fuzz --replay {file}\n", *traceback.format_exception(error)]
    file.with_suffix(".txt").write_text("".join(lines))
    return file.name


def target_of(file: Path) -> str:
    """The target that a finding's file name begins with."""
    return file.name.split("-", 1)[0]


def replay(file: Path) -> BaseException | None:
    """Run one finding in this process; what it raised, or None if it is mended."""
    start = time.process_time()
    error = load(target_of(file)).outcome(file.read_bytes())
    spent = time.process_time() - start
    return TooSlow(f"{spent:.0f} s of CPU") if error is None and spent > SLOW else error


def is_open(file: Path) -> bool:
    """Whether a finding still is one, tried in a process of its own: it may never end, or take that process down."""
    command = [sys.executable, "-m", "fuzz", "--replay", str(file)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, timeout=_PATIENCE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def open_findings(data: Path) -> list[Path]:
    """The findings kept that the present code does not answer as documented."""
    folder = folder_of(data)
    files = sorted(file for file in folder.iterdir() if file.suffix != ".txt") if folder.is_dir() else []
    with ThreadPoolExecutor(2) as pool:
        return [file for file, still in zip(files, pool.map(is_open, files), strict=True) if still]
