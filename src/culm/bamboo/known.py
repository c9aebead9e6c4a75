"""Known answers: signatures on which rules differ, and what Culm's says of each (docs/specs/bamboo.md, "Signatures").

libsodium decides, but which libsodium? Another version, or the one of a distribution, may follow another rule, and then
an entry is verified on one node and forged on the other. So ``culm doctor`` asks the one in use for these.
"""

import json
from dataclasses import dataclass
from importlib import resources

from culm.bamboo.entry import AUTHOR_BYTES
from culm.bamboo.verification import is_signed


@dataclass(frozen=True, slots=True)
class KnownSignature:
    """``signed``: a byte, the author, a message, the signature, as in an entry. ``is_accepted``: what the rule says."""

    name: str
    is_accepted: bool
    signed: bytes


def known_signatures() -> list[KnownSignature]:
    """All of them; reads a file of the package."""
    text = resources.files("culm.bamboo").joinpath("signatures.json").read_text("ascii")
    return [KnownSignature(each["name"], each["accepted"], bytes.fromhex(each["signed"])) for each in json.loads(text)]


def wrong_verdicts() -> list[str]:
    """The names of those on which the libsodium in use says something else. Takes about 3 ms."""
    return [
        known.name
        for known in known_signatures()
        if is_signed(known.signed, known.signed[1 : 1 + AUTHOR_BYTES]) != known.is_accepted
    ]
