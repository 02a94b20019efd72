"""One callable that embeds batches of texts, for every engine that passes batches of rows: Ray Data, Spark, Hugging
Face `datasets`, Daft, or a loop. It is small and picklable; a worker loads the weights when it first needs them.
"""

import hashlib
import os
import sys
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import (
    Annotated,
    Any,
    Callable,
    Dict,
    Generator,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    get_args,
)

import numpy as np
import spacy
import torch
from numpy.typing import NDArray
from pydantic import SkipValidation
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import require_gpu, to_numpy

from ..corpora.records import is_missing, replace_surrogates, to_item
from ..corpora.sources import import_arrow
from ..corpora.texts import Item, make_nlp, to_doc
from ..files import hash_file, walk_files
from ..inference.bilm import BiLM
from ..pipeline.component import ElmoComponent
from ..pipeline.model import set_bilm
from ..settings import Count, DType, Precision, Store, Whole, check_fields
from ..util import shorten
from ..weights import load_bilm
from ..weights.formats import FORMATS
from ..weights.load import locate_model, split_name

MAX_BATCH_TEXTS = 1024
BATCH_TOKENS = 16000  # tokens per batch of Docs, a little less than twice the component's `batch_tokens`
TextT = TypeVar("TextT")
Pool = Literal["mean", "first", "last", "max"]
POOLS: Tuple[Pool, ...] = get_args(Pool)
WORD_COLUMNS = ("words", "tokens")  # columns that have lists of strings if their type is unknown


class Loaded(NamedTuple):
    """A pipeline in this process, which ends in an ELMo component.

    lock (Lock): For its vocabulary, which one thread at a time may extend.
    prefix (str): Prefix of the attributes with the vectors.
    is_split (bool): Whether strings are split at white space.
    """

    nlp: Language
    lock: Lock
    prefix: str = "elmo"
    is_split: bool = False


class BatchColumn(List[Any]):
    """A column with the vectors or tokens of `n` texts. Arrow, which takes no arrays (T, D) from other lists, converts
    it to the type of `to_arrow`, also without texts.
    """

    def __init__(self, rows: Sequence[Any], n: int) -> None:
        super().__init__(rows[:n])
        self._first = rows[0]

    def __arrow_array__(self, type: Any = None) -> Any:
        values = to_arrow(list(self) or [self._first])[: len(self)]
        return values if type is None else values.cast(type)

    def __reduce__(self) -> Tuple[Any, ...]:
        return BatchColumn, (list(self) or [self._first], len(self))


@dataclass(frozen=True)
class VectorSettings:
    """Which vectors of texts are computed, and how.

    model (str): Name or path of a biLM in any known format.
    lang (Optional[str]): Language of spaCy's tokenizer for strings; None: tokens are separated by white space.
    store (str): "mixed", "layers" or "both".
    pool (Optional[str]): "mean", "first", "last" or "max" over the tokens of a text; None for a vector per token.
    dtype (str): "float32" or "float16".
    precision (str): Precision of the computation, see `BiLM.set_precision`.
    batch_size (int): Maximum number of texts that are computed together.
    gpu_id (int): Number of the GPU, -1 for the CPU.
    """

    model: Annotated[str, SkipValidation] = "en_elmo_sm"
    lang: Optional[str] = None
    store: str = "mixed"
    pool: Optional[Pool] = None
    dtype: DType = "float32"
    precision: Precision = "float32"
    batch_size: Count = MAX_BATCH_TEXTS
    gpu_id: Whole = -1


