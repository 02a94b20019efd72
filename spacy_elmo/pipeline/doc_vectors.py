"""The ELMo vectors of a Doc: `doc._.elmo`, `doc._.elmo_layers` and `doc.vector`, and where they are stored.

They are one record (`VectorRecord`) in `doc.user_data`, under the key of a span extension:

    ("._.", "<prefix>_data", first character, character after the last token)

In `span.as_doc(copy_user_data=True)` and `Doc.from_docs`, spaCy shifts both characters.

- The first read of a copy (`_merge_records`) replaces its records by one with the rows of its own tokens.
- After two copies without a read between them, rows are ambiguous: "the cat", cut from "the cat the dog" and joined
  with another Doc "the dog", looks like the Doc it was cut from. Reading is then an error.
- A record from bytes is checked before its first use.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy
from spacy.attrs import IDX
from spacy.tokens import Doc, Span, Token
from thinc.types import Floats2d, Floats3d
from thinc.util import get_array_module, to_numpy

from .record_checks import find_problems, has_unusable_values
from .vector_record import (
    FLAGS,
    DocVectors,
    VectorRecord,
    VectorsError,
    count_chars,
    join_records,
    locate_tokens,
    mixed_rows,
    read_rows,
    read_tokens,
    shift,
)

Owner = Union[Doc, Span, Token]

# Writing and removing


def set_vectors(doc: Doc, prefix: str, vectors: DocVectors) -> None:
    """Store vectors, one row per token, on a Doc, in place of existing ones."""
    starts, orths = read_tokens(doc, 0, len(doc))
    fields = {name: getattr(vectors, name) or None for name in FLAGS}
    fields.update(mixed=vectors.mixed, layers=vectors.layers)
    record = VectorRecord({name: value for name, value in fields.items() if value is not None})
    record.update(starts=starts, orths=orths, n_chars=count_chars(doc), n_tokens=len(doc), n_carried=0)
    record.update(weights=list(vectors.weights), gamma=vectors.gamma, norm=vectors.norm)
    _put_record(doc, prefix, record)


def _drop_vectors(doc: Doc, prefix: str) -> None:
    """Remove the vectors of a Doc, also from `doc.tensor` if it has the same."""
    if _find_record_keys(doc, prefix) and _is_tensor(doc, prefix):
        doc.tensor = numpy.zeros((0,), dtype="float32")
    for key in _find_record_keys(doc, prefix):  # reading the vectors of joined Docs makes one record of several
        doc.vector = None  # set by `as_doc`; spaCy computes it if it is None
        del doc.user_data[key]


def _drop_layers(doc: Doc, prefix: str) -> None:
    """Remove the layers of a Doc, and keep its mixed vectors. VectorsError for damaged data."""
    for _, record in _find_records(doc, prefix):
        if "layers" in record:
            record["mixed"] = mixed_rows(record, slice(None))
            del record["layers"]


def _is_tensor(doc: Doc, prefix: str) -> bool:
    """RETURNS (bool): Whether `doc.tensor` has the mixed vectors, up to their precision."""
    tensor: Any = doc.tensor
    if tensor is None or not tensor.size:
        return False
    try:
        mixed = to_numpy(get_mixed(doc, prefix, 0, len(doc)))
    except VectorsError:
        return False
    return mixed.shape == tensor.shape and numpy.allclose(mixed, to_numpy(tensor), rtol=0.01, atol=0.01)


# Reading


def has_layers(doc: Doc, prefix: str) -> bool:
    """Whether the Doc has layers, for all or some of its tokens. VectorsError for damaged data."""
    merged = _find_merged(doc, prefix)
    records = [merged] if merged else [record for _, record in _find_records(doc, prefix)]
    return any("layers" in record for record in records)


def get_mixed(doc: Doc, prefix: str, start: int, end: int) -> Floats2d:
    """The mixed vectors of the tokens from `start` to before `end`, shape (end - start, D).

    RAISES (VectorsError): EL062 without data, EL063 after retokenization, EL074 if copied records are ambiguous; for
        damaged data, and for vectors of different sizes.
    """
    mixed: Floats2d = read_rows(doc, prefix, _get_record(doc, prefix), start, end, mixed_rows)
    return mixed


def get_layers(doc: Doc, prefix: str, start: int, end: int) -> Floats3d:
    """The layers of the tokens, shape (L+1, end - start, D). VectorsError as `get_mixed`, or without layers."""
    record = _get_record(doc, prefix)
    if "layers" not in record:
        raise VectorsError(
            f"The Doc has only the mixed vectors, not the layers (extension prefix '{prefix}'). Set store = "
            '"both" or "layers" in the config of the ELMo component, and do not remove the layers from the Doc.'
        )
    layers: Floats3d = read_rows(doc, prefix, record, start, end, lambda record, rows: record["layers"][:, rows])
    return layers


# Records in `doc.user_data`


def _record_key(doc: Doc, prefix: str) -> Any:
    return "._.", f"{prefix}_data", 0, count_chars(doc)


def _find_record_keys(doc: Doc, prefix: str) -> List[Any]:
    name = f"{prefix}_data"
    return [key for key in doc.user_data if isinstance(key, tuple) and len(key) == 4 and key[:2] == ("._.", name)]


def _get_record(doc: Doc, prefix: str) -> VectorRecord:
    """RETURNS (VectorRecord): The record made for this Doc, in constant time after the first read."""
    return _find_merged(doc, prefix) or _merge_records(doc, prefix)


def _find_merged(doc: Doc, prefix: str) -> Optional[VectorRecord]:
    record: Any = doc.user_data.get(_record_key(doc, prefix))
    return record if getattr(record, "is_checked", False) and not record["n_carried"] else None


def _find_records(doc: Doc, prefix: str) -> List[Tuple[int, Dict[str, Any]]]:
    """RETURNS (List[Tuple[int, Dict[str, Any]]]): The character at which each record begins, and the checked record."""
    keys: List[Any] = _find_record_keys(doc, prefix)
    for key in keys:
        if not getattr(doc.user_data[key], "is_checked", False):
            _check_record(doc, prefix, key[2], doc.user_data[key])
    return [(key[2], doc.user_data[key]) for key in keys]


def _put_record(doc: Doc, prefix: str, record: VectorRecord) -> None:
    """Store a record in place of all others."""
    for key in _find_record_keys(doc, prefix):
        del doc.user_data[key]
    record.is_checked = True
    doc.user_data[_record_key(doc, prefix)] = record


def _merge_records(doc: Doc, prefix: str) -> VectorRecord:
    """Replace the records of a Doc that was cut, joined or read from bytes by one with the rows of its own tokens.

    RAISES (VectorsError): As `get_mixed`; the Doc is then unchanged.
    """
    records, (starts, orths) = _find_records(doc, prefix), read_tokens(doc, 0, len(doc))
    clear: List[Tuple[int, Dict[str, Any]]] = []
    unclear = numpy.zeros(len(doc), dtype=bool)
    for first, record in records:
        # After one copy, all tokens of the Doc within the text of the record belong to it: the Doc was cut from the Doc
        # of the record, or joined from Docs that include it. Copies are counted, unless the record is a dictionary,
        # which was read from bytes before this module was imported.
        if isinstance(record, VectorRecord):
            is_clear = record["n_carried"] <= 1
        else:
            is_clear = numpy.array_equal(record["starts"] + first, starts) and numpy.array_equal(record["orths"], orths)
        if is_clear or not len(doc):
            clear.append((first, record))
        else:
            unclear |= numpy.isin(starts, shift(record["starts"], first))
    if len(records) == len(clear) == 1 and clear[0][0] == 0 and clear[0][1]["n_carried"] == 0:
        merged = VectorRecord(clear[0][1])
    else:
        merged = join_records(doc, prefix, clear, starts[unclear])
    if merged.get("sets_hooks") is True:
        set_vector_hooks(doc, prefix)
    if merged.get("averages_merged") is not True:
        locate_tokens(doc, prefix, merged, 0, len(doc))
    _put_record(doc, prefix, merged)
    return merged


def _check_record(doc: Doc, prefix: str, first: Any, record: Any) -> None:
    """RAISES (VectorsError): For a record with problems, for one with unusable values."""
    problems = find_problems(first, record)
    if not problems and has_unusable_values(record):
        problems = ["vectors have NaN, infinity or very large values that would overflow"]
    if problems:
        raise VectorsError(
            f"The stored ELMo data of the Doc '{doc.text[:40]}' (extension prefix '{prefix}') is damaged: "
            f"{'; '.join(problems)}. Read the Doc from an intact copy, or compute its vectors again with the "
            "ELMo component (`nlp.get_pipe(NAME)(doc)`)."
        )
    if isinstance(record, VectorRecord):
        record.is_checked = True


# Extension attributes, read-only as their arrays are; `doc._.elmo = None` removes the vectors


@dataclass(frozen=True)
class ExtensionGetter:
    """A getter for one prefix, picklable for spawned workers; getters of the same class and prefix are equal."""

    prefix: str


class VectorsGetter(ExtensionGetter):
    """`._.elmo`, read-only: the mixed vectors of a Doc, shape (n, D), the vector of a token, shape (D,), or the mean
    over the tokens of a span, zeros if it is empty.
    """

    def __call__(self, owner: Owner) -> Any:
        return _of_owner(owner, get_mixed(*_place(owner, self.prefix)))


class LayersGetter(ExtensionGetter):
    """`._.elmo_layers`, read-only: all layers, shape (L+1, n, D) of a Doc, (L+1, D) of a token and of a span."""

    def __call__(self, owner: Owner) -> Any:
        return _of_owner(owner, get_layers(*_place(owner, self.prefix)))


def register_extensions(prefix: str = "elmo") -> None:
    """Register the attributes `._.elmo` and `._.elmo_layers` of Doc, Span and Token. May be called repeatedly.

    The ELMo component calls it. Call it yourself for Docs read from a file without a pipeline.
    prefix (str): The component's `prefix` setting, which replaces "elmo" in the names.
    RAISES (ValueError): If a name is taken.
    """
    layers = f"{prefix}_layers"
    for owner in (Doc, Token, Span):
        register_getter(owner, prefix, VectorsGetter(prefix), partial(_drop_vectors, prefix=prefix))
        register_getter(owner, layers, LayersGetter(prefix), partial(_drop_layers, prefix=prefix))


def register_getter(
    owner: Any, name: str, getter: ExtensionGetter, remove: Optional[Callable[[Doc], None]] = None
) -> None:
    """Register an attribute; `remove` is called if a Doc's is set to None. A getter of this module before it was
    reloaded is replaced. ValueError if the name is taken.
    """
    has_attribute = owner.has_extension(name)
    registered = owner.get_extension(name)[2] if has_attribute else getter
    is_reloaded = repr(registered) == repr(getter) and _source(registered) == _source(getter)
    if not has_attribute or (registered != getter and is_reloaded):
        owner.set_extension(name, getter=getter, setter=partial(_set_attribute, name, remove), force=has_attribute)
    elif registered != getter:
        raise ValueError(
            f"The extension attribute '{owner.__name__}._.{name}' is already registered by other code. Choose "
            "another prefix in the config of the ELMo component."
        )


def _source(getter: Any) -> Tuple[str, str]:
    """Module and name of the class of a getter; its dataclass `repr` has the prefix."""
    return type(getter).__module__, type(getter).__qualname__


def _set_attribute(name: str, remove: Optional[Callable[[Doc], None]], owner: Owner, value: Any) -> None:
    """RAISES (AttributeError): For any value but None; spaCy would ignore it without a setter."""
    if value is not None or not isinstance(owner, Doc) or remove is None:
        remedy = "" if remove is None else f" To remove it from a Doc, set `doc._.{name} = None`."
        raise AttributeError(
            f"'{type(owner).__name__}._.{name}' cannot be set: the ELMo component computes it. To change "
            f"values, copy them (`vectors = {type(owner).__name__}._.{name}.copy()`); to store the copy on the "
            "Doc, register another extension attribute." + remedy
        )
    remove(owner)


def read_only(array: Any) -> Any:
    """RETURNS (Any): A read-only view of a NumPy array; CuPy has no read-only arrays."""
    if not isinstance(array, numpy.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _place(owner: Owner, prefix: str) -> Tuple[Doc, str, int, int]:
    """RETURNS (Tuple[Doc, str, int, int]): The Doc, the prefix, the first token, and the one after the last."""
    if isinstance(owner, Token):
        return owner.doc, prefix, owner.i, owner.i + 1
    if isinstance(owner, Span):
        return owner.doc, prefix, owner.start, owner.end
    return owner, prefix, 0, len(owner)


def _of_owner(owner: Owner, rows: Any) -> Any:
    if isinstance(owner, Token):
        return read_only(rows[..., 0, :].copy())  # a view would keep the array of the Doc in memory
    return read_only(_mean_rows(rows).astype(rows.dtype) if isinstance(owner, Span) else rows)


def _mean_rows(rows: Any) -> Any:
    """RETURNS (Any): The mean over tokens in float32, zeros if there are none."""
    return rows.sum(axis=-2, dtype="float32") / max(rows.shape[-2], 1)


# `doc.vector` and related attributes, for `set_vectors = true`


def set_vector_hooks(doc: Doc, prefix: str = "elmo") -> None:
    """Use the mixed vectors for `vector`, `has_vector`, `vector_norm` and `similarity` of a Doc, its spans and tokens.

    The hooks read what `._.elmo` reads; `doc.tensor` may be another component's. They are functions of this module, so
    that a Doc with hooks can be pickled. spaCy does not write hooks to bytes (warning W109), nor copy them in
    `Doc.from_docs`; the first read of `._.elmo` sets them again.
    doc (Doc): A Doc with ELMo vectors.
    prefix (str): The component's extension prefix.
    """
    hooks: Dict[str, Callable[..., Any]] = {
        "vector": partial(_vector, prefix),
        "has_vector": partial(_has_vector, prefix),
        "vector_norm": _vector_norm,
        "similarity": _similarity,
    }
    for registered in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        registered.update(hooks)


def _vector(prefix: str, owner: Owner) -> Any:
    """RETURNS (Any): The ELMo vector of a token, the mean over a Doc or span, shape (D,). That of a span is NaN if its
        Doc has no vectors that can be read, since `as_doc` reads it, and must not fail.
    RAISES (VectorsError): As `get_mixed`, for a Doc or token.
    """
    if isinstance(owner, Span) and _is_in_merge(owner.doc):
        rows = [owner.vocab.get_vector(token.orth) for token in owner]
        return numpy.asarray(sum(rows) / len(rows), dtype="float32")
    try:
        if isinstance(owner, Doc):
            return _mean_of_doc(owner, prefix)
        rows = get_mixed(*_place(owner, prefix))
    except VectorsError:
        if isinstance(owner, Span):
            return numpy.full((max(owner.vocab.vectors_length, 1),), numpy.nan, dtype="float32")
        set_by_as_doc = getattr(owner, "_vector", None)
        if set_by_as_doc is None or _find_record_keys(owner.doc, prefix):
            raise
        return set_by_as_doc
    return read_only(rows[0].copy()) if isinstance(owner, Token) else _mean_rows(rows)


def _mean_of_doc(doc: Doc, prefix: str) -> Any:
    """RETURNS (Any): The mean over the tokens of a Doc, which is computed again only if these have changed: then one of
    them begins elsewhere.
    """
    starts, record = doc.to_array(IDX).tobytes(), _find_merged(doc, prefix)
    if record is None or record.mean is None or record.mean[0] != starts:
        mean = _mean_rows(get_mixed(doc, prefix, 0, len(doc)))
        record = _get_record(doc, prefix)
        record.mean = starts, mean
    return record.mean[1].copy()


def _is_in_merge(doc: Doc) -> bool:
    """Whether spaCy is merging tokens: it has shortened `doc.tensor`, but not yet the Doc, when it asks for the vectors
    of spans, to store them in the vocabulary as static vectors of the merged words.
    """
    tensor = doc.tensor
    return bool(tensor is not None and tensor.size and len(tensor) != len(doc))


def _has_vector(prefix: str, owner: Owner) -> bool:
    """RETURNS (bool): Whether all tokens have ELMo vectors."""
    try:
        return bool(get_mixed(*_place(owner, prefix)).size)
    except VectorsError:
        return False


def _vector_norm(owner: Owner) -> float:
    vector = owner.vector.astype("float32")
    return float(get_array_module(vector).sqrt((vector**2).sum()))


def _similarity(owner: Owner, other: Any) -> float:
    """RETURNS (float): Cosine of the vectors of two Docs, spans or tokens; 0 if one is zero."""
    if not isinstance(other, (Doc, Span, Token)):
        return 0.0
    a, b = (item.vector.astype("float32", copy=False) for item in (owner, other))
    squares = float(a @ a) * float(b @ b)
    return float(a @ b) / math.sqrt(squares) if squares else 0.0
