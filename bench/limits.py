"""What bounds a figure: the same bytes through a socket, or a hash, and nothing else. And programs that are peers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from itertools import cycle
from pathlib import Path

from bench.harness import say

PEERS = Path(__file__).parent / "peers"
BUILT = Path(__file__).parent.parent / "build" / "bench"
_PIECE = 1024 * 1024
_SENDER = """
import socket, sys
piece, total = bytes(int(sys.argv[2])), int(sys.argv[3])
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    for _ in range(total // len(piece)):
        connection.sendall(piece)
"""


def through_a_socket(total: int) -> float:
    """The seconds in which so many bytes of another process come through TCP over loopback, into one buffer."""
    buffer = bytearray(_PIECE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = [sys.executable, "-c", _SENDER, str(server.getsockname()[1]), str(_PIECE), str(total)]
        with subprocess.Popen(call):
            connection, _ = server.accept()
            began = time.perf_counter()
            with connection:
                while connection.recv_into(buffer):
                    pass
            return time.perf_counter() - began


def hashed(total: int) -> float:
    """The seconds in which one thread hashes so many bytes with BLAKE2b."""
    piece, digest = bytes(_PIECE), blake2b()
    began = time.perf_counter()
    for _ in range(total // _PIECE):
        digest.update(piece)
    digest.digest()
    return time.perf_counter() - began


def between_two_programs(folder: Path, total: int) -> float:
    """The seconds in which so many bytes of a file come into another program's file, and both programs hash them.

    That is what two nodes cannot do without, and nothing else. Each hashes on a thread of its own, while it sends, or
    writes. At the end the file is on the disk.
    """
    source, target = folder / "source", folder / "target"
    if not source.exists():
        source.write_bytes(os.urandom(_PIECE) * (total // _PIECE))
    with socket.create_server(("127.0.0.1", 0)) as server, target.open("wb", buffering=0) as file:
        call = f"from bench.limits import send; send({server.getsockname()[1]}, {str(source)!r})"
        with subprocess.Popen([sys.executable, "-c", call]):
            connection, _ = server.accept()
            began = time.perf_counter()
            with connection:
                _hash_and(file.write, connection.recv_into)
            os.fdatasync(file.fileno())
            return time.perf_counter() - began


def send(port: int, path: str) -> None:
    """The other one of ``between_two_programs``."""
    with socket.create_connection(("127.0.0.1", port)) as connection, Path(path).open("rb", buffering=0) as file:
        _hash_and(connection.sendall, file.readinto)


def _hash_and(give: Callable[[memoryview], object], take: Callable[[memoryview], int | None]) -> None:
    """Give away all that can be taken, piece by piece, and hash it meanwhile."""
    digest = blake2b()
    with ThreadPoolExecutor(1) as thread:
        hashing: Future[object] = thread.submit(object)
        for buffer in cycle([memoryview(bytearray(_PIECE)), memoryview(bytearray(_PIECE))]):
            size = take(buffer)
            hashing.result()  # So the other buffer is free for the next piece.
            if not size:
                return
            hashing = thread.submit(digest.update, buffer[:size])
            give(buffer[:size])


def rust_program(name: str, program: str) -> Path | None:
    """A program of ``bench/peers``, built where cargo is; None where it is not, or it cannot be built."""
    if shutil.which("cargo") is None:
        say(f"left out: {program}, because there is no cargo")
        return None
    target = BUILT / name
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", str(target)]
    if subprocess.run(command, cwd=PEERS / name, check=False).returncode:
        say(f"left out: {program}, because it cannot be built")
        return None
    return target / "release" / program


def cpp_negentropy() -> Path | None:
    """The C++ program of ``bench/peers``, built with the headers in ``NEGENTROPY_CPP``; None without them."""
    headers = os.environ.get("NEGENTROPY_CPP")
    if not headers:
        say("left out: negentropy in C++, because NEGENTROPY_CPP does not name the folder of its headers")
        return None
    program = BUILT / "negentropy_cpp" / "negentropy-peer"
    program.parent.mkdir(parents=True, exist_ok=True)
    source = PEERS / "negentropy_cpp" / "main.cpp"
    command = ["c++", "-O2", "-std=c++20", f"-I{headers}", str(source), "-o", str(program), "-lcrypto"]
    if shutil.which("c++") is None or subprocess.run(command, check=False).returncode:
        say("left out: negentropy in C++, because it cannot be built; it needs a C++ compiler and OpenSSL's headers")
        return None
    return program
