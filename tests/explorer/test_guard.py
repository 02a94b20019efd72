"""Which requests are refused, and the headers of every answer."""

import select
import socket

import pytest
from explorer.serving import SECONDS, Client, running

from spacy_elmo.explorer.serving import HEADERS, find_refusal, list_hosts

HOSTS = list_hosts(8765)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:8765"},
        {"host": "LOCALHOST:8765", "origin": "http://localhost:8765"},
        {"host": "[::1]:8765", "origin": "http://[::1]:8765", "sec-fetch-site": "same-origin"},
        {"host": "localhost:8765", "sec-fetch-site": "none"},
    ],
)
def test_page_itself_is_answered(headers):
    assert find_refusal(headers, HOSTS) is None
    assert find_refusal({"host": "localhost"}, list_hosts(80)) is None


@pytest.mark.parametrize(
    "headers, wrong",
    [
        ({}, "Host"),
        ({"host": "evil.example:8765"}, "Host"),
        ({"host": "127.0.0.1:80"}, "Host"),
        ({"host": "127.0.0.1:8765.evil.example"}, "Host"),
        ({"host": "127.0.0.1:8765", "origin": "http://evil.example"}, "Origin"),
        ({"host": "127.0.0.1:8765", "origin": "null"}, "Origin"),
        ({"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:9999"}, "Origin"),
        ({"host": "127.0.0.1:8765", "origin": "http://localhost:8765"}, "Origin"),
        ({"host": "127.0.0.1:8765", "sec-fetch-site": "cross-site"}, "Sec-Fetch-Site"),
    ],
)
def test_other_pages_are_refused(headers, wrong):
    refusal = find_refusal(headers, HOSTS)
    assert refusal is not None and "EL412" in refusal and f"its {wrong} is" in refusal


@pytest.mark.parametrize("path", ["/", "/api/settings", "/explorer.js"])
def test_server_refuses_a_foreign_host(client, path):
    status, _, body = client.send("GET", path, headers={"Host": "rebound.example"})
    assert status == 403 and b"EL412" in body and b"rebound.example" in body


def test_refusal_reaches_a_client_whose_body_is_late(client):
    """A body that arrives after the connection is closed would reset it, and the client might lose the answer."""
    host, port = client.host.split(":")
    lines = ["POST /api/tokens HTTP/1.1", f"Host: {client.host}", "Origin: http://evil.example", "Content-Length: 13"]
    with socket.create_connection((host, int(port)), timeout=SECONDS) as sent:
        sent.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        assert not select.select([sent], [], [], 0.2)[0], "the server waits for the body"
        sent.sendall(b'{"text": "a"}')
        found = b"".join(iter(lambda: sent.recv(4096), b""))
    assert found.startswith(b"HTTP/1.1 403") and b"EL412" in found


def test_server_refuses_a_foreign_origin(client):
    status, _, body = client.send(
        "POST", "/api/tokens", b'{"text": "a"}', {"Origin": "http://evil.example", "Content-Type": "application/json"}
    )
    assert status == 403 and b"EL412" in body
    assert client.ask("tokens", {"Origin": f"http://{client.host}"}, text="a")[0] == 200


@pytest.mark.parametrize("path", ["/", "/explorer.css", "/api/settings", "/nothing", "/../setup.py", "/%2e%2e/app.py"])
def test_every_answer_has_the_headers(client, path):
    status, headers, body = client.send("GET", path)
    assert status == (200 if path in ("/", "/explorer.css", "/api/settings") else 404)
    for name, value in HEADERS.items():
        assert headers[name.lower()] == value
    assert "access-control-allow-origin" not in headers and "server" not in headers
    assert b"\nfrom " not in body


def test_files_name_no_other_site(client):
    page = client.send("GET", "/")[2].decode("utf8")
    assert "//" not in page and "style=" not in page and "<style" not in page and "onclick" not in page


def test_ipv6_is_served(explorer):
    try:
        with running(explorer, "::1") as address:
            assert address.startswith("http://[::1]:")
            assert Client(address).send("GET", "/")[0] == 200
    except ValueError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
