"""``make release``: what it refuses, the release log, and whole releases with a throw-away identity."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from release import Refused, contents, sums, trail, tree
from release.__main__ import main

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "CULM_PASSPHRASE": "throw-away", "GIT_CONFIG_GLOBAL": os.devnull} | {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a test"), ("EMAIL", "test@example.org"))
}
URLS = '[project.urls]\nSource = "https://example.org/culm"\nChangelog = "https://example.org/culm/CHANGELOG.md"\n'

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]


def git(folder: Path, *arguments: str) -> str:
    """Run git without the settings of whoever runs the tests."""
    done = subprocess.run(["git", *arguments], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    return done.stdout


def culm(home: Path, *arguments: str | Path, code: int = 0) -> str:
    """Run a command in a home; what it prints, errors included."""
    command = [sys.executable, "-m", "culm.cli", "--home", home, *arguments]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert code == done.returncode, done.stderr
    return done.stdout + done.stderr


@dataclass
class Small:
    """A repository with what ``release.tree`` looks at, and nothing else."""

    folder: Path

    def commit(self, version: str = "1.2.0", changelog: str = "", urls: str = URLS) -> None:
        """Write a version and commit it."""
        (self.folder / "src/culm").mkdir(parents=True, exist_ok=True)
        (self.folder / "src/culm/__init__.py").write_text(f'__version__ = "{version}"\n')
        (self.folder / "CHANGELOG.md").write_text(changelog or f"## [Unreleased]\n\n## [{version}] - 2026-01-02\n- x\n")
        (self.folder / "pyproject.toml").write_text(f'[project]\nname = "culm"\n{urls}')
        git(self.folder, "add", ".")
        git(self.folder, "commit", "--quiet", "--message", version)

    def refused(self) -> str:
        """Why the tree may not be released."""
        with pytest.raises(Refused) as found:
            tree.checked(self.folder)
        return str(found.value)


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Such a repository, with a commit of version 1.2.0 that may be released."""
    found = Small(tmp_path / "small")
    found.folder.mkdir()
    git(found.folder, "init", "--quiet")
    found.commit()
    git(found.folder, "tag", "v1.2.0")
    return found


def test_a_tree_that_agrees(small: Small) -> None:
    """A clean tree whose tag, version and changelog agree is told with its commit."""
    found = tree.checked(small.folder)
    assert (small.folder, "1.2.0", 40) == (found.folder, found.version, len(found.commit))
    assert git(small.folder, "log", "-1", "--format=%H %ct") == f"{found.commit} {found.epoch}\n"


def test_a_tree_with_changes(small: Small) -> None:
    """A file that is not committed is named, and nothing is released."""
    (small.folder / "note.txt").write_text("not committed")
    assert "Commit or remove them:\n?? note.txt" in small.refused()


def test_tags_that_do_not_fit(small: Small) -> None:
    """A commit without the tag of its version is refused, and so is one whose tag is at another commit."""
    small.commit("1.3.0")
    assert "has no tag v1.3.0" in small.refused()
    small.commit("1.2.0")
    assert "the tag v1.2.0 is at another commit" in small.refused()


@pytest.mark.parametrize(
    ("changelog", "told"),
    [
        ("## [Unreleased]\n\n## [1.1.0] - 2026-01-01\n- x\n", "'## [1.2.0] - DATE' as the newest one, found 1.1.0"),
        ("## [Unreleased]\n\n## [1.2.0]\n- x\n", "'## [1.2.0] - DATE' as the newest one"),
        ("no sections\n", "found none"),
        ("## [Unreleased]\n- y\n\n## [1.2.0] - 2026-01-02\n- x\n", "Move them to the section [1.2.0]"),
    ],
)
def test_changelogs_that_do_not_fit(small: Small, changelog: str, told: str) -> None:
    """The newest section must be that of the version, with a date, and nothing may stand under Unreleased."""
    small.commit(changelog=changelog)
    git(small.folder, "tag", "--force", "v1.2.0")
    assert told in small.refused()


