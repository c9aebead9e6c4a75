"""Entries in an S3 bucket against the same files on this disk: how fast both are verified.

The server is moto's, on the loopback, in a process of its own: real requests over HTTP, and no network in between. It
shares this machine's cores with Spark, so what it takes of them makes the bucket look slower than it is.

The entries are in ``BUNDLES`` bundles, in logs of ``LOG`` entries. ``CULM_BENCH_SIZES`` says how many there are; the
default here is 100000. Both ways take turns, ``CULM_BENCH_ROUNDS`` times, and the figures are medians.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pyarrow import fs

from bench.cost import measured
from bench.harness import Figure, median_ratio, say
from bench.pipeline import CORES, FOLDER, LOG, warm_session
from culm.spark import run as verify
from culm.store.files import BundleWriter
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.cost import Cost

SIZES = [int(size) for size in os.environ.get("CULM_BENCH_SIZES", "100000").split(",")]
BUNDLES = 100
ROUNDS = int(os.environ.get("CULM_BENCH_ROUNDS", "5"))
GOAL = 0.8  # of the rate from this disk
_BUCKET = "bench"

_SERVER = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://{}:{}".format(*server.get_host_and_port()), flush=True)
sys.stdin.read()
"""


def run() -> list[Figure]:
    """Measure at each size."""
    with serving():  # before the session, which learns of the server by the environment
        bucket = fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"], allow_bucket_creation=True)
        bucket.create_dir(_BUCKET)
        with warm_session():
            return [figure for size in SIZES for figure in _both(bucket, size)]


def _both(bucket: fs.FileSystem, size: int) -> Iterator[Figure]:
    local = bundles(size)
    remote = f"{_BUCKET}/{local.name}"
    fs.copy_files(str(local), remote, destination_filesystem=bucket)
    ways = {"this disk": str(local), "S3": f"s3a://{remote}"}
    for place in ways.values():
        verified(place, size)  # the first run of either opens connections, and fills caches
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, place in ways.items():
            costs[name].append(verified(place, size))
    seconds = {name: [cost.wall for cost in found] for name, found in costs.items()}
    ratio = median_ratio(seconds["this disk"], seconds["S3"])
    for name, found in costs.items():
        wall, cpu = statistics.median(seconds[name]), statistics.median(cost.cpu for cost in found)
        say(f"  {name}: {wall:.1f} s, {cpu:.1f} s of CPU")
        limits = ("this disk", ratio, GOAL) if name == "S3" else ("", None, None)
        yield Figure(f"{size:,} entries in {BUNDLES} bundles, {name}", size / wall, "rows/s", *limits)


def verified(place: str, size: int) -> Cost:
    """What the verification of a folder costs, which has so many entries."""
    output = FOLDER / "output"
    shutil.rmtree(output, ignore_errors=True)
    with measured() as cost:
        summary = verify([place], output)
    if summary.verified != size:
        raise AssertionError(summary)
    return cost


def bundles(size: int) -> Path:
    """A folder of bundles with so many entries, made if it is not there."""
    place = FOLDER / f"bundles-{size}"
    if not place.exists():
        say(f"making {place.name}")
        part = place.with_name(f".{place.name}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        with ProcessPoolExecutor(CORES) as pool:
            list(pool.map(partial(_bundle, part, size // LOG), range(BUNDLES)))
        part.rename(place)
    return place


def _bundle(folder: Path, logs: int, number: int) -> None:
    """Write a bundle: every hundredth log, each entry with its payload behind it."""
    with (folder / f"{number:03}.bundle").open("wb") as stream:
        bundle = BundleWriter(stream)
        for seed in range(number + 1, logs + 1, BUNDLES):
            log = build_log(LOG, seed=seed)
            for entry in log.entries:
                payload = log.payloads[entry.hash]
                bundle.entry(entry)
                bundle.payload(entry.place, len(payload), [payload])
        bundle.close()


@contextmanager
def serving() -> Iterator[None]:
    """An S3 server in a process of its own during this block; the environment says where it is."""
    server = subprocess.Popen([sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    os.environ |= {
        "AWS_ENDPOINT_URL": server.stdout.readline().strip(),
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    try:
        yield
    finally:
        server.communicate()
