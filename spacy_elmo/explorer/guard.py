"""Refuses requests that do not come from the page itself, and bodies that are too large or too slow.

A page of another site can let its own name point to 127.0.0.1 (DNS rebinding) and then reads what the explorer answers,
with its name in the headers Host and Origin. So only the names of this computer are accepted there.
"""

import asyncio
import contextlib
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from ..errors import Errors

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HTTP_PORT = 80
MAX_DRAINED = 65_536  # bytes of the body of a refused request that are read
DRAIN_SECONDS = 1.0
# No code, style or picture from anywhere else, none inline, and no strings as HTML.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Dict[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def list_hosts(port: int) -> FrozenSet[str]:
    """port (int): Port of the server.
    RETURNS (FrozenSet[str]): The values of the header Host that are accepted.
    """
    names = {f"{name}:{port}" for name in LOOPBACK}
    return frozenset(names | set(LOOPBACK)) if port == HTTP_PORT else frozenset(names)


def find_refusal(headers: Mapping[str, str], hosts: FrozenSet[str]) -> Optional[str]:
    """headers (Mapping[str, str]): Headers of a request, names in lower case.
    hosts (FrozenSet[str]): See `list_hosts`.
    RETURNS (Optional[str]): EL412 if the request does not come from the page itself, otherwise None.
    """
    host, origin, site = headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site")
    checks: Sequence[Tuple[bool, str, str, str]] = [
        (host.lower() in hosts, "Host", host, " or ".join(sorted(hosts))),
        (origin is None or origin.lower() == f"http://{host.lower()}", "Origin", origin or "", f"http://{host}"),
        (site in (None, "same-origin", "none"), "Sec-Fetch-Site", site or "", "same-origin"),
    ]
    for is_fine, header, found, wanted in checks:
        if not is_fine:
            return Errors.EL412.format(header=header, found=found[:100], wanted=wanted)
    return None


class Guard:
    """ASGI middleware: refuses requests, and adds `HEADERS` to every answer.

    app (Any): The ASGI application.
    hosts (FrozenSet[str]): See `list_hosts`.
    """

    def __init__(self, app: Any, hosts: FrozenSet[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Dict[str, Any], receive: Any, send: Any) -> None:
        """Answer a request. Other connections than HTTP do not exist here."""

        async def send_with_headers(message: Dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_encoded(HEADERS)]}
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = find_refusal(headers, self._hosts)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await _drain(receive)
            await _refuse(refusal, send_with_headers)


async def _drain(receive: Any) -> None:
    """Read a small body: to close a connection with unread data resets it, and the answer may be lost."""

    async def read() -> None:
        n_read, has_more = 0, True
        while has_more and n_read < MAX_DRAINED:
            message = await receive()
            n_read, has_more = n_read + len(message.get("body", b"")), message.get("more_body", False)

    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(read(), DRAIN_SECONDS)


async def _refuse(message: str, send: Any) -> None:
    headers = _encoded({"Content-Type": "text/plain; charset=utf-8", "Connection": "close"})
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": message.encode("utf8", "replace")})


def _encoded(headers: Mapping[str, str]) -> List[Tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
