"""UD treebanks: their files, their paragraphs as Docs, and their words with the places in the text."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Tuple

from shared import SPLITS
from spacy.tokens import Doc
from spacy.training.converters import conllu_to_docs

from spacy_elmo.corpora.sources import make_source

PROJECT_DIR = Path(__file__).resolve().parents[1]
DOWNLOAD_DIR = PROJECT_DIR / "assets" / "downloaded"
STARTS = re.compile(r"^# new(doc|par)\b", flags=re.MULTILINE)
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, MISC = 0, 1, 2, 3, 4, 5, 6, 7, 9  # columns
N_COLUMNS = 10
NO_SPACE = "SpaceAfter=No"
NONE = "_"  # an empty column
Row = List[str]
Rows = List[Row]  # of a sentence


@dataclass(frozen=True)
class Word:
    """A syntactic word.

    span (Tuple[int, int]): First character of its token and the one behind the last, whitespace not counted.
    is_token (bool): Whether it is the whole token; not "de" and "le" of the French "du".
    head (Optional[int]): Position of its head among all words of the text, None for a root.
    """

    span: Tuple[int, int]
    is_token: bool
    upos: str
    xpos: str
    feats: str
    lemma: str
    head: Optional[int]
    deprel: str


Sentences = List[List[Word]]


def find_treebank(folder: str, assets_dir: str = "") -> Dict[str, Path]:
    """folder (str): Folder with files in CoNLL-U, plain or gzip, whose names end in train, dev and test: relative to
        the project, to the assets folder or its folder `ud`, or downloaded.
    RETURNS (Dict[str, Path]): The file of each split. RAISES (FileNotFoundError): If the folder or a file is missing.
    """
    assets = PROJECT_DIR / assets_dir if assets_dir else DOWNLOAD_DIR
    names = [f"ud/{folder}", folder, f"ud_{folder}"]
    folders = [(PROJECT_DIR / folder).resolve()]
    folders += [] if Path(folder).is_absolute() else [(assets / name).resolve() for name in names]
    incomplete: List[str] = []
    for place in folders:
        paths = {split: [*place.glob(f"*{split}.conllu"), *place.glob(f"*{split}.conllu.gz")] for split in SPLITS}
        if all(paths.values()):
            return {split: files[0].resolve() for split, files in paths.items()}
        missing = ", ".join(f"'*{split}.conllu'" for split, files in paths.items() if not files)
        incomplete += [f"The treebank in '{place}' has no {missing}, plain or '.gz'."] if any(paths.values()) else []
    if incomplete:
        raise FileNotFoundError(f"{' '.join(incomplete)} Without a part, divide the training part into two.")
    raise FileNotFoundError(
        f"The treebank '{folder}' is in none of these folders, as files '*train.conllu', '*dev.conllu' and "
        f"'*test.conllu', or with '.gz': {', '.join(repr(str(place)) for place in folders)}. Give its folder with "
        f"`--vars.treebank`, and that of local copies with `--vars.assets_dir`; `python -m spacy project assets "
        f"{PROJECT_DIR}` downloads en_ewt."
    )


def read_paragraphs(path: Path, max_sentences: Optional[int] = None) -> Iterator[List[Rows]]:
    """YIELDS (List[Rows]): The sentences of a paragraph, without comments and empty nodes. A multiword token that its
        words spell ("don't") is replaced by them. A file without paragraphs is one; paragraphs of more than
        `max_sentences` are divided.
    RAISES (ValueError): For a line that is not CoNLL-U.
    """
    with make_source(path).open_as_text() as file:
        text = file.read().decode("utf8")
    paragraph: List[Rows] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if paragraph and (STARTS.search(block) or len(paragraph) == max_sentences):
            yield paragraph
            paragraph = []
        rows = [line.rstrip("\r").split("\t") for line in block.split("\n") if line and not line.startswith("#")]
        for row in rows:
            if len(row) != N_COLUMNS:
                line = "\t".join(row)
                raise ValueError(
                    f"'{path}' has the line '{line[:60]}' of {len(row)} columns, but CoNLL-U has {N_COLUMNS}, with "
                    "tabs between them. Correct the line, or get the file again."
                )
        paragraph.append(_split_multiword([row for row in rows if "." not in row[ID]]))
    if paragraph:
        yield paragraph


def _split_multiword(rows: Rows) -> Rows:
    split: Rows = []
    n_inside, space = 0, NONE  # words left of the multiword token that is divided; its space
    for position, row in enumerate(rows):
        if "-" in row[ID]:
            first, last = map(int, row[ID].split("-"))
            words = rows[position + 1 : position + 2 + last - first]
            if "".join(word[FORM] for word in words) == row[FORM]:
                n_inside, space = len(words), row[MISC]
                continue
        if n_inside:
            n_inside -= 1
            row = [*row[:MISC], NO_SPACE if n_inside else space]
        split.append(row)
    return split


def make_docs(path: Path, max_sentences: Optional[int] = None) -> Iterator[Doc]:
    """YIELDS (Doc): An annotated paragraph, see `read_paragraphs`; another multiword token is one token."""
    for paragraph in read_paragraphs(path, max_sentences):
        text = "\n".join("".join("\t".join(row) + "\n" for row in rows) for rows in paragraph)
        yield from conllu_to_docs(text, n_sents=len(paragraph), merge_subtokens=True, no_print=True)


def read_words(path: Path) -> Sentences:
    """RETURNS (Sentences): All sentences of a file in CoNLL-U."""
    sentences: Sentences = []
    n_words = end = 0
    for rows in (rows for paragraph in read_paragraphs(path) for rows in paragraph):
        words: List[Word] = []
        n_inside = 0  # words left of a multiword token that does not consist of their letters
        for row in rows:
            is_token = not n_inside
            if is_token:
                span = (end, end + _length(row[FORM]))
                end = span[1]
            if "-" in row[ID]:
                first, last = map(int, row[ID].split("-"))
                n_inside = last - first + 1
                continue
            n_inside = max(n_inside - 1, 0)
            head = int(row[HEAD])
            words.append(
                Word(
                    span,
                    is_token,
                    row[UPOS],
                    row[XPOS],
                    row[FEATS],
                    row[LEMMA],
                    n_words + head - 1 if head else None,
                    row[DEPREL],
                )
            )
        n_words += len(words)
        sentences.append(words)
    return sentences


def words_of(docs: Iterable[Doc]) -> Sentences:
    """docs (Iterable[Doc]): Processed Docs, in the order of the text.
    RETURNS (Sentences): Their sentences, without tokens of whitespace.
    """
    sentences: Sentences = []
    n_words = end = 0
    for doc in docs:
        tokens = [token for token in doc if not token.is_space]
        position = {token.i: n_words + place for place, token in enumerate(tokens)}
        n_words += len(tokens)
        for sent in doc.sents:
            words = []
            for token in (token for token in sent if not token.is_space):
                start, end = end, end + _length(token.text)
                head = token.head
                while head.is_space and head.head.i != head.i:
                    head = head.head
                is_root = head.i == token.i or head.is_space
                words.append(
                    Word(
                        (start, end),
                        True,
                        token.pos_,
                        token.tag_,
                        str(token.morph) or NONE,
                        token.lemma_,
                        None if is_root else position[head.i],
                        "root" if is_root else token.dep_,
                    )
                )
            sentences += [words] if words else []
    return sentences


def _length(text: str) -> int:
    """RETURNS (int): Number of characters that are no whitespace."""
    return len("".join(text.split()))
