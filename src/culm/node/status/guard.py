"""Who may see the page, and what a browser may do with it.

Four things are looked at before anything is answered. The ``Host`` of a request, where only this machine can reach the
page: a page from elsewhere whose name was pointed at this machine (DNS rebinding) names itself there. Where a
browser says that a request comes from: other sites may link to the page, and use nothing of it. The method:
nothing can be changed. The token, if there is one: in ``Authorization: Bearer``, or in a cookie that
``?token=`` was turned into, which scripts cannot read and other sites' requests do not carry.

Every answer forbids scripts, styles and pictures from elsewhere or inside the page, frames, and guessing at types.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

    from culm.node.status.settings import StatusSettings

OPEN = ("/healthz", "/style.css", "/favicon.svg")  # say nothing about the node
_MOST_TOKEN_TEXT = 1024

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Server": "culm",
}

_LOGIN = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Culm node</title>
<link rel="icon" href="/favicon.svg">
<link rel="stylesheet" href="/style.css">
<body class="login">
<main>
<h1>This node asks for a token</h1>
<p>The person who runs the node chose it (<code>--http-token-file</code> or <code>CULM_HTTP_TOKEN</code>).</p>
<form action="/">
<label>Token <input name="token" type="password" autocomplete="off" required autofocus></label>
<button>Open</button>
</form>
</main>
"""


def _is_foreign(request: web.Request) -> bool:
    """Whether another site's page asks for something by itself, without anybody going there."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    return site not in ("none", "same-origin") and request.headers.get("Sec-Fetch-Mode") != "navigate"


class Guard:
    """Looks at every request before it is answered."""

    def __init__(self, settings: StatusSettings) -> None:
        self._settings = settings
        self._key = secrets.token_bytes(32)  # cookies end with the process
        self._cookie = f"culm-status-{settings.port}"  # cookies do not know ports

    @property
    def _pass(self) -> str:
        """What the cookie holds: not the token itself."""
        return hmac.new(self._key, (self._settings.token or "").encode(), hashlib.sha256).hexdigest()

    async def prepare(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Put the headers on an answer, whatever it is."""
        for name, value in HEADERS.items():
            response.headers[name] = value

    def middleware(self) -> Middleware:
        """The guard as aiohttp wants it."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            if (objection := self._objection(request)) is not None:
                return objection
            if self._settings.token is None or request.path in OPEN:
                return await handler(request)
            if request.path == "/" and "token" in request.query:
                return self._login(request)
            if self._is_known(request):
                return await handler(request)
            return self._refused(request)

        return guarded

    def _objection(self, request: web.Request) -> web.Response | None:
        """Why a request is not answered, whoever it comes from."""
        if self._settings.is_local and not self._settings.is_ours(request.host):
            return web.Response(status=421, text="this page answers only to the name or address of its own machine\n")
        if _is_foreign(request):
            return web.Response(status=403, text="other sites can link to this page, but not load data from it\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(
                status=405, text="this page is read-only: use GET or HEAD\n", headers={"Allow": "GET, HEAD"}
            )
        return None

    def _is_token(self, text: str) -> bool:
        token = self._settings.token or ""
        return len(text) <= _MOST_TOKEN_TEXT and hmac.compare_digest(text.encode(errors="replace"), token.encode())

    def _is_known(self, request: web.Request) -> bool:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(token.strip()):
            return True
        cookie = request.cookies.get(self._cookie, "")
        return hmac.compare_digest(cookie.encode(errors="replace"), self._pass.encode())

    def _login(self, request: web.Request) -> web.StreamResponse:
        if not self._is_token(request.query["token"]):
            return self._refused(request)
        response = web.Response(status=303, headers={"Location": "/"})
        # Lax: a link from elsewhere may open the page, which shows and never changes; nothing else may use it.
        response.set_cookie(self._cookie, self._pass, httponly=True, samesite="Lax", path="/")
        return response

    @staticmethod
    def _refused(request: web.Request) -> web.StreamResponse:
        headers = {"WWW-Authenticate": 'Bearer realm="culm"'}
        if request.path == "/":
            return web.Response(status=401, text=_LOGIN, content_type="text/html", headers=headers)
        return web.json_response({"error": "this page needs a token"}, status=401, headers=headers)
