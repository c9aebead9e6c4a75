"""The home directory: where a person's identities and store live.

::

    HOME/store.db          the store
    HOME/identities/NAME   one file for each identity, mode 0600
    HOME/policy.json       what is allowed, blocked, shared and followed, for each clump
    HOME/names.json        names given to keys
    HOME/peers.json        how peers behaved, for the next start
    HOME/culm.toml         the configuration, if there is one

HOME is the directory named on the command line, otherwise ``$CULM_HOME``, otherwise ``~/.culm``.

A home with identities and no store has lost its store. An empty one in its place would sign entry 1 of each log again,
which forks the log. So the store is made anew only on request, and its identities are then marked
(``culm.store.confirming``), as an identity is that comes from elsewhere.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from culm.bamboo import Identity
from culm.bamboo.keyfile import dump_identity, is_sealed, load_identity, public_key, read_private, write_private
from culm.errors import ConfigError
from culm.node.interests.policy import PolicyFile
from culm.node.names import Names, NamesFile
from culm.staging import staged_folder, sync
from culm.store import SQLiteStore

if TYPE_CHECKING:
    from culm.node.settings.reading import Settings
    from culm.node.sharing.kept import KeptPeers

DEFAULT_IDENTITY = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Home:
    """A home directory, which need not exist yet."""

    path: Path

    @classmethod
    def find(cls, given: Path | str | None) -> Self:
        """The home ``given``, or the one that the environment names, or the default one."""
        chosen = given or os.environ.get("CULM_HOME") or "~/.culm"
        return cls(Path(chosen).expanduser())

    @property
    def store_path(self) -> Path:
        """The store's database file."""
        return self.path / "store.db"

    @property
    def policy_file(self) -> PolicyFile:
        """The file with the operator's choices for each clump."""
        return PolicyFile(self.path / "policy.json")

    @property
    def names_file(self) -> NamesFile:
        """The file with the names that were given to keys."""
        return NamesFile(self.path / "names.json")

    def names(self) -> Names:
        """The names that were given to keys; ``ConfigError`` if their file is damaged."""
        return self.names_file.load()

    @property
    def config_path(self) -> Path:
        """The configuration file, which need not exist."""
        return self.path / "culm.toml"

    @property
    def peers_path(self) -> Path:
        """The file with what is known of peers."""
        return self.path / "peers.json"

    def kept_peers(self) -> "KeptPeers":
        """What is known of peers, for one process."""
        from culm.node.sharing.kept import KeptPeers  # noqa: PLC0415 - brings asyncio, which only nodes need

        return KeptPeers(self.peers_path)

    def settings(self, given: str | None) -> "Settings":
        """The configuration from the file ``given``, otherwise from the home's ``culm.toml`` if there is one.

        ``ConfigError`` if the file is wrong, or if a file that was given is not there.
        """
        from culm.node.settings.reading import load  # noqa: PLC0415 - brings all protocols, for their limits

        path = self.config_path if given is None else Path(given).expanduser()
        return load(path, must_exist=given is not None)

    def absence(self) -> tuple[str, str]:
        """What is wrong with a home that has no store, and what to do about it."""
        if self.identity_names():
            todo = (
                "restore a backup into another home, with culm restore; or make an empty store for these identities,"
                " with culm init --keep-identities, and sync with a peer that has your logs"
            )
            return f"{self.path} has identities but no store: the store was moved or lost", todo
        named = "" if self.path == Home.find(None).path else f"--home {shlex.quote(str(self.path))} "
        return f"{self.path} is not a Culm home yet", f"make one with: culm {named}init"

    def check(self) -> None:
        """``ConfigError`` if there is no store."""
        if not self.store_path.exists():
            raise ConfigError("; ".join(self.absence()))

    def create(self, *, keep_identities: bool = False) -> bool:
        """Make the directory and its store, as far as they are not there; whether there was no store before.

        ``ConfigError`` if there are identities and no store, unless ``keep_identities`` allows it: they are marked.
        """
        fresh = not self.store_path.exists()
        names = self.identity_names() if fresh else []
        if names and not keep_identities:
            self.check()
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self.path / "identities").mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(f"cannot create the home directory {self.path}: {error.strerror}") from None
        if names:
            # Made beside its place and renamed, so that no moment leaves an empty store without the marks.
            with staged_folder(self.store_path) as folder:
                self._make_marked(folder / "store.db", {self.identity_public(name) for name in names})
        else:
            SQLiteStore(self.store_path).close()
        if fresh:  # Sync both directories, or else a power cut could take the new home away with all that is in it.
            sync(self.path)
            sync(self.path.absolute().parent)
        return fresh

    def _make_marked(self, path: Path, authors: Iterable[bytes]) -> None:
        with SQLiteStore(path) as store:
            for author in authors:
                store.unconfirm(author)
        sync(path)
        path.rename(self.store_path)

    def store(self, *, read_only: bool = False) -> SQLiteStore:
        """Open the store; ``ConfigError`` if there is no home yet."""
        self.check()
        return SQLiteStore(self.store_path, read_only=read_only)

    # -- identities --------------------------------------------------------------------------------------------

    def identity_path(self, name: str) -> Path:
        """The file of an identity, which need not exist; ``ConfigError`` if no identity can have this name."""
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} cannot be the name of an identity; use up to 64 letters, digits, '-', '_' and '.',"
                " beginning with a letter or a digit"
            )
        return self.path / "identities" / name

    def identity_names(self) -> list[str]:
        """The names of all identities, sorted."""
        folder = self.path / "identities"
        if not folder.is_dir():
            return []
        return sorted(file.name for file in folder.iterdir() if _NAME.fullmatch(file.name))

    def add_identity(
        self, name: str, identity: Identity, passphrase: str | None, *, from_elsewhere: bool = False
    ) -> bool:
        """Write an identity's file, unencrypted if ``passphrase`` is None; ``ConfigError`` if the name is taken.

        An identity ``from_elsewhere`` is marked, unless this home has it under another name; whether it was.
        """
        path = self.identity_path(name)
        self.check()
        is_marked = from_elsewhere and identity.public not in self.own_authors()
        if is_marked:  # Before the file is there, so that no moment leaves the identity without the mark.
            with self.store() as store:
                store.unconfirm(identity.public)
                store.share_all_of(identity.public)
        write_private(path, dump_identity(identity, passphrase))
        return is_marked

    def identity_name(self, given: str | None) -> str:
        """The name of the identity to use: the one given, otherwise ``default``, otherwise the only one."""
        if given is not None:
            return given
        names = self.identity_names()
        return DEFAULT_IDENTITY if DEFAULT_IDENTITY in names or len(names) != 1 else names[0]

    def identity_public(self, name: str) -> bytes:
        """An identity's public key (32 bytes). It stands in the file in clear, so that no passphrase is needed."""
        return public_key(self._identity_text(name))

    def own_authors(self) -> frozenset[bytes]:
        """The public keys of all identities. A file that cannot be read is left out."""
        found = set()
        for name in self.identity_names():
            with suppress(ConfigError):
                found.add(self.identity_public(name))
        return frozenset(found)

    def identity_is_sealed(self, name: str) -> bool:
        """Whether an identity's secret is encrypted with a passphrase."""
        return is_sealed(self._identity_text(name))

    def identity(self, name: str | None, passphrase: Callable[[str], str] | None = None) -> Identity:
        """Load the identity named, otherwise ``default``, otherwise the only one; ``ConfigError`` if that fails.

        ``passphrase`` is called with a prompt if the identity is sealed; with None, a sealed identity is an error.
        """
        name = self.identity_name(name)
        text = self._identity_text(name)
        folder = self.identity_path(name).parent
        if folder.stat().st_mode & 0o077:
            raise ConfigError(f"other users can enter {folder}; protect it: chmod 700 {folder}")
        if passphrase is None or not is_sealed(text):
            return load_identity(text)
        return load_identity(text, passphrase(f"Passphrase of identity {name}: "))

    def _identity_text(self, name: str) -> str:
        path = self.identity_path(name)
        if not path.exists():
            raise ConfigError(f"there is no identity {name!r} in {self.path}; make one with: culm identity new {name}")
        return read_private(path)
