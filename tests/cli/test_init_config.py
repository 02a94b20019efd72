"""`elmo init-config`: configs that are complete, in which every component listens, and which train as they are."""

import shlex
import warnings
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import spacy
from annotated_docs import make_docs
from cli.calls import call, make_overrides, read_config, refused, shorten, told
from nn.tiny import CONFIG, make_language_model
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Config

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.bilm.network import BiLMNetwork
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.pipeline.listener import get_listeners
from spacy_elmo.pipeline.model import get_bilm
from spacy_elmo.pipeline.noun_chunks import find_noun_chunks
from spacy_elmo.pipeline.starter_config import make_pipeline_config
from spacy_elmo.text.words import Vocabulary

FAST = ["ner"]
SLOW = [
    *("tagger", "morphologizer", "trainable_lemmatizer", "senter", "parser", "beam_parser", "beam_ner", "span_finder"),
    *("spancat", "spancat_singlelabel", "textcat", "textcat_multilabel", "crf_ner"),
    "biaffine_parser",
]
TRAINABLE = FAST + SLOW


def _tok2vecs(block):
    """Every `tok2vec` block below a block."""
    if not isinstance(block, dict):
        return []
    return [value for key, value in block.items() if key == "tok2vec"] + [
        found for value in block.values() for found in _tok2vecs(value)
    ]


def _architectures(block):
    if not isinstance(block, dict):
        return []
    inner = [name for value in block.values() for name in _architectures(value)]
    return [block["@architectures"], *inner] if "@architectures" in block else inner


PLACES = {"input": {"elmo_input"}, "output": {"elmo_output"}, "both": {"elmo_input", "elmo_output"}}
OPTIONS = [("--optimize", "efficiency"), ("--optimize", "accuracy"), *(("--placement", place) for place in PLACES)]


@pytest.mark.parametrize("option, value", OPTIONS)
def test_every_trainable_component_listens_to_elmo(option, value, tmp_path):
    path, names = tmp_path / "config.cfg", ["tok2vec", *TRAINABLE, "attribute_ruler"]
    call("init-config", path, "--pipeline", ",".join(names), option, value)
    config = read_config(path)
    assert config["nlp"]["pipeline"] == ["elmo", *TRAINABLE, "attribute_ruler"]
    assert config["components"]["elmo"]["model"]["frozen"] is True
    for name in TRAINABLE:
        (tok2vec,) = _tok2vecs(config["components"][name])
        assert "spacy-elmo.ElmoListener.v1" in _architectures(tok2vec), name
        if option == "--placement":
            assert tok2vec["@architectures"] == "spacy-elmo.ElmoTaskEncoder.v1"
            assert {place for place in PLACES["both"] if tok2vec[place] is not None} == PLACES[value]
    assert not [name for name in _architectures(config) if "Tok2VecListener" in name]
    assert "tok2vec" not in config["components"] and "${components.tok2vec" not in path.read_text(encoding="utf8")
    fill_config(tmp_path / "filled.cfg", path, silent=True)
    assert config == read_config(tmp_path / "filled.cfg")


def test_component_without_tok2vec_is_told():
    encoder = {"@architectures": "spacy.MaxoutWindowEncoder.v2", "width": 8}
    encoder.update(window_size=1, maxout_pieces=2, depth=1)

    @Language.factory("without_tok2vec", default_config={"model": encoder})
    def make(nlp, name, model):
        return lambda doc: doc

    with pytest.warns(UserWarning, match=".*'without_tok2vec'"):
        text = make_pipeline_config(pipeline="ner,without_tok2vec", use_gpu=True)
    assert 'gpu_allocator = "pytorch"' in text


