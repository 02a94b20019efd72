"""A small run from start to end."""

import math

import pytest
import srsly
import torch
from pretraining.small_run import TRANSFORMER, make_run

from spacy_elmo import load_bilm
from spacy_elmo.corpora.shards import find_shards
from spacy_elmo.pretraining.data import read_held_out
from spacy_elmo.pretraining.optimizer import MAX_OVERFLOWS
from spacy_elmo.pretraining.run_folder import list_checkpoints

PLAIN = {"dropout": 0.0, "recurrent_dropout": 0.0, "report_every": 20, "checkpoint_every": 0}


def _pretrain(text, output, **settings):
    run = make_run(output, text, meta={"name": "tiny"}, **{**PLAIN, **settings})
    run.begin()
    return list(run.reports())


@pytest.mark.parametrize("softmax, directions", [("sampled", "both"), ("full", "forward")])
@pytest.mark.parametrize("encoder", ["lstm", "transformer"])
def test_perplexity_falls_and_the_model_can_be_used(text, tmp_path, encoder, softmax, directions):
    sizes = {"directions": directions, **(TRANSFORMER if encoder == "transformer" else {})}
    layout = {"unroll_steps": 16, "max_sentence_tokens": 15} if encoder == "transformer" else {}
    softmax = {"kind": softmax, "n_negatives": 7}
    reports = _pretrain(text, tmp_path / "out", bilm=sizes, softmax=softmax, **layout)
    scores = [report.validation for report in reports if report.validation is not None]
    assert scores[-1].forward < (scores[0].forward if len(scores) > 1 else 20) <= 20
    bilm = load_bilm(tmp_path / "out" / "model-last")
    assert bilm.config.directions == directions and bilm.meta["name"] == "tiny" and bilm.config.encoder == encoder
    assert bilm.meta["training"]["n_tokens"] == reports[-1].n_tokens >= 32 * 60
    found = bilm.perplexity(read_held_out(find_shards(text), 1000), batch_size=4)
    assert found.forward == pytest.approx(scores[-1].forward, rel=1e-5)
    assert found.backward == pytest.approx(scores[-1].backward, rel=1e-5, nan_ok=True)
    if encoder == "lstm":
        stored = bilm.steady_state
        bilm.clear_caches()
        assert torch.allclose(stored.h, bilm.steady_state.h, atol=1e-6)
        assert (tmp_path / "out" / "model-last" / "weights.safetensors").read_bytes().find(b"steady") > 0


def test_the_run_ends_early_when_there_is_no_hope(text, tmp_path):
    reports = _pretrain(
        text, tmp_path / "out", eval_every=5, patience=2, schedule={"name": "constant"}, optimizer={"learn_rate": 1e-30}
    )
    scored = [report.is_best for report in reports if report.validation is not None]
    assert reports[-1].step < 60 and scored[-2:] == [False, False] and scored[0]
    assert not any(first is second is False for first, second in zip(scored[:-2], scored[1:-1]))


def test_float16_stops_when_no_factor_helps(text, tmp_path, monkeypatch):
    run = make_run(tmp_path / "out", text, **{**PLAIN, "report_every": 1}, precision="float16")
    run.begin()
    parameter = run.trainer.network.char_cnn.projection.weight
    parameter.register_hook(lambda grad: grad * float("inf"))
    with pytest.raises(ValueError, match=f"EL103.*not a finite number at step {MAX_OVERFLOWS - 1}"):
        for report in run.reports():
            assert math.isnan(report.loss)
    rows = list(srsly.read_jsonl(tmp_path / "out" / "log.jsonl"))
    assert rows[0]["loss"] is None and len(rows) == MAX_OVERFLOWS - 1


def test_a_diverged_run_keeps_the_good_checkpoint_and_resumes_with_a_lower_rate(text, tmp_path):
    """The update before a checkpoint spoils the weights, and the next one shows it."""
    settings = {**PLAIN, "checkpoint_every": 10, "keep_checkpoints": 1, "report_every": 1}
    run = make_run(tmp_path / "out", text, **settings, optimizer={"learn_rate": 0.02})
    run.begin()
    with pytest.raises(
        ValueError, match="EL103.*loss or its gradient is not .* at step 20.*step-00000010.*`resume=True`"
    ):
        for report in run.reports():
            if report.step == 20:
                with torch.no_grad():
                    run.trainer.head.weight.fill_(1e38)
    assert [path.name for path in list_checkpoints(tmp_path / "out")] == ["step-00000010"]
    run = make_run(tmp_path / "out", text, **settings, optimizer={"learn_rate": 0.01, "grad_clip": 0.5})
    run.begin(resume=True)
    reports = list(run.reports())
    assert reports[0].step == 11 and reports[-1].step == 60
