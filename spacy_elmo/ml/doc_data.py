"""Where a Doc keeps its ELMo vectors, and how they are found again after the Doc was copied, cut or joined.

The vectors of a Doc lie in `doc.user_data` as one *piece* under the key of a span extension,
`("._.", name, start, end)`: spaCy shifts such keys in `Doc.from_docs` and `Span.as_doc(copy_user_data=True)`, and warns
about all others. A piece knows the first character and the text of each of its tokens, so a token finds its row
whatever the Doc went through, and retokenization is noticed.
"""

from hashlib import blake2b
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy
from numpy.typing import NDArray
from spacy.attrs import IDX, ORTH
from spacy.tokens import Doc
from thinc.types import Floats2d, Floats3d
from thinc.util import get_array_module, to_numpy

from ..errors import Errors
from .mixing import mix_layers

NO_ROW, CONTESTED = -1, -2
Piece = Dict[str, Any]
Rows = NDArray[numpy.int64]


class DocVectors(NamedTuple):
    """What the ELMo component computed for one Doc.

    mixed (Optional[Floats2d]): Shape (n, D), None if it is not stored.
    layers (Optional[Floats3d]): Shape (L+1, n, D), None if they are not stored.
    weights (Sequence[float]): Raw weights of the component's mix.
    gamma (float): Scale of the mix.
    norm (Optional[str]): Layer norm of the mix.
    """

    mixed: Optional[Floats2d]
    layers: Optional[Floats3d]
    weights: Sequence[float]
    gamma: float
    norm: Optional[str]


def set_vectors(doc: Doc, prefix: str, vectors: DocVectors) -> None:
    """Keep vectors on a Doc, in place of those it had.

    doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    vectors (DocVectors): One row per token.
    """
    piece: Piece = {"starts": _starts(doc), "orths": _orths(doc), "n_chars": len(doc.text)}
    if vectors.mixed is not None:
        piece["mixed"] = vectors.mixed
    if vectors.layers is not None:
        piece["layers"] = vectors.layers
    piece.update(weights=list(vectors.weights), gamma=vectors.gamma, norm=vectors.norm)
    _put_piece(doc, prefix, piece)


def has_layers(doc: Doc, prefix: str) -> bool:
    """RETURNS (bool): Whether the Doc keeps layers, for all or some of its tokens."""
    return any("layers" in piece for _, piece in _find_pieces(doc, prefix))


def get_mixed(doc: Doc, prefix: str, start: int, end: int) -> Floats2d:
    """doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    start (int): First token.
    end (int): The token after the last one.
    RETURNS (Floats2d): The mixed vectors of the tokens, shape (end - start, D).
    RAISES (ValueError): EL062 without data, EL063 after retokenization.
    """
    piece, row = _piece_of(doc, prefix, start, end)
    if "mixed" in piece and end - start == len(piece["starts"]):
        whole: Floats2d = piece["mixed"]  # the array itself, not a view
        return whole
    return _mixed_rows(piece, slice(row, row + end - start))


def get_layers(doc: Doc, prefix: str, start: int, end: int) -> Floats3d:
    """doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    start (int): First token.
    end (int): The token after the last one.
    RETURNS (Floats3d): The layers of the tokens, shape (L+1, end - start, D).
    RAISES (ValueError): EL062 without data, EL063 after retokenization, EL064 if only mixed vectors are kept.
    """
    piece, row = _piece_of(doc, prefix, start, end)
    if "layers" not in piece:
        raise ValueError(Errors.EL064.format(name=prefix))
    layers: Floats3d = piece["layers"]
    return layers if end - start == len(piece["starts"]) else layers[:, row : row + end - start]


def _piece_of(doc: Doc, prefix: str, start: int, end: int) -> Tuple[Piece, int]:
    """RETURNS (Tuple[Piece, int]): A piece that holds all these tokens, and the row of the first."""
    pieces = _find_pieces(doc, prefix)
    if len(pieces) == 1 and _is_untouched(doc, pieces[0], start, end):
        return pieces[0][1], start
    if not pieces:
        raise ValueError(Errors.EL062.format(name=prefix, text=doc.text[:40]))
    return _join_pieces(doc, prefix, pieces, start, end)


