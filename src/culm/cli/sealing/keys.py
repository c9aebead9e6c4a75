"""Names after ``--for`` as readers, and the keys that ``culm show --payload`` tries."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from culm.bamboo import Identity
from culm.bamboo.keyfile import read_private
from culm.cli.identity import ask_passphrase
from culm.errors import ConfigError
from culm.node.home import Home
from culm.sealing import Keyring, Sealer, readers_of
from culm.store import ReadableStore
from culm.wire.places import author_text


def sealer(store: ReadableStore, identity: Identity, readers: Sequence[str], *, not_for_me: bool) -> Sealer:
    """Seals for the readers, and for the author, except with ``--not-for-me``."""
    if not readers:
        raise ConfigError("--not-for-me works with --for only")
    own = [] if not_for_me else [author_text(identity.public)]
    return Sealer(readers_of(store, [*own, *readers]))


def keyring(home: Home, files: Sequence[str]) -> Keyring:
    """All identities of a home, and the secret age keys in files. A passphrase is asked for when it is needed."""
    identities = {}
    for name in home.identity_names():
        with suppress(ConfigError):  # a file that is no identity opens nothing, and must not hide those that do
            identities[home.identity_public(name)] = partial(home.identity, name, ask_passphrase)
    age_keys = [
        line.strip()
        for file in files
        for line in read_private(Path(file)).splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return Keyring(identities, Keyring.of(age_keys).age_keys)
