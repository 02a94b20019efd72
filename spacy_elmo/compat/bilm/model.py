"""`BidirectionalLanguageModel` of bilm-tf without TensorFlow: arrays of ids in, arrays of layers out."""

from pathlib import Path
from typing import Any, Dict, NoReturn, Optional

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...bilm.state import BiLMState
from ...errors import Errors
from ...inference.dispatch import MAX_LANES
from ...inference.isolation import isolated
from ...inference.runner import make_runner
from ...inference.words import WordEncoder
from ...text.lanes import plan_lanes
from ...weights import load_bilm
from ...weights.hdf5 import read_hdf5
from ...weights.sources import Source
from ..arguments import ConfigurationError, PathLike, check_count, check_file

EMBEDDING = "embedding"  # dataset with the vectors of a vocabulary

Ids = NDArray[np.int64]


class BidirectionalLanguageModel:
    """Called with ids, it returns arrays; in bilm-tf it is called with a placeholder and returns operations.

    The state of the LSTMs is carried from call to call, row by row, as in a session of bilm-tf.

    options_file (PathLike): options.json.
    weight_file (PathLike): HDF5 file with the weights.
    use_character_inputs (bool): Read character ids of `Batcher`; otherwise word ids of `TokenBatcher`.
    embedding_weight_file (Optional[PathLike]): For word ids: HDF5 file of `dump_token_embeddings`.
    max_batch_size (int): Rows of the state, and so of a batch.
    RAISES (ValueError): EL330 to EL333 for missing files and invalid arguments, also for files that cannot be
        read.
    """

    @isolated
    def __init__(
        self,
        options_file: PathLike,
        weight_file: PathLike,
        use_character_inputs: bool = True,
        embedding_weight_file: Optional[PathLike] = None,
        max_batch_size: int = 128,
    ) -> None:
        self._max_batch_size = check_count("max_batch_size", max_batch_size)
        options = check_file("options_file", options_file)
        network = load_bilm(options=options, weights=check_file("weight_file", weight_file)).network
        self.config = network.config
        if self.config.char_cnn is None:
            raise _refuse("input of the biLM", "whole words", "characters, with word vectors in embedding_weight_file")
        self._table: Optional[Tensor] = None
        if not use_character_inputs:
            path = check_file("embedding_weight_file", embedding_weight_file)
            self._table = _read_table(path, self.config.projection_width)
        self._words, self._runner = WordEncoder(network, None, None), make_runner(network)
        self._state = BiLMState.from_state(network.zero_state(max_batch_size))

    @isolated
    def __call__(self, ids_placeholder: Ids) -> Dict[str, Any]:
        """Compute a batch.

        ids_placeholder (Ids): The ids themselves, shape (B, T + 2, C) of `Batcher`, or (B, T + 2) of `TokenBatcher`.
        RETURNS (Dict[str, Any]): `lm_embeddings` (B, L+1, T, D) and `mask` (B, T), without boundaries and with zeros
            for padding; `lengths` (B,); `token_embeddings` (B, T + 2, P).
        RAISES (ValueError): EL017 for invalid ids, EL332 for a batch above `max_batch_size`.
        """
        ids = self._check(np.asarray(ids_placeholder))
        mask: NDArray[np.bool_] = np.asarray((ids > 0).reshape(*ids.shape[:2], -1).any(axis=2))  # (B, T + 2)
        lengths = _check_lengths(mask)
        distinct, numbers = np.unique(ids[mask], axis=0, return_inverse=True)
        vectors, tokens = self._encode(distinct), numbers.reshape(-1).astype("int64")
        rows = self._run(vectors, tokens, lengths)  # (L+1, N, D)
        inner = mask[:, 2:]  # the rows are shifted by one, and each sentence has two fewer
        is_word = np.zeros_like(mask)
        is_word[:, 1:-1] = inner
        layers = np.zeros((len(mask), len(rows), inner.shape[1], rows.shape[2]), dtype="float32")
        for k, layer in enumerate(rows):
            layers[:, k][inner] = layer[is_word[mask]]
        embeddings = np.zeros((*mask.shape, vectors.shape[1]), dtype="float32")
        embeddings[mask] = vectors.numpy()[tokens]
        return {
            "lm_embeddings": layers,
            "lengths": lengths - 2,
            "token_embeddings": embeddings,
            "mask": inner,
        }

    def _run(self, vectors: Tensor, tokens: Ids, lengths: Ids) -> NDArray[np.float32]:
        start = BiLMState(self._state.h[:, : len(lengths)], self._state.c[:, : len(lengths)])
        plan = plan_lanes(lengths.tolist(), MAX_LANES)
        rows, end = self._runner.run(vectors, (tokens, tokens), plan, start.to_state(self.config), with_end=True)
        assert end is not None  # asked for
        after = BiLMState.from_state(end)
        self._state.h[:, : len(lengths)], self._state.c[:, : len(lengths)] = after.h, after.c
        found: NDArray[np.float32] = rows.numpy()
        return found

    def _encode(self, ids: Ids) -> Tensor:
        """ids (Ids): Shape (U, C), or (U,) for word ids.
        RETURNS (Tensor): Shape (U, P).
        """
        if self._table is not None:
            return self._table[torch.from_numpy(ids - 1)]
        is_content = ids != ids[:, -1:]  # the last id of a word is its padding
        with torch.no_grad():
            return self._words.encode_ids(ids, (is_content * np.arange(1, ids.shape[1] + 1)).max(axis=1))

    def _check(self, ids: NDArray[Any]) -> Ids:
        characters, table = self.config.char_cnn, self._table
        assert characters is not None
        wanted, largest = f"(B, T + 2, {characters.max_characters})", characters.n_characters
        is_fit = ids.ndim == 3 and ids.shape[2] == characters.max_characters
        if table is not None:
            wanted, largest, is_fit = "(B, T + 2)", len(table), ids.ndim == 2
        if not is_fit:
            remedy = "" if table is not None else f", as `Batcher(vocab_file, {characters.max_characters})` makes them"
            raise _invalid(f"they have shape {ids.shape}, should have {wanted}{remedy}")
        if ids.dtype.kind not in "iu":
            raise _invalid(f"they are {ids.dtype}, should be int64")
        if not len(ids):
            raise ValueError(Errors.EL252)
        if not 0 <= ids.min() <= ids.max() <= largest:
            raise _invalid(f"they are {ids.min()} to {ids.max()}, should be 0 to {largest}")
        if len(ids) > self._max_batch_size:
            raise _refuse("batch size", len(ids), f"at most max_batch_size ({self._max_batch_size})")
        return ids.astype("int64")


