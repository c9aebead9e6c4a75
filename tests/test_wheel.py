"""The built wheel, and the program that judges it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.wheel import BUNDLE, ROOT, complaints

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]
CODE = b"export{a as follow,b as bestCheck};"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built as users build it: from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], check=True, capture_output=True
    )
    (found,) = folder.glob("*.whl")
    return found


def changed(wheel: Path, target: Path, *, without: str = "", more: dict[str, bytes] | None = None) -> Path:
    """A copy of a wheel with other files."""
    more = more or {}
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name != without and name not in more:
                new.writestr(name, old.read(name))
        for name, content in more.items():
            new.writestr(name, content)
    return target


def test_what_it_holds(wheel: Path, tmp_path: Path) -> None:
    """The wheel has every committed file of the package and no other; with the bundle it is whole."""
    assert complaints(wheel, needs_bundle=False) == []
    assert complaints(changed(wheel, tmp_path / "with.whl", more={BUNDLE: CODE}), needs_bundle=True) == []
    without = complaints(changed(wheel, tmp_path / "without.whl", without=BUNDLE), needs_bundle=True)
    assert [line.partition(":")[0] for line in without] == ["it lacks the bundle for browsers"]


def test_what_is_wrong_is_told(wheel: Path, tmp_path: Path) -> None:
    """A file that is missing, one too many, and a bundle that is none are each a line."""
    assert complaints(changed(wheel, tmp_path / "1.whl", without="culm/py.typed"), needs_bundle=False) == [
        "it lacks culm/py.typed"
    ]
    assert complaints(changed(wheel, tmp_path / "2.whl", more={"tests/wheel.py": b""}), needs_bundle=False) == [
        "it has tests/wheel.py, which is not committed"
    ]
    assert complaints(changed(wheel, tmp_path / "3.whl", more={BUNDLE: b"alert(1)"}), needs_bundle=True) == [
        f"{BUNDLE} is not the bundle that make web builds"
    ]
