"""Results on other machines: all there or recognised as incomplete, wherever publishing fails."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import fs, parquet

from culm.cli import main
from culm.errors import ConfigError
from culm.spark.runtime import folders
from culm.spark.runtime.folders import check_output, whole_folder
from culm.spark.storage import Location, target
from culm.testing import build_log

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

FILES = {"verdicts/one.parquet": b"1", "verdicts/two.parquet": b"2", "page.html": b"3", "summary.json": b"{}"}


class Fragile(MemoryFileSystem):  # type: ignore[misc]
    """A file system in memory of which the calls fail that a test chooses."""

    protocol = "fragile"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    left: ClassVar[int] = 10**6  # changes that still succeed

    def _change(self) -> None:
        Fragile.left -= 1
        if Fragile.left < 0:
            raise OSError("the connection broke")

    def mv(self, path1: str, path2: str, **more: Any) -> None:
        """Move a file, or fail."""
        self._change()
        super().mv(path1, path2, **more)

    def rm_file(self, path: str) -> None:
        """Delete a file, or fail."""
        self._change()
        super().rm_file(path)

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        if mode != "rb":
            self._change()
        return super()._open(path, mode, **more)


@pytest.fixture
def fragile(tmp_path: Path) -> Location:
    """A folder of a file system that fails if it is told to."""
    fsspec.register_implementation("fragile", Fragile, clobber=True)
    Fragile.left = 10**6
    found = target(f"fragile://bucket/{tmp_path.name}/out")
    assert isinstance(found, Location)
    return found


def publish(output: Location, files: dict[str, bytes]) -> None:
    """Make results of these files."""
    check_output(output, overwrite=True)
    with whole_folder(output) as folder:
        for name, data in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)


def there(output: Location) -> dict[str, bytes]:
    """The files that are there, by their names in the folder."""
    system, path = output.filesystem()
    return {name: system.open_input_file(f"{path}/{name}").read() for name in folders._files(system, path)}


def test_what_a_killed_run_left_is_removed(fragile: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are made in ``TMPDIR``, in a folder that is locked; one that nobody holds was left by a killed run."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / ".culm-0123abcd.part"
    (left / "verdicts").mkdir(parents=True)
    with whole_folder(fragile) as folder:
        assert [folder] == list(tmp_path.iterdir())
        with whole_folder(fragile / "another") as other:
            assert {folder, other} == set(tmp_path.iterdir())
            (other / "summary.json").touch()
        (folder / "summary.json").touch()

    assert [] == list(tmp_path.iterdir())


def test_results_are_replaced_as_a_whole(fragile: Location) -> None:
    """The folder has the files of the run and no others, those of earlier results neither."""
    publish(fragile, {**FILES, "verdicts/old.parquet": b"0"})
    publish(fragile, FILES)
    assert there(fragile) == FILES


@pytest.mark.slow
def test_a_failure_at_any_moment(fragile: Location) -> None:
    """Wherever publishing fails, results are whole, old or new, or not complete; the next run replaces them."""
    old = {name.replace("o", "0"): b"old" for name in FILES if name != "summary.json"} | {"summary.json": b"old"}
    states = set()
    for changes in range(1000):
        Fragile.left = 10**6
        publish(fragile, old)
        Fragile.left = changes
        with suppress(ConfigError):
            publish(fragile, FILES)
        found = there(fragile)
        if found == FILES:
            break
        complete = {name: data for name, data in found.items() if not name.startswith("_partial")}
        states.add("summary.json" in complete)
        assert complete in (old, FILES) or "summary.json" not in complete
        with pytest.raises(ConfigError, match=r"is there already|an earlier run failed"):
            check_output(fragile, overwrite=False)
        Fragile.left = 10**6
        publish(fragile, FILES)
        assert there(fragile) == FILES
    assert {True, False} == states


def test_two_runs_are_not_mixed(fragile: Location) -> None:
    """If somebody else writes meanwhile, the run fails, and the folder is not complete."""
    system, path = fragile.filesystem()
    real = fs.copy_files

    def meanwhile(*given: Any, **more: Any) -> None:
        real(*given, **more)
        system.create_dir(f"{path}/verdicts")
        with system.open_output_stream(f"{path}/verdicts/other.parquet") as stream:
            stream.write(b"x")

    with mock.patch("pyarrow.fs.copy_files", meanwhile), pytest.raises(ConfigError, match="another run writes there"):
        publish(fragile, FILES)
    assert "summary.json" not in there(fragile)


def test_other_peoples_files_stay(fragile: Location) -> None:
    """A folder that holds something else is never overwritten, nor is a file, nor an input."""
    system, path = fragile.filesystem()
    system.create_dir(path)
    with system.open_output_stream(f"{path}/letter") as stream:
        stream.write(b"x")
    with pytest.raises(ConfigError, match="holds something else than earlier results"):
        check_output(fragile, overwrite=True)
    with pytest.raises(ConfigError, match="a file is there already"):
        check_output(fragile / "letter", overwrite=True)
    publish(fragile / "empty", FILES)
    for source in (f"{fragile}/empty/verdicts", Path(f"{fragile}/empty/*.bundle")):
        with pytest.raises(ConfigError, match="is inside the output"):
            check_output(fragile / "empty", overwrite=True, reads=[source])


def test_missing_rights_are_told_first(fragile: Location) -> None:
    """A folder that cannot be written to is refused before the work; so is a bucket that is not there."""
    Fragile.left = 0
    with pytest.raises(ConfigError, match="cannot be written: the connection broke"):
        check_output(fragile, overwrite=False)


def test_states_stay_on_disks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A state in a bucket is refused, with the reason."""
    with pytest.raises(SystemExit):
        main(["spark", "verify", "--input", "x", "--output", str(tmp_path / "out"), "--state", "s3a://bucket/state"])
    assert "a state needs locks, which s3a://bucket/state has not" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify", "forks"])
def test_results_in_a_bucket(command: str, s3: tuple[str, FileSystem], tmp_path: Path) -> None:
    """A command reads a bucket and writes its results into one, and replaces them if it may."""
    uri, system = s3
    log = build_log(5)
    (tmp_path / "in").write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries))
    fs.copy_files(str(tmp_path / "in"), f"{uri[6:]}/in", destination_filesystem=system)
    given = ["--input"] if command == "verify" else []
    call = ["spark", command, *given, f"{uri}/in", "--output", f"{uri}/deep/out"]
    assert 0 == main(call)
    assert 2 == main(call)
    assert 0 == main([*call, "--overwrite"])
    with system.open_input_file(f"{uri[6:]}/deep/out/summary.json") as stream:
        assert 5 == json.loads(stream.read())["entries"]
    assert not [name for name in folders._files(system, f"{uri[6:]}/deep") if "_partial" in name]
    if command == "verify":
        table = parquet.read_table(f"{uri[6:]}/deep/out/verdicts", filesystem=system)
        assert ["verified"] * 5 == table.column("verdict").to_pylist()
    assert 2 == main([*call[:-1], f"{uri}x/out"])
