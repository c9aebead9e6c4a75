"""What two versions have to agree on. Each check is called in both directions, with an empty folder to work in."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.versions.programs import Version

_CLUMP = ("--clump", "versions")
_ENTRIES = 9  # of the longest log: enough for lipmaalinks; each is a program that starts
_FORGOTTEN = 7  # the entry of that log without a payload
_LARGE = 700_000  # bytes of a payload: more than lies in the database


def make_home(version: Version, folder: Path, name: str) -> Path:
    """A home with a bit of everything: logs of all sizes, one that has ended, a forgotten payload, choices."""
    home = folder / name
    version.run(home, "init")
    for number in range(1, _ENTRIES + 1):
        version.run(home, "append", 1, "--text", f"{name} {number}")
    large = folder / f"{name}.large"
    large.write_bytes(bytes(number % 251 for number in range(_LARGE)))
    version.run(home, "append", 2, large)
    version.run(home, "append", 2, "--text", "")
    version.run(home, "append", 3, "--text", "the end", "--end")
    version.run(home, "forget", f"{author(version, home)}/1/{_FORGOTTEN}")
    version.run(home, "unshare", f"{author(version, home)}/3", *_CLUMP)
    return home


def author(version: Version, home: Path) -> str:
    """The author of the logs that a home was made with."""
    return str(version.json(home, "identity", "show")["author"])


def seen(version: Version, home: Path) -> dict[str, Any]:
    """What a version says of a home."""
    logs = version.json(home, "logs")
    return {
        "logs": logs,
        "verify": version.json(home, "verify"),
        "policy": version.json(home, "policy", *_CLUMP),
        "entries": [version.json(home, "show", f"{log['author']}/{log['log_id']}") for log in logs],
    }


def shared(one: Any, other: Any) -> Any:
    """What ``one`` says, without the fields of objects that ``other`` does not have: a later version may say more."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: shared(value, other[key]) for key, value in one.items() if key in other}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [shared(*pair) for pair in zip(one, other, strict=True)]
    return one


def names(version: Version, home: Path) -> set[tuple[str, int]]:
    """The logs of which a home holds something."""
    return {(log["author"], log["log_id"]) for log in version.json(home, "logs")}


def homes(one: Version, other: Version, folder: Path) -> None:
    """A home that one made looks the same to the other, which goes on in it; the first then finds all in order."""
    home = make_home(one, folder, "home")
    before, same = seen(one, home), seen(other, home)
    assert shared(same, before) == shared(before, same), "the other version says something else of the same home"
    other.run(home, "doctor")
    other.run(home, "append", 1, "--text", "goes on")
    other.run(home, "append", 4, "--text", "a new log")
    after, same = seen(other, home), seen(one, home)
    assert shared(same, after) == shared(after, same), "the first version says something else of what was added"
    assert after["verify"] != before["verify"]
    one.run(home, "doctor")


def backups(one: Version, other: Version, folder: Path) -> None:
    """What one backs up, the other restores, and the same with files of logs."""
    home = make_home(one, folder, "home")
    one.run(home, "backup", folder / "backup")
    other.run(folder / "restored", "restore", folder / "backup")
    assert seen(other, folder / "restored")["entries"] == seen(one, home)["entries"]
    one.run(home, "export", "-o", folder / "logs.bundle")
    other.run(folder / "imported", "init")
    other.run(folder / "imported", "import", folder / "logs.bundle")
    assert names(other, folder / "imported") == names(one, home)


def sessions(scheme: str, listener: Version, caller: Version, folder: Path) -> None:
    """After one sync both sides hold what the other one shares."""
    theirs, ours = make_home(listener, folder, "listener"), make_home(caller, folder, "caller")
    wanted = [f"{author(caller, theirs)}/{log}" for log in (1, 2)]
    given = [f"{author(caller, ours)}/{log}" for log in (1, 2)]
    named = [*wanted, *given] if scheme in ("intervals", "proposals") else []
    with listener.serving(theirs, scheme, *_CLUMP) as address:
        caller.run(ours, "sync", *_CLUMP, address, *named)
    for version, home, logs, peer in ((caller, ours, wanted, theirs), (listener, theirs, given, ours)):
        # Bushbaby sends no entry without its payload; earlier versions send nothing above such an entry either.
        whole = {_ENTRIES - 1, _FORGOTTEN - 1} if scheme == "bushbaby" else {_ENTRIES}
        for log, expected in zip(logs, (whole, {2}), strict=True):
            held = len(version.json(home, "show", log))
            assert held in expected, f"{version.name} holds {held} entries of {log}, not {max(expected)}"
        assert version.json(home, "verify")["invalid"] == 0
        kept_back = author(version, peer), 3
        assert kept_back not in names(version, home), f"{version.name} got a log that was not shared"


def comparing(listener: Version, caller: Version, folder: Path) -> None:
    """A comparison over a connection finds of the caller's logs what one on one machine finds.

    Of logs that the caller does not hold it learns only how much it lacks, not which logs these are.
    """
    theirs, ours = make_home(listener, folder, "listener"), make_home(caller, folder, "caller")
    with listener.serving(theirs, "negentropy", *_CLUMP) as address:
        far = caller.json(ours, "reconcile", ours, address.replace("negentropy://", "tcp://"))
    shutil.copytree(theirs, folder / "copy")
    near = caller.json(ours, "reconcile", ours, folder / "copy")
    found = {log["log"]: (log["peer_lacks_entries"], log["peer_lacks_payloads"]) for log in far["logs"]}
    own = {f"{author(caller, ours)}/{number}" for number in (1, 2, 3)}
    expected = {
        log["log"]: (log["b_lacks_entries"], log["b_lacks_payloads"]) for log in near["logs"] if log["log"] in own
    }
    assert found == expected, f"over a connection {found}, on one machine {expected}"
    assert found.keys() == own


CHECKS: dict[str, Callable[[Version, Version, Path], None]] = {
    "homes": homes,
    "backups": backups,
    **{scheme: partial(sessions, scheme) for scheme in ("culm", "bushbaby", "intervals", "proposals")},
    "negentropy": comparing,
}
