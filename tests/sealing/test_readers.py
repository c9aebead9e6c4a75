"""Names as readers, and keys as age takes them (docs/specs/sealed.md, "Readers")."""

from __future__ import annotations

import pytest

from culm import Identity
from culm.errors import ConfigError, SealedPayload
from culm.sealing import Keyring, reader_of
from culm.sealing.header import Header, tag_of
from culm.sealing.readers import recipient_of
from tests.sealing.keys import AGE_KEY, ALICE, BOB, NAMES, SECRET_AGE_KEY


def test_names_of_readers() -> None:
    """An author, in each form, and an age key are readers, in one form each."""
    alice = NAMES[ALICE]
    assert [alice] * 3 == [reader_of(alice), reader_of(ALICE.public.hex()), reader_of(ALICE.public)]
    assert AGE_KEY == reader_of(AGE_KEY)


@pytest.mark.parametrize("name", ["alice", "", "age1yubikey1qqqqqqqq", SECRET_AGE_KEY, "ssh-ed25519 AAAA", b"short"])
def test_what_is_no_reader(name: str | bytes) -> None:
    """Anything else is refused, a secret key and the key of a plugin, which is a program, among it."""
    with pytest.raises(ConfigError):
        reader_of(name)


def test_a_typing_error_in_an_age_key() -> None:
    """The checksum of an age key is compared before anything is sealed."""
    with pytest.raises(ConfigError, match="nothing can be sealed for age1"):
        recipient_of(AGE_KEY[:-1] + "q")


# Points of small order (0 and 1 as y), one outside of the main subgroup's values (2 is on no point), all bits set.
@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31), b"\x02" + bytes(31), b"\xff" * 32])
def test_keys_that_no_identity_has(key: bytes) -> None:
    """Nothing is sealed for a key whose shared secret everybody can compute; age's library alone would do it."""
    with pytest.raises(ConfigError, match="it is not the public key of any identity"):
        reader_of(key)


def test_recipients_are_compared_again() -> None:
    """A reader that did not come from ``reader_of`` is looked at, too."""
    with pytest.raises(ConfigError, match="it is not the public key of any identity"):
        recipient_of("0" * 43)


def test_a_passphrase_is_asked_for_when_it_helps() -> None:
    """An identity is only opened if the payload is sealed for it."""
    asked: list[str] = []

    def get(name: str, identity: Identity) -> Identity:
        asked.append(name)
        return identity

    ring = Keyring({ALICE.public: lambda: get("alice", ALICE), BOB.public: lambda: get("bob", BOB)})
    assert 1 == len(ring.keys_for(Header((tag_of(BOB.public),), 0)))
    assert ["bob"] == asked
    with pytest.raises(SealedPayload, match=r"it is sealed for 2 readers, and none of your 2 keys is among them$"):
        ring.keys_for(Header(("AAAAAA", "BBBBBB"), 0))
    assert ["bob"] == asked


def test_why_a_key_does_not_fit() -> None:
    """A refusal says what could help: an age key, where some readers are age keys."""
    with pytest.raises(
        SealedPayload, match="sealed for 1 reader, and your key is not among them; some readers are age"
    ):
        Keyring.of([ALICE]).keys_for(Header((), 1))
    assert 1 == len(Keyring.of([ALICE, SECRET_AGE_KEY]).keys_for(Header((), 1)))


def test_a_secret_key_as_a_reader() -> None:
    """A secret key in place of a public one is refused without being repeated, and a keyring shows none."""
    with pytest.raises(ConfigError, match="a secret age key is no reader") as refused:
        reader_of(SECRET_AGE_KEY)
    assert SECRET_AGE_KEY[20:] not in str(refused.value)
    assert SECRET_AGE_KEY[20:] not in repr(Keyring.of([SECRET_AGE_KEY]))


def test_a_key_is_not_shown() -> None:
    """A secret with a typing error is refused without being repeated, because a terminal keeps what it shows."""
    for wrong in (SECRET_AGE_KEY[:-1], SECRET_AGE_KEY[:-1] + "8"):
        with pytest.raises(ConfigError) as refused:
            Keyring.of([wrong]).keys_for(Header((), 1))
        assert wrong[20:] not in str(refused.value)
