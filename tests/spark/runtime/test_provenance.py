"""What results say of how they were made."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import culm
from culm.spark import run
from culm.spark.runtime import output, shell
from culm.spark.runtime.output import other_version, provenance
from culm.testing import build_log

if TYPE_CHECKING:
    from pathlib import Path


def digest(data: bytes) -> str:
    """A digest as provenance writes it."""
    return "blake2b:" + blake2b(data, digest_size=32).hexdigest()


def test_results_say_how_they_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary has command, mode, version, format, inputs and times; each Parquet file has them without the list."""
    monkeypatch.setattr(shell, "is_running", lambda: False)
    log, entries = build_log(3), tmp_path / "entries"
    entries.write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries))
    run([str(entries)], tmp_path / "out", signatures="heads")
    made = json.loads((tmp_path / "out" / "summary.json").read_text())["made"]
    assert ("verify", culm.__version__, output.FORMAT) == (made["command"], made["version"], made["format"])
    assert made["mode"] == {"signatures": "heads", "forks": False, "state": None}
    data = entries.read_bytes()
    (given,) = made["inputs"]
    assert {
        "path": str(entries), "files": 1, "bytes": len(data), "digest_of": "content", "digest": digest(data)
    } == given  # fmt: skip
    assert made["started"] <= made["ended"]
    for name in ("verdicts", "rejects"):
        (file,) = (tmp_path / "out" / name).iterdir()
        stated = json.loads(pq.read_schema(file).metadata[b"culm"])
        assert {"count": 1, "digest": digest(json.dumps([given]).encode())} == stated.pop("inputs")
        assert stated.items() <= made.items()


def test_large_inputs_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large files and of folders names, sizes and times are digested, which change when a file does."""
    monkeypatch.setattr(output, "_FILE_BYTES", 3)
    (tmp_path / "folder").mkdir()
    large = tmp_path / "folder" / "large"
    large.write_bytes(b"four")
    for path in (large, tmp_path / "folder"):
        (before,) = provenance("verify", [path, path], {})["inputs"]
        assert (1, 4, "listing") == (before["files"], before["bytes"], before["digest_of"])
        large.write_bytes(b"five!")
        (after,) = provenance("verify", [path], {})["inputs"]
        assert before["digest"] != after["digest"]
        large.write_bytes(b"four")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"made": {"version": culm.__version__}}, None),
        ({"made": {"version": "0.0.1"}}, "made by version 0.0.1 of Culm; this is version"),
        ({"entries": 3}, "a version of Culm that did not say which it is"),
        ({"made": ["?"]}, "a version of Culm that did not say which it is"),
    ],
)
def test_results_of_another_version(said: dict[str, object], expected: str | None) -> None:
    """A reader learns that another version made the results; of the same version nothing is said."""
    found = other_version(said)
    assert found is None if expected is None else expected in str(found)
