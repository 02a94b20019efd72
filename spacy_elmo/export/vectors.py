"""Vectors of a corpus in files: an .npz, one DocBin, a folder of DocBins, or HDF5 as `allennlp elmo` of AllenNLP 0.9
wrote it: a dataset per text, named by its number.

Texts are streamed, so memory does not grow with their number; only a DocBin file is held in memory as a whole.
"""

import json
import os
import shutil
import sys
import tempfile
import zipfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, cast

import h5py
import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, DocBin
from thinc.api import to_numpy

from .._settings import check_output_file
from ..corpora.files import Counts, Tell, say_nothing
from ..corpora.texts import Item, PunctuationCheck, make_nlp, read_items, to_doc, warn_of_raw_text
from ..errors import Errors
from ..inference.bilm import BiLM
from ..pipeline import elmo as _elmo  # noqa: F401  registers the factory
from ..pipeline.model import set_bilm

STDOUT = "-"
BATCH_SIZE = 1024
BATCH_TOKENS = 16000  # tokens per batch of Docs, a little less than twice the component's `batch_tokens`
DOCS_PER_FILE = 1000
# Formats of vectors, with the suffixes of their files; "" is a folder.
SUFFIXES: Dict[str, Tuple[str, ...]] = {"npz": (".npz",), "docbin": (".spacy", ""), "hdf5": (".hdf5", ".h5")}
# What to write of each text into HDF5, and what the component has to store for it.
HDF5_VECTORS = {"all": "layers", "top": "layers", "average": "mixed"}
SENTENCES = "sentence_to_index"
POOLED = {"mixed": "elmo_pooled", "layers": "elmo_pooled_layers"}  # keys in `doc.user_data`
# Ways to make one vector of those of a text's tokens.
POOLS: Dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "mean": lambda rows: rows.mean(axis=-2, dtype="float32"),
    "first": lambda rows: rows[..., 0, :],
    "last": lambda rows: rows[..., -1, :],
    "max": lambda rows: rows.max(axis=-2),
}


def embed_corpus(
    bilm: BiLM,
    input_path: str,
    writer: "Writer",
    *,
    input_format: str = "auto",
    lang: Optional[str] = None,
    dtype: str = "float32",
    precision: str = "float32",
    batch_size: int = BATCH_SIZE,
    tell: Tell = say_nothing,
    warn: Tell = say_nothing,
    on_tokens: Callable[[int], object] = lambda n: None,
) -> Tuple[int, int]:
    """Stream texts through the ELMo component, which computes on Thinc's device, to a writer.

    bilm (BiLM): The model.
    input_path (str): See `read_items`.
    writer (Writer): From `open_vectors`.
    lang (Optional[str]): Tokenizer of raw text; None: tokens are separated by white space.
    dtype (str): Number type of the stored vectors.
    precision (str): See `BiLM.set_precision`.
    batch_size (int): Maximum number of Docs per batch; a batch has at most about 16,000 tokens or a single Doc.
    tell (Tell): Called with messages on files of a folder that are not read and on replaced characters.
    warn (Tell): Called with a warning if the text looks like raw text.
    on_tokens (Callable[[int], object]): Called with the number of tokens of each text.
    RETURNS (Tuple[int, int]): Texts and tokens read.
    """
    nlp = make_nlp(lang or "xx")
    elmo = nlp.add_pipe("elmo", config={"store": writer.store, "dtype": dtype, "model": {"precision": precision}})
    set_bilm(elmo.model, bilm)  # type: ignore[attr-defined]  # an Elmo component
    writer.begin(nlp(""))
    n_docs = n_tokens = 0
    counts, cutter, check = Counts(), Cutter(batch_size), PunctuationCheck()
    items = read_items(input_path, nlp, counts, format=input_format, is_tokenized=lang is None, tell=tell)
    for batch in cutter.cut(items):
        before = n_tokens
        with nlp.memory_zone():  # removes words that only this batch has from the vocabulary afterwards
            docs = [to_doc(item, nlp) for item in batch]
            given = [dict(doc.user_data) for doc in docs]
            for doc, user_data in zip(nlp.pipe(docs, batch_size=len(batch)), given):
                writer.add(doc, user_data)
                check.add(token.text for token in doc)
                n_docs, n_tokens = n_docs + 1, n_tokens + len(doc)
                on_tokens(len(doc))
        cutter.learn(batch, n_tokens - before)
    warn_of_raw_text(check, [input_path], lang, warn, bilm.meta)
    if counts.n_undecodable:
        tell(f"{counts.n_undecodable:,} unpaired surrogates, which are not valid characters, were replaced by U+FFFD")
    return n_docs, n_tokens


