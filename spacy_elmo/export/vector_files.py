"""Vectors of a corpus in a file: an .npz, a DocBin, Parquet, or HDF5 as `allennlp elmo` of AllenNLP 0.9 wrote it: a
dataset per text, named by its number.

Texts are streamed, so memory does not grow with their number; only a DocBin is held in memory as a whole.
"""

import json
import os
import shutil
import sys
import zipfile
import zlib
from abc import abstractmethod
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, cast

import h5py
import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..corpora.records import TextRecord
from ..corpora.sources import import_arrow, is_address
from ..files import check_output_file, check_space, follow_links, naming, temporary_folder
from .embedder import name_rows, pipe_texts, read_vectors, to_arrow

STDOUT = "-"
# Formats of vectors, with the suffixes of their files.
VECTOR_SUFFIXES = {"npz": ".npz", "docbin": ".spacy", "parquet": ".parquet", "hdf5": ".hdf5"}
NO_ARROW = "another format (`to='docbin'` for a folder)"  # what to use where pyarrow is not installed
PART_FORMATS = ("parquet", "docbin")  # of an output folder, and with fields of the texts
SENTENCE_INDEX = "sentence_to_index"
POOLED = {"mixed": "elmo_pooled", "layers": "elmo_pooled_layers"}  # keys in `doc.user_data`
MAX_TOKEN_CHARACTERS = 200  # of a token in an .npz, whose texts all have the width of the longest one
OUTPUT = "elmo"  # column of Parquet
RESULT = "result"  # file in the temporary folder of a writer
ROW_GROUP_TOKENS = 32_768  # 64 MB of float32 vectors of width 512; pooled: of texts


def embed_records(
    nlp: Language,
    records: Iterable[TextRecord],
    writer: "Writer",
    batch_size: int,
    on_error: str,
    on_text: Callable[[Doc], object],
) -> Tuple[int, int, List[str]]:
    """Stream texts through the ELMo component of a pipeline from `load_pipeline`, which computes on Thinc's device, to
    a writer from `open_vectors`, in batches of `pipe_texts`. Returns the numbers of texts and of tokens written, and a
    line of JSON for each text that was skipped.

    on_error (str): "stop": a text that cannot be read raises its error; "skip" it.
    on_text (Callable[[Doc], object]): Called with each Doc.
    """
    writer.begin(nlp(""))
    n_docs = n_tokens = 0
    skipped: List[str] = []
    readable = _readable(records, on_error, skipped)
    with closing(pipe_texts(nlp, readable, batch_size, lambda record: record.item)) as embedded:
        for record, user_data, doc in embedded:
            writer.add(doc, user_data, record)
            n_docs, n_tokens = n_docs + 1, n_tokens + len(doc)
            on_text(doc)
    return n_docs, n_tokens, skipped


def _readable(records: Iterable[TextRecord], on_error: str, skipped: List[str]) -> Iterator[TextRecord]:
    for record in records:
        if record.error is None:
            yield record
        elif on_error == "stop":
            raise record.error
        else:
            skipped.append(json.dumps({"place": record.place, "error": str(record.error)}) + "\n")


