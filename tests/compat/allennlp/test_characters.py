"""Ids of AllenNLP: the character mapper, the indexer, the character encoder, widths of words."""

import numpy as np
import pytest
import torch
from compat.tiny import CONFIG, make_bilm, save_files

from spacy_elmo import BiLMConfig
from spacy_elmo.compat.allennlp import (
    ConfigurationError,
    Elmo,
    ElmoCharacterEncoder,
    ELMoCharacterMapper,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    _ElmoCharacterEncoder,
    batch_to_ids,
)

LONG = [["a", "cat", "internationalization", "\u570b\u969b\u5316" * 3, "", "<S>"], [], ["\u6578" * 14]]


@pytest.fixture(scope="module")
def of_width(files, tmp_path_factory):
    """Make a biLM that reads another number of characters for each word, as many biLMs for Chinese do."""

    def make(width):
        characters = {**CONFIG.to_dict()["char_cnn"], "max_characters": width}
        bilm = make_bilm(BiLMConfig.from_dict({**CONFIG.to_dict(), "char_cnn": characters}))
        return save_files(bilm, tmp_path_factory.mktemp("width"))

    return make


def test_the_attributes_of_the_character_mapper():
    mapper = ELMoCharacterMapper
    assert (mapper.beginning_of_sentence_character, mapper.end_of_sentence_character) == (256, 257)
    assert (mapper.beginning_of_word_character, mapper.end_of_word_character) == (258, 259)
    assert (mapper.padding_character, mapper.max_word_length) == (260, 50)
    assert mapper.beginning_of_sentence_characters == [258, 256, 259, *[260] * 47]
    assert mapper.end_of_sentence_characters == [258, 257, 259, *[260] * 47]
    for token, ids in (("<S>", "beginning_of_sentence_characters"), ("</S>", "end_of_sentence_characters")):
        assert mapper().convert_word_to_char_ids(token) == [number + 1 for number in getattr(mapper, ids)]
    assert mapper().convert_word_to_char_ids(chr(256) + "t")[:6] == [259, 197, 129, 117, 260, 261]
    assert mapper({"<first>": 1}).convert_word_to_char_ids("<first>")[:4] == [259, 2, 260, 261]
    assert mapper() == mapper() and mapper() != mapper({"a": 1})
    with pytest.raises(ConfigurationError, match="first> is 300, should be at most 260"):
        mapper({"<first>": 300})


def test_indexer_gives_the_ids_of_batch_to_ids():
    class Token:
        text = "bank"

    indexer = ELMoTokenCharactersIndexer()
    indices = indexer.tokens_to_indices(["the", Token()], None)
    found = indexer.as_padded_tensor_dict(indices, {"elmo_tokens": 3})["elmo_tokens"]
    assert found[:2].tolist() == batch_to_ids([["the", "bank"]])[0].tolist() and not found[2].any()
    empty = indexer.as_padded_tensor_dict(indexer.get_empty_token_list(), {"elmo_tokens": 1})
    assert empty["elmo_tokens"].tolist() == [[0] * 50]
    indexer.count_vocab_items("the", {})


def test_character_encoder_adds_the_boundaries(files):
    encoder = _ElmoCharacterEncoder(files.options, files.weights)
    output = encoder(batch_to_ids([["<S>", "bank", "</S>"], ["bank"]]))
    rows = output["token_embedding"]
    assert encoder.get_output_dim() == 8 and rows.shape == (2, 5, 8)
    assert torch.equal(rows[0, 0], rows[0, 1]) and torch.equal(rows[0, 3], rows[0, 4])
    assert torch.equal(rows[1, 1], rows[0, 2]) and not rows[1, 3:].any()
    assert output["mask"].tolist() == [[True] * 5, [True] * 3 + [False] * 2]


@pytest.mark.parametrize("width", [4, 64])
def test_words_are_spelled_in_the_width_of_the_bilm(of_width, width):
    files = of_width(width)
    wanted = files.bilm.embed(LONG, state=None)
    for rows, layers in zip(ElmoEmbedder(files.options, files.weights).embed_batch(LONG), wanted, strict=True):
        np.testing.assert_allclose(rows, layers, atol=1e-5)
    indices = ELMoTokenCharactersIndexer().tokens_to_indices(LONG[0])
    by_indexer = ELMoTokenCharactersIndexer().as_padded_tensor_dict(indices, {"elmo_tokens": 6})["elmo_tokens"]
    for ids, mine in (
        (batch_to_ids(LONG), wanted),
        (batch_to_ids(LONG, width), wanted),
        (batch_to_ids(LONG, max_characters=70), wanted),
        (by_indexer[None], wanted[:1]),
    ):
        output = Elmo(files.options, files.weights, 1, dropout=0.0)(ids)
        rows, mask = output["elmo_representations"][0].detach(), output["mask"]
        np.testing.assert_allclose(rows[mask], np.concatenate([part.mean(axis=0) for part in mine]), atol=1e-5)
        assert ElmoTokenEmbedder(files.options, files.weights)(ids).shape == rows.shape
        vectors = ElmoCharacterEncoder(files.options, files.weights)(ids)["token_embedding"]
        assert vectors.shape == (len(mine), ids.shape[1] + 2, 8)


def test_ids_that_cannot_be_read_in_another_width_say_what_to_pass(of_width):
    wide, narrow = of_width(64), of_width(10)
    for files, ids, width in (
        (wide, batch_to_ids([["a" * 60]]), 64),  # truncated: what comes behind is not known
        (narrow, torch.full((1, 2, 50), 5), 10),  # no words
    ):
        with pytest.raises(ValueError, match=f"max_characters_per_token.*batch_to_ids.*max_characters={width}"):
            Elmo(files.options, files.weights, 1)(ids)
    assert wide.bilm.embed([["a" * 60]])[0].shape == (3, 1, 16)
    Elmo(wide.options, wide.weights, 1)(batch_to_ids([["a" * 60]], max_characters=64))


@pytest.mark.parametrize(
    "ids, problem",
    [
        (torch.full((2, 3, 40), 5), "EL017.*40 for each word.*50.*max_characters_per_token.*max_characters=50"),
        (torch.zeros(2, 3, 50), "EL017.*float32"),
        (torch.full((2, 3, 50), 262), "EL017.*262.*0 to 261"),
        (torch.tensor([0, 5]).view(1, 2, 1).expand(1, 2, 50), "EL017.*before the last word"),
        (torch.zeros(0, 3, 50, dtype=torch.long), "no sentences"),
        ([["The", "bank"]], "EL017.*list"),
    ],
)
def test_invalid_ids_are_refused(files, ids, problem):
    with pytest.raises(ValueError, match=problem):
        Elmo(files.options, files.weights, 1)(ids)
