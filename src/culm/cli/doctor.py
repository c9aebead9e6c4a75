"""``culm doctor``: what is wrong with a home, and what to do about it.

Each check yields findings, and no check stops the others: a person who asks for help should see everything at once. The
checks read only. Repairing by itself could destroy what a person can still save, so each finding says what to do
instead.
"""

import argparse
import asyncio
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from culm import native
from culm.bamboo.keyfile import is_sealed, load_identity, public_key, read_private
from culm.bamboo.known import wrong_verdicts
from culm.cli.command import Commands
from culm.cli.output import counted, print_result
from culm.cli.progress import progress_bar
from culm.errors import ConfigError, CulmError, PayloadDamaged
from culm.node.config import PeerSettings
from culm.node.home import Home
from culm.node.names import Names
from culm.node.network.transport import connect
from culm.node.schemes import scheme_of
from culm.node.settings.reading import Settings
from culm.node.sharing.kept import examined
from culm.store.database import Database
from culm.store.opening import open_database
from culm.store.schema import IS_COMPLETE, IS_INVALID, IS_VERIFIED, IS_WAITING, from_sql

_PAGE = 64  # Payloads looked up at once.
_LEAST_FREE = 100 * 1024 * 1024  # Bytes free; below this the next large payload or database checkpoint can fail.
_LITTLE_FREE = 0.05  # Part of the disk; below this a note warns before it is urgent.
_EARLIEST = 1_735_689_600  # Seconds since 1970: the start of 2025. An earlier clock was never set.
_NAMED_FORKS = 5  # Logs that the line names; ``culm logs`` has all.
_SLACK_SECONDS = 120.0  # A file may be newer than the clock by this much: clocks are corrected by seconds all the time.


@dataclass(frozen=True)
class Finding:
    """The result of a check. ``level``: "ok", "note" (worth knowing) or "problem". ``todo``: what to do, or empty."""

    level: str
    check: str
    what: str
    todo: str = ""


_problem = partial(Finding, "problem")
_note = partial(Finding, "note")
_ok = partial(Finding, "ok")


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    doctor = commands.add("doctor", _doctor)
    doctor.add_argument("--peers", action="store_true", help="also try to connect to each configured peer")
    doctor.add_argument(
        "--repair",
        action="store_true",
        help="also read all payloads; delete those that are damaged, so that they are fetched from peers again",
    )