def weight_layers(*args: Any, **settings: Any) -> NoReturn:
    """In bilm-tf it adds variables to a graph. RAISES (NotImplementedError): EL335, with what to use."""
    raise NotImplementedError(Errors.EL335.format(name="weight_layers", instead="`spacy_elmo.nn.ScalarMix`"))


def _check_lengths(mask: NDArray[np.bool_]) -> Ids:
    """RETURNS (Ids): Shape (B,), tokens of each row with its boundaries.
    RAISES (ValueError): EL017 for rows without boundaries, or with padding before the last token.
    """
    lengths: Ids = mask.sum(axis=1)
    if lengths.min() < 2:
        raise _invalid(f"row {lengths.argmin()} has {lengths.min()} tokens, should have 2 or more: `<S>` and `</S>`")
    if not np.array_equal(mask, np.arange(mask.shape[1]) < lengths[:, None]):
        raise _invalid("a row of zeros, which is padding, comes before the last token")
    return lengths


def _read_table(path: Path, width: int) -> Tensor:
    """RETURNS (Tensor): Shape (V, P)."""
    table = read_hdf5(Source(path)).get(EMBEDDING)
    if table is None or table.ndim != 2 or table.shape[1] != width:
        problem = f"dataset '{EMBEDDING}' {'is missing' if table is None else f'has shape {table.shape}'}"
        raise ValueError(Errors.EL029.format(path=path, problems=f"{problem}, should have shape (words, {width})"))
    return torch.from_numpy(table.astype("float32"))


def _invalid(problem: str) -> ValueError:
    return ValueError(Errors.EL017.format(problem=problem))


def _refuse(name: str, value: Any, wanted: str) -> ConfigurationError:
    return ConfigurationError(Errors.EL332.format(name=name, value=value, wanted=wanted))
