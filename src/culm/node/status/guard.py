"""Access to the status page, and limits on what a browser does with it.

A page on localhost is not safe by itself: every web site that the user visits can send requests to it. So each request
has to pass four checks before it is answered:

- ``Host``, if only this machine can reach the page. A hostile site can point its own name at 127.0.0.1 (DNS rebinding),
  and its scripts then count as the page's own. But the browser still sends that site's name as ``Host``.
- The origin that the browser reports. Other sites can link to the page, but not load data from it.
- The method. Only GET and HEAD are answered, because nothing here changes anything.
- The token, if one is configured: in ``Authorization: Bearer``, or in a cookie. Opening ``/?token=...`` sets the
  cookie, which scripts cannot read and requests of other sites do not carry.

Every answer has headers that forbid scripts, styles and pictures from elsewhere or inside the HTML, frames, and
guessing of types. So even a log name that looks like HTML cannot run anything.
"""

import hashlib
import hmac
import secrets
from importlib.resources import files

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from culm.node.status.settings import StatusSettings

# answered without a token, because they reveal nothing about the node
OPEN = ("/healthz", "/style.css", "/favicon.svg")
_MOST_TOKEN_TEXT = 1024  # characters compared with the token; longer ones are wrong anyway

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


def _is_foreign(request: web.Request) -> bool:
    """Whether another site's page sends the request, other than by a link that the user follows."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    return site not in ("none", "same-origin") and request.headers.get("Sec-Fetch-Mode") != "navigate"


class Guard:
    """Checks every request before it is answered."""

    def __init__(self, settings: StatusSettings) -> None:
        self._settings = settings
        self._key = secrets.token_bytes(32)  # new in each process, so that a restart makes old cookies worthless
        self._cookie = f"culm-status-{settings.port}"  # Browsers do not keep cookies of different ports apart.

    @property
    def _pass(self) -> str:
        """The value of the cookie: derived from the token, so that a stolen cookie does not reveal the token."""
        return hmac.new(self._key, (self._settings.token or "").encode(), hashlib.sha256).hexdigest()

    async def prepare(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Put the headers on an answer of any kind, errors included."""
        response.headers.update(HEADERS)

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
        """The refusal of a request that no token makes acceptable; None if there is no such reason."""
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
        # Lax, so that a link on another site can open the page with the cookie. That is safe, because the page changes
        # nothing. Other requests of other sites go without the cookie.
        response.set_cookie(self._cookie, self._pass, httponly=True, samesite="Lax", path="/")
        return response

    @staticmethod
    def _refused(request: web.Request) -> web.StreamResponse:
        headers = {"WWW-Authenticate": 'Bearer realm="culm"'}
        if request.path == "/":
            login = files("culm.node.status").joinpath("page", "login.html").read_text()
            return web.Response(status=401, text=login, content_type="text/html", headers=headers)
        return web.json_response({"error": "this page needs a token"}, status=401, headers=headers)
