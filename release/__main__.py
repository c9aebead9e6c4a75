"""``make release``: everything up to the upload, which a person does."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path

from release import Refused, building, contents, sums, trail, tree

ROOT = Path(__file__).parents[1]
_OURS = {".whl", ".gz", ".json", ".proof", ".bundle"}


def make(options: argparse.Namespace) -> None:
    """Go through all steps; ``Refused`` at the first that fails, and then no entry and no file was written."""
    _check_output(options.output)
    log = None if options.unsigned else trail.opened(options.home, ROOT)
    known = tree.checked(ROOT)
    chosen = building.parts(options.without)
    _say(f"version {known.version}, commit {known.commit[:12]}, tag v{known.version}; the working tree is clean")
    for part in sorted(set(building.PARTS) - set(chosen)):
        _say(f"left out: {part}" + ("" if part in options.without else f", because {building.PARTS[part]} is missing"))
    with tempfile.TemporaryDirectory(prefix="culm-release-") as name:
        scratch = Path(name)
        files = scratch / "files"
        files.mkdir()
        _say("building twice, which takes some minutes with the native core")
        building.build(known, chosen, scratch, files)
        building.check(known, chosen, files)
        for path in sorted(files.iterdir()):
            _say(f"built {path.name}, {path.stat().st_size:,} bytes, twice with the same bytes")
        said = building.try_out(known, files, scratch, offline=options.offline, demo="demo" not in options.without)
        _say(f"installed in an empty environment: {said}")
        (files / contents.NAME.format(version=known.version)).write_text(contents.document(known, chosen))
        (files / sums.NAME).write_text(sums.written(known, files))
        if log is not None:
            seq = log.append(known.version, files / sums.NAME, continue_here=options.continue_here)
            log.give(known.version, seq, files)
            _say(f"entry {seq} of the release log has the list of files: {log.log}/{seq}")
        if options.output.exists():
            shutil.rmtree(options.output)
        shutil.move(files, options.output)
    if log is None:
        _say(f"{options.output} has the files and their list, which no log has: compare it with that of a release")
    else:
        sys.stdout.write(_next(known, log, options.output))


def _check_output(folder: Path) -> None:
    """Only what a release or ``make wheel`` has made is removed."""
    for path in folder.iterdir() if folder.exists() else ():
        if path.name != sums.NAME and path.suffix not in _OURS:
            raise Refused(
                f"{folder} has {path.name}, which no release has made. Move it away, or name another --output"
            )


def _next(known: tree.Tree, log: trail.Trail, output: Path) -> str:
    """What is left to do, for a person to decide."""
    return f"""
{output} has everything. Nothing was uploaded. What is left to do:

  git push ORIGIN v{known.version}
  twine upload --skip-existing {output}/*.whl {output}/*.tar.gz
  culm --home {log.home} sync PEER       # so that others hold the log: a thief of the key cannot rewrite it then

Put the other files of {output} beside the wheel, where users find them. The key that they check them with:

  {log.author}
"""


def _wrapped(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """The command; 1 if the release was refused."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument(
        "--home", default=os.environ.get("CULM_RELEASE_HOME"), help="the home of the release log ($CULM_RELEASE_HOME)"
    )
    parser.add_argument("--output", type=Path, default=Path("dist"), help="a folder for the files, made anew")
    parser.add_argument(
        "--without", nargs="+", default=[], choices=[*building.PARTS, "demo"], help="parts and checks to leave out"
    )
    parser.add_argument("--unsigned", action="store_true", help="write no entry, as for a build to compare with")
    parser.add_argument("--offline", action="store_true", help="take dependencies from this environment")
    parser.add_argument(
        "--continue-here", action="store_true", help="the home was restored, and no newer entry exists anywhere"
    )
    try:
        make(parser.parse_args(arguments))
    except Refused as refused:
        lines = f"error: {refused}".splitlines()
        sys.stderr.writelines(f"{line}\n" for text in lines for line in _wrapped(text))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
