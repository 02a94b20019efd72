"""Bad input of a training: one error that says what to do, before the first update."""

import json
import re

import pytest
import spacy
import torch
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.vocab import Vocab
from thinc.api import Adam, Config

from spacy_elmo.cli.init_config import init_config
from spacy_elmo.ml.elmo_model import get_bilm
from spacy_elmo.ml.listener import build_listener

from .placements import make_tagger, task_encoder
from .tiny import BILM, LISTENER, add_elmo, listening, loader_block, make_examples

WIDE = {**BILM, "projection_width": 12}


@pytest.mark.parametrize("words", [None, [], [" ", "\n"]], ids=["no Doc", "Docs without tokens", "Docs of white space"])
@pytest.mark.parametrize("pipeline", ["tagger,ner", "crf_ner"])
def test_empty_training_part_is_an_error(words, pipeline, tmp_path):
    docs = [] if words is None else [Doc(Vocab(), words=words)] * 3
    with pytest.raises(ValueError, match=r"EL082.*\[corpora\.train\]") as caught:
        train_on(tmp_path, docs, pipeline)
    assert "max_length" not in str(caught.value)
    assert not list((tmp_path / "out").glob("model-*"))


@pytest.mark.issue(16)
@pytest.mark.parametrize("pipeline", ["tagger,ner", "crf_ner"])
def test_a_max_length_that_drops_all_docs_is_named(pipeline, tmp_path):
    docs = [Doc(Vocab(), words=["She", "sat"])] * 3
    with pytest.raises(ValueError, match=r"EL082.*max_length = 1 in \[corpora\.train\].*set it to 0"):
        train_on(tmp_path, docs, pipeline, {"corpora.train.max_length": 1})


@pytest.mark.issue(16)
@pytest.mark.parametrize("pipeline", ["tagger,ner", "crf_ner"])
def test_a_batcher_that_drops_all_docs_is_an_error(pipeline, tmp_path):
    """spaCy's loop would look for a batch without end."""
    docs = [eg.reference for eg in make_examples(spacy.blank("en"))]
    batcher = {"@batchers": "spacy.batch_by_words.v1", "discard_oversize": True, "size": 2, "tolerance": 0.0}
    message = "EL435.*batch_by_words.*discard_oversize = true.*more words than size, which is 2"
    with pytest.raises(ValueError, match=message):
        train_on(tmp_path, docs, pipeline, {"training.batcher": batcher})


def train_on(folder, docs, pipeline, overrides=None):
    """Run `spacy train`."""
    DocBin(docs=docs).to_disk(folder / "train.spacy")
    config = Config().from_str(init_config(pipeline=pipeline, placement="both"), interpolate=False)
    config["initialize"]["components"]["elmo"] = loader_block()
    config.to_disk(folder / "config.cfg", interpolate=False)
    paths = {f"paths.{name}": str(folder / "train.spacy") for name in ("train", "dev")}
    train(folder / "config.cfg", folder / "out", overrides={**paths, **(overrides or {})})


@pytest.mark.issue(16)
@pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "task encoder"])
@pytest.mark.parametrize(
    "pipeline, upstream, message",
    [
        (["tagger"], "*", r"the pipeline \(tagger\) has no component of the factory 'elmo'.*before 'tagger'\."),
        (["tagger"], "bilm", r"has no component of the factory 'elmo'.*before 'tagger', under the name 'bilm'"),
        (["tagger", "elmo"], "*", r"'elmo' comes after it.*tagger, elmo.*move 'elmo' before 'tagger'"),
        (["tagger", "elmo"], "elmo", r"'elmo' comes after it.*tagger, elmo.*move 'elmo' before 'tagger'"),
        (["elmo", "tagger"], "elm", r"of the factory 'elmo'. Set upstream = \"elmo\".*\[components.tagger.model\]"),
    ],
)
def test_a_listener_without_an_elmo_component_says_what_there_is(pipeline, upstream, message, tok2vec):
    blocks = {name: {**block, "upstream": upstream} for name, block in tok2vec.items() if name.startswith("elmo_")}
    tok2vec = {**tok2vec, **(blocks or {"upstream": upstream})}
    config = Config().from_str(init_config(pipeline="tagger"), interpolate=False)
    config["components"]["tagger"]["model"]["tok2vec"] = tok2vec
    config["nlp"]["pipeline"] = pipeline
    config["initialize"]["components"]["elmo"] = loader_block()
    if "elmo" not in pipeline:
        del config["components"]["elmo"], config["initialize"]["components"]["elmo"]
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    with pytest.raises(ValueError, match=f"EL071.*listener of 'tagger' .upstream = '{re.escape(upstream)}'.*{message}"):
        nlp.initialize(lambda: make_examples(nlp))


@pytest.mark.issue(16)
def test_a_listener_that_was_added_while_elmo_was_disabled_is_told():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.disable_pipe("elmo")
    nlp.add_pipe("tagger", config=listening())
    message = r"EL071.*'elmo' was disabled when 'tagger' was added. Call `nlp.enable_pipe\(\"elmo\"\)`"
    with pytest.raises(ValueError, match=message):
        nlp.initialize(lambda: make_examples(nlp))


