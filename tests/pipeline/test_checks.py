"""What would train or predict something wrong in silence is told, and bad input gets one error that says what to do."""

import json
import pickle
import re
import tempfile
import warnings

import numpy as np
import pytest
import spacy
import torch
from spacy.cli.train import train as spacy_train
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.vocab import Vocab
from thinc.api import Adam, Config
from trained import read_parameters

from spacy_elmo.pipeline.model import get_bilm, make_random_bilm, set_bilm
from spacy_elmo.pipeline.starter_config import make_pipeline_config
from spacy_elmo.weights import load_bilm, save_bilm

from .tiny import (
    BILM,
    CNN,
    LISTENER,
    TOK2VECS,
    WIDE,
    WIDTH,
    add_elmo,
    are_equal,
    configure,
    get_bilm_weights,
    listening,
    loader_block,
    make_examples,
    make_tagger,
    task_encoder,
    train,
    with_elmo,
)

OWN, OTHER = 1, 7  # seeds
BOTH = pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "task encoder"])


def make_pipeline(**elmo):
    nlp = with_elmo(**elmo)
    nlp.add_pipe("tagger", config=listening())
    nlp.add_pipe("ner", config={"model": {"tok2vec": LISTENER}})
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def update(nlp, n_updates=3, **settings):
    train(nlp, n_updates, **settings)
    return nlp


def make_trained(tok2vec=LISTENER, seed=OWN, **elmo):
    return update(make_tagger(tok2vec, seed=seed, **elmo))


def to_bytes_and_back(nlp):
    return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())


def make_config(folder, pipeline="tagger,ner", nlp=None, **components):
    """Config of a training, with sources for some components: pipelines, in place of a loader for "elmo"."""
    DocBin(docs=[eg.reference for eg in make_examples(spacy.blank("en"))]).to_disk(folder / "train.spacy")
    config = Config().from_str(make_pipeline_config(pipeline=pipeline), interpolate=False)
    config["initialize"]["components"]["elmo"] = loader_block()
    config["paths"].update(bilm=None, train=str(folder / "train.spacy"), dev=str(folder / "train.spacy"))
    for name, source in components.items():
        source.to_disk(folder / f"source_{name}")
        config["components"][name] = {"source": str(folder / f"source_{name}")}
        config["initialize"]["components"].pop(name, None)
    return config


# Another biLM under a trained mix


@BOTH
@pytest.mark.parametrize(
    "how, frozen",
    [("load_weights", True), ("initialize", True), ("bytes", True), ("bytes", False), ("disk", True), ("disk", False)],
)
def test_another_bilm_under_a_trained_component_is_told_once(how, frozen, tok2vec, tmp_path):
    nlp, other = (make_trained(tok2vec, seed, model={"frozen": frozen}) for seed in (OWN, OTHER))
    elmo, before = nlp.get_pipe("elmo"), read_parameters(nlp.get_pipe("tagger").model)
    sources = {"own": elmo, "other": other.get_pipe("elmo")}
    contents = {name: source.to_bytes() for name, source in sources.items()}
    for name, source in sources.items():
        source.to_disk(tmp_path / name)
        save_bilm(get_bilm(source.model), tmp_path / name / "bilm")

    def exchange(name):
        if how == "load_weights":
            elmo.load_weights(tmp_path / name / "bilm")
        elif how == "initialize":
            elmo.initialize(lambda: [], loader=lambda: load_bilm(tmp_path / name / "bilm"))
        elif how == "disk":
            elmo.from_disk(tmp_path / name)
        else:
            elmo.from_bytes(contents[name])
        nlp("She sat")

    exchange("own")
    with pytest.warns(UserWarning, match="WL066.*than 'elmo' has.*'tagger'"):
        exchange("other")
    nlp("She sat")
    assert are_equal(read_parameters(nlp.get_pipe("tagger").model), before)
    update(nlp)  # from here on it fits the other one
    with pytest.warns(UserWarning, match="WL066"):
        exchange("own")
    nlp.from_bytes(other.to_bytes())
    nlp("She sat")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_the_same_bilm_in_fewer_bits_is_the_same(tmp_path, dtype):
    nlp = make_trained()
    save_bilm(make_random_bilm(BILM, OWN), tmp_path / "bilm", dtype=dtype)
    nlp.get_pipe("elmo").load_weights(tmp_path / "bilm")
    assert nlp.get_pipe("elmo").listeners[0].trained_with