def _doctor(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    findings = list(findings_of(home, arguments.config))
    if arguments.peers:
        with suppress(ConfigError):  # Settings that cannot be read are a finding already.
            findings += asyncio.run(_peers(home.settings(arguments.config)))
    if arguments.repair and home.store_path.exists():
        findings += _repaired(home)
    sick = sum(finding.level == "problem" for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:8} {finding.check}: {finding.what}")
        if finding.todo:
            lines.append(f"{'':8} -> {finding.todo}")
    lines.append(counted(sick, "problem") if sick else "no problems")
    print_result(arguments, {"healthy": not sick, "findings": list(map(asdict, findings))}, *lines)
    return 1 if sick else 0


def findings_of(home: Home, config: str | None, *, quick: bool = False) -> Iterator[Finding]:
    """The findings about a home.

    ``quick`` leaves out what reads the whole database, and what the status page shows by itself, for which it is.
    """
    if not home.store_path.exists():
        yield _problem("home", *home.absence())
        return
    yield from _home(home)
    yield from _store(home, quick=quick)
    yield from _identities(home)
    yield from _unconfirmed(home)
    try:
        settings = home.settings(config)
        text = f"{counted(len(settings['listen']), 'listener')}, {counted(len(settings.peers), 'peer')}"
        yield from list(_misconfigured(home, settings)) or [_ok("configuration", text)]
    except ConfigError as error:
        yield _problem("configuration", str(error), "correct this line; culm config --example shows all settings")
    yield from _choices(home)
    yield from _named_keys(home)
    yield from _known_peers(home)
    yield from _disk(home)
    yield from _clock(home)
    yield _signatures()


def _home(home: Home) -> Iterator[Finding]:
    mode = home.path.stat().st_mode
    if mode & 0o022:
        yield _problem("home", f"other users can write to {home.path}", f"chmod go-w {home.path}")
    else:
        yield _ok("home", str(home.path))


def _signatures() -> Finding:
    if wrong := wrong_verdicts():
        return _problem(
            "signatures",
            f"libsodium follows another rule here than other nodes: {counted(len(wrong), 'known answer')} differ,"
            f" {wrong[0]!r} first",
            "install PyNaCl as it comes from PyPI, which has libsodium inside",
        )
    return _ok("signatures", f"libsodium gives all known answers; {native.description}")


# -- the store -------------------------------------------------------------------------------------------------------


def _store(home: Home, *, quick: bool) -> Iterator[Finding]:
    rescue = "restore a backup into another home, or save what is still readable: culm export, then culm import there"
    try:
        database = open_database(home.store_path, read_only=True)
    except CulmError as error:
        yield _problem("store", str(error), rescue)
        return
    try:
        if not quick:
            damage = [row[0] for row in database.read("PRAGMA quick_check(3)") if row[0] != "ok"]
            if damage:
                yield _problem("store", f"{home.store_path} is damaged: {damage[0]}", rescue)
                return
            yield from _states(database)
            yield from _damaged(database)
        yield from _forks(home, database)
        yield from _payload_files(database)
    except CulmError as error:
        yield _problem("store", str(error), rescue)
    finally:
        database.close()


def _states(database: Database) -> Iterator[Finding]:
    ((entries, waiting, invalid),) = database.read(
        f"SELECT coalesce(sum({IS_VERIFIED}), 0), coalesce(sum({IS_WAITING}), 0), coalesce(sum({IS_INVALID}), 0)"
        " FROM entries"
    )
    yield _ok("store", f"{counted(entries, 'verified entry')}; culm verify checks every signature")
    if waiting:
        yield _note(
            "store",
            f"{counted(waiting, 'entry')} cannot be verified yet: entries that lead to entry 1 are missing",
            "sync with a peer that has the missing entries",
        )
    if invalid:
        yield _note(
            "store",
            f"{counted(invalid, 'entry')} invalid: after a fork, or with a wrong link",
            "culm logs shows where",
        )


def _damaged(database: Database) -> Iterator[Finding]:
    ((count,),) = database.read("SELECT count(*) FROM damaged")
    if count:
        yield _problem(
            "payloads",
            f"{counted(count, 'payload')} damaged on the disk and deleted: another copy is needed",
            "sync with a peer that has them, or import a file that has them",
        )


def _repaired(home: Home) -> Iterator[Finding]:
    """Read all payloads, and have the damaged ones fetched again."""
    count, after, names = 0, 0, _names(home)
    try:
        with home.store() as store, progress_bar("checking payloads") as bar:
            while page := store.payloads_to_check(after, _PAGE):
                for stored in page:
                    after, count = stored.id, count + 1
                    try:
                        sums = store.check_payload(stored)
                    except PayloadDamaged as damage:
                        store.drop_damaged(damage)
                        what = f"the payload of {names.place(damage.place)} was damaged: {damage.reason}; it is deleted"
                        yield _problem("payloads", what, "sync with a peer that has it, or import a file that has it")
                    else:
                        if sums is not None:
                            store.keep_sums(stored, sums)
                    bar.update(count, 0)
    except CulmError as error:
        yield _problem("payloads", str(error), "free the disk, or stop what uses the store, and repeat this")
    else:
        yield _ok("payloads", f"read all bytes of {counted(count, 'payload')}")


def _forks(home: Home, database: Database) -> Iterator[Finding]:
    forked = database.read("SELECT author, log_id FROM logs WHERE forked_at IS NOT NULL")
    own, names = home.own_authors(), _names(home)
    mine = [names.log((author, from_sql(log_id))) for author, log_id in forked if author in own]
    some = [names.log((author, from_sql(log_id))) for author, log_id in forked[:_NAMED_FORKS]]
    more = f" and {len(forked) - len(some)} more" if len(forked) > len(some) else ""
    if mine:
        yield _problem(
            "forks",
            f"your own log {mine[0]} is forked: two copies of your home or identity wrote to it",
            "begin a new log (culm append with another LOG_ID); never use one identity's log on two machines",
        )
    elif forked:
        yield _note(
            "forks",
            f"{counted(len(forked), 'log')} of other authors forked: {', '.join(some)}{more}",
            "culm logs shows where, and culm show AUTHOR/LOG both histories; use what comes before, choose neither,"
            " and ask the author which log to follow instead",
        )


def _names(home: Home) -> Names:
    """The names of keys; none if their file is damaged, which is a finding of its own."""
    with suppress(ConfigError):
        return home.names()
    return Names()


def _payload_files(database: Database) -> Iterator[Finding]:
    held_by_name = "SELECT name, payload_held FROM payload_files JOIN entries ON entries.id = entry"
    known = dict(database.read(held_by_name))
    complete = dict(database.read(f"{held_by_name} WHERE {IS_COMPLETE}"))
    # A running node can forget a payload, and delete its file, between the query and the look at the folder. So files
    # that seem too short are compared with a second query.
    short = [name for name, held in known.items() if database.folder.size(name) < held]
    still = dict(database.read(held_by_name))
    short = [name for name in short if name in still and name in complete]
    if short:
        yield _problem(
            "payload files",
            f"{counted(len(short), 'file')} missing or too short in {database.folder.path}, for example {short[0]}",
            "culm doctor --repair has them fetched again",
        )
    else:
        yield _ok("payload files", counted(len(known), "large payload"))
    left = [name for name in database.folder.names() if name not in known and name not in still]
    if left:
        yield _note(
            "payload files",
            f"{counted(len(left), 'file')} without an entry",
            "the next command that writes to the store deletes such files",
        )


# -- identities and choices ------------------------------------------------------------------------------------------


def _identities(home: Home) -> Iterator[Finding]:
    names = home.identity_names()
    if not names:
        yield _note(
            "identities", "this home has no identity, so it can read but not publish", "make one with culm identity new"
        )
    folder = home.path / "identities"
    if folder.is_dir() and folder.stat().st_mode & 0o077:
        yield _problem("identities", f"other users can read {folder}", f"chmod 700 {folder}")
    for name in names:
        path = home.identity_path(name)
        try:
            text = read_private(path)
            public_key(text)
            if not is_sealed(text):
                load_identity(text)
        except ConfigError as error:
            todo = f"chmod 600 {path}" if _is_open(path) else "restore the identity from a backup"
            yield _problem("identities", str(error), todo)
        else:
            yield _ok("identities", f"{name}{' (with a passphrase)' if is_sealed(text) else ''}")


def _unconfirmed(home: Home) -> Iterator[Finding]:
    with suppress(CulmError):  # A damaged store, or an identity that cannot be read, has a finding of its own.
        with home.store(read_only=True) as store:
            marked = store.unconfirmed_authors()
        names = [name for name in home.identity_names() if home.identity_public(name) in marked]
        if names:
            yield _note(
                "identities",
                f"{', '.join(names)}: restored or imported, so perhaps not up to date; append refuses logs"
                " that no peer has confirmed",
                "sync with a peer that has them; or, if nothing newer exists anywhere, append with --continue-here",
            )


def _is_open(path: Path) -> bool:
    with suppress(OSError):
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    return False


def _choices(home: Home) -> Iterator[Finding]:
    path = home.policy_file.path
    if not path.exists():
        return
    try:
        clumps = [bytes.fromhex(name) for name in json.loads(path.read_text())]
        for clump in clumps:
            home.policy_file.load(clump)
    except (ConfigError, OSError, ValueError, TypeError, RecursionError) as error:
        text = str(error) if str(path) in str(error) else f"{path} is damaged: {error}"
        yield _problem(
            "choices",
            text,
            f"restore {path.name} from a backup, or delete it and repeat your culm follow, allow and block commands",
        )
    else:
        yield _ok("choices", f"{path.name} for {counted(len(clumps), 'clump')}")


def _named_keys(home: Home) -> Iterator[Finding]:
    path = home.names_file.path
    if not path.exists():
        return
    try:
        named = home.names()
    except ConfigError as error:
        todo = f"restore {path.name} from a backup, or delete it and repeat your culm name commands"
        yield _problem("names", str(error), todo)
    else:
        yield _ok("names", f"{path.name} for {counted(len(named.of), 'key')}")


def _known_peers(home: Home) -> Iterator[Finding]:
    path = home.peers_path
    if not path.exists():
        return
    try:
        counts = examined(path)
    except ConfigError as error:
        todo = (
            f"delete {path.name}: only penalties, and what is known of peers, are lost; a node replaces a damaged one"
        )
        yield _problem(path.name, str(error), todo)
    except OSError as error:
        todo = (
            f"delete {path.name}, or let this user read and write it; until then nodes forget their peers at each end"
        )
        yield _problem(path.name, f"cannot read {path}: {error.strerror}", todo)
    else:
        text = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
        yield _ok(path.name, f"what is known of peers ({text})")


# -- configuration ---------------------------------------------------------------------------------------------------


def _misconfigured(home: Home, settings: Settings) -> Iterator[Finding]:
    if settings["identity"] is not None and settings["identity"] not in home.identity_names():
        yield _problem(
            "configuration",
            f"identity {settings['identity']!r} is not in this home",
            "culm identity list shows the names; correct identity in the configuration",
        )
    for name in ("http_token_file", "web_token_file"):
        if settings[name] is None:
            continue
        try:
            read_private(Path(settings[name]))
        except ConfigError as error:
            yield _problem("configuration", f"{name}: {error}", "make this file, with mode 0600, or delete the line")
    urls = [*settings["listen"], *(peer.url for peer in settings.peers)]
    bushbaby = [url for url in urls if scheme_of(url).needs_clump]
    if bushbaby and settings.clump is None:
        yield _problem("configuration", f"{bushbaby[0]} needs a clump", 'set clump = "NAME" in culm.toml')


# -- the machine -----------------------------------------------------------------------------------------------------


def _disk(home: Home) -> Iterator[Finding]:
    usage = shutil.disk_usage(home.path)
    text = f"{usage.free // 2**20} MiB free of {usage.total // 2**20}"
    if usage.free < _LEAST_FREE:
        yield _problem("disk", text, "free some space: culm forget payloads, or move the home to a larger disk")
    elif usage.free < _LITTLE_FREE * usage.total:
        yield _note("disk", text, "the disk is nearly full: free some space before payloads no longer fit")
    else:
        yield _ok("disk", text)
    if not os.access(home.store_path, os.W_OK) or not os.access(home.path, os.W_OK):
        yield _problem("disk", f"this user cannot write to {home.path}", "run culm as the user who owns the home")


def _clock(home: Home) -> Iterator[Finding]:
    now = time.time()
    written = max(path.stat().st_mtime for path in (home.store_path, home.path))
    if now < _EARLIEST:
        yield _problem("clock", "the clock was never set", "set the clock, for example over the network (NTP)")
    elif written > now + _SLACK_SECONDS:
        yield _problem(
            "clock",
            f"the store was last written {written - now:.0f} s in the future, so the clock was set back",
            "set the clock; logging and TLS depend on it",
        )
    else:
        yield _ok("clock", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now)))


async def _peers(settings: Settings) -> list[Finding]:
    async def reached(peer: PeerSettings) -> Finding:
        try:
            _, writer = await connect(peer.url, peer.token_file)
        except CulmError as error:
            return _problem(
                "peers", f"{peer.name}: {error}", "check that the peer is running and that its address is right"
            )
        writer.close()
        return _ok("peers", f"{peer.name} answers")

    found = await asyncio.gather(*map(reached, settings.peers))
    return found or [_note("peers", "no peers are configured", "add a [[peers]] section for each to culm.toml")]
