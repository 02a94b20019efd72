"""The recipe of docs/adaptation.md: training of a biLM continues on other text, with its softmax or a new one."""

import re
from pathlib import Path

import numpy as np
import pytest
import srsly
import torch
from cli.calls import SMALL_RUN, as_options, call, call_json, follow
from cli.conftest import WORDS
from reference.seeded_weights import make_arrays, make_options, make_softmax
from reference.tensorflow_files import write_checkpoint
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo import load_bilm
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm

CONFIG = Path(__file__).parents[2] / "configs" / "adapt.cfg"
SENTENCES = ["the cat sat on the mat .".split(), "on the mat sat a tumour .".split()]
LENGTH = {"pretraining.max_tokens": 640, "pretraining.max_passes": 0, "pretraining.eval_every": 10}
RATES = {"pretraining.optimizer.learn_rate": 0.02, "pretraining.optimizer.unfreeze_tokens": 0}
SMALL = as_options({**SMALL_RUN, **LENGTH, **RATES})


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
    assert after.meta["init"] == {"path": str(bilm_path), "meta": before.meta}
    assert after.meta["training"]["corpus"] == ["train.spacy"]


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


def test_a_checkpoint_of_bilm_tf_goes_on_and_resumes(corpus, tmp_path):
    options = make_options(lstm={"dim": 6, "projection_dim": 4}, char_cnn={"filters": [[1, 4], [2, 3]], "n_highway": 1})
    arrays = {**make_arrays(options), **make_softmax(options, n_words=len(WORDS))}
    sums = {name: 1 + np.abs(array) for name, array in arrays.items()}
    checkpoint = write_checkpoint(tmp_path / "training", options, arrays, WORDS, accumulators=sums)
    assert call_json("inspect", checkpoint / "model.ckpt-7")["origin"]["format"] == "tf-checkpoint"
    adagrad = ("--pretraining.optimizer.name", "adagrad")
    after = _adapt(checkpoint, corpus, tmp_path / "out", *adagrad, "--pretraining.max_tokens", "320")
    assert after.meta["init"]["meta"]["n_updates"] == 7
    _adapt(checkpoint, corpus, tmp_path / "out", *adagrad, "--resume")


@pytest.mark.issue(48)
def test_licence_and_language_of_the_initial_bilm_stay(bilm, corpus, tmp_path):
    bilm = BiLM(
        bilm.network, vocabulary=bilm.vocabulary, head=bilm.head, meta={"lang": "nb", "license": "CC BY-SA 4.0"}
    )
    save_bilm(bilm, tmp_path / "nb", format="bilm-tf")
    meta = _adapt(tmp_path / "nb", corpus, tmp_path / "out").meta
    assert (meta["lang"], meta["license"]) == ("nb", "CC BY-SA 4.0")
    meta = _adapt(
        tmp_path / "nb", corpus, tmp_path / "out", "--force", "--meta.license", "mine", "--meta.lang", "nn"
    ).meta
    assert (meta["lang"], meta["license"]) == ("nn", "mine")


@pytest.mark.issue(59)
@pytest.mark.parametrize("lang", ["xx", None])
def test_next_commands_are_in_the_language_of_the_initial_bilm(bilm, lang, corpus, tmp_path):
    """The biLM is given for training, not for the config; a language that is not stated is not invented."""
    network = {"vocabulary": bilm.vocabulary, "head": bilm.head}
    save_bilm(BiLM(bilm.network, **network, meta={"lang": lang} if lang else None), tmp_path / "init")
    call("init-adaptation", tmp_path / "adapt.cfg")
    texts = ["--paths.init", tmp_path / "init", "--paths.train", corpus, "--paths.valid", corpus]
    result = call("pretrain", tmp_path / "adapt.cfg", tmp_path / "out", *texts, *SMALL)
    assert load_bilm(tmp_path / "out" / "model-best").meta.get("lang") == lang
    train = result.stderr.splitlines()[-1].split()
    assert train[train.index("--lang") + 1] == lang if lang else "--lang" not in train
    follow(train, tmp_path)


@pytest.mark.issue(59)
def test_length_of_a_run_is_the_same_before_and_after(bilm_path, corpus, tmp_path):
    options = ["--paths.init", bilm_path, "--paths.train", corpus, "--paths.valid", corpus, *SMALL]
    result = call("pretrain", CONFIG, tmp_path / "out", *options)
    lengths = re.findall(r"([\d,]+) predictions per\s+direction:\s+([\d.]+) passes", result.output)
    assert len(lengths) == 2 and lengths[0] == lengths[1]