def _is_untouched(doc: Doc, found: Tuple[Any, Piece], start: int, end: int) -> bool:
    """A quick look, so that reading token after token stays cheap: same place, same number, same tokens here."""
    (_, _, first_char, _), piece = found
    if first_char != 0 or len(piece["starts"]) != len(doc):
        return False
    if end - start == 1:
        token = doc[start]
        return bool(piece["starts"][start] == token.idx and piece["orths"][start] == token.orth)
    same_starts = numpy.array_equal(piece["starts"], _starts(doc))
    return same_starts and numpy.array_equal(piece["orths"], _orths(doc))


def _join_pieces(doc: Doc, prefix: str, pieces: List[Tuple[Any, Piece]], start: int, end: int) -> Tuple[Piece, int]:
    """Find the rows of a Doc that was cut out of another or joined from several.

    A Doc that is covered from end to end gets one piece of its own: the work is done once, and what `Span.as_doc`
    carried along in excess is dropped.
    RETURNS (Tuple[Piece, int]): A piece that holds the tokens, and the row of the first.
    """
    owners, rows = _claim_tokens(doc, pieces)
    if _is_retokenized(doc, pieces, owners):
        raise ValueError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    if (owners[start:end] == NO_ROW).any():
        raise ValueError(Errors.EL062.format(name=prefix, text=doc[start:end].text[:40]))
    if (owners[start:end] == CONTESTED).any():
        raise ValueError(Errors.EL074.format(name=prefix, text=doc[start:end].text[:40]))
    if (owners < 0).any():
        return _assemble(doc, pieces, owners, rows, start, end), 0
    whole = _assemble(doc, pieces, owners, rows, 0, len(doc))
    _put_piece(doc, prefix, whole)
    return whole, start


def _claim_tokens(doc: Doc, pieces: List[Tuple[Any, Piece]]) -> Tuple[Rows, Rows]:
    """Find the piece that has each token: the same text at the same place.

    A piece that `Span.as_doc` carried along reaches beyond its span, so that after a later `Doc.from_docs` a word of
    another Doc may lie by chance where the piece has the same word. Then nobody can tell whose it is.
    RETURNS (Tuple[Rows, Rows]): The number of the piece and the row in it for each token; instead of a number `NO_ROW`
        for none and `CONTESTED` for several.
    """
    owners, owned_rows = numpy.full(len(doc), NO_ROW), numpy.full(len(doc), NO_ROW)
    starts, orths = _starts(doc), _orths(doc)
    for number, ((_, _, first_char, _), piece) in enumerate(pieces):
        rows = _match(starts - first_char, orths, piece)
        is_mine = rows != NO_ROW
        owners[is_mine] = numpy.where(owners[is_mine] == NO_ROW, number, CONTESTED)
        owned_rows[is_mine] = rows[is_mine]
    return owners, owned_rows


def _match(starts: Rows, orths: NDArray[numpy.uint64], piece: Piece) -> Rows:
    """RETURNS (Rows): For each token the row of the piece with the same first character and text, else `NO_ROW`."""
    if len(piece["starts"]) == 0:
        return numpy.full(len(starts), NO_ROW)
    rows = numpy.searchsorted(piece["starts"], starts).clip(max=len(piece["starts"]) - 1)
    is_same = (piece["starts"][rows] == starts) & (piece["orths"][rows] == orths)
    return numpy.where(is_same, rows, NO_ROW)


def _is_retokenized(doc: Doc, pieces: List[Tuple[Any, Piece]], owners: Rows) -> bool:
    """RETURNS (bool): Whether a token lies inside the text of a piece that does not know it."""
    lost = _starts(doc)[owners == NO_ROW]
    ranges = [(first_char, first_char + piece["n_chars"]) for (_, _, first_char, _), piece in pieces]
    return any(((lost >= first) & (lost < last)).any() for first, last in ranges)


