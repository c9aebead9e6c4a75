"""Cutting large bundles: each record is read once, damage is told as if nobody had cut, payloads do not mislead."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from culm.spark import run
from culm.spark.reading import borders as module
from culm.spark.reading import inputs
from culm.spark.reading.borders import borders
from culm.spark.reading.found import EntryRow
from culm.spark.reading.inputs import Part, Piece, plan, together
from culm.spark.reading.scan import scan
from culm.store.files import BundleWriter
from culm.testing import build_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def bundle() -> bytes:
    """A bundle in which some entries have a payload, and one payload is a bundle in itself."""
    log = build_log(60)
    stream, inner = io.BytesIO(), io.BytesIO()
    decoy = BundleWriter(inner)
    for entry in log.entries:
        decoy.entry(entry)
    decoy.close()
    last = log.append(inner.getvalue())
    writer = BundleWriter(stream)
    for entry in log.entries:
        writer.entry(entry)
        if entry.seq % 3 or entry == last:
            data = log.payloads[entry.hash]
            writer.payload(entry.place, len(data), [data])
    for entry in log.entries[:20]:
        writer.entry(entry)
    writer.close()
    return stream.getvalue()


@pytest.fixture(params=[50, 1000, 10**6])
def small_chunks(request: pytest.FixtureRequest) -> object:
    """Small bundles are cut, and read in chunks of some bytes."""
    with (
        mock.patch.object(module, "_CHUNK", request.param),
        mock.patch.object(inputs, "_CUT_HERE", 10),
        mock.patch.object(inputs, "_LEAST_BYTES", 2000),
    ):
        yield


def uncut(path: Path) -> list[EntryRow]:
    """All rows of a file, read in one piece."""
    return list(scan(Piece(str(path), Part.FILE, 0, 0)))


@pytest.mark.usefixtures("small_chunks")
def test_each_record_is_read_once(tmp_path: Path) -> None:
    """The pieces together give the rows of the whole, an entry and its payload in one row; each has its share."""
    path = tmp_path / "a.bundle"
    path.write_bytes(bundle())
    pieces = [piece for split in plan([path]) for piece in split]
    assert 5 < len(pieces)
    assert uncut(path) == [row for piece in pieces for row in scan(piece)]
    assert len(bundle()) == sum(piece.size for piece in pieces)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],  # cut inside the checksum
        lambda data: data[:-40],  # without the end
        lambda data: data[: len(data) // 2],
        lambda data: data + b"x",  # bytes follow
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),  # another checksum
        lambda data: data[:-40] + b"\x04\x00" + data[-40:],  # an unknown type
        lambda data: data[:-34] + b"\x01\xf8\x01" + data[-34:],  # a length that could be shorter
        lambda data: data[:-34] + b"\x01\xff" + b"\xff" * 8 + data[-34:],  # a length beyond the file
    ],
    ids=range(8),
)
def test_damage_is_told_as_without_cuts(tmp_path: Path, damage: object) -> None:
    """A damaged bundle gives the same rows and the same reject in pieces as in one."""
    path = tmp_path / "a.bundle"
    path.write_bytes(damage(bundle()))  # type: ignore[operator]
    expected = uncut(path)
    assert expected[-1].reason
    assert expected == [row for split in plan([path]) for piece in split for row in scan(piece)]


def test_only_bundles_are_cut() -> None:
    """A plain export can only be read from its beginning."""
    log = build_log(30)
    plain = b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries)
    assert ([0], b"") == borders(io.BytesIO(plain), 100)


def test_small_tasks_for_many_cores(tmp_path: Path) -> None:
    """Where many tasks are asked for, a large bundle has as many, unless they would be very short."""
    path = tmp_path / "a.bundle"
    path.write_bytes(bundle())
    with mock.patch.object(inputs, "_CUT_HERE", 10):
        assert 1 == len(plan([path], tasks=10))
        with mock.patch.object(inputs, "_LEAST_BYTES", 100):
            splits = plan([path], tasks=20)
            assert 1 == len(plan([path]))
    assert 10 <= len(splits) <= 20
    assert uncut(path) == [row for split in splits for piece in split for row in scan(piece)]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("tasks", [1, 3])
def test_a_task_reads_a_file_in_one_go(tmp_path: Path, tasks: int) -> None:
    """However short the pieces are into which a bundle is cut, a task opens it once, and the rows are the same."""
    paths = [tmp_path / "a.bundle", tmp_path / "b.bundle"]
    for path in paths:
        path.write_bytes(bundle())
    pieces = [together(split) for split in plan(paths, tasks=tasks)]
    assert [2] * len(pieces) == [len(split) for split in pieces] if tasks == 1 else len(pieces) >= tasks
    assert all(len({piece.uri for piece in split}) == len(split) for split in pieces)
    rows = [row for split in pieces for piece in split for row in scan(piece)]
    assert [*uncut(paths[0]), *uncut(paths[1])] == rows


@pytest.mark.spark
def test_a_run_has_work_for_all_cores(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verification cuts a bundle for two tasks a core, and counts what it counts of the whole."""
    path, lines = tmp_path / "a.bundle", list[str]()
    path.write_bytes(bundle())
    run([str(path)], tmp_path / "whole")
    monkeypatch.setattr(inputs, "_CUT_HERE", 10)
    monkeypatch.setattr(inputs, "_LEAST_BYTES", 100)
    run([str(path)], tmp_path / "cut", progress=lines.append)
    (tasks,) = (int(found[1]) for line in lines if (found := re.search(r"reading the inputs \((\d+) tasks", line)))
    assert tasks >= 2 * spark.sparkContext.defaultParallelism
    counts = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("whole", "cut")]
    assert counts[0]["verified"] == counts[1]["verified"] == 61


@pytest.mark.slow
def test_a_gibibyte_keeps_many_cores_busy(tmp_path: Path) -> None:
    """A bundle of 1 GiB is cut into at least 30 tasks, without reading what its frames hold into memory at once."""
    whole, path = bundle(), tmp_path / "large.bundle"
    frames = whole[12:-34]
    with path.open("wb") as stream:
        stream.write(whole[:12])
        for _ in range(2**26 // len(frames)):
            stream.write(frames)
    with (
        mock.patch.object(inputs, "_CUT_HERE", 2**20),
        mock.patch.multiple(inputs, SPLIT_BYTES=2**21, _LEAST_BYTES=2**18),
    ):
        assert 30 <= len(plan([path]))  # the sizes of a bundle of 1 GiB, divided by 16
