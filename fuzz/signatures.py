"""``python -m fuzz.signatures --next N``: N signatures, in batches and one by one, until somebody differs.

A signature that the batches accept and libsodium does not would split the network. So batches of all sizes, with
crafted signatures (``fuzz.crafted``) among honest ones, in pairs, or alone, are given to both. Ten million are no work
for one evening: ``fuzz/signatures.jsonl`` has a line of JSON for each slice, and the next one begins behind it.

Each line has ``version`` (of the native core), ``first`` and ``batches`` (the number of a batch is its seed),
``signatures``, ``crafted``, ``cpu`` (seconds), ``differing`` (seeds) and ``commit``, empty in the oldest lines: a seed
gives the same batch only at the same commit.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from culm import native
from culm.bamboo.verification import are_signed, is_signed
from fuzz.crafted import Crafter
from fuzz.run import ledger

FILE = Path(__file__).with_name("signatures.jsonl")
_AUTHOR = slice(1, 33)
_SIZES = 8, 12, 64, 65, 127, 128, 129, 256, 1023, 1024, 1025, 2048
_LARGE_SIZES = 4095, 4096, 4097, 8200  # Around 4,096, at which the core splits what it is given; one batch in 24.


@dataclass(slots=True)
class Slice:
    """What was compared, batch by batch."""

    version: str
    first: int
    batches: int = 0
    signatures: int = 0
    crafted: int = 0
    cpu: float = 0.0
    differing: tuple[int, ...] = ()
    commit: str = ""


def batch(seed: int) -> tuple[list[bytes], int]:
    """The signed messages of a batch, and how many of them are crafted."""
    rng = random.Random(seed)
    crafter = Crafter(rng, authors=rng.choice((1, 2)))
    size = rng.choice(_SIZES if rng.randrange(24) else _LARGE_SIZES)
    kinds = [kind for name, kind in crafter.kinds.items() if name != "honest"]
    match rng.randrange(6):
        case 0:
            made = [rng.choice(kinds)() for _ in range(rng.randrange(4))]
        case 1:
            made = [one for _ in range(rng.randrange(1, 4)) for one in crafter.pair()]
        case 2:
            made = [rng.choice(kinds)() for _ in range(size // 2)]
        case 3:
            made = [crafter.with_torsion(4) for _ in range(size)]  # all of order 2: most sums of them vanish
        case 4:
            made = [crafter.with_torsion() for _ in range(size)]
        case _:
            made = [rng.choice(kinds)() for _ in range(size)]
    whole = made + [crafter.honest() for _ in range(size - len(made))]
    rng.shuffle(whole)
    return whole, len(made)


def compared(first: int, signatures: int) -> Slice:
    """Compare at least so many signatures, from the batch ``first`` on."""
    start, done = time.process_time(), Slice(native.description, first, commit=ledger.version())
    while done.signatures < signatures:
        seed = first + done.batches
        whole, crafted = batch(seed)
        if are_signed(whole) != [is_signed(one, one[_AUTHOR]) for one in whole]:
            done.differing += (seed,)
        done.batches += 1
        done.signatures += len(whole)
        done.crafted += crafted
    done.cpu = round(time.process_time() - start, 1)
    return done


def read(file: Path = FILE) -> list[Slice]:
    """All slices so far."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Slice(**{**values, "differing": tuple(values["differing"])}) for values in map(json.loads, lines)]


def main(arguments: list[str] | None = None) -> int:
    """Run one slice, or say what was done so far; ends with 1 if something differs."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.signatures", description=__doc__.partition("\n")[0])
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--next", type=int, metavar="N", help="compare N more signatures, and note it")
    group.add_argument("--seed", type=int, help="compare the batch of this number again")
    group.add_argument("--sum", action="store_true", help="say what was compared so far")
    given = parser.parse_args(arguments)
    if native.core is None:
        print(f"error: nothing to compare, {native.description}; build it with make native", file=sys.stderr)
        return 2
    if given.seed is not None:
        done = [compared(given.seed, 1)]
    elif given.next:
        done = [compared(max((one.first + one.batches for one in read()), default=0), given.next)]
        with FILE.open("a") as out:
            out.write(json.dumps(asdict(done[0])) + "\n")
    else:
        done = read()
    differing = [seed for one in done for seed in one.differing]
    sums = f"{sum(one.signatures for one in done):,} signatures, {sum(one.crafted for one in done):,} crafted"
    print(f"{sums}, {sum(one.cpu for one in done):.0f} s of CPU, differing batches: {differing or 'none'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