def test_config_is_written_to_stdout_and_replaces_a_file_only_by_force(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("init-config", "-", "--pipeline", "ner")
    assert Config().from_str(result.stdout, interpolate=False)["nlp"]["pipeline"] == ["elmo", "ner"]
    assert not list(tmp_path.iterdir())
    Path("config.cfg").write_text("mine", encoding="utf8")
    assert "--force" in refused("init-config", "--pipeline", "ner")
    assert Path("config.cfg").read_text(encoding="utf8") == "mine"
    call("init-config", "--pipeline", "ner", "--force")
    assert "[training]" in Path("config.cfg").read_text(encoding="utf8")


@pytest.mark.issue(16)
@pytest.mark.parametrize(
    "options, more",
    [
        (["--lang", "de", "--pipeline", "ner"], " --paths.bilm BILM"),
        (["--lang", "de", "--pipeline", "ner", "--bilm", "en_elmo_sm"], ""),
    ],
)
@pytest.mark.filterwarnings("default:The package contains no biLM")
def test_next_command_has_what_the_config_leaves_open(options, more, tmp_path):
    path = tmp_path / "a.cfg"
    shown = told("init-config", path, *options).removesuffix("\x1b[0m")
    assert shown.endswith("dev.spacy" + more)
    header = path.read_text().partition("\n\n")[0]
    assert header.endswith(more) and ("BILM" in header) == ("BILM" in more)


@pytest.mark.issue(40)
def test_components_are_those_that_the_data_have_annotations_for(tmp_path):
    docs = make_docs()
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "all.spacy")
    words = [Doc(doc.vocab, words=[token.text for token in doc]) for doc in docs]
    DocBin(docs=words).to_disk(tmp_path / "none.spacy")
    for doc in words:
        doc.ents = [Span(doc, 0, 1, label="PERSON")]
    words.append(Doc(words[0].vocab))
    DocBin(docs=words).to_disk(tmp_path / "ents.spacy")
    every = ["tagger", "morphologizer", "trainable_lemmatizer", "parser", "ner", "spancat", "textcat"]
    for name, wanted in (("all", every), ("ents", ["ner"])):
        shown = told("init-config", tmp_path / f"{name}.cfg", "--data", tmp_path / f"{name}.spacy")
        assert read_config(tmp_path / f"{name}.cfg")["nlp"]["pipeline"] == ["elmo", *wanted]
        assert f"--paths.train {tmp_path / name}.spacy" in shown
    assert "no annotations" in refused("init-config", tmp_path / "b.cfg", "--data", tmp_path / "none.spacy")


@pytest.mark.issue(62)
def test_folder_of_data_may_have_other_files(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "README.txt").write_text("Not a DocBin", encoding="utf8")
    assert "no .spacy files in the folder" in refused("init-config", tmp_path / "a.cfg", "--data", folder)
    doc = make_docs()[0]
    doc.set_ents([Span(doc, 0, 1, label="PERSON")])
    DocBin(docs=[doc]).to_disk(folder / "train.spacy")
    told("init-config", tmp_path / "a.cfg", "--data", folder)
    assert "ner" in read_config(tmp_path / "a.cfg")["nlp"]["pipeline"]


@pytest.mark.issue(62)
@pytest.mark.parametrize(
    "components, named",
    [
        ("ner, tagger,spancat", "tagger, spancat"),
        ("crf_ner", ""),
        ("biaffine_parser,ner", "biaffine_parser"),  # the Docs have sentences
        ("ner,sentencizer,lemmatizer,entity_linker", ""),  # rules, and what is not looked for
    ],
)
def test_components_that_the_data_have_no_annotations_for_are_named(components, named, tmp_path):
    """NER without entities was trained to an F of 0, without a word."""
    doc = Doc(spacy.blank("en").vocab, words=["Ada", "codes"], sent_starts=[True, True])
    doc.ents = [Span(doc, 0, 1, label="PERSON")]
    DocBin(docs=[doc]).to_disk(tmp_path / "ents.spacy")
    shown = told("init-config", tmp_path / "a.cfg", "--data", tmp_path / "ents.spacy", "--component", components)
    assert ("has no annotations for" in shown) is bool(named)
    assert f"has no annotations for {named}" in shown or not named


