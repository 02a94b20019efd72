"""What the benchmarks share: the development part of UD EWT as documents of sentences, weights made from a seed,
pipelines, options and checkouts.
"""

import os
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any, List, Optional

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin

Sentence = List[str]
Document = List[Sentence]
ROOT = Path(__file__).resolve().parents[1]
UD_DEV = Path("data") / "ud" / "en_ewt" / "dev.spacy"
PACKAGED = "en_elmo_sm"
SEED = 7  # of weights


def default_shared() -> Path:
    """RETURNS (Path): The folder named by SPACY_ELMO_SHARED, by default `shared` next to the checkout."""
    return Path(os.environ.get("SPACY_ELMO_SHARED", ROOT.parent / "shared")).resolve()


THREADS = typer.Option(2, "--threads", "-t", help="Threads of torch, for every system.")
SHARED = typer.Option(default_shared(), "--shared", "-S", help="Folder with `data` and `tools`.", exists=True)
SENTENCES = typer.Option(None, "--sentences", "-n", help="Sentences of UD EWT dev, or all.")
JSON = typer.Option(None, "--json", "-j", help="File for the raw numbers.")
REPEATS = typer.Option(5, "--repeats", "-r", help="Interleaved rounds; medians are printed.")


def make_weights(folder: Path, size: str, *settings: str, seed: int = SEED, shared: Optional[Path] = None) -> Path:
    """folder (Path): For weights of a size of `tools/make_weights.py`, in the format of bilm-tf.
    settings (str): Changes of the size, as in "lstm.n_layers=3".
    RETURNS (Path): The folder.
    """
    maker = [sys.executable, str((shared or default_shared()) / "tools" / "make_weights.py")]
    changes = [part for setting in settings for part in ("--set", setting)]
    command = [*maker, "--size", size, "--seed", str(seed), *changes, "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def make_pipeline(weights: str, **config: Any) -> Language:
    """RETURNS (Language): A pipeline with only this component, a packaged biLM or a path."""
    nlp = spacy.blank("en")  # loads the factories of installed packages
    if not Language.has_factory("elmo"):
        import spacy_elmo.pipeline.component  # noqa: F401

    nlp.add_pipe("elmo", config=config)
    loader = {"@misc": "spacy-elmo.BiLMLoader.v1", "path": weights}
    nlp.config["initialize"]["components"]["elmo"] = {"loader": loader}
    nlp.initialize()
    return nlp


def export_commit(commit: str, folder: Path) -> Path:
    """RETURNS (Path): The folder, with the files of a commit of this repository."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def read_documents(shared: Path, max_sentences: Optional[int] = None, path: Path = UD_DEV) -> List[Document]:
    """RETURNS (List[Document]): The texts of a DocBin in the folder `shared`, in order."""
    documents: List[Document] = []
    for doc in DocBin().from_disk(shared / path).get_docs(spacy.blank("en").vocab):
        documents.append([[token.text for token in sentence] for sentence in doc.sents])
    return documents if max_sentences is None else first_sentences(documents, max_sentences)


def first_sentences(documents: List[Document], max_sentences: int) -> List[Document]:
    """RETURNS (List[Document]): Documents with this number of sentences, the last one truncated."""
    found: List[Document] = []
    for document in documents:
        found.append(document[:max_sentences])
        max_sentences -= len(found[-1])
        if not max_sentences:
            break
    return [document for document in found if document]


def long_document(documents: List[Document], n_tokens: int) -> Document:
    """RETURNS (Document): One document with this number of tokens: all sentences, repeated, the last one truncated."""
    found: Document = []
    for sentence in cycle(flatten(documents)):
        if n_tokens <= 0:
            return found
        found.append(sentence[:n_tokens])
        n_tokens -= len(sentence)
    return found


def flatten(documents: List[Document]) -> List[Sentence]:
    """RETURNS (List[Sentence]): All sentences in text order."""
    return [sentence for document in documents for sentence in document]


def make_doc(vocab: Any, document: Document, *, has_sentences: bool = True) -> Doc:
    """RETURNS (Doc): The document, with or without sentence boundaries."""
    starts = [number == 0 for sentence in document for number in range(len(sentence))]
    words = [word for sentence in document for word in sentence]
    return Doc(vocab, words=words, sent_starts=starts if has_sentences else None)  # type: ignore[arg-type]
