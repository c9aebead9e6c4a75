"""The home directory as the command line uses it: it asks for passphrases at the terminal."""

import getpass
import os
import sys
from collections.abc import Callable

from culm.bamboo import Identity
from culm.errors import ConfigError
from culm.node.home import DEFAULT_IDENTITY
from culm.node.home import Home as _Home

__all__ = ["DEFAULT_IDENTITY", "Home", "ask_passphrase"]


class Home(_Home):
    """A home directory, which need not exist yet."""

    def identity(self, name: str | None, passphrase: Callable[[str], str] | None = None) -> Identity:
        """Load an identity; see ``culm.node.home``. Without ``passphrase`` it asks at the terminal, if it needs one."""
        return super().identity(name, passphrase or ask_passphrase)


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