@pytest.mark.issue(62)
@pytest.mark.parametrize("tag, prefix", [("!", "!!"), ("!!A", "!!!"), ("A!", "!")])
def test_tags_that_begin_with_the_mark_of_spacy_are_learned(tag, prefix, tmp_path):
    """Vietnamese and Russian treebanks have the tag "!"; training ended with a KeyError."""
    docs = make_docs()
    for doc in docs:
        doc[0].tag_ = tag
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    call(
        "init-config", tmp_path / "tags.cfg", "--data", tmp_path / "train.spacy", "--component", "tagger", "--baseline"
    )
    for name in ("tags", "tags_baseline"):
        path = tmp_path / f"{name}.cfg"
        assert read_config(path)["components"]["tagger"]["neg_prefix"] == prefix
        assert ("neg_prefix is longer" in path.read_text("utf-8")) is (prefix != "!")
    data = {f"paths.{part}": str(tmp_path / "train.spacy") for part in ("train", "dev")}
    logs = {"paths.logs": str(tmp_path / "logs"), "training.max_steps": 2}
    train(tmp_path / "tags_baseline.cfg", tmp_path / "out", overrides={**data, **logs})
    assert tag in spacy.load(tmp_path / "out" / "model-last").get_pipe("tagger").labels


@pytest.mark.issue(62)
@pytest.mark.filterwarnings("default:The package contains no biLM", "default:'.*' is neither a packaged biLM")
def test_a_bilm_that_is_named_later_stays_frozen_and_is_said_to(tmp_path):
    said = "Then it stays frozen"
    options = ["--component", "tagger", "--lang", "xx"]
    assert said in told("init-config", tmp_path / "a.cfg", *options)
    assert said in told("init-config", tmp_path / "b.cfg", *options, "--bilm", tmp_path / "later")
    assert said not in told("init-config", tmp_path / "c.cfg", *options, "--frozen")
    assert said not in told("init-config", tmp_path / "d.cfg", "--component", "textcat", "--lang", "xx")
    assert said not in told("init-config", tmp_path / "e.cfg", "--component", "tagger")


@pytest.mark.issue(59)
@pytest.mark.parametrize(
    "options, label, is_ud",
    [
        (["--component", "parser"], "obj", True),
        (["--component", "tagger,beam_parser", "--lang", "de", "--bilm", "en_elmo_sm"], "obl:agent", True),
        (["--baseline"], "obj", True),
        (["--component", "parser"], "dobj", False),
        (["--component", "tagger"], "obj", False),
        (["--component", "parser", "--lang", "fr", "--bilm", "en_elmo_sm"], "obj", False),  # spaCy's rules are for UD
    ],
)
def test_parser_of_ud_gets_its_noun_chunks(options, label, is_ud, tmp_path):
    words = Doc(
        Vocab(),
        words=["Bob", "saw", "Ada"],
        deps=["nsubj", "ROOT", label],
        heads=[1, 1, 1],
        pos=["PROPN", "VERB", "PROPN"],
    )
    DocBin(docs=[words]).to_disk(tmp_path / "train.spacy")
    call("init-config", tmp_path / "one.cfg", "--data", tmp_path / "train.spacy", *options)
    for path in tmp_path.glob("*.cfg"):
        nlp = spacy.util.load_model_from_config(read_config(path), auto_fill=True)
        doc = Doc(
            nlp.vocab,
            words=["Bob", "saw", "Ada"],
            deps=["nsubj", "ROOT", "obj"],
            heads=[1, 1, 1],
            pos=["PROPN", "VERB", "PROPN"],
        )
        has_rules = nlp.vocab.get_noun_chunks is find_noun_chunks
        assert has_rules == is_ud, path
        assert not is_ud or [chunk.text for chunk in doc.noun_chunks] == ["Bob", "Ada"]
        assert ("\n# Let `doc.noun_chunks` read the labels" in path.read_text(encoding="utf8")) == is_ud


@pytest.mark.issue(40)
@pytest.mark.parametrize("options", [[], ["--optimize", "efficiency"], ["--placement", "both"]])
def test_baseline_is_the_same_training_without_elmo(options, tmp_path):
    path = tmp_path / "ner.cfg"
    shown = told("init-config", path, "--component", "ner,textcat", "--baseline", *options)
    ours, theirs = read_config(path), read_config(tmp_path / "ner_baseline.cfg")
    assert theirs["nlp"]["pipeline"] == ["ner", "textcat"] and "elmo" not in theirs["components"]
    assert not [name for name in _architectures(theirs) if "Elmo" in name]
    for section in ("training", "corpora"):
        assert {**ours[section], "logger": None} == {**theirs[section], "logger": None}
    for name in ("ner", "textcat"):
        ((first,), (second,)) = _tok2vecs(ours["components"][name]), _tok2vecs(theirs["components"][name])
        if name == "textcat" and "--placement" not in options:
            assert first["mix"] == "concat" and second is None  # n-grams alone
            continue
        assert second["@architectures"] == "spacy.Tok2Vec.v2"
        assert "--optimize" in options or first["encode"] == second["encode"]
    assert "LayerWeightsLogger" in path.read_text(encoding="utf8")
    for config, name in ((path, "ner"), (tmp_path / "ner_baseline.cfg", "ner_baseline")):
        fill_config(tmp_path / "filled.cfg", config, silent=True)
        assert read_config(config) == read_config(tmp_path / "filled.cfg")
        assert f"python -m spacy train {config} --output runs/{name} --paths.train" in shown
    assert "elmo report runs/ner --baseline runs/ner_baseline" in shown
    path.unlink()
    assert "ner_baseline.cfg" in refused("init-config", path, "--component", "ner", "--baseline")


