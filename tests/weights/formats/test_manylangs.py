"""Models of ELMoForManyLangs: equal to a reference in NumPy, as good as any other biLM; bad files are listed."""

import json
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import spacy
import torch
from cli.calls import call, refused
from inference.forcing import needs_kernel
from reference.seeded_manylangs import MANYLANGS_KINDS, SENTENCES, make_architecture, write_manylangs, write_zip
from spacy.tokens import Doc

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.inference.word_encoder import check_has_targets, make_lexicon_codec
from spacy_elmo.text.words import Lexicon
from spacy_elmo.weights.archive import File, Listing
from spacy_elmo.weights.formats.manylangs import (
    detect_manylangs,
    make_config,
    read_architecture,
    read_sizes,
    read_symbols,
)

LIMIT = 2e-5
KEPT = ("characters and words", "words", "LSTM over characters", "plain LSTM")
TEXT = [words for words in SENTENCES if words]


@pytest.fixture
def make(tmp_path):
    def write(name="model", *, legacy=False, **changes):
        model = write_manylangs(tmp_path / name, make_architecture(**changes), legacy=legacy)
        return tmp_path / name, model

    return write


@pytest.mark.parametrize("kind", MANYLANGS_KINDS)
def test_layers_equal_the_reference(kind, make):
    folder, model = make(**MANYLANGS_KINDS[kind])
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
    bilm = load_bilm(make(**MANYLANGS_KINDS[kind])[0])
    together = bilm.embed(TEXT)
    backwards = bilm.embed(TEXT[::-1], batch_tokens=3)[::-1]
    bilm.word_cache.max_bytes = 0
    alone = [bilm.embed([words])[0] for words in TEXT]
    for first, second, third in zip(together, backwards, alone):
        assert np.abs(first - second).max() < 1e-5 and np.abs(first - third).max() < 1e-5


@pytest.mark.parametrize("kind", KEPT)
def test_gradients_ids_copies_and_boundaries(kind, make):
    bilm = load_bilm(make(**MANYLANGS_KINDS[kind])[0])
    wanted = np.concatenate(bilm.embed(TEXT), axis=1)
    rows = bilm.encode(TEXT, with_grad=True)
    assert np.abs(rows.detach().numpy() - wanted).max() < 1e-5
    rows.sum().backward()
    for name, parameter in bilm.network.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
    words = list(dict.fromkeys(word for sentence in TEXT for word in sentence))
    ids, _ = make_lexicon_codec(bilm.config, bilm.lexicon).encode(words)
    index = [[words.index(word) for word in sentence] for sentence in TEXT]
    assert np.abs(bilm.encode(index, char_ids=ids).numpy() - wanted).max() < 1e-5
    copied = pickle.loads(pickle.dumps(bilm))
    assert np.abs(np.concatenate(copied.embed(TEXT), axis=1) - wanted).max() < 1e-5
    assert bilm.embed([["a"]], boundaries=True)[0].shape[1] == 3


def test_plain_lstm_has_no_state(make):
    bilm = load_bilm(make(**MANYLANGS_KINDS["plain LSTM"])[0])
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


@needs_kernel
def test_plain_lstm_has_no_reduced_precision(make):
    bilm = load_bilm(make(**MANYLANGS_KINDS["plain LSTM"])[0])
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
    folder, _ = make(**MANYLANGS_KINDS["plain LSTM"])
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


# Files


@pytest.fixture
def folder(tmp_path):
    write_manylangs(tmp_path / "model", make_architecture())
    return tmp_path / "model"


def change_state(path, **changes):
    """None takes a tensor away."""
    state = torch.load(path, weights_only=True)
    for name, value in changes.items():
        state.pop(name) if value is None else state.update({name: value})
    torch.save(state, path)


def test_missing_files_are_listed_together(folder):
    for name in ("char.dic", "word.dic", "encoder.pkl"):
        (folder / name).unlink()
    with pytest.raises(ValueError, match="encoder.pkl, char.dic, word.dic missing"):
        load_bilm(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match="config.json, encoder.pkl missing"):
        load_bilm(folder)


def test_wrong_tensors_of_both_files_are_listed_together(folder):
    change_state(folder / "token_embedder.pkl", **{"projection.bias": torch.zeros(9), "more": torch.zeros(1)})
    change_state(
        folder / "encoder.pkl",
        **{
            "forward_layer_0.input_linearity.weight": None,
            "backward_layer_1.state_linearity.bias": torch.ones(24).long(),
        },
    )
    with pytest.raises(ValueError, match="4 problem") as error:
        load_bilm(folder)
    for part in (
        "wrong shape: token_embedder.pkl/projection.bias is [9], should be [4]",
        "unexpected: token_embedder.pkl/more",
        "missing: encoder.pkl/forward_layer_0.input_linearity.weight [24, 4]",
        "wrong type: encoder.pkl/backward_layer_1.state_linearity.bias is int64",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("<oov>\t0\n<pad>\t5\n", "line 2 has the id '5', should be a number from 0 to 1"),
        ("<oov>\t0\n<pad>\t0\n", "line 2 has the id 0 of '<oov>' again"),
        ("<oov>\t0\n<pad>\t1\n<pad>\t2\n", "line 3 has '<pad>' again"),
        ("<oov>\t0\n<pad>\t-1\n", "line 2 has the id '-1'"),
        ("<oov>\t0\n\n<pad>\t1\n", "line 2 has the id ''"),
        ("<oov>\t0\n<pad>\t" + "9" * 5000, "line 2 has the id '9999"),
        ("", "<oov> is missing"),
        ("\udcff\t0\n", "cannot be read as text in UTF-8: line 1 has the byte 0xff"),
    ],
)
def test_bad_tables_of_symbols(lines, wanted, tmp_path):
    path = tmp_path / "word.dic"
    path.write_bytes(lines.encode("utf8", "surrogateescape"))
    with pytest.raises(ValueError, match="cannot be (used as a table of symbols, one|read as text)") as error:
        read_symbols(File(path), ("<oov>", "<pad>"))
    assert wanted in str(error.value)


