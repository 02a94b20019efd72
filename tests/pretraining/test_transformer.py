"""Pretraining a transformer biLM on whole sentences."""

import numpy as np
import pytest
import torch
from pretraining.small_run import make_run
from transformers_tiny import make_transformer

from spacy_elmo.inference.encoder import SequenceBatch
from spacy_elmo.inference.perplexity import sentence_losses
from spacy_elmo.pretraining import prepare
from spacy_elmo.pretraining.data import prepare_chunk
from spacy_elmo.pretraining.distributed import Ranks
from spacy_elmo.pretraining.optimizer import layer_groups
from spacy_elmo.pretraining.trainer import encode_chunk
from spacy_elmo.text.lanes import NumberedText, WholeSentenceLanes
from spacy_elmo.text.words import SpelledWords, WordTable

BILM = {
    "cell_width": 4096,  # the default, instead of that of the small LSTM
    "encoder": "transformer",
    "transformer": {"feedforward_width": 16, "n_heads": 2},
}
QUICK = {"unroll_steps": 16, "max_sentence_tokens": 15, "max_tokens": 16 * 4 * 20, "eval_every": 10, "bilm": BILM}

pytestmark = pytest.mark.usefixtures("one_thread")


def test_losses_in_lanes_equal_those_of_sentences():
    bilm = make_transformer(head=True)
    sentences = [["the", "bank", "."], [], ["x"] * 9, ["the", "bank", "of", "the", "river", "."], ["bank"] * 14]
    table = WordTable()
    lanes = WholeSentenceLanes(NumberedText.from_sentences(sentences, table), [(0, len(sentences))], 3)
    words = SpelledWords.from_words(table.words, bilm.vocabulary)
    total = n_predictions = 0
    with torch.no_grad():
        while (chunk := lanes.next_chunk(16)) is not None:
            prepared = prepare_chunk(words, chunk, 2, with_characters=True)
            layers, _ = encode_chunk(bilm.network, prepared, bilm.network.zero_state(3), has_resets=True)
            outputs = layers[-1].flatten(1, 2)[:, torch.from_numpy(chunk.counted.reshape(-1))]
            targets = torch.from_numpy(words.targets(chunk.counted_targets(2)))
            total += sum(bilm.head.token_losses(*pair).sum().item() for pair in zip(outputs, targets))
            n_predictions += chunk.n_predictions
    slices = bilm._encoder.slices(SequenceBatch.make(sentences), "reset", 100, with_boundaries=True)
    parts = sentence_losses(slices, bilm.head, bilm.vocabulary, sentences, 2)
    wanted = np.concatenate([part.losses for part in parts], axis=1)
    assert n_predictions == wanted.shape[1] == sum(len(words) + 1 for words in sentences)
    assert total == pytest.approx(wanted.sum(), rel=1e-5)


def test_discriminative_rates_and_unfreezing_know_its_layers(text, tmp_path):
    optimizer = {"learn_rate": 0.02, "layer_decay": 0.5, "unfreeze_tokens": 300}
    run = make_run(tmp_path / "out", text, **{**QUICK, "optimizer": optimizer})
    groups = layer_groups(run.trainer.network, run.trainer.head)
    assert list(groups) == ["head", "layers.1", "layers.0", "words"]
    assert "network.encoder.norm.weight" in groups["layers.1"]
    before = {name: weight.clone() for name, weight in run.trainer.network.state_dict().items()}
    run.begin()
    run.trainer.update()
    assert all(torch.equal(weight, before[name]) for name, weight in run.trainer.network.state_dict().items())
    while run.trainer.n_tokens < 1200:
        run.trainer.update()
    after = run.trainer.network.state_dict()
    unchanged = {name for name, weight in after.items() if torch.equal(weight, before[name])}
    assert not unchanged


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"reset_blocks": False}, "reset_blocks is false"),
        ({"max_sentence_tokens": 16}, r"max_sentence_tokens is 16, should be at most unroll_steps - 1 \(15\)"),
        ({"bilm": {**BILM, "transformer": {"n_heads": 2, "max_positions": 9}}}, r"max_positions - 2 \(7\)"),
    ],
)
def test_settings_that_need_a_state_are_refused(text, tmp_path, settings, message):
    given = {**QUICK, **settings}
    config = {"paths": {"train": str(text), "valid": str(text)}, "bilm": given.pop("bilm"), "pretraining": given}
    with pytest.raises(ValueError, match=f"{message}"):
        prepare.make_run(config, tmp_path / "out", Ranks())
    assert not (tmp_path / "out").exists()  # told before the text is tokenized
