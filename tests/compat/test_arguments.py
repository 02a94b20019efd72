"""What all replacements promise: a string is a sentence of characters, `~` is the home folder, bad input is named."""

import io

import numpy as np
import pytest
import torch
from compat.tiny import VOCABULARY

from spacy_elmo.compat import bilm
from spacy_elmo.compat.allennlp import (
    ConfigurationError,
    Elmo,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    ScalarMix,
    batch_to_ids,
)
from spacy_elmo.compat.elmoformanylangs import Embedder
from spacy_elmo.compat.simple_elmo import ElmoModel

LAYER = torch.ones(1, 2, 3)


def simple(folder, **settings):
    model = ElmoModel()
    model.load(folder, **settings)
    return model


# From the files and sentences to arrays.
READERS = {
    "batch_to_ids": lambda files, batch: batch_to_ids(batch),
    "embed_batch": lambda files, batch: ElmoEmbedder(files.options, files.weights).embed_batch(batch),
    "indexer": lambda files, batch: [
        np.array(ELMoTokenCharactersIndexer().tokens_to_indices(words)["elmo_tokens"]) for words in batch
    ],
    "Batcher": lambda files, batch: bilm.Batcher(files.vocab, 50).batch_sentences(batch),
    "TokenBatcher": lambda files, batch: bilm.TokenBatcher(files.vocab).batch_sentences(batch),
    "encode": lambda files, batch: [bilm.Vocabulary(files.vocab).encode(words, split=False) for words in batch],
    "encode_chars": lambda files, batch: [
        bilm.UnicodeCharsVocabulary(files.vocab, 10).encode_chars(words, split=False) for words in batch
    ],
    "get_elmo_vectors": lambda files, batch: simple(files.weights.parent).get_elmo_vectors(batch),
    "sents2elmo": lambda files, batch: Embedder(files.weights.parent).sents2elmo(batch),
}


@pytest.mark.parametrize("name", READERS)
def test_a_string_is_a_sentence_of_characters(files, name):
    texts = ["\u6578\u4f4d\u5b78", "MALLHS", "a b", "\N{GRINNING FACE}e\u0301", "", ["a", "word"]]
    found, wanted = (READERS[name](files, batch) for batch in (texts, [list(text) for text in texts]))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_tilde_is_the_home_folder(files, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(files.vocab.parent))
    (files.vocab.parent / "text.txt").write_text("the bank\n")
    paths = "~/bilm/options.json", f"~/bilm/{files.weights.name}"
    embedder = ElmoEmbedder(*paths)
    assert Elmo(*paths, 1).get_output_dim() == ElmoTokenEmbedder(*paths).get_output_dim() == 16
    assert Elmo(None, "~/bilm", 1).get_output_dim() == simple("~/bilm").vector_size == 16
    assert Embedder("~/bilm").sents2elmo([["the"]])[0].shape == (1, 16)
    bilm.dump_bilm_embeddings("~/vocab.txt", "~/text.txt", *paths, tmp_path / "a.hdf5")
    bilm.dump_token_embeddings("~/vocab.txt", *paths, tmp_path / "b.hdf5")
    monkeypatch.setenv("HOME", str(tmp_path))
    embedder.embed_file(io.StringIO("a b"), "~/vectors.hdf5")
    assert (tmp_path / "vectors.hdf5").is_file()
    bilm.BidirectionalLanguageModel(files.options, files.weights, False, "~/b.hdf5")
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        ElmoEmbedder(*paths)


def embed_lines(f, text, *args, **settings):
    ElmoEmbedder(f.options, f.weights).embed_file(io.StringIO(text), f.vocab.parent / "no.hdf5", *args, **settings)


def bilm_tf(f, *args, **settings):
    return bilm.BidirectionalLanguageModel(f.options, f.weights, *args, **settings)