@pytest.mark.issue(62)
def test_each_config_has_its_own_output_folder(tmp_path):
    for name in ("ner", "my tags"):
        shown = told("init-config", tmp_path / f"{name}.cfg", "--component", "tagger")
        assert f"--output {shlex.quote(f'runs/{name}')} --paths.train" in shown
        assert "logs" not in read_config(tmp_path / f"{name}.cfg")["paths"]
    assert "train config.cfg --output runs/config --paths.train" in told("init-config", "-", "--component", "tagger")


@pytest.mark.issue(62)
def test_components_read_word_features_beside_any_bilm_by_default(tmp_path):
    save_bilm(make_language_model(["<S>", "</S>", "<UNK>"]), tmp_path / "mine")
    for bilm, given, wanted in (
        ("en_elmo_sm", [], "accuracy"),
        (tmp_path / "mine", [], "accuracy"),
        (tmp_path / "mine", ["--optimize", "efficiency"], "efficiency"),
        ("en_elmo_sm", ["--optimize", "efficiency"], "efficiency"),
    ):
        call("init-config", tmp_path / "tagger.cfg", "--component", "tagger", "--bilm", bilm, "--force", *given)
        (tok2vec,) = _tok2vecs(read_config(tmp_path / "tagger.cfg")["components"]["tagger"])
        has_words = "spacy.MultiHashEmbed.v2" in _architectures(tok2vec)
        assert has_words == (wanted == "accuracy"), (bilm, given)
        said = "read ELMo beside word features" if has_words else "read ELMo alone"
        assert said in (tmp_path / "tagger.cfg").read_text(encoding="utf8")


@pytest.mark.issue(62)
def test_a_narrow_bilm_is_trained_with_the_components_by_default(tmp_path):
    """Both files end by spaCy's patience."""
    words = ["<S>", "</S>", "<UNK>"]
    save_bilm(make_language_model(words), tmp_path / "narrow")
    wide = BiLM(BiLMNetwork(replace(CONFIG, cell_width=128, projection_width=128)).eval(), vocabulary=Vocabulary(words))
    save_bilm(wide, tmp_path / "wide")
    path, trainings = tmp_path / "tagger.cfg", {}
    call("init-config", path, "--component", "tagger,textcat", "--bilm", tmp_path / "narrow")
    assert read_config(path)["components"]["elmo"]["model"]["frozen"], "a text classifier would learn texts by heart"
    for bilm, given, is_tuned in (
        (tmp_path / "narrow", [], True),
        (tmp_path / "narrow", ["--frozen"], False),
        (tmp_path / "wide", [], False),
        ("en_elmo_sm", [], False),
    ):
        call("init-config", path, "--component", "tagger", "--bilm", bilm, "--baseline", "--force", *given)
        config, baseline = read_config(path), read_config(tmp_path / "tagger_baseline.cfg")
        model = config["components"]["elmo"]["model"]
        assert (model["frozen"], model["fine_tuning"] is None) == (not is_tuned, not is_tuned), (bilm, given)
        assert (path.read_text(encoding="utf8").find("trains the biLM too, saves averaged weights") > 0) is is_tuned
        for training in (config["training"], baseline["training"]):
            training.pop("logger")
        assert config["training"] == baseline["training"]
        trainings[is_tuned] = config["training"]
    assert trainings[True] == trainings[False]


