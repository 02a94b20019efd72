"""Runs on a GPU: CUDA graphs change no loss beyond rounding, and a stopped run continues."""

import pytest
import srsly
import torch
from pretraining.small_run import make_run

from spacy_elmo.pretraining.distributed import Ranks

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.issue(41),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU"),
]
SETTINGS = {
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


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
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
