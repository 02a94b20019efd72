"""The recipe of docs/adaptation.md: training of a biLM continues on other text, with its softmax or a new one."""

from pathlib import Path

import pytest
import srsly
import torch
from cli.calls import call
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo import load_bilm
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm

CONFIG = Path(__file__).parents[2] / "configs" / "adapt.cfg"
SENTENCES = ["the cat sat on the mat .".split(), "on the mat sat a tumour .".split()]
SMALL = [
    *("--pretraining.batch_size", "4", "--pretraining.unroll_steps", "8", "--pretraining.max_tokens", "640"),
    *("--pretraining.max_passes", "0"),
    *("--pretraining.eval_every", "10", "--pretraining.softmax.kind", "full", "--pretraining.precision", "float32"),
    *("--pretraining.optimizer.learn_rate", "0.02", "--pretraining.optimizer.unfreeze_tokens", "0"),
]


@pytest.fixture
def corpus(tmp_path):
    """Text of a domain, as the data of a named entity recognizer: a .spacy file."""
    path = tmp_path / "domain" / "train.spacy"
    path.parent.mkdir()
    DocBin(docs=[Doc(Vocab(), words=words) for words in SENTENCES * 20]).to_disk(path)
    return path


@pytest.fixture
def headless(bilm_path, tmp_path):
    """The tiny biLM as models are released: HDF5 and options, no softmax, no vocabulary."""
    save_bilm(BiLM(load_bilm(bilm_path).network), tmp_path / "tf", format="bilm-tf")
    assert load_bilm(tmp_path / "tf").head is None
    return tmp_path / "tf"


def _adapt(init, corpus, output, *changes):
    arguments = ["--paths.init", init, "--paths.train", corpus, "--paths.valid", corpus, *SMALL, *changes]
    call("pretrain", CONFIG, output, *arguments)
    return load_bilm(output / "model-last")


def _changed(before, after):
    """Layers of the network, "layers.0" for instance, in which a weight differs."""
    other = dict(after.network.named_parameters())
    names = [name for name, weight in before.network.named_parameters() if not torch.equal(weight, other[name])]
    return {"char_cnn" if name.startswith("char_cnn") else ".".join(name.split(".")[1:3]) for name in names}


def test_softmax_and_vocabulary_are_kept(bilm_path, corpus, tmp_path):
    """Perplexities before and after are over the same words, so they can be compared."""
    before, after = load_bilm(bilm_path), _adapt(bilm_path, corpus, tmp_path / "out")
    assert after.vocabulary.words == before.vocabulary.words
    assert _changed(before, after) == {"layers.0", "layers.1", "char_cnn"}
    assert after.perplexity(SENTENCES).mean < 0.95 * before.perplexity(SENTENCES).mean


def test_only_the_new_softmax_is_trained_first(headless, corpus, tmp_path):
    """As long as `unfreeze_tokens` last the biLM stays what it was, bit for bit."""
    after = _adapt(headless, corpus, tmp_path / "out", "--pretraining.optimizer.unfreeze_tokens", "1000")
    assert _changed(load_bilm(headless), after) == set()
    assert "tumour" in after.vocabulary.words and after.head is not None
    rows = [row for row in srsly.read_jsonl(tmp_path / "out" / "log.jsonl") if "forward" in row]
    assert rows[-1]["forward"] < rows[0]["forward"]


def test_words_of_both_vocabularies_keep_their_softmax_weights(bilm_path, corpus, tmp_path):
    """With a learning rate that changes nothing, a known word has the logit that it had; a new word is random."""
    options = ["--vocabulary.new_head", "true", "--pretraining.optimizer.learn_rate", "1e-30"]
    before, after = load_bilm(bilm_path), _adapt(bilm_path, corpus, tmp_path / "out", *options)
    known = {word: row for row, word in enumerate(before.vocabulary.words)}
    shared = [row for row, word in enumerate(after.vocabulary.words) if word in known]
    assert 3 < len(shared) < len(after.vocabulary)
    old_rows = [known[after.vocabulary.words[row]] for row in shared]
    assert torch.equal(after.head.weight[shared], before.head.weight[old_rows])
    torch.testing.assert_close(after.head.bias[shared], before.head.bias[old_rows], atol=1e-20, rtol=0.0)
    tumour = after.head.weight[after.vocabulary.words.index("tumour")]
    assert not (before.head.weight == tumour).all(dim=1).any()


@pytest.mark.parametrize("name", ["bilm-tf/model", "allennlp"])
def test_released_weights_go_on(shared_data, corpus, tmp_path, name):
    """Those of bilm-tf and AllenNLP; what comes out is a biLM with softmax that also reads as HDF5."""
    init = shared_data / "elmo-fixtures" / name / "lm_weights.hdf5"
    after = _adapt(init, corpus, tmp_path / "out", "--pretraining.optimizer.unfreeze_tokens", "150")
    assert _changed(load_bilm(init), after) == {"layers.0", "layers.1", "char_cnn"}
    rows = [row for row in srsly.read_jsonl(tmp_path / "out" / "log.jsonl") if "forward" in row]
    assert rows[-1]["forward"] < rows[0]["forward"] < 50


def test_the_model_says_what_it_was_adapted_from(bilm_path, corpus, tmp_path):
    adapted = _adapt(bilm_path, corpus, tmp_path / "out")
    assert adapted.meta["init"] == {"path": str(bilm_path), "meta": load_bilm(bilm_path).meta}
    assert "training" in adapted.meta and adapted.meta["training"]["corpus"] == ["train.spacy"]


@pytest.mark.issue(48)
def test_licence_and_language_of_the_initial_bilm_stay(bilm, corpus, tmp_path):
    bilm = BiLM(
        bilm.network, vocabulary=bilm.vocabulary, head=bilm.head, meta={"lang": "nb", "license": "CC BY-SA 4.0"}
    )
    save_bilm(bilm, tmp_path / "nb", format="bilm-tf")
    meta = _adapt(tmp_path / "nb", corpus, tmp_path / "out", "--meta.lang", "null").meta
    assert (meta["lang"], meta["license"]) == ("nb", "CC BY-SA 4.0")
    meta = _adapt(tmp_path / "nb", corpus, tmp_path / "out", "--force", "--meta.license", "mine").meta
    assert (meta["lang"], meta["license"]) == ("en", "mine")