def test_urls_that_are_missing(small: Small) -> None:
    """A package that would not say where its source is, is not released."""
    small.commit(urls='[project.urls]\nSource = "TODO"\n')
    git(small.folder, "tag", "--force", "v1.2.0")
    assert "pyproject.toml has no Source and no Changelog under [project.urls]" in small.refused()


def test_homes_that_cannot_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a home, with one that is not there, and with one inside the repository, the command says what to do."""
    inside = ROOT / "build" / "release-home"
    for home, told in (
        ("", "CULM_RELEASE_HOME is not set"),
        (str(tmp_path / "none"), "Make one: culm --home"),
        (str(inside), "The release key must stay outside"),
    ):
        assert 1 == main(["--home", home, "--output", str(tmp_path / "dist")])
        assert told in " ".join(capsys.readouterr().err.split())
    assert not inside.exists()


def test_an_output_with_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with files that no release has made is never removed."""
    (tmp_path / "thesis.txt").write_text("five years")
    assert 1 == main(["--output", str(tmp_path)])
    assert "has thesis.txt, which no release has made" in " ".join(capsys.readouterr().err.split())
    assert "five years" == (tmp_path / "thesis.txt").read_text()


def test_components() -> None:
    """The list of components has what the locks have, fits the schema, and is the same for the same commit."""
    commit = tree.Tree(ROOT, "1.2.0", "ab" * 20, 1_700_000_000)
    text = contents.document(commit, ["web", "native"])
    document = json.loads(text)
    purls = {component["purl"].rpartition("@")[0] for component in document["components"]}
    dependencies = {item["ref"]: item.get("dependsOn", []) for item in document["dependencies"]}
    names = {
        re.split(r"[\s;=<>\[]", line)[0]
        for line in (ROOT / "requirements/base.lock").read_text().splitlines()
        if "==" in line
    }

    assert text == contents.document(commit, ["native", "web"])
    assert names == {found["name"] for found in document["components"] if found["purl"].startswith("pkg:pypi/")} - {
        "culm-native"
    }
    assert {"pkg:npm/%40noble/curves", "pkg:cargo/blake2b_simd"} <= purls
    assert not [purl for purl in purls if "esbuild" in purl or "typescript" in purl]
    assert "pkg:pypi/culm@1.2.0" == document["metadata"]["component"]["purl"]
    direct = {ref.rpartition("/")[2].partition("@")[0] for ref in dependencies["pkg:pypi/culm@1.2.0"]}
    assert names | {"curves", "hashes", "culm-native"} == direct
    plain = json.loads(contents.document(commit, []))
    assert names == {found["name"] for found in plain["components"]}


# -- the release log ---------------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trail.Trail:
    """A release log without an entry, whose key is sealed."""
    monkeypatch.setenv("CULM_PASSPHRASE", "throw-away")
    culm(tmp_path / "home", "init", "--passphrase")
    return trail.opened(str(tmp_path / "home"), ROOT)


def listed(folder: Path, version: str, content: bytes) -> Path:
    """A folder with a pretended wheel and its list; the list's place."""
    folder.mkdir()
    (folder / f"culm-{version}-py3-none-any.whl").write_bytes(content)
    found = folder / sums.NAME
    found.write_text(sums.written(tree.Tree(ROOT, version, "ab" * 20, 1_700_000_000), folder))
    return found


def test_a_version_is_released_once(log: trail.Trail, tmp_path: Path) -> None:
    """The same list again is the same entry, as after a release that was cut off; another list is refused."""
    first = listed(tmp_path / "first", "1.2.0", b"wheel")
    assert [1, 1] == [log.append("1.2.0", first, continue_here=False) for _ in range(2)]
    with pytest.raises(Refused, match=r"entry 1 of the release log is version 1\.2\.0 already, with other files"):
        log.append("1.2.0", listed(tmp_path / "other", "1.2.0", b"another wheel"), continue_here=False)
    assert 2 == log.append("1.3.0", listed(tmp_path / "next", "1.3.0", b"wheel"), continue_here=False)
    assert {"1.2.0": 1, "1.3.0": 2} == {version: seq for version, (seq, _) in log.released().items()}


