"""Requests over HTTP, behind a small protocol: tests and programs can pass an opener of their own.

Only http and https are opened. Redirects are limited, and never lead from https to http.
"""

import urllib.request
from typing import Any, Mapping, Optional, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit

from ...about import __version__
from ...errors import Errors

MAX_REDIRECTS = 5
TIMEOUT_S = 30.0
SCHEMES = ("http", "https")


class Reply(Protocol):
    """The answer to a request. `status` is its HTTP status, `headers` are its headers, in any capitalization."""

    @property
    def status(self) -> Optional[int]:
        """RETURNS (Optional[int]): HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """RETURNS (Mapping[str, str]): Headers; `get` ignores capitalization."""

    def read(self, n: int, /) -> bytes:
        """n (int): Maximum number of bytes.
        RETURNS (bytes): The next bytes of the content, none at its end.
        """

    def close(self) -> None:
        """Close the connection."""


class Opener(Protocol):
    """Sends a request."""

    def __call__(self, url: str, headers: Mapping[str, str]) -> Reply:
        """url (str): An address with http or https.
        headers (Mapping[str, str]): Headers of the request.
        RETURNS (Reply): The answer, also for a status that reports an error.
        RAISES (ValueError): EL361 for an address or a redirect that is refused.
        RAISES (OSError): For a connection that fails.
        """


def check_url(url: str) -> str:
    """url (str): An address.
    RETURNS (str): The same address.
    RAISES (ValueError): EL361 for anything but http and https with a host.
    """
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in SCHEMES and bool(parts.hostname)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ValueError(Errors.EL361.format(url=url, reason="it is not an address with http or https and a host"))
    return url


class SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows at most `MAX_REDIRECTS` redirects, to http and https only, and not from https to http."""

    max_redirections = MAX_REDIRECTS

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """req (Any), fp (Any), code (int), msg (str), headers (Any): See the base class.
        newurl (str): Target of the redirect.
        RETURNS (Any): The next request.
        RAISES (ValueError): EL361 if the redirect is refused.
        """
        check_url(newurl)
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            reason = f"it is a redirect from https ({req.full_url}) to http, which is not encrypted"
            raise ValueError(Errors.EL361.format(url=newurl, reason=reason))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_url(url: str, headers: Mapping[str, str]) -> Reply:
    """The default `Opener`, with urllib and its proxies from the environment."""
    director = urllib.request.OpenerDirector()
    handlers = (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler, SafeRedirects)
    for handler in (*handlers, urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor):
        director.add_handler(handler())
    request = urllib.request.Request(check_url(url), headers={"User-Agent": f"spacy-elmo/{__version__}", **headers})
    try:
        reply: Any = director.open(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        reply = error
    return _checked(reply)


def _checked(reply: Any) -> Reply:
    return reply  # type: ignore[no-any-return]  # urllib's replies have no common type
