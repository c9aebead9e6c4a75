"""``culm prove`` and ``culm check``: one file that shows an entry to somebody who has neither the log nor a node.

Specification: docs/specs/proof.md.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from culm.bamboo.decimal import size_text
from culm.bamboo.entryproof import MAX_PROOF_BYTES, EntryProof
from culm.bamboo.yamf import YAMF_PREFIX
from culm.cli.arguments import author_type, place_type
from culm.cli.command import Commands
from culm.cli.output import counted, note, open_input, open_output, print_json
from culm.errors import ConfigError, InvalidEntry, InvalidProof
from culm.wire.places import author_text, place_text

_PIECE = 64 * 1024  # Bytes of a payload in memory at once.


def register(commands: Commands) -> None:
    """Add the commands of this module."""
    prove = commands.add("prove", _prove)
    prove.add_argument("place", metavar="AUTHOR/LOG/SEQ", type=place_type, help="the entry to prove")
    prove.add_argument("--payload", action="store_true", help="put the payload into the file; else only its hash")
    prove.add_argument(
        "--short",
        action="store_true",
        help="end the history that is shown at the entry's certificate pool, not at the newest entry",
    )
    prove.add_argument(
        "-o", "--output", metavar="FILE", help="where to write; - is stdout (the default unless stdout is a terminal)"
    )
    check = commands.add("check", _check)
    check.add_argument("file", metavar="FILE", help="a file that culm prove has written; - is stdin")
    check.add_argument("--author", metavar="KEY", type=author_type, help="fail unless this author has signed the entry")
    check.add_argument("--payload", metavar="FILE", help="fail unless this file is the entry's payload")


def _prove(arguments: argparse.Namespace) -> int:
    # ``culm check`` needs no store, and would take twice as long with these.
    from culm.node.home import Home  # noqa: PLC0415
    from culm.store.proving import make_proof  # noqa: PLC0415

    output = arguments.output
    if output is None and sys.stdout.isatty():
        raise ConfigError("not writing binary data to a terminal: give -o FILE (or -o - to do it all the same)")
    home = Home.find(arguments.home)
    with home.store(read_only=True) as store:
        proof, stored = make_proof(store, arguments.place, short=arguments.short, with_payload=arguments.payload)
        head = proof.encode()
        with open_output(output or "-") as stream:
            stream.write(head)
            for piece in store.payload(stored) if arguments.payload else ():
                stream.write(piece)
    written = len(head) + proof.entry.size * arguments.payload
    if arguments.json and output not in (None, "-"):
        print_json(_shown(proof) | {"bytes": written})
    else:
        shown_file = "FILE" if output in (None, "-") else shlex.quote(str(output))
        note(
            f"proved {home.names().place(arguments.place)} in {size_text(written)},"
            f" as part of the history up to entry {proof.top.seq}; check it with: culm check {shown_file}"
        )
    return 0


def _check(arguments: argparse.Namespace) -> int:
    with open_input(arguments.file) as stream:
        head = _read(stream, MAX_PROOF_BYTES)
        proof, end = EntryProof.decode_prefix(head)
        proof.check(arguments.author)
        if proof.has_payload:
            _compare(proof, _pieces(head[end:], stream), "the payload in the file is not that of the entry")
        elif len(head) > end:
            raise InvalidProof(f"{counted(len(head) - end, 'byte')} or more follow the proof, which has no payload")
    if arguments.payload:
        with open_input(arguments.payload) as stream:
            _compare(proof, _pieces(b"", stream), f"{arguments.payload} is not the entry's payload")
    has_payload = bool(proof.has_payload or arguments.payload)
    if arguments.json:
        print_json(_shown(proof) | {"payload_checked": has_payload})
    else:
        print(*_explained(proof, has_payload=has_payload, asked=arguments.author is not None), sep="\n")
    return 0


def _read(stream: BinaryIO, size: int) -> bytes:
    """The next ``size`` bytes, fewer only at the end: a pipe gives as many as it has."""
    found = bytearray()
    while len(found) < size and (piece := stream.read(size - len(found))):
        found += piece
    return bytes(found)


def _pieces(first: bytes, stream: BinaryIO) -> Iterator[bytes]:
    yield first
    while piece := stream.read(_PIECE):
        yield piece


def _compare(proof: EntryProof, pieces: Iterator[bytes], problem: str) -> None:
    from culm.bamboo import PayloadHasher  # noqa: PLC0415 - brings threads, which a proof without a payload needs not

    hasher = PayloadHasher()
    for piece in pieces:
        hasher.update(piece)
        if hasher.size > proof.entry.size:
            raise InvalidProof(f"{problem}: it is longer than {counted(proof.entry.size, 'byte')}")
    try:
        hasher.check(proof.entry)
    except InvalidEntry:
        raise InvalidProof(f"{problem}: it has {counted(hasher.size, 'byte')} with another hash") from None


def _shown(proof: EntryProof) -> dict[str, Any]:
    """A proof as JSON has it."""
    entry = proof.entry
    return {
        "place": place_text(entry.place),
        "author": author_text(entry.author),
        "log_id": entry.log_id,
        "seq": entry.seq,
        "hash": entry.hash.hex(),
        "size": entry.size,
        "payload_hash": entry.payload_hash.hex(),
        "top": proof.top.seq,
        "top_hash": proof.top.hash.hex(),
        "ended": proof.top.is_end,
        "entries": len(proof.entries),
        "forked_at": proof.fork.position if proof.fork else None,
        "payload_included": proof.has_payload,
    }


def _explained(proof: EntryProof, *, has_payload: bool, asked: bool) -> Iterator[str]:
    """What is proved, and what is not, in words."""
    entry, top = proof.entry, proof.top
    digest = entry.payload_hash[len(YAMF_PREFIX) :].hex()
    yield "proved"
    yield f"  {author_text(entry.author)} signed entry {entry.seq} of log {entry.log_id}."
    links = "1 signed entry links" if len(proof.entries) == 1 else f"{len(proof.entries)} signed entries link"
    yield f"  {links} it into one history, from entry 1 to entry {top.seq}."
    if has_payload:
        yield f"  Its payload is what was checked: {counted(entry.size, 'byte')}."
    else:
        yield f"  Its payload has {counted(entry.size, 'byte')} and the BLAKE2b-512 hash {digest}."
    if top.is_end:
        yield f"  The log ended with entry {top.seq}."
    if proof.fork:
        yield f"  The author forked the log later, at entry {proof.fork.position}: {proof.fork.explain()}."
    yield "not proved"
    if not asked:
        yield "  Who this author is: compare the key, or give --author KEY."
    yield "  When the entry was written, and whether what it says is true."
    if not top.is_end:
        yield f"  That the log has no entry after {top.seq}."
    if not proof.fork:
        yield f"  That the author shows everybody this history: compare entry {top.seq}, whose hash begins with"
        yield f"  {top.hash[len(YAMF_PREFIX) :].hex()[:16]}, with somebody else's."
