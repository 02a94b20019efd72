"""Where a Doc keeps its ELMo vectors, and how they are found again after the Doc was copied, cut or joined.

The vectors of a Doc lie in `doc.user_data` as one *piece* under the key of a span extension,
`("._.", name, start, end)`: spaCy shifts such keys in `Doc.from_docs` and `Span.as_doc(copy_user_data=True)`, and warns
about all others. A piece knows the first character and the text of each of its tokens, so a token finds its row after
one such step, and retokenization is noticed. Where a Doc went through two of them unread it is not always clear whose
the rows are (see `vector_record.py`): then reading is an error. A piece that comes from bytes is checked before it is
used for the first time (see `record_checks.py`).
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
from .batch_norm import MarkSums
from .merged_rows import average_merged
from .mixing import mix_layers
from .record_checks import find_problems, has_wild_values
from .vector_record import Piece, carried

NO_ROW, UNCLEAR = -1, -2
KEPT_WHEN_MERGED = ("weights", "gamma", "norm", "marks", "averages_merged")
Rows = NDArray[numpy.int64]


class DocVectors(NamedTuple):
    """What the ELMo component computed for one Doc.

    mixed (Optional[Floats2d]): Shape (n, D), None if it is not stored.
    layers (Optional[Floats3d]): Shape (L+1, n, D), None if they are not stored.
    weights (Sequence[float]): Raw weights of the component's mix.
    gamma (float): Scale of the mix.
    norm (Optional[str]): Layer norm of the mix.
    marks (Optional[MarkSums]): Of the Doc's boundaries, None if nobody asks for them.
    averages_merged (bool): Whether tokens that are merged later get the mean of their rows.
    """

    mixed: Optional[Floats2d]
    layers: Optional[Floats3d]
    weights: Sequence[float]
    gamma: float
    norm: Optional[str]
    marks: Optional[MarkSums] = None
    averages_merged: bool = False


def set_vectors(doc: Doc, prefix: str, vectors: DocVectors) -> None:
    """Keep vectors on a Doc, in place of those it had.

    doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    vectors (DocVectors): One row per token.
    """
    for key in _piece_keys(doc, prefix):
        del doc.user_data[key]
    piece = _make_piece(doc, 0, len(doc))
    if vectors.mixed is not None:
        piece["mixed"] = vectors.mixed
    if vectors.layers is not None:
        piece["layers"] = vectors.layers
    if vectors.marks is not None:
        piece["marks"] = list(vectors.marks)
    piece.update(weights=list(vectors.weights), gamma=vectors.gamma, norm=vectors.norm)
    if vectors.averages_merged:
        piece["averages_merged"] = True
    _put_piece(doc, prefix, piece, 0)


def has_layers(doc: Doc, prefix: str) -> bool:
    """RETURNS (bool): Whether the Doc keeps layers, for all or some of its tokens.
    RAISES (ValueError): EL090 and EL091 for damaged data.
    """
    return any("layers" in piece for _, piece in _find_pieces(doc, prefix))


def get_mixed(doc: Doc, prefix: str, start: int, end: int) -> Floats2d:
    """doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    start (int): First token.
    end (int): The token after the last one.
    RETURNS (Floats2d): The mixed vectors of the tokens, shape (end - start, D).
    RAISES (ValueError): EL062 without data, EL063 after retokenization, EL074 if the Doc was cut and joined unread,
        EL090 and EL091 for damaged data, EL092 for vectors of different sizes.
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
    RAISES (ValueError): EL062 without data, EL063 after retokenization, EL064 if only mixed vectors are kept, EL074 if
        the Doc was cut and joined unread, EL090 and EL091 for damaged data, EL092 for vectors of different sizes.
    """
    piece, row = _piece_of(doc, prefix, start, end)
    if "layers" not in piece:
        raise ValueError(Errors.EL064.format(name=prefix))
    layers: Floats3d = piece["layers"]
    return layers if end - start == len(piece["starts"]) else layers[:, row : row + end - start]


def get_marks(doc: Doc, prefix: str) -> Optional[MarkSums]:
    """doc (Doc): The Doc.
    prefix (str): The component's extension prefix.
    RETURNS (Optional[MarkSums]): Of its boundaries, None if they were not kept, or the Doc was cut or joined since.
    RAISES (ValueError): EL062 without data, EL063 after retokenization, EL074 if the Doc was cut and joined unread,
        EL090 and EL091 for damaged data, EL092 for vectors of different sizes.
    """
    marks = _piece_of(doc, prefix, 0, len(doc))[0].get("marks")
    return None if marks is None else MarkSums(*marks)


def _piece_of(doc: Doc, prefix: str, start: int, end: int) -> Tuple[Piece, int]:
    """RETURNS (Tuple[Piece, int]): A piece that holds all these tokens, and the row of the first."""
    pieces = _find_pieces(doc, prefix)
    if not pieces:
        raise ValueError(Errors.EL062.format(name=prefix, text=doc.text[:40]))
    for key, piece in pieces:
        row = _known_row(doc, key[2], piece, start, end)
        if row is not None:
            return piece, row
    return _settle_pieces(doc, prefix, pieces, start, end)


def _known_row(doc: Doc, first_char: int, piece: Piece, start: int, end: int) -> Optional[int]:
    """A quick look, so that reading token after token stays cheap: made for this Doc, and the same tokens here.

    RETURNS (Optional[int]): The row of the first token, None if a closer look is needed.
    """
    if carried(piece) or piece["n_tokens"] != len(doc):
        return None
    if end - start == len(doc):
        is_same = first_char == 0 and _is_same(piece, _starts(doc), _orths(doc))
        return 0 if is_same else None
    if start == end:
        return 0
    row = start - piece["first"]
    if row < 0:
        return None
    found = doc[start:end].to_array([IDX, ORTH])  # type: ignore[attr-defined]  # spaCy's stub lacks it
    rows = {name: piece[name][row : row + end - start] for name in ("starts", "orths")}
    return row if _is_same(rows, found[:, 0].astype("int64") - first_char, found[:, 1]) else None


def _is_same(piece: Dict[str, Any], starts: Rows, orths: NDArray[numpy.uint64]) -> bool:
    return numpy.array_equal(piece["starts"], starts) and numpy.array_equal(piece["orths"], orths)


def _settle_pieces(doc: Doc, prefix: str, pieces: List[Tuple[Any, Piece]], start: int, end: int) -> Tuple[Piece, int]:
    """Find the rows of a Doc that was cut out of another or joined from several.

    Each run of tokens that has vectors gets one piece of its own, so that the work is done once, and what
    `Span.as_doc` carried along in excess is dropped: from then on the pieces say exactly which tokens they hold.
    RETURNS (Tuple[Piece, int]): A piece that holds the tokens, and the row of the first.
    """
    owners, rows = _claim_tokens(doc, pieces)
    if _is_retokenized(doc, pieces, owners):
        return _settle_merged(doc, prefix, pieces), start
    runs = [(a, b, _assemble(doc, prefix, pieces, owners, rows, a, b)) for a, b in _covered_runs(owners)]
    for key, piece in pieces:
        if _is_clear(doc, key[2], piece):
            del doc.user_data[key]
    for a, _, piece in runs:
        _put_piece(doc, prefix, piece, doc[a].idx)
    if (owners[start:end] == UNCLEAR).any():
        raise ValueError(Errors.EL074.format(name=prefix, text=doc[start:end].text[:40]))
    if (owners[start:end] == NO_ROW).any():
        raise ValueError(Errors.EL062.format(name=prefix, text=doc[start:end].text[:40]))
    found = [(piece, start - a) for a, b, piece in runs if a <= start and end <= b]
    return found[0] if found else (pieces[0][1], 0)  # of an empty span


def _settle_merged(doc: Doc, prefix: str, pieces: List[Tuple[Any, Piece]]) -> Piece:
    """Replace the piece of a Doc whose tokens were merged by one with the means of their rows, where that is wanted.

    RETURNS (Piece): The piece.
    RAISES (ValueError): EL063 where it is not wanted, tokens were split, or the Doc was joined of several.
    """
    key, piece = pieces[0]
    is_wanted = len(pieces) == 1 and piece.get("averages_merged") is True and _is_clear(doc, key[2], piece)
    arrays = average_merged(doc, key[2], piece) if is_wanted else None
    if arrays is None:
        raise ValueError(Errors.EL063.format(name=prefix, text=doc.text[:40]))
    whole = _make_piece(doc, 0, len(doc))
    whole.update({name: piece[name] for name in KEPT_WHEN_MERGED if name in piece})
    whole.update(arrays)
    del doc.user_data[key]
    _put_piece(doc, prefix, whole, 0)
    return whole


def _claim_tokens(doc: Doc, pieces: List[Tuple[Any, Piece]]) -> Tuple[Rows, Rows]:
    """Find the piece that has each token: the same text at the same place.

    RETURNS (Tuple[Rows, Rows]): The number of the piece and the row in it for each token; instead of a number `NO_ROW`
        for none, and `UNCLEAR` where it only seems to be the token's.
    """
    owners, owned_rows = numpy.full(len(doc), NO_ROW), numpy.full(len(doc), NO_ROW)
    starts, orths = _starts(doc), _orths(doc)
    for number, ((_, _, first_char, _), piece) in enumerate(pieces):
        rows = _match(starts - first_char, orths, piece)
        is_mine = rows != NO_ROW
        if not _is_clear(doc, first_char, piece):
            owners[is_mine & (owners == NO_ROW)] = UNCLEAR
            continue
        owners[is_mine] = numpy.where(owners[is_mine] < 0, number, UNCLEAR)
        owned_rows[is_mine] = rows[is_mine]
    return owners, owned_rows


def _is_clear(doc: Doc, first_char: int, piece: Piece) -> bool:
    """Whether each token of the Doc that a piece seems to have really is its own.

    After one step from Doc to Doc that is so: either the Doc was cut out of the one that the piece was made for, and
    has no other tokens, or it was joined of Docs among which is that one, with all its tokens.
    """
    if carried(piece) <= 1:
        return True
    return not isinstance(piece, Piece) and first_char == 0 and _is_same(piece, _starts(doc), _orths(doc))


def _match(starts: Rows, orths: NDArray[numpy.uint64], piece: Piece) -> Rows:
    """RETURNS (Rows): For each token the row of the piece with the same first character and text, else `NO_ROW`."""
    if len(piece["starts"]) == 0:
        return numpy.full(len(starts), NO_ROW)
    rows = numpy.searchsorted(piece["starts"], starts).clip(max=len(piece["starts"]) - 1)
    is_same = (piece["starts"][rows] == starts) & (piece["orths"][rows] == orths)
    return numpy.where(is_same, rows, NO_ROW)


def _is_retokenized(doc: Doc, pieces: List[Tuple[Any, Piece]], owners: Rows) -> bool:
    """RETURNS (bool): Whether a token lies inside the text of a piece that should know it and does not."""
    lost = _starts(doc)[owners < 0]
    clear = [(key[2], piece) for key, piece in pieces if _is_clear(doc, key[2], piece)]
    ranges = [(first_char, first_char + piece["n_chars"]) for first_char, piece in clear]
    return any(((lost >= first) & (lost < last)).any() for first, last in ranges)


def _covered_runs(owners: Rows) -> List[Tuple[int, int]]:
    """RETURNS (List[Tuple[int, int]]): First token, and the one after the last, of each run of tokens with vectors."""
    is_covered = numpy.concatenate([[False], owners >= 0, [False]])
    edges = numpy.flatnonzero(is_covered[1:] != is_covered[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2]))


def _assemble(
    doc: Doc, prefix: str, pieces: List[Tuple[Any, Piece]], owners: Rows, rows: Rows, start: int, end: int
) -> Piece:
    """RETURNS (Piece): Tokens `start` to `end` in one piece with arrays of its own."""
    bounds = [start, *(numpy.flatnonzero(numpy.diff(owners[start:end])) + start + 1).tolist(), end]
    parts = [(pieces[owners[a]][1], rows[a:b]) for a, b in zip(bounds, bounds[1:])]
    _check_same_sizes(doc, prefix, [piece for piece, _ in parts])
    mixes = {(tuple(piece["weights"]), piece["gamma"], piece["norm"]) for piece, _ in parts}
    whole = _make_piece(doc, start, end)
    whole.update({name: parts[0][0][name] for name in ("weights", "gamma", "norm")})
    if all("layers" in piece for piece, _ in parts):
        whole["layers"] = _concatenate(
            [piece["layers"][:, _indices(piece["layers"], part_rows)] for piece, part_rows in parts], axis=1
        )
    if len(mixes) > 1 or any("mixed" in piece for piece, _ in parts):
        whole["mixed"] = _concatenate([_mixed_rows(piece, part_rows) for piece, part_rows in parts], axis=0)
    return whole


def _check_same_sizes(doc: Doc, prefix: str, pieces: Sequence[Piece]) -> None:
    widths = {piece[name].shape[-1] for piece in pieces for name in ("mixed", "layers") if name in piece}
    counts = {len(piece["layers"]) for piece in pieces if "layers" in piece}
    if len(widths) > 1 or len(counts) > 1:
        found = f"widths {sorted(widths)}, numbers of layers {sorted(counts)}"
        raise ValueError(Errors.EL092.format(name=prefix, text=doc.text[:40], found=found))


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


def _make_piece(doc: Doc, start: int, end: int) -> Piece:
    """RETURNS (Piece): A piece for a run of tokens, without vectors yet."""
    starts = _starts(doc)[start:end]
    piece = Piece(
        starts=starts - starts[:1],
        orths=_orths(doc)[start:end],
        n_chars=int(starts[-1] - starts[0]) + len(doc[end - 1]) if end > start else 0,  # no copy of a long text
        first=start,
        n_tokens=len(doc),
        n_carried=0,
    )
    piece.is_checked = True
    return piece


def _put_piece(doc: Doc, prefix: str, piece: Piece, first_char: int) -> None:
    """Keep a piece on the Doc that it was made for."""
    user_data: Dict[Any, Any] = doc.user_data
    user_data[("._.", _data_name(prefix), first_char, _fingerprint(piece) + first_char)] = piece


def _fingerprint(piece: Piece) -> int:
    """RETURNS (int): A number that depends on the content.

    It stands where the last character would: spaCy only ever shifts both, so that keys of different pieces stay
    different wherever they are shifted to.
    """
    digest = blake2b(piece["starts"], digest_size=5)
    digest.update(piece["orths"])
    for name in ("mixed", "layers"):
        if name in piece:
            digest.update(to_numpy(piece[name].sum(axis=-2, dtype="float32")).tobytes())
    return int.from_bytes(digest.digest(), "little")


def _find_pieces(doc: Doc, prefix: str) -> List[Tuple[Any, Piece]]:
    """RETURNS (List[Tuple[Any, Piece]]): The pieces of a Doc, with their keys, all of them checked."""
    found = [(key, doc.user_data[key]) for key in _piece_keys(doc, prefix)]
    for key, piece in found:
        if not getattr(piece, "is_checked", False):
            _check_piece(doc, prefix, key, piece)
    return found


def _check_piece(doc: Doc, prefix: str, key: Any, piece: Any) -> None:
    problems = find_problems(piece, key[2])
    if problems:
        raise ValueError(Errors.EL090.format(name=prefix, text=doc.text[:40], problems="; ".join(problems)))
    if has_wild_values(piece):
        raise ValueError(Errors.EL091.format(name=prefix, text=doc.text[:40]))
    if isinstance(piece, Piece):
        piece.is_checked = True


def _piece_keys(doc: Doc, prefix: str) -> List[Any]:
    name = _data_name(prefix)
    return [key for key in doc.user_data if _is_piece_key(key, name)]


def _is_piece_key(key: Any, name: str) -> bool:
    return isinstance(key, tuple) and len(key) == 4 and key[0] == "._." and key[1] == name


def _data_name(prefix: str) -> str:
    return f"{prefix}_data"


def _starts(doc: Doc) -> Rows:
    """RETURNS (Rows): The first character of each token."""
    return doc.to_array(IDX).astype("int64")


def _orths(doc: Doc) -> NDArray[numpy.uint64]:
    """RETURNS (NDArray[numpy.uint64]): The hash of each token's text."""
    orths: NDArray[numpy.uint64] = doc.to_array(ORTH)  # type: ignore[assignment]  # an array of uint64
    return orths
