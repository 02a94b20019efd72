"""The answers of the views, and requests that cannot be answered."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from explorer.serving import Client, running
from explorer.stub_index import HOSTILE, StubIndex

from spacy_elmo.explorer import serving
from spacy_elmo.explorer.reading import TextSplitter
from spacy_elmo.explorer.views import VIEWS, Busy, Explorer
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.substitutes import find_substitutes

TEXT = "He sat on  the bank. The river!"


def _ask(explorer, view, **question):
    return json.loads(json.dumps(explorer.answer(view, json.dumps(question).encode()), allow_nan=False))


def test_settings_describe_model_index_and_mixes(client):
    settings = json.loads(client.send("GET", "/api/settings")[2])
    assert settings["mixture_size"] == 3 and settings["width"] == 16 and settings["has_softmax"]
    assert settings["index"] == {"layer": 2, "n_tokens": 28, "n_documents": 7}
    assert settings["mixes"] == [{"name": "ner", "shares": [0.1, 0.7, 0.2], "gamma": 2.5}]


def test_tokens_shows_contexts_and_unknown_and_long_words(explorer):
    found = _ask(explorer, "tokens", text=TEXT)
    words = [token["text"] for token in found["tokens"]]
    assert "".join(token["text"] + token["space"] for token in found["tokens"]) == TEXT
    contexts = [[words[i] for i in context["tokens"]] for context in found["contexts"]]
    assert contexts == [["He", "sat", "on", "the", "bank", "."], ["The", "river", "!"]]
    assert [token["text"] for token in found["tokens"] if token["is_unknown"]] == ["The", "!"]
    assert [token["read"] for token in _ask(explorer, "tokens", text="a" * 49)["tokens"]] == ["a" * 48]
    assert _ask(explorer, "tokens", text="")["tokens"] == []


def test_compare_gives_the_products_of_any_mix(explorer, tiny):
    found = _ask(explorer, "compare", a="He sat on the bank .", b="the river")
    assert found["words"] == [["He", "sat", "on", "the", "bank", "."], ["the", "river"]]
    a, b = tiny.embed(found["words"])
    shares, gamma = np.array([0.2, 0.5, 0.3]), 1.5
    expected = gamma**2 * np.tensordot(shares, a, 1) @ np.tensordot(shares, b, 1).T
    products = gamma**2 * np.einsum("j,k,jknm->nm", shares, shares, found["products"])
    np.testing.assert_allclose(products, expected, rtol=1e-4, atol=1e-6)
    norms = gamma**2 * np.einsum("j,k,jkn->n", shares, shares, found["own"][0])
    np.testing.assert_allclose(norms, (gamma * np.tensordot(shares, a, 1) ** 2 * gamma).sum(axis=1), rtol=1e-4)


def test_surprisal_agrees_with_the_component(explorer, tiny):
    found = _ask(explorer, "surprisal", text="He sat on  the bank.")["tokens"]
    (losses,) = tiny.token_losses([["He", "sat", "on", "the", "bank", "."]])
    bits = np.array([token["bits"] for token in found if not token["is_space"]])
    np.testing.assert_allclose(bits, losses[:, :-1].T / np.log(2), rtol=1e-4)
    assert [token["bits"] for token in found if token["is_space"]] == [[None, None]]


def test_substitutes_read_the_sentence_of_the_token(explorer, tiny):
    found = _ask(explorer, "substitutes", text=f"The end. {TEXT}", token=8, k=3)
    expected = find_substitutes(tiny, ["He", "sat", "on", "the", "bank", "."], 4, k=3)
    assert found["word"] == "bank"
    assert [one["word"] for one in found["substitutes"]] == [one.word for one in expected]


def test_neighbors_are_those_of_the_index(explorer):
    assert _ask(explorer, "neighbors", text="the bank", token=None, k=5, uses="any")["neighbors"] is None
    found = _ask(explorer, "neighbors", text="the bank", token=1, k=5, uses="any")["neighbors"]
    assert len(found) == 5 and found[0]["cosine"] == pytest.approx(0.9)
    assert found[0]["words"][found[0]["position"]] == "bank"
    assert _ask(explorer, "neighbors", text="the bank", token=1, k=5, uses="other")["neighbors"] == []


@pytest.mark.slow
@pytest.mark.parametrize("n_senses", [None, 2])
def test_senses_are_a_map_with_exemplars(explorer, n_senses):
    pytest.importorskip("sklearn", reason="a map needs scikit-learn")
    found = _ask(explorer, "senses", word="Bank", n_senses=n_senses)
    n_groups = len(found["sizes"])
    assert len(found["uses"]) == len(found["points"]) == len(found["labels"]) == sum(found["sizes"]) == 28
    assert [found["labels"][place] for place in found["exemplars"]] == list(range(n_groups))
    assert n_senses in (None, n_groups) and found["n_uses"] == 28


@pytest.mark.issue(40)
def test_what_is_missing_has_a_message_and_other_views_work(tiny, explorer):
    bare, empty = Explorer(BiLM(tiny.network), "bare"), Explorer(tiny, "tiny", index=StubIndex(0))
    for view in ("neighbors", "senses"):
        with pytest.raises(ValueError, match="This view needs an index.*elmo index CORPUS INDEX"):
            _ask(bare, view, text="bank", word="bank")
    for view in ("surprisal", "substitutes"):
        with pytest.raises(ValueError, match="EL007"):
            _ask(bare, view, text=TEXT, token=0, k=1)
    assert _ask(bare, "tokens", text=TEXT)["has_vocabulary"] is False
    assert _ask(bare, "compare", a="a", b="b")["words"] == [["a"], ["b"]]
    assert _ask(empty, "neighbors", text="bank", token=0, k=5, uses="any")["neighbors"] == []
    found = _ask(empty, "senses", word="bank", n_senses=None)
    assert found["uses"] == [] and found["n_uses"] == 0 and found["suggested"] == []
    with pytest.raises(ValueError, match="has no words"):
        _ask(Explorer(tiny, "tiny", reader=TextSplitter("is")), "index", text=" ")
    assert not explorer.settings()["can_index"]
    with pytest.raises(ValueError, match="started with an index"):
        _ask(explorer, "index", text="the bank")


@pytest.mark.parametrize(
    "body, problem",
    [
        (b"", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[]", "its body .*should be"),
        (b'{"text": 1}', "text is 1, should be a valid string"),
        (b'{"text": "a b", "token": true, "k": 1}', "token is True, should be a valid integer"),
        (b'{"text": "a b", "token": 2, "k": 1}', "token 2 is not a word"),
        (b'{"text": "a  b", "token": 1, "k": 1}', "token 1 is not a word"),
        (b'{"text": "a b", "token": 1, "k": 1e9}', "k is 1000000000.0, should be at most 50"),
    ],
)
def test_invalid_requests_have_a_message(explorer, body, problem):
    with pytest.raises(ValueError, match=f"The request is not valid.*{problem}"):
        explorer.answer("substitutes", body)


@pytest.mark.parametrize("text, unit", [("a" * 100_000, "characters"), ("a " * 9_000, "tokens")])
def test_long_texts_have_a_message(explorer, text, unit):
    for view in ("tokens", "surprisal", "substitutes", "neighbors"):
        with pytest.raises(ValueError, match=f"The text is too long.*{unit}"):
            _ask(explorer, view, text=text, token=0, k=1, uses="any")
    with pytest.raises(ValueError, match=f"The text is too long.*{unit}"):
        _ask(explorer, "compare", a="a", b=text)


def test_odd_text_is_answered(explorer):
    for text in (HOSTILE, "\ud800 a", "\0" * 100, "\u05d0\u05d1 \u202e x", "e\u0301" * 99, "!" * 20_000):
        for view in ("tokens", "surprisal"):
            found = _ask(explorer, view, text=text)["tokens"]
            assert "".join(one["text"] + one["space"] for one in found) == text.replace("\ud800", "\ufffd")


def test_server_answers_errors_as_json(client, monkeypatch):
    json_type = {"Content-Type": "application/json"}
    assert client.ask("tokens", text=1)[0] == 400
    assert client.send("GET", "/api/tokens")[0] == 404
    assert client.send("POST", "/api/nothing", b"{}", json_type)[0] == 405
    status, _, body = client.send("POST", "/api/tokens", b"{}", {"Content-Type": "text/plain"})
    assert status == 400 and "The request is not valid" in json.loads(body)["error"]
    status, found = client.ask("tokens", text="a" * (serving.MAX_BODY_BYTES + 1))
    assert status == 400 and "The request is not valid" in found["error"] and "larger than" in found["error"]
    assert client.ask("tokens", text="a")[0] == 200
    monkeypatch.setitem(VIEWS, "tokens", lambda explorer, fields: {}["secret"])
    status, found = client.ask("tokens", text="a")
    assert status == 500 and "secret" not in found["error"] and "terminal" in found["error"]


def test_a_lost_connection_is_no_failure(client, caplog):
    host, port = client.host.split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST /api/tokens HTTP/1.1\r\nHost: {client.host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 99\r\n\r\n{{".encode())
    assert client.ask("tokens", text="a")[0] == 200
    assert caplog.records == []


def test_requests_of_two_users_do_not_mix(client):
    texts = ["the bank . " * 100, "He sat ! " * 100]
    expected = [client.ask("surprisal", text=text)[1] for text in texts]
    with ThreadPoolExecutor(6) as pool:
        assert [
            found for _, found in pool.map(lambda text: client.ask("surprisal", text=text), texts * 3)
        ] == expected * 3


def test_a_request_does_not_wait_forever(tiny):
    explorer = Explorer(tiny, "tiny", busy_seconds=0.01)
    with explorer.locked():
        with pytest.raises(Busy, match="The explorer is busy"):
            _ask(explorer, "tokens", text="a")
        with running(explorer) as address:
            status, found = Client(address).ask("tokens", text="a")
            assert status == 503 and "The explorer is busy" in found["error"]
    assert _ask(explorer, "tokens", text="a")["tokens"]
