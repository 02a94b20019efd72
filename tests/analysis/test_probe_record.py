"""Records of probes: every score beside its baselines, for tags and for senses."""

import numpy as np
import pytest
import spacy

from spacy_elmo.analysis.labelled import ProbeData, label_senses, label_tokens
from spacy_elmo.analysis.layer_vectors import make_reading
from spacy_elmo.analysis.probes import is_pipeline, iter_probes, open_pipeline, parse_layers, probe_data
from spacy_elmo.weights import save_bilm
from spacy_elmo.weights.identity import digest_bilm

from .labelled_texts import BILM, MONEY, RIVER, make_bilm, make_doc, make_uses

TRAIN = [[("the", "DET"), ("cat", "NOUN"), ("sat", "VERB")], [("a", "DET"), ("dog", "NOUN"), ("ran", "VERB")]] * 3
TEST = [[("the", "DET"), ("dog", "NOUN"), ("sat", "VERB")]]


def _tags() -> ProbeData:
    return ProbeData("pos", label_tokens([make_doc(*TRAIN)], "pos"), label_tokens([make_doc(*TEST)], "pos"), False, 0)


@pytest.mark.issue(18)
def test_record_has_probes_baselines_and_controls() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    record = probe_data(make_bilm(), _tags(), layers=[0, "mean"], control_seeds=[0, 1])
    assert (record["n_train"], record["n_test"], record["n_labels"]) == (18, 3, 3)
    baselines = {name: score["value"] for name, score in record["baselines"].items()}
    assert baselines == pytest.approx({"majority": 1 / 3, "word": 1.0})
    assert [row["layer"] for row in record["layers"]] == [0, "mean"]
    for row in record["layers"]:
        assert len(row["control"]) == 2 and row["is_converged"] and 0 <= row["nearest"]["low"] <= 1
        assert row["selectivity"] == pytest.approx(row["probe"]["value"] - np.mean(row["control"]))
    bare = probe_data(make_bilm(), _tags(), layers=[1], control_seeds=[])
    assert bare["layers"][0]["selectivity"] is None and bare["layers"][0]["control"] == []


@pytest.mark.issue(18)
def test_nearest_training_token_of_the_token_layer_is_the_same_word() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    found = _tags()
    (probe,) = iter_probes(make_bilm(), found.train, found.test, layers=[0], control_seeds=[], with_nearest=True)
    assert probe.nearest is not None and probe.nearest.value == 1.0
    (without,) = iter_probes(make_bilm(), found.train, found.test, layers=[0], control_seeds=[])
    assert without.nearest is None and without.accuracy == probe.accuracy


@pytest.mark.issue(18)
def test_stopped_probes_are_in_the_record() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    (row,) = probe_data(make_bilm(), _tags(), layers=[1], control_seeds=[], max_iter=1)["layers"]
    assert not row["is_converged"] and row["n_iter"] == 1


@pytest.mark.issue(18)
def test_senses_have_the_first_sense_as_baseline() -> None:
    vocab = spacy.blank("en").vocab
    uses = make_uses(("the bank lends", MONEY), ("a bank lends", MONEY), ("the bank floods", RIVER))
    train = label_senses(uses, vocab)
    test = label_senses(make_uses(("the bank floods", RIVER)), vocab)
    record = probe_data(make_bilm(), ProbeData("sense", train, test, False, 0), layers=[1, 0])
    assert record["baselines"]["first sense"]["value"] == 0.0 and record["metric"] == "F1"
    assert [row["layer"] for row in record["layers"]] == [1, 0]
    assert record["layers"][0]["nearest"]["value"] == 1.0 and record["layers"][0]["gain"]["value"] == 1.0


@pytest.mark.issue(18)
def test_layers_are_parsed() -> None:
    bilm = make_bilm()
    assert parse_layers(None, bilm) == [0, 1, 2, "mean"] and parse_layers("mean, 1,1", bilm) == ["mean", 1]
    with pytest.raises(ValueError, match="Unknown layer.*'3'.*0, 1, 2, mean"):
        parse_layers("0,3", bilm)


@pytest.mark.issue(18)
def test_pipeline_brings_its_biLM_and_its_reading(tmp_path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"contexts": "doc", "state": "carry"}}).initialize(
        lambda: [], loader=make_bilm
    )
    nlp.config["initialize"]["components"]["elmo"] = {"loader": {"@misc": "spacy-elmo.RandomBiLM.v1", "bilm": BILM}}
    nlp.to_disk(tmp_path / "pipeline")
    opened = open_pipeline(str(tmp_path / "pipeline"))
    assert opened.reading == make_reading(contexts="doc", state="carry") and opened.digest is None
    words = [["the", "bank"]]
    np.testing.assert_array_equal(opened.bilm.encode(words).numpy(), make_bilm().encode(words).numpy())
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match="has no component `elmo`.*none"):
        open_pipeline(str(tmp_path / "blank"))
    save_bilm(make_bilm(), tmp_path / "bilm")
    assert open_pipeline(str(tmp_path / "bilm")).digest == digest_bilm(tmp_path / "bilm")
    assert not is_pipeline("en_elmo_sm") and not is_pipeline(str(tmp_path))
