"""What is free in a program that runs for long goes back to the system."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from culm.cli import memory
from culm.cli.memory import free_memory_given_back, trimming

BLOCK, COUNT = 8 * 1024, 4096  # 32 MiB, in blocks that the C library keeps on its heap


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="malloc_trim is glibc's")
def test_holes_are_given_back() -> None:
    """Most of what was freed below something that is still held is the system's again."""
    trim = trimming()
    assert trim is not None
    blocks = [bytearray(BLOCK) for _ in range(COUNT)]
    held = blocks[:: COUNT // 16] + blocks[-1:]
    full = resident()
    blocks.clear()
    trim()
    assert full - resident() > BLOCK * COUNT // 2
    assert len(held) == 17


GROWING = """
import sys
from pathlib import Path
from culm.cli.memory import keep_large_blocks_apart

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

keep_large_blocks_apart()
large = bytearray(31 << 20)
del large  # now the C library would keep what is not larger on its heap
before = resident()
blocks = [bytearray() for _ in range(4)]
for _ in range(256):
    for block in blocks:
        block += bytes(65536)
print((resident() - before) / (4 * 256 * 65536))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_large_blocks_that_grow_side_by_side() -> None:
    """They take as much memory as they hold, whatever was freed before."""
    done = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.2


READING = """
import resource
from culm.cli.memory import keep_large_blocks_apart

keep_large_blocks_apart()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def read():
    for _ in range(64):
        blocks = [bytes(1 << 20) for _ in range(4)]
        blocks.clear()

read()
before = faults()
read()
print((faults() - before) / (64 * 4 * 256))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_blocks_that_come_and_go() -> None:
    """A program that reads a megabyte after the other does not get each of their pages from the system anew."""
    done = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.1


def test_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done for as long as the program runs, and not after."""

    async def main() -> int:
        times, twice = 0, asyncio.Event()
        loop = asyncio.get_running_loop()

        def trim() -> None:
            nonlocal times
            times += 1
            if times == 2:
                loop.call_soon_threadsafe(twice.set)

        monkeypatch.setattr(memory, "trimming", lambda: trim)
        before = asyncio.all_tasks()
        async with free_memory_given_back(0.001):
            await twice.wait()
        assert asyncio.all_tasks() == before
        return times

    assert asyncio.run(main()) >= 2
