"""Sentences with entities of persons, places and organizations: Wikigold, and UNER on UD English-EWT."""

from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from data import read_columns
from shared import SPLITS
from spacy.tokens import Doc
from spacy.vocab import Vocab
from treebank import DOWNLOAD_DIR, FORM, MISC, NO_SPACE, PROJECT_DIR, Rows, read_paragraphs

from spacy_elmo.corpora.sources import make_source

LABELS = ("PER", "LOC", "ORG")
TESTS = ("uner_ewt", "wikigold")  # names of the test parts


def read_entities(dev_path: Path, assets_dir: str) -> Dict[str, List[Doc]]:
    """RETURNS (Dict[str, List[Doc]]): Sentences by file: for training, Wikigold and the development part of UNER; for
    development, that of Wikigold; the two test parts.
    """
    assets = PROJECT_DIR / assets_dir if assets_dir else DOWNLOAD_DIR
    spacing = {tuple(row[FORM] for row in rows): rows for paragraph in read_paragraphs(dev_path) for rows in paragraph}
    uner = {split: list(_read_uner(_find(assets, "uner-ewt", split), spacing)) for split in ("dev", "test")}
    wikigold = {split: [_keep_labels(doc) for doc in docs] for split, docs in _read_wikigold(assets).items()}
    return {
        "entities-train": [*wikigold["train"], *uner["dev"]],
        "entities-dev": wikigold["dev"],
        "entities-wikigold": wikigold["test"],
        "entities-uner_ewt": uner["test"],
    }


def _find(assets: Path, folder: str, split: str) -> Path:
    places = [assets / "ner" / folder / f"{split}.iob2{end}" for end in ("", ".gz")]
    places += [assets / folder / f"en_ewt-ud-{split}.iob2"]
    for path in places:
        if path.is_file():
            return path
    tried = ", ".join(f"'{path}'" for path in places)
    raise FileNotFoundError(
        f"The entities of '{folder}' are in none of these files: {tried}. Download them with `python -m spacy project "
        f"assets {PROJECT_DIR}`, or give the folder of local copies with `--vars.assets_dir`."
    )


def _read_uner(path: Path, spacing: Dict[Tuple[str, ...], Rows]) -> Iterator[Doc]:
    """Read lines of a number, a word and its tag. Spaces are those of the treebank where it has the same sentence."""
    with make_source(path).open_as_text() as file:
        blocks = file.read().decode("utf8").strip().split("\n\n")
    vocab = Vocab()
    for block in blocks:
        rows = [line.split("\t") for line in block.split("\n") if line and not line.startswith("#")]
        words = [row[1] for row in rows]
        known = spacing.get(tuple(words))
        spaces = None if known is None else [NO_SPACE not in row[MISC] for row in known]
        yield _keep_labels(Doc(vocab, words=words, spaces=spaces, ents=[row[2] for row in rows]))


def _read_wikigold(assets: Path) -> Dict[str, List[Doc]]:
    """Read local copies, or the downloaded file, in the same parts: 70, 15 and 15 % of the sentences."""
    downloaded = assets / "wikigold" / "wikigold.conll.txt"
    if not downloaded.is_file():
        return {split: read_columns(_find(assets, "wikigold", split)) for split in SPLITS}
    docs = []
    for block in downloaded.read_text(encoding="utf8").split("\n\n"):
        rows = [line.split(" ") for line in block.split("\n") if line]
        if rows and rows[0][0] != "-DOCSTART-":
            tags = [tag for _, tag in rows]  # IOB1 without B: entities of one label that touch are one
            firsts = [tag != "O" and tag != before for tag, before in zip(tags, ["O", *tags])]
            iob2 = [f"B-{tag[2:]}" if is_first else tag for tag, is_first in zip(tags, firsts)]
            docs.append(Doc(Vocab(), words=[word for word, _ in rows], ents=iob2))
    ends = [0, int(len(docs) * 0.7), int(len(docs) * 0.85), len(docs)]
    return {split: docs[start:end] for split, start, end in zip(SPLITS, ends, ends[1:])}


def _keep_labels(doc: Doc) -> Doc:
    doc.set_ents([ent for ent in doc.ents if ent.label_ in LABELS], default="outside")
    return doc