def test_blank_symbols_are_the_ideographic_space_and_the_last_one_counts(tmp_path):
    path = tmp_path / "char.dic"
    path.write_text("<oov>\t1\n \t0\n\u3000\t2\n\u00a0\t3\r\n", encoding="utf8")
    assert read_symbols(File(path), ()) == (None, "<oov>", None, "\u3000")


@pytest.mark.parametrize(
    "changes, wanted",
    [
        ({"encoder": {"n_layers": True}}, "encoder.n_layers is True"),
        ({"encoder": {"n_layers": 5000}}, "n_layers is 5000, should be at most 1000"),
        ({"encoder": {"cell_clip": ...}}, "encoder.cell_clip is missing"),
        ({"encoder": {"proj_clip": float("nan")}}, "encoder.proj_clip is nan"),
        ({"token_embedder": {"name": None}}, "token_embedder.name is null"),
        ({"token_embedder": {"activation": "gelu"}}, "activation is 'gelu'"),
        (
            {"token_embedder": {"filters": [[20, 4]]}},
            r"token_embedder.filters[0] is [20, 4], should be 1 to 10 characters wide",
        ),
        ({"token_embedder": {"filters": [[1, 2**40]]}}, "filters in all"),
        ({"token_embedder": {"char_dim": 0, "word_dim": 0}}, "neither characters nor words"),
        ({"token_embedder": ...}, "token_embedder is missing"),
    ],
)
def test_bad_architectures(changes, wanted, folder):
    (folder / "network.json").write_text(json.dumps(make_architecture(**changes)))
    with pytest.raises(ValueError, match="Use the file that came with the model, as a rule") as error:
        load_bilm(folder)
    assert wanted in str(error.value)


def test_architecture_is_found_within_the_folder_alone(folder, tmp_path):
    shutil.copy(folder / "network.json", tmp_path / "secret.json")
    (folder / "network.json").rename(folder / "odd.json")
    files = detect_manylangs(Listing(folder))
    for path in (str(tmp_path / "secret.json"), "../secret.json", "a/../../secret.json", None, 5, "", "."):
        (folder / "config.json").write_text(json.dumps({"config_path": path}))
        assert read_architecture(files)[1] == str(folder / "odd.json")
    (folder / "configs").mkdir()
    (folder / "odd.json").rename(folder / "configs" / "net.json")
    files = detect_manylangs(Listing(folder))
    (folder / "config.json").write_text(json.dumps({"config_path": "configs/net.json"}))
    assert read_architecture(files)[1] == str(folder / "configs" / "net.json")
    (folder / "config.json").write_text(json.dumps({"config_path": "../../secret.json"}))
    with pytest.raises(ValueError, match="there is no such file in the folder"):
        load_bilm(folder)


def test_architecture_of_the_published_models_is_known(folder):
    (folder / "network.json").unlink()
    path = "/users4/conll18st/elmo/configs/cnn_50_100_512_4096_sample.json"
    (folder / "config.json").write_text(json.dumps({"config_path": path}))
    record, where = read_architecture(detect_manylangs(Listing(folder)))
    config = make_config(*read_sizes(record, where), where, 6000, 150_000)
    assert (config.cell_width, config.projection_width, config.token_embedder.feature_width) == (4096, 512, 2148)
    with pytest.raises(ValueError, match="EL026.*do not fit .*_sample.json', 38 problem"):
        load_bilm(folder)


def test_zip_with_two_models_or_damage(folder, tmp_path):
    path = write_zip(tmp_path / "two.zip", folder, "a/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(folder / "encoder.pkl", "b/encoder.pkl")
    with pytest.raises(ValueError, match=r"two.zip' has 2 biLMs \(a, b\)"):
        load_bilm(path)
    content = bytearray(write_zip(tmp_path / "one.zip", folder).read_bytes())
    content[len(content) // 3] ^= 0xFF
    (tmp_path / "one.zip").write_bytes(content)
    with pytest.raises(ValueError, match="EL022"):
        load_bilm(tmp_path / "one.zip")


TABLE = torch.ones(50_000)
HOSTILE = {
    "expanded": ({"x": torch.ones(1).expand(2**30)}, "unexpected: encoder.pkl/x"),
    "another model": ({"weight": torch.ones(5000)}, ""),
    "shared": ({str(i): TABLE for i in range(500)}, "unexpected: encoder.pkl/"),
    "no file of torch": (None, "cannot be read as a state dict of PyTorch"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_state_dicts(kind, folder):
    value, wanted = HOSTILE[kind]
    (folder / "encoder.pkl").write_bytes(b"\0" * 500)
    if value is not None:
        torch.save(value, folder / "encoder.pkl")
    with pytest.raises(ValueError, match="encoder.pkl|do not fit") as error:
        load_bilm(folder)
    assert wanted in str(error.value)