@check_fields
@dataclass(frozen=True)
class Embedder(VectorSettings):
    """Adds columns with ELMo vectors to batches of rows.

    A column has the vectors of a text's tokens: `list<fixed_size_list<float, D>>` in Arrow and polars, a list of arrays
    (D,) per row in pandas, otherwise a list of arrays (T, D), which Arrow converts, too. With `pool` it has one vector
    per text: `fixed_size_list<float, D>`, an array (D,) per row in pandas, or an array (N, D).

    The settings are as in `VectorSettings`; `model` may also be a spaCy pipeline with an ELMo component, which then
    tokenizes, finds sentences and has its own mix. Without `pool`, strings also get a column OUTPUT_tokens; a
    batch of nulls, or without rows, has strings unless it has another type, or the name `words` or `tokens`. A
    pickle changes with the files of the model, so that `datasets.map` computes again when they were replaced.
    column (str): The column of texts: strings, lists of strings, which are tokens, or of objects as in `Doc.to_json`,
        also with a column `sents`: each sentence is then a sequence. A null is an empty text.
    output (str): Name of the new column with the mixed vectors; layer j is in OUTPUT_layer_j.
    threads (Optional[int]): Threads of torch in the worker; None leaves them as they are.
    RAISES (ValueError): For an unknown `store`, `pool`, `dtype` or `precision`, and numbers below 1; when called, if
        there is no such model or column, for values of other types, and for another `lang` than a pipeline has.
    """

    store: Store = "mixed"
    column: str = "text"
    output: str = "elmo"
    threads: Optional[Count] = None

    def __call__(self, batch: Any) -> Any:
        """batch (Union[pyarrow.Table, pyarrow.RecordBatch, pandas.DataFrame, polars.DataFrame, Dict[str, Sequence]]):
            Rows with the column of texts.
        RETURNS: The same kind, with the new columns; for other mappings a dictionary.
        """
        library = type(batch).__module__.partition(".")[0]
        if library == "polars":
            return import_module("polars").from_arrow(self(batch.to_arrow()))
        is_arrow = hasattr(batch, "schema") and hasattr(batch, "column")
        names = batch.schema.names if is_arrow else list(batch)
        if self.column not in names:
            known = ", ".join(map(str, names))
            raise ValueError(f"There is no column '{self.column}' in the batch, which has: {known}. Set `column`.")
        column = batch.column(self.column) if is_arrow else batch[self.column]
        if isinstance(column, (str, bytes, Doc)) or not hasattr(column, "__len__"):
            raise ValueError(
                f"The column '{self.column}' is {_describe_value(column)}, should be a list of texts: a batch of "
                "rows. Put a single text into a list; `datasets.map` passes batches with batched=True."
            )
        values = column.to_pylist() if is_arrow else list(column)
        rows: List[Dict[str, Any]] = [{} for _ in values]
        if any(isinstance(word, dict) for value in values if _is_list(value) for word in value):
            for name in ("text", "sents"):  # to which tokens with "start" and "end" refer
                cells = [] if name not in names else batch.column(name).to_pylist() if is_arrow else batch[name]
                for row, cell in zip(rows, cells):
                    row[name] = cell
        items = [
            _to_item(value, f"Row {i} of the column '{self.column}'", row)
            for i, (value, row) in enumerate(zip(values, rows))
        ]
        tokens, vectors = self._embed(items or [""])  # without rows, for the types of the columns
        if not any(tokens):
            tokens = [np.array([], dtype="str")] * len(tokens)  # lists without a word have no type
        if self.pool is None and self._holds_texts(values, str(getattr(column, "type", getattr(column, "dtype", "")))):
            vectors = {f"{self.output}_tokens": tokens, **vectors}
        if is_arrow:
            new = {name: to_arrow(rows)[: len(items)] for name, rows in vectors.items()}
            columns = {name: batch.column(name) for name in names if name not in new}
            return type(batch).from_arrays([*columns.values(), *new.values()], names=[*columns, *new])
        if library == "pandas":  # one dimension in a cell, which Arrow, Parquet and `explode` take
            if self.pool is None:
                vectors = {name: [list(rows) for rows in text_rows] for name, text_rows in vectors.items()}
            return batch.assign(**{name: rows[: len(items)] for name, rows in vectors.items()})
        new = {
            # Not arrays of objects, which `datasets` cannot convert.
            name: BatchColumn(rows, len(items)) if self.pool is None else np.stack(rows)[: len(items)]
            for name, rows in vectors.items()
        }
        return {**batch, **new}

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_digest": _hash_model(self.model, _list_file_states(self.model))}

    def _holds_texts(self, values: Sequence[Any], type_name: str) -> bool:
        """Whether the column has strings, not lists of strings."""
        present = [value for value in values if not is_missing(value)]
        if present:
            return any(isinstance(value, str) for value in present)
        return not ("list" in type_name or ("str" not in type_name and self.column in WORD_COLUMNS))

    def _embed(self, items: Sequence[Item]) -> Tuple[List[Any], Dict[str, List[Any]]]:
        """Tokens, and rows by the name of their column."""
        loaded = _load_model(self, _list_file_states(self.model))
        tokens: List[List[str]] = []
        columns: Dict[str, List[Any]] = {}
        if loaded.is_split:
            items = [item.split() if isinstance(item, str) else item for item in items]
        with loaded.lock, closing(pipe_texts(loaded.nlp, items, self.batch_size, lambda item: item)) as embedded:
            for _, _, doc in embedded:
                tokens.append([token.text for token in doc])
                for name, rows in name_rows(doc, self.store, self.pool, self.output, loaded.prefix):
                    columns.setdefault(name, []).append(rows)
        return tokens, columns