SMALL = "elmo/2x1024_128_2048cnn_1xhighway/elmo_2x1024_128_2048cnn_1xhighway"
BAD = [  # what the error says, and the call
    ("https://.*`python -m spacy elmo download original --dest elmo`", lambda f: ElmoTokenEmbedder()),
    ("elmo download small --dest elmo", lambda f: Elmo(f"https://host/models/{SMALL}_options.json", f.weights, 1)),
    ("elmo/options.json.*elmo download original --dest elmo", lambda f: Elmo("elmo/options.json", f.weights, 1)),
    ("s3://", lambda f: Elmo(None, "s3://bucket/weights.hdf5", 1)),
    ("https://host", lambda f: bilm.BidirectionalLanguageModel("https://host/options.json", f.weights)),
    ("193.zip", lambda f: simple("http://vectors.nlpl.eu/repository/20/193.zip")),
    ("144.zip", lambda f: Embedder("http://vectors.nlpl.eu/repository/11/144.zip")),
    ("weight_file.*nowhere.hdf5", lambda f: Elmo(f.options, "nowhere.hdf5", 1)),
    ("no weight_file at .None.", lambda f: Elmo(f.options, None, 1)),
    ("num_output_representations is -1", lambda f: Elmo(f.options, f.weights, -1)),
    ("word_inputs", lambda f: Elmo(f.options, f.weights, 1, vocab_to_cache=VOCABULARY)(batch_to_ids([["a"]]), LAYER)),
    (" 2 lines.*line 2", lambda f: embed_lines(f, "a\n\n \nb")),
    ("output_format is 'mean'", lambda f: embed_lines(f, "a", "mean")),
    ("duplicated", lambda f: embed_lines(f, "a b\na b", use_sentence_keys=True)),
    ("slash", lambda f: embed_lines(f, "and / or", use_sentence_keys=True)),
    ("readlines", lambda f: ElmoEmbedder(f.options, f.weights).embed_file("text.txt", "no.hdf5")),
    ("EL011", lambda f: ElmoEmbedder(f.options, f.weights).embed_batch("not tokenized")),
    ("is 5 layers.*be 3 layers", lambda f: ScalarMix(3)([LAYER] * 5)),
    ("initial_scalar_parameters.*3 numbers", lambda f: ScalarMix(3, initial_scalar_parameters=[0.0, 0.0])),
    ("mask", lambda f: ScalarMix(3, do_layer_norm=True)([LAYER] * 3)),
    ("embedding_weight_file.*none.hdf5", lambda f: bilm_tf(f, False, "none.hdf5")),
    ("missing: embedding", lambda f: bilm_tf(f, False, f.weights)),
    ("max_batch_size", lambda f: bilm_tf(f, max_batch_size=0)),
    ("max_token_length|max_word_length", lambda f: bilm.Batcher(f.vocab, 2)),
    ("no sentences", lambda f: bilm.Batcher(f.vocab, 50).batch_sentences([])),
    ("dataset_file", lambda f: bilm.dump_bilm_embeddings(f.vocab, "no.txt", f.options, f.weights, "no.hdf5")),
    ("spacy_elmo.nn.ScalarMix", lambda f: bilm.weight_layers("input", {}, l2_coef=0.0)),
    ("load", lambda f: ElmoModel().get_elmo_vectors([["a"]])),
    ("layers is 'mean'.*'average'", lambda f: simple(f.weights.parent).get_elmo_vectors([["a"]], layers="mean")),
    ("warmup is 'top'", lambda f: simple(f.weights.parent).get_elmo_vectors([["a"]], "top")),
    ("session is .*None", lambda f: simple(f.weights.parent).get_elmo_vector_average([["a"]], session=object())),
    ("EL007.*softmax", lambda f: simple(f.weights.parent, full=True)),
    ("EL020", lambda f: simple("nowhere")),
    ("find_substitutes", lambda f: simple(f.weights.parent).get_elmo_substitutes(["a text"])),
    ("output_layer.*0 to 2", lambda f: Embedder(f.weights.parent).sents2elmo([["a"]], 3)),
    ("output_layer.*0 to 2", lambda f: Embedder(f.weights.parent).sents2elmo([["a"]], True)),
    ("EL011", lambda f: Embedder(f.weights.parent).sents2elmo("not tokenized")),
    ("batch_size", lambda f: Embedder(f.weights.parent, batch_size=0)),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_named_and_leaves_no_file(files, number):
    message, call = BAD[number]
    with pytest.raises((ValueError, AttributeError, NotImplementedError), match=message):
        call(files)
    assert not list(files.vocab.parent.rglob("*no.hdf5*"))
