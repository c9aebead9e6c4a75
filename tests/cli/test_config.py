"""``culm config``, ``--config``, and how options and the file go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.node.settings.schema import example

if TYPE_CHECKING:
    from tests.cli.culm import Culm


def test_settings_and_where_they_are_from(culm: Culm) -> None:
    """Options win over the file, the file over defaults; each value says where it is from."""
    path = culm.home / "culm.toml"
    path.write_text(
        'clump = "y"\ninterval = 7\n[limits]\nmax_logs = 9\n[[peers]]\nurl = "bushbaby://a:1"\nname = "a"\n'
    )
    shown = culm("config", "--interval", 8, "--limit", "max_wants=5", "--json").json
    settings = shown["settings"]
    assert settings["clump"] == {"value": "y", "from": f"{path}:1"}
    assert settings["interval"] == {"value": 8, "from": "command line"}
    assert settings["limits.max_logs"] == {"value": 9, "from": f"{path}:4"}
    assert settings["limits.max_wants"] == {"value": 5, "from": "command line"}
    assert settings["limits.idle_seconds"] == {"value": 30, "from": "default"}
    assert [peer["name"] for peer in shown["peers"]] == ["a"]
    text = culm("config").out
    assert f"{path}:2" in text
    assert "peer a: " in text
    replaced = culm("config", "--peer", "bushbaby://b:1", "--clump-hex", "ff", "--json").json
    assert [peer["url"] for peer in replaced["peers"]] == ["bushbaby://b:1"]
    assert replaced["settings"]["clump"] == {"value": None, "from": "command line"}


def test_another_file(culm: Culm) -> None:
    """``--config`` names another file, which has to be there; it goes before or after the command."""
    other = culm.home / "other.toml"
    other.write_text('clump = "z"\n')
    assert culm("config", "--config", other, "--json").json["settings"]["clump"]["value"] == "z"
    assert culm("--config", other, "config", "--json").json["settings"]["clump"]["value"] == "z"
    missing = culm("config", "--config", culm.home / "none.toml")
    assert (missing.code, missing.err.count("\n")) == (2, 1)


def test_the_example(culm: Culm) -> None:
    """``--example`` prints a file to begin with, even where the present one is wrong."""
    (culm.home / "culm.toml").write_text("nonsense")
    assert culm("config", "--example").out == example()
    assert culm("config").code == 2
    assert culm("serve").code == 2


def test_a_node_needs_something_to_do(culm: Culm) -> None:
    """Neither listeners nor peers, and Bushbaby without a clump, are wrong calls."""
    assert "nothing to do" in culm("serve").err
    (culm.home / "culm.toml").write_text('listen = ["bushbaby://127.0.0.1:0"]\n')
    assert "needs a clump" in culm("serve").err
    wrong = culm("serve", "--clump", "x", "--interval", "0")
    assert (wrong.code, "--interval" in wrong.err) == (2, True)
    assert "--http" in culm("config", "--http", "nowhere").err
