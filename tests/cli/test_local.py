"""The commands on one's own store."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm import SQLiteStore
from culm.bamboo import Identity
from culm.bamboo.base62 import encode_base62
from culm.testing import build_log, tampered
from culm.wire.places import log_text
from tests.store.below import database_of

if TYPE_CHECKING:
    from tests.cli.culm import Culm

IDENTITIES = json.loads((Path(__file__).parents[1] / "vectors" / "bushbaby" / "identities.json").read_text())


def one_line(text: str) -> bool:
    """Whether an error is a single line of Culm's."""
    return text.startswith("culm: ") and text.count("\n") == 1


def test_the_first_commands(culm: Culm, tmp_path: Path) -> None:
    """Append, list, show, read back, verify: each does what it says, as text and as JSON."""
    author = culm("identity", "show").out.strip()
    (tmp_path / "note").write_bytes(b"from a file")
    assert culm("append", 1, "--text", "hello").out == f"{author}/1/1\n"
    assert culm("append", 1, tmp_path / "note", "--json").json["seq"] == 2
    logs = culm("logs", "--json").json
    assert logs == [
        {
            "author": author,
            "log_id": 1,
            "newest": 2,
            "entries": 2,
            "payloads": 2,
            "certified": 2,
            "waiting": 0,
            "invalid": 0,
            "forked_at": None,
            "ended": False,
            "clumps": None,
            "unshared": [],
        }
    ]
    assert f"{author}/1" in culm("logs").out
    assert [item["size"] for item in culm("show", f"{author}/1", "--json").json] == [5, 11]
    assert culm("show", f"{author}/1/2", "--payload").out == "from a file"
    assert culm("show", f"{bytes(32).hex()}/1").code == 1
    report = culm("verify", "--json").json
    assert report["entries"] == report["verified"] == 2
    assert (report["unverified"], report["invalid"], report["forks"]) == (0, 0, 0)


def test_what_is_verified_but_not_certified(culm: Culm, tmp_path: Path) -> None:
    """Entries without the upper half of their pool are counted apart, where there are any."""
    log = build_log(9)
    for seq in (1, 4, 5, 6, 8):
        (tmp_path / "file").write_bytes(log.entries[seq - 1].encoded + log.payloads[log.entries[seq - 1].hash])
        culm("import", tmp_path / "file")
    report = culm("verify", "--json").json
    assert (report["verified"], report["certified"], report["problems"]) == (5, 3, [])
    assert "5 verified (3 certified), 0 unverified" in culm("verify").out
    assert culm("logs", "--json").json[0]["certified"] == 3
    assert culm("logs").out.rstrip().endswith("3 certified")
    (tmp_path / "file").write_bytes(log.entries[6].encoded + log.payloads[log.entries[6].hash])
    culm("import", tmp_path / "file")
    assert "certified" not in culm("verify").out + culm("logs").out


def test_log_ids_up_to_the_greatest(culm: Culm) -> None:
    """Log ids are unsigned 64-bit numbers, right to the end."""
    place = culm("append", 2**64 - 1, "--text", "x").out
    assert place.endswith(f"/{2**64 - 1}/1\n")
    assert culm("logs", "--json").json[0]["log_id"] == 2**64 - 1
    for wrong in (2**64, -1, "x", "1.0", "\u0661"):
        assert culm("append", "--text", "x", "--", wrong).code == 2


