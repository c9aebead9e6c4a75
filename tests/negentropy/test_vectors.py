"""The C++ reference's transcripts, and its verdicts on malformed messages.

Specification: docs/specs/negentropy.md, "Message format", "Refused messages", "Accepted messages", "Reconciliation".
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from culm.errors import RemoteProtocolError
from culm.negentropy import ArrayStorage, Negentropy
from culm.negentropy.storage import make_fingerprint
from tests.negentropy.sessions import Item, reconcile

FOLDER = Path(__file__).parents[1] / "vectors" / "negentropy"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "invalid_inputs")
INVALID = json.loads((FOLDER / "invalid_inputs.json").read_text())
# Where a closing fingerprint begins elsewhere: the fix needs other bytes.
FIXED = {"frame_4096_all_ts_zero", "frame_4096_client_only", "frame_4096_server_only", "frame_missed_difference_bug"}
# What a reference takes and we refuse, by the rules of the specification page.
REFUSED_HERE = {
    "mode_varint_0x8001_nonminimal_fp",
    "mode_huge_wraps_to_2",
    "mode_2_33",
    "nonminimal_timestamp_varint",
    "timestamp_varint_11_bytes",
    "timestamp_varint_all_ones_10",
    "timestamp_overflow_saturates",
    "infinity_twice",
    "infinity_then_finite",
    "bound_goes_backwards_id",
}


def items(rows: list[list[Any]]) -> list[Item]:
    """Items of a vector."""
    return [(int(timestamp), bytes.fromhex(identity)) for timestamp, identity in rows]


def load(name: str) -> tuple[dict[str, Any], list[Item], list[Item], tuple[int, int]]:
    """A transcript, its two sets, its two frame limits."""
    vector = json.loads((FOLDER / f"{name}.json").read_text())
    client, server = vector["client"], vector["server"]
    return vector, items(client["items"]), items(server["items"]), (client["frame_limit"], server["frame_limit"])


@pytest.mark.parametrize("name", NAMES)
def test_the_references_bytes(name: str) -> None:
    """With ``reference_bytes`` every transcript is reproduced byte for byte, from both sides."""
    vector, client, server, limits = load(name)
    found, messages = reconcile(client, server, limits, reference_bytes=True)
    assert [message.hex() for message in messages] == [line["hex"] for line in vector["transcript"]]
    assert set(found.have) == {client[index][1] for index in vector["have_idx"]}
    assert set(found.need) == {server[index][1] for index in vector["need_idx"]}


@pytest.mark.parametrize("name", NAMES)
def test_every_difference_is_found_once(name: str) -> None:
    """By default the result is the true difference, each id once; the bytes differ only where the fix needs it."""
    vector, client, server, limits = load(name)
    found, messages = reconcile(client, server, limits)
    ours, theirs = {identity for _, identity in client}, {identity for _, identity in server}
    if name == "same_id_both_ts_in_one_set":  # the other side lacks one of two records of one id
        theirs = set()
    assert set(found.have) == ours - theirs
    assert set(found.need) == theirs - ours
    assert len(found.have) == len(set(found.have))
    assert len(found.need) == len(set(found.need))
    same = [message.hex() for message in messages] == [line["hex"] for line in vector["transcript"]]
    assert same is (name not in FIXED)


@pytest.mark.parametrize("case", INVALID["cases"], ids=lambda case: f"{case['name']}-{case['role']}")
def test_malformed_messages(case: dict[str, str]) -> None:
    """What every reference refuses we refuse; what we refuse beyond that is named; all else is answered alike."""
    members = items(INVALID["sets"][case["items"]])
    limit = int(case["frame_limit"])
    expected = case["cpp"]
    try:
        session = Negentropy(ArrayStorage.of(members), limit)
    except ValueError:
        # Infinite timestamps, records that are there twice, frame limits too small.
        assert 0 < limit < 4096 or case["items"] in ("DUP", "MAXTS", "MAXTS40")
        return
    if case["role"] == "initiator":
        session.initiate()
    try:
        answer = session.reconcile(bytes.fromhex(case["msg"]))
    except RemoteProtocolError:
        assert expected.startswith("error") or case["name"] in REFUSED_HERE
        return
    assert not expected.startswith("error")
    assert case["name"] not in REFUSED_HERE
    if answer is None:
        words = expected.split()
        assert words[0] == "done"
        assert [f"have,{identity.hex()}" for identity in session.have] == [
            word for word in words if word.startswith("have")
        ]
        assert {f"need,{identity.hex()}" for identity in session.need} == {
            word for word in words if word.startswith("need")
        }
    elif case["name"] != "infinity_with_id_prefix":  # the reference repeats the prefix, which means nothing
        assert expected == f"reply {answer.hex()}"


@pytest.mark.parametrize(
    ("count", "number"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8100"),
        (1023, "877f"),
        (1024, "8800"),
        (1025, "8801"),
        (2**21, "81808000"),
    ],
)
def test_fingerprints_of_many(count: int, number: str) -> None:
    """The number of ids stands in the fingerprint with seven bits a byte, on both sides of where it is looked up."""
    total = 2**255 + count
    expected = hashlib.sha256(total.to_bytes(32, "little") + bytes.fromhex(number)).digest()[:16]
    assert make_fingerprint(total, count) == expected


@pytest.mark.parametrize("message", ["71", "5f", "70", "00", "ff", "", "7100000200", "71000000020000"])
def test_what_is_no_message(message: str) -> None:
    """A first byte that is no version, from 60 to 6f, is refused by both sides, whatever stands behind it."""
    initiator = Negentropy(ArrayStorage.of([(1, b"\x01" * 32)]))
    initiator.initiate()
    for side in (Negentropy(ArrayStorage.of([(1, b"\x01" * 32)])), initiator):
        with pytest.raises(RemoteProtocolError, match="not a negentropy message"):
            side.reconcile(bytes.fromhex(message))


@pytest.mark.parametrize("version", ["60", "62", "6f"])
def test_another_version(version: str) -> None:
    """The responder answers with the one version that it knows, 61; the initiator can only give up."""
    storage = ArrayStorage.of([(1, b"\x01" * 32)])
    assert Negentropy(storage).reconcile(bytes.fromhex(version + "deadbeef")) == b"\x61"
    initiator = Negentropy(storage)
    initiator.initiate()
    with pytest.raises(RemoteProtocolError, match=f"another version of negentropy .byte 0x{version}"):
        initiator.reconcile(bytes.fromhex(version))
