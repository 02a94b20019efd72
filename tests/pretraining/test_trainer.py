"""Updates: losses in lanes are those of sentences, halves make a whole; CUDA graphs on a GPU."""

import math

import pytest
import srsly
import torch
from pretraining.small_run import make_run
from transformers_tiny import make_transformer

from spacy_elmo.pretraining.data import prepare_chunk
from spacy_elmo.pretraining.distributed import Ranks
from spacy_elmo.pretraining.trainer import encode_chunk
from spacy_elmo.text.lanes import NumberedText, WholeSentenceLanes
from spacy_elmo.text.words import SpelledWords, WordTable

PLAIN = {"dropout": 0.0, "recurrent_dropout": 0.0}


@pytest.mark.usefixtures("one_thread")
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
    wanted = bilm.perplexity(sentences, state="reset")
    assert n_predictions == wanted.n_tokens == sum(len(words) + 1 for words in sentences)
    assert total == pytest.approx(n_predictions * math.log(wanted.forward * wanted.backward), rel=1e-5)


@pytest.mark.usefixtures("one_thread")
def test_halves_are_averaged_into_the_gradient_of_the_whole(text, tmp_path):
    """Two chunks of 4 steps read the same tokens as one of 8, but the state's gradient is cut between them."""
    whole, halves = make_run(tmp_path / "a", text, **PLAIN), make_run(tmp_path / "b", text, **PLAIN, accumulate=2)
    for run in (whole, halves):
        run.begin()
    first, second, both = whole.trainer.update(), whole.trainer.update(), halves.trainer.update()
    assert halves.trainer.n_tokens == whole.trainer.n_tokens
    assert float(both.loss) == pytest.approx((float(first.loss) + float(second.loss)) / 2, rel=0.02)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
ON_GPU = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16", "accumulate": 2},
    "sparse": {"optimizer": {"name": "adagrad", "learn_rate": 0.2, "grad_clip": 10.0, "sparse": True}},
    "resets": {"reset_blocks": True, "recurrent_dropout": 0.0},
}


def _run(output, text, monkeypatch, *, graphs, **settings):
    monkeypatch.setenv("SPACY_ELMO_CUDA_GRAPHS", graphs)
    return make_run(output, text, ranks=Ranks(device=torch.device("cuda")), max_tokens=32 * 24, **settings)


def _losses(output):
    return [row["loss"] for row in srsly.read_jsonl(output / "log.jsonl")]


def _finish(run):
    run.begin(resume=True)
    for number, _ in enumerate(run.reports()):
        assert number < 4 or any(any(layer.graphs.graphs.values()) for layer in run.trainer.network.encoder.layers)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("settings", ON_GPU.values(), ids=ON_GPU)
def test_losses_are_those_of_the_loop(text, tmp_path, monkeypatch, settings):
    run = _run(tmp_path / "loop", text, monkeypatch, graphs="0", **settings)
    run.begin()
    list(run.reports())
    wanted = _losses(tmp_path / "loop")
    run = _run(tmp_path / "graphs", text, monkeypatch, graphs="", **settings)
    _finish(run)
    assert _losses(tmp_path / "graphs") == pytest.approx(wanted, rel=5e-3)
    parts = _run(tmp_path / "parts", text, monkeypatch, graphs="", **settings)
    parts.begin()
    for report in parts.reports():
        if report.step >= 10:
            break
    _finish(_run(tmp_path / "parts", text, monkeypatch, graphs="", **settings))
    assert _losses(tmp_path / "parts") == pytest.approx(wanted, rel=5e-3)


@pytest.mark.gpu
@needs_gpu
def test_the_recurrence_does_not_wait_for_the_device(text, tmp_path, monkeypatch):
    run = _run(tmp_path / "run", text, monkeypatch, graphs="", dropout=0.0, recurrent_dropout=0.0)
    run.begin()
    for _ in range(4):
        run.trainer.update()
    trainer, (chunk,) = run.trainer, run.trainer.reader.read().chunks
    vectors = torch.randn(9, trainer.network.config.projection_width, device="cuda")
    places = torch.zeros(chunk.places.shape, dtype=torch.long, device="cuda")
    resets = torch.zeros(chunk.begins.shape, dtype=torch.bool, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        layers, _ = trainer.network(vectors, places, trainer.state, resets=resets)
        layers[-1].sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    trainer.release()
