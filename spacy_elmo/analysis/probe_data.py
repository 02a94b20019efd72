"""Training and test data of a probe, from files: annotated Docs, CoNLL-U, or sentences with word senses."""

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np
import spacy
from spacy.tokens import Doc

from .._choices import AnyPath
from ..corpora.files import COMPRESSED
from ..corpora.labelled import read_conllu, read_senses
from ..corpora.texts import read_docbin
from ..errors import Errors
from .labelled import ATTRIBUTES, LabelledDocs, label_senses, label_tokens

SENSE = "sense"
ATTRS = (*ATTRIBUTES, SENSE)
TAG_SUFFIXES, SENSE_SUFFIXES = (".spacy", ".conllu"), (".jsonl", ".ndjson", ".json")
TEST_SHARE = 0.2  # of the documents, if there are no training data
N_EXAMPLES = 5  # labels in a message


@dataclass(frozen=True)
class ProbeData:
    """What probes are trained and scored on.

    attr (str): The attribute, one of `ATTRS`.
    train (LabelledDocs), test (LabelledDocs): Labelled tokens.
    is_split (bool): Whether both are parts of one file.
    n_unseen (int): Test tokens with a label that training does not have.
    """

    attr: str
    train: LabelledDocs
    test: LabelledDocs
    is_split: bool
    n_unseen: int


def load_probe_data(
    path: AnyPath, attr: str, *, train: Optional[AnyPath] = None, limit: Optional[int] = None, seed: int = 0
) -> ProbeData:
    """Read the data of a probe; without training data, split the documents of the file.

    path (AnyPath): Test data: `.spacy` or `.conllu`, for senses `.jsonl`, each also .gz, .xz or .zst.
    attr (str): "pos", "tag", "morph", "dep", "ent_type" or "sense".
    train (Optional[AnyPath]): Training data in one of these formats.
    limit (Optional[int]): Train on this many labelled tokens at most, of documents drawn at random.
    seed (int): Of the split and of the draw.
    RETURNS (ProbeData): With at least two training labels.
    RAISES (ValueError): EL241 for another attribute, EL420 for another suffix; for an invalid line,
        EL422 for a file that cannot be split, EL423 for labels that do not fit, EL424 if both files are the same,
        EL245 if the training labels are all the same, EL428 for a file without labels.
    """
    if attr not in ATTRS:
        raise ValueError(Errors.EL241.format(attr=attr, known=", ".join(ATTRS)))
    path, train = Path(os.fsdecode(path)), None if train is None else Path(os.fsdecode(train))
    if train is not None and train.resolve() == path.resolve():
        raise ValueError(Errors.EL424.format(path=path))
    asked = read_labelled(path, attr)
    known, asked = split_documents(asked, path, seed) if train is None else (read_labelled(train, attr), asked)
    known = sample_documents(known, limit, seed)
    n_unseen = _check_labels(known, asked, path if train is None else train, path)
    return ProbeData(attr, known, asked, train is None, n_unseen)


def read_labelled(path: Path, attr: str) -> LabelledDocs:
    """path (Path): See `load_probe_data`.
    attr (str): One of `ATTRS`.
    RETURNS (LabelledDocs): All documents of the file, at least one label.
    RAISES (ValueError): See `load_probe_data`.
    """
    suffixes = SENSE_SUFFIXES if attr == SENSE else TAG_SUFFIXES
    suffix = path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix
    if suffix not in suffixes:
        known = f"{' or '.join(suffixes)}, or one of them with {', '.join(COMPRESSED[:-1])} or {COMPRESSED[-1]}"
        raise ValueError(Errors.EL420.format(path=path, attr=attr, suffixes=known))
    nlp = spacy.blank("xx")
    if attr == SENSE:
        sentences = list(read_senses(path))
        if not any(sentence.uses for sentence in sentences):
            found = "tokens without senses" if sentences else "nothing"
            n_docs = len({sentence.document for sentence in sentences})
            raise ValueError(Errors.EL428.format(path=path, attr=attr, n_docs=n_docs, found=found))
        return label_senses(sentences, nlp.vocab)
    docs = list(read_docbin(str(path), nlp) if suffix == ".spacy" else read_conllu(path, nlp.vocab))
    if not _has_label(docs, attr):
        there = ", ".join(name for name in ATTRIBUTES if _has_label(docs, name)) or "nothing"
        raise ValueError(Errors.EL428.format(path=path, attr=attr, n_docs=len(docs), found=there))
    return label_tokens(docs, attr)


def split_documents(labelled: LabelledDocs, path: Path, seed: int) -> Tuple[LabelledDocs, LabelledDocs]:
    """labelled (LabelledDocs): Of one file.
    path (Path): The file, for messages.
    seed (int): Of the draw.
    RETURNS (Tuple[LabelledDocs, LabelledDocs]): 80 % of the documents that have a label, and the others.
    RAISES (ValueError): EL422 for fewer than two documents with a label.
    """
    numbers = np.unique(labelled.find_docs())
    if len(numbers) < 2:
        problem = f"labels are in {len(numbers)} document; two are the least"
        raise ValueError(Errors.EL422.format(path=path, problem=problem))
    drawn = np.random.default_rng(seed).permutation(numbers)
    n_test = max(1, round(TEST_SHARE * len(numbers)))
    test, train = np.sort(drawn[:n_test]).tolist(), np.sort(drawn[n_test:]).tolist()
    return labelled.select(train), labelled.select(test)


def sample_documents(labelled: LabelledDocs, limit: Optional[int], seed: int) -> LabelledDocs:
    """labelled (LabelledDocs): Any.
    limit (Optional[int]): Number of labels to keep; None for all.
    seed (int): Of the draw.
    RETURNS (LabelledDocs): Documents drawn at random, in their order, until there are `limit` labels.
    """
    if limit is None or len(labelled.labels) <= limit:
        return labelled
    counts = np.bincount(labelled.find_docs(), minlength=len(labelled.docs))
    drawn = np.random.default_rng(seed).permutation(len(labelled.docs))
    n_docs = int(counts[drawn].cumsum().searchsorted(limit)) + 1
    return labelled.select(np.sort(drawn[:n_docs]).tolist(), limit)


def _has_label(docs: Sequence[Doc], attr: str) -> bool:
    read = ATTRIBUTES[attr]
    return any(read(token) and not token.is_space for doc in docs for token in doc)


def _check_labels(known: LabelledDocs, asked: LabelledDocs, train: Path, test: Path) -> int:
    """RETURNS (int): Test tokens with a label that is not known."""
    names, wanted = dict.fromkeys(known.labels), dict.fromkeys(asked.labels)
    if len(names) < 2:
        raise ValueError(Errors.EL245.format(n_labels=len(names), labels=", ".join(names) or "none"))
    if not names.keys() & wanted.keys():
        told: Dict[str, str] = {"examples": _name_some(list(wanted)), "known": _name_some(list(names))}
        raise ValueError(Errors.EL423.format(n_test=len(wanted), test=test, train=train, **told))
    return sum(label not in names for label in asked.labels)


def _name_some(labels: List[str]) -> str:
    return ", ".join(islice(labels, N_EXAMPLES)) + (", ..." if len(labels) > N_EXAMPLES else "")
