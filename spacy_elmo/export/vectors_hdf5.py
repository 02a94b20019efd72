"""Vectors in HDF5, as `allennlp elmo` of AllenNLP 0.9 wrote them: a dataset per text, named by its number."""

import json
from pathlib import Path
from typing import Dict

import h5py
import numpy as np
from spacy.tokens import Doc
from thinc.api import to_numpy

# What to write of each text, and what the component has to store for it.
VECTORS = {"all": "layers", "top": "layers", "average": "mixed"}
SENTENCES = "sentence_to_index"


class Hdf5Writer:
    """Writes the vectors of Docs one by one. Only the texts are held in memory, if they are wanted.

    path (Path): Output, a new file.
    vectors (str): "all" layers (L+1, T, D), the "top" layer (T, D), or the "average" of the layers (T, D).
    has_sentences (bool): Also write `sentence_to_index`, a JSON object that maps each text to its number as a string;
        of equal texts the last one counts, as in AllenNLP.
    """

    def __init__(self, path: Path, vectors: str = "all", *, has_sentences: bool = True) -> None:
        self.vectors = vectors
        self.has_sentences = has_sentences
        self._file = h5py.File(path, "w")
        self._index: Dict[str, str] = {}
        self._n_docs = 0

    def begin(self, doc: Doc) -> None:
        """doc (Doc): Not used."""

    def add(self, doc: Doc) -> None:
        """doc (Doc): A Doc with vectors; a Doc without tokens gets an array without rows."""
        name = str(self._n_docs)
        values = to_numpy(doc._.elmo if VECTORS[self.vectors] == "mixed" else doc._.elmo_layers)
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
