"""Identities and their files."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.pwhash import argon2id

from culm.bamboo import MAX_U64, Entry, Identity, is_authentic, keyfile, lipmaa, yamf_hash
from culm.bamboo import identity as identity_module
from culm.bamboo.keyfile import dump_identity, is_sealed, load_identity, public_key, read_private, write_private
from culm.errors import ConfigError
from tests.bamboo.oracle import vectors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOMEBODY = Identity(bytes(range(32)))
PASSPHRASE = "correct horse"


@pytest.fixture(autouse=True, scope="module")
def _cheap_costs() -> Iterator[None]:
    """Sealing at the lowest costs there are: these tests are not about how long guessing takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argon2id, "OPSLIMIT_MODERATE", argon2id.OPSLIMIT_MIN)
        patch.setattr(argon2id, "MEMLIMIT_MODERATE", argon2id.MEMLIMIT_MIN)
        yield


# -- keys ------------------------------------------------------------------------------------------------------


def test_deployed_identities() -> None:
    """From the secret of a deployed identity comes its public key."""
    cases = vectors("identities")

    assert [case["public"] for case in cases] == [
        Identity(bytes.fromhex(case["secret"])).public.hex() for case in cases
    ]


def test_seed() -> None:
    """The seed is the whole identity."""
    assert bytes(range(32)) == SOMEBODY.seed
    assert SOMEBODY.public == Identity(SOMEBODY.seed).public


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_seeds_of_another_length(length: int) -> None:
    """A seed is 32 bytes."""
    with pytest.raises(ValueError, match=f"not {length}"):
        Identity(bytes(length))


def test_the_secret_is_not_shown() -> None:
    """What is printed of an identity is its public key only."""
    assert f"Identity({SOMEBODY.public.hex()})" == repr(SOMEBODY)


def test_created_keys_differ() -> None:
    """Every new identity is another."""
    assert 20 == len({Identity.create().public for _ in range(20)})