@pytest.mark.issue(62)
@pytest.mark.parametrize("options", [[], ["--fine-tune"], ["--placement", "both"]])
def test_averaged_weights_are_saved(options, tmp_path):
    """Without them, the best of a few noisy evaluations is taken: texts were worse with ELMo than without."""
    call("init-config", tmp_path / "any.cfg", "--component", "ner,textcat", "--baseline", *options)
    for name in ("any.cfg", "any_baseline.cfg"):
        assert read_config(tmp_path / name)["training"]["optimizer"]["use_averages"], name
        assert "saves averaged weights" in (tmp_path / name).read_text(encoding="utf8")


RISING = {"@schedules": "spacy-elmo.slanted_triangular.v1", "max_rate": 0.03, "num_steps": 20000}
RISING = {**RISING, "cut_frac": 0.3, "ratio": 32.0, "t": 0}


@pytest.mark.issue(62)
@pytest.mark.parametrize(
    "components, options, rate, patience, text",
    [
        ("ner", [], 0.001, 1600, "Differs from it: saves"),
        ("textcat", [], RISING, 3000, "ends after 3,000 updates without a better score, saves"),
        ("textcat_multilabel", [], RISING, 3000, "a learning rate that rises, then falls"),
        ("textcat", ["--placement", "both"], 0.001, 4000, "ends after 4,000 updates without a better score, saves"),
        ("textcat_multilabel,ner", [], 0.001, 4000, "ends after 4,000 updates without a better score, saves"),
        ("textcat", ["--fine-tune"], 0.001, 4000, "ends after 4,000 updates without a better score, saves"),
        ("ner", ["--fine-tune"], 0.001, 1600, "saves"),
    ],
)
def test_n_grams_alone_are_learned_with_a_rising_rate(components, options, rate, patience, text, tmp_path):
    """It leads from strong to weak regularization; it is thirty times that of other components, which keep theirs.
    Beside them, layers are learned first, then there is a plateau until the n-grams are.
    """
    call("init-config", tmp_path / "any.cfg", "--component", components, "--baseline", *options)
    for name in ("any.cfg", "any_baseline.cfg"):
        training = read_config(tmp_path / name)["training"]
        assert (training["optimizer"]["learn_rate"], training["patience"]) == (rate, patience), name
        assert text in (tmp_path / name).read_text(encoding="utf8")
        assert training["max_steps"] == RISING["num_steps"], "the rate falls until training ends"


@pytest.mark.issue(59)
def test_concatenated_layers_get_no_log_of_weights(tmp_path):
    call("init-config", tmp_path / "texts.cfg", "--component", "textcat", "--baseline")
    for name in ("texts.cfg", "texts_baseline.cfg"):
        assert read_config(tmp_path / name)["training"]["logger"]["@loggers"] == "spacy.ConsoleLogger.v3", name


@pytest.mark.issue(51)
@pytest.mark.parametrize("options", [[], ["--optimize", "efficiency"], ["--placement", "both"]])
def test_fine_tune_differs_only_in_what_trains_the_bilm(options, tmp_path):
    """As configs/elmo_ner_finetune.cfg does it."""
    recipe = read_config(Path(__file__).parents[2] / "configs" / "elmo_ner_finetune.cfg")
    path, frozen = tmp_path / "tuned.cfg", tmp_path / "frozen.cfg"
    call("init-config", path, "--component", "ner,tagger", "--fine-tune", *options)
    fill_config(tmp_path / "filled.cfg", path, silent=True)
    tuned = read_config(path)
    assert tuned == read_config(tmp_path / "filled.cfg")
    for name in ("frozen", "fine_tuning"):
        assert tuned["components"]["elmo"]["model"][name] == recipe["components"]["elmo"]["model"][name]
    call("init-config", frozen, "--component", "ner,tagger", *options)
    plain = read_config(frozen)
    tuned["components"]["elmo"]["model"].update(frozen=True, fine_tuning=None)
    assert tuned == plain


