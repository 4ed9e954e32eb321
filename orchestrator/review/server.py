"""The review in a browser: a page on the loopback interface that only its own URL opens.

The token in the path keeps other users of the machine out, the Host check keeps out pages that
rebind a name to 127.0.0.1, and the Origin check keeps out pages that post here blindly.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.errors import OrchError
from orchestrator.review.decision import Decision, Superseded
from orchestrator.review.desk import Desk, Finished
from orchestrator.review.page import page

Handler = Callable[[Request], Awaitable[Response]]

POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MAX_BODY_BYTES = 64 << 10
_OURS, _REPORT = "orchestrator.review", "orchestrator.report.html"
_STATIC = {
    "report.css": (_REPORT, "style.css", "text/css"),
    "review.css": (_OURS, "review.css", "text/css"),
    "review.js": (_OURS, "review.js", "text/javascript"),
}


class Server:
    """The routes of one review."""

    def __init__(self, desk: Desk, hosts: tuple[str, ...], token: str = "") -> None:
        self.desk, self.hosts = desk, hosts
        self.token = token or secrets.token_urlsafe(24)
        self.finished: Finished | None = None
        self.on_finish: Callable[[], None] = lambda: None

    def app(self) -> Starlette:
        routes = [
            ("/", self._page, "GET"),
            ("/static/{name}", self._static, "GET"),
            ("/file/{key}", self._file, "GET"),
            ("/overlay/{a}/{b}", self._overlay, "GET"),
            ("/log/{key}", self._log, "GET"),
            ("/log/{key}/search", self._search, "GET"),
            ("/decide", self._decide, "POST"),
            ("/undo", self._undo, "POST"),
            ("/finish", self._finish, "POST"),
        ]
        app = Starlette(
            routes=[
                Route("/{token}" + path, self._guarded(handler), methods=[method])
                for path, handler, method in routes
            ]
        )
        # A redirect would answer a wrong token with something else than `not found`.
        app.router.redirect_slashes = False
        return app

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            refusal = self._refusal(request)
            if refusal is None:
                try:
                    response = await handler(request)
                except Superseded as error:
                    response = JSONResponse(self._newer(error), 409)
                except OrchError as error:
                    response = JSONResponse({"error": str(error)}, 422)
            else:
                response = PlainTextResponse(refusal, 404 if refusal == "not found" else 403)
            response.headers.update(HEADERS)
            return response

        return guarded

    def _newer(self, error: Superseded) -> dict[str, Any]:
        newer = error.newer
        return {
            "error": str(error),
            "verdict": newer.verdict if newer else "",
            "known": newer.mark if newer else "",
            "open": len(self.desk.open),
        }

    def _refusal(self, request: Request) -> str | None:
        if not secrets.compare_digest(request.path_params["token"].encode(), self.token.encode()):
            return "not found"
        if request.headers.get("host") not in self.hosts:
            return "this page is served under its own address only"
        if request.method == "POST":
            origin = urlsplit(request.headers.get("origin", ""))
            if origin.scheme != "http" or origin.netloc != request.headers["host"]:
                return "another origin may not decide here"
            if request.headers.get("content-type") != "application/json":
                return "JSON is expected"
            if int(request.headers.get("content-length") or MAX_BODY_BYTES + 1) > MAX_BODY_BYTES:
                return "the body is too long"
        return None

    # ---- pages

    async def _page(self, _request: Request) -> Response:
        text = await run_in_threadpool(page, self.desk)
        return Response(text, media_type="text/html")

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return PlainTextResponse("not found", 404)
        package, file, kind = _STATIC[name]
        content = (resources.files(package) / "static" / file).read_bytes()
        return Response(content, media_type=kind)

    async def _file(self, request: Request) -> Response:
        """An image to draw, or anything else to save."""
        file = self.desk.files.get(request.path_params["key"])
        if file is None:
            return PlainTextResponse("not found", 404)
        kind = file.image_type
        if kind:
            return FileResponse(file.place, media_type=kind)
        name = file.path.rsplit("/", 1)[-1]
        return FileResponse(file.place, media_type="application/octet-stream", filename=name)

    async def _overlay(self, request: Request) -> Response:
        keys = request.path_params
        content = await run_in_threadpool(self.desk.overlay, keys["a"], keys["b"])
        return Response(content, media_type="image/png")

    # ---- logs

    async def _log(self, request: Request) -> Response:
        log = await run_in_threadpool(self.desk.log, request.path_params["key"])
        first, count = _number(request, "first", 1), _number(request, "count", 200)
        lines = await run_in_threadpool(log.window, first, count)
        return JSONResponse({"lines": [vars(line) for line in lines], "total": log.lines})

    async def _search(self, request: Request) -> Response:
        log = await run_in_threadpool(self.desk.log, request.path_params["key"])
        words = request.query_params.get("words", "")[:500]
        hits = await run_in_threadpool(log.search, words, _number(request, "first", 1))
        found = {"lines": [vars(line) for line in hits.lines], "complete": hits.complete}
        return JSONResponse(found)

    # ---- decisions

    async def _decide(self, request: Request) -> Response:
        body = await _body(request)
        subject, verdict, reason = (body.get(key, "") for key in ("subject", "verdict", "reason"))
        known = body.get("known", "")
        made = await run_in_threadpool(self.desk.decide, subject, verdict, reason, known)
        others: list[Decision] = []
        if body.get("others"):
            others = await run_in_threadpool(self.desk.decide_others, subject, verdict, reason)
        told = {
            "verdict": made.verdict,
            "known": made.mark,
            "open": len(self.desk.open),
            "others": [{"subject": one.subject, "known": one.mark} for one in others],
        }
        return JSONResponse(told)

    async def _undo(self, request: Request) -> Response:
        body = await _body(request)
        await run_in_threadpool(self.desk.undo, body.get("subject", ""), body.get("known", ""))
        return JSONResponse({"open": len(self.desk.open)})

    async def _finish(self, _request: Request) -> Response:
        done = await run_in_threadpool(self.desk.finish)
        self.finished = done
        self.on_finish()
        return JSONResponse(
            {
                "review": str(done.review),
                "ledger": str(done.ledger) if done.ledger else "",
                "words": done.words,
                "open": done.open,
            }
        )


async def _body(request: Request) -> dict[str, str]:
    try:
        body: Any = await request.json()
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in body.items()} if isinstance(body, dict) else {}


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else default