class Cutter:
    """Groups texts into batches of about `BATCH_TOKENS` tokens.

    batch_size (int): Maximum number of texts per batch.
    """

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self._characters = 1.0  # per token, white space included, measured on the last batch

    def cut(self, items: Iterable[Item]) -> Iterator[List[Item]]:
        """items (Iterable[Item]): Texts.
        YIELDS (List[Item]): Batches, in order."""
        batch: List[Item] = []
        n_tokens = 0.0
        for item in items:
            length = len(item) / self._characters if isinstance(item, str) else len(item)
            if batch and (len(batch) == self.batch_size or n_tokens + length > BATCH_TOKENS):
                yield batch
                batch, n_tokens = [], 0.0
            batch.append(item)
            n_tokens += length
        if batch:
            yield batch

    def learn(self, batch: Sequence[Item], n_tokens: int) -> None:
        """Update the estimate of characters per token.

        batch (Sequence[Item]): A batch that has been tokenized.
        n_tokens (int): Its number of tokens.
        """
        n_characters = sum(len(item) for item in batch if isinstance(item, str))
        if n_characters:
            self._characters = max(1.0, n_characters / max(1, n_tokens))


@contextmanager
def open_vectors(
    path: str,
    *,
    to: str = "auto",
    store: str = "mixed",
    vectors: Sequence[str] = (),
    has_sentences: bool = True,
    pool: Optional[str] = None,
    docs_per_file: int = DOCS_PER_FILE,
    force: bool = False,
) -> Iterator["Writer"]:
    """Open a writer for an output path. It writes to a temporary folder next to the output and renames at the end.

    path (str): A file that ends in .npz, .spacy, .hdf5 or .h5, a folder for DocBins, or "-" for an .npz on stdout.
    to (str): "npz", "docbin", "hdf5", or "auto", which infers it from the suffix.
    store (str): "mixed" (T, D), "layers" (L+1, T, D) or "both"; not for HDF5.
    vectors (Sequence[str]): For HDF5, at most one of "all" layers (L+1, T, D; default), the "top" layer (T, D) and the
        "average" of the layers (T, D).
    has_sentences (bool): Whether an HDF5 file has `sentence_to_index`, a JSON object that maps each text to its number
        as a string; of equal texts the last one counts, as in AllenNLP.
    pool (Optional[str]): A key of `POOLS`, for one vector per text instead of one per token, see `read_vectors`.
    docs_per_file (int): Docs per DocBin in a folder.
    force (bool): Replace an existing output.
    YIELDS (Writer): The writer.
    RAISES (ValueError): EL134 if the output exists; for an unknown suffix, and settings of another format.
    """
    suffix = ".npz" if path == STDOUT else Path(path).suffix
    format = next((name for name, known in SUFFIXES.items() if suffix in known), None) if to == "auto" else to
    if format is None or suffix not in SUFFIXES[format]:
        raise ValueError(
            f"The output '{path}' ends in '{suffix}' (--to {to}), but should end in .npz (arrays), .hdf5 or .h5 (a "
            "dataset per text) or .spacy (one DocBin), have no suffix (a folder of DocBins), or be '-' (.npz on "
            "stdout). Choose one of these, and leave out --to."
        )
    _check_choice(format == "hdf5", vectors, has_sentences, store)
    target, place = Path(path), None
    if path != STDOUT:
        _check_target(target, force)
        target.parent.mkdir(parents=True, exist_ok=True)
        place = target.parent
    with tempfile.TemporaryDirectory(prefix=".embed.", dir=place) as name:
        folder = Path(name)
        if format == "hdf5":
            writer: Writer = Hdf5Writer(folder, vectors[0] if vectors else "all", pool, has_sentences=has_sentences)
        elif format == "npz":
            writer = NpzWriter(folder, store, pool)
        else:
            writer = DocBinWriter(folder, store, pool, docs_per_file=0 if suffix else docs_per_file)
        with writer:
            yield writer
            writer.finish(target)