@pytest.mark.parametrize("name", ["recurrent_weight", "projection_weight"])
def test_a_scaled_matrix_under_a_trained_mix_is_another_bilm(tmp_path, name):
    nlp, scaled = make_trained(), make_random_bilm(BILM, OWN)
    with torch.no_grad():
        getattr(scaled.network.encoder.layers[0], name).mul_(0.2)
    save_bilm(scaled, tmp_path / "bilm")
    with pytest.warns(UserWarning, match="WL066.*than 'elmo' has.*'tagger'"):
        nlp.get_pipe("elmo").load_weights(tmp_path / "bilm")


def load_other(nlp):
    bilm = make_random_bilm(BILM, OTHER)
    bilm.meta["name"] = "seed 7"
    nlp.get_pipe("elmo").initialize(lambda: [], loader=lambda: bilm)
    nlp("She sat")


def test_untrained_components_fit_every_bilm():
    load_other(make_tagger())
    replaced = make_trained()
    replaced.replace_listeners("elmo", "tagger", ["model.tok2vec"])  # the tagger has its own biLM now
    load_other(replaced)
    trained = make_trained()
    trained.config["initialize"]["components"]["elmo"] = loader_block(OTHER)
    trained.initialize(lambda: make_examples(trained))  # anew
    trained("She sat")


@pytest.mark.parametrize("seed", [OWN, OTHER])
@pytest.mark.parametrize(
    "is_sourced, frozen",
    [(False, []), (False, ["tagger"]), (True, []), (True, ["tagger"]), (True, ["tagger", "elmo"])],
)
def test_training_with_a_sourced_component_and_another_bilm(tmp_path, is_sourced, frozen, seed):
    """spaCy does not initialize an ELMo component with a `source`, nor tell it of the pipeline."""
    bilm = with_elmo(seed=seed)
    tagger = make_trained(LISTENER if is_sourced else task_encoder())
    config = make_config(tmp_path, tagger=tagger, **({"elmo": bilm} if is_sourced else {}))
    if not is_sourced:
        config["initialize"]["components"]["elmo"] = loader_block(seed)
    config["training"].update(frozen_components=frozen, annotating_components=["elmo"])
    if seed == OWN:
        update(init_nlp(config), exclude=frozen)
    elif frozen and not is_sourced:
        with pytest.raises(ValueError, match=r"EL083.*frozen_components.*than 'elmo' has \(.*'tagger'"):
            init_nlp(config)
    else:
        with pytest.warns(UserWarning, match="WL066.*'tagger'"):
            init_nlp(config)("She sat")


@pytest.mark.parametrize("pipes", [["tagger"], ["tagger", "ner"]])
def test_a_component_enabled_after_the_bilm_was_exchanged_is_told(pipes, tmp_path):
    update(make_pipeline()).to_disk(tmp_path)
    nlp = spacy.load(tmp_path, disable=pipes)
    nlp.enable_pipe("tagger")
    nlp("She sat")
    nlp = spacy.load(tmp_path, disable=["tagger", "ner"])
    load_other(nlp)
    nlp.enable_pipe("tagger")
    with pytest.warns(UserWarning, match=r"WL066.*: 'tagger'\."):
        nlp("She sat")
    assert list(nlp.get_pipe("elmo").listener_map) == ["tagger"]
    nlp("She sat")  # told once


def test_disabling_the_nearer_of_two_bilms_links_nothing_to_the_other():
    nlp = with_elmo(seed=OTHER, bilm=WIDE)
    add_elmo(nlp, name="near", seed=OWN, prefix="near")
    nlp.add_pipe("tagger", config={"model": {"tok2vec": LISTENER}})
    nlp.initialize(lambda: make_examples(nlp))
    update(nlp)
    wanted = [token.tag_ for token in nlp("She sat on the bank")]
    copied = to_bytes_and_back(nlp)
    assert [token.tag_ for token in copied("She sat on the bank")] == wanted
    (listener,) = copied.get_pipe("near").listeners
    assert listener.trained_with == copied.get_pipe("near").bilm_label != copied.get_pipe("elmo").bilm_label
    with nlp.select_pipes(disable="near"):
        assert [token.tag_ for token in nlp("She sat on the bank")] == wanted
    nlp.rename_pipe("near", "nearest")
    assert [token.tag_ for token in nlp("She sat on the bank")] == wanted


