"""``culm init`` and ``culm identity``: making homes, and making, listing and moving identities."""

import argparse
import getpass
import os
import sys
from pathlib import Path

from culm.bamboo import Identity
from culm.bamboo.keyfile import dump_identity, is_sealed, load_identity, write_private
from culm.cli.command import Commands
from culm.cli.output import note, open_input, print_json, print_result, print_table
from culm.errors import ConfigError
from culm.node.home import DEFAULT_IDENTITY, Home
from culm.wire.places import author_text, parse_author

_MAX_INPUT = 10_000  # bytes; an identity file has a few hundred, and a wrong file should not be read as a whole


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    init = commands.add("init", _init)
    init.add_argument("--no-identity", action="store_true", help="make only the store")
    init.add_argument(
        "--keep-identities",
        action="store_true",
        help="make an empty store for identities whose store was lost; append then refuses until a peer has shown the"
        " newest entries",
    )
    init.add_argument("--passphrase", action="store_true", help="encrypt the identity with a passphrase")
    new = commands.add("identity new", _new)
    new.add_argument("name", nargs="?", default=DEFAULT_IDENTITY, help="name of the identity (default: default)")
    new.add_argument("--passphrase", action="store_true", help="encrypt the identity with a passphrase")
    commands.add("identity list", _list)
    show = commands.add("identity show", _show)
    show.add_argument("name", nargs="?", default=DEFAULT_IDENTITY, help="name of the identity (default: default)")
    export = commands.add("identity export", _export)
    export.add_argument("name", help="name of the identity")
    export.add_argument("-o", "--output", metavar="FILE", help="where to write, with mode 0600; - is stdout (default)")
    export.add_argument("--passphrase", action="store_true", help="encrypt the copy with a passphrase")
    take = commands.add("identity import", _import)
    take.add_argument("name", help="name of the identity in this home")
    take.add_argument(
        "file",
        help="an exported identity, or the secret as 64 hex digits or 43 base62 characters; - is stdin",
    )
    take.add_argument("--passphrase", action="store_true", help="encrypt the identity with a passphrase")


def _init(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    fresh = home.create(keep_identities=arguments.keep_identities)
    if not arguments.no_identity:
        ensure_identity(home, sealed=arguments.passphrase)
    names = home.identity_names()
    author = author_text(home.identity_public(names[0])) if names else None
    lines = [f"{'made' if fresh else 'found'} {home.path}", *([f"author {author}"] if author else [])]
    print_result(arguments, {"home": str(home.path), "created": fresh, "author": author}, *lines)
    return 0


def ensure_identity(home: Home, *, sealed: bool) -> None:
    """Make the default identity if the home has none; ``sealed``: under a passphrase."""
    if not home.identity_names():
        passphrase = ask_passphrase("New passphrase: ", confirm=True) if sealed else None
        home.add_identity(DEFAULT_IDENTITY, Identity.create(), passphrase)


def _new(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    passphrase = ask_passphrase("New passphrase: ", confirm=True) if arguments.passphrase else None
    identity = Identity.create()
    home.add_identity(arguments.name, identity, passphrase)
    return _print_identity(arguments, arguments.name, identity.public, sealed=passphrase is not None)


def _print_identity(arguments: argparse.Namespace, name: str, public: bytes, *, sealed: bool) -> int:
    author = author_text(public)
    print_result(arguments, {"name": name, "author": author, "hex": public.hex(), "sealed": sealed}, author)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    found = [(name, home.identity_public(name), home.identity_is_sealed(name)) for name in home.identity_names()]
    if arguments.json:
        print_json([{"name": name, "author": author_text(public), "sealed": sealed} for name, public, sealed in found])
    elif found:
        rows = [(name, author_text(public), "sealed" if sealed else "") for name, public, sealed in found]
        print_table(arguments, ("name", "author", ""), rows)
    else:
        note("no identities; make one with: culm identity new")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    sealed = home.identity_is_sealed(arguments.name)
    return _print_identity(arguments, arguments.name, home.identity_public(arguments.name), sealed=sealed)


def _export(arguments: argparse.Namespace) -> int:
    identity = Home.find(arguments.home).identity(arguments.name, ask_passphrase)
    passphrase = ask_passphrase("Passphrase for the copy: ", confirm=True) if arguments.passphrase else None
    text = dump_identity(identity, passphrase)
    if arguments.output in {None, "-"}:
        sys.stdout.write(text)
    else:
        write_private(Path(arguments.output), text)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    home = Home.find(arguments.home)
    with open_input(arguments.file) as file:
        text = file.read(_MAX_INPUT).decode("ascii", errors="replace").strip()
    identity = _parse_identity(text)
    passphrase = ask_passphrase("New passphrase: ", confirm=True) if arguments.passphrase else None
    if home.add_identity(arguments.name, identity, passphrase, from_elsewhere=True):
        note(
            "append refuses until you have synced with a peer that has this identity's logs, because this home"
            " perhaps lacks their newest entries; if you have brought all of them, append with --continue-here"
        )
    return _print_identity(arguments, arguments.name, identity.public, sealed=passphrase is not None)


def _parse_identity(text: str) -> Identity:
    if text.startswith("{"):
        return load_identity(text, ask_passphrase("Passphrase of the file: ") if is_sealed(text) else None)
    try:
        return Identity(parse_author("".join(text.split())))  # A secret has the same forms as an author.
    except (ConfigError, ValueError):
        raise ConfigError("not an identity: expected an exported file, 64 hex digits or 43 base62 characters") from None


def ask_passphrase(prompt: str, *, confirm: bool = False) -> str:
    """``$CULM_PASSPHRASE``, or a passphrase typed at the terminal; ``ConfigError`` if there is neither.

    ``confirm`` asks twice, for a new passphrase: a typing error would lock the identity for ever.
    """
    given = os.environ.get("CULM_PASSPHRASE")
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise ConfigError("this identity needs a passphrase: set CULM_PASSPHRASE, or run the command in a terminal")
    passphrase = getpass.getpass(prompt)
    if confirm and getpass.getpass("Again: ") != passphrase:
        raise ConfigError("the two passphrases differ; run the command again")
    return passphrase
