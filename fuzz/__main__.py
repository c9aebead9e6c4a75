"""``python -m fuzz [TARGET ...]``: bytes of every kind into every decoder.

Each target gets every truncation and every single-byte corruption of its valid messages, then ``--runs`` byte strings:
half of them random, half made from valid messages by cutting, joining and overwriting. The same ``--seed`` gives the
same run. ``--atheris SECONDS`` has the coverage-guided fuzzer go on from there, where it is installed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING

from fuzz.targets import Target, targets

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_RUNS = 1_000_000
_MAX_RANDOM_BYTES = 400
_FLIPS = (0x01, 0x80, 0xFF)


def corruptions(message: bytes) -> Iterator[bytes]:
    """Every truncation of a message, and every byte changed: in one bit, in the highest, in all, to 0 and to 255."""
    for length in range(len(message)):
        yield message[:length]
    for at, byte in enumerate(message):
        for changed in {byte ^ flip for flip in _FLIPS} | {0x00, 0xFF, 0xF8}:
            if changed != byte:
                yield message[:at] + bytes([changed]) + message[at + 1 :]


def random_inputs(target: Target, runs: int, rng: random.Random) -> Iterator[bytes]:
    """Random bytes and mutated messages in turn."""
    for number in range(runs):
        if number % 2:
            yield rng.randbytes(rng.randrange(_MAX_RANDOM_BYTES))
            continue
        message = bytearray(rng.choice(target.seeds))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(message) + 1)
            kind = rng.randrange(3)
            if kind == 0:
                message[at:] = rng.choice(target.seeds)[rng.randrange(1 + len(message)) :]
            elif kind == 1:
                message[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
            elif at < len(message):
                message[at] = rng.randrange(256)
        yield bytes(message)


def feed(target: Target, data: bytes) -> None:
    """One input; a finding is printed with its bytes and ends the program with code 1."""
    try:
        target.run(data)
    except target.allowed:
        pass
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            print(f"FINDING in {target.name}: {type(error).__name__}: {error}\n  input (hex): {data.hex()}")
        raise


def run(target: Target, runs: int, seed: int) -> int:
    """Feed one target; the number of inputs."""
    count = 0
    for message in target.seeds:
        target.run(message)  # a valid message is taken
        for data in corruptions(message):
            feed(target, data)
            count += 1
    for data in random_inputs(target, runs, random.Random(seed)):
        feed(target, data)
        count += 1
    return count


def main() -> int:
    """Run the targets that were named, or all."""
    available = {target.name: target for target in targets()}
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(available)} (default: all)")
    parser.add_argument("--runs", type=int, default=DEFAULT_RUNS, help="byte strings a target (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--atheris", type=int, metavar="SECONDS", help="then fuzz one target, guided by coverage")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.targets if name not in available]
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}")
    chosen = [available[name] for name in arguments.targets or available]
    for target in chosen:
        start = time.monotonic()
        count = run(target, arguments.runs, arguments.seed)
        print(f"{target.name:12} {count:10,} inputs, no finding ({time.monotonic() - start:.0f} s)", flush=True)
    if arguments.atheris:
        return guided(chosen[0], arguments.atheris)
    return 0


def guided(target: Target, seconds: int) -> int:
    """The coverage-guided fuzzer on one target."""
    try:
        import atheris  # noqa: PLC0415 - optional
    except ImportError:
        print("atheris is not installed (it has no wheel for this Python)", file=sys.stderr)
        return 2
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}"], lambda data: feed(target, data))
    atheris.Fuzz()
    return 0


sys.exit(main())
