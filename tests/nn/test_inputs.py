"""Batches of words or of character ids: padding, boundaries, errors."""

import pytest
import torch
from nn.tiny import SENTENCES, WIDTH, make_bilm

from spacy_elmo.nn import Elmo, batch_to_ids
from spacy_elmo.nn.inputs import pad_rows, read_inputs, strip_boundaries, with_boundaries, without_boundaries


def test_read_inputs_has_each_distinct_word_once():
    words, ids = read_inputs(SENTENCES), read_inputs(batch_to_ids(SENTENCES), 259)
    assert words.sentences == SENTENCES and words.char_ids is None and torch.equal(words.mask, ids.mask)
    assert words.mask.sum(dim=1).tolist() == [6, 0, 1, 4] and len(ids.char_ids) == len(
        {w for s in SENTENCES for w in s}
    )
    rows = torch.cat([ids.char_ids[numbers] for numbers in ids.sentences])
    assert torch.equal(rows, batch_to_ids(SENTENCES)[ids.mask])


def test_rows_of_boundaries_are_removed_with_and_without_padding():
    mask = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    outer = with_boundaries(mask)
    assert outer.sum(dim=1).tolist() == [4, 3, 2]
    rows = torch.arange(1.0, 10.0).unsqueeze(1)  # (N, 1)
    (inner,), inner_mask = without_boundaries([rows], outer)
    assert inner.squeeze(1).tolist() == [2.0, 3.0, 6.0] and torch.equal(inner_mask, mask)
    padded, padded_mask = strip_boundaries(pad_rows(rows, outer), outer)
    assert torch.equal(padded, pad_rows(inner, mask)) and torch.equal(padded_mask, mask)


@pytest.mark.parametrize("sentences", [[[]], [[], []]])
@pytest.mark.parametrize("trainable", [False, True])
def test_sentences_without_words_have_an_empty_row(sentences, trainable):
    elmo = Elmo(make_bilm(), trainable=trainable)
    for inputs in (sentences, batch_to_ids(sentences)):
        output = elmo(inputs)
        assert output.representations[0].shape == (len(sentences), 0, WIDTH) and output.mask.shape[1] == 0
    padded = elmo(torch.zeros(2, 3, 50, dtype=torch.long))
    assert padded.representations[0].shape == (2, 3, WIDTH) and not padded.mask.any()


@pytest.mark.parametrize("n_characters", [3, None, 50.0])
def test_batch_to_ids_needs_a_whole_number_of_characters(n_characters):
    with pytest.raises(ValueError, match=f"EL060.*batch_to_ids.*max_characters is {n_characters!r},"):
        batch_to_ids(SENTENCES, n_characters)
    with pytest.raises(ValueError, match="given as NoneType"):
        batch_to_ids(None)


@pytest.mark.parametrize(
    "inputs, message",
    [
        ("She sat", "EL011.*Sentence 0 is a string"),
        ([["She"], [1]], "EL011.*Sentence 1 is a list with items that are not strings"),
        ([], "no sentences"),
        (torch.zeros(0, 3, 50, dtype=torch.long), "no sentences"),
        (None, "given as NoneType"),
        (torch.ones(3, 50, dtype=torch.long), r"EL017.*shape \(3, 50\), should have \(B, S, C\)"),
        (torch.tensor([259, 262]).repeat(25).view(1, 1, 50), "EL017.*259 to 262, should be 0 to 261"),
        (torch.ones(1, 3, 50), "EL017.*torch.float32"),
        ((batch_to_ids(SENTENCES) - 1).clamp(min=0), "EL017.*begins with 258, should begin with 259"),
        (torch.tensor([0, 1]).view(1, 2, 1).expand(1, 2, 50), "EL017.*row of zeros"),
    ],
)
def test_invalid_input_is_an_error(inputs, message):
    with pytest.raises(ValueError, match=message):
        Elmo(make_bilm())(inputs)