def test_a_forked_release_log(log: trail.Trail, tmp_path: Path) -> None:
    """Two lists for one version, by a thief of the key, are a fork to a reader of both, and end the log."""
    log.append("1.1.0", listed(tmp_path / "first", "1.1.0", b"wheel"), continue_here=False)
    shutil.copytree(log.home, tmp_path / "stolen")
    thief = trail.Trail(tmp_path / "stolen", log.author)
    for whose, content in ((log, b"wheel"), (thief, b"wheel with a back door")):
        folder = tmp_path / content.decode()
        seq = whose.append("1.2.0", listed(folder, "1.2.0", content), continue_here=False)
        whose.give("1.2.0", seq, folder)
    exports = [tmp_path / name / trail.EXPORT for name in ("wheel", "wheel with a back door")]

    culm(tmp_path / "reader", "init", "--no-identity")
    culm(tmp_path / "reader", "import", exports[0])
    culm(tmp_path / "reader", "verify", log.log)
    assert "fork in" in culm(tmp_path / "reader", "import", exports[1], code=1)
    assert "1 forked log" in culm(tmp_path / "reader", "verify", log.log, code=1)

    culm(log.home, "import", exports[1], code=1)
    with pytest.raises(Refused, match="1 forked log"):
        trail.opened(str(log.home), ROOT)


def test_a_restored_home(log: trail.Trail, tmp_path: Path) -> None:
    """A release log from a backup is not continued unless its maker says that nothing newer exists."""
    log.append("1.1.0", listed(tmp_path / "first", "1.1.0", b"wheel"), continue_here=False)
    culm(log.home, "backup", tmp_path / "backup.tar")
    culm(tmp_path / "restored", "restore", tmp_path / "backup.tar")
    restored = trail.opened(str(tmp_path / "restored"), ROOT)
    second = listed(tmp_path / "second", "1.2.0", b"wheel")
    with pytest.raises(Refused, match="culm append failed"):
        restored.append("1.2.0", second, continue_here=False)
    assert 2 == restored.append("1.2.0", second, continue_here=True)


# -- whole releases ----------------------------------------------------------------------------------------------------


@dataclass
class Released:
    """Two releases of one repository: the folders of their files, and the home of the log."""

    repository: Path
    home: Path
    first: Path
    second: Path
    printed: str


