"""The arrays for the vectors of one Doc."""

from typing import Any, Dict, Optional, Sequence

from thinc.types import Floats3d
from thinc.util import get_array_module

from ..errors import Errors
from ..ml.doc_vectors import DocVectors
from ..ml.mixing import equal_weights, mix_layers


def alloc_vectors(
    xp: Any, mix: Dict[str, Any], *, layers_shape: Sequence[int], dtype: str, has_mixed: bool, has_layers: bool
) -> DocVectors:
    """Allocate the arrays of a Doc, filled with zeros.

    xp (Any): NumPy or CuPy.
    mix (Dict[str, Any]): The component's mix: `weights`, `gamma`, `layer_norm`.
    layers_shape (Sequence[int]): (L+1, n, D).
    dtype (str): "float32" or "float16".
    has_mixed (bool): Whether to allocate mixed vectors.
    has_layers (bool): Whether to allocate layers.
    RETURNS (DocVectors): The arrays, and the mix.
    """
    return DocVectors(
        mixed=xp.zeros(tuple(layers_shape[1:]), dtype=dtype) if has_mixed else None,
        layers=xp.zeros(tuple(layers_shape), dtype=dtype) if has_layers else None,
        weights=equal_weights(mix["weights"], layers_shape[0]),
        gamma=float(mix["gamma"]),
        norm=mix["layer_norm"],
    )


def write_rows(vectors: DocVectors, rows: Any, layers: Floats3d) -> None:
    """Write the vectors of some tokens of a Doc.

    vectors (DocVectors): The arrays of the Doc.
    rows (Any): The tokens, ascending, shape (n,).
    layers (Floats3d): Their layers, shape (L+1, n, D).
    """
    if not len(rows):
        return
    first, last = int(rows[0]), int(rows[-1])
    has_gaps = last - first + 1 != len(rows)  # due to space tokens
    places = get_array_module(layers).asarray(rows) if has_gaps else slice(first, last + 1)
    if vectors.layers is not None:
        vectors.layers[:, places] = layers
    if vectors.mixed is not None:
        vectors.mixed[places] = mix_layers(layers, vectors.weights, vectors.gamma, vectors.norm)


def check_weights(name: str, weights: Optional[Sequence[float]], n_layers: int) -> None:
    """name (str): Of the ELMo component.
    weights (Optional[Sequence[float]]): Raw weights of its own mix.
    n_layers (int): Layers of its biLM, L+1.
    RAISES (ValueError): EL069 if the numbers of weights and layers differ.
    """
    if weights is not None and len(weights) != n_layers:
        sizes = {"n_weights": len(weights), "weights": list(weights), "n_layers": n_layers}
        raise ValueError(Errors.EL069.format(setting=f"mix.weights of '{name}'", **sizes))
