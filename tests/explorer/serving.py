"""The explorer behind its real server in a thread, on a free port of this computer."""

import json
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Thread

from spacy_elmo.explorer.serving import make_server, open_socket

SECONDS = 60


@contextmanager
def running(explorer, host="127.0.0.1"):
    """YIELDS (str): The address of the page."""
    bound = open_socket(host, 0)
    server, address = make_server(explorer, bound)
    thread = Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        bound.close()


class Client:
    """Sends requests as a browser does, or as none would.

    address (str): From `running`.
    """

    def __init__(self, address):
        self.host = address.split("/")[2]

    def send(self, method, path, body=None, headers=None):
        """RETURNS (Tuple[int, Dict[str, str], bytes]): Status, headers with names in lower case, and body."""
        connection = HTTPConnection(self.host, timeout=SECONDS)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def ask(self, view, headers=None, **question):
        """RETURNS (Tuple[int, Dict[str, Any]]): Status and answer of a view."""
        kind = {"Content-Type": "application/json", **(headers or {})}
        status, _, body = self.send("POST", f"/api/{view}", json.dumps(question), kind)
        return status, json.loads(body)
