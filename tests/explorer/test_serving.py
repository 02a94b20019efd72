"""Which requests are refused, and the headers of every answer."""

import pytest
from explorer.serving import Client, running

from spacy_elmo.explorer.serving import HEADERS, find_refusal, list_hosts

HOSTS = list_hosts(8765)


@pytest.mark.parametrize(
    "headers, wrong",
    [
        ({"host": "127.0.0.1:8765"}, None),
        ({"host": "LOCALHOST:8765", "origin": "http://localhost:8765"}, None),
        ({"host": "[::1]:8765", "origin": "http://[::1]:8765", "sec-fetch-site": "same-origin"}, None),
        ({"host": "localhost:8765", "sec-fetch-site": "none"}, None),
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
def test_only_the_page_itself_is_answered(headers, wrong):
    refusal = find_refusal(headers, HOSTS)
    assert refusal is None if wrong is None else "EL412" in refusal and f"its {wrong} is" in refusal
    assert find_refusal({"host": "localhost"}, list_hosts(80)) is None


def test_server_refuses_a_foreign_host_or_origin(client):
    for path in ("/", "/api/settings", "/explorer.js"):
        status, _, body = client.send("GET", path, headers={"Host": "rebound.example"})
        assert status == 403 and b"EL412" in body and b"rebound.example" in body
    evil = {"Origin": "http://evil.example", "Content-Type": "application/json"}
    status, _, body = client.send("POST", "/api/tokens", b'{"text": "a"}', evil)
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
    page = client.send("GET", "/")[2].decode("utf8")
    assert "//" not in page and "style=" not in page and "<style" not in page and "onclick" not in page


def test_ipv6_is_served(explorer):
    try:
        with running(explorer, "::1") as address:
            assert address.startswith("http://[::1]:")
            assert Client(address).send("GET", "/")[0] == 200
    except ValueError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