def _check_choice(is_hdf5: bool, vectors: Sequence[str], has_sentences: bool, store: str) -> None:
    """Options of one format must not be lost on another."""
    given = [f"--{name}" for name in (*vectors, *([] if has_sentences else ["forget-sentences"]))]
    problem = ""
    if not is_hdf5 and given:
        remedy = "Choose an output that ends in .hdf5, or select vectors with --store"
        problem = f"{', '.join(given)} cannot be used here: the output is not HDF5. {remedy}."
    elif is_hdf5 and store != "mixed":
        remedy = "Select the vectors of an HDF5 file with --all, --top or --average"
        problem = f"--store {store} cannot be used here: the output is HDF5. {remedy}."
    elif len(vectors) > 1:
        problem = f"{', '.join(given)} cannot be used here: an HDF5 file has one array per text. Choose one of them."
    if problem:
        raise ValueError(problem)


def _check_target(target: Path, force: bool) -> None:
    if target.is_dir() != (target.suffix == "") and target.exists():
        raise ValueError(Errors.EL134.format(path=target, remedy="Choose another path."))
    if not target.is_dir():
        check_output_file(target, force=force)
    elif any(target.iterdir()) and not force:
        raise ValueError(Errors.EL134.format(path=target, remedy="Choose another path, or replace it with --force."))


def read_vectors(doc: Doc, name: str, pool: Optional[str] = None) -> NDArray[Any]:
    """doc (Doc): A Doc with vectors.
    name (str): "mixed" or "layers".
    pool (Optional[str]): A key of `POOLS`, over the tokens that are not white space, which the biLM does not read; a
        Doc without such tokens has zeros. None for a row per token.
    RETURNS (NDArray): "mixed" (T, D) or "layers" (L+1, T, D); with `pool` (D,) or (L+1, D).
    """
    values: NDArray[Any] = to_numpy(doc._.elmo if name == "mixed" else doc._.elmo_layers)
    if pool is None:
        return values
    rows = values[..., [token.i for token in doc if not token.is_space], :]
    if not rows.shape[-2]:
        return np.zeros((*rows.shape[:-2], rows.shape[-1]), dtype=values.dtype)
    return POOLS[pool](rows).astype(values.dtype, copy=False)


class Writer(ExitStack):
    """Writes the vectors of Docs one by one. It holds the open files, and stores no reference to a Doc.

    folder (Path): A temporary folder.
    store (str): Vectors that the component has to store: "mixed", "layers" or "both".
    pool (Optional[str]): One vector per text, see `read_vectors`.
    """

    def __init__(self, folder: Path, store: str, pool: Optional[str]) -> None:
        super().__init__()
        self.folder, self.store, self.pool = folder, store, pool
        self.names = ("mixed", "layers") if store == "both" else (store,)

    def begin(self, doc: Doc) -> None:
        """doc (Doc): A processed Doc without tokens, for the widths and dtypes of the vectors."""

    def add(self, doc: Doc, user_data: Mapping[Any, Any]) -> None:
        """doc (Doc): A Doc with vectors.
        user_data (Mapping[Any, Any]): What the Doc had before it was processed.
        """
        raise NotImplementedError

    def finish(self, target: Path) -> None:
        """target (Path): Where the output is put."""
        raise NotImplementedError


