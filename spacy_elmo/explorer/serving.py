"""The server of the explorer: a socket on the loopback interface, and uvicorn."""

import ipaddress
import socket
from typing import Tuple

import uvicorn

from ..errors import Errors
from .app import make_app
from .guard import list_hosts
from .views import Explorer

MAX_CONNECTIONS = 64
KEEP_ALIVE_SECONDS = 5
SHUTDOWN_SECONDS = 3


def check_host(host: str) -> str:
    """host (str): Name or address.
    RETURNS (str): The address of the loopback interface.
    RAISES (ValueError): EL410 for any other.
    """
    if host.lower() == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError as error:
        raise ValueError(Errors.EL410.format(host=host)) from error
    if address not in (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")):
        raise ValueError(Errors.EL410.format(host=host))
    return str(address)


def open_socket(host: str, port: int) -> socket.socket:
    """host (str): See `check_host`.
    port (int): Port, 0 for any free one.
    RETURNS (socket.socket): Bound and listening: requests wait until they are served.
    RAISES (ValueError): EL410 for another host than this computer, EL415 if the port cannot be used.
    """
    address = check_host(host)
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((address, port))
        bound.listen()
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise ValueError(Errors.EL415.format(port=port, host=host, reason=reason)) from error
    return bound


def address_of(bound: socket.socket) -> str:
    """RETURNS (str): The address of the page."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def make_server(explorer: Explorer, bound: socket.socket) -> Tuple[uvicorn.Server, str]:
    """explorer (Explorer): Answers the requests.
    bound (socket.socket): From `open_socket`.
    RETURNS (Tuple[uvicorn.Server, str]): The server, to be run with this socket, and the address of the page.
    """
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


def serve(explorer: Explorer, bound: socket.socket) -> None:
    """Answer requests until the process is interrupted.

    explorer (Explorer): Answers the requests.
    bound (socket.socket): From `open_socket`.
    """
    server, _ = make_server(explorer, bound)
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:
        pass  # uvicorn has closed its connections, and passes the signal on