def test_created_keys_avoid_a_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new key never begins with 0x7e, which crashes the deployed peer: another is drawn instead."""
    seeds = [at.to_bytes(32, "big") for at in range(2000)]
    avoided = [seed for seed in seeds if Identity(seed).public[0] == 0x7E]
    drawn = iter([*avoided, SOMEBODY.seed])
    monkeypatch.setattr(identity_module, "randombytes", lambda _: next(drawn))

    assert len(avoided) > 0
    assert SOMEBODY.public == Identity.create().public


def test_create_entry() -> None:
    """A new entry is authentic; a lipmaalink that the format leaves out is dropped, a missing link is refused."""
    link = yamf_hash(b"")
    entry = SOMEBODY.create_entry(log_id=7, seq=2, backlink=link, lipmaalink=link, size=0, payload_hash=link)

    assert is_authentic(entry)
    assert (None, link) == (entry.lipmaalink, entry.backlink)
    with pytest.raises(ValueError, match="needs a lipmaalink"):
        SOMEBODY.create_entry(log_id=7, seq=4, backlink=link, lipmaalink=None, size=0, payload_hash=link)


def fields_of(entry: Entry) -> tuple[object, ...]:
    """All that an entry says."""
    links = entry.lipmaalink, entry.backlink
    return entry.is_end, *entry.place, *links, entry.size, entry.payload_hash, entry.signature, entry.encoded


@pytest.mark.parametrize(
    ("seq", "lipmaa", "is_end"), [(1, None, False), (2, None, True), (4, yamf_hash(b"far back"), False)]
)
def test_a_new_entry_is_what_its_bytes_say(seq: int, lipmaa: bytes | None, *, is_end: bool) -> None:
    """All fields of a new entry are those that a reader finds in its bytes."""
    link = yamf_hash(b"") if seq > 1 else None
    other = lipmaa or link
    entry = SOMEBODY.create_entry(
        log_id=7, seq=seq, backlink=link, lipmaalink=other, size=9, payload_hash=yamf_hash(b"payload"), is_end=is_end
    )

    assert fields_of(Entry.decode(entry.encoded)) == fields_of(entry)


# -- the file's text -------------------------------------------------------------------------------------------


@given(st.integers(0, MAX_U64), st.integers(0, 130), st.lists(st.binary(max_size=300), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_a_run_is_what_single_entries_are(log_id: int, before: int, payloads: list[bytes]) -> None:
    """Entries that are signed together have the bytes, the fields and the hashes of those made one by one."""
    hashes: list[bytes | None] = [None]
    for seq in range(1, before + len(payloads) + 1):
        size = len(payloads[seq - before - 1]) if seq > before else 0
        payload_hash = yamf_hash(payloads[seq - before - 1] if seq > before else b"")
        entry = SOMEBODY.create_entry(
            log_id=log_id,
            seq=seq,
            backlink=hashes[seq - 1],
            lipmaalink=hashes[lipmaa(seq)],
            size=size,
            payload_hash=payload_hash,
            is_end=seq == before + len(payloads),
        )
        hashes.append(entry.hash)
    run = SOMEBODY.create_run(log_id, before + 1, payloads, hashes.__getitem__, ends=True)

    assert hashes[before + 1 :] == [entry.hash for entry in run]
    for made in run:
        read = Entry.decode(made.encoded)
        assert read.hash == made.hash
        assert is_authentic(made)
        assert fields_of(made) == fields_of(read)


def test_open_round_trip() -> None:
    """Without a passphrase the text holds the identity, and says that it needs none."""
    text = dump_identity(SOMEBODY)

    assert SOMEBODY.seed == load_identity(text).seed == load_identity(text, "needless").seed
    assert SOMEBODY.public == public_key(text)
    assert not is_sealed(text)


def test_sealed_round_trip() -> None:
    """Under a passphrase the secret comes back with it; it is nowhere in the text; the public key needs none."""
    text = dump_identity(SOMEBODY, PASSPHRASE)

    assert SOMEBODY.seed == load_identity(text, PASSPHRASE).seed
    assert SOMEBODY.public == public_key(text)
    assert is_sealed(text)
    assert SOMEBODY.seed.hex() not in text


def test_sealing_is_salted() -> None:
    """Sealing twice under one passphrase gives two texts."""
    assert dump_identity(SOMEBODY, PASSPHRASE) != dump_identity(SOMEBODY, PASSPHRASE)


def test_wrong_passphrase() -> None:
    """Without the passphrase, or with another, there is one clear error."""
    text = dump_identity(SOMEBODY, PASSPHRASE)
    with pytest.raises(ConfigError, match="give its passphrase"):
        load_identity(text)
    for wrong in ("", "Correct horse", PASSPHRASE + " "):
        with pytest.raises(ConfigError, match="passphrase is wrong"):
            load_identity(text, wrong)


def changed(**fields: object) -> str:
    """An open file with some fields otherwise."""
    return json.dumps({**json.loads(dump_identity(SOMEBODY)), **fields})


def sealed_with(**fields: object) -> str:
    """A sealed file with some fields of its seal otherwise."""
    document = json.loads(dump_identity(SOMEBODY, PASSPHRASE))
    return json.dumps({**document, "sealed": {**document["sealed"], **fields}})


DAMAGED = {
    "empty": ("", "not a Culm identity file"),
    "no JSON": ("hello", "not a Culm identity file"),
    "cut": (dump_identity(SOMEBODY)[:-10], "not a Culm identity file"),
    "another object": ("{}", "not a Culm identity file"),
    "a list": ("[1, 2]", "not a Culm identity file"),
    "deep": ("[" * 100_000, "not a Culm identity file"),
    "no secret": (json.dumps({"culm-identity": 1, "public": "00"}), "not a Culm identity file"),
    "no hex": (changed(secret="zz"), "not a Culm identity file"),
    "a number": (changed(secret=17), "not a Culm identity file"),
    "later version": (changed(**{"culm-identity": 2}), "version 2; this program reads version 1"),
    "short secret": (changed(secret="00" * 31), "32 bytes, not 31"),
    "another secret": (changed(secret="00" * 32), "does not belong to its public key"),
    "another public key": (changed(public="00" * 32), "does not belong to its public key"),
    "short public key": (changed(public="00"), "does not belong to its public key"),
}


@pytest.mark.parametrize(("text", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files(text: str, reason: str) -> None:
    """A text that is no identity is refused with the reason."""
    with pytest.raises(ConfigError, match=reason):
        load_identity(text)


FORGED = {
    "too many operations": {"opslimit": argon2id.OPSLIMIT_SENSITIVE + 1},
    "far too many operations": {"opslimit": 2**70},
    "too much memory": {"memlimit": argon2id.MEMLIMIT_SENSITIVE + 1},
    "no operations": {"opslimit": 0},
    "negative memory": {"memlimit": -1},
    "no memory": {"memlimit": 0},
    "infinite memory": {"memlimit": float("inf")},
    "no number of operations": {"opslimit": float("nan")},
    "no number at all": {"opslimit": "many"},
    "a list": {"memlimit": [1]},
    "another function": {"kdf": "scrypt"},
    "no function": {"kdf": None},
    "salt that is no hex": {"salt": "zz"},
}


@pytest.mark.parametrize("fields", FORGED.values(), ids=FORGED)
def test_forged_seals(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that names costs beyond the limits, or nonsense, is refused before anything is computed or allocated."""
    text = sealed_with(**fields)
    monkeypatch.setattr(argon2id, "kdf", lambda *_, **__: pytest.fail("the costs were paid"))
    with pytest.raises(ConfigError):
        load_identity(text, PASSPHRASE)


@pytest.mark.parametrize("fields", [{"memlimit": 1}, {"salt": "00"}, {"box": ""}, {"box": "00" * 72}])
def test_seals_that_cannot_be_opened(fields: dict[str, Any]) -> None:
    """A seal whose parts do not fit together is refused like a wrong passphrase."""
    with pytest.raises(ConfigError, match="the passphrase is wrong, or the identity file is damaged"):
        load_identity(sealed_with(**fields), PASSPHRASE)


