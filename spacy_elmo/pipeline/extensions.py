"""The extension attributes with the ELMo vectors of a Doc. The attributes and their arrays are read-only.

Getters are instances of module-level classes, so that they can be pickled for spawned workers of `nlp.pipe`.
"""

from typing import Any, Callable, List, Tuple, Type, Union

import numpy
from spacy.tokens import Doc, Span, Token
from thinc.types import Floats1d, Floats2d, Floats3d

from ..errors import Errors
from ..ml.doc_vectors import get_layers, get_mixed

Owner = Union[Type[Doc], Type[Span], Type[Token]]


class ExtensionGetter:
    """A getter for one prefix; getters of the same class and prefix are equal.

    prefix (str): The extension prefix.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.prefix))


class ReadOnlySetter(ExtensionGetter):
    """Raises an error for `doc._.elmo = ...`, which spaCy ignores without a setter.

    prefix (str): The extension prefix.
    name (str): Name of the attribute.
    """

    def __init__(self, prefix: str, name: str) -> None:
        super().__init__(prefix)
        self.name = name

    def __call__(self, owner: Any, value: Any) -> None:
        """RAISES (AttributeError): EL079."""
        raise AttributeError(Errors.EL079.format(owner=type(owner).__name__, name=self.name))


class DocVectorsGetter(ExtensionGetter):
    """`doc._.elmo`: the mixed vectors, shape (n, D)."""

    def __call__(self, doc: Doc) -> Floats2d:
        return read_only(get_mixed(doc, self.prefix, 0, len(doc)))


class TokenVectorGetter(ExtensionGetter):
    """`token._.elmo`: the mixed vector, shape (D,)."""

    def __call__(self, token: Token) -> Floats1d:
        return read_only(get_mixed(token.doc, self.prefix, token.i, token.i + 1)[0])


class SpanVectorGetter(ExtensionGetter):
    """`span._.elmo`: the mean of its tokens' mixed vectors, shape (D,); zeros for an empty span."""

    def __call__(self, span: Span) -> Floats1d:
        return read_only(_mean(get_mixed(span.doc, self.prefix, span.start, span.end), axis=0))


class DocLayersGetter(ExtensionGetter):
    """`doc._.elmo_layers`: all layers, shape (L+1, n, D)."""

    def __call__(self, doc: Doc) -> Floats3d:
        return read_only(get_layers(doc, self.prefix, 0, len(doc)))


class TokenLayersGetter(ExtensionGetter):
    """`token._.elmo_layers`: the token in all layers, shape (L+1, D)."""

    def __call__(self, token: Token) -> Floats2d:
        return read_only(get_layers(token.doc, self.prefix, token.i, token.i + 1)[:, 0])


class SpanLayersGetter(ExtensionGetter):
    """`span._.elmo_layers`: the mean of its tokens in all layers, shape (L+1, D); zeros for an empty span."""

    def __call__(self, span: Span) -> Floats2d:
        return read_only(_mean(get_layers(span.doc, self.prefix, span.start, span.end), axis=1))


def register_extensions(prefix: str = "elmo") -> None:
    """Register the attributes `._.elmo` and `._.elmo_layers` of Doc, Span and Token. May be called repeatedly.

    The ELMo component calls it. Call it yourself for Docs read from a file without a pipeline.
    prefix (str): The component's `prefix` setting, which replaces "elmo" in the names.
    RAISES (ValueError): EL073 if a name is taken.
    """
    for owner, name, getter in _attributes(prefix):
        register_getter(owner, prefix, name, getter)


def register_getter(owner: Owner, prefix: str, name: str, getter: Callable[..., Any]) -> None:
    """owner (Union[Type[Doc], Type[Span], Type[Token]]): What gets the attribute.
    prefix (str): The extension prefix.
    name (str): Name of the attribute.
    getter (Callable): Computes it, an `ExtensionGetter`.
    RAISES (ValueError): EL073 if the name is taken.
    """
    if not owner.has_extension(name):
        owner.set_extension(name, getter=getter, setter=ReadOnlySetter(prefix, name))
    elif owner.get_extension(name)[2] != getter:
        raise ValueError(Errors.EL073.format(owner=owner.__name__, name=name))


def _attributes(prefix: str) -> List[Tuple[Owner, str, Callable[..., Any]]]:
    return [
        (Doc, prefix, DocVectorsGetter(prefix)),
        (Token, prefix, TokenVectorGetter(prefix)),
        (Span, prefix, SpanVectorGetter(prefix)),
        (Doc, f"{prefix}_layers", DocLayersGetter(prefix)),
        (Token, f"{prefix}_layers", TokenLayersGetter(prefix)),
        (Span, f"{prefix}_layers", SpanLayersGetter(prefix)),
    ]


def read_only(array: Any) -> Any:
    """RETURNS (Any): A read-only view of a NumPy array; CuPy has no read-only arrays."""
    if not isinstance(array, numpy.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _mean(vectors: Any, axis: int) -> Any:
    """RETURNS (Any): The mean over tokens, zeros if there are none; float16 is summed in float32."""
    n_tokens = max(vectors.shape[axis], 1)
    return (vectors.sum(axis=axis, dtype="float32") / n_tokens).astype(vectors.dtype)