def load_weights(settings: VectorSettings, **files: Any) -> BiLM:
    """The biLM of the settings. `files` are further arguments of `load_bilm`; with `options` the model is the weights
    file.
    """
    if settings.gpu_id >= 0:
        require_gpu(settings.gpu_id)
    return load_bilm(**files, weights=settings.model) if "options" in files else load_bilm(settings.model, **files)


def make_vector_pipeline(settings: VectorSettings, bilm: BiLM) -> Language:
    """A pipeline of a tokenizer and an ELMo component, on its device."""
    nlp = make_nlp(settings.lang or "xx")
    config = {"store": settings.store, "dtype": settings.dtype, "model": {"precision": settings.precision}}
    elmo = nlp.add_pipe("elmo", config=config)
    set_bilm(elmo.model, bilm)  # type: ignore[attr-defined]  # an Elmo component
    return nlp


def load_pipeline(settings: VectorSettings, **files: Any) -> Language:
    return make_vector_pipeline(settings, load_weights(settings, **files))


@lru_cache(maxsize=4)
def _load_model(settings: Embedder, file_states: Tuple[Any, ...]) -> Loaded:
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    place, is_pipeline = _find_model(settings.model)
    if is_pipeline:
        return _load_saved(settings, place)
    return Loaded(load_pipeline(settings), Lock(), is_split=settings.lang is None)


def _find_model(model: str) -> Tuple[Path, bool]:
    """The path of a model, and whether it is a spaCy pipeline."""
    name = os.fspath(model)
    if spacy.util.is_package(name):
        return spacy.util.get_package_path(name), True
    place_name, component = split_name(name)
    place = locate_model(place_name)
    return place, component is None and (place / "config.cfg").is_file()


def _list_file_states(model: str) -> Tuple[Any, ...]:
    """Name, size, times and number of each file of a model; in a process, other files are another model."""
    place, _ = _find_model(model)
    if place.is_dir():
        files = walk_files(place)
    else:  # a file, or the prefix of a checkpoint, beside which are options and words
        beside = {name for format in FORMATS for name in format.file_names}
        files = sorted(file for file in place.parent.glob("*") if file.is_file())
        files = [file for file in files if file.name in beside or f"{file.name}.".startswith(f"{place.name}.")]
    return tuple(
        (str(file), (stat := file.stat()).st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino) for file in files
    )


@lru_cache(maxsize=4)
def _hash_model(model: str, file_states: Tuple[Any, ...]) -> str:
    """A hash of the files of a model; their times may be the same after a replacement, or differ after a copy."""
    return hashlib.sha256("".join(hash_file(Path(name)) for name, *_ in file_states).encode("ascii")).hexdigest()


def _load_saved(settings: Embedder, place: Path) -> Loaded:
    """A pipeline up to its first ELMo component."""
    if settings.gpu_id >= 0:
        require_gpu(settings.gpu_id)
    nlp = spacy.load(place)
    places = [i for i, (_, pipe) in enumerate(nlp.pipeline) if isinstance(pipe, ElmoComponent)]
    if not places:
        raise ValueError(
            f"The pipeline '{settings.model}' has no component 'elmo', only {', '.join(nlp.pipe_names) or 'none'}. "
            "Give a pipeline with ELMo, or a biLM."
        )
    if settings.lang not in (None, nlp.lang):
        raise ValueError(
            f"lang is '{settings.lang}', but the pipeline '{settings.model}' has a tokenizer of its own, for the "
            f"language '{nlp.lang}'. Leave lang out, or give a biLM."
        )
    nlp.max_length = sys.maxsize  # the default limit is for parsers
    elmo: Any = nlp.pipeline[places[0]][1]
    for name in nlp.pipe_names[places[0] + 1 :]:
        nlp.disable_pipe(name)
    elmo.store, elmo.dtype = settings.store, settings.dtype
    if settings.precision != "float32":
        elmo.ensure_bilm()
        elmo.model.shims[0].bilm.set_precision(settings.precision)
    return Loaded(nlp, Lock(), elmo.prefix)


