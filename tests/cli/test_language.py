"""The language of a text: from --lang, else from the index, else from the biLM, else English."""

import json

import numpy as np
import pytest
from cli.calls import call, call_json, refused, told
from thinc.api import Config

from spacy_elmo import load_bilm
from spacy_elmo.analysis.neighbors import NeighborIndex
from spacy_elmo.pipeline.starter_config import make_pipeline_config
from spacy_elmo.weights import save_bilm

# One token for the English rules, two for the French ones, which the vocabulary of the fixture has.
TEXT = "l'affaire est tr\xe8s bonne. L'\u0153uvre aussi."
ENGLISH = ["l'affaire", "est", "tr\xe8s", "bonne", "."]
FRENCH = ["l'", "affaire", "est", "tr\xe8s", "bonne", "."]
pytestmark = pytest.mark.issue(37)


def _other(path, french, **meta):
    """The same biLM with other meta data."""
    bilm = load_bilm(french)
    bilm.meta = meta
    save_bilm(bilm, path)
    return path


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    path = tmp_path_factory.mktemp("raw") / "raw.txt"
    path.write_text(f"{TEXT}\n" * 3, encoding="utf8")
    return path


@pytest.fixture(scope="module")
def indexes(french, raw, tmp_path_factory):
    """Indexes of the text, built with --lang and of tokenized text."""
    folder = tmp_path_factory.mktemp("indexes")
    tokenized = folder / "tokenized.txt"
    tokenized.write_text(" ".join(FRENCH), encoding="utf8")
    for name, options in {"fr": [raw, "--lang", "fr"], "en": [raw, "--lang", "en"], "none": [tokenized]}.items():
        call("index", options[0], folder / name, *options[1:], "--bilm", french)
    return {name: folder / name for name in ("fr", "en", "none")}


@pytest.mark.parametrize(
    "lang, options, wanted",
    [
        ("fr", (), FRENCH),
        ("fr", ("--lang", "en"), ENGLISH),
        *((lang, (), ENGLISH) for lang in (None, "", 5, ["fr"])),
        ("frr", (), None),  # spaCy does not have it
        ("frr", ("--lang", "fr"), FRENCH),
    ],
)
def test_text_is_tokenized_in_the_language_of_the_bilm(lang, options, wanted, french, tmp_path):
    path = french if lang == "fr" else _other(tmp_path / "bilm", french, lang=lang)
    command = ("substitutes", path, TEXT, "--word", "est", *options)
    if wanted is None:
        shown = refused(*command)
        assert "'frr'" in shown and "Set --lang" in shown
        return
    assert call_json(*command)["sentence"] == wanted
    assert [token["token"] for token in call_json("surprisal", path, TEXT, *options)["tokens"]][: len(wanted)] == wanted


def test_content_words_are_those_of_the_language_of_the_bilm(french, raw, tmp_path):
    (tmp_path / "a.txt").write_text("les affaires sont the end", encoding="utf8")
    command = ["index", tmp_path / "a.txt", tmp_path / "index", "--bilm", french, "--content-words"]
    call_json(*command)
    for words, options in (
        ({"affaires", "the", "end"}, ()),
        ({"les", "affaires", "sont", "end"}, ("--lang", "en", "--force")),
    ):
        call(*command, *options)  # without a choice that of the index, whatever the default
        with NeighborIndex.open(tmp_path / "index") as index:
            assert set(index.words) == words


