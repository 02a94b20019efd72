"""Training takes the config of the data set, and says so when there is none."""

from itertools import product

import pytest

SCRIPT = "train"


def test_every_data_set_has_its_configs_and_fewer_steps_shorten_a_falling_rate(script):
    falling = script.shorten_training(script.find_config("sample", "elmo"), 7)
    assert falling.pop("training.optimizer.learn_rate.total_steps") == 7
    for variant, dataset in product(
        ("elmo", "baseline"), ("sample", "wnut17", "ud_en_ewt", "wikigold", "ncbi_disease")
    ):
        assert script.read_config(script.find_config(dataset, variant))["nlp"]["pipeline"]
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
