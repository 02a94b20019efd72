"""The explorer with an index that `elmo index` wrote, and as a process of its own."""

import json
import signal
import subprocess
import sys
import tempfile

import pytest
from cli.calls import call
from explorer.serving import Client

from spacy_elmo.explorer.opening import open_explorer
from spacy_elmo.weights import save_bilm

SENTENCES = ["He sat on the bank .", "The bank lent money .", "The river bank ."]
pytestmark = pytest.mark.slow


@pytest.fixture
def bilm_path(tiny, tmp_path):
    save_bilm(tiny, tmp_path / "bilm")
    return tmp_path / "bilm"


def _build_index(folder, bilm_path, sentences, *options):
    (folder / "corpus.txt").write_text("\n".join(sentences), encoding="utf8")
    call("index", folder / "corpus.txt", folder / "index", "--bilm", bilm_path, *options)
    return folder / "index"


def _ask(explorer, view, **question):
    return explorer.answer(view, json.dumps(question).encode())


def test_explorer_asks_a_real_index(tmp_path, bilm_path):
    index = _build_index(tmp_path, bilm_path, SENTENCES * 2)
    explorer = open_explorer(bilm=str(bilm_path), index=index)
    assert explorer.settings()["index"]["n_tokens"] == 30
    question = {"text": "He sat on the bank .", "token": 4, "k": 2}
    found = _ask(explorer, "neighbors", uses="same", **question)["neighbors"]
    assert [use["words"] for use in found] == [SENTENCES[0].split()] * 2
    assert found[0]["cosine"] == pytest.approx(1, abs=1e-3) and found[0]["position"] == 4
    others = _ask(explorer, "neighbors", uses="other", **question)["neighbors"]
    assert all(use["words"][use["position"]] != "bank" for use in others)
    senses = _ask(explorer, "senses", word="BANK", n_senses=2)
    assert len(senses["uses"]) == 6 and len(senses["exemplars"]) == 2
    few = _ask(explorer, "senses", word="money", n_senses=None)
    assert few["n_uses"] == 2 and few["uses"] == [] and few["suggested"][0] == "bank"
    assert explorer.settings()["texts"]["word"] == "bank"


@pytest.mark.issue(40)
@pytest.mark.parametrize("lang, text", [("en", ""), ("en", "A cat sat. " * 5), ("de", "Ein Haus am See. " * 5)])
def test_explorer_indexes_the_sample_or_a_text(tmp_path, bilm_path, lang, text):
    """The word that Senses shows first has a map; the folder is gone when the explorer is closed."""
    pytest.importorskip("sklearn", reason="a map needs scikit-learn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        explorer = open_explorer(bilm=str(bilm_path), lang=lang)
        for _ in range(2):  # again, in place of the first
            settings = _ask(explorer, "index", text=text)
            assert settings["can_index"] and settings["index"]["n_documents"] == 1
            assert len(list(tmp_path.glob("elmo-explore-*"))) == 1
    word = settings["texts"]["word"]
    assert word == ("bank" if not text else "sat" if lang == "en" else "see")
    found = _ask(explorer, "neighbors", text=f"Hier {word}", token=1, k=1, uses="same")["neighbors"]
    assert found[0]["words"][found[0]["position"]].lower() == word
    assert found[0]["document"] == ("pasted text" if text else "sample text")
    assert _ask(explorer, "senses", word=word, n_senses=None)["n_uses"] >= 5
    explorer.close()
    assert not list(tmp_path.glob("elmo-explore-*"))


def test_command_serves_until_it_is_interrupted(bilm_path):
    command = [sys.executable, "-m", "spacy_elmo", "explore", "--bilm", str(bilm_path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and process.stdout is not None
        line = process.stderr.readline()
        address = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        status, answer = Client(address).ask("tokens", text="the bank")
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        assert process.wait(60) == 0, errors
    assert status == 200 and len(answer["tokens"]) == 2
    assert "Traceback" not in errors