@pytest.mark.parametrize(
    "text", ["", "hello", "[]", '["sealed"]', '"sealed"', "17", "null", "{}", "[" * 100_000, "\ud800"]
)
def test_questions_about_any_text(text: str) -> None:
    """What is not an identity file is not sealed and has no public key."""
    assert not is_sealed(text)
    with pytest.raises(ConfigError, match="not a Culm identity file"):
        public_key(text)


@pytest.mark.parametrize("public", ["00", "00" * 31, "00" * 33, "", "zz", 17, None])
def test_public_keys_of_another_length(public: object) -> None:
    """A public key is 32 bytes in hex."""
    with pytest.raises(ConfigError, match="not a Culm identity file"):
        public_key(changed(public=public))


@given(at=st.integers(0), to=st.characters(codec="ascii"), sealed=st.booleans())
@settings(deadline=None, max_examples=150)
def test_any_character_changed(*, at: int, to: str, sealed: bool) -> None:
    """With any one character changed the file is refused, or still holds the same identity."""
    text = dump_identity(SOMEBODY, PASSPHRASE if sealed else None)
    at %= len(text)
    with pytest.MonkeyPatch.context() as patch:
        # The costs are in the file: a changed digit may multiply them.
        patch.setattr(keyfile, "_MAX_OPSLIMIT", 10 * argon2id.OPSLIMIT_MIN)
        patch.setattr(keyfile, "_MAX_MEMLIMIT", 100 * argon2id.MEMLIMIT_MIN)
        try:
            found = load_identity(text[:at] + to + text[at + 1 :], PASSPHRASE)
        except ConfigError:
            return

    assert SOMEBODY.seed == found.seed


# -- the file --------------------------------------------------------------------------------------------------


def test_write_and_read(tmp_path: Path) -> None:
    """A written file is there whole, its owner's alone, in a folder made for it, and nothing else is left there."""
    place = tmp_path / "new" / "folder" / "me.json"
    old_mask = os.umask(0)
    try:
        write_private(place, "text")
    finally:
        os.umask(old_mask)

    assert "text" == read_private(place)
    assert 0o600 == stat.S_IMODE(place.stat().st_mode)
    assert 0o700 == stat.S_IMODE(place.parent.stat().st_mode)
    assert [place] == list(place.parent.iterdir())


def test_never_overwritten(tmp_path: Path) -> None:
    """A key that is there stays, and the attempt leaves nothing behind."""
    place = tmp_path / "me.json"
    write_private(place, "first")
    with pytest.raises(ConfigError, match="never overwritten"):
        write_private(place, "second")

    assert "first" == read_private(place)
    assert [place] == list(tmp_path.iterdir())


def test_links_are_not_followed_when_writing(tmp_path: Path) -> None:
    """A symbolic link in the file's place counts as a key that is there, even if it leads nowhere."""
    place = tmp_path / "me.json"
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="never overwritten"):
        write_private(place, "text")

    assert [place] == list(tmp_path.iterdir())


def test_a_file_laid_in_wait(tmp_path: Path) -> None:
    """The secret is not written into a file that somebody put in the temporary file's place, and so can read."""
    bait = tmp_path / f".me.json.{os.getpid()}"
    bait.write_text("")
    bait.chmod(0o666)
    with bait.open() as spying:
        write_private(tmp_path / "me.json", "secret")

        assert "" == spying.read()
    assert 0o600 == stat.S_IMODE((tmp_path / "me.json").stat().st_mode)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """Where no file can be made the error names the place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*me\.json"):
        write_private(tmp_path / "file" / "folder" / "me.json", "text")


def test_not_written_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk fails before the file is safe there is no file at all."""

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match="No space left"):
        write_private(tmp_path / "me.json", "text")

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o777])
def test_too_open(tmp_path: Path, mode: int) -> None:
    """A key that anyone but its owner may touch is refused, and the error says how to mend it."""
    place = tmp_path / "me.json"
    write_private(place, "text")
    place.chmod(mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {place}"):
        read_private(place)


def test_not_there(tmp_path: Path) -> None:
    """A missing file, and what is no file, have their own errors."""
    with pytest.raises(ConfigError, match=r"cannot read .*No such file"):
        read_private(tmp_path / "nobody.json")
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_private(tmp_path)


def test_no_text(tmp_path: Path) -> None:
    """Bytes that are no text are no identity file."""
    place = tmp_path / "me.json"
    place.write_bytes(b"\xff\xfe")
    place.chmod(0o600)
    with pytest.raises(ConfigError, match="not a Culm identity file"):
        read_private(place)


def test_huge_files_are_not_read_whole(tmp_path: Path) -> None:
    """Of a file that is far too large only the beginning is read, and that is no identity."""
    place = tmp_path / "me.json"
    write_private(place, dump_identity(SOMEBODY).replace("{", "{" + " " * 1_000_000))
    text = read_private(place)

    assert len(text) <= 10_000
    with pytest.raises(ConfigError, match="not a Culm identity file"):
        load_identity(text)
