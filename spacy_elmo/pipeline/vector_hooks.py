"""Hooks for `doc.vector`, `token.similarity` and related attributes with ELMo vectors, for `set_vectors = true`.

The hooks read `doc.tensor`, which spaCy saves and updates on retokenization. They are module-level functions, so that a
Doc with hooks can be pickled. spaCy does not write hooks to bytes (warning W109); `set_vector_hooks` sets them again on
a Doc read from a file.
"""

from typing import Any, Callable, Dict

from spacy.tokens import Doc, Span, Token
from thinc.types import Floats1d, Floats2d
from thinc.util import get_array_module


def set_vector_hooks(doc: Doc) -> None:
    """Use the rows of `doc.tensor` as vectors of a Doc, its spans and its tokens.

    doc (Doc): A Doc with ELMo vectors in `tensor`.
    """
    own_hooks: Dict[str, Callable[..., Any]] = {
        "vector": mean_vector,
        "has_vector": has_vector,
        "vector_norm": vector_norm,
        "similarity": similarity,
    }
    doc.user_hooks.update(own_hooks)
    doc.user_span_hooks.update(own_hooks)
    doc.user_token_hooks.update({**own_hooks, "vector": token_vector})


def token_vector(token: Token) -> Floats1d:
    """RETURNS (Floats1d): The token's ELMo vector, shape (D,)."""
    vector: Floats1d = token.doc.tensor[token.i]
    return vector


def mean_vector(tokens: Any) -> Floats1d:
    """RETURNS (Floats1d): The mean of the vectors of a Doc's or span's tokens, shape (D,)."""
    rows: Floats2d = tokens.tensor if isinstance(tokens, Doc) else tokens.doc.tensor[tokens.start : tokens.end]
    mean: Floats1d = rows.sum(axis=0, dtype="float32") / max(rows.shape[0], 1)  # a float16 sum would be imprecise
    return mean


def has_vector(owner: Any) -> bool:
    """RETURNS (bool): Whether there are ELMo vectors."""
    doc = owner if isinstance(owner, Doc) else owner.doc
    return bool(doc.tensor.size)


def vector_norm(owner: Any) -> float:
    """RETURNS (float): The length of the vector of a Doc, span or token."""
    vector = owner.vector.astype("float32")
    return float(get_array_module(vector).sqrt((vector**2).sum()))


def similarity(owner: Any, other: Any) -> float:
    """RETURNS (float): Cosine of the vectors of two Docs, spans or tokens; 0 if one is zero."""
    norms = vector_norm(owner) * vector_norm(other)
    if norms == 0.0 or not isinstance(other, (Doc, Span, Token)):
        return 0.0
    return float((owner.vector.astype("float32") * other.vector.astype("float32")).sum()) / norms
