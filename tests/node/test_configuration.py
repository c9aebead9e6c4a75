"""``culm.toml``: what is taken, what is refused and how that is said, the example, the docs page."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.errors import ConfigError
from culm.node.asking import OPTIONS
from culm.node.config import NodeLimits
from culm.node.network.urls import PeerUrl
from culm.node.settings import kinds
from culm.node.settings.lines import Lines
from culm.node.settings.reading import defaults, load
from culm.node.settings.schema import SECTIONS, example, tables

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def read(folder: Path, text: str) -> object:
    """What a file of this text says."""
    path = folder / "culm.toml"
    path.write_text(text)
    return load(path)


def test_a_whole_file(tmp_path: Path) -> None:
    """Values are read by their kinds, origins name the lines, peers inherit what they do not say."""
    path = tmp_path / "culm.toml"
    path.write_text(
        'clump = "observatory"\nlisten = [\n  "bushbaby://0.0.0.0:7878",\n  "intervals://[::1]:0",\n]\n'
        'interval = 5\nupload = "2MB"\n[limits]\nmax_logs = 7\nmax_rate = 50000\n[proposals]\nwindow = "64kB"\n'
        '[[peers]]\nurl = "bushbaby://a.example:1"\nname = "a"\nupload = "1MB"\n[peers.limits]\nidle_seconds = 5\n'
        '[[peers]]\nurl = "intervals://b.example:2"\n'
    )
    found = load(path)
    assert found["clump"] == "observatory"
    assert found["listen"] == (
        PeerUrl("bushbaby", "0.0.0.0", 7878), PeerUrl("intervals", "::1", 0),
    )  # fmt: skip
    assert (found["interval"], found["upload"], found["proposals.window"]) == (5.0, 2_000_000, 64_000)
    assert (found["limits.max_logs"], found["limits.max_wants"]) == (7, NodeLimits().max_wants)
    origins = [found.origin(name) for name in ("clump", "listen", "interval", "limits.max_rate", "limits.max_wants")]
    assert origins == [f"{path}:1", f"{path}:2", f"{path}:6", f"{path}:10", "default"]
    first, second = found.peers
    assert (first.name, first.download, first.upload, dict(first.limits)) == (
        "a",
        50_000,
        1_000_000,
        {"idle_seconds": 5},
    )
    assert (second.name, second.download, second.upload) == ("intervals://b.example:2", 50_000, 0)
    assert found.peers_origin == f"{path}:13"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x =", 1, "not TOML"),
        ('clump = "a\ninterval = 3', 1, "not TOML"),
        ("\n\nintervall = 3", 3, "intervall: unknown setting; did you mean interval?"),
        ("zzz = 3", 1, "expected one of"),
        ('interval = "fast"', 1, "interval: expected a number of seconds above 0, not 'fast'"),
        ("interval = 0", 1, "above 0"),
        ("interval = nan", 1, "above 0"),
        ("hoard = 1", 1, "hoard: expected true or false, not 1"),
        ("clump = 3", 1, "clump: expected a string, not 3"),
        ('clump_hex = "0"', 1, "hex digits"),
        ('clump = "a"\nclump_hex = "00"', 2, "not both"),
        ('# a\nlisten = [\n "bushbaby://x:1",\n "ftp://x"]', 2, "listen: 'ftp://x' is not an address"),
        ('listen = "bushbaby://x:1"', 1, "a list of addresses"),
        ('refuse_ranges = ["opened"]', 1, 'a list of range features: "open", "sparse", '),
        ('avoid_ranges = "open"', 1, "a list of range features"),
        ('promote = ["x"]', 1, "promote: 'x' is not AUTHOR/LOG"),
        ("download = 10", 1, "16000"),
        ('upload = "many"', 1, "not a size"),
        ('http = "8484"', 1, "HOST:PORT"),
        ('http = "localhost:99999"', 1, "HOST:PORT"),
        ('log_format = "xml"', 1, 'one of "text", "json"'),
        ("[limits]\n\nmax_log = 3", 3, "limits.max_log: unknown setting; did you mean max_logs?"),
        ("[limits]\nmax_logs = -3", 2, "limits.max_logs: expected a whole number"),
        ("limits = 3", 1, "expected a table"),
        ("[limits]\nmax_logs = " + "9" * 5000, 2, "a number with thousands of digits"),
        ("[limits]\nmax_logs = 0x" + "f" * 5000, 2, "whole number"),
        ("[limits]\nmax_logs = 18446744073709551616", 2, "whole number"),
        ("[limits]\nidle_seconds = " + "9" * 400, 2, "a number of seconds"),
        ("promote = [0x" + "f" * 5000 + "]", 1, "not a number with thousands of digits"),
        (f'promote = ["{"0a" * 32}/{"9" * 5000}"]', 1, "log id"),
        ('clump = "a\u2028b"\nwrong = 1', 2, "wrong: unknown setting"),
        ("limits.max_logs = true", 1, "whole number"),
        ("peers = 3", 1, "[[peers]]"),
        ('[[peers]]\nname = "x"', 1, "peers[1]: this peer has no url"),
        ('[[peers]]\nurl = "bushbaby://a:1"\n[[peers]]\n\nurll = 3', 5, "did you mean url?"),
        ('[[peers]]\nurl = "bushbaby://a:1"\n[[peers]]\nurl = "bushbaby://a:1"', 4, "is listed twice"),
        ('[[peers]]\nurl = "negentropy://a:1"', 2, "'negentropy://a:1': negentropy cannot do this"),
        ('[[peers]]\nurl = "bushbaby://a:1"\n[peers.limits]\nidle = 3', 4, "peers[1].limits.idle"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, line: int, words: str) -> None:
    """One line names the file, the line, the key and what was expected."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'culm.toml'}, line {line}: "), message
    assert words in message
    assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A file that is named and missing, a folder, bytes that are no text, too many of them: one error each."""
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "none.toml")
    assert load(tmp_path / "none.toml", must_exist=False) == defaults()
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path)
    path = tmp_path / "culm.toml"
    path.write_bytes(b'clump = "x"\n# \xff')
    with pytest.raises(ConfigError, match="line 2: not UTF-8"):
        load(path)
    path.write_bytes(b"#" * 2_000_000)
    with pytest.raises(ConfigError, match="larger"):
        load(path)


def test_the_example_says_the_defaults(tmp_path: Path) -> None:
    """The example changes nothing as it stands, and every line of it is a good one once uncommented."""
    assert read(tmp_path, example()) == defaults()
    header = ""
    for line in example().splitlines():
        if re.match(r"#\[", line):
            header = line[1:]
        elif re.match(r"#[a-z_]+ = ", line):
            name = line[1:].partition(" ")[0]
            scheme = OPTIONS.get(name, ("bushbaby",))[0]
            extra = f'url = "{scheme}://x:1"\n' if header == "[[peers]]" and name != "url" else ""
            extra += 'fork = "local"\n' if name == "anchor" else ""
            before = '[[peers]]\nurl = "bushbaby://x:1"\n' if header == "[peers.limits]" else ""
            found = load_text(tmp_path, f"{before}{header}\n{extra}{line[1:]}\n")
            full = f"{header.strip('[]')}.{name}".removeprefix(".")
            key = next(key for section in SECTIONS for key in section.keys if key.name == name)
            if full in found.values and key.default is not None:
                assert found[full] == key.default, full


def load_text(folder: Path, text: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """The settings of a text."""
    path = folder / "culm.toml"
    path.write_text(text)
    return load(path)


@given(st.floats(0, 2**64 - 2048))
def test_seconds_are_shown_with_all_digits(seconds: float) -> None:
    """What is shown of a number of seconds is a number of TOML, and the same."""
    shown = kinds.SECONDS.write(seconds)
    assert kinds.SECONDS.read(tomllib.loads(f"seconds = {shown}")["seconds"]) == seconds
    assert not shown.endswith(".0")


def test_every_setting_is_on_its_page() -> None:
    """The tables of the docs page are those that the schema makes."""
    assert tables() in PAGE.read_text(), "docs/configuration.md: put in the output of culm.node.settings.tables()"


def test_the_files_on_the_page_are_good(tmp_path: Path) -> None:
    """What the docs show as a file is one."""
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert blocks
    for text in blocks:
        assert load_text(tmp_path, text).peers


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["", "# x = 1", "a = 1", 'b = """\nc = 2\n"""', "c = [\n1, # x = 3\n2,\n]", "d.e = 3", "[t]", "x = 1",
             "[[l]]", "y = 'z = 1'"]
        ),
        max_size=8,
    )
)  # fmt: skip
def test_lines_are_found(parts: list[str]) -> None:
    """The line of a key is the one that its statement begins at, whatever stands around it."""
    text = "\n".join(parts)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = text.splitlines()
    for name, value in document.items():
        line = lines[Lines(text).of((name,)) - 1]
        assert re.match(rf"\[*{name}\b", line), (name, text)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            assert lines[Lines(text).of((name, len(value) - 1)) - 1] == f"[[{name}]]"
