"""Small indexes for tests: a random biLM 16 wide, and texts of a few words."""

import os
import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest
from nn.tiny import make_bilm

from spacy_elmo.analysis import vector_search
from spacy_elmo.analysis.index_build import Document, IndexBuilder, make_settings, open_for_writing
from spacy_elmo.analysis.neighbors import NeighborIndex
from spacy_elmo.analysis.token_store import STORE_FILE
from spacy_elmo.inference.bilm import BiLM

BILM = make_bilm()
needs_faiss = pytest.mark.skipif(not vector_search.has_faiss, reason="faiss-cpu is not installed")
WORDS = "the bank of river lends money and light waves play along green shore".split()


def make_sentences(n: int, seed: int = 0) -> List[List[str]]:
    """RETURNS (List[List[str]]): Random sentences of 4 to 9 words."""
    drawn = random.Random(seed)
    return [drawn.choices(WORDS, k=drawn.randint(4, 9)) for _ in range(n)]


def make_document(name: str, sentences: List[List[str]], digest: str = "1") -> Document:
    return Document(name, digest, lambda skip: iter([[sentence] for sentence in sentences[skip:]]))


def open_builder(path: Path, bilm: BiLM, *, layer: Any = 2, **choices: Any) -> IndexBuilder:
    settings = make_settings(bilm, name="tiny", layer=layer, content_words="")
    return IndexBuilder(open_for_writing(path, settings), bilm, **{"batch_tokens": 60, **choices})


def build_index(path: Path, bilm: BiLM, texts: Optional[Dict[str, List[List[str]]]] = None, **choices: Any) -> None:
    """Build a complete index of some documents, by default of two."""
    texts = {"a": make_sentences(20, 1), "b": make_sentences(30, 2)} if texts is None else texts
    builder = open_builder(path, bilm, **choices)
    builder.add(make_document(name, sentences) for name, sentences in texts.items())
    builder.finish()
    builder.store.close()


def is_open(path: Path) -> bool:
    """RETURNS (bool): Whether this process has the file of an index open. Linux only."""
    numbers = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return str((path / STORE_FILE).resolve()) in [os.readlink(number) for number in numbers if os.path.islink(number)]


def describe_index(path: Path) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Contents that two equal indexes share, whatever the order they were built in."""
    index = NeighborIndex.open(path)
    uses = sorted((use.document, use.words, use.position) for word in index.words for use in index.uses(word)[0])
    index.close()
    return {"words": index.words, "n_documents": index.n_documents, "uses": uses}


def make_texts(n: int, **fields: Any) -> List[Document]:
    """Documents `0` to `n - 1` of a sentence each, with fields from functions of their number."""
    texts = [make_document(str(i), [[*sentence, "target"]]) for i, sentence in enumerate(make_sentences(n, 3))]
    return [replace(text, fields={key: value(i) for key, value in fields.items()}) for i, text in enumerate(texts)]


def add_documents(path: Path, documents: List[Document], *fields: str, **choices: Any) -> IndexBuilder:
    builder = open_builder(path, BILM, fields=fields, **choices)
    builder.add(documents)
    builder.finish()
    builder.store.close()
    return builder


def change_index(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path / STORE_FILE)) as file, file:
        file.execute(sql)