# A biLM that is trained without its listeners


def to_disk_and_back(nlp):
    with tempfile.TemporaryDirectory() as folder:
        nlp.to_disk(folder)
        return spacy.load(folder)


@pytest.mark.parametrize(
    "how, copy",
    [
        ("excluded", to_bytes_and_back),
        ("disabled", to_disk_and_back),
        ("sourced and frozen", lambda nlp: pickle.loads(pickle.dumps(nlp))),
        ("trained again", to_disk_and_back),
    ],
)
def test_a_component_left_out_of_updates_of_the_bilm_is_told_when_it_is_copied(how, copy, tmp_path):
    nlp = update(make_pipeline(model={"frozen": False}))
    if how == "sourced and frozen":
        config = make_config(tmp_path, tagger=nlp, elmo=nlp)
        config["training"]["frozen_components"] = ["tagger"]
        nlp = init_nlp(config)
    else:
        nlp.to_disk(tmp_path)
        nlp = spacy.load(tmp_path, disable=["tagger"] if how == "disabled" else [])
    update(nlp, exclude=["tagger"])
    if how == "trained again":
        update(nlp, 1)
    copied = copy(nlp)
    copied.enable_pipe("tagger") if how == "disabled" else None
    if how != "trained again":
        with pytest.warns(UserWarning, match=r"WL066.*with another biLM .*: 'tagger'\.") as told:
            copied("She sat")
        assert len(told) == 1
    copied("She sat")
    with pytest.warns(UserWarning, match="WL066.*seed 7"):  # the label of the biLM is copied, too
        load_other(copied)


@pytest.mark.parametrize("placement", ["input", "output", "both"])
def test_the_remedy_for_a_frozen_component_on_a_bilm_that_is_trained_works(placement, tmp_path):
    config = make_config(tmp_path, tagger=make_trained(task_encoder(placement)))
    config["components"]["elmo"]["model"]["frozen"] = False
    config["training"]["frozen_components"] = ["tagger"]
    with pytest.raises(ValueError, match="'elmo' is trained.*frozen_components.*: 'tagger'") as caught:
        init_nlp(config)
    paths = re.search(r"replace_listeners = (\[.*?\])", str(caught.value))[1].replace("'", '"')
    config["components"]["tagger"]["replace_listeners"] = json.loads(paths)
    init_nlp(config).to_disk(tmp_path / "trained")
    spacy.load(tmp_path / "trained")
    config["components"]["tagger"]["replace_listeners"] = ["model.tok2vec"] * (2 if placement == "both" else 1)
    with pytest.raises(ValueError, match="not a listener's.*model.tok2vec.elmo_"):
        init_nlp(config)


@pytest.mark.parametrize("is_sourced", [True, False])
def test_a_sourced_component_trains_the_bilm(is_sourced, tmp_path):
    """spaCy initializes a new component while the sourced one is disabled."""
    source = make_tagger(LISTENER, model={"frozen": False})
    config = make_config(tmp_path, "tagger", tagger=source, **({"elmo": source} if is_sourced else {}))
    if not is_sourced:
        config["components"]["elmo"]["model"]["frozen"] = False
    nlp = init_nlp(config)
    before = get_bilm_weights(nlp)
    update(nlp)
    assert list(nlp.get_pipe("elmo").listener_map) == ["tagger"]
    assert not are_equal(get_bilm_weights(nlp), before)


@pytest.mark.parametrize("frozen", [[], ["first", "near"], ["elmo", "first", "second", "near"]])
def test_listeners_of_the_nearest_of_two_sourced_components_train(frozen, tmp_path):
    source = with_elmo()
    source.add_pipe("tagger", name="first", config=listening(upstream="elmo"))
    add_elmo(source, "second", prefix="second", bilm=WIDE)
    source.add_pipe("tagger", name="near", config=listening())
    source.initialize(lambda: make_examples(source))
    source.to_disk(tmp_path / "source")
    config = make_config(tmp_path, "tagger")
    config["nlp"]["pipeline"] = list(source.pipe_names)
    config["components"] = {name: {"source": str(tmp_path / "source")} for name in source.pipe_names}
    config["initialize"]["components"] = {}
    config["training"].update(frozen_components=frozen, annotating_components=["elmo", "second"])
    nlp = init_nlp(config)
    found = {name: list(nlp.get_pipe(name).listener_map) for name in ("elmo", "second")}
    assert found == {"elmo": ["first"], "second": ["near"]}


