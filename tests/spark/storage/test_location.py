"""What a path or URI means: files, folders and globs, on this machine and on others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm.errors import ConfigError
from culm.spark.storage import located

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

FILES = ("top", "x/one.bundle", "x/two words.bundle", "x/y/a[1].bin", "x/_temporary/part", "x/.hidden")


@pytest.fixture(params=["disk", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder with some files, on this machine and in a bucket."""
    if request.param == "disk":
        for name in FILES:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(name.encode())
        return str(tmp_path)
    uri, system = request.getfixturevalue("s3")
    for name in FILES:
        with system.open_output_stream(f"{uri.removeprefix('s3a://')}/{name}") as stream:
            stream.write(name.encode())
    return str(uri)


def listed(place: str) -> list[str]:
    """The URIs of the files that a place means."""
    return [file.location.uri for location in located([place]) for file in location.listed()]


def test_folders_and_globs(root: str) -> None:
    """A folder means all files below it that are not hidden, a glob what it matches, a name its file, hidden or not."""
    for place, names in (
        ("", ["top", "x/one.bundle", "x/two words.bundle", "x/y/a[1].bin"]),
        ("/x/", ["x/one.bundle", "x/two words.bundle", "x/y/a[1].bin"]),
        ("/x/.hidden", ["x/.hidden"]),
        ("/x/y/a[1].bin", ["x/y/a[1].bin"]),
        ("/x/*.bundle", ["x/one.bundle", "x/two words.bundle"]),
        ("/*/{one,three}.b?ndle", ["x/one.bundle"]),
        ("/x/[!t]*", ["x/one.bundle", "x/y/a[1].bin"]),
        ("/**/*.b*", ["x/one.bundle", "x/two words.bundle", "x/y/a[1].bin"]),
        ("/x/**", ["x/one.bundle", "x/two words.bundle", "x/y/a[1].bin"]),
    ):
        assert [f"{root}/{name}" for name in names] == listed(root + place), place


def test_a_file_is_read_where_it_is(root: str) -> None:
    """An opened file can be read, and read again from a place in it."""
    (location,) = located([f"{root}/x/two words.bundle"])
    with location.open() as stream:
        assert b"x/two words.bundle" == stream.read()
        stream.seek(2)
        assert b"two" == stream.read(3)


def test_what_is_not_there_is_named(root: str) -> None:
    """What is missing is an error that names it as the user did."""
    for place, said in (("/x/nothing", "there is no such file or folder"), ("/x/*.parquet", "nothing matches")):
        with pytest.raises(ConfigError) as error:
            listed(root + place)
        assert f"{root}{place}: {said}" == str(error.value)


def test_names_of_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths and file URIs are paths of this machine; a place that is named in two ways is one."""
    monkeypatch.chdir(tmp_path)
    names: list[str | Path] = [
        "a",
        Path("a"),
        f"file://{tmp_path}/a",
        f"file:{tmp_path}/a",
        f"file://localhost{tmp_path}/a",
    ]
    assert [f"{tmp_path}/a"] == [location.uri for location in located(names)]


def test_a_missing_bucket_is_said(s3: tuple[str, FileSystem]) -> None:
    """A wrong bucket is not taken for a missing file."""
    place = f"{s3[0]}x/file"
    with pytest.raises(ConfigError) as error:
        listed(place)
    assert f"{place}: there is no such bucket" == str(error.value)