def _write_trained(path, *, elmo=None, first="tagger", second="ner"):
    """A pipeline with a tokenizer rule, vectors, shared layers, a disabled component and two trained ones."""
    nlp = spacy.blank("en")
    nlp.tokenizer.add_special_case("songs", [{"ORTH": "song"}, {"ORTH": "s"}])
    nlp.vocab.set_vector("Ada", numpy.ones(8, dtype="float32"))
    shared = "spacy.Tok2VecListener.v1" if elmo is None else "spacy-elmo.ElmoListener.v1"
    tok2vec = {"@architectures": shared, **({"width": 96} if elmo is None else {})}
    if elmo is None:
        nlp.add_pipe("tok2vec")
    else:
        nlp.add_pipe("elmo", config={"weights": str(elmo), "store": "layers"})
    nlp.add_pipe("tagger", name=first, config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}})
    nlp.add_pipe("sentencizer", name="unused")
    model = nlp.get_factory_meta("ner").default_config["model"]
    nlp.add_pipe("ner", name=second, config={"model": {**model, "hidden_width": 32, "tok2vec": tok2vec}})
    examples = [Example.from_dict(nlp.make_doc("Ada sings"), {"tags": ["N", "V"], "entities": [(0, 3, "PERSON")]})]
    nlp.initialize(lambda: examples)
    nlp.disable_pipe("unused")
    nlp.to_disk(path)
    return nlp


@pytest.mark.issue(40)
@pytest.mark.issue(48)
@pytest.mark.parametrize(
    "component, second, is_elmo",
    [("ner", "ner", False), ("entities", "entities", True), ("textcat", "ner", False), ("tagger,ner", "ner", True)],
)
def test_one_component_of_a_trained_pipeline_moves_to_elmo(component, second, is_elmo, bilm_path, tmp_path):
    before = _write_trained(tmp_path / "base", elmo=bilm_path if is_elmo else None, second=second)
    path = tmp_path / "from.cfg"
    for options, text in (([], f"tagger, unused, {second}"), (["--component", "taggr"], "there is no factory 'taggr'")):
        assert text in refused("init-config", path, "--from", tmp_path / "base", *options)
    bilm = [] if is_elmo else ["--bilm", bilm_path]
    call("init-config", path, "--from", tmp_path / "base", "--component", component, *bilm)
    fill_config(tmp_path / "filled.cfg", path, silent=True)
    assert read_config(path)["components"] == read_config(tmp_path / "filled.cfg")["components"]
    overrides = {**make_overrides(tmp_path), **shorten(path, 2), "training.eval_frequency": 1}
    train(path, tmp_path / "out", overrides=overrides)
    after = spacy.load(tmp_path / "out" / "model-last")
    names = component.split(",")
    assert set(names) <= set(after.pipe_names) and after.disabled == ["unused"]
    assert ("tok2vec" in after.pipe_names) == (not is_elmo and names != ["tagger", "ner"])
    assert set(names) <= set(after.get_pipe("elmo").listening_components)
    if is_elmo:
        tuned = refused("init-config", tmp_path / "tuned.cfg", "--from", tmp_path / "base", "-p", component, "-ft")
        assert "--fine-tune" in tuned and "other components read it" in tuned
    text = "Ada sings songs. Bob sleeps."
    first, then = before(text), after(text)
    assert [token.text for token in first] == [token.text for token in then] and then[0].vector.all()
    for name, attribute in (("tagger", "tag_"), (second, "ent_type_")):
        if name not in names:
            assert [getattr(token, attribute) for token in first] == [getattr(token, attribute) for token in then]
    weights = {
        name: value for name, value in read_config(path)["training"]["score_weights"].items() if value is not None
    }
    assert ("tag_acc" in weights) == ("tagger" in names) and sum(weights.values()) == pytest.approx(1)
    if second in names:
        assert read_config(path)["components"][second]["model"]["hidden_width"] == 32


