"""The files of a release: built twice, in two fresh clones, and tried in an empty environment.

A clone has what is committed and nothing else, so nothing that lies about in the working tree gets into a release.
Two builds with the same bytes are the reason to believe that a third one, by somebody who checks the release, has the
same bytes, too: clones lie in different folders, and everything that depends on the time takes that of the commit.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Collection
from pathlib import Path

from packaging.metadata import Metadata

from release import Refused, run
from release.tree import URLS, Tree
from tests.wheel import BUNDLE, complaints

PARTS = {"web": "npm", "native": "cargo"}
"""What is built where its program is: the bundle for browsers inside the wheel, and the wheel of the native core."""


def parts(without: Collection[str]) -> list[str]:
    """The optional parts that are built here."""
    return [part for part, program in PARTS.items() if part not in without and shutil.which(program)]


def build(tree: Tree, chosen: Collection[str], scratch: Path, folder: Path) -> None:
    """Build everything twice and put it into ``folder``; ``Refused`` if the two differ by a byte."""
    first, second = (_build(tree, chosen, scratch / name) for name in ("first", "second"))
    names = sorted(path.name for path in first.iterdir())
    if names != sorted(path.name for path in second.iterdir()):
        raise Refused("two builds of one commit made files of other names. The build depends on its surroundings")
    for name in names:
        if (first / name).read_bytes() != (second / name).read_bytes():
            raise Refused(
                f"two builds of one commit differ in {name}, so nobody could check that it was built from this commit."
                f" Compare {first / name} and {second / name}"
            )
        shutil.copyfile(first / name, folder / name)


def _build(tree: Tree, chosen: Collection[str], scratch: Path) -> Path:
    clone, out = scratch / "culm", scratch / "dist"
    run(["git", "clone", "--quiet", tree.folder, clone], tree.folder, fails="git cannot clone this repository")
    run(["git", "checkout", "--quiet", "--detach", tree.commit], clone, fails="git cannot check the commit out")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(tree.epoch), "PYTHONHASHSEED": "0"}
    if "web" in chosen:
        run(["npm", "ci", "--ignore-scripts", "--silent"], clone / "web", fails="npm ci failed in web/")
        run(["npm", "run", "--silent", "build"], clone / "web", fails="the bundle for browsers cannot be built")
        shutil.copyfile(clone / "web/dist/culm.js", clone / "src" / BUNDLE)
    python: list[str | Path] = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, "."]
    run(python, clone, environment, fails="the wheel cannot be built")
    if "native" in chosen:
        # The compiler writes the paths of source files into messages of errors; these are the same everywhere.
        cargo = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
        environment["RUSTFLAGS"] = f"--remap-path-prefix={clone}=culm --remap-path-prefix={cargo}=cargo"
        maturin: list[str | Path] = [sys.executable, "-m", "maturin", "build", "--quiet", "--release", "--locked"]
        where: list[str | Path] = [
            "--manifest-path",
            "native/Cargo.toml",
            "--interpreter",
            sys.executable,
            "--out",
            out,
        ]
        run([*maturin, *where], clone, environment, fails="the native core cannot be built")
    return out


def check(tree: Tree, chosen: Collection[str], folder: Path) -> None:
    """Look into the wheel and the source archive; ``Refused`` if anything is missing, too much or invalid."""
    wheel = folder / f"culm-{tree.version}-py3-none-any.whl"
    archive = folder / f"culm-{tree.version}.tar.gz"
    for path in (wheel, archive):
        if not path.is_file():
            raise Refused(f"the build did not make {path.name}")
    if found := complaints(wheel, needs_bundle="web" in chosen):
        raise Refused("\n".join([f"{wheel.name} is not what it should be:", *(f"  {line}" for line in found)]))
    with zipfile.ZipFile(wheel) as opened:
        of_wheel = opened.read(f"culm-{tree.version}.dist-info/METADATA")
    with tarfile.open(archive) as packed:
        member = packed.extractfile(f"culm-{tree.version}/PKG-INFO")
        of_archive = member.read() if member else b""
    for path, metadata in ((wheel, of_wheel), (archive, of_archive)):
        _check_metadata(tree, path.name, metadata)


def _check_metadata(tree: Tree, name: str, data: bytes) -> None:
    try:
        metadata = Metadata.from_email(data, validate=True)
    except ExceptionGroup as errors:
        said = "; ".join(str(error) for error in errors.exceptions)
        raise Refused(f"the metadata of {name} are not valid, so an index would refuse it: {said}") from None
    if str(metadata.version) != tree.version:
        raise Refused(f"the metadata of {name} have version {metadata.version}; expected {tree.version}")
    if missing := [url for url in URLS if url not in (metadata.project_urls or {})]:
        raise Refused(f"the metadata of {name} lack {', '.join(missing)}")


def try_out(tree: Tree, folder: Path, scratch: Path, *, offline: bool, demo: bool) -> str:
    """Install the wheels in an empty environment and play the demo; what ``culm --version`` says there.

    ``offline``: take the dependencies from the environment that runs this, instead of the locked ones from an index.
    """
    environment = scratch / "environment"
    run([sys.executable, "-m", "venv", environment], scratch, fails="python -m venv failed")
    python = environment / "bin" / "python"
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    if offline:
        ours = [path for path in sys.path if path.endswith("site-packages")]
        (theirs,) = environment.glob("lib/python*/site-packages")
        (theirs / "dependencies.pth").write_text("\n".join(ours) + "\n")
    else:
        lock = tree.folder / "requirements" / "base.lock"
        run([*pip, "--require-hashes", "-r", lock], scratch, fails="the dependencies cannot be installed")
    wheels = sorted(folder.glob("*.whl"))
    run([*pip, "--no-deps", "--no-index", *wheels], scratch, fails="the wheels cannot be installed")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CULM_", "PYTHON"))}
    culm = environment / "bin" / "culm"
    said = run([culm, "--version"], scratch, clean, fails="the installed culm does not start").strip()
    if not said.startswith(f"culm {tree.version},"):
        raise Refused(f"the installed culm says that it is '{said}'; expected version {tree.version}")
    if demo:
        run([culm, "demo"], scratch, clean, fails="the demo failed with the installed culm")
    return said
