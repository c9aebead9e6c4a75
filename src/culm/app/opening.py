"""Where a program's node keeps its data: in a home folder, as the command line does, or in a single store file.

A home has identities, a policy and a configuration, and can be shared with the command ``culm``. A store file has only
logs, so the program brings an identity, and what it follows is forgotten with the node.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from culm.bamboo import Identity
from culm.errors import ConfigError
from culm.node.home import DEFAULT_IDENTITY, Home
from culm.node.interests.policy import Policy, PolicyFile
from culm.node.sharing.kept import KeptPeers


@dataclass(frozen=True)
class Quarters:
    """What a node is opened with. ``policies`` is the file that keeps its policy; None: the policy ends with the node.

    ``own`` are the authors whose logs this node writes. ``clump`` is None if none was named. ``kept`` gives what is
    known of peers, for one user of it.
    """

    identity: Identity
    store: Path
    own: frozenset[bytes]
    clump: bytes | None
    policies: PolicyFile | None
    kept: Callable[[], KeptPeers] = KeptPeers

    def adapt(self, policy: Policy) -> Policy:
        """A policy with the node's own authors, which the file does not keep."""
        return replace(policy, own=self.own)


def in_store(path: Path | str, identity: Identity | str | None, clump: str | bytes | None) -> Quarters:
    """A single store file, made at the first use; ``ConfigError`` without an ``Identity``."""
    if not isinstance(identity, Identity):
        raise ConfigError(
            "a store file holds no identities: give an identity that you keep, or identity=Identity.create()"
        )
    return Quarters(identity, Path(path).expanduser(), frozenset({identity.public}), _bytes(clump), None)


def in_home(
    path: Path | str | None,
    identity: Identity | str | None,
    clump: str | bytes | None,
    passphrase: str | None,
    *,
    create: bool,
) -> Quarters:
    """A home folder; ``create`` makes it, and its identity, if it does not exist. ``ConfigError`` otherwise."""
    home = Home.find(path)
    if create and not home.store_path.exists():
        home.create()
    home.check()
    if not isinstance(identity, Identity):
        if create and not home.identity_names():
            home.add_identity(identity or DEFAULT_IDENTITY, Identity.create(), passphrase)
        identity = home.identity(identity, None if passphrase is None else lambda _: passphrase)
    if clump is None:
        clump = home.settings(None).clump
    own = home.own_authors() | {identity.public}
    return Quarters(identity, home.store_path, own, _bytes(clump), home.policy_file, home.kept_peers)


def _bytes(clump: str | bytes | None) -> bytes | None:
    return clump.encode() if isinstance(clump, str) else clump
