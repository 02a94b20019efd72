"""Data sets become .spacy files, or an error says where they were looked for; the sample is what its README says."""

import gzip
import re
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

SCRIPT = "data"
SPLITS = ("train", "dev", "test")
PROJECT_DIR = Path(__file__).parents[2] / "project"
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


def test_shared_copies_equal_the_published_counts(script, tmp_path, shared_data):
    counts = script.prepare("wnut17", tmp_path, str(shared_data))
    assert list(counts.values()) == [(3394, 62730), (1009, 15733), (1287, 23394)]


GOEMOTIONS = '{"text": "Thanks, lol!", "labels": ["gratitude", "joy"]}\n{"text": "Ok", "labels": ["neutral"]}\n'
EMPIRE = [(["Empire", "State", "is"], [("Empire State", "location")]), (["Back"], [])]
DOCBIN = DocBin(docs=[Doc(Vocab(), words=["Back"], ents=["O"])]).to_bytes()


@pytest.mark.parametrize(
    "name, pattern, content, wanted",
    [
        ("wnut17", "wnut17/wnut17{0}.conll wnut17/emerging.{0}.conll wnut17/emerging.{0}.annotated", COLUMNS, EMPIRE),
        ("wnut17", "ner/wnut17/{}.iob2", COLUMNS, EMPIRE),
        ("wnut17", "ner/wnut17/{}.spacy", DOCBIN, [(["Back"], [])]),
        ("ud_en_ewt", "ud_en_ewt/en_ewt-ud-{}.conllu", CONLLU, [(["Don't", "go", "."], [])]),
        ("ud_en_ewt", "ud/en_ewt/{}.conllu.gz", CONLLU, [(["Don't", "go", "."], [])]),
        ("goemotions", "goemotions/{}.jsonl.gz", GOEMOTIONS, [(["Thanks", ",", "lol", "!"], []), (["Ok"], [])]),
    ],
)
def test_data_sets_are_read_from_each_layout(script, tmp_path, name, pattern, content, wanted):
    content = content if isinstance(content, bytes) else content.encode()
    for path in pattern.split():
        _write_splits(tmp_path, path, gzip.compress(content) if path.endswith(".gz") else content)
    script.prepare(name, tmp_path / "out", str(tmp_path))
    docs = _docs(tmp_path / "out" / "test.spacy")
    found = [([token.text for token in doc], [(ent.text, ent.label_) for ent in doc.ents]) for doc in docs]
    assert found == wanted
    if name == "ud_en_ewt":
        assert [(token.tag_, token.pos_) for token in docs[0][1:]] == [("VB", "VERB"), (".", "PUNCT")]
    if name == "goemotions":
        assert docs[0].cats == {"gratitude": 1.0, "joy": 1.0, "neutral": 0.0}


def test_what_is_missing_is_named(script, invoke, tmp_path):
    result = invoke(script.app, "prepare", "conll2003", tmp_path, code=1)
    assert all(name in result.output for name in ("conll2003", "sample", "wnut17", "ud_en_ewt"))
    _write_splits(tmp_path / "ner" / "wnut17", "train.iob2", COLUMNS.encode())
    for name, folder, problem in (
        ("wnut17", tmp_path, "are missing below"),
        ("wnut17", "../no-such-folder", re.escape(str(PROJECT_DIR.parent / "no-such-folder"))),
        ("sample", "no-such-folder", "does not exist"),
    ):
        with pytest.raises(FileNotFoundError, match=problem) as error:
            script.prepare(name, tmp_path / "out", str(folder))
        assert "dev:" in str(error.value) or folder != tmp_path
    assert not (tmp_path / "out").exists()


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


@pytest.mark.usefixtures("all_english_exceptions")
def test_sample_is_tokenized_as_spacy_does_and_has_no_sentence_twice(script):
    sample = {split: script.read_passages(SAMPLE_DIR / f"{split}.txt") for split in SPLITS}
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


def test_bad_line_of_the_sample_is_named(script, tmp_path):
    for text, line, problem in (
        ("# topic: law\na/DET\nlight/NOUM\n", 3, "'light/NOUM'.*NOUN, NUM"),
        ("# topic: law\n[GPE Rome/PROPN]\n", 2, r"found '\[GPE'.*PERSON, LOC"),
        ("# topic: law\n[LOC Rome/PROPN\n", 2, r"'\[LOC' without '\]'"),
        ("Rome/PROPN\n", 1, "# topic:"),
    ):
        (tmp_path / "bad.txt").write_text(text, encoding="utf8")
        with pytest.raises(ValueError, match=rf"(?s)bad\.txt', line {line}: .*{problem}"):
            script.read_passages(tmp_path / "bad.txt")
