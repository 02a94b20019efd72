"""The English sample is what its README says, and its converter keeps it or says what is wrong."""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List

import pytest
import spacy
import typer
from spacy.tokens import DocBin
from typer.testing import CliRunner

PROJECT_DIR = Path(__file__).parents[2] / "project"
SAMPLE_DIR = PROJECT_DIR / "assets" / "sample"
SPLITS = ("train", "dev", "test")
GOOD = "# topic: law\n# a comment\nIn/ADP [LOC New/PROPN York/PROPN] ,/PUNCT\n\nand/or/CCONJ //SYM [ORG [/X]\n"


@pytest.fixture(scope="module")
def converter() -> Any:
    """The script as a module; scripts of the project import each other by bare name."""
    sys.path.insert(0, str(PROJECT_DIR / "scripts"))
    try:
        import convert_sample
    finally:
        sys.path.pop(0)
    return convert_sample


@pytest.fixture(scope="module")
def sample(converter: Any) -> Dict[str, List[Any]]:
    """Passages by split."""
    return {split: converter.read_passages(SAMPLE_DIR / f"{split}.txt") for split in SPLITS}


def _run(converter: Any, *arguments: object) -> Any:
    app = typer.Typer()
    app.command()(converter.convert_cli)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_sample_has_no_sentence_twice_and_enough_of_them(sample: Dict[str, List[Any]]) -> None:
    sentences = [tuple(row[0] for row in s) for split in SPLITS for passage in sample[split] for s in passage]
    assert len(sentences) >= 400
    assert len({tuple(word.lower() for word in s) for s in sentences}) == len(sentences)
    assert all(3 <= len(s) <= 35 for s in sentences)


@pytest.mark.usefixtures("all_english_exceptions")
def test_sample_is_tokenized_as_spacy_does(sample: Dict[str, List[Any]]) -> None:
    tokenizer = spacy.blank("en").tokenizer
    for passages in sample.values():
        for sentence in (s for passage in passages for s in passage):
            words = [word for word, _, _ in sentence]
            assert [token.text for token in tokenizer(" ".join(words))] == words


@pytest.mark.parametrize("split", SPLITS)
def test_readme_gives_the_counts_of_the_sample(sample: Dict[str, List[Any]], converter: Any, split: str) -> None:
    row = re.search(rf"^\| `{split}\.txt` \|(.*)\|$", (SAMPLE_DIR / "README.md").read_text("utf8"), re.MULTILINE)
    assert row is not None
    sentences = [sentence for passage in sample[split] for sentence in passage]
    iob_tags = Counter(iob for sentence in sentences for _, _, iob in sentence)
    entities = [iob_tags[f"B-{label}"] for label in converter.ENTITY_LABELS]
    counts = [len(sample[split]), len(sentences), sum(map(len, sentences)), *entities]
    assert [int(cell) for cell in row.group(1).split("|")] == counts


def test_every_split_has_every_topic() -> None:
    topics = [
        set(re.findall("^# topic: (.+)$", (SAMPLE_DIR / f"{split}.txt").read_text("utf8"), re.MULTILINE))
        for split in SPLITS
    ]
    assert topics[0] == topics[1] == topics[2]
    assert all(topic in (SAMPLE_DIR / "README.md").read_text("utf8") for topic in topics[0])


def test_convert_keeps_tags_entities_and_sentences(converter: Any, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text(GOOD, encoding="utf8")
    result = _run(converter, tmp_path / "good.txt", tmp_path / "new" / "good.spacy")
    assert result.exit_code == 0, result.output
    (doc,) = DocBin().from_disk(tmp_path / "new" / "good.spacy").get_docs(spacy.blank("en").vocab)
    assert [token.text for token in doc] == ["In", "New", "York", ",", "and/or", "/", "["]
    assert [token.pos_ for token in doc] == ["ADP", "PROPN", "PROPN", "PUNCT", "CCONJ", "SYM", "X"]
    assert [token.tag_ for token in doc] == [token.pos_ for token in doc]
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("New York", "LOC"), ("[", "ORG")]
    assert [sent.start for sent in doc.sents] == [0, 4]
    assert all(token.ent_iob_ for token in doc), "no entity is known, not missing"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["good.spacy"]


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("# topic: law\na/DET\nlight/NOUM\n", 3, ["'NOUM'", "'light'", "NOUN, NUM"]),
        ("# topic: law\nlight\n", 2, ["'light'", "a slash"]),
        ("# topic: law\n[CITY Rome/PROPN]\n", 2, ["'CITY'", "PERSON, LOC, ORG, MISC"]),
        ("# topic: law\n[LOC Rome/PROPN\n", 2, ["'[LOC'", "without an end"]),
        ("# topic: law\n[LOC New/PROPN [ORG York/PROPN]\n", 2, ["'[ORG' inside an entity"]),
        ("# topic: law\nRome/PROPN]\n", 2, ["'Rome/PROPN]' outside", "'[LABEL' before"]),
        ("Rome/PROPN\n", 1, ["# topic:"]),
        ("# topic: law\n\n", 1, ["no sentence"]),
    ],
)
def test_convert_names_the_bad_line(converter: Any, tmp_path: Path, text: str, line: int, words: List[str]) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf8")
    with pytest.raises(ValueError) as caught:
        converter.convert_sample(path, tmp_path / "bad.spacy")
    assert all(word in str(caught.value) for word in words)
    result = _run(converter, path, tmp_path / "bad.spacy")
    assert result.exit_code == 1
    assert f"bad.txt, line {line}: " in result.output
    assert not (tmp_path / "bad.spacy").exists()


def test_convert_replaces_only_with_force(converter: Any, tmp_path: Path) -> None:
    source, target = SAMPLE_DIR / "dev.txt", tmp_path / "dev.spacy"
    target.write_text("mine")
    assert _run(converter, source, target).exit_code == 1
    assert target.read_text() == "mine"
    assert _run(converter, source, target, "--force").exit_code == 0
    assert len(DocBin().from_disk(target)) == 20
