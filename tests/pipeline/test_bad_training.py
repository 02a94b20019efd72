"""Bad input of a training: one error that says what to do, before the first update."""

import pytest
import spacy
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.vocab import Vocab
from thinc.api import Config

from spacy_elmo.cli.init_config import init_config

from .placements import make_tagger, task_encoder
from .tiny import BILM, LISTENER, add_elmo, loader_block, make_examples

WIDE = {**BILM, "projection_width": 12}


@pytest.mark.parametrize("words", [None, []], ids=["no Doc", "Docs without tokens"])
def test_empty_training_part_is_an_error(words, tmp_path):
    docs = [] if words is None else [Doc(Vocab(), words=words)] * 3
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    config = Config().from_str(init_config(pipeline="tagger,ner", placement="both"), interpolate=False)
    config["initialize"]["components"]["elmo"] = loader_block()
    config.to_disk(tmp_path / "config.cfg", interpolate=False)
    corpus = str(tmp_path / "train.spacy")
    with pytest.raises(ValueError, match=r"EL082.*\[corpora\.train\]"):
        train(tmp_path / "config.cfg", tmp_path / "out", overrides={"paths.train": corpus, "paths.dev": corpus})
    assert not list((tmp_path / "out").glob("model-*"))


def test_initialization_without_examples_of_ones_own_is_none():
    nlp = make_tagger(LISTENER)
    nlp.get_pipe("elmo").initialize(lambda: [], loader=None)  # of one component, to load weights
    nlp.select_pipes(enable=["elmo"])
    nlp.initialize()


@pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "task encoder"])
def test_bilm_swapped_under_a_frozen_mix_is_an_error_before_training(tok2vec, tmp_path):
    source = make_tagger(tok2vec)
    source.to_disk(tmp_path / "source")
    DocBin(docs=[eg.reference for eg in make_examples(source)]).to_disk(tmp_path / "train.spacy")
    corpus = str(tmp_path / "train.spacy")
    config = Config().from_str(init_config(pipeline="tagger,ner"))
    config["components"]["tagger"] = {"source": str(tmp_path / "source")}
    config["training"]["frozen_components"] = ["tagger"]
    config["corpora"]["train"]["path"] = config["corpora"]["dev"]["path"] = corpus
    for bilm in (BILM, WIDE):
        config["initialize"]["components"]["elmo"] = loader_block(bilm=bilm)
        if bilm is BILM:
            init_nlp(config)
        else:
            with pytest.raises(ValueError, match="EL068.*3 layers of width 16, but found 3 layers of width 24"):
                init_nlp(config)


def test_other_bilm_can_be_sourced_beside_a_trained_mix_only_if_it_fits():
    trained, wide = make_tagger(task_encoder()), spacy.blank("en")
    add_elmo(wide, bilm=WIDE)
    wide.add_pipe("tagger", source=trained)
    with pytest.raises(ValueError, match="EL068"):
        wide("She sat")


def test_a_loader_without_a_path_is_an_error():
    """`elmo init-config` writes paths.bilm = null for a language without a packaged biLM."""
    config = Config().from_str(init_config(pipeline="tagger"), interpolate=False)
    for path in (None, ""):
        config["paths"]["bilm"] = path
        nlp = spacy.util.load_model_from_config(config, auto_fill=True)
        with pytest.raises(ValueError, match="EL086.*--paths.bilm"):
            nlp.initialize(lambda nlp=nlp: make_examples(nlp))


@pytest.mark.parametrize("frozen", [[], ["tagger"]], ids=["trained further", "frozen"])
def test_sourced_bilm_of_other_sizes_is_an_error_before_training(frozen, tmp_path):
    """spaCy does not initialize a component with a `source`."""
    source, wide = make_tagger(LISTENER), spacy.blank("en")
    source.to_disk(tmp_path / "source")
    add_elmo(wide, bilm=WIDE)
    wide.to_disk(tmp_path / "wide")
    DocBin(docs=[eg.reference for eg in make_examples(source)]).to_disk(tmp_path / "train.spacy")
    config = Config().from_str(init_config(pipeline="tagger,ner"))
    config["components"]["tagger"] = {"source": str(tmp_path / "source")}
    config["components"]["elmo"] = {"source": str(tmp_path / "wide")}
    config["initialize"]["components"].pop("elmo")
    config["training"]["frozen_components"] = frozen
    config["corpora"]["train"]["path"] = config["corpora"]["dev"]["path"] = str(tmp_path / "train.spacy")
    message = "EL068.*of 'tagger' expects 3 layers of width 16, but found 3 layers of width 24"
    with pytest.raises(ValueError, match=message):
        init_nlp(config)


def test_wrong_number_of_mix_weights_is_an_error(tmp_path):
    nlp, message = spacy.blank("en"), r"EL069.*mix.weights of '{}' has 2 weights \(\[1.0, 2.0\]\)"
    with pytest.raises(ValueError, match=message.format("second")):
        add_elmo(nlp, "second", prefix="second", mix={"weights": [1.0, 2.0]})
    nlp = spacy.blank("en")
    packaged = nlp.add_pipe("elmo", config={"mix": {"weights": [1.0, 2.0]}})
    with pytest.raises(ValueError, match=message.format("elmo")):
        packaged.initialize(lambda: [])
    nlp = spacy.blank("en")
    add_elmo(nlp)
    nlp.to_disk(tmp_path)
    changed = spacy.load(tmp_path, config={"components.elmo.mix.weights": [1.0, 2.0]})
    with pytest.raises(ValueError, match=message.format("elmo")):
        changed("text")
