"""How targets are fed: inputs, corpora, the ledger, findings, and the command."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo import decode_varu64
from culm.errors import EncodingError
from fuzz import script
from fuzz.run import corpus, coverage, findings, ledger
from fuzz.run.inputs import corruptions, random_inputs
from fuzz.run.ledger import Stretch
from fuzz.run.runner import next_target
from fuzz.target import ROOT, Target, signature
from fuzz.topics import chosen, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def target(run: Callable[[bytes], None], *seeds: bytes, name: str = "some.target") -> Target:
    """A target that may raise ``EncodingError``."""
    return Target(name, run, (EncodingError,), seeds or (b"\x05",))


def broken(data: bytes) -> None:
    """Fails for what begins with an ``x``."""
    if data[:1] == b"x":
        raise IndexError("out of range")


# -- scripts and records -------------------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.integers(0, 6), st.binary(min_size=1, max_size=600))))
def test_scripts_are_read_as_they_were_written(row: list[int | bytes]) -> None:
    """Actions come back one for one, and a peer's bytes in the same places, however they had to be cut."""
    found = list(script.steps(script.written(row, 7), 7))
    assert [step for step in found if isinstance(step, int)] == [step for step in row if isinstance(step, int)]
    joined = b"".join(bytes([step]) if isinstance(step, int) else step for step in found)
    assert joined == b"".join(bytes([step]) if isinstance(step, int) else step for step in row)


@given(st.binary(max_size=300), st.integers(1, 255))
def test_any_bytes_are_a_script(data: bytes, actions: int) -> None:
    """No bytes fail to be one, and none of its bytes is lost."""
    found = list(script.steps(data, actions))
    assert len(data) == sum(1 if isinstance(step, int) else 1 + len(step) for step in found)


@given(st.lists(st.binary(max_size=300), max_size=20), st.binary(max_size=40), st.integers(0, 9))
def test_records_and_pieces(row: list[bytes], data: bytes, size: int) -> None:
    """Records are read as they were written; pieces are of the size asked for, and lose nothing."""
    assert list(script.records(script.recorded(row))) == row
    found = list(script.pieces(data, size))
    assert b"".join(found) == data
    assert all(len(piece) <= (size or len(data)) for piece in found)


# -- inputs --------------------------------------------------------------------------------------------------------


