"""Adding to ``culm.toml`` without touching what a person has written there.

A clump is a setting of the top level, which TOML wants before all tables, so its line becomes the first one. A peer is
a table of its own and goes to the end. The new text is read as a whole before it replaces the old one: a file that
cannot be added to in this way, such as one with ``peers = [...]``, stays as it is.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from culm.errors import ConfigError
from culm.node.network.urls import PeerUrl
from culm.node.settings.reading import read_settings
from culm.staging import replace_text


def add_to_config(path: Path, clump: bytes | None, peers: Iterable[tuple[str, PeerUrl]]) -> None:
    """Add a clump (None: leave it as it is) and peers, by name and address; makes the file if there is none.

    ``ConfigError`` if the file would not be a configuration any more, or cannot be written; it is then as before. A
    link stays a link, and the file that it leads to is changed.
    """
    path = path.resolve()
    try:
        before = path.read_text()
    except FileNotFoundError:
        before = ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    first = "" if clump is None else f"{_clump_line(clump)}\n"
    after = "".join(f"\n[[peers]]\nname = {json.dumps(name)}\nurl = {json.dumps(str(url))}\n" for name, url in peers)
    text = first + before + ("" if before.endswith("\n") or not before else "\n") + after
    read_settings(path, text)
    try:
        mode = path.stat().st_mode & 0o777 if before else 0o600  # The clump is a secret.
        replace_text(path, text, mode)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def _clump_line(clump: bytes) -> str:
    try:
        text = clump.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isascii() and text.isprintable() and text:
        return f"clump = {json.dumps(text)}"
    return f'clump_hex = "{clump.hex()}"'
