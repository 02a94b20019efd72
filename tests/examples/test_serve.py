"""The server of examples/serve.py: vectors of the library for each client, limits, and what an overload gets."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import numpy as np
import pytest
import spacy
import typer
from typer.testing import CliRunner

from spacy_elmo import load_bilm

uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn")
pytest.importorskip("starlette", reason="needs starlette")
SENTENCES = [["She", "sat", "on", "the", "bank", "."], ["Yes"], [], ["Banks", "lend", "money"] * 9]


@pytest.fixture
def serve(load_recipe):
    """Starts a server with a model and settings of `Batcher` and `make_app`; returns a function that asks it."""
    recipe, servers = load_recipe("serve"), []

    def start(bilm, batcher=None, nlp=None, **settings):
        made = recipe.Batcher(bilm, **(batcher or {}))
        annotator = None if nlp is None else recipe.Annotator(nlp)
        server = uvicorn.Server(uvicorn.Config(recipe.make_app(made, annotator, **settings), log_level="critical"))
        bound = socket.create_server(("127.0.0.1", 0))  # which clients can connect to from here on
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        servers.append((server, thread))
        port = bound.getsockname()[1]

        def ask(path, content=None, timeout=30):
            connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
            body = content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
            connection.request("GET" if body is None else "POST", path, body)
            response = connection.getresponse()
            text = response.read().decode("utf8")
            connection.close()
            return response.status, text if path == "/metrics" else json.loads(text)

        return ask

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join(10)


def test_clients_get_their_own_vectors(serve):
    bilm = load_bilm("en_elmo_sm")
    ask = serve(bilm)
    wanted = bilm.embed(SENTENCES, layers="mean")

    def request(i):
        status, answer = ask("/embed", {"sentences": SENTENCES[i % 4 :]})
        assert status == 200
        for rows, other in zip(answer["vectors"], wanted[i % 4 :], strict=True):
            np.testing.assert_allclose(np.array(rows).reshape(other.shape), other, atol=1e-5)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(request, range(64)))
    status, answer = ask("/embed", {"sentences": SENTENCES, "pool": "mean"})
    assert status == 200 and np.array(answer["vectors"]).shape == (4, wanted[0].shape[1])
    np.testing.assert_allclose(answer["vectors"][0], wanted[0].mean(axis=0), atol=1e-5)
    assert ask("/health") == (200, {"status": "ok", "waiting": 0})
    counters = dict(line.split() for line in ask("/metrics")[1].splitlines())
    assert counters["elmo_requests_total"] == "65" and 1 <= int(counters["elmo_batches_total"]) <= 65


@pytest.mark.parametrize(
    "content, status",
    [
        (b"{", 400),
        (3_900 * b"[", 400),
        ([], 400),
        ({"sentences": ["She sat"]}, 400),
        ({"sentences": [["a", ""]]}, 400),
        ({"sentences": [["a"]], "pool": "median"}, 400),
        ({"sentences": [["a"] * 101]}, 413),
        (b" " * 5000, 413),
    ],
)
def test_requests_that_are_not_valid_are_refused(content, status, serve):
    ask = serve(None, max_bytes=4000, max_tokens=100)
    found, answer = ask("/embed", content)
    assert found == status and answer["error"]


class Busy:
    """A model that computes nothing until it may go on."""

    def __init__(self):
        self.go = threading.Event()

    def embed(self, texts, layers):
        assert self.go.wait(60)
        if ["fail"] in texts:
            raise RuntimeError("broken")
        if ["wrong"] in texts:
            raise ValueError("no such word")
        return [np.zeros((len(words), 2)) for words in texts]


def test_an_overload_gets_503_and_late_answers_504(serve):
    model = Busy()
    ask = serve(model, {"max_waiting": 2, "max_tokens": 0}, timeout_s=0.5)
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda i: ask("/embed", {"sentences": [["a"]]})[0], range(8)))
    assert set(statuses) == {503, 504} and statuses.count(503) >= 5
    model.go.set()
    assert any(ask("/embed", {"sentences": [["a"]]})[0] == 200 for _ in range(50)), "it recovers"


@pytest.mark.issue(48)
def test_an_error_of_the_model_reaches_its_request_only(serve):
    model = Busy()
    ask = serve(model, timeout_s=60.0)
    texts = [["a"], ["a"], ["fail"], ["wrong"], ["a"]]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda words: ask("/embed", {"sentences": [words]}), texts)
        for _ in range(1000):  # the first is computed by itself, the others in one batch
            if "elmo_requests_total 5" in ask("/metrics")[1]:
                break
        model.go.set()
        answers = list(answers)
    assert [status for status, _ in answers] == [200, 200, 500, 400, 200]
    assert "RuntimeError: broken" in answers[2][1]["error"] and answers[3][1] == {"error": "no such word"}


@pytest.mark.issue(48)
def test_texts_are_annotated_by_a_pipeline(serve):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PLACE", "pattern": "Berlin"}])
    ask, texts = serve(None, nlp=nlp), ["Maria lives in Berlin.", "", "Berlin"]
    status, answer = ask("/annotate", {"texts": texts})
    assert status == 200 and [doc["text"] for doc in answer["docs"]] == texts
    assert [doc["ents"] for doc in answer["docs"]] == [
        [{"start": 15, "end": 21, "label": "PLACE"}],
        [],
        [{"start": 0, "end": 6, "label": "PLACE"}],
    ]
    for content in ({"texts": "Berlin"}, {"texts": [1]}, {"sentences": [["a"]]}, b"["):
        assert ask("/annotate", content)[0] == 400
    assert ask("/annotate", {"texts": ["a" * 120_000]})[0] == 413
    assert "elmo_annotate_batches_total 1" in ask("/metrics")[1]
    status, answer = serve(None)("/annotate", {"texts": texts})
    assert status == 404 and "--pipeline" in answer["error"]


@pytest.mark.issue(48)
@pytest.mark.parametrize(
    "arguments", [["/no/such"], ["--pipeline", "/no/such"], ["-p", "BUSY"], ["--host", "192.0.2.1"], ["-H", "a b"]]
)
def test_a_server_that_cannot_start_says_why(arguments, load_recipe, monkeypatch):
    recipe, app = load_recipe("serve"), typer.Typer()
    app.command()(recipe.main)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        words = [word.replace("BUSY", str(busy.getsockname()[1])) for word in arguments]
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 1 and "The server cannot start: " in result.stderr and not result.stdout


@pytest.mark.issue(59)
@pytest.mark.parametrize(
    "arguments, address",
    [
        ([], "127.0.0.1"),
        (["--host", "0.0.0.0"], "0.0.0.0"),
        (["--host", "localhost"], "127.0.0.1"),
        (["--host", "::1"], "::1"),
    ],
)
def test_the_server_listens_where_it_is_told(arguments, address, load_recipe, monkeypatch):
    recipe, app, bound = load_recipe("serve"), typer.Typer(), []
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6")
    app.command()(recipe.main)
    monkeypatch.setattr(recipe.uvicorn.Server, "run", lambda server, sockets: bound.extend(sockets))
    result = CliRunner().invoke(app, ["--port", "0", *arguments])
    assert result.exit_code == 0, result.output
    (listener,) = bound
    assert listener.getsockname()[0] == address and f":{listener.getsockname()[1]} (" in result.stdout
    listener.close()
