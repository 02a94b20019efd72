"""Training takes the config of the data set, and says so when there is none."""

import pytest
from spacy.util import load_config

SCRIPT = "train"


@pytest.mark.parametrize("variant", ["elmo", "baseline"])
@pytest.mark.parametrize("dataset", ["sample", "wnut17", "ud_en_ewt", "wikigold", "ncbi_disease"])
def test_every_data_set_has_its_configs(script, dataset, variant):
    assert script.read_config(script.find_config(dataset, variant))["nlp"]["pipeline"]


def test_fewer_steps_shorten_a_falling_learning_rate(script):
    falling = script.shorten_training(script.find_config("sample", "elmo"), 7)
    assert falling.pop("training.optimizer.learn_rate.total_steps") == 7
    constant = script.shorten_training(script.find_config("wnut17", "elmo"), 7)
    assert falling == constant == {"training.max_steps": 7, "training.eval_frequency": 7}


@pytest.mark.issue(16)
@pytest.mark.parametrize("name", ["goemotions", "conll2003"])
def test_data_sets_with_a_config_are_named(script, invoke, name):
    with pytest.raises(ValueError, match=name) as error:
        script.find_config(name, "elmo")
    known = str(error.value).rsplit(": ", 1)[1].split(". ")[0]
    local = [f"{other} (local copies only)" for other in ("wikigold", "ncbi_disease", "hwu64")]
    assert known.rstrip(".").split(", ") == ["sample", "wnut17", "ud_en_ewt", *local]
    assert ("paper.py" in str(error.value)) == (name != "conll2003")
    result = invoke(script.train_cli, "sample", "bert", "out", code=1)
    assert "baseline" in result.output


@pytest.mark.parametrize("variant, logger", [("elmo", "spacy.ChainLogger.v1"), ("baseline", "spacy.ConsoleLogger.v3")])
def test_training_is_logged_anew(script, tmp_path, variant, logger):
    folder = tmp_path / "out"
    folder.mkdir()
    for name in (script.SCORES_LOG, script.WEIGHTS_LOG):
        (folder / name).write_text("of a training before", encoding="utf8")
    original = script.find_config("sample", variant)
    config = load_config(script.write_logged_config(original, folder))
    assert [file.name for file in folder.iterdir()] == [script.TRAINING_CONFIG]
    assert config["training"]["logger"]["@loggers"] == logger
    assert str(folder / script.SCORES_LOG) in str(config["training"]["logger"])
    assert (str(folder / script.WEIGHTS_LOG) in str(config["training"]["logger"])) == (variant == "elmo")
    config["training"]["logger"] = script.read_config(original)["training"]["logger"]
    assert config == script.read_config(original)