def test_payloads_from_stdin(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` reads the payload from stdin."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff" * 100_000)))
    place = culm("append", 1, "-").out.strip()
    assert culm("show", place, "--json").json["size"] == 200_000


def test_a_log_ends(culm: Culm) -> None:
    """After ``--end`` a log takes nothing more, and says so."""
    culm("append", 1, "--text", "x")
    assert culm("append", 1, "--end", "--text", "bye").code == 0
    result = culm("append", 1, "--text", "y")
    assert (result.code, one_line(result.err)) == (1, True)
    assert "ended" in result.err
    assert culm("logs", "--json").json[0]["ended"] is True


def test_forgetting_keeps_the_entry(culm: Culm) -> None:
    """A forgotten payload is gone, its entry stays verified."""
    place = culm("append", 1, "--text", "secret").out.strip()
    assert culm("forget", place, "--json").json == {"place": place, "freed": 6}
    result = culm("show", place, "--payload")
    assert (result.code, result.out) == (1, "")
    assert culm("verify", "--json").json["verified"] == 1
    assert culm("logs", "--json").json[0]["payloads"] == 0


def test_export_and_import(culm: Culm, tmp_path: Path) -> None:
    """Both formats carry logs from one home to another."""
    for number in range(5):
        culm("append", 1, "--text", f"entry {number}")
    for name, extra in (("plain", []), ("bundle", ["--bundle"])):
        assert culm("export", "-o", tmp_path / name, *extra).code == 0
        other = culm.at(name + "-home")
        other("init", "--no-identity")
        assert other("import", tmp_path / name, "--json").json == {
            "added": 5,
            "known": 0,
            "waiting": 0,
            "payloads": 5,
            "refused": [],
            "forks": [],
        }
        assert other("import", tmp_path / name, "--json").json["known"] == 5
        assert other.held() == culm.held()


def test_a_forged_file_is_refused_with_place_and_reason(culm: Culm, tmp_path: Path) -> None:
    """A tampered entry is named with its place; the rest is imported; the exit code is 1."""
    log = build_log(5)
    entries = [entry.encoded for entry in log.entries]
    entries[4] = tampered(log.entries[4])
    data = b"".join(entry + log.payloads[made.hash] for entry, made in zip(entries, log.entries, strict=True))
    (tmp_path / "forged").write_bytes(data)
    result = culm("import", tmp_path / "forged", "--json")
    place = f"{encode_base62(log.identity.public).decode()}/0/5"
    assert (result.code, result.json["added"]) == (1, 4)
    assert result.json["refused"] == [
        {"place": place, "reason": "the signature does not verify under the claimed author"}
    ]


def test_a_fork_is_reported(culm: Culm, tmp_path: Path) -> None:
    """An import that brings a fork to light says where, ends with 1, and the reports agree."""
    log = build_log(10)
    other = log.make(6, b"other")
    data = b"".join(entry.encoded + log.payloads[entry.hash] for entry in [*log.entries, other])
    (tmp_path / "file").write_bytes(data)
    result = culm("import", tmp_path / "file", "--json")
    assert (result.code, [fork["position"] for fork in result.json["forks"]]) == (1, [6])
    report = culm("verify", "--json")
    assert (report.code, report.json["forks"], report.json["verified"], report.json["invalid"]) == (1, 1, 5, 6)
    assert culm("logs", "--json").json[0]["forked_at"] == 6
    last_valid, at_the_fork = (culm("show", log.entries[seq - 1].name, "--payload") for seq in (5, 6))
    assert (last_valid.code, last_valid.err) == (0, "")
    assert (at_the_fork.code, at_the_fork.err) == (0, "warning: do not trust this payload: the entry is invalid\n")


@pytest.mark.parametrize(
    "content", [b"", b"not a log", b"\x00" * 50, b"CULMBUN", b"CULMBUNDLE1\n", b"\x00" + b"\xff" * 400]
)
def test_wrong_files_are_refused(culm: Culm, tmp_path: Path, content: bytes) -> None:
    """Empty, foreign and cut files: one reason, exit code 1, nothing lost."""
    culm("append", 1, "--text", "mine")
    (tmp_path / "file").write_bytes(content)
    result = culm("import", tmp_path / "file")
    assert result.code == 1
    assert result.err.count("refused the file") == 1
    assert culm("verify").code == 0


def test_half_a_file_gives_its_half(culm: Culm, tmp_path: Path) -> None:
    """What stands before the cut is imported."""
    log = build_log(10, payload_size=100)
    data = b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries)
    (tmp_path / "file").write_bytes(data[: len(data) // 2])
    result = culm("import", tmp_path / "file", "--json")
    assert result.code == 1
    assert result.json["added"] in (4, 5)
    assert "cut short" in result.json["refused"][0]["reason"]


@pytest.mark.usefixtures("cheap_passphrases")
def test_identities_move(culm: Culm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Identities are made, listed, exported and imported, in the deployed peer's form too, and under a passphrase."""
    known = IDENTITIES[0]
    (tmp_path / "secret").write_text(known["base62_secret"])
    (tmp_path / "hex").write_text(known["secret"])
    assert culm("identity", "import", "deployed", tmp_path / "secret").out.strip() == known["base62_public"]
    assert culm("identity", "import", "again", tmp_path / "hex").out.strip() == known["base62_public"]
    monkeypatch.setenv("CULM_PASSPHRASE", "open sesame")
    author = culm("identity", "new", "sealed", "--passphrase").out.strip()
    assert culm("append", 1, "--identity", "sealed", "--text", "x").out == f"{author}/1/1\n"
    assert culm("identity", "export", "sealed", "-o", tmp_path / "copy", "--passphrase").code == 0
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    assert author not in (tmp_path / "copy").read_text()
    assert culm("identity", "import", "copy", tmp_path / "copy").out.strip() == author
    listed = {item["name"]: item["sealed"] for item in culm("identity", "list", "--json").json}
    assert listed == {"again": False, "copy": False, "default": False, "deployed": False, "sealed": True}
    monkeypatch.setenv("CULM_PASSPHRASE", "wrong")
    result = culm("append", 1, "--identity", "sealed", "--text", "y")
    assert (result.code, one_line(result.err)) == (2, True)
    assert culm("identity", "new", "sealed").code == 2


WRONG_CALLS: list[list[object]] = [
    ["nope"],
    ["append"],
    ["append", "1", "--text", "x", "file"],
    ["append", "1", "/no/such/file"],
    ["append", "1", "/"],
    ["append", "1", "--identity", "nobody", "--text", "x"],
    ["append", "1", "--identity", "../x", "--text", "x"],
    ["show", "x/1"],
    ["show", "a" * 43 + "/x"],
    ["show", "a" * 43],
    ["show", "0" * 43 + "/1", "--payload"],
    ["forget", "0" * 43 + "/1"],
    ["verify", "x"],
    ["import", "/no/such/file"],
    ["import", "/"],
    ["export", "-o", "/no/such/folder/file"],
    ["export", "-o", "/"],
    ["serve", "--clump", "x"],
    ["serve", "--listen", "bushbaby://127.0.0.1:0"],
    ["serve", "--clump", "x", "--listen", "http://127.0.0.1:0"],
    ["serve", "--clump", "x", "--clump-hex", "00", "--listen", "bushbaby://127.0.0.1:0"],
    ["serve", "--clump-hex", "0", "--listen", "bushbaby://127.0.0.1:0"],
    ["serve", "--clump", "x", "--listen", "bushbaby://127.0.0.1:0", "--limit", "x=1"],
    ["serve", "--clump", "x", "--listen", "bushbaby://127.0.0.1:0", "--interval", "0"],
    ["serve", "--clump", "x", "--listen", "bushbaby://192.0.2.1:1"],
    ["sync", "bushbaby://127.0.0.1:0", "--clump", "x"],
    ["sync", "bushbaby://127.0.0.1:7878"],
    ["block", "peer", "x", "--clump", "x"],
    ["spark", "verify", "--input", "x"],
]


@pytest.mark.parametrize("arguments", WRONG_CALLS, ids=lambda arguments: " ".join(map(str, arguments))[:60])
def test_wrong_calls(culm: Culm, arguments: list[object]) -> None:
    """A wrong call is one line on stderr, nothing on stdout, and exit code 2."""
    result = culm(*arguments)
    assert (result.code, result.out, one_line(result.err)) == (2, "", True), result


def test_a_home_must_be_made_first(culm: Culm) -> None:
    """Without a home every command says how to make one."""
    for arguments in (["logs"], ["append", "1", "--text", "x"], ["verify"], ["identity", "new"]):
        result = culm.at("nobody")(*arguments)
        assert (result.code, one_line(result.err)) == (2, True)
        assert f"make one with: culm --home {culm.at('nobody').home} init" in result.err


def test_a_store_that_is_none(culm: Culm) -> None:
    """A damaged, foreign or empty store file is one line and exit code 1."""
    path = culm.home / "store.db"
    for content in (b"not a database" * 100, b""):
        for leftover in culm.home.glob("store.db*"):
            leftover.unlink()
        path.write_bytes(content)
        result = culm("logs")
        assert (result.code, one_line(result.err)) == (1, True)


def test_identities_that_others_can_read_are_refused(culm: Culm) -> None:
    """A key file with too open a mode is not used."""
    (culm.home / "identities" / "default").chmod(0o644)
    result = culm("append", 1, "--text", "x")
    assert (result.code, one_line(result.err)) == (2, True)
    assert "chmod 600" in result.err


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o707])
def test_a_folder_of_identities_that_others_can_enter_is_refused(culm: Culm, mode: int) -> None:
    """No identity of such a folder signs anything until its mode is 700; what needs no secret still works."""
    folder = culm.home / "identities"
    folder.chmod(mode)
    result = culm("append", 1, "--text", "x")
    assert (result.code, one_line(result.err)) == (2, True)
    assert f"chmod 700 {folder}" in result.err
    assert culm("identity", "list").code == 0
    folder.chmod(0o700)
    assert culm("append", 1, "--text", "x").code == 0


def test_what_is_shared_and_with_whom(culm: Culm) -> None:
    """Lists and unshared logs are kept by clump, shown, and taken back."""
    key = encode_base62(Identity(bytes(32)).public).decode()
    for arguments in (["block", "peer", key], ["allow", "author", key], ["unshare", f"{key}/1"]):
        assert culm(*arguments, "--clump", "x").code == 0
    shown = culm("policy", "--clump", "x", "--json").json
    assert shown == {
        "allow_peers": [],
        "block_peers": [key],
        "allow_authors": [key],
        "block_authors": [],
        "unshared": [f"{key}/1"],
    }
    culm("block", "peer", key, "--remove", "--clump", "x")
    culm("share", f"{key}/1", "--clump", "x")
    shown = culm("policy", "--clump", "x", "--json").json
    assert (shown["block_peers"], shown["unshared"]) == ([], [])
    assert culm("policy", "--clump", "y", "--json").json["allow_authors"] == []


def test_in_which_clumps_a_log_is_shared(culm: Culm) -> None:
    """``share --clump`` narrows an own log to the clumps that it names, ``--everywhere`` undoes that; both say so."""
    log = culm("append", 1, "--text", "x").out.strip().removesuffix("/1")
    assert [None] == [found["clumps"] for found in culm("logs", "--json").json]
    assert "(every)" in culm("logs").out
    shared = [
        (("--clump", "work"), ["work"]),
        (("--clump-hex", "ff"), ["ff (hex)", "work"]),
        (("--clump", ""), ["(no clump)", "ff (hex)", "work"]),
        (("--everywhere",), None),
    ]
    for arguments, clumps in shared:
        assert {"log": log, "clumps": clumps} == culm("share", log, *arguments, "--json").json
        assert [clumps] == [found["clumps"] for found in culm("logs", "--json").json]
    assert f"{log} is shared in every clump" in culm("share", log, "--everywhere").out
    for clump in ("work", "family"):
        culm("unshare", log, "--clump", clump)
    assert "but" in culm("logs").out
    assert f"{log} is shared in every clump" in culm("share", log, "--everywhere").out
    assert "but" not in culm("logs").out, "nor is it kept out of some"
    assert "every clump" in culm("share", log, "--everywhere", "--clump", "work").err
    assert 2 == culm("share", log).code, "it says neither a clump nor --everywhere, and there is none in culm.toml"


def test_an_imported_identity(culm: Culm) -> None:
    """Logs that came before their author's identity are own logs once it is imported: they are in every clump."""
    new = culm.at("new")
    new("init")
    culm("append", 1, "--text", "x")
    culm("export", "-o", culm.home / "logs")
    culm("identity", "export", "default", "-o", culm.home / "me")
    new("import", culm.home / "logs", "--clump", "family")
    assert [["family"]] == [log["clumps"] for log in new("logs", "--json").json]
    assert 0 == new("identity", "import", "me", culm.home / "me").code
    assert [None] == [log["clumps"] for log in new("logs", "--json").json]


def test_sharing_again(culm: Culm) -> None:
    """A log that was unshared in a clump is shared there again as before: that narrows nothing."""
    log = culm("append", 1, "--text", "x").out.strip().removesuffix("/1")
    assert f"{log} is not shared in work\n" == culm("unshare", log, "--clump", "work").out
    assert ["work"] == culm("logs", "--json").json[0]["unshared"]
    assert "(every) but work" in culm("logs").out
    assert culm("share", log, "--clump", "work", "--json").json["clumps"] is None
    assert [] == culm("policy", "--clump", "work", "--json").json["unshared"]


def test_the_clump_of_the_configuration_narrows_nothing(culm: Culm) -> None:
    """A clump in ``culm.toml`` adds to the clumps of a received log, and leaves a log of every clump as it is."""
    own = culm("append", 1, "--text", "x").out.strip().removesuffix("/1")
    received = build_log(1)
    with SQLiteStore(culm.home / "store.db") as store:
        store.receive_in(b"family")
        store.add(received.items())
    (culm.home / "culm.toml").write_text('clump = "work"\n')
    assert culm("share", own, "--json").json["clumps"] is None
    assert ["family", "work"] == culm("share", log_text(received.entries[0].log), "--json").json["clumps"]


def test_the_clump_of_an_import(culm: Culm) -> None:
    """Imported logs are shared in the clump that is named, else without a clump, and the import says so.

    Own logs stay in every clump.
    """
    other = culm.at("other")
    other("init")
    culm("append", 1, "--text", "x")
    culm("export", "-o", culm.home / "logs")
    for arguments, text, clumps in (
        ((), "shared without a clump only: 1 new log of others;", ["(no clump)"]),
        (("--clump", "work"), "shared in clump work only: 1 new log of others;", ["(no clump)", "work"]),
    ):
        result = other("import", culm.home / "logs", *arguments)
        assert 0 == result.code
        assert (text in result.err) == (not arguments), "said where something is new"
        assert [clumps] == [log["clumps"] for log in other("logs", "--json").json]
    culm("import", culm.home / "logs", "--clump", "work")
    assert [None] == [log["clumps"] for log in culm("logs", "--json").json]


def test_a_damaged_payload_is_found(culm: Culm) -> None:
    """``culm verify`` reads every payload again: a byte changed on the disk is named, with exit code 1."""
    place = culm("append", 1, "--text", "precious").out.strip()
    with SQLiteStore(culm.home / "store.db") as store:
        database_of(store).connection.execute("UPDATE payloads SET piece = x'00'")
    result = culm("verify", "--json")
    assert result.code == 1
    assert result.json["problems"][0]["place"] == place


@pytest.mark.parametrize("job", [("verify", "--input"), ("forks",)])
def test_what_spark_could_not_read_is_said_with_its_place(culm: Culm, tmp_path: Path, job: tuple[str, ...]) -> None:
    """A count of rejects alone helps nobody: a line says which folder names the file and the reason."""
    culm("append", 1, "--text", "first light")
    culm("export", "-o", tmp_path / "whole.bundle", "--bundle")
    (tmp_path / "cut.bundle").write_bytes((tmp_path / "whole.bundle").read_bytes()[:-5])
    for name, expected in (("whole.bundle", False), ("cut.bundle", True)):
        output = tmp_path / f"of-{name}"
        result = culm("spark", *job, tmp_path / name, "--output", output)
        assert result.code == int(expected)
        assert (f"is in {output / 'rejects'}\n" in result.err) == expected, result