@pytest.mark.issue(62)
@pytest.mark.parametrize(
    "is_elmo, component, wanted",
    [(False, "ner", ["tok2vec", "tagger", "unused", "ner"]), (True, "ner", ["elmo", "tagger", "unused", "ner"])]
    + [(True, "tagger,ner", ["unused", "tagger", "ner"])],
)
def test_baseline_of_a_trained_pipeline_reads_no_elmo(is_elmo, component, wanted, bilm_path, tmp_path):
    _write_trained(tmp_path / "base", elmo=bilm_path if is_elmo else None)
    bilm = [] if is_elmo else ["--bilm", bilm_path]
    call("init-config", tmp_path / "a.cfg", "--from", tmp_path / "base", "--component", component, "--baseline", *bilm)
    config = read_config(tmp_path / "a_baseline.cfg")
    assert sorted(config["nlp"]["pipeline"]) == sorted(wanted)
    for name in component.split(","):
        assert not [text for text in _architectures(config["components"][name]) if "Elmo" in text]
    overrides = {**make_overrides(tmp_path), "training.max_steps": 1}
    train(tmp_path / "a_baseline.cfg", tmp_path / "out", overrides=overrides)
    # The trained baseline has the network of a new one.
    call("init-config", tmp_path / "b.cfg", "--from", tmp_path / "out" / "model-last", "-p", component, "-B", *bilm)
    again = read_config(tmp_path / "b_baseline.cfg")["components"]
    assert all(again[name] == config["components"][name] for name in component.split(","))


@pytest.mark.issue(62)
def test_a_trained_classifier_of_n_grams_moves_to_elmo(bilm_path, tmp_path):
    """With its settings."""
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-elmo.TextCatNgrams.v1", "tok2vec": None, "exclusive_classes": True, "width": 64}
    nlp.add_pipe("textcat", name="intents", config={"model": model})
    nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("a"), {"cats": {"a": 1.0, "b": 0.0}})])
    nlp.to_disk(tmp_path / "base")
    call("init-config", tmp_path / "a.cfg", "--from", tmp_path / "base", "-p", "intents", "-B", "--bilm", bilm_path)
    configs = [read_config(tmp_path / f"{name}.cfg") for name in ("a", "a_baseline")]
    assert [config["training"]["patience"] for config in configs] == [3000, 3000]
    ours, theirs = (config["components"]["intents"] for config in configs)
    assert ours["model"]["tok2vec"]["mix"] == "concat" and theirs["model"]["tok2vec"] is None
    assert ours["model"]["width"] == theirs["model"]["width"] == 64


def _cases():
    fast = [(name, {"optimize": "efficiency"}, 1) for name in FAST]
    slow = [(name, {"optimize": "efficiency"}, 1) for name in SLOW]
    slow += [(name, {"fine_tune": True}, 1) for name in ("ner", "textcat", "biaffine_parser")]
    slow += [(name, {"optimize": "accuracy"}, 1) for name in ("ner", "parser", "textcat", "spancat")]
    slow += [("ner", {"placement": placement}, len(places)) for placement, places in PLACES.items()]
    slow += [(name, {"placement": "both"}, 2) for name in ("beam_parser", "textcat_multilabel", "biaffine_parser")]
    return [*fast, *(pytest.param(*case, marks=pytest.mark.slow) for case in slow)]


@pytest.mark.parametrize("name, settings, n_listeners", _cases())
def test_component_trains_and_learns_its_mix(name, settings, n_listeners, bilm_path, tmp_path):
    (tmp_path / "config.cfg").write_text(
        make_pipeline_config(pipeline=name, bilm=str(bilm_path), **{"fine_tune": False, **settings}), encoding="utf8"
    )
    overrides = {**make_overrides(tmp_path), **shorten(tmp_path / "config.cfg", 3), "training.eval_frequency": 3}
    train(tmp_path / "config.cfg", tmp_path / "out", overrides=overrides)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    weights = [bilm.network.state_dict() for bilm in (load_bilm(bilm_path), get_bilm(nlp.get_pipe("elmo").model))]
    is_same = [first.equal(last) for first, last in zip(*(found.values() for found in weights))]
    assert ("fine_tune" in settings) == (not all(is_same)), "the biLM is trained"
    assert nlp.get_pipe("elmo").listening_components == [name]
    listeners = get_listeners(nlp.get_pipe(name).model)
    assert len(listeners) == n_listeners
    if name.startswith("textcat") and "placement" not in settings:  # keeps the layers apart, behind n-grams
        (scorer,) = [node for node in nlp.get_pipe(name).model.walk() if node.has_param("W")]  # type: ignore[attr-defined]
        assert abs(scorer.get_param("W")[:, 8192:]).max() > 0, "the gradient reached the layers"
    else:
        assert all(abs(listener.mix.get_param("w")).max() > 0 for listener in listeners), "it reached the mixes"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a listener that gets no layers warns
        assert len(nlp("Ada sings songs.")) == 4