def test_inputs_without_guidance() -> None:
    """Every truncation and every changed byte; then inputs that the seed decides."""
    made = list(corruptions(b"\x01\x02"))
    assert {b"", b"\x01"} <= set(made)
    assert all(len(content) < 2 or content != b"\x01\x02" for content in made)
    first, again, other = (list(islice(random_inputs([b"abc"], random.Random(seed)), 50)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


# -- corpora -------------------------------------------------------------------------------------------------------


def test_saved_corpora_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes and texts are saved one to a line, in order, each once, and read as they were."""
    monkeypatch.setattr(corpus, "SAVED", tmp_path / "corpus")
    contents = [b"", b"\xff\x00", b'a "text"\n', "é".encode(), b"\xff\x00", b"00"]
    corpus.save("some.target", contents)
    assert set(contents) == set(corpus.saved("some.target"))
    assert len(corpus.saved_file("some.target").read_text().splitlines()) == len(set(contents))
    assert corpus.saved("another.target") == []
    folder = corpus.working(tmp_path / "data", target(broken, b"seed"))
    assert {file.read_bytes() for file in folder.iterdir()} == {b"seed", *contents}


def test_what_is_kept_reaches_as_much() -> None:
    """Of many inputs those few are kept that reach something beyond the seeds, the small ones first; as room allows."""
    some = target(lambda data: (decode_varu64(data), None)[1], b"\x05")
    contents = [b"\x05", b"\x06", b"\xf8\xff", b"\xf8\xfe", b"\xf8\xf7", b"\xf9\x00\x01", b"\xf9", b""]
    kept = coverage.fewest(some, contents, lambda _: True)
    assert kept
    assert not {b"\x05", b"\x06"} & set(kept)
    assert len({b"\xf8\xff", b"\xf8\xfe"} & set(kept)) <= 1
    whole, few = ({arc for content in some_ for arc in coverage.reached(some, content)} for some_ in (contents, kept))
    assert whole == few | coverage.reached(some, b"\x05")
    assert coverage.fewest(some, contents, lambda chosen: len(chosen) <= 1) == kept[:1]


# -- the ledger ----------------------------------------------------------------------------------------------------


def test_the_ledger_adds_up(tmp_path: Path) -> None:
    """Lines are only added; what was cut is passed over; sums are by target."""
    assert ledger.read(tmp_path) == []
    rows = [Stretch("a", "1", 2.5, 10), Stretch("b", "1", 1.0, 5, ("x.bin",)), Stretch("a", "2", 0.5, 3, ("y.bin",))]
    for row in rows:
        ledger.append(tmp_path, row)
    with (tmp_path / ledger.NAME).open("a") as file:
        file.write('{"target": "a", "ver')
    assert ledger.read(tmp_path) == rows
    assert ledger.by_target(rows) == {"a": Stretch("a", "2", 3.0, 13, ("y.bin",)), "b": rows[1]}


# -- findings ------------------------------------------------------------------------------------------------------


def test_findings_are_kept_once_for_each_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are kept, with how to replay them; the same cause is no second finding, another one is."""
    some = target(broken)
    error = some.outcome(b"xyz")
    assert isinstance(error, IndexError)
    assert some.outcome(b"abc") is None
    assert target(lambda data: (decode_varu64(data), None)[1]).outcome(b"") is None
    name = findings.save(tmp_path, some.name, b"xyz", error)
    assert name is not None
    assert findings.save(tmp_path, some.name, b"xy", error) is None
    assert findings.save(tmp_path, some.name, b"xyz", ValueError("another")) is not None
    file = findings.folder_of(tmp_path) / name
    assert file.read_bytes() == b"xyz"
    assert f"--replay {file}" in file.with_suffix(".txt").read_text()
    assert (findings.target_of(file), signature(some.name, error)) == (some.name, file.stem)
    monkeypatch.setattr(findings, "load", lambda _: some)
    assert isinstance(findings.replay(file), IndexError)
    monkeypatch.setattr(findings, "load", lambda _: target(lambda _: None))
    assert findings.replay(file) is None


def test_the_ledger_is_kept(tmp_path: Path) -> None:
    """What is kept is added up by version and target, and is not added again."""
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    kept.mkdir()
    for cpu, version in ((1.0, "1"), (2.0, "1"), (4.0, "2")):
        ledger.append(work, Stretch("a", version, cpu, 10, ("x.bin",)))
    ledger.keep(work, kept)
    assert ledger.read(work) == []
    sums = [Stretch("a", "1", 3.0, 20, ("x.bin", "x.bin")), Stretch("a", "2", 4.0, 10, ("x.bin",))]
    assert ledger.read(kept) == sums
    ledger.append(work, Stretch("b", "2", 8.0, 5))
    ledger.keep(work, kept)
    assert ledger.read(kept) == [*sums, Stretch("b", "2", 8.0, 5)]


# -- the command ---------------------------------------------------------------------------------------------------


def fuzz(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "fuzz", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_by_count(tmp_path: Path) -> None:
    """So many inputs go to each target named, the ledger says so, and the last line adds up."""
    done = fuzz("bamboo.varu64", "wire.base62", "--runs", 50, "--data", tmp_path)
    assert done.returncode == 0, done.stderr
    rows = ledger.read(tmp_path)
    assert ["bamboo.varu64", "wire.base62"] == [row.target for row in rows]
    assert all(row.inputs > 50 and row.version for row in rows)
    inputs = sum(row.inputs for row in [*rows, *ledger.read(ledger.KEPT)])
    assert done.stdout.splitlines()[-1].endswith(f"CPU-hours in sum, {inputs:,} inputs, 0 findings open")


def test_by_time(tmp_path: Path) -> None:
    """Workers spend the time, write down what they did, and leave inputs in the working corpus, which is listed."""
    done = fuzz("bamboo.varu64", "--minutes", 0.02, "--data", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = ledger.by_target(ledger.read(tmp_path)).values()
    assert (row.target, row.cpu > 0, row.inputs > 0) == ("bamboo.varu64", True, True)
    assert len(list((tmp_path / "corpus" / row.target).iterdir())) >= len(load(row.target).seeds)
    kept = sum(row.inputs for row in ledger.read(ledger.KEPT) if row.target == "bamboo.varu64")
    assert f"{row.inputs + kept:,} inputs" in fuzz("--list", row.target, "--data", tmp_path).stdout


def test_time_goes_to_whom_had_least(tmp_path: Path) -> None:
    """The next worker is for the target that had the least CPU for its share; nobody has two while others have none."""
    targets_ = [target(broken, name="a"), target(broken, name="b"), replace(target(broken, name="c"), share=0.1)]
    for name, cpu in (("a", 30.0), ("b", 50.0), ("c", 4.0)):
        ledger.append(tmp_path, Stretch(name, "1", cpu, 1))
    assert next_target(targets_, ledger.by_target(ledger.read(tmp_path)), ()).name == "a"
    assert next_target(targets_, ledger.by_target(ledger.read(tmp_path)), ["a"]).name == "c"
    assert next_target(targets_, {}, ["a", "c"]).name == "b"
    assert next_target(targets_, {}, ["a", "b", "c"]).name == "a"


def test_an_open_finding_is_told(tmp_path: Path) -> None:
    """A finding that the present code still makes ends the command with 1; one that is mended does not."""
    folder = tmp_path / "findings"
    folder.mkdir()
    (folder / "bamboo.varu64-IndexError-0a0b0c0d.bin").write_bytes(b"\x05")
    done = fuzz("--sum", "--data", tmp_path)
    assert (done.returncode, "0 findings open" in done.stdout) == (0, True)
    (folder / "bamboo.nothing-KeyError-0a0b0c0d.bin").write_bytes(b"")  # a target that is gone cannot be called mended
    done = fuzz("--sum", "--data", tmp_path)
    assert (done.returncode, "1 findings open" in done.stdout) == (1, True)


def test_wrong_calls() -> None:
    """A target that there is not is a wrong call."""
    for name in ("nothing", "bamboo.nothing"):
        with pytest.raises(KeyError, match=name):
            chosen([name])
    done = fuzz("nothing", "--runs", 1)
    assert (done.returncode, "no target 'nothing'" in done.stderr) == (2, True)
    assert ["bamboo.entry", "wire.base62", "wire.places"] == [
        item.name for item in chosen(["wire.places", "wire.base62", "bamboo.entry", "wire.places"])
    ]


def test_the_ledger_is_json(tmp_path: Path) -> None:
    """Each line is an object of JSON, for whoever wants to add up otherwise."""
    ledger.append(tmp_path, Stretch("a", "1", 1 / 3, 10, ("x",)))
    assert json.loads((tmp_path / ledger.NAME).read_text()) == {
        "target": "a",
        "version": "1",
        "cpu": 0.33,
        "inputs": 10,
        "findings": ["x"],
    }
