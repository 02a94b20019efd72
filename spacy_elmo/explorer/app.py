"""The web application: static files, and an address per view that takes and gives JSON."""

import asyncio
import json
import logging
from pathlib import Path
from typing import FrozenSet

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..errors import Errors
from .guard import Guard
from .limits import BODY_SECONDS, MAX_BODY_BYTES
from .views import VIEWS, Busy, Explorer

STATIC = Path(__file__).parent / "static"
JSON_TYPE = "application/json"
logger = logging.getLogger("spacy_elmo")


def make_app(explorer: Explorer, hosts: FrozenSet[str]) -> Guard:
    """explorer (Explorer): Answers the requests, in threads.
    hosts (FrozenSet[str]): Accepted values of the header Host, see `list_hosts`.
    RETURNS (Guard): An ASGI application.
    """

    async def settings(request: Request) -> Response:
        return JSONResponse(explorer.settings())

    async def view(request: Request) -> Response:
        return await _answer(explorer, request)

    routes = [
        Route("/api/settings", settings),
        Route("/api/{view}", view, methods=["POST"]),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    return Guard(Starlette(routes=routes), hosts)


async def _answer(explorer: Explorer, request: Request) -> Response:
    """RETURNS (Response): JSON; `error` says what is wrong with a request."""
    view = request.path_params["view"]
    if view not in VIEWS:
        raise HTTPException(404)
    try:
        body = await asyncio.wait_for(_read_body(request), BODY_SECONDS)
        content = await run_in_threadpool(lambda: json.dumps(explorer.answer(view, body), allow_nan=False))
    except Busy as error:
        return _error(str(error), 503)
    except asyncio.TimeoutError:
        return _error(Errors.EL413.format(problem=f"its body took longer than {BODY_SECONDS:g} seconds"), 408)
    except ValueError as error:
        return _error(str(error), 400)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody reads it
    except Exception:
        logger.exception("The view '%s' failed", view)
        return _error("The explorer failed. The terminal in which it runs shows the cause.", 500)
    return Response(content, media_type=JSON_TYPE)


async def _read_body(request: Request) -> bytes:
    """RETURNS (bytes): The body, of which no more than the limit is held in memory.
    RAISES (ValueError): EL413 for another type than JSON, or a larger body.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON_TYPE:
        raise ValueError(Errors.EL413.format(problem=f"its type is '{kind[:50]}', should be '{JSON_TYPE}'"))
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            problem = f"its body is larger than {MAX_BODY_BYTES:,} bytes, so its text is too long"
            raise ValueError(Errors.EL413.format(problem=problem))
    return bytes(body)


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": message.encode("utf8", "replace").decode("utf8")}, status)