def test_a_learned_mix_that_was_the_top_layer_learns_from_all(tmp_path):
    update(make_tagger({**LISTENER, "mix": "top"})).to_disk(tmp_path)
    loaded = spacy.load(tmp_path, config={"components.tagger.model.tok2vec.mix": "learned"})
    (listener,) = loaded.get_pipe("elmo").listeners
    before = listener.mix.get_param("w").copy()
    update(loaded)
    assert np.abs(before).max() < 1 and not (listener.mix.get_param("w") == before).any()


# Sizes, places and weights


@pytest.mark.parametrize("tok2vec, is_sourced", [(LISTENER, True), (task_encoder(), False)])
@pytest.mark.parametrize("frozen", [[], ["tagger"]])
def test_a_bilm_of_other_sizes_under_a_trained_mix_is_an_error(frozen, tok2vec, is_sourced, tmp_path):
    wide = with_elmo(bilm=WIDE)
    config = make_config(tmp_path, tagger=make_trained(tok2vec), **({"elmo": wide} if is_sourced else {}))
    config["training"]["frozen_components"] = frozen
    if not is_sourced:
        config["initialize"]["components"]["elmo"] = loader_block(bilm=WIDE)
    with pytest.raises(ValueError, match="EL068.*of 'tagger' expects 3 layers of width 16, but found 3.* width 24"):
        init_nlp(config)("She sat")


@BOTH
@pytest.mark.parametrize(
    "pipeline, upstream", [(["tagger"], "*"), (["tagger", "elmo"], "*"), (["elmo", "tagger"], "elm")]
)
def test_a_listener_without_an_elmo_component_is_an_error(pipeline, upstream, tok2vec):
    blocks = {name: {**block, "upstream": upstream} for name, block in tok2vec.items() if name.startswith("elmo_")}
    config = Config().from_str(make_pipeline_config(pipeline="tagger"), interpolate=False)
    config["components"]["tagger"]["model"]["tok2vec"] = {**tok2vec, **(blocks or {"upstream": upstream})}
    config["nlp"]["pipeline"] = pipeline
    config["initialize"]["components"]["elmo"] = loader_block()
    if "elmo" not in pipeline:
        del config["components"]["elmo"], config["initialize"]["components"]["elmo"]
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    message = rf"EL071.*upstream = '{re.escape(upstream)}'.*Add a component of the factory 'elmo' .* before"
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        warnings.filterwarnings("ignore", message="No component listens")
        warnings.filterwarnings("ignore", message=r"\[WL065")
        nlp.initialize(lambda: make_examples(nlp))


@pytest.mark.parametrize("elmo", ["new", "sourced", "none"])
def test_a_sourced_component_without_elmo_before_it_is_an_error_at_the_first_update(elmo, tmp_path):
    """Trained in this order, it would have no ELMo component after it is saved and loaded."""
    source = make_trained()
    config = make_config(tmp_path, "tagger", tagger=source, **({"elmo": source} if elmo == "sourced" else {}))
    config["nlp"]["pipeline"] = ["tagger", "elmo"]
    if elmo == "none":
        config["nlp"]["pipeline"] = ["tagger"]
        del config["components"]["elmo"], config["initialize"]["components"]["elmo"]
    nlp = init_nlp(config)
    with warnings.catch_warnings(), pytest.raises(ValueError, match="EL071.*of 'tagger'"):
        warnings.filterwarnings("ignore", message=r"\[WL065")
        nlp.update(make_examples(nlp))
    if elmo == "none":
        with pytest.warns(UserWarning, match="WL060.*of 'tagger'.*no layers on 1 Docs and uses zeros"):
            nlp("She sat")


def test_a_loader_without_a_path_is_an_error():
    """`elmo init-config` writes paths.bilm = null for a language without a packaged biLM."""
    config = Config().from_str(make_pipeline_config(pipeline="tagger"), interpolate=False)
    for path in (None, ""):
        config["paths"]["bilm"] = path
        nlp = spacy.util.load_model_from_config(config, auto_fill=True)
        with pytest.raises(ValueError, match="No biLM is given.*paths.bilm"):
            nlp.initialize(lambda nlp=nlp: make_examples(nlp))


