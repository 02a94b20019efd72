"""The server of the explorer: an ASGI application that answers its own page only, on the loopback interface.

A page of another site can let its own name point to 127.0.0.1 (DNS rebinding) and then reads what the explorer answers,
with its name in the headers Host and Origin. So only the names of this computer, with the port of the explorer, are
accepted there. (Starlette's TrustedHostMiddleware ignores the port, and before 1.0 rejects `[::1]`.)
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import socket
from functools import partial
from pathlib import Path
from typing import Any, Dict, FrozenSet, Mapping, Optional, Tuple

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from ..errors import Errors
from .reading import invalid
from .views import VIEWS, Busy, Explorer

STATIC = Path(__file__).parent / "static"
JSON_TYPE = "application/json"
MAX_BODY_BYTES = 2**20
BODY_SECONDS = 30.0  # in which the body of a request must arrive
MAX_DRAINED = 65_536  # bytes of the body of a rejected request that are read
DRAIN_SECONDS = 1.0
MAX_CONNECTIONS = 64
KEEP_ALIVE_SECONDS = 5
SHUTDOWN_SECONDS = 3
HTTP_PORT = 80
# No code, style or picture from anywhere else, none inline, and no strings as HTML.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Dict[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
logger = logging.getLogger("spacy_elmo")


def open_socket(host: str, port: int) -> socket.socket:
    """RETURNS (socket.socket): Bound to a port (0: any free port) and listening: requests are queued.
    RAISES (ValueError): For another host than this computer, or a port that cannot be used.
    """
    address = _to_loopback(host)
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((address, port))
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"Port {port} of {host} cannot be used: {reason}. Choose another `port`, or 0 for any free port."
        ) from error
    return bound


def _to_loopback(host: str) -> str:
    try:
        address = str(ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host.strip("[]")))
    except ValueError:
        address = ""
    if address not in ("127.0.0.1", "::1"):
        raise ValueError(
            f"The explorer cannot listen on '{host}': it has no passwords, so it listens on this computer only. Choose "
            "127.0.0.1, ::1 or localhost as `host`; to reach it from another computer, use an SSH tunnel."
        )
    return address


def address_of(bound: socket.socket) -> str:
    """RETURNS (str): The address of the page."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(explorer: Explorer, bound: socket.socket) -> None:
    """Answer requests until the process is interrupted. bound (socket.socket): From `open_socket`."""
    server, _ = make_server(explorer, bound)
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:
        pass  # uvicorn has closed its connections, and passes the signal on


def make_server(explorer: Explorer, bound: socket.socket) -> Tuple[uvicorn.Server, str]:
    """RETURNS (Tuple[uvicorn.Server, str]): The server, to be run with this socket, and the address of the page."""
    config = uvicorn.Config(
        make_app(explorer, list_hosts(bound.getsockname()[1])),
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config), address_of(bound)


def make_app(explorer: Explorer, hosts: FrozenSet[str]) -> "Guard":
    """RETURNS (Guard): An ASGI application: static files, and an address per view that takes and gives JSON."""

    async def settings(request: Request) -> Response:
        return JSONResponse(explorer.settings())

    routes = [
        Route("/api/settings", settings),
        *(Route(f"/api/{view}", partial(_answer, explorer, view), methods=["POST"]) for view in VIEWS),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    return Guard(Starlette(routes=routes), hosts)


async def _answer(explorer: Explorer, view: str, request: Request) -> Response:
    """RETURNS (Response): JSON; `error` is the problem with a request."""
    try:
        body = await asyncio.wait_for(_read_body(request), BODY_SECONDS)
        content = await run_in_threadpool(lambda: json.dumps(explorer.answer(view, body), allow_nan=False))
    except Busy as error:
        return _error(str(error), 503)
    except asyncio.TimeoutError:
        return _error(str(invalid(f"its body took longer than {BODY_SECONDS:g} seconds")), 408)
    except ValueError as error:
        return _error(str(error), 400)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody reads it
    except Exception:
        logger.exception("The view '%s' failed", view)
        return _error("The explorer failed. The terminal in which it runs shows the cause.", 500)
    return Response(content, media_type=JSON_TYPE)


async def _read_body(request: Request) -> bytes:
    """No more than the limit is held in memory."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON_TYPE:
        raise invalid(f"its type is '{kind[:50]}', should be '{JSON_TYPE}'")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise invalid(f"its body is larger than {MAX_BODY_BYTES:,} bytes, so its text is too long")
    return bytes(body)


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": message.encode("utf8", "replace").decode("utf8")}, status)


def list_hosts(port: int) -> FrozenSet[str]:
    """RETURNS (FrozenSet[str]): The values of the header Host that are accepted by a server of this port."""
    names = ("127.0.0.1", "localhost", "[::1]")
    return frozenset([*(f"{name}:{port}" for name in names), *(names if port == HTTP_PORT else ())])


def find_refusal(headers: Mapping[str, str], hosts: FrozenSet[str]) -> Optional[str]:
    """RETURNS (Optional[str]): EL412 if a request with these headers (lower case) does not come from the page."""
    host, origin, site = headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site")
    checks = [
        (host.lower() in hosts, "Host", host, " or ".join(sorted(hosts))),
        (origin is None or origin.lower() == f"http://{host.lower()}", "Origin", origin or "", f"http://{host}"),
        (site in (None, "same-origin", "none"), "Sec-Fetch-Site", site or "", "same-origin"),
    ]
    for is_fine, header, value, expected in checks:
        if not is_fine:
            return Errors.EL412.format(header=header, value=value[:100], expected=expected)
    return None


class Guard:
    """ASGI middleware: rejects requests that do not come from the page itself, and adds `HEADERS` to every answer."""

    def __init__(self, app: Any, hosts: FrozenSet[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; all connections are HTTP."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = find_refusal(Headers(scope=scope), self._hosts)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
            return
        await _drain(receive)
        answer = PlainTextResponse(refusal.encode("utf8", "replace"), 403, headers={"Connection": "close"})
        await answer(scope, receive, send_with_headers)


async def _drain(receive: Receive) -> None:
    """Read a small body: to close a connection with unread data resets it, and the answer may be lost."""

    async def read() -> None:
        n_read, has_more = 0, True
        while has_more and n_read < MAX_DRAINED:
            message = await receive()
            n_read, has_more = n_read + len(message.get("body", b"")), message.get("more_body", False)

    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(read(), DRAIN_SECONDS)
