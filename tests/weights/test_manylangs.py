"""Models of ELMoForManyLangs: equal to a reference in NumPy, and as good as any other biLM."""

import pickle

import numpy as np
import pytest
import spacy
import torch
from cli.calls import call, refused
from reference.seeded_manylangs import SENTENCES, make_architecture, write_manylangs
from spacy.tokens import Doc

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.inference.words import check_has_targets
from spacy_elmo.text.words import Lexicon

LIMIT = 2e-5
KINDS = {
    "characters and words": {},
    "characters": {"token_embedder": {"word_dim": 0}},
    "words": {"token_embedder": {"char_dim": 0}},
    "words cut at two characters": {"token_embedder": {"char_dim": 0, "max_characters_per_token": 4}},
    "tanh, no highways": {"token_embedder": {"activation": "tanh", "n_highway": 0}},
    "long words": {"token_embedder": {"max_characters_per_token": 50, "n_highway": 3}},
    "no clips": {"encoder": {"cell_clip": 0, "proj_clip": None, "n_layers": 1}},
    "small clips": {"encoder": {"cell_clip": 0.1, "proj_clip": 0.05, "n_layers": 3}},
    "projection wider than the cell": {"encoder": {"dim": 3}},
    "LSTM over characters": {"token_embedder": {"name": "lstm"}},
    "LSTM over characters alone": {"token_embedder": {"name": "lstm", "word_dim": 0}},
    "plain LSTM": {"encoder": {"name": "lstm", "dim": 5, "n_layers": 3}},
}
KEPT = ("characters and words", "words", "LSTM over characters", "plain LSTM")
TEXT = [words for words in SENTENCES if words]


@pytest.fixture
def make(tmp_path):
    def write(name="model", *, legacy=False, **changes):
        model = write_manylangs(tmp_path / name, make_architecture(**changes), legacy=legacy)
        return tmp_path / name, model

    return write


@pytest.mark.parametrize("kind", KINDS)
def test_layers_equal_the_reference(kind, make):
    folder, model = make(**KINDS[kind])
    bilm = load_bilm(folder)
    for words, found in zip(SENTENCES, bilm.embed(SENTENCES)):
        assert found.shape[1] == len(words)
        if words:
            wanted = model.layers(words)[0]
            assert found.shape == wanted.shape
            assert np.abs(found - wanted).max() < LIMIT


def test_state_continues_as_in_the_original(make):
    folder, model = make()
    bilm = load_bilm(folder)
    _, state = bilm.embed(TEXT, state=None, return_state=True)
    second, _ = bilm.embed(TEXT, state=state, return_state=True)
    for words, found in zip(TEXT, second):
        wanted, _ = model.layers(words, model.layers(words)[1])
        assert np.abs(found - wanted).max() < LIMIT


@pytest.mark.parametrize("kind", KEPT)
def test_vectors_do_not_depend_on_batch_order_and_cache(kind, make):
    bilm = load_bilm(make(**KINDS[kind])[0])
    together = bilm.embed(TEXT)
    backwards = bilm.embed(TEXT[::-1], batch_tokens=3)[::-1]
    bilm.word_cache.max_bytes = 0
    alone = [bilm.embed([words])[0] for words in TEXT]
    for first, second, third in zip(together, backwards, alone):
        assert np.abs(first - second).max() < 1e-5 and np.abs(first - third).max() < 1e-5


@pytest.mark.parametrize("kind", KEPT)
def test_gradients_ids_copies_and_boundaries(kind, make):
    bilm = load_bilm(make(**KINDS[kind])[0])
    wanted = np.concatenate(bilm.embed(TEXT), axis=1)
    rows = bilm.encode(TEXT, with_grad=True)
    assert np.abs(rows.detach().numpy() - wanted).max() < 1e-5
    rows.sum().backward()
    for name, parameter in bilm.network.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
    words = list(dict.fromkeys(word for sentence in TEXT for word in sentence))
    ids, _ = bilm._encoder.words.codec.encode(words)
    index = [[words.index(word) for word in sentence] for sentence in TEXT]
    assert np.abs(bilm.encode(index, char_ids=ids).numpy() - wanted).max() < 1e-5
    copied = pickle.loads(pickle.dumps(bilm))
    assert np.abs(np.concatenate(copied.embed(TEXT), axis=1) - wanted).max() < 1e-5
    assert bilm.embed([["a"]], boundaries=True)[0].shape[1] == 3