def release(repository: Path, home: Path | None, output: Path) -> str:
    """Run the command in a repository, without what needs a network or a compiler; what it prints.

    Without a home nothing is signed.
    """
    signed: list[str | Path] = ["--home", home] if home else ["--unsigned"]
    options: list[str | Path] = [*signed, "--output", output, "--offline", "--without", "web", "native", "demo"]
    done = subprocess.run(
        [sys.executable, "-m", "release", *options],
        cwd=repository,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Released:
    """This tree, committed as a repository of its own, and released twice."""
    folder = tmp_path_factory.mktemp("released")
    found = Released(folder / "culm", folder / "home", folder / "first", folder / "second", "")
    names = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in names:
        if name and (ROOT / name).is_file():
            (found.repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, found.repository / name)
    project = found.repository / "pyproject.toml"
    project.write_text(project.read_text().replace("[project.scripts]\n", f"{URLS}\n[project.scripts]\n"))
    culm(found.home, "init", "--passphrase")
    git(found.repository, "init", "--quiet")
    version = tree.version_of(ROOT)
    for number, output in ((version, found.first), ("99.1.0", found.second)):
        module, changelog = found.repository / "src/culm/__init__.py", found.repository / "CHANGELOG.md"
        module.write_text(module.read_text().replace(f'"{version}"', f'"{number}"'))
        text = changelog.read_text()
        start, end = text.index("## [Unreleased]"), text.index(f"## [{version}]")
        heading = "" if number == version else f"## [{number}] - 2099-01-01\n\n- More.\n\n"
        changelog.write_text(f"{text[:start]}## [Unreleased]\n\n{heading}{text[end:]}")
        git(found.repository, "add", ".")
        git(found.repository, "commit", "--quiet", "--message", number)
        git(found.repository, "tag", f"v{number}")
        found.printed += release(found.repository, found.home, output)
    return found


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_release_and_the_next(released: Released, tmp_path: Path) -> None:
    """A release has all files and says what is left to do; a second one continues the log, and both can be checked."""
    version = tree.version_of(ROOT)
    key = culm(released.home, "identity", "show").strip()
    for number, folder, seq in ((version, released.first, 1), ("99.1.0", released.second, 2)):
        files = {f"culm-{number}{rest}" for rest in ("-py3-none-any.whl", ".tar.gz", ".cdx.json", ".proof")}
        assert files | {sums.NAME, trail.EXPORT} == {path.name for path in folder.iterdir()}
        assert f"twice with the same bytes\ninstalled in an empty environment: culm {number}," in released.printed
        assert f"twine upload --skip-existing {folder}/*.whl" in released.printed
        checked = culm(
            tmp_path, "check", folder / f"culm-{number}.proof", "--author", key, "--payload", folder / sums.NAME
        )
        assert f"signed entry {seq} of log {trail.LOG}." in checked
        subprocess.run(["sha256sum", "--check", "--strict", sums.NAME], cwd=folder, check=True)
    for folder, entries in ((released.first, 1), (released.second, 1)):
        home = tmp_path / "reader"
        if not home.exists():
            culm(home, "init", "--no-identity")
        assert f"added {entries} entry" in culm(home, "import", folder / trail.EXPORT)
        culm(home, "verify", f"{key}/{trail.LOG}")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_tampered_wheel(released: Released, tmp_path: Path) -> None:
    """One changed byte of the wheel is noticed; and if the list is changed to fit, the proof notices that."""
    shutil.copytree(released.second, tmp_path / "download")
    (wheel,) = (tmp_path / "download").glob("*.whl")
    data = bytearray(wheel.read_bytes())
    before = sha256(data).hexdigest()
    data[len(data) // 2] ^= 1
    wheel.write_bytes(data)
    check = ["sha256sum", "--check", sums.NAME]
    done = subprocess.run(check, cwd=wheel.parent, capture_output=True, text=True, check=False)
    assert (1, True) == (done.returncode, f"{wheel.name}: FAILED" in done.stdout)

    forged = wheel.parent / sums.NAME
    forged.write_text(forged.read_text().replace(before, sha256(data).hexdigest()))
    subprocess.run(check, cwd=wheel.parent, capture_output=True, check=True)
    (proof,) = wheel.parent.glob("*.proof")
    assert "is not the entry's payload" in culm(tmp_path, "check", proof, "--payload", forged, code=1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_anybody_can_build_it_again(released: Released, tmp_path: Path) -> None:
    """A build without a key, of the commit that the list names, ends with the same list."""
    text = (released.second / sums.NAME).read_text()
    (commit,) = re.findall(r"^# commit (\w{40})$", text, re.MULTILINE)
    git(tmp_path, "clone", "--quiet", str(released.repository), "clone")
    git(tmp_path / "clone", "checkout", "--quiet", commit)
    again = tmp_path / "again"
    printed = release(tmp_path / "clone", None, again)
    assert f"{again} has the files and their list, which no log has" in printed
    assert (again / sums.NAME).read_text() == text


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_release_that_was_cut_off(released: Released) -> None:
    """The command again, after a release whose last steps never came, ends with the same files and no second entry."""
    before = {path.name: path.read_bytes() for path in released.second.iterdir()}
    shutil.rmtree(released.second)
    release(released.repository, released.home, released.second)
    after = {path.name: path.read_bytes() for path in released.second.iterdir()}
    assert before.keys() == after.keys()
    assert before[sums.NAME] == after[sums.NAME]