def pipe_texts(
    nlp: Language, texts: Iterable[TextT], batch_size: int, get_item: Callable[[TextT], Item]
) -> Generator[Tuple[TextT, Dict[Any, Any], Doc], None, None]:
    """Compute vectors in batches of about `BATCH_TOKENS` tokens and at most `batch_size` texts. Words that occur in one
    batch only are removed from the vocabulary after it: a Doc must be read before the next one.

    YIELDS (Tuple[TextT, Dict[Any, Any], Doc]): A text, the user data of its Doc before, and the Doc with vectors.
    """
    characters = 1.0  # per token, white space included, measured on the last batch

    def cut() -> Iterator[List[TextT]]:
        batch: List[TextT] = []
        n_tokens = 0.0
        for text in texts:
            item = get_item(text)
            length = len(item) / characters if isinstance(item, str) else len(item)
            if batch and (len(batch) == batch_size or n_tokens + length > BATCH_TOKENS):
                yield batch
                batch, n_tokens = [], 0.0
            batch.append(text)
            n_tokens += length
        if batch:
            yield batch

    for batch in cut():
        with nlp.memory_zone():
            docs = [to_doc(get_item(text), nlp) for text in batch]
            user_data = [dict(doc.user_data) for doc in docs]
            n_tokens = sum(map(len, docs))
            yield from zip(batch, user_data, nlp.pipe(docs, batch_size=len(batch)))
        if n_characters := sum(len(item) for item in map(get_item, batch) if isinstance(item, str)):
            characters = max(1.0, n_characters / max(1, n_tokens))


def name_rows(
    doc: Doc, store: str, pool: Optional[str], output: str, prefix: str = "elmo"
) -> Iterator[Tuple[str, NDArray[Any]]]:
    """YIELDS (Tuple[str, NDArray]): Name of a column, and its rows for a Doc, see `Embedder`."""
    if store != "layers":
        yield output, read_vectors(doc, "mixed", pool, prefix)
    if store != "mixed":
        layers = read_vectors(doc, "layers", pool, prefix)
        yield from ((f"{output}_layer_{j}", rows) for j, rows in enumerate(layers))


def read_vectors(doc: Doc, name: str, pool: Optional[str] = None, prefix: str = "elmo") -> NDArray[Any]:
    """The "mixed" vectors (T, D) or the "layers" (L+1, T, D) of a Doc, under the prefix of its attributes. With one of
    `POOLS` (D,) or (L+1, D), over the tokens that are not white space, which the biLM does not read; zeros for a Doc
    without such tokens.
    """
    values: NDArray[Any] = to_numpy(doc._.get(prefix if name == "mixed" else f"{prefix}_layers"))
    if pool is None:
        return values
    rows = values[..., [token.i for token in doc if not token.is_space], :]
    if not rows.shape[-2]:
        return np.zeros((*rows.shape[:-2], rows.shape[-1]), dtype=values.dtype)
    if pool in ("first", "last"):
        return rows[..., 0 if pool == "first" else -1, :]
    pooled: NDArray[Any] = rows.max(axis=-2) if pool == "max" else rows.mean(axis=-2, dtype="float32")
    return pooled.astype(values.dtype, copy=False)


def to_arrow(rows: Sequence[Union[NDArray[Any], List[str]]]) -> Any:
    """A pyarrow array of the rows of tokens (T, D), the vectors (D,) or the tokens of each text: lists of fixed-size
    lists, fixed-size lists, or lists of strings. Vectors are copied once.
    """
    arrow = import_arrow("pyarrow", "a batch")
    if not rows or not isinstance(rows[0], np.ndarray) or rows[0].dtype.kind != "f":
        return arrow.array(rows, type=arrow.list_(arrow.string()))
    is_pooled = rows[0].ndim == 1
    flat = np.stack(rows) if is_pooled else np.concatenate(rows)
    values = arrow.FixedSizeListArray.from_arrays(arrow.array(flat.reshape(-1)), flat.shape[1])
    if is_pooled:
        return values
    offsets = np.cumsum([0, *map(len, rows)], dtype="int32")
    return arrow.ListArray.from_arrays(arrow.array(offsets), values)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)


def _to_item(value: Any, where: str, row: Mapping[str, Any]) -> Item:
    """The text of a value of a column: a null is an empty text, an array of strings a list of words. ValueError for a
    value of another type. Tokens may be objects, also with places in the text of the row, whose `sents` divide them.
    """
    if isinstance(value, Doc):
        return value
    if is_missing(value):
        return ""
    if _is_list(value):
        words, _ = replace_surrogates([str(word) if isinstance(word, str) else word for word in value])
        return to_item(words, where, row)
    if not isinstance(value, str):
        raise ValueError(
            f"{where} is {_describe_value(value)}, should be a string, a list of strings or null. Cast the column, or "
            "name another column with `column`."
        )
    text: str = replace_surrogates(str(value))[0]  # spaCy cannot read NumPy's strings
    return text


def _describe_value(value: Any) -> str:
    return f"{shorten(repr(value), 60)} ({type(value).__name__})"
