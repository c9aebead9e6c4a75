"""The table of versions in docs/compatibility.md is that of the program, and leaves none out."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
# The rows of the table in their order, and the constants that they show.
ROWS = {
    "store": "culm.store.schema.VERSION",
    "identity file": "culm.bamboo.keyfile._VERSION",
    "`peers.json`": "culm.node.sharing.kept._VERSION",
    "backup": "culm.cli.backup._VERSION",
    "bundle": "culm.store.files.MAGIC",
    "proof of an entry": "culm.bamboo.entryproof.MAGIC",
    "invitation": "culm.wire.invitation.VERSION",
    "announcement on a network": "culm.wire.announcement.VERSION",
    "sealed payload": "culm.sealing.mark.FIRST_LINE",
    "list of a group": "culm.sealing.groups._FIRST_LINE",
    "`culm://` session": "culm.session.messages.VERSION",
    "TLS of a `culm://` session (ALPN)": "culm.node.network.tls.ALPN",
    "negentropy": "culm.negentropy.codec.VERSION",
    "`ws://`, `wss://`, reading": "culm.node.network.webaccess.PROTOCOL",
    "`ws://`, `wss://`, both ways": "culm.node.network.webaccess.EXCHANGE",
    "record index in a folder": "culm.store.recordindex.manifest.VERSION",
    "state of a verification": "culm.spark.verification.state.FORMAT",
    "results of Spark": "culm.spark.runtime.output.FORMAT",
    "native core": "culm.native._INTERFACE",
}
# How constants are called that say the version of something; a line may assign a tuple.
VERSION = re.compile(
    r"^(?:\w+, )?(_?(?:VERSION|FORMAT|MAGIC|INTERFACE|FIRST_LINE|ALPN|PROTOCOL|EXCHANGE))(?:: .*)? = ", re.MULTILINE
)
NO_VERSIONS = {"culm.spark.runtime.session._VERSION", "culm.node.settings.schema._PROTOCOL"}


def shown(constant: str) -> str:
    """The value of a constant as the page writes it."""
    module, _, name = constant.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, bytes):
        return value.decode().encode("unicode_escape").decode()
    # The first byte of a message, as all bytes on the pages of protocols.
    return f"{value:x}" if module == "culm.negentropy.codec" else str(value)


def test_the_versions_are_those_of_the_program() -> None:
    """Each row of the table has the version that the program has."""
    cells = re.findall(r"^\| (?!what)([^|]+) \| `([^`]+)` \|", PAGE, re.MULTILINE)
    table = {re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", what): version for what, version in cells}
    assert table == {what: shown(constant) for what, constant in ROWS.items()}


def test_no_version_is_left_out() -> None:
    """Each constant of the program that is called like a version has a row, or is none."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        module = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        found |= {f"{module}.{name}" for name in VERSION.findall(file.read_text())}
    assert sorted(found - NO_VERSIONS) == sorted(ROWS.values())
