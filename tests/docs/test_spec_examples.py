"""The examples on the pages of the specifications are the ones that the tests run: row by row, byte by byte.

The vectors in ``tests/vectors`` are run against the code. Here the pages are compared with them, so that what a reader
of a page copies is what the code does.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from culm import Place
from culm.bamboo import Entry, Identity, lipmaa, yamf_hash
from culm.sealing import Keyring, opened
from culm.sealing.groups import parse_list

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / "docs" / "specs" / f"{name}.md").read_text()


def vectors(name: str) -> Any:
    """What the tests of a protocol run."""
    return json.loads((ROOT / "tests" / "vectors" / name / "examples.json").read_text())


def rows(name: str) -> list[list[str]]:
    """The rows of all tables on a page, as cells without spaces and backticks around them."""
    lines = [line for line in page(name).splitlines() if line.startswith("| ")]
    return [[cell.strip().strip("`") for cell in line.strip("| ").split(" | ")] for line in lines]


def part(text: str, heading: str) -> str:
    """What stands under a heading of the second level."""
    return text.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]


def code(text: str) -> list[str]:
    """The blocks of code in a text."""
    return re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


# -- the Bamboo log ---------------------------------------------------------------------------------------------------


def test_the_example_entry() -> None:
    """The entry on the page is the one its author would sign, and its hash is the one printed below it."""
    encoded, hashed = (bytes.fromhex(block) for block in code(part(page("bamboo"), "Entries")))
    author = Identity(bytes(range(32)))
    entry = Entry.decode(encoded)
    payload = b"bamboo bamboo bamboo"

    assert (author.public, 0, 1, None) == (entry.author, entry.log_id, entry.seq, entry.backlink)
    assert (len(payload), yamf_hash(payload)) == (entry.size, entry.payload_hash)
    assert author.sign(entry.encoded[:-64]) == entry.signature
    assert hashed == entry.hash


def test_the_table_of_links() -> None:
    """Each row of the table gives the targets of its numbers."""
    table = dict(re.findall(r"^\| (\d+) to \d+ \| ([\d ]+) \|$", part(page("bamboo"), "Lipmaa links"), re.MULTILINE))
    shown = {int(first) + at: int(text) for first, row in table.items() for at, text in enumerate(row.split())}
    assert {seq: lipmaa(seq) for seq in range(1, 41)} == shown


# -- proofs of entries ------------------------------------------------------------------------------------------------


def test_the_example_of_a_proof() -> None:
    """Each part of the proof on the page has the bytes of the vector, in the same order, under the same name."""
    (block,) = code(part(page("proof"), "Examples"))
    found = re.findall(r"^(\S.*)\n((?: +[0-9a-f]+\n)+)", block, re.MULTILINE)
    expected = [(each["part"], each["hex"]) for each in vectors("proof")["parts"]]
    assert expected == [(name, "".join(lines.split())) for name, lines in found]


# -- neighbours -------------------------------------------------------------------------------------------------------


def test_the_example_of_an_announcement() -> None:
    """The parts of the announcement on the page are those of the vector, and so are its clump, time and hour."""
    text = part(page("neighbours"), "Example")
    (parts,) = code(text)
    lines = parts.splitlines()
    vector = vectors("neighbours")
    assert [(each["part"], each["hex"]) for each in vector["parts"]] == [
        (name, data.strip()) for name, data in zip(lines[::2], lines[1::2], strict=True)
    ]
    assert vector["clump"] == 16 * "c0"
    assert f"{vector['seconds']:,}" in text
    assert f"{vector['hour']}." in text


# -- invitations ------------------------------------------------------------------------------------------------------


def test_the_example_of_an_invitation() -> None:
    """The parts of the invitation on the page, and its text, are those of the vector."""
    parts, url = code(part(page("invitation"), "Example"))
    found = re.findall(r"^(\S.*)\n((?: +[0-9a-f]+\n)+)", parts, re.MULTILINE)
    expected = [(each["part"], each["hex"]) for each in vectors("invitation")["parts"]]
    assert expected == [(name, "".join(lines.split())) for name, lines in found]
    assert vectors("invitation")["url"] == url.strip()


# -- intervals --------------------------------------------------------------------------------------------------------


def test_every_interval_is_shown() -> None:
    """Each example of an interval stands in the table, with what answers it."""
    shown = {row[0]: row for row in rows("intervals") if len(row) == 7 and row[0].isdigit()}
    for example in vectors("intervals")["intervals"]:
        _, held, request, start, direction, items, state = shown.pop(str(example["number"]))
        asked = example["request"] + (" immediate" if example["immediate"] else "")
        expected = (example["held"], asked.replace(" ", ""), f"({', '.join(example['items'])})")
        assert expected == (held, request.replace("` ", "").replace(" ", ""), items)
        assert str(example["start"] or "-") == start
        assert (example["direction"] or "-") == direction
        assert example["state"] == state
    assert not shown


def test_every_interval_message_is_shown() -> None:
    """Each example of a message stands on the page as the bytes that the tests read and write."""
    shown = {row[1].replace(" ", "") for row in rows("intervals") if len(row) == 3}
    assert set() == {example["bytes"].replace(" ", "") for example in vectors("intervals")["messages"]} - shown


def test_every_item_is_shown() -> None:
    """Each example of items stands on the page with its sum."""
    shown = {(row[1], row[2]) for row in rows("intervals") if len(row) == 3}
    expected = {(example["items"], str(example["total"])) for example in vectors("intervals")["item_bytes"]}
    assert set() == {pair for pair in expected if not pair[0].endswith("as above")} - shown


# -- proposals --------------------------------------------------------------------------------------------------------


def test_every_proposal_message_is_shown() -> None:
    """Each example names the bytes that the tests run: in its row, or in the list of keys and entries."""
    text = page("proposals")
    named = vectors("proposals")["names"]
    for name, value in named.items():
        assert value in text, name
    for number, messages in vectors("proposals")["messages"].items():
        (row,) = re.findall(rf"^\| {number} \|.*$", text, re.MULTILINE)
        bytes_of_row = re.sub(r"[ `]", "", row)
        for message in messages:
            if len(message) <= 400:  # longer ones are written with the names of their parts
                assert message in bytes_of_row, number


def test_the_session_is_shown() -> None:
    """The whole session on the page is the one that the tests replay."""
    (block,) = code(page("proposals").split("\n### A whole session\n")[1].split("\n### ")[0])
    lines = [line.split()[:2] for line in block.splitlines() if line[0] in "AB"]
    assert vectors("proposals")["session"] == lines


# -- ranges -----------------------------------------------------------------------------------------------------------


def test_every_range_is_shown() -> None:
    """Each example of a range or an operation stands on the page, with its result."""
    text = " ".join(part(page("ranges"), "Worked examples").split())
    for example in vectors("ranges")["examples"]:
        _is_shown(example, text)


def _is_shown(example: dict[str, Any], text: str) -> None:
    if example["kind"] == "text":
        assert example["text"] in text
        return
    (row,) = ([cell.replace("`", "") for cell in row] for row in rows("ranges") if row[0] == str(example["n"]))
    if example["kind"] == "one":
        assert [example["hex"], example["meaning"].replace("`", "")] == row[1:3]
    elif example["kind"] == "merge":
        merged = example["merge"] if example["merge"] != example["hull"] else "same"
        exact = "yes" if example["exact"] else "no"
        why = example["why"].replace("`", "")
        assert [example["a"], example["b"], example["hull"], merged, exact, why] == row[1:7]
    else:
        result = example["res"] if isinstance(example["res"], str) else ", ".join(example["res"])
        assert [example["op"].replace("`", ""), result] == row[1:3]


def test_every_malformed_range_is_shown() -> None:
    """Each malformed input stands on the page beside the error it gives."""
    text = part(page("ranges"), "Worked examples").split("Malformed byte strings")[1]
    lines = [" ".join(line.split()) for line in text.split("\n- ")[1:]]
    by_error = {line.split(":")[0]: line for line in lines}
    for data, error, why in vectors("ranges")["malformed"]:
        assert why in by_error[error]
        assert not data or f"`{data}`" in by_error[error]


# -- sealed payloads --------------------------------------------------------------------------------------------------


def test_the_example_of_a_sealed_payload() -> None:
    """The payload on the page opens for its identity, to its content (docs/specs/sealed.md, "Examples")."""
    (block,) = code(part(page("sealed"), "Examples"))

    content = b"".join(opened([base64.b64decode(block)], Keyring.of([Identity(bytes(range(32)))])))
    assert b"hello, reader\n" == content


def test_the_example_of_a_group() -> None:
    """The list on the page is one, of the readers that stand there."""
    block = code(part(page("sealed"), "A group list"))[0]

    assert tuple(block.splitlines()[1:]) == parse_list(block.encode(), Place(bytes(32), 0, 1))
