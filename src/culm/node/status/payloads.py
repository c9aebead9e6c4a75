"""Payloads for viewers: a preview as text, and a download. Only where the operator has asked for it.

What an author wrote is the most hostile thing that a page can show, so a browser never gets it as a document. A
download is an attachment of bytes without a type, which no browser opens by itself, and the headers of every answer
forbid to guess one (``culm.node.status.guard``). A preview is a string inside JSON, which the page shows as text. A
sealed payload is for its readers alone: the node has no key and opens nothing, so the preview says that it is sealed,
and the download has the sealed bytes.
"""

import asyncio
from functools import partial
from unicodedata import category

from aiohttp import web

from culm.errors import NotHeld, PayloadDamaged, Place
from culm.node.status import queries
from culm.node.status.asked import Plain
from culm.node.status.reader import Reader
from culm.node.status.sources import Sources
from culm.store import ReadableStore, State, StoredEntry
from culm.wire.places import log_text

SHOWN_BYTES = 4096  # Of a text: a screen or two; the download has the rest.
_HEX_BYTES = 256  # of anything else, because few people read more of it
_SLICE_BYTES = 256 * 1024  # read from the store at once, so that other viewers do not wait for a large payload
_LAYOUT = "\t\n\r"  # control characters that a text has
_TURNS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
"""Characters that turn the direction of writing: with them "exe.png" can be shown for "gnp.exe"."""


class Payloads:
    """Answers requests for payloads. ``patience``: the most seconds that a viewer can leave bytes unread."""

    def __init__(self, store: Reader, sources: Sources, patience: float) -> None:
        self._store = store
        self._sources = sources
        self._patience = patience

    async def preview(self, request: web.Request) -> web.StreamResponse:
        """The beginning of a payload: as ``text``, or as ``hex`` if it is none, or neither if it is ``sealed``."""
        stored = await self._held(request)
        start = await self._slice(stored, 0, SHOWN_BYTES)
        return web.json_response(previewed(start, stored.entry.size, is_sealed=self._sources.is_sealed(start)))

    async def download(self, request: web.Request) -> web.StreamResponse:
        """A payload as a file."""
        stored = await self._held(request)
        piece = await self._slice(stored, 0, _SLICE_BYTES)
        entry = stored.entry
        name = f"payload-{entry.author.hex()[:16]}-{entry.log_id}-{entry.seq}.bin"
        response = web.StreamResponse(
            headers={
                "Content-Type": "application/octet-stream",
                "Content-Disposition": f'attachment; filename="{name}"',
                "Content-Length": str(entry.size),
            }
        )
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        offset = 0
        try:
            while piece:
                async with asyncio.timeout(self._patience):
                    await response.write(piece)
                offset += len(piece)
                piece = await self._slice(stored, offset, _SLICE_BYTES)
        except (TimeoutError, ConnectionError, PayloadDamaged):
            offset = -1
        if offset != entry.size and request.transport is not None:
            request.transport.abort()  # A file that is cut off must not look whole.
        return response

    async def _held(self, request: web.Request) -> StoredEntry:
        place = Place(*queries.log(request.query), queries.number(request.query, "seq", 1, least=1))
        return await self._store.ask(partial(_readable, place=place))

    async def _slice(self, stored: StoredEntry, offset: int, size: int) -> bytes:
        try:
            return await self._store.ask(lambda store: store.payload_slice(stored.id, offset, size))
        except PayloadDamaged as damage:
            await self._sources.drop(damage)
            raise


async def not_shown(_request: web.Request) -> web.StreamResponse:
    """The answer where payloads are not shown."""
    error = "this node shows no payloads: start it with --http-payloads, or set http_payloads in culm.toml"
    return web.json_response({"error": error}, status=403)


def _readable(store: ReadableStore, place: Place) -> StoredEntry:
    """The verified entry at a place, with its whole payload; ``NotHeld`` otherwise."""
    stored = store.get(place)
    if stored is None or stored.state is not State.VERIFIED or not stored.payload_complete:
        where = f"entry {place.seq} of {log_text((place.author, place.log_id))}"
        raise NotHeld(f"the store has no verified payload of {where}")
    return stored


def previewed(start: bytes, size: int, *, is_sealed: bool) -> Plain:
    """What is shown of a payload of ``size`` bytes that begins with ``start``."""
    text = None if is_sealed else _text(start, is_whole=len(start) == size)
    as_hex = None if is_sealed or text is not None else start[:_HEX_BYTES].hex()
    return {"size": str(size), "sealed": is_sealed, "text": text, "hex": as_hex}


def _text(start: bytes, *, is_whole: bool) -> str | None:
    """The bytes as UTF-8, without a character that is cut off at their end; None if they are no text."""
    for cut in range(1 if is_whole else 4):
        try:
            text = start[: len(start) - cut].decode()
        except UnicodeDecodeError:
            continue
        return None if any(map(_disturbs, text)) else text
    return None


def _disturbs(char: str) -> bool:
    return char in _TURNS or (category(char) == "Cc" and char not in _LAYOUT)