@pytest.mark.parametrize("block", ["spacy.HashEmbedCNN.v2", "spacy-elmo.ElmoListener.v1"])
def test_elmo_with_another_model_is_an_error(block):
    model = CNN if block.startswith("spacy.") else {"@architectures": block}
    with pytest.raises(ValueError, match=r"model of 'elmo' is .*should be the architecture spacy-elmo.Elmo"):
        spacy.blank("en").add_pipe("elmo", config={"model": model})


@pytest.mark.parametrize("when", ["added", "initialized", "loaded"])
def test_wrong_number_of_mix_weights_is_an_error(when, tmp_path):
    nlp, wrong = spacy.blank("en"), {"initial_weights": [1.0, 2.0]}
    if when == "loaded":
        add_elmo(nlp)
        nlp.to_disk(tmp_path)
        nlp = spacy.load(tmp_path, config={"components.elmo.mix.initial_weights": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"mix.initial_weights of 'elmo' has 2 weights \(\[1.0, 2.0\]\)"):
        if when == "added":
            add_elmo(nlp, mix=wrong)
        elif when == "initialized":
            nlp.add_pipe("elmo", config={"mix": wrong}).initialize(lambda: [])
        else:
            nlp("text")


# The training part, and the length of training


def train_on(folder, docs, pipeline, overrides=None):
    config = Config().from_str(make_pipeline_config(pipeline=pipeline, placement="both"), interpolate=False)
    config["initialize"]["components"]["elmo"] = loader_block()
    config.to_disk(folder / "config.cfg", interpolate=False)
    DocBin(docs=docs).to_disk(folder / "train.spacy")
    paths = {f"paths.{name}": str(folder / "train.spacy") for name in ("train", "dev")}
    spacy_train(folder / "config.cfg", folder / "out", overrides={**paths, **(overrides or {})})


@pytest.mark.parametrize(
    "pipeline, words, max_length",
    [
        ("tagger,ner", None, 0),
        ("crf_ner", [" ", "\n"], 0),
        ("tagger", ["She", "sat"], 1),
    ],
)
def test_empty_training_part_is_an_error(words, pipeline, max_length, tmp_path):
    docs = [] if words is None else [Doc(Vocab(), words=words)] * 3
    told = r"max_length = 1 in \[corpora\.train\].*set it to 0" if max_length else r"no tokens.*\[corpora\.train\]"
    with pytest.raises(ValueError, match=told) as caught:
        train_on(tmp_path, docs, pipeline, {"corpora.train.max_length": max_length})
    assert bool(max_length) == ("max_length" in str(caught.value))
    assert not list((tmp_path / "out").glob("model-*"))


def test_sentence_contexts_without_boundaries_are_an_error():
    nlp = make_tagger(LISTENER, model={"contexts": "sentences"})
    for use in (lambda: nlp("She sat"), lambda: nlp.update(make_examples(nlp))):
        with pytest.raises(ValueError, match="no sentence boundaries: 'She sat"):
            use()


@pytest.mark.parametrize("num_steps", [1, 4, 9])
def test_another_length_of_the_schedule_than_of_the_training_is_told(num_steps, tmp_path):
    rate = {"@schedules": "spacy-elmo.slanted_triangular.v1", "max_rate": 0.001, "num_steps": num_steps}
    settings = {"max_steps": 4, "eval_frequency": 10, "optimizer.learn_rate": rate}
    overrides = {f"training.{name}": value for name, value in settings.items()}
    docs = [eg.reference for eg in make_examples(spacy.blank("en"))]
    if num_steps == 4:
        train_on(tmp_path, docs, "tagger", overrides)
    else:
        with pytest.warns(UserWarning, match=f"num_steps.* is {num_steps}") as told:
            train_on(tmp_path, docs, "tagger", overrides)
        assert len(told) == 1


# Nobody listens


FACTORIES = {"first": "elmo", "second": "elmo", "my_tagger": "tagger"}  # of other names


def make(names=("elmo", "tagger"), training=None, tok2vec=None):
    nlp = spacy.blank("en")
    for name in sorted(names, key=lambda name: FACTORIES.get(name, name) != "elmo"):
        if FACTORIES.get(name, name) == "elmo":
            add_elmo(nlp, name, prefix=name)
        else:
            before = "elmo" if "elmo" in names and names.index(name) < names.index("elmo") else None
            config = {"model": {"tok2vec": tok2vec}} if tok2vec and name == "tagger" else {}
            nlp.add_pipe(FACTORIES.get(name, name), name=name, before=before, config=config)
    nlp.config["training"].update(training or {})
    return nlp


TOK2VEC_LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}


