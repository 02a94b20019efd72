"""Score against speed: what is measured, what is left out, and the picture."""

import pytest
import spacy
import srsly
from spacy.training import Corpus

from spacy_elmo.pipeline.model import make_random_bilm

SCRIPT = "choice"
CHAR_CNN = {"embedding_width": 4, "filters": [[1, 8]], "n_highway": 1}
BILM = {"char_cnn": CHAR_CNN, "cell_width": 16, "projection_width": 8}
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
TUNING = {"@misc": "spacy-elmo.FineTuning.v1", "top_rate": 0.5}


def _keep(nlp, folder, condition, score, **settings):
    path = folder / f"sample-{condition}-100pct-seed0"
    nlp.to_disk(path)
    srsly.write_json(path / "result.json", {"settings": {"task": "sample", **settings}, "test": {"ents_f": score}})


def test_kept_pipelines_are_measured(script, invoke, tmp_path):
    nlp = spacy.blank("en")
    _keep(nlp, tmp_path, "baseline", 0.25)
    _keep(nlp, tmp_path, "floret", 0.5, source={"kind": "floret"})
    nlp.to_disk(tmp_path / "other")
    only = f"other={tmp_path / 'other'}"
    arguments = ("--pipelines", tmp_path, "--results", tmp_path / "out", "--repeats", 2, "--speed-only", only)
    result = invoke(script.choice_cli, "--task", "sample", *arguments)
    assert "sample-elmo-100pct-seed0 was not kept" in result.output
    stored = srsly.read_json(tmp_path / "out" / "choice-sample.json")
    assert [(row["label"], row["score"]) for row in stored["rows"]] == [
        ("tok2vec", 0.25),
        ("tok2vec with floret", 0.5),
        ("other", None),
    ]
    assert all(0 < row["lowest"] <= row["words_per_s"] <= row["highest"] for row in stored["rows"])
    assert str(tmp_path) not in (tmp_path / "out" / "choice-sample.json").read_text()


@pytest.mark.issue(16)
def test_pipelines_of_different_weights_are_not_ranked(script, invoke, tmp_path):
    nlp = spacy.blank("en")
    _keep(nlp, tmp_path, "baseline", 0.25)
    _keep(nlp, tmp_path, "elmo", 0.5, bilm="en_elmo_sm", bilm_digest="of-new")
    _keep(nlp, tmp_path, "elmo-finetuned", 0.6, bilm="en_elmo_sm", bilm_digest="of-old")
    result = invoke(
        script.choice_cli, "--task", "sample", "--pipelines", tmp_path, "--results", tmp_path / "out", code=1
    )
    told = "".join(result.output.split())
    assert "differentweights" in told and "paper.pysample--seed0--keep" in told
    assert "sample-elmo-100pct-seed0(of-new),sample-elmo-finetuned-100pct-seed0(of-old)" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_int8_is_scored_again(script, invoke, import_script, tmp_path):
    import_script("data").prepare("sample", tmp_path / "corpus")
    settings = {"frozen": False, "fine_tuning": TUNING}
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"@architectures": "spacy-elmo.ElmoModel.v1", **settings}})
    nlp.config["initialize"]["components"]["elmo"] = {"loader": {"@misc": "spacy-elmo.RandomBiLM.v1", "bilm": BILM}}
    nlp.get_pipe("elmo").initialize(lambda: [], loader=lambda: make_random_bilm(BILM, 0))
    nlp.add_pipe("ner", config={"model": {"tok2vec": LISTENER}})
    nlp.initialize(lambda: list(Corpus(tmp_path / "corpus" / "train.spacy", limit=9)(nlp)))
    _keep(nlp, tmp_path, "elmo-finetuned", 0.99)
    arguments = ("--pipelines", tmp_path, "--results", tmp_path, "--repeats", 1)
    invoke(script.choice_cli, "--task", "sample", *arguments)
    rows = {row["label"]: row for row in srsly.read_json(tmp_path / "choice-sample.json")["rows"]}
    assert rows["fine-tuned ELMo"]["score"] == 0.99 and rows["fine-tuned ELMo (int8)"]["score"] != 0.99


@pytest.mark.parametrize(
    "arguments, problem",
    [(["--task", "glue"], "'glue'"), ([], "--keep FOLDER"), (["--speed-only", "roberta"], "NAME=FOLDER")],
)
def test_command_says_what_is_wrong(script, invoke, tmp_path, arguments, problem):
    result = invoke(
        script.choice_cli, "--task", "sample", *arguments, "--pipelines", tmp_path, "--results", tmp_path, code=1
    )
    assert problem in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())
