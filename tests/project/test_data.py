"""Data sets become .spacy files, or an error says where they were looked for; the sample is what its README says."""

import gzip
import re
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

SCRIPT = "data"
SPLITS = ("train", "dev", "test")
PROJECT_DIR = Path(__file__).parents[2] / "project"
PROJECT = srsly.read_yaml(PROJECT_DIR / "project.yml")
SAMPLE_DIR = PROJECT_DIR / "assets" / "sample"
# A tab before an empty line, as in the upstream file.
COLUMNS = "Empire\tB-location\nState\tI-location\nis\tO\n\t\nBack\tO\n\n"
CONLLU = """# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\tVerbForm=Inf\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

"""


def _docs(path):
    return list(DocBin().from_disk(path).get_docs(Vocab()))


def _write_splits(folder, pattern, content):
    for split in SPLITS:
        path = folder / pattern.format(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_sample_is_prepared(script, invoke, tmp_path):
    result = invoke(script.app, "prepare", "sample", tmp_path)
    assert "train.spacy" in result.output
    docs = _docs(tmp_path / "train.spacy")
    assert f"{len(docs)} docs" in result.output
    assert len(docs) >= 100  # or `spacy debug data` fails
    assert max(len(list(doc.sents)) for doc in docs) == script.SAMPLE_SENTENCES_PER_DOC
    assert all(doc.has_annotation(name) for doc in docs for name in ("TAG", "ENT_IOB", "SENT_START"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.spacy", "test.spacy", "train.spacy"]


def test_wnut17_is_read_from_each_layout(script, tmp_path):
    for name in ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"):
        _write_splits(tmp_path / "upstream" / "wnut17", name, COLUMNS.encode())
    _write_splits(tmp_path / "local" / "ner" / "wnut17", "{}.iob2", COLUMNS.encode())
    for folder in ("upstream", "local"):
        script.prepare("wnut17", tmp_path / "out", str(tmp_path / folder))
        first, second = _docs(tmp_path / "out" / "test.spacy")
        assert [token.text for token in first] == ["Empire", "State", "is"]
        assert [(ent.text, ent.label_) for ent in first.ents] == [("Empire State", "location")]
        assert second.has_annotation("ENT_IOB") and not second.ents


@pytest.mark.parametrize("pattern", ["ud_en_ewt/en_ewt-ud-{}.conllu", "ud/en_ewt/{}.conllu.gz"])
def test_ud_is_read_from_each_layout(script, tmp_path, pattern):
    _write_splits(tmp_path, pattern, gzip.compress(CONLLU.encode()) if pattern.endswith(".gz") else CONLLU.encode())
    script.prepare("ud_en_ewt", tmp_path / "out", str(tmp_path))
    (doc,) = _docs(tmp_path / "out" / "dev.spacy")
    assert [token.text for token in doc] == ["Don't", "go", "."]
    assert [(token.tag_, token.pos_) for token in doc[1:]] == [("VB", "VERB"), (".", "PUNCT")]


def test_goemotions_is_read_with_all_labels(script, tmp_path):
    lines = b'{"text": "Thanks, lol!", "labels": ["gratitude", "joy"]}\n{"text": "Ok", "labels": ["neutral"]}\n'
    _write_splits(tmp_path / "goemotions", "{}.jsonl.gz", gzip.compress(lines))
    script.prepare("goemotions", tmp_path / "out", str(tmp_path))
    first, second = _docs(tmp_path / "out" / "train.spacy")
    assert [token.text for token in first] == ["Thanks", ",", "lol", "!"]
    assert first.cats == {"gratitude": 1.0, "joy": 1.0, "neutral": 0.0}
    assert second.cats == {"gratitude": 0.0, "joy": 0.0, "neutral": 1.0}


def test_spacy_files_are_taken_as_they_are(script, tmp_path):
    doc = Doc(Vocab(), words=["Back"], ents=["O"])
    _write_splits(tmp_path / "ner" / "wnut17", "{}.spacy", DocBin(docs=[doc]).to_bytes())
    counts = script.prepare("wnut17", tmp_path / "out", str(tmp_path))
    assert list(counts.values()) == [(1, 1)] * 3


def test_shared_copies_equal_the_published_counts(script, tmp_path, shared_data):
    counts = script.prepare("wnut17", tmp_path, str(shared_data))
    assert list(counts.values()) == [(3394, 62730), (1009, 15733), (1287, 23394)]


def test_unknown_dataset_lists_the_known_ones(script, invoke, tmp_path):
    result = invoke(script.app, "prepare", "conll2003", tmp_path, code=1)
    assert all(name in result.output for name in ("conll2003", "sample", "wnut17", "ud_en_ewt"))


def test_missing_files_and_folders_are_named(script, tmp_path, monkeypatch):
    _write_splits(tmp_path / "ner" / "wnut17", "train.iob2", COLUMNS.encode())
    with pytest.raises(FileNotFoundError, match="are missing below") as error:
        script.prepare("wnut17", tmp_path / "out", str(tmp_path))
    assert "dev:" in str(error.value) and "train:" not in str(error.value)
    assert not (tmp_path / "out").exists()
    with pytest.raises(FileNotFoundError, match=re.escape(str(PROJECT_DIR.parent / "no-such-folder"))):
        script.prepare("wnut17", tmp_path, "../no-such-folder")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        script.prepare("sample", tmp_path, "no-such-folder")
    (tmp_path / "checkout" / "project").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(script, "PROJECT_DIR", tmp_path / "checkout" / "project")
    with pytest.raises(FileNotFoundError, match="Did you mean '../../data'"):
        script.prepare("wnut17", tmp_path, "../data")
    with pytest.raises(FileNotFoundError, match="part of the repository"):
        script.prepare("sample", tmp_path / "out")


@pytest.mark.issue(16)
def test_missing_files_are_downloaded_only_where_the_project_can(script, tmp_path):
    downloaded = {Path(asset["dest"]).parts[2] for asset in PROJECT["assets"]}
    for name, dataset in script.DATASETS.items():
        if dataset.is_ours:
            continue
        assert dataset.is_downloaded == (name in downloaded)
        for folder in (tmp_path, tmp_path / "none"):
            with pytest.raises(FileNotFoundError) as error:
                script.prepare(name, tmp_path / "out", str(folder))
            assert ("spacy project assets" in str(error.value)) == dataset.is_downloaded
            assert ("not downloaded" in str(error.value)) != dataset.is_downloaded
            assert "`--vars.assets_dir`" in str(error.value) and "`--assets-dir`" in str(error.value)


# The check before a workflow


@pytest.mark.issue(16)
def test_check_names_all_that_is_missing(script, invoke, tmp_path):
    _write_splits(tmp_path / "ner" / "wnut17", "{}.iob2", b"")
    text = tmp_path / "a.txt"
    text.write_text("The bank floods .\n", encoding="utf8")
    invoke(script.app, "check", "wnut17", "sample", "--assets-dir", tmp_path, "--raw-text", text)
    arguments = ("check", "wnut17", "wikigold", "semcor", "--assets-dir", tmp_path, "--raw-text", "")
    result = invoke(script.app, *arguments, code=1)
    assert result.output.count("are missing below") == 2
    assert "'wikigold'" in result.output and "'semcor'" in result.output and "wnut17" not in result.output
    assert "no sentence" in result.output and "--vars.raw_text" in result.output
    invoke(script.app, "check", "sample", "--raw-text", tmp_path / "b.txt", code=1)


# The sample


@pytest.fixture
def sample(script):
    """Passages by split."""
    return {split: script.read_passages(SAMPLE_DIR / f"{split}.txt") for split in SPLITS}


@pytest.mark.usefixtures("all_english_exceptions")
def test_sample_is_tokenized_as_spacy_does_and_has_no_sentence_twice(sample):
    sentences = [tuple(row[0] for row in s) for passages in sample.values() for passage in passages for s in passage]
    assert len(sentences) >= 400
    assert len({tuple(word.lower() for word in s) for s in sentences}) == len(sentences)
    assert all(3 <= len(s) <= 35 for s in sentences)
    tokenizer = spacy.blank("en").tokenizer
    assert all([token.text for token in tokenizer(" ".join(words))] == list(words) for words in sentences)


def test_sample_keeps_tags_entities_and_sentences(script, tmp_path):
    good = "# topic: law\n# a comment\nIn/ADP [LOC New/PROPN York/PROPN] ,/PUNCT\n\nand/or/CCONJ //SYM [ORG [/X]\n"
    (tmp_path / "good.txt").write_text(good, encoding="utf8")
    (doc,) = script.read_sample(tmp_path / "good.txt")
    assert [token.text for token in doc] == ["In", "New", "York", ",", "and/or", "/", "["]
    assert [token.pos_ for token in doc] == ["ADP", "PROPN", "PROPN", "PUNCT", "CCONJ", "SYM", "X"]
    assert [token.tag_ for token in doc] == [token.pos_ for token in doc]
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("New York", "LOC"), ("[", "ORG")]
    assert [sent.start for sent in doc.sents] == [0, 4]
    assert all(token.ent_iob_ for token in doc), "no entity is known, not missing"


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("# topic: law\na/DET\nlight/NOUM\n", 3, ["'light/NOUM'", "NOUN, NUM"]),
        ("# topic: law\nlight\n", 2, ["'light'", "a slash"]),
        ("# topic: law\n[LOC New/PROPN [ORG York/PROPN]\n", 2, ["found '[ORG'"]),
        ("# topic: law\n[GPE Rome/PROPN]\n", 2, ["found '[GPE'", "PERSON, LOC"]),
        ("# topic: law\n[LOC Rome/PROPN\n", 2, ["'[LOC' without ']'"]),
        ("# topic: law\nRome/PROPN]\n", 2, ["'Rome/PROPN]'"]),
        ("Rome/PROPN\n", 1, ["# topic:"]),
    ],
)
def test_bad_line_of_the_sample_is_named(script, tmp_path, text, line, words):
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf8")
    with pytest.raises(ValueError, match=rf"bad\.txt', line {line}: ") as caught:
        script.read_passages(path)
    assert all(word in str(caught.value) for word in words)
