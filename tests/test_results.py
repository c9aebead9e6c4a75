"""The folder of results: checked before, whole after."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from culm.errors import ConfigError
from culm.results import check_output, whole_folder

if TYPE_CHECKING:
    from pathlib import Path


def test_outputs_that_are_refused(tmp_path: Path) -> None:
    """What is there is kept unless overwriting is asked for, and other people's files even then."""
    check_output(tmp_path / "new", overwrite=False)
    with pytest.raises(ConfigError, match="there is no folder"):
        check_output(tmp_path / "missing" / "new", overwrite=True)
    with mock.patch("os.access", return_value=False), pytest.raises(ConfigError, match="no permission"):
        check_output(tmp_path / "new", overwrite=False)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("file", "folder", "link"):
        with pytest.raises(ConfigError, match=f"{name}: is there already"):
            check_output(tmp_path / name, overwrite=False)
    check_output(tmp_path / "folder", overwrite=True)
    (tmp_path / "folder" / "mine").touch()
    for name in ("file", "folder", "link"):
        with pytest.raises(ConfigError, match=f"{name}: holds something else"):
            check_output(tmp_path / name, overwrite=True)
    (tmp_path / "folder" / "summary.json").touch()
    check_output(tmp_path / "folder", overwrite=True)


def test_all_or_nothing(tmp_path: Path) -> None:
    """The folder appears when it is complete; if that fails there is none, and the earlier one stays."""
    output = tmp_path / "output"
    with whole_folder(output) as folder:
        (folder / "one").touch()
        assert not output.exists()
    assert ["one"] == [path.name for path in output.iterdir()]
    with pytest.raises(ZeroDivisionError), whole_folder(output) as folder:
        (folder / "two").touch()
        raise ZeroDivisionError
    assert [output] == list(tmp_path.iterdir())
    assert ["one"] == [path.name for path in output.iterdir()]
    with whole_folder(output) as folder:
        (folder / "two").touch()
    assert [output] == list(tmp_path.iterdir())
    assert ["two"] == [path.name for path in output.iterdir()]


KILLED = """
import os, signal, sys
from pathlib import Path
from culm.results import whole_folder
with whole_folder(Path(sys.argv[1])) as folder:
    (folder / "half").touch()
    if sys.argv[2] == "while it renames":
        real = type(folder).rename
        def rename(self, target):
            real(self, target)
            os.kill(os.getpid(), signal.SIGKILL)
        type(folder).rename = rename
    else:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["while it writes", "while it renames"])
def test_a_killed_run_leaves_nothing_for_long(tmp_path: Path, when: str) -> None:
    """The next run that writes there removes what a killed one left; earlier results that it had moved are back."""
    output = tmp_path / "output"
    output.mkdir()
    (output / "old").touch()
    child = subprocess.run([sys.executable, "-c", KILLED, str(output), when], check=False)
    assert -signal.SIGKILL == child.returncode
    assert [path for path in tmp_path.iterdir() if path != output], "nothing was left behind"
    with pytest.raises(ZeroDivisionError), whole_folder(output):
        assert ["old"] == [path.name for path in output.iterdir()]
        raise ZeroDivisionError
    assert [output] == list(tmp_path.iterdir())
    with whole_folder(output) as folder:
        (folder / "new").touch()
    assert ["new"] == [path.name for path in output.iterdir()]
    assert [output] == list(tmp_path.iterdir())


def test_a_run_at_work_is_left_alone(tmp_path: Path) -> None:
    """Two runs side by side, even to one output, do not remove each other's folders."""
    with whole_folder(tmp_path / "output") as one:
        (one / "one").touch()
        with whole_folder(tmp_path / "output") as other:
            (other / "other").touch()
        assert (one / "one").exists()
    assert ["one"] == [path.name for path in (tmp_path / "output").iterdir()]


def test_a_rename_that_fails(tmp_path: Path) -> None:
    """If the new folder cannot take its place the earlier one gets it back."""
    output = tmp_path / "output"
    output.mkdir()
    (output / "old").touch()
    with pytest.raises(OSError, match="not empty"), whole_folder(output) as folder:
        (folder / "new").touch()
        real = type(output).rename

        def rename(self: Path, target: Path) -> Path:
            if self == folder:
                raise OSError(39, "Directory not empty")
            return real(self, target)

        patch = mock.patch.object(type(output), "rename", rename)
        patch.start()
    patch.stop()
    assert ["old"] == [path.name for path in output.iterdir()]
    assert [output] == list(tmp_path.iterdir())
