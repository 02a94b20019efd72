"""A web server on the loopback interface that misbehaves as told: the only server that tests of downloads speak to."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, Iterator, List, Optional, Tuple


@dataclass
class Site:
    """Files of the server and what it does wrong.

    files (Dict[str, bytes]): Content by path.
    redirects (Dict[str, str]): Target by path.
    cuts (List[int]): The next answers end after so many bytes of content.
    statuses (List[int]): The next answers have these statuses.
    has_ranges (bool): It answers range requests with a part.
    tag (Optional[str]): ETag of all files.
    requests (List[Tuple[str, Dict[str, str]]]): Paths and headers so far.
    """

    files: Dict[str, bytes] = field(default_factory=dict)
    redirects: Dict[str, str] = field(default_factory=dict)
    cuts: List[int] = field(default_factory=list)
    statuses: List[int] = field(default_factory=list)
    has_ranges: bool = True
    tag: Optional[str] = '"1"'
    requests: List[Tuple[str, Dict[str, str]]] = field(default_factory=list)
    address: str = ""


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve a site; `address` is set to http://127.0.0.1:PORT/."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, site)

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(handler: BaseHTTPRequestHandler, site: Site) -> None:
    path = handler.path.lstrip("/")
    site.requests.append((path, dict(handler.headers)))
    if site.statuses and (status := site.statuses.pop(0)) != 200:
        handler.send_error(status)
    elif path in site.redirects:
        handler.send_response(302)
        handler.send_header("Location", site.redirects[path])
        handler.end_headers()
    elif path in site.files:
        _send(handler, site, site.files[path])
    else:
        handler.send_error(404)


def _send(handler: BaseHTTPRequestHandler, site: Site, content: bytes) -> None:
    start = _start_of(handler, site)
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content) - start))
    if site.tag is not None:
        handler.send_header("ETag", site.tag)
    handler.end_headers()
    n_bytes = site.cuts.pop(0) if site.cuts else len(content)
    handler.wfile.write(content[start : start + n_bytes])


def _start_of(handler: BaseHTTPRequestHandler, site: Site) -> int:
    """The first byte that is asked for, 0 if the version is another one."""
    asked = handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0]
    is_same = handler.headers.get("If-Range") in (None, site.tag)
    return int(asked) if site.has_ranges and is_same else 0
