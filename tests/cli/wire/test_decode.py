"""Looking into messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from culm.negentropy import ArrayStorage, Negentropy

if TYPE_CHECKING:
    from tests.cli.culm import Culm

VECTORS = Path(__file__).parents[2] / "vectors" / "negentropy"


def test_a_message_is_listed(culm: Culm, tmp_path: Path) -> None:
    """Bounds, modes and payloads of a message stand in its listing, from hex and from a file."""
    first = json.loads((VECTORS / "mixed_200.json").read_text())["transcript"][0]["hex"]
    parts = culm("wire", "decode", "negentropy", first, "--json").json["parts"]
    assert [part["mode"] for part in parts] == ["fingerprint"] * 16
    assert parts[-1]["up to"] == "infinity"
    (tmp_path / "message").write_bytes(bytes.fromhex(first))
    assert culm("wire", "decode", "negentropy", tmp_path / "message", "--json").json["parts"] == parts
    assert parts[3]["payload"] in culm("wire", "decode", "negentropy", first).out


def test_a_list_of_ids(culm: Culm) -> None:
    """The ids of a list are counted, and given in full as JSON."""
    message = Negentropy(ArrayStorage.of((number, bytes([number]) * 32) for number in range(5))).initiate().hex()
    assert "5 ids" in culm("wire", "decode", "negentropy", message).out
    (part,) = culm("wire", "decode", "negentropy", message, "--json").json["parts"]
    assert part["payload"] == [f"{number:02x}" * 32 for number in range(5)]


def test_a_malformed_message_shows_where_and_why(culm: Culm) -> None:
    """What can be read is listed; then the offset and the rule it breaks, and exit code 1."""
    message = "61" + "0500" + "00" + "0000" + "03"
    result = culm("wire", "decode", "negentropy", message)
    assert result.code == 1
    assert "skip" in result.out
    assert result.err == "culm: malformed at byte 4: unknown mode 3\n"
    assert culm("wire", "decode", "negentropy", message, "--json").json["error"] == {
        "offset": 4,
        "reason": "unknown mode 3",
    }
    assert culm("wire", "decode", "negentropy", "").code == 1
    assert culm("wire", "decode", "negentropy", "no-such-file").code == 2
    assert culm("wire", "decode", "nothing", "61").code == 2
    assert "not 0x61" in culm("wire", "decode", "negentropy", "62").out
