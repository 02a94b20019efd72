"""One callable that embeds batches of texts, for every engine that passes batches of rows: Ray Data, Spark, Hugging
Face `datasets`, Daft, or a loop. It is small and picklable; a worker loads the weights when it first needs them.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import (
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

import numpy as np
import spacy
import torch
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import require_gpu, to_numpy

from ..corpora.files import import_arrow
from ..corpora.texts import Item, make_nlp, to_doc
from ..inference.bilm import BiLM
from ..pipeline.elmo import Elmo
from ..pipeline.model import fill, set_bilm
from ..weights import load_bilm
from ..weights.formats import locate

BATCH_SIZE = 1024
BATCH_TOKENS = 16000  # tokens per batch of Docs, a little less than twice the component's `batch_tokens`
TextT = TypeVar("TextT")
POOLS = ("mean", "first", "last", "max")


class Loaded(NamedTuple):
    """A pipeline in this process, and the lock of its vocabulary, which one thread at a time may extend."""

    nlp: Language
    lock: Lock


@dataclass(frozen=True)
class VectorSettings:
    """Which vectors of texts are computed, and how.

    model (str): Name or path of a biLM in any known format.
    lang (Optional[str]): Language of spaCy's tokenizer for strings; None: tokens are separated by white space.
    store (str): "mixed", "layers" or "both".
    pool (Optional[str]): "mean", "first", "last" or "max" over the tokens of a text; None for a vector per token.
    dtype (str): "float32" or "float16".
    precision (str): Of the computation, see `BiLM.set_precision`.
    batch_size (int): Maximum number of texts that are computed together.
    gpu_id (int): Number of the GPU, -1 for the CPU.
    """

    model: str = "en_elmo_sm"
    lang: Optional[str] = None
    store: str = "mixed"
    pool: Optional[str] = None
    dtype: str = "float32"
    precision: str = "float32"
    batch_size: int = BATCH_SIZE
    gpu_id: int = -1


@dataclass(frozen=True)
class Embedder(VectorSettings):
    """Adds columns with ELMo vectors to batches of rows.

    A column per token vector is a list of rows: `list<fixed_size_list<float, D>>` in Arrow, an array (T, D) otherwise.
    With `pool` it is one vector per text: `fixed_size_list<float, D>`, or an array (N, D).

    The settings are those of `VectorSettings`; `model` may also be a spaCy pipeline with an ELMo component, which then
    tokenizes, finds sentences and has its own mix. Without `pool`, strings also get a column OUTPUT_tokens.
    column (str): The column of texts: strings, or lists of strings, which are tokens.
    output (str): Name of the new column with the mixed vectors; those of layer j are in OUTPUT_layer_j.
    threads (Optional[int]): Threads of torch in the worker; None leaves them as they are.
    RAISES (ValueError): For an unknown `store`, `pool` or `dtype`; when called, if there is no such model or column.
    """

    column: str = "text"
    output: str = "elmo"
    threads: Optional[int] = None

    def __post_init__(self) -> None:
        allowed = {
            "store": ("mixed", "layers", "both"),
            "pool": (None, *POOLS),
            "dtype": ("float32", "float16"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                known = ", ".join(map(repr, values))
                raise ValueError(f"{name} is {getattr(self, name)!r}, should be one of {known}.")

    def __call__(self, batch: Any) -> Any:
        """batch (Union[pyarrow.Table, pyarrow.RecordBatch, Dict[str, Sequence]]): Rows with the column of texts.
        RETURNS: The same kind, with the new columns.
        """
        is_arrow = hasattr(batch, "schema") and hasattr(batch, "column")
        names = batch.schema.names if is_arrow else list(batch)
        if self.column not in names:
            raise ValueError(
                f"There is no column '{self.column}' in the batch, which has: {', '.join(names)}. Set `column`."
            )
        column = batch.column(self.column).to_pylist() if is_arrow else batch[self.column]
        items = [_to_item(value) for value in column]
        tokens, vectors = self._embed(items)
        if any(isinstance(item, str) for item in items) and self.pool is None:
            vectors = {f"{self.output}_tokens": tokens, **vectors}
        if is_arrow:
            new = {name: to_arrow(rows) for name, rows in vectors.items()}
            kept = {name: batch.column(name) for name in names if name not in new}
            return type(batch).from_arrays([*kept.values(), *new.values()], names=[*kept, *new])
        return {**batch, **{name: _to_numpy(rows) for name, rows in vectors.items()}}

    def _embed(self, items: Sequence[Item]) -> Tuple[List[List[str]], Dict[str, Any]]:
        """RETURNS (Tuple[List[List[str]], Dict[str, Any]]): Tokens, and rows by the name of their column."""
        nlp, lock = _load(self, _changed(self.model))
        tokens: List[List[str]] = []
        found: Dict[str, List[Any]] = {}
        with lock, nlp.memory_zone():
            for doc in pipe_docs(nlp, items, self.batch_size):
                tokens.append([token.text for token in doc])
                for name, rows in name_rows(doc, self.store, self.pool, self.output):
                    found.setdefault(name, []).append(rows)
        return tokens, found


def load_pipeline(settings: VectorSettings, **files: Any) -> Language:
    """Load a biLM into a pipeline of a tokenizer and an ELMo component, on its device.

    settings (VectorSettings): The settings.
    **files (Any): Further arguments of `load_bilm`; with `options` the model is the weights file.
    RETURNS (Language): The pipeline.
    """
    if settings.gpu_id >= 0:
        require_gpu(settings.gpu_id)
    bilm = load_bilm(**files, weights=settings.model) if "options" in files else load_bilm(settings.model, **files)
    nlp = make_nlp(settings.lang or "xx")
    config = {"store": settings.store, "dtype": settings.dtype, "model": {"precision": settings.precision}}
    elmo = nlp.add_pipe("elmo", config=config)
    set_bilm(elmo.model, bilm)  # type: ignore[attr-defined]  # an Elmo component
    return nlp


def get_bilm(nlp: Language) -> BiLM:
    """RETURNS (BiLM): That of a pipeline from `load_pipeline`."""
    return fill(nlp.get_pipe("elmo").model)  # type: ignore[attr-defined]  # an Elmo component


@lru_cache(maxsize=4)
def _load(settings: Embedder, changed: float) -> Loaded:
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    if (Path(settings.model) / "config.cfg").is_file() or spacy.util.is_package(settings.model):
        return Loaded(_load_saved(settings), Lock())
    return Loaded(load_pipeline(settings), Lock())


def _changed(model: str) -> float:
    """When files of the model changed last; in a process, other files are another model."""
    place = locate(model)
    return max((file.stat().st_mtime for file in (place, *place.glob("*"))), default=0.0) if place.exists() else 0.0


def _load_saved(settings: Embedder) -> Language:
    """A pipeline up to its first ELMo component."""
    if settings.gpu_id >= 0:
        require_gpu(settings.gpu_id)
    nlp = spacy.load(settings.model)
    found = [i for i, (_, pipe) in enumerate(nlp.pipeline) if isinstance(pipe, Elmo)]
    if not found:
        raise ValueError(
            f"The pipeline '{settings.model}' has no component 'elmo', only {', '.join(nlp.pipe_names) or 'none'}. "
            "Give a pipeline with ELMo, or a biLM."
        )
    elmo: Any = nlp.pipeline[found[0]][1]
    for name in nlp.pipe_names[found[0] + 1 :]:
        nlp.disable_pipe(name)
    elmo.store, elmo.dtype = settings.store, settings.dtype
    if settings.precision != "float32":
        elmo.fill()
        elmo.model.shims[0].bilm.set_precision(settings.precision)
    return nlp


def pipe_docs(nlp: Language, items: Iterable[Item], batch_size: int = BATCH_SIZE) -> Iterator[Doc]:
    """Compute vectors in batches of about 16,000 tokens.

    nlp (Language): With an ELMo component.
    items (Iterable[Item]): Texts, lists of words or Docs.
    batch_size (int): Maximum number of Docs per batch.
    YIELDS (Doc): In order, with vectors.
    """
    cutter: Cutter[Item] = Cutter(batch_size)
    for batch in cutter.cut(items):
        docs = [to_doc(item, nlp) for item in batch]
        cutter.learn(batch, sum(map(len, docs)))
        yield from nlp.pipe(docs, batch_size=len(batch))


class Cutter(Generic[TextT]):
    """Groups texts into batches of about `BATCH_TOKENS` tokens.

    batch_size (int): Maximum number of texts per batch.
    get_item (Callable[[TextT], Item]): The text of each.
    """

    def __init__(self, batch_size: int, get_item: Callable[[Any], Item] = lambda item: item) -> None:
        self.batch_size, self.get_item = batch_size, get_item
        self._characters = 1.0  # per token, white space included, measured on the last batch

    def cut(self, texts: Iterable[TextT]) -> Iterator[List[TextT]]:
        """texts (Iterable[TextT]): Texts.
        YIELDS (List[TextT]): Batches, in order."""
        batch: List[TextT] = []
        n_tokens = 0.0
        for text in texts:
            item = self.get_item(text)
            length = len(item) / self._characters if isinstance(item, str) else len(item)
            if batch and (len(batch) == self.batch_size or n_tokens + length > BATCH_TOKENS):
                yield batch
                batch, n_tokens = [], 0.0
            batch.append(text)
            n_tokens += length
        if batch:
            yield batch

    def learn(self, batch: Sequence[TextT], n_tokens: int) -> None:
        """Update the estimate of characters per token.

        batch (Sequence[TextT]): A batch that has been tokenized.
        n_tokens (int): Its number of tokens.
        """
        items = map(self.get_item, batch)
        n_characters = sum(len(item) for item in items if isinstance(item, str))
        if n_characters:
            self._characters = max(1.0, n_characters / max(1, n_tokens))


def name_rows(doc: Doc, store: str, pool: Optional[str], output: str) -> Iterator[Tuple[str, NDArray[Any]]]:
    """YIELDS (Tuple[str, NDArray]): Name of a column, and its rows for a Doc, see `Embedder`."""
    if store != "layers":
        yield output, read_vectors(doc, "mixed", pool)
    if store != "mixed":
        yield from ((f"{output}_layer_{j}", rows) for j, rows in enumerate(read_vectors(doc, "layers", pool)))


def read_vectors(doc: Doc, name: str, pool: Optional[str] = None) -> NDArray[Any]:
    """doc (Doc): A Doc with vectors.
    name (str): "mixed" or "layers".
    pool (Optional[str]): One of `POOLS`, over the tokens that are not white space, which the biLM does not read; a
        Doc without such tokens has zeros. None for a row per token.
    RETURNS (NDArray): "mixed" (T, D) or "layers" (L+1, T, D); with `pool` (D,) or (L+1, D).
    """
    values: NDArray[Any] = to_numpy(doc._.elmo if name == "mixed" else doc._.elmo_layers)
    if pool is None:
        return values
    rows = values[..., [token.i for token in doc if not token.is_space], :]
    if not rows.shape[-2]:
        return np.zeros((*rows.shape[:-2], rows.shape[-1]), dtype=values.dtype)
    if pool in ("first", "last"):
        return rows[..., 0 if pool == "first" else -1, :]
    found: NDArray[Any] = rows.max(axis=-2) if pool == "max" else rows.mean(axis=-2, dtype="float32")
    return found.astype(values.dtype, copy=False)


def to_arrow(rows: Sequence[Union[NDArray[Any], List[str]]]) -> Any:
    """rows (Sequence): Per text the rows of its tokens (T, D), its vector (D,), or its tokens.
    RETURNS (pyarrow.Array): Lists of fixed-size lists, fixed-size lists, or lists of strings; vectors are copied once.
    """
    arrow = import_arrow("pyarrow", "a batch")
    if not rows or not isinstance(rows[0], np.ndarray):
        return arrow.array(rows, type=arrow.list_(arrow.string()))
    is_pooled = rows[0].ndim == 1
    flat = np.stack(rows) if is_pooled else np.concatenate(rows)
    values = arrow.FixedSizeListArray.from_arrays(arrow.array(flat.reshape(-1)), flat.shape[1])
    if is_pooled:
        return values
    offsets = np.cumsum([0, *map(len, rows)], dtype="int32")
    return arrow.ListArray.from_arrays(arrow.array(offsets), values)


def _to_numpy(rows: Sequence[Any]) -> NDArray[Any]:
    """RETURNS (NDArray): (N, D) for vectors of texts; else N objects: arrays (T, D), or lists of tokens."""
    if rows and isinstance(rows[0], np.ndarray) and rows[0].ndim == 1:
        return np.stack(rows)
    found = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        found[i] = row
    return found


def _to_item(value: Any) -> Item:
    """A value of a column: None is an empty text, an array of strings a list of words."""
    if isinstance(value, (str, Doc)):
        return value
    return "" if value is None else [str(word) for word in value]