@contextmanager
def open_vectors(
    path: str,
    *,
    to: str = "auto",
    store: str = "mixed",
    forget_sentences: bool = False,
    pool: Optional[str] = None,
    keep: Mapping[str, str] = {},
    force: bool = False,
) -> Iterator["Writer"]:
    """Open a writer for an output file. It writes to a temporary folder next to the output and renames at the end.

    path (str): A file that ends in .npz, .spacy, .parquet or .hdf5, or "-" for an .npz on stdout.
    to (str): A key of `VECTOR_SUFFIXES`, or "auto", which infers it from the suffix.
    store (str): "mixed" (T, D), "layers" (L+1, T, D) or, except in HDF5, "both"; in HDF5 also the "top" layer (T, D).
    forget_sentences (bool): Leave out `sentence_to_index` of an HDF5 file, a JSON object that maps each text to its
        number as a string; of equal texts the last one counts, as in AllenNLP.
    pool (Optional[str]): One of `POOLS`, for one vector per text instead of one per token, see `read_vectors`.
    keep (Mapping[str, str]): Fields of the texts that are kept, for Parquet and DocBins, with their types in Arrow.
    force (bool): Replace an existing output.
    YIELDS (Writer): The writer.
    RAISES (ValueError): EL134 if the output exists; for an unknown suffix, and settings of another format.
    """
    format = choose_format(path, to)
    check_choice(format, store, forget_sentences, list(keep))
    if format == "parquet":
        import_arrow("pyarrow", path, NO_ARROW)
    target, place = Path(path), None
    if path != STDOUT:
        check_output_file(target, force=force)
        target = follow_links(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        place = target.parent
    with naming(target), temporary_folder(".embed", place) as folder:
        if format == "hdf5":
            writer: Writer = Hdf5Writer(folder, store, pool, has_sentences=not forget_sentences)
        elif format == "parquet":
            writer = ParquetWriter(folder, store, pool, keep)
        else:
            writer = (NpzWriter if format == "npz" else DocBinWriter)(folder, store, pool)
        with writer:
            yield writer
            writer.finish()
        if path != STDOUT:
            os.replace(folder / RESULT, target)
            return
        with (folder / RESULT).open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def is_output(path: Path) -> bool:
    """Whether a file has vectors that this module wrote; false for a damaged file."""
    try:
        format = choose_format(str(path))
        if format == "parquet":
            return b"spacy_elmo" in (import_arrow("pyarrow.parquet", path).read_metadata(path).metadata or {})
        keys = (f"{OUTPUT}_data", *POOLED.values())
        content = zlib.decompress(path.read_bytes()) if format == "docbin" else b""
        return any(key.encode() in content for key in keys)
    except (ValueError, OSError, zlib.error):
        return False


def is_output_folder(path: str) -> bool:
    """Whether an output is a folder of parts: an address, or a path without a suffix."""
    return is_address(path) or (path != STDOUT and not Path(path).suffix)


def choose_format(path: str, to: str = "auto") -> str:
    """The format of an output file, see `open_vectors`, or of the parts of a folder. ValueError for another suffix."""
    if is_output_folder(path):
        format = "parquet" if to == "auto" else to
        is_fitting = format in PART_FORMATS
    else:
        suffix = ".npz" if path == STDOUT else Path(path).suffix.lower()
        format = next((name for name, known in VECTOR_SUFFIXES.items() if suffix == known), "") if to == "auto" else to
        is_fitting = VECTOR_SUFFIXES.get(format) == suffix
    if not is_fitting:
        remedy = "Choose one of these." if to == "auto" else "Choose one of these, and leave out `to`."
        raise ValueError(
            f"The output is '{path}' with `to='{to}'`, but should end in .npz (arrays), .hdf5 (a dataset per text), "
            ".parquet or .spacy (one DocBin), be '-' (.npz on stdout), or have no suffix (a folder of Parquet files; "
            f"with `to='docbin'` of DocBins). {remedy}"
        )
    return format


def check_choice(format: str, store: str, forget_sentences: bool, keep: Sequence[str] = ()) -> None:
    """ValueError for settings of one format with another, where they would be lost."""
    problem = ""
    if store == ("both" if format == "hdf5" else "top"):
        remedy = "" if format == "hdf5" else ", whose last rows are the top layer"
        problem = f'`store="{store}"` cannot be used here: the output is {format}. Choose `store="layers"`{remedy}.'
    elif format != "hdf5" and forget_sentences:
        problem = f"`forget_sentences` cannot be used here: the output is {format}. Choose a path that ends in .hdf5."
    elif keep and format not in PART_FORMATS:
        problem = f"`keep` cannot be used here: the output is {format}. Choose Parquet or DocBins."
    elif taken := [name for name in keep if name == "tokens" or name.startswith(OUTPUT)]:
        problem = f"`keep={','.join(taken)}` cannot be used: the output has a column of this name. Rename the field."
    if problem:
        raise ValueError(problem)


class Writer(ExitStack):
    """Writes the vectors of Docs one by one. It holds the open files, and stores no reference to a Doc.

    folder (Path): A temporary folder.
    store (str): Vectors that the component has to store: "mixed", "layers" or "both".
    pool (Optional[str]): One vector per text, see `read_vectors`.
    meta (Mapping[str, Any]): How the vectors are made, for formats that can store it.
    """

    def __init__(self, folder: Path, store: str, pool: Optional[str]) -> None:
        super().__init__()
        self.meta: Mapping[str, Any] = {}
        self.folder, self.store, self.pool = folder, store, pool
        self.names = ("mixed", "layers") if store == "both" else (store,)

    def begin(self, doc: Doc) -> None:
        """Read the widths and dtypes of the vectors from a processed Doc without tokens."""

    @abstractmethod
    def add(self, doc: Doc, user_data: Mapping[Any, Any], record: TextRecord) -> None:
        """Write a Doc with vectors; `user_data` is what it had before it was processed."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the file `RESULT` in the temporary folder."""


class NpzWriter(Writer):
    """Writes the concatenated rows of all Docs, "lengths", "ids" of the texts and, without `pool`, "tokens", of which
    the first `MAX_TOKEN_CHARACTERS` characters. They are in temporary files until the end, in bounded memory.
    """

    def __init__(self, folder: Path, store: str, pool: Optional[str]) -> None:
        super().__init__(folder, store, pool)
        self.lengths: List[int] = []
        self._files: Dict[str, List[IO[bytes]]] = {}
        self._headers: Dict[str, Tuple[Any, Tuple[int, ...]]] = {}
        names = ["ids"] if pool else ["ids", "tokens"]
        self._texts = {name: self.enter_context((folder / name).open("w", encoding="utf8")) for name in names}
        self._widths = dict.fromkeys(names, 1)

    def begin(self, doc: Doc) -> None:
        """See `Writer.begin`. Without further Docs, the arrays have no rows."""
        for name in self.names:
            values = read_vectors(doc, name)
            self._headers[name] = (values.dtype, values.shape)
            paths = [self.folder / f"{name}.{i}" for i in range(1 if values.ndim == 2 else len(values))]
            self._files[name] = [self.enter_context(path.open("wb")) for path in paths]

    def add(self, doc: Doc, user_data: Mapping[Any, Any], record: TextRecord) -> None:
        self.lengths.append(len(doc))
        for name, lines in self._texts.items():
            texts = [record.id] if name == "ids" else [token.text[:MAX_TOKEN_CHARACTERS] for token in doc]
            lines.write(json.dumps(texts) + "\n")
            self._widths[name] = max([self._widths[name], *map(len, texts)])
        for name, files in self._files.items():
            values = read_vectors(doc, name, self.pool)
            for file, rows in zip(files, values.reshape(len(files), -1, values.shape[-1]), strict=True):
                file.write(np.ascontiguousarray(rows).data)

    def finish(self) -> None:
        self.close()
        with zipfile.ZipFile(self.folder / RESULT, "w", allowZip64=True) as archive:
            with archive.open("lengths.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(self.lengths, dtype="int64"))
            for name, texts in self._texts.items():
                dtype = np.dtype(f"<U{self._widths[name]}")
                n_rows = len(self.lengths) if name == "ids" else sum(self.lengths)
                compressed = zipfile.ZipInfo(f"{name}.npy")
                compressed.compress_type = zipfile.ZIP_DEFLATED  # short texts are padded
                header = {"descr": dtype.str, "fortran_order": False, "shape": (n_rows,)}
                with Path(texts.name).open("rb") as lines, archive.open(compressed, "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(cast(Any, member), header)
                    for line in lines:
                        member.write(np.array(json.loads(line), dtype=dtype).tobytes())
            for name, (dtype, (*stack, _, width)) in self._headers.items():
                n_rows = sum(self.lengths) if self.pool is None else len(self.lengths)
                descr = np.lib.format.dtype_to_descr(dtype)
                header = {"descr": descr, "fortran_order": False, "shape": (*stack, n_rows, width)}
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(cast(Any, member), header)
                    for file in self._files[name]:
                        with Path(file.name).open("rb") as rows:
                            shutil.copyfileobj(rows, member)


class DocBinWriter(Writer):
    """Writes a DocBin with the vectors as user data; pooled vectors, under `POOLED`, replace the tokens' vectors."""

    def __init__(self, folder: Path, store: str, pool: Optional[str]) -> None:
        super().__init__(folder, store, pool)
        self._docs = DocBin(store_user_data=True)

    def add(self, doc: Doc, user_data: Mapping[Any, Any], record: TextRecord) -> None:
        """See `Writer.add`. With `pool` the vectors are replaced; the fields of the record become user data."""
        if self.pool is not None:
            doc.user_data = {**user_data, **{POOLED[name]: read_vectors(doc, name, self.pool) for name in self.names}}
        doc.user_data.update(record.fields)
        self._docs.add(doc)

    def finish(self) -> None:
        (self.folder / RESULT).write_bytes(self._docs.to_bytes())


class ParquetWriter(Writer):
    """Writes a row per text: `id`, the fields that are kept, `tokens` (with `pool` the `text`), and the vectors, see
    `Embedder`. A row group has about `ROW_GROUP_TOKENS` tokens. The metadata of the file have `meta` as JSON, under
    "spacy_elmo".
    """

    def __init__(self, folder: Path, store: str, pool: Optional[str], keep: Mapping[str, str] = {}) -> None:
        super().__init__(folder, store, pool)
        self._types = {"id": "string", "text": "string", **keep}
        self._arrow, self._parquet = import_arrow("pyarrow", OUTPUT, NO_ARROW), import_arrow("pyarrow.parquet", OUTPUT)
        self._columns: Dict[str, List[Any]] = {}
        self._file: Any = None
        self._n_rows = 0  # vectors in the columns
        self._empty: Optional[Dict[str, List[Any]]] = None  # a row, for the schema of a file without texts

    def begin(self, doc: Doc) -> None:
        self.add(doc, {}, TextRecord("", "", dict.fromkeys(self._types.keys() - {"id", "text"})))
        self._empty, self._columns, self._n_rows = self._columns, {}, 0

    def add(self, doc: Doc, user_data: Mapping[Any, Any], record: TextRecord) -> None:
        """See `Writer.add`. The record's `id` is used, unless it has a field of that name."""
        row: Dict[str, Any] = {"id": record.id, **record.fields}
        if self.pool:
            row["text"] = record.item if isinstance(record.item, str) else doc.text.rstrip()
        else:
            row["tokens"] = [token.text for token in doc]
        for name, value in {**row, **dict(name_rows(doc, self.store, self.pool, OUTPUT))}.items():
            self._columns.setdefault(name, []).append(value)
        self._n_rows += 1 if self.pool else len(doc) + 1
        if self._n_rows >= ROW_GROUP_TOKENS:
            self._flush()

    def _flush(self) -> None:
        arrays = {
            name: self._arrow.array(values, getattr(self._arrow, self._types[name])())
            if name in self._types
            else to_arrow(values)
            for name, values in self._columns.items()
        }
        table = self._arrow.table(arrays).replace_schema_metadata({"spacy_elmo": json.dumps(dict(self.meta))})
        if self._file is None:
            texts = ["id", "text", "tokens.list.element"]
            settings = {"compression": "zstd", "use_dictionary": texts}
            self._file = self.enter_context(self._parquet.ParquetWriter(self.folder / RESULT, table.schema, **settings))
        self._file.write_table(table if self._columns is not self._empty else table.slice(0, 0))
        self._columns, self._n_rows = {}, 0

    def finish(self) -> None:
        if self._file is None and not self._columns and self._empty is not None:
            self._columns = self._empty
        if self._columns:
            self._flush()
        self.close()


class Hdf5Writer(Writer):
    """Writes a dataset per text: "mixed", "layers" or "top". Only the texts are held in memory, for
    `sentence_to_index`.
    """

    def __init__(self, folder: Path, store: str, pool: Optional[str], *, has_sentences: bool) -> None:
        super().__init__(folder, "layers" if store == "top" else store, pool)
        self.is_top, self.has_sentences = store == "top", has_sentences
        self._file = self.enter_context(h5py.File(folder / RESULT, "w"))
        self._index: Dict[str, str] = {}
        self._n_docs = 0

    def add(self, doc: Doc, user_data: Mapping[Any, Any], record: TextRecord) -> None:
        """See `Writer.add`. A Doc without tokens gets an array without rows, or zeros if it is pooled."""
        name = str(self._n_docs)
        values = read_vectors(doc, self.store, self.pool)
        check_space(self.folder / RESULT, values.nbytes)
        self._file.create_dataset(name, data=np.ascontiguousarray(values[-1] if self.is_top else values))
        if self.has_sentences:
            self._index[doc.text.strip()] = name
        self._n_docs += 1

    def finish(self) -> None:
        if self.has_sentences:
            content = json.dumps(self._index)
            check_space(self.folder / RESULT, len(content))
            index = self._file.create_dataset(SENTENCE_INDEX, (1,), dtype=h5py.string_dtype())
            index[0] = content
        self.close()
