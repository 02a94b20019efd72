"""Vectors in HDF5, as `allennlp elmo` of AllenNLP 0.9 wrote them: a dataset per text, named by its number."""

import json
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional

import h5py
import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.api import to_numpy

# What to write of each text, and what the component has to store for it.
VECTORS = {"all": "layers", "top": "layers", "average": "mixed"}
SENTENCES = "sentence_to_index"


# Ways to make one vector of those of a text's tokens.
POOLS: Dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "mean": lambda rows: rows.mean(axis=-2, dtype="float32"),
    "first": lambda rows: rows[..., 0, :],
    "last": lambda rows: rows[..., -1, :],
    "max": lambda rows: rows.max(axis=-2),
}


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


class Hdf5Writer:
    """Writes the vectors of Docs one by one. Only the texts are held in memory, if they are wanted.

    path (Path): Output, a new file.
    vectors (str): "all" layers (L+1, T, D), the "top" layer (T, D), or the "average" of the layers (T, D).
    has_sentences (bool): Also write `sentence_to_index`, a JSON object that maps each text to its number as a string;
        of equal texts the last one counts, as in AllenNLP.
    pool (Optional[str]): One vector per text, see `read_vectors`: arrays (L+1, D) and (D,).
    """

    def __init__(
        self, path: Path, vectors: str = "all", *, has_sentences: bool = True, pool: Optional[str] = None
    ) -> None:
        self.vectors, self.has_sentences, self.pool = vectors, has_sentences, pool
        self._file = h5py.File(path, "w")
        self._index: Dict[str, str] = {}
        self._n_docs = 0

    def begin(self, doc: Doc) -> None:
        """doc (Doc): Not used."""

    def add(self, doc: Doc, user_data: Optional[Mapping[Any, Any]] = None) -> None:
        """doc (Doc): A Doc with vectors; a Doc without tokens gets an array without rows, or zeros if it is pooled.
        user_data (Optional[Mapping[Any, Any]]): Not used.
        """
        name = str(self._n_docs)
        values = read_vectors(doc, VECTORS[self.vectors], self.pool)
        self._file.create_dataset(name, data=np.ascontiguousarray(values[-1] if self.vectors == "top" else values))
        if self.has_sentences:
            self._index[doc.text.strip()] = name
        self._n_docs += 1

    def finish(self) -> None:
        """Write the index of texts, after the last Doc."""
        if self.has_sentences:
            index = self._file.create_dataset(SENTENCES, (1,), dtype=h5py.string_dtype())
            index[0] = json.dumps(self._index)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