def test_plain_lstm_has_no_state(make):
    bilm = load_bilm(make(**KINDS["plain LSTM"])[0])
    wanted = bilm.embed(TEXT)
    for state in ("steady", None):
        for found, one in zip(bilm.embed(TEXT, state=state), wanted):
            assert (found == one).all()
    bilm.pack("steady")
    with pytest.raises(ValueError, match="EL340.*return_state=True.*bilstm"):
        bilm.embed(TEXT, return_state=True)
    with pytest.raises(ValueError, match='EL340.*state = "carry".*bilstm'):
        bilm.embed(TEXT, state="carry")
    with pytest.raises(ValueError, match="EL340.*steady state"):
        _ = bilm.steady_state
    with pytest.raises(ValueError, match="cannot be pretrained"):
        bilm.network(torch.zeros(1, 4), torch.zeros(2, 1, 1, dtype=torch.long), bilm.network.zero_state(1))
    with pytest.raises(ValueError, match="EL015.*bilstm.*float32 only"):
        bilm.set_precision("int8")


def test_what_it_cannot_do_is_an_error(make, tmp_path):
    bilm = load_bilm(make()[0])
    with pytest.raises(ValueError, match="EL007.*no softmax"):
        bilm.perplexity(TEXT)
    with pytest.raises(ValueError, match="cannot be pretrained further"):
        check_has_targets(bilm.config)
    with pytest.raises(ValueError, match="bilm-tf.*tables of its own"):
        save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    assert not (tmp_path / "tf").exists()
    with pytest.raises(ValueError, match="manylangs"):
        save_bilm(bilm, tmp_path / "other", format="manylangs")
    with pytest.raises(ValueError, match="EL017.*shape"):
        bilm.encode([[0]], char_ids=np.zeros((1, 50), dtype="int64"))
    with pytest.raises(ValueError, match="EL017.*should be 0 to"):
        bilm.encode([[0]], char_ids=np.full((1, 11), 30, dtype="int64"))


def test_a_lexicon_must_fit(make, tmp_path):
    bilm = load_bilm(make()[0])
    with pytest.raises(ValueError, match="it has none"):
        BiLM(bilm.network)
    lacking = Lexicon(bilm.lexicon.characters[1:], ["the", "the", *bilm.lexicon.words[2:]])
    with pytest.raises(ValueError, match=r"36 characters.*37 rows.*lack <oov>.*lack <oov>.*1 of its words"):
        BiLM(bilm.network, lexicon=lacking)
    save_bilm(bilm, tmp_path / "native")
    path = tmp_path / "native" / "lexicon.json"
    for content, wanted in (("{}", "EL022.*lists of strings"), ('{"characters": [], "words": []}', "0 words")):
        path.write_text(content)
        with pytest.raises(ValueError, match=wanted):
            load_bilm(tmp_path / "native")
    path.unlink()
    with pytest.raises(ValueError, match="it has none"):
        load_bilm(tmp_path / "native")


def test_pipelines_and_commands_take_it(make, tmp_path):
    folder, _ = make(**KINDS["plain LSTM"])
    words = ["the", "old", "lamp"]
    nlp, again = spacy.blank("xx"), spacy.blank("xx")
    nlp.add_pipe("elmo").load_weights(folder)
    doc = nlp(Doc(nlp.vocab, words=words))
    assert np.abs(doc._.elmo_layers - load_bilm(folder).embed([words])[0]).max() < 1e-5
    again.add_pipe("elmo")
    again.from_bytes(nlp.to_bytes())
    assert (again(Doc(again.vocab, words=words))._.elmo_layers == doc._.elmo_layers).all()
    (tmp_path / "text.txt").write_text("the old lamp\n")
    call("inspect", folder)
    call("convert", folder, tmp_path / "native")
    call("embed", folder, tmp_path / "text.txt", tmp_path / "vectors.npz")
    assert "EL007" in refused("perplexity", folder, tmp_path / "text.txt")