@pytest.mark.issue(16)
@pytest.mark.parametrize("num_steps", [1, 4, 6])
def test_another_length_of_the_schedule_than_of_the_training_is_told(num_steps, tmp_path):
    rate = {"@schedules": "spacy-elmo.slanted_triangular.v1", "max_rate": 0.001, "num_steps": num_steps}
    settings = {"max_steps": 4, "eval_frequency": 10, "optimizer.learn_rate": rate}
    overrides = {f"training.{name}": value for name, value in settings.items()}
    docs = [eg.reference for eg in make_examples(spacy.blank("en"))]
    if num_steps == 4:
        train_on(tmp_path, docs, "tagger", overrides)
    else:
        code = "WL071" if num_steps == 1 else "WL076"
        with pytest.warns(UserWarning, match=f"{code}.*num_steps.* is {num_steps}") as told:
            train_on(tmp_path, docs, "tagger", overrides)
        assert len(told) == 1


@pytest.mark.issue(16)
def test_a_listener_without_a_pipeline_says_what_is_missing():
    with pytest.raises(ValueError, match=r"EL071.*upstream = '\*'.*Add a component of the factory 'elmo'"):
        build_listener().initialize()


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


def source_both(folder, pipeline, tok2vec=LISTENER, **model):
    """Config of a training with an ELMo component and a tagger of one pipeline."""
    source = make_tagger(tok2vec, model=model)
    source.to_disk(folder / "source")
    DocBin(docs=[eg.reference for eg in make_examples(source)]).to_disk(folder / "train.spacy")
    config = Config().from_str(init_config(pipeline="tagger,ner"))
    config["components"].update({name: {"source": str(folder / "source")} for name in ("elmo", "tagger")})
    config["components"] = {name: config["components"][name] for name in pipeline}
    config["nlp"]["pipeline"] = list(pipeline)
    config["initialize"]["components"].pop("elmo")
    config["corpora"]["train"]["path"] = config["corpora"]["dev"]["path"] = str(folder / "train.spacy")
    return config


@pytest.mark.issue(16)
@pytest.mark.parametrize("frozen", [[], ["tagger"], ["elmo", "tagger"]])
def test_sourced_components_in_the_wrong_order_are_an_error_before_training(frozen, tmp_path):
    """The listener is still linked to the component that it was saved with."""
    config = source_both(tmp_path, ["tagger", "elmo"])
    config["training"]["frozen_components"] = frozen
    with pytest.raises(ValueError, match=r"EL071.*of 'tagger'.*comes after it in the pipeline \(tagger, elmo\).*move"):
        init_nlp(config)


@pytest.mark.issue(16)
def test_new_elmo_behind_a_sourced_component_is_an_error_before_training(tmp_path):
    config = source_both(tmp_path, ["tagger", "elmo"])
    config["components"]["elmo"] = {"factory": "elmo"}
    config["initialize"]["components"]["elmo"] = loader_block()
    with pytest.raises(ValueError, match=r"EL071.*of 'tagger'.*comes after it.*move"):
        init_nlp(config)


@pytest.mark.issue(16)
def test_training_a_sourced_component_without_elmo_says_what_there_is(tmp_path):
    config = source_both(tmp_path, ["tagger"])
    nlp = init_nlp(config)
    with pytest.raises(ValueError, match=r"EL072.*of 'tagger'.*the pipeline \(tagger\) has no component of"):
        nlp.update(make_examples(nlp))


@pytest.mark.issue(16)
def test_settings_beside_a_source_are_told(tmp_path):
    config = source_both(tmp_path, ["elmo", "tagger"])
    config["components"]["elmo"]["model"] = {"@architectures": "spacy-elmo.ElmoModel.v1", "frozen": False}
    config["initialize"]["components"]["elmo"] = loader_block(seed=4)
    message = r"WL073.*'elmo' has a `source`.*ignores model in \[components.elmo\] and \[initialize.components"
    with pytest.warns(UserWarning, match=message):
        init_nlp(config)


@pytest.mark.issue(16)
def test_a_sourced_component_trains_a_new_bilm(tmp_path):
    """spaCy initializes the new component while the sourced one is disabled."""
    config = source_both(tmp_path, ["elmo", "tagger"])
    model = {"@architectures": "spacy-elmo.ElmoModel.v1", "frozen": False}
    config["components"]["elmo"] = {"factory": "elmo", "model": model}
    config["initialize"]["components"]["elmo"] = loader_block()
    nlp = init_nlp(config)
    assert list(nlp.get_pipe("elmo").listener_map) == ["tagger"]
    network = get_bilm(nlp.get_pipe("elmo").model).network
    before = {name: weights.clone() for name, weights in network.state_dict().items()}
    for _ in range(3):
        nlp.update(make_examples(nlp), sgd=Adam(0.05))
    after = network.state_dict()
    assert not all(torch.equal(weights, after[name]) for name, weights in before.items())


