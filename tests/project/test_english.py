"""The wheel of en_elmo_ewt in the repository, which the README's first command installs."""

import re
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import spacy
import srsly
from packaging.requirements import Requirement

from spacy_elmo import load_bilm
from spacy_elmo.about import __title__, __version__

pytestmark = pytest.mark.issue(61)
SCRIPT = "pipeline"
NAME = "en_elmo_ewt"
ROOT = Path(__file__).parents[2]
WHEEL = ROOT / "project" / "packages" / f"{NAME}-{__version__}-py3-none-any.whl"
RESULTS = ROOT / "project" / "english" / "results.jsonl"
MAX_BYTES = 12_000_000
BUILD = f"Build the wheel again with `python -m spacy project run all project/english`, and copy it to '{WHEEL}'."


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The wheel, installed as pip does: its files, and its metadata beside them."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def meta(site):
    return srsly.read_json(site / NAME / "meta.json")


@pytest.fixture
def nlp(site, monkeypatch):
    """The pipeline of the wheel, by its name."""
    monkeypatch.syspath_prepend(str(site))
    return spacy.load(NAME)


def test_the_repository_has_one_small_wheel_of_this_version():
    assert [path.name for path in WHEEL.parent.glob("*.whl")] == [WHEEL.name], BUILD
    assert WHEEL.stat().st_size <= MAX_BYTES


def test_the_wheel_was_made_by_the_present_recipe(script, site, meta, tmp_path):
    """Settings, biLM and version; the entity recognizer is trained on the other components."""
    assert meta["version"] == __version__, BUILD
    recipe = {stage: meta["recipe"][stage]["config_digest"] for stage in ("treebank", "entities")}
    added = ["attribute_ruler", "ner"]  # behind the training of the treebank
    base = spacy.load(site / NAME / f"{NAME}-{__version__}", exclude=added)
    base.to_disk(tmp_path / "base")
    configs = {
        "treebank": script.make_treebank_config("en", "en_elmo_sm"),
        "entities": script.make_entity_config(tmp_path / "base"),
    }
    assert recipe == {stage: script.digest_config(config) for stage, config in configs.items()}, BUILD
    for settings in meta["recipe"].values():
        assert {**settings, **script.identify("en_elmo_sm"), "max_steps": 0} == settings, BUILD


def test_the_scores_of_the_wheel_are_those_of_the_documented_results(meta):
    (results,) = (row for row in srsly.read_jsonl(RESULTS) if row["seed"] == 0)
    assert {stage: stored["settings"] for stage, stored in results["stages"].items()} == meta["recipe"]
    kinds = ("raw", "gold", "uner_ewt", "wikigold")
    scores = {f"{kind}_{key}".lower(): value for kind in kinds for key, value in results[kind].items()}
    assert scores == meta["performance"]


def test_the_wheel_needs_this_package_alone(site):
    """Which pip finds in the same command: nothing is searched for."""
    (path,) = site.glob("*.dist-info/METADATA")
    metadata = message_from_string(path.read_text(encoding="utf8"))
    (requirement,) = map(Requirement, metadata.get_all("Requires-Dist"))
    assert requirement.name == __title__ and __version__ in requirement.specifier


def test_the_readme_gets_annotations_from_the_wheel(nlp):
    text = re.search(r'spacy\.load\("en_elmo_ewt"\)\("(.*)"\)', (ROOT / "README.md").read_text(encoding="utf8"))
    doc = nlp(text[1])
    assert text[1] == "Ada Lovelace met Charles Babbage."
    assert [token.pos_ for token in doc] == ["PROPN", "PROPN", "VERB", "PROPN", "PROPN", "PUNCT"]
    assert [token.tag_ for token in doc] == ["NNP", "NNP", "VBD", "NNP", "NNP", "."]
    assert [token.dep_.lower() for token in doc] == ["nsubj", "flat", "root", "obj", "flat", "punct"]
    assert doc[2].lemma_ == "meet" and doc[2].morph.get("Tense") == ["Past"]
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Ada Lovelace", "PER"), ("Charles Babbage", "PER")]
    assert [chunk.text for chunk in doc.noun_chunks] == ["Ada Lovelace", "Charles Babbage"]


def test_sentences_begin_inside_a_paragraph(nlp):
    doc = nlp("The bank raised its rates. We walked along the bank, and it rained. Then she left.")
    assert [sent.text.strip() for sent in doc.sents] == [
        "The bank raised its rates.",
        "We walked along the bank, and it rained.",
        "Then she left.",
    ]
    assert [sent.root.text for sent in doc.sents] == ["raised", "walked", "left"]


def test_the_wheel_refers_to_the_packaged_bilm_by_name(nlp):
    """It has no copy of the weights, and computes the same vectors."""
    text = "He broke the record."
    layers = load_bilm("en_elmo_sm").embed([[token.text for token in nlp.make_doc(text)]])[0]
    assert nlp(text)._.elmo_layers == pytest.approx(layers, abs=1e-5)


def test_white_space_is_annotated_as_in_pipelines_of_spacy(nlp):
    doc = nlp("Hello world.\n\nNew  paragraph here.")
    spaces = [(token.text, token.pos_, token.tag_, str(token.morph)) for token in doc if token.is_space]
    assert spaces == [(text, "SPACE", "_SP", "") for text in ("\n\n", " ")]
    assert [sentence.text for sentence in doc.sents] == ["Hello world.\n\n", "New  paragraph here."]


@pytest.mark.parametrize("gap", ["  ", "\n", " \n "])
def test_gaps_between_sentences_change_no_annotation(nlp, gap):
    text = "It rained all day. Then we left. Nobody spoke."
    read = [
        [(token.text, token.tag_, token.pos_, token.lemma_, token.dep_, token.head.text) for token in doc if token.dep]
        for doc in nlp.pipe([text, text.replace(". ", f".{gap}")], disable=["ner"])
    ]
    plain, spaced = ([row for row in rows if row[2] != "SPACE"] for rows in read)
    assert spaced == plain
    assert len(list(nlp(text.replace(". ", f".{gap}")).sents)) == 3