class NpzWriter(Writer):
    """Writes the concatenated rows of all Docs, and "lengths". They are in temporary files, one per layer, until the
    end, in bounded memory.
    """

    def __init__(self, folder: Path, store: str, pool: Optional[str]) -> None:
        super().__init__(folder, store, pool)
        self.lengths: List[int] = []
        self._files: Dict[str, List[IO[bytes]]] = {}
        self._headers: Dict[str, Tuple[Any, Tuple[int, ...]]] = {}

    def begin(self, doc: Doc) -> None:
        """doc (Doc): A Doc without tokens. Without further Docs, the arrays have no rows."""
        for name in self.names:
            values = read_vectors(doc, name)
            self._headers[name] = (values.dtype, values.shape)
            paths = [self.folder / f"{name}.{i}" for i in range(1 if values.ndim == 2 else len(values))]
            self._files[name] = [self.enter_context(path.open("wb")) for path in paths]

    def add(self, doc: Doc, user_data: Mapping[Any, Any]) -> None:
        """doc (Doc): A Doc with vectors."""
        self.lengths.append(len(doc))
        for name, files in self._files.items():
            values = read_vectors(doc, name, self.pool)
            for file, rows in zip(files, values.reshape(len(files), -1, values.shape[-1]), strict=True):
                file.write(np.ascontiguousarray(rows).data)

    def finish(self, target: Path) -> None:
        """target (Path): The .npz, or "-" for stdout, which need not be seekable."""
        self.close()
        if str(target) == STDOUT:
            self._write(sys.stdout.buffer)
            return
        with (self.folder / "result").open("wb") as file:
            self._write(file)
        os.replace(self.folder / "result", target)

    def _write(self, target: IO[bytes]) -> None:
        with zipfile.ZipFile(target, "w", allowZip64=True) as archive:
            with archive.open("lengths.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(self.lengths, dtype="int64"))
            for name, (dtype, (*n_layers, _, width)) in self._headers.items():
                n_rows = sum(self.lengths) if self.pool is None else len(self.lengths)
                descr = np.lib.format.dtype_to_descr(dtype)
                header = {"descr": descr, "fortran_order": False, "shape": (*n_layers, n_rows, width)}
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(cast(Any, member), header)
                    for file in self._files[name]:
                        with Path(file.name).open("rb") as rows:
                            shutil.copyfileobj(rows, member)


class DocBinWriter(Writer):
    """Writes DocBins with the vectors as user data; pooled ones under `POOLED` instead of those of the tokens.

    docs_per_file (int): Docs per DocBin in a folder, 0 for one file with all Docs.
    """

    def __init__(self, folder: Path, store: str, pool: Optional[str], *, docs_per_file: int) -> None:
        super().__init__(folder, store, pool)
        self.docs_per_file = docs_per_file
        self.n_files = 0
        self._docs = DocBin(store_user_data=True)

    def add(self, doc: Doc, user_data: Mapping[Any, Any]) -> None:
        """doc (Doc): A Doc with vectors; with `pool` they are replaced.
        user_data (Mapping[Any, Any]): What the Doc had before it was processed.
        """
        if self.pool is not None:
            doc.user_data = {**user_data, **{POOLED[name]: read_vectors(doc, name, self.pool) for name in self.names}}
        self._docs.add(doc)
        if len(self._docs) == self.docs_per_file:
            self._flush()

    def _flush(self) -> None:
        self._docs.to_disk(self.folder / f"part-{self.n_files:06}.spacy")
        self._docs = DocBin(store_user_data=True)
        self.n_files += 1

    def finish(self, target: Path) -> None:
        """target (Path): The file or the folder, whose earlier parts are removed."""
        if len(self._docs) or not self.n_files:
            self._flush()
        if not self.docs_per_file:
            os.replace(self.folder / "part-000000.spacy", target)
            return
        if target.is_dir():
            for old in target.glob("part-*.spacy"):
                old.unlink()
        target.mkdir(exist_ok=True)
        for part in sorted(self.folder.iterdir()):
            os.replace(part, target / part.name)


class Hdf5Writer(Writer):
    """Writes a dataset per text. Only the texts are held in memory, if they are wanted.

    vectors (str): A key of `HDF5_VECTORS`.
    has_sentences (bool): Also write `sentence_to_index`.
    """

    def __init__(self, folder: Path, vectors: str, pool: Optional[str], *, has_sentences: bool) -> None:
        super().__init__(folder, HDF5_VECTORS[vectors], pool)
        self.vectors, self.has_sentences = vectors, has_sentences
        self._file = self.enter_context(h5py.File(folder / "result", "w"))
        self._index: Dict[str, str] = {}
        self._n_docs = 0

    def add(self, doc: Doc, user_data: Mapping[Any, Any]) -> None:
        """doc (Doc): A Doc with vectors; a Doc without tokens gets an array without rows, or zeros if it is pooled."""
        name = str(self._n_docs)
        values = read_vectors(doc, self.store, self.pool)
        self._file.create_dataset(name, data=np.ascontiguousarray(values[-1] if self.vectors == "top" else values))
        if self.has_sentences:
            self._index[doc.text.strip()] = name
        self._n_docs += 1

    def finish(self, target: Path) -> None:
        """target (Path): The file."""
        if self.has_sentences:
            index = self._file.create_dataset(SENTENCES, (1,), dtype=h5py.string_dtype())
            index[0] = json.dumps(self._index)
        self.close()
        os.replace(self.folder / "result", target)