@pytest.mark.issue(16)
@pytest.mark.parametrize("frozen", [[], ["first", "near"], ["elmo", "first", "second", "near"]])
def test_listeners_of_the_nearest_of_two_sourced_components_train(frozen, tmp_path):
    source = spacy.blank("en")
    add_elmo(source)
    source.add_pipe("tagger", name="first", config=listening(upstream="elmo"))
    add_elmo(source, "second", prefix="second", bilm=WIDE)
    source.add_pipe("tagger", name="near", config=listening())
    source.initialize(lambda: make_examples(source))
    source.to_disk(tmp_path / "source")
    DocBin(docs=[eg.reference for eg in make_examples(source)]).to_disk(tmp_path / "train.spacy")
    config = Config().from_str(init_config(pipeline="tagger"))
    config["nlp"]["pipeline"] = list(source.pipe_names)
    config["components"] = {name: {"source": str(tmp_path / "source")} for name in source.pipe_names}
    config["initialize"]["components"] = {}
    config["paths"]["bilm"] = None
    config["training"].update(frozen_components=frozen, annotating_components=["elmo", "second"])
    config["corpora"]["train"]["path"] = config["corpora"]["dev"]["path"] = str(tmp_path / "train.spacy")
    nlp = init_nlp(config)
    found = {name: list(nlp.get_pipe(name).listener_map) for name in ("elmo", "second")}
    assert found == {"elmo": ["first"], "second": ["near"]}


@pytest.mark.issue(16)
@pytest.mark.parametrize("placement", ["input", "output", "both"])
def test_the_remedy_for_a_frozen_component_on_a_bilm_that_is_trained_works(placement, tmp_path):
    config = source_both(tmp_path, ["elmo", "tagger", "ner"], task_encoder(placement), frozen=False)
    config["training"]["frozen_components"] = ["tagger"]
    with pytest.raises(ValueError, match="EL088") as caught:
        init_nlp(config)
    paths = re.search(r"replace_listeners = (\[.*?\])", str(caught.value))[1]
    config["components"]["tagger"]["replace_listeners"] = json.loads(paths)
    init_nlp(config).to_disk(tmp_path / "trained")
    spacy.load(tmp_path / "trained")
    config["components"]["tagger"]["replace_listeners"] = ["model.tok2vec"] * (2 if placement == "both" else 1)
    with pytest.raises(ValueError, match=r"EL378.*'model.tok2vec'.*are at model.tok2vec.elmo_"):
        init_nlp(config)


@pytest.mark.issue(16)
def test_a_bilm_that_no_component_trains_may_have_frozen_listeners(tmp_path):
    config = source_both(tmp_path, ["elmo", "tagger"], frozen=False)
    config["training"].update(frozen_components=["tagger"], annotating_components=["elmo"])
    init_nlp(config)


@pytest.mark.issue(16)
def test_a_frozen_component_on_a_bilm_that_is_trained_is_an_error_before_training(tmp_path):
    config = source_both(tmp_path, ["elmo", "tagger", "ner"], frozen=False)
    config["training"]["frozen_components"] = ["tagger"]
    with pytest.raises(ValueError, match=r"EL088.*'elmo'.*: 'tagger'.*replace_listeners.*\[components.tagger\]"):
        init_nlp(config)
    config["training"].update(frozen_components=["elmo", "tagger"], annotating_components=["elmo"])
    init_nlp(config)


@pytest.mark.issue(16)
def test_sentence_contexts_without_boundaries_are_an_error_before_training(tmp_path):
    docs = [eg.reference for eg in make_examples(spacy.blank("en"))]
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    config = Config().from_str(init_config(pipeline="tagger"), interpolate=False)
    config["components"]["elmo"]["model"]["contexts"] = "sentences"
    config["initialize"]["components"]["elmo"] = loader_block()
    config["paths"]["train"] = config["paths"]["dev"] = str(tmp_path / "train.spacy")
    with pytest.raises(ValueError, match=r"EL061.*'She sat on the bank"):
        init_nlp(config)
    config["nlp"]["pipeline"].insert(0, "sentencizer")
    config["components"]["sentencizer"] = {"factory": "sentencizer"}
    with pytest.raises(ValueError, match="EL061"):
        init_nlp(config)
    config["training"]["annotating_components"] = ["tagger"]
    with pytest.raises(ValueError, match="EL061"):
        init_nlp(config)
    config["training"]["annotating_components"] = ["sentencizer"]
    init_nlp(config)


@pytest.mark.issue(16)
@pytest.mark.parametrize("block", ["spacy.HashEmbedCNN.v2", "spacy-elmo.ElmoListener.v1"])
def test_elmo_with_another_model_is_an_error(block):
    model = {"@architectures": block}
    if block.startswith("spacy."):
        model.update(width=8, depth=1, embed_size=10, window_size=1, maxout_pieces=1, subword_features=True)
        model["pretrained_vectors"] = None
    with pytest.raises(ValueError, match=r"EL087.*model of 'elmo' is .*should be the architecture spacy-elmo.Elmo"):
        spacy.blank("en").add_pipe("elmo", config={"model": model})


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