@pytest.mark.issue(48)
def test_raw_text_is_read_in_the_language_of_the_bilm_by_every_command(french, raw, tmp_path):
    tokenized = tmp_path / "tokenized.txt"
    tokenized.write_text(" ".join(FRENCH) + "\n", encoding="utf8")
    other = _other(tmp_path / "other", french, lang="frr")  # spaCy does not have it
    indexes = iter(range(99))

    def tokens(command, text, bilm, *options):
        if command == "embed":
            call("embed", bilm, text, tmp_path / "a.npz", "--force", *options)
            return len(np.load(tmp_path / "a.npz")["tokens"])
        if command == "index":
            return call_json("index", text, tmp_path / str(next(indexes)), "--bilm", bilm, *options)["tokens"]
        return call_json("perplexity", bilm, text, *options)["text"]["n_tokens"]

    for command in ("embed", "index", "perplexity"):
        assert tokens(command, raw, french) == tokens(command, raw, french, "--lang", "fr") == 30
        assert tokens(command, raw, french, "--lang", "none") == tokens(command, raw, other) == 18
        assert tokens(command, tokenized, french) == 6
    call("index", raw, tmp_path / "more", "--bilm", french)
    assert call_json("index", tokenized, tmp_path / "more")["tokens"] > 30
    assert call_json("neighbors", tmp_path / "more", TEXT, "--word", "affaire")["sentence"] == FRENCH
    assert "EL393" in refused("index", tokenized, tmp_path / "more", "--lang", "none")
    assert "--lang none" in told("perplexity", french, raw) and "WL103" not in told("perplexity", french, tokenized)
    assert "WL103" not in told("perplexity", french, raw, "--lang", "none")
    for command in (("index", raw, tmp_path / "new", "--bilm", french), ("embed", french, raw, tmp_path / "new.npz")):
        assert "WL103" in (shown := told(*command)) and "--lang fr" in shown


def test_explorer_takes_bilm_and_language_of_the_index(indexes, french, tmp_path):
    pytest.importorskip("starlette")
    from spacy_elmo.explorer.opening import open_explorer

    def tokens(**settings):
        explorer = open_explorer(**settings)
        answer = explorer.answer("tokens", json.dumps({"text": "l'affaire"}).encode())
        return [token["text"] for token in answer["tokens"]]

    assert tokens(index=indexes["fr"]) == ["l'", "affaire"] == tokens(bilm=str(french))
    assert tokens(index=indexes["fr"], lang="en") == ["l'affaire"] == tokens(index=indexes["en"])
    assert open_explorer(index=indexes["fr"]).name == str(french)
    with pytest.raises(ValueError, match="EL394"):
        open_explorer(index=indexes["fr"], bilm="en_elmo_sm")


def test_a_bilm_of_an_index_that_has_moved_is_named(french, raw, tmp_path):
    bilm = _other(tmp_path / "old", french, lang="fr")
    call("index", raw, tmp_path / "index", "--bilm", bilm, "--lang", "fr")
    bilm.rename(tmp_path / "new")
    command = ("neighbors", tmp_path / "index", TEXT, "--word", "est")
    shown = refused(*command)
    assert "The biLM of the index" in shown and "--bilm" in shown
    assert call_json(*command, "--bilm", tmp_path / "new")["sentence"] == FRENCH


@pytest.mark.filterwarnings("default:corpus.lang")
@pytest.mark.parametrize("kind", ["pretraining", "adaptation"])
def test_config_of_a_run_tokenizes_raw_text_in_the_language_that_is_given(kind, french):
    command = [f"init-{kind}", "-", *(["--bilm", french] if kind == "adaptation" else [])]
    given = Config().from_str(call(*command, "--lang", "de").stdout)
    assert given["corpus"]["lang"] == "de" == given["meta"]["lang"]
    default = Config().from_str(call(*command).stdout)
    assert default["corpus"]["lang"] is None  # nothing says that the text is raw
    assert default["meta"]["lang"] == (None if kind == "adaptation" else "en")  # null: that of paths.init
    result = call(*command, "--lang", "frr")
    unknown = Config().from_str(result.stdout)
    assert "no tokenizer for the language 'frr'" in " ".join(result.stderr.split())
    assert unknown["corpus"]["lang"] is None and unknown["meta"]["lang"] == "frr"


@pytest.mark.parametrize(
    "bilm, lang, wanted", [("french", None, "fr"), ("french", "de", "de"), ("en_elmo_sm", None, "en")]
)
def test_config_of_a_pipeline_is_in_the_language_of_the_bilm(bilm, lang, wanted, french):
    text = make_pipeline_config(pipeline="ner", lang=lang, bilm=bilm.replace("french", str(french)))
    assert Config().from_str(text, interpolate=False)["nlp"]["lang"] == wanted