def _assemble(doc: Doc, pieces: List[Tuple[Any, Piece]], owners: Rows, rows: Rows, start: int, end: int) -> Piece:
    """RETURNS (Piece): Tokens `start` to `end` in one piece with arrays of its own."""
    bounds = [start, *(numpy.flatnonzero(numpy.diff(owners[start:end])) + start + 1).tolist(), end]
    parts = [(pieces[owners[a]][1], rows[a:b]) for a, b in zip(bounds, bounds[1:])]
    mixes = {(tuple(piece["weights"]), piece["gamma"], piece["norm"]) for piece, _ in parts}
    whole: Piece = {name: parts[0][0][name] for name in ("weights", "gamma", "norm")}
    whole.update(starts=_starts(doc)[start:end], orths=_orths(doc)[start:end], n_chars=len(doc.text))
    if all("layers" in piece for piece, _ in parts):
        whole["layers"] = _concatenate(
            [piece["layers"][:, _indices(piece["layers"], part_rows)] for piece, part_rows in parts], axis=1
        )
    if len(mixes) > 1 or any("mixed" in piece for piece, _ in parts):
        whole["mixed"] = _concatenate([_mixed_rows(piece, part_rows) for piece, part_rows in parts], axis=0)
    return whole


def _mixed_rows(piece: Piece, rows: Union[Rows, slice]) -> Floats2d:
    if "mixed" in piece:
        mixed: Floats2d = piece["mixed"][_indices(piece["mixed"], rows)]
        return mixed
    layers = piece["layers"][:, _indices(piece["layers"], rows)]
    return mix_layers(layers, piece["weights"], piece["gamma"], piece["norm"]).astype(layers.dtype, copy=False)


def _indices(array: Any, rows: Union[Rows, slice]) -> Any:
    """RETURNS (Any): Rows as an index for this kind of array."""
    return rows if isinstance(rows, slice) else get_array_module(array).asarray(rows)


def _concatenate(arrays: List[Any], axis: int) -> Any:
    return get_array_module(arrays[0]).concatenate(arrays, axis=axis)


def _put_piece(doc: Doc, prefix: str, piece: Piece) -> None:
    """Keep a piece that holds the whole Doc, in place of what was there."""
    for key, _ in _find_pieces(doc, prefix):
        del doc.user_data[key]
    user_data: Dict[Any, Any] = doc.user_data
    user_data[("._.", _data_name(prefix), 0, _fingerprint(piece))] = piece


def _fingerprint(piece: Piece) -> int:
    """RETURNS (int): A number that depends on the content.

    It stands where the last character would: spaCy only ever shifts both, so that keys of different pieces stay
    different wherever they are shifted to.
    """
    digest = blake2b(piece["starts"].tobytes() + piece["orths"].tobytes(), digest_size=5)
    for name in ("mixed", "layers"):
        if name in piece:
            digest.update(to_numpy(piece[name].sum(axis=-2, dtype="float32")).tobytes())
    return int.from_bytes(digest.digest(), "little")


def _find_pieces(doc: Doc, prefix: str) -> List[Tuple[Any, Piece]]:
    name = _data_name(prefix)
    return [(key, piece) for key, piece in doc.user_data.items() if _is_piece_key(key, name)]


def _is_piece_key(key: Any, name: str) -> bool:
    return isinstance(key, tuple) and len(key) == 4 and key[0] == "._." and key[1] == name


def _data_name(prefix: str) -> str:
    return f"{prefix}_data"


def _starts(doc: Doc) -> Rows:
    """RETURNS (Rows): The first character of each token."""
    return doc.to_array(IDX).astype("int64")


def _orths(doc: Doc) -> NDArray[numpy.uint64]:
    """RETURNS (NDArray[numpy.uint64]): The hash of each token's text."""
    orths: NDArray[numpy.uint64] = doc.to_array(ORTH)  # type: ignore[assignment]
    return orths