@pytest.mark.parametrize(
    "names, tok2vec, is_late",
    [
        (["elmo", "tagger"], None, False),
        (["elmo", "tagger"], None, True),
        (["tok2vec", "elmo", "tagger"], TOK2VEC_LISTENER, False),
        (["tagger", "elmo", "ner", "textcat"], None, False),
        (["first", "second", "my_tagger", "ner"], None, False),
    ],
)
def test_a_pipeline_without_listener_is_a_warning_with_blocks_to_paste(names, tok2vec, is_late):
    nlp = make(names, tok2vec=tok2vec)
    assert nlp.pipe_names == names
    with nlp.select_pipes(disable=["elmo"] if is_late else []):
        move = ".*move 'tagger' after 'elmo'" if names[0] == "tagger" else ""
        with pytest.warns(UserWarning, match=f"(?s)WL065.*'{names[-1]}'{move}") as found:
            nlp.initialize(lambda: make_examples(nlp))
            if is_late:
                nlp.enable_pipe("elmo")
                nlp.update(make_examples(nlp))
    assert len(found) == len([name for name in names if FACTORIES.get(name, name) == "elmo"])  # once each
    nlp.update(make_examples(nlp))
    text = str(found[0].message)
    elmo_names = [name for name in names if FACTORIES.get(name, name) == "elmo"]
    tasks = [name for name in names if name not in (*elmo_names, "tok2vec")]
    blocks = re.search(r"(?s)\n(\[components.*?)\n\n?If you only", text)[1]
    heads = "".join(f"[components.{name}]\n[components.{name}.model]\n" for name in tasks)
    pasted = Config().from_str(f"[components]\n{heads}{blocks}")["components"]
    assert all(pasted[name]["model"]["tok2vec"] == {**LISTENER, "upstream": elmo_names[0]} for name in tasks)


@pytest.mark.parametrize(
    "names,training",
    [
        (["elmo", "sentencizer"], {}),
        (["elmo", "tagger"], {}),
        (["tagger", "elmo"], {"frozen_components": ["tagger"]}),
        (["elmo", "tagger"], {"annotating_components": ["elmo"]}),
        (["elmo", "tagger"], {"frozen_components": ["elmo"]}),
        (["elmo", "tagger"], {"frozen_components": ["tagger"]}),
    ],
)
def test_what_is_meant_so_is_no_warning(names, training):
    nlp = make(names, training)
    if len(training) == 0:  # one listener is enough
        nlp.add_pipe("tagger", name="listening", config=listening())
    nlp.initialize(lambda: make_examples(nlp))
    nlp.update(make_examples(nlp))


# Components that nobody has initialized

USES = {
    "call": lambda nlp: nlp("She sat"),
    "pipe": lambda nlp: list(nlp.pipe(["She sat"])),
    "evaluate": lambda nlp: nlp.evaluate(make_examples(nlp)),
    "update": lambda nlp: nlp.update(make_examples(nlp), sgd=Adam(0.01)),
}


@pytest.mark.parametrize("is_loaded", [True, False], ids=["weights loaded", "no weights yet"])
@pytest.mark.parametrize("tok2vec", ["listener", "with elmo", "task encoder, both"])
@pytest.mark.parametrize("name", ["tagger", "ner", "spancat", "textcat"])
def test_a_component_that_is_not_initialized_is_an_error_unless_it_is_left_out(name, tok2vec, is_loaded):
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    if is_loaded:
        set_bilm(elmo.model, make_random_bilm(BILM, 1))
    nlp.add_pipe(name, config=configure(name, TOK2VECS[tok2vec][0]))
    set_bilm(elmo.model, make_random_bilm(BILM, 1))
    for use in USES.values() if tok2vec == "listener" and name != "ner" else [USES["call"]]:
        with pytest.raises(ValueError, match=f"(E109.*'{name}'|'{name}'.*E109).*initialize"):
            use(nlp)  # elsewhere the error may be one of spaCy or Thinc, which stop at another layer
    assert nlp("She sat", disable=[name])._.elmo.shape == (2, WIDTH)
    nlp.update(make_examples(nlp), sgd=Adam(0.01), exclude=[name])
    nlp.config["initialize"]["components"]["elmo"] = loader_block()
    nlp.initialize(lambda: make_examples(nlp))
    for use in USES.values():
        use(nlp)
